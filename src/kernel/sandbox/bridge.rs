//! For kernels that support only TCP: in their own network namespace their ports are out of our reach, so connections
//! to unix sockets are forwarded to the ports.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long a kernel may take to listen.
const PATIENCE: Duration = Duration::from_mins(2);
const AGAIN: Duration = Duration::from_millis(15);

/// Sockets `<prefix>-1` to `-5`, and the port that each leads to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Bridge {
    pub(super) prefix: PathBuf,
    pub(super) ports: [u16; 5],
}

impl Bridge {
    /// Starts listening, on threads that end with the process.
    pub(super) fn open(&self) -> io::Result<()> {
        for (n, port) in (1..).zip(self.ports) {
            let path = format!("{}-{n}", self.prefix.display());
            let listener = UnixListener::bind(path)?;
            std::thread::spawn(move || {
                while let Ok((near, _)) = listener.accept() {
                    std::thread::spawn(move || carry(&near, port));
                }
            });
        }
        Ok(())
    }
}

/// Copies both ways until both sides have ended.
fn carry(near: &UnixStream, port: u16) -> io::Result<()> {
    let begun = Instant::now();
    let far = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(far) => break far,
            Err(error) if begun.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(AGAIN),
        }
    };
    far.set_nodelay(true)?;
    let (mut near_in, mut far_out) = (near.try_clone()?, far.try_clone()?);
    let outward = std::thread::spawn(move || {
        let _ = io::copy(&mut near_in, &mut far_out);
        let _ = far_out.shutdown(Shutdown::Write);
    });
    let (mut far_in, mut near_out) = (far, near.try_clone()?);
    let _ = io::copy(&mut far_in, &mut near_out);
    let _ = near_out.shutdown(Shutdown::Both);
    let _ = outward.join();
    Ok(())
}
