//! One step that another program carries out: its latest line is sent as notices while it runs, its last lines are
//! shown if it fails.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{Notice, Notify};
use crate::error::{Failure, FailureKind};
use crate::program::output;

/// How many of its last lines are shown if it fails.
const LAST_LINES: usize = 15;
/// Time limit of a program that is only queried.
pub(super) const ASKED_WITHIN: Duration = Duration::from_mins(2);

/// Runs a program; its output is shown if it fails.
///
/// # Errors
/// A failure with its last lines.
pub(super) async fn run(
    what: &str,
    program: &Path,
    args: &[&str],
    notify: &Notify,
) -> Result<(), Failure> {
    run_with(what, program, args, &[], notify).await
}

/// The same with additional environment variables.
///
/// # Errors
/// A failure with its last lines.
pub(super) async fn run_with(
    what: &str,
    program: &Path,
    args: &[&str],
    env: &[(String, String)],
    notify: &Notify,
) -> Result<(), Failure> {
    notify.send(Notice::StepBegan {
        what: what.to_owned(),
    });
    let told = |line: &str| {
        notify.send(Notice::StepOutput {
            what: what.to_owned(),
            line: line.to_owned(),
        });
    };
    let ended = |done| {
        notify.send(Notice::StepEnded {
            what: what.to_owned(),
            done,
        });
    };
    let failed = |details: Option<&str>| {
        Failure::new(FailureKind::Failed, format!("{what} failed"))
            .details(details)
            .hint("the lines above say why: mostly the network, the disk, or a directory that cannot be written")
    };
    // In our process group: it may take any time and ask for a password, and Ctrl-C ends it together with us.
    let mut child = tokio::process::Command::new(program)
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            ended(false);
            failed(Some(&format!("{}: {error}", program.display())))
        })?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        ended(false);
        return Err(failed(None));
    };
    let mut out = BufReader::new(stdout).lines();
    let mut err = BufReader::new(stderr).lines();
    let (mut said, mut printed) = (VecDeque::new(), VecDeque::new());
    let (mut out_open, mut err_open) = (true, true);
    while out_open || err_open {
        tokio::select! {
            line = out.next_line(), if out_open => match line {
                Ok(Some(line)) => {
                    told(&line);
                    keep(&mut printed, line);
                }
                _ => out_open = false,
            },
            line = err.next_line(), if err_open => match line {
                Ok(Some(line)) => {
                    told(&line);
                    keep(&mut said, line);
                }
                _ => err_open = false,
            },
        }
    }
    let status = child.wait().await;
    let done = status.is_ok_and(|status| status.success());
    ended(done);
    if done {
        return Ok(());
    }
    // Some programs print errors on stdout.
    let last: Vec<String> = if said.is_empty() { printed } else { said }.into();
    Err(failed(Some(&last.join("\n"))))
}

fn keep(lines: &mut VecDeque<String>, line: String) {
    lines.push_back(line);
    if lines.len() > LAST_LINES {
        lines.pop_front();
    }
}

/// Whether a program runs successfully; its output is not shown.
pub(super) async fn succeeds(program: &Path, args: &[&str]) -> bool {
    let mut command = tokio::process::Command::new(program);
    command.args(args);
    let said = output(command, ASKED_WITHIN).await;
    said.is_ok_and(|said| said.status.success())
}
