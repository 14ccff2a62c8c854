//! Runs programs that print an answer and exit, such as `pip config list`.
//!
//! Each runs in its own process group, with a time limit and a limit on its output. Dropping the future kills the whole
//! group.
//!
//! Deliberately not here: kernels (`kernel::host`) and the model server (`llm::local`), which keep running and are
//! watched.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// Most bytes kept of each output.
const KEPT: u64 = 1 << 20;

/// A program's output and exit status.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl ProgramOutput {
    /// Its stdout, if it succeeded.
    pub(crate) fn printed(&self) -> Option<String> {
        let text = || String::from_utf8_lossy(&self.stdout).into_owned();
        self.status.success().then(text)
    }

    /// The last line on stderr that is not blank.
    pub(crate) fn last_words(&self) -> String {
        let words = String::from_utf8_lossy(&self.stderr);
        let last = words.lines().rfind(|line| !line.trim().is_empty());
        last.unwrap_or_default().trim().to_owned()
    }
}

/// Runs a program to its end, without input.
///
/// # Errors
/// If it cannot be started; [`io::ErrorKind::TimedOut`] if it takes longer than `limit`, which kills it and its
/// children.
pub(crate) async fn output(mut command: Command, limit: Duration) -> io::Result<ProgramOutput> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, group) = started(command)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = tokio::time::timeout(limit, async {
        let (stdout, stderr) = tokio::join!(kept(stdout), kept(stderr));
        let status = child.wait().await?;
        Ok::<_, io::Error>(ProgramOutput {
            status,
            stdout,
            stderr,
        })
    });
    let said = ended
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    // Processes that it left in the background keep running.
    group.release();
    Ok(said)
}

/// Starts a program without input. Dropping the [`Group`] kills it.
pub(crate) fn started(mut command: Command) -> io::Result<(Child, Group)> {
    // The terminal's interrupts must not reach it.
    let child = command
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group(child.id());
    Ok((child, group))
}

/// The process group of a program; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Group(Option<u32>);

impl Group {
    /// The program has ended, and its id may be reused soon.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| i32::try_from(id).ok());
        if let Some(leader) = leader.and_then(Pid::from_raw) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// The beginning of the output; the rest is read and dropped, so that the program does not block.
async fn kept(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(mut from) = from {
        let _ = (&mut from).take(KEPT).read_to_end(&mut text).await;
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        command
    }

    #[tokio::test]
    async fn what_it_says_is_bounded_and_it_can_go_on() {
        let said = output(
            shell("head -c 3000000 /dev/zero; echo; echo no >&2; exit 3"),
            Duration::from_mins(1),
        );
        let said = said.await.unwrap();
        assert_eq!(said.stdout.len() as u64, KEPT);
        assert_eq!((said.last_words().as_str(), said.printed()), ("no", None));
        assert_eq!(said.status.code(), Some(3));
    }

    #[tokio::test]
    async fn one_that_takes_too_long_goes_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let line = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let error = output(shell(&line), Duration::from_secs(1))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let pid: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        let gone = async {
            while rustix::process::test_kill_process(pid).is_ok() && !is_dead(pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .unwrap();
    }

    /// Whether it is a zombie.
    fn is_dead(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    }
}
