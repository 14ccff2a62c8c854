//! Terminals of a sandbox's commands: our end of a pseudoterminal, and the end that a command gets as stdin, stdout
//! and stderr.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Mutex;

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters per line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// Our end.
#[derive(Debug)]
pub(super) struct Terminal {
    fd: OwnedFd,
    typed: Mutex<Sender>,
}

/// The ends of a new terminal.
pub(super) struct Ends {
    pub(super) terminal: Terminal,
    /// The output of the command's side. On Linux, reading fails once no process has that side open.
    pub(super) shown: Receiver,
    /// The command's end.
    pub(super) theirs: OwnedFd,
}

impl Terminal {
    /// Opens a new terminal.
    pub(super) fn open(size: TerminalSize) -> io::Result<Ends> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let fd = openpt(flags)?;
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        grantpt(&fd)?;
        unlockpt(&fd)?;
        let name = ptsname(&fd, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = open(name.as_c_str(), flags, Mode::empty())?;
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        let shown = Receiver::from_owned_fd_unchecked(fd.try_clone()?)?;
        let typed = Mutex::new(Sender::from_owned_fd_unchecked(fd.try_clone()?)?);
        let terminal = Self { fd, typed };
        terminal.resize(size)?;
        Ok(Ends {
            terminal,
            shown,
            theirs,
        })
    }

    /// Sets the size that the command's side sees.
    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize {
            ws_col: size.columns,
            ws_row: size.rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.fd, size)?)
    }

    /// Types all of `bytes`.
    pub(super) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.typed.lock().await.write_all(bytes).await
    }
}

/// Kills the remaining processes of a shell's session, if `/proc` lists processes.
pub(super) fn end_session(leader: Pid) {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in all {
        let pid = entry.file_name().to_str().and_then(|it| it.parse().ok());
        let stat = std::fs::read_to_string(entry.path().join("stat"));
        let session = stat.ok().and_then(|it| session_of(&it));
        // A session's number is not reused while one of its processes lives.
        if session == Some(leader.as_raw_nonzero().get())
            && let Some(pid) = pid.and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn session_of(stat: &str) -> Option<i32> {
    // The name in parentheses can contain anything; the state, parent, group and session follow it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[test]
    fn the_session_of_a_process_with_any_name() {
        let stat = "4321 (a) S 1 1 7 (b) S 1 4320 4319 34816 4321 4194304";
        assert_eq!(session_of(stat), Some(4319));
        assert_eq!(session_of("1 (x"), None);
    }

    #[tokio::test]
    async fn both_ends_of_a_terminal() {
        let size = TerminalSize {
            columns: 80,
            rows: 24,
        };
        let Ends {
            terminal,
            mut shown,
            theirs,
        } = Terminal::open(size).unwrap();
        let seen = rustix::termios::tcgetwinsize(&theirs).unwrap();
        assert_eq!((seen.ws_col, seen.ws_row), (80, 24));
        terminal.write_all(b"typed\n").await.unwrap();
        let mut line = [0; 16];
        let read = rustix::io::read(&theirs, &mut line).unwrap();
        assert_eq!(&line[..read], b"typed\n");
        rustix::io::write(&theirs, b"shown\n").unwrap();
        drop(theirs);
        let mut all = Vec::new();
        let _ = shown.read_to_end(&mut all).await;
        // Typed text is echoed.
        assert_eq!(all, b"typed\r\nshown\r\n");
    }
}
