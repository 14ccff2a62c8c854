//! Runs the command that prints a key: `api-key-command` in config.toml.
//!
//! Its stdout is the key: neither logs nor errors repeat a byte of it. On failure the last line of its stderr is passed
//! on.

use std::time::Duration;

use tokio::process::Command;

use super::endpoint::Secret;
use super::providers::KeyCommand;
use crate::program;

/// Time limit: a person may have to unlock something.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Maximum bytes of a key.
const LONGEST: usize = 64 << 10;

/// Maximum characters of the command's message in an error.
const WORDS: usize = 200;

/// The key that `command` prints within `limit`. The command inherits this process's environment.
pub async fn run(command: &KeyCommand, limit: Duration) -> Result<Secret, KeyCommandError> {
    let process = match command {
        KeyCommand::Shell(line) => {
            let mut process = Command::new("sh");
            process.args(["-c", line]);
            process
        }
        KeyCommand::Words(words) => {
            let [program, arguments @ ..] = words.as_slice() else {
                return Err(KeyCommandError::Empty);
            };
            let mut process = Command::new(program);
            process.args(arguments);
            process
        }
    };
    let said = program::output(process, limit).await.map_err(|error| {
        if error.kind() == std::io::ErrorKind::TimedOut {
            return KeyCommandError::TooSlow { after: limit };
        }
        KeyCommandError::NotStarted {
            message: error.to_string(),
        }
    })?;
    if !said.status.success() {
        return Err(KeyCommandError::Failed {
            status: said.status.to_string(),
            words: said.last_words().chars().take(WORDS).collect(),
        });
    }
    if said.stdout.len() > LONGEST {
        return Err(KeyCommandError::NoKey);
    }
    let key = String::from_utf8(said.stdout).map_err(|_| KeyCommandError::NoKey)?;
    let key = key.trim();
    if key.is_empty() || key.contains(|char: char| char.is_control()) {
        return Err(KeyCommandError::NoKey);
    }
    Ok(Secret::new(key))
}

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyCommandError {
    /// The list has no words.
    #[error("it is empty")]
    Empty,
    /// The program could not be started.
    #[error("it could not be started: {message}")]
    NotStarted {
        /// What the operating system said.
        message: String,
    },
    /// It took too long and was killed.
    #[error("it took longer than {} s", .after.as_secs())]
    TooSlow {
        /// How long it had.
        after: Duration,
    },
    /// It failed.
    #[error("it failed ({status}){}{words}", if .words.is_empty() { "" } else { ": " })]
    Failed {
        /// The exit status in the operating system's words.
        status: String,
        /// The last line that it wrote to stderr.
        words: String,
    },
    /// It printed nothing, or more than one line of text.
    #[error("it did not print one line with a key")]
    NoKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> KeyCommand {
        KeyCommand::Shell(line.to_owned())
    }

    #[tokio::test]
    async fn the_line_it_prints_is_the_key() {
        let words = ["printf", "%s", "sk-words"].map(str::to_owned).to_vec();
        let cases = [
            (shell("echo '  sk-shell  '; echo noise >&2"), "sk-shell"),
            (KeyCommand::Words(words), "sk-words"),
        ];
        for (command, expected) in cases {
            assert_eq!(run(&command, LIMIT).await, Ok(Secret::new(expected)));
        }
    }

    #[tokio::test]
    async fn what_goes_wrong_is_told_without_the_key() {
        let failed = KeyCommandError::Failed {
            status: "exit status: 3".to_owned(),
            words: "locked".to_owned(),
        };
        let cases = [
            (
                shell("echo sk-secret; echo first >&2; echo locked >&2; exit 3"),
                failed,
            ),
            (shell("true"), KeyCommandError::NoKey),
            (shell("printf 'two\\nlines\\n'"), KeyCommandError::NoKey),
            (KeyCommand::Words(Vec::new()), KeyCommandError::Empty),
        ];
        for (command, expected) in cases {
            let error = run(&command, LIMIT).await.unwrap_err();
            assert!(!error.to_string().contains("sk-secret"));
            assert_eq!(error, expected);
        }
        let missing = KeyCommand::Words(vec!["/no/such/program".to_owned()]);
        let error = run(&missing, LIMIT).await.unwrap_err();
        assert!(
            matches!(error, KeyCommandError::NotStarted { .. }),
            "{error}"
        );
    }

    #[tokio::test]
    async fn one_that_hangs_is_killed_with_all_it_started() {
        let limit = Duration::from_millis(200);
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("pid");
        let line = format!("sleep 600 & echo $! > '{}'; wait", mark.display());
        let error = run(&shell(&line), limit).await.unwrap_err();
        assert_eq!(error, KeyCommandError::TooSlow { after: limit });
        // Under load the shell may not have got this far.
        if let Ok(pid) = std::fs::read_to_string(&mark)
            && let Ok(pid) = pid.trim().parse::<u32>()
        {
            let gone = || {
                std::fs::read_to_string(format!("/proc/{pid}/stat"))
                    .map_or(true, |stat| stat.contains(") Z "))
            };
            while !gone() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}
