//! Our end of a kernel's network: where its connections arrive, and the files for name lookup in its namespace.
//!
//! The socket is in the kernel's private directory, beside the part that the kernel shares with us, so code can reach
//! it but cannot replace it. The gate lives as long as that directory: through copies of the kernel, and again in the
//! process that takes over a kept kernel.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

use super::inside::{self, PROXY_PORT};
use super::policy::Policy;
use super::proxy::Proxy;
use super::record::{Book, Refusals};
use super::serve;
use crate::kernel::sandbox::policy::Confinement;
use crate::kernel::sandbox::tier::{CageKind, Tier};
use crate::task::{self, Task};

/// Most connections of a kernel at a time; further ones wait.
const CONNECTIONS: usize = 128;
/// Delay after a failed accept, usually for lack of file descriptors.
const AGAIN: Duration = Duration::from_millis(200);
const SOCKET: &str = "s";
/// File with the port, for the process that takes the kernel over.
const PORT: &str = "port";
/// User name for the proxy over TCP.
const USER: &str = "sandbox";

/// The files that configure name lookup in a namespace, and their contents.
const FILES: [(&str, &str); 3] = [
    (
        "/etc/resolv.conf",
        "nameserver 127.0.0.1\noptions timeout:3 attempts:1\n",
    ),
    (
        "/etc/hosts",
        "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 sandbox\n",
    ),
    (
        "/etc/nsswitch.conf",
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
    ),
];

/// Serves the connections of one kernel until it ends.
#[derive(Debug)]
pub(in crate::kernel) struct Gate {
    book: Arc<Book>,
    place: GateAddress,
    _serving: Task,
}

/// How a kernel reaches the gate.
#[derive(Debug)]
enum GateAddress {
    /// In a namespace: through a socket in this directory.
    Socket { dir: PathBuf, rules: Vec<String> },
    /// At a port on loopback, with a secret password.
    Port { port: u16, word: String },
}

impl Gate {
    /// Opens the gate in `dir`, which may contain that of an earlier process.
    ///
    /// # Errors
    /// If its files or sockets cannot be created.
    pub(in crate::kernel) async fn open(dir: &Path, confinement: &Confinement) -> io::Result<Self> {
        let policy = confinement.network_policy();
        let book = Arc::new(Book {
            connections: confinement.network_context.connections.clone(),
            refusals: Refusals::default(),
            allowed: policy.words().to_owned(),
        });
        std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(dir)?;
        match confinement.tier {
            Tier::Bubblewrap { .. } | Tier::Gvisor { .. } => Self::at_socket(dir, policy, book),
            Tier::Landlock | Tier::Seatbelt => Self::at_port(dir, policy, book).await,
        }
    }

