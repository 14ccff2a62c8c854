//! Reads one key as an answer. Input that comes faster than a person types counts as a line, so nothing pasted
//! approves anything.
//!
//! Ctrl-C stays a signal. A key is not read once nobody waits for it.

use std::io::{ErrorKind, PipeReader, Stdin};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use rustyline::error::ReadlineError;

use super::super::eprint;

/// Maximum gap between pasted characters.
const PASTED_WITHIN: Duration = Duration::from_millis(25);
/// How long a person who types `yes` may take after its first letter.
const TYPED_WITHIN: Duration = Duration::from_millis(600);
/// Bytes to read at once.
const PIECE: usize = 4096;
/// Maximum bytes of a line.
const LINE: usize = 64 << 10;
/// Ctrl-D.
const END: u8 = 4;
/// Keys that erase a character.
const ERASES: [char; 2] = ['\u{7f}', '\u{8}'];

/// Reads a key, or a line that came at once. `given_up` is closed when nobody waits any more; a key typed after that
/// stays at the terminal, for the next prompt.
///
/// # Errors
/// The end of input; nobody waits; the terminal cannot be read.
pub(super) fn key(prompt: &str, given_up: Option<&PipeReader>) -> Result<String, ReadlineError> {
    let keys = Keys::start(Control::IsSignal)?;
    eprint(prompt);
    loop {
        let mut bytes = match keys.read_or(PIECE, None, given_up)? {
            Read::GivenUp => return Err(ReadlineError::Interrupted),
            Read::Nothing => continue,
            Read::End => return Err(ReadlineError::Eof),
            Read::Bytes(bytes) => bytes,
        };
        while bytes.len() < LINE
            && let Read::Bytes(more) = keys.read(PASTED_WITHIN)?
        {
            bytes.extend(more);
        }
        if bytes.first() == Some(&END) {
            eprint("\n");
            return Err(ReadlineError::Eof);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // Arrows and similar keys have no meaning here.
        if text.starts_with('\u{1b}') {
            continue;
        }
        let text = as_edited(&text);
        if !text.is_empty() {
            return Ok(text);
        }
    }
}

/// Reads and drops the rest of a typed word such as `yes`: its first letter was the answer, and the rest must not begin
/// the next line. Returns what is no such rest: the next line begins with it.
pub(super) fn swallow_rest(answer: &str) -> String {
    let expected: &[u8] = match answer {
        "y" => b"es",
        "a" => b"lways",
        _ => return String::new(),
    };
    let Ok(keys) = Keys::continued(Control::IsSignal) else {
        return String::new();
    };
    let until = Instant::now() + TYPED_WITHIN;
    let mut typed = Vec::new();
    while let Some(wait) = until.checked_duration_since(Instant::now()) {
        // One by one: what comes after it stays at the terminal.
        let Ok(Read::Bytes(byte)) = keys.read_up_to(1, wait) else {
            break;
        };
        if byte == b"\n" {
            break;
        }
        typed.extend(byte);
        let is_unfinished = std::str::from_utf8(&typed).is_err_and(|it| it.error_len().is_none());
        if !is_unfinished && !expected.starts_with(&typed) {
            return as_edited(&String::from_utf8_lossy(&typed));
        }
    }
    String::new()
}

/// The text after a line editor's handling of it.
fn as_edited(text: &str) -> String {
    let mut edited = String::new();
    for c in text.chars() {
        if ERASES.contains(&c) {
            edited.pop();
        } else if c == '\n' || !c.is_control() {
            edited.push(c);
        }
    }
    edited
}

/// The input.
pub(in crate::cli) enum Read {
    Nothing,
    /// Nobody waits for it any more; nothing was read.
    GivenUp,
    Bytes(Vec<u8>),
    End,
}

/// How Ctrl-C is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Control {
    /// As a signal.
    IsSignal,
    /// As a key, where nothing listens to signals yet.
    IsKey,
}

/// Puts the terminal into key mode until it is dropped.
pub(in crate::cli) struct Keys {
    stdin: Stdin,
    before: Termios,
}

impl Keys {
    /// Discards earlier input, which is no answer.
    pub(in crate::cli) fn start(control: Control) -> std::io::Result<Self> {
        let keys = Self::continued(control)?;
        let _ = tcflush(&keys.stdin, QueueSelector::IFlush);
        Ok(keys)
    }

    fn continued(control: Control) -> std::io::Result<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut keys = before.clone();
        keys.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        if control == Control::IsKey {
            keys.local_modes.remove(LocalModes::ISIG);
        }
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &keys)?;
        Ok(Self { stdin, before })
    }

    /// Less than a second.
    pub(in crate::cli) fn read(&self, within: Duration) -> std::io::Result<Read> {
        self.read_up_to(PIECE, within)
    }

    fn read_up_to(&self, bytes: usize, within: Duration) -> std::io::Result<Read> {
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: within.subsec_nanos().into(),
        };
        self.read_or(bytes, Some(wait), None)
    }

    fn read_or(
        &self,
        bytes: usize,
        wait: Option<Timespec>,
        given_up: Option<&PipeReader>,
    ) -> std::io::Result<Read> {
        let mut wanted = vec![PollFd::new(&self.stdin, PollFlags::IN)];
        wanted.extend(given_up.map(|it| PollFd::new(it, PollFlags::IN)));
        match poll(&mut wanted, wait.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Read::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if wanted.get(1).is_some_and(|it| !it.revents().is_empty()) {
            return Ok(Read::GivenUp);
        }
        let mut bytes = vec![0; bytes];
        // Not through std, whose buffer would keep extra input.
        match rustix::io::read(&self.stdin, &mut bytes) {
            Ok(0) => Ok(Read::End),
            Ok(length) => {
                bytes.truncate(length);
                Ok(Read::Bytes(bytes))
            }
            Err(error) => {
                let error = std::io::Error::from(error);
                if error.kind() == ErrorKind::Interrupted {
                    return Ok(Read::Nothing);
                }
                Err(error)
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::as_edited;

    #[test]
    fn what_was_erased_is_no_part_of_an_answer() {
        for (typed, expected) in [
            ("y", "y"),
            ("n\u{7f}y\n", "y\n"),
            ("\u{7f}\u{8}", ""),
            ("no\u{0}t é\u{1b}", "not é"),
        ] {
            assert_eq!(as_edited(typed), expected);
        }
    }
}