    fn at_socket(dir: &Path, policy: Policy, book: Arc<Book>) -> io::Result<Self> {
        for (path, content) in FILES {
            std::fs::write(dir.join(name(path)), content)?;
        }
        let socket = dir.join(SOCKET);
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&socket)?;
        let rules = policy.rules().iter().map(ToString::to_string).collect();
        let proxy = Arc::new(Proxy {
            policy,
            book: Arc::clone(&book),
            authorization: None,
        });
        Ok(Self {
            book,
            place: GateAddress::Socket {
                dir: dir.to_owned(),
                rules,
            },
            _serving: task::spawn("network", serve(Listener::Socket(listener), proxy)),
        })
    }

    async fn at_port(dir: &Path, policy: Policy, book: Arc<Book>) -> io::Result<Self> {
        let file = dir.join(PORT);
        let before = std::fs::read_to_string(&file).ok();
        let before = before.as_deref().and_then(|text| {
            let (port, word) = text.trim().split_once(' ')?;
            Some((port.parse().ok()?, word.to_owned()))
        });
        let (port, word) = before.unwrap_or_else(|| (0, uuid::Uuid::new_v4().simple().to_string()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let mut private = std::fs::OpenOptions::new();
        let written = private.write(true).create(true).truncate(true).mode(0o600);
        io::Write::write_all(
            &mut written.open(&file)?,
            format!("{port} {word}").as_bytes(),
        )?;
        let credentials =
            base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{word}"));
        let proxy = Arc::new(Proxy {
            policy,
            book: Arc::clone(&book),
            authorization: Some(format!("Basic {credentials}")),
        });
        Ok(Self {
            book,
            place: GateAddress::Port { port, word },
            _serving: task::spawn("network", serve(Listener::Port(listener), proxy)),
        })
    }

    /// What the first process inside does for the gate. In gVisor it stays root, but only of gVisor.
    pub(in crate::kernel::sandbox) fn inside(&self, kind: CageKind) -> Option<inside::Order> {
        match &self.place {
            GateAddress::Socket { dir, rules } => Some(inside::Order {
                socket: dir.join(SOCKET),
                rules: rules.clone(),
                person: person().filter(|_| kind == CageKind::Namespaces),
            }),
            GateAddress::Port { .. } => None,
        }
    }

    /// Extra bubblewrap options that let the first process bind ports 80 and 443. It drops these rights before it
    /// starts the kernel.
    pub(in crate::kernel::sandbox) fn options(&self) -> &'static [&'static str] {
        const PORTS: &[&str] = &["--cap-add", "CAP_NET_BIND_SERVICE"];
        // A user map that includes root needs the second capability.
        const AS_ROOT: &[&str] = &[
            "--cap-add",
            "CAP_NET_BIND_SERVICE",
            "--cap-add",
            "CAP_SETFCAP",
            "--uid",
            "0",
            "--gid",
            "0",
        ];
        match (&self.place, person()) {
            (GateAddress::Port { .. }, _) => &[],
            (GateAddress::Socket { .. }, Some(_)) => AS_ROOT,
            (GateAddress::Socket { .. }, None) => PORTS,
        }
    }

    /// Files to mount for the gate: paths outside, and inside.
    pub(in crate::kernel::sandbox) fn mounts(&self) -> Vec<(PathBuf, PathBuf)> {
        match &self.place {
            GateAddress::Socket { dir, .. } => {
                let files = FILES.map(|(path, _)| (dir.join(name(path)), path.into()));
                let own = (dir.clone(), dir.clone());
                std::iter::once(own).chain(files).collect()
            }
            GateAddress::Port { .. } => Vec::new(),
        }
    }

    /// Whether the gate has its own file for a path inside.
    pub(in crate::kernel::sandbox) fn replaces(path: &Path) -> bool {
        FILES.iter().any(|(own, _)| path == Path::new(own))
    }

    /// The port, if the gate is reached over TCP.
    pub(in crate::kernel::sandbox) fn port(&self) -> Option<u16> {
        match &self.place {
            GateAddress::Socket { .. } => None,
            GateAddress::Port { port, .. } => Some(*port),
        }
    }

    /// Proxy variables for programs.
    pub(in crate::kernel::sandbox) fn env(&self) -> Vec<(String, String)> {
        let url = match &self.place {
            GateAddress::Socket { .. } => format!("http://127.0.0.1:{PROXY_PORT}"),
            GateAddress::Port { port, word } => format!("http://{USER}:{word}@127.0.0.1:{port}"),
        };
        let none = "localhost,127.0.0.1,::1".to_owned();
        let all = [
            ("HTTP_PROXY", &url),
            ("HTTPS_PROXY", &url),
            ("ALL_PROXY", &url),
            ("NO_PROXY", &none),
        ];
        let both = all.iter().flat_map(|(name, value)| {
            [(*name).to_owned(), name.to_ascii_lowercase()].map(|name| (name, (*value).clone()))
        });
        both.collect()
    }

    /// Waits for refusals and returns them as text. Cancel-safe.
    pub(in crate::kernel) async fn refusals(&self) -> Vec<String> {
        self.book.refusals.some().await;
        self.book.refusals.take()
    }

    /// The same without waiting.
    pub(in crate::kernel) fn take_refusals(&self) -> Vec<String> {
        self.book.refusals.take()
    }
}

/// Our user and group id, unless we are root.
fn person() -> Option<(u32, u32)> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    (!user.is_root()).then(|| (user.as_raw(), group.as_raw()))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

enum Listener {
    Socket(UnixListener),
    Port(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Either<UnixStream, TcpStream>> {
        Ok(match self {
            Self::Socket(listener) => Either::Left(listener.accept().await?.0),
            Self::Port(listener) => Either::Right(listener.accept().await?.0),
        })
    }
}

/// Accepts and serves connections. All are of one kernel and end with this.
async fn serve(listener: Listener, proxy: Arc<Proxy>) {
    let mut served = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if served.len() < CONNECTIONS => match accepted {
                Ok(stream) => served.push(serve::serve(stream, Arc::clone(&proxy))),
                Err(error) => {
                    tracing::debug!(%error, "no connection of a confined kernel was accepted");
                    tokio::time::sleep(AGAIN).await;
                }
            },
            Some(()) = served.next(), if !served.is_empty() => {}
        }
    }
}
