//! Chained lines: changing, dropping, adding or reordering them is detected.
//!
//! A line is one JSON object: number, time, the hash of the line before, the record, then `hash`, SHA-256 of all bytes
//! before it, and `seal`, HMAC-SHA256 of session and hash under a key of this machine. Anybody can check the hashes;
//! only the holder of the key can make a line or state the log's length ([`Head`]). The hash covers the bytes of the
//! file, so that re-serialised JSON does not pass.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::digest::{hex, sha256};
use super::record::{Record, VERSION};

/// The previous hash in the first line.
pub const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Maximum bytes of a line.
pub const LONGEST: usize = 1 << 20;

const HASH: &str = ",\"hash\":\"";
const SEAL: &str = "\",\"seal\":\"";
const END: &str = "\"}";
const HEX: usize = 64;

/// The key that seals lines. `Debug` hides it.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// The length of a log, stored apart from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session's id.
    pub session: String,
    /// The number of its last line.
    pub seq: u64,
    /// The hash of that line.
    pub hash: String,
    /// HMAC of the above.
    pub seal: String,
}

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, from 1.
    pub seq: u64,
    /// When, ISO 8601.
    pub time: String,
    /// The hash of the line before, [`NONE`] for the first.
    pub previous: String,
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// SHA-256 of the line's bytes up to here.
    pub hash: String,
    /// HMAC-SHA256 of session and hash.
    pub seal: String,
}

/// A fault in a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Fault {
    /// Number of the first bad line, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// The result of verifying a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Whole lines up to the first fault.
    pub lines: u64,
    /// The number and hash of the last of them.
    pub last: (u64, String),
    /// Whole, sealed lines after the head: the process was killed before it wrote the head.
    pub behind_head: u64,
    /// The first fault.
    pub fault: Option<Fault>,
}

impl Key {
    /// Generates a key.
    pub fn random() -> Self {
        let mut key = [0; 32];
        for half in key.chunks_mut(16) {
            // Six bits of each UUID are fixed, which leaves 244 random bits.
            half.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        }
        Self(key)
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        let text = text.trim();
        if text.len() != HEX {
            return None;
        }
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(key))
    }

    /// The text form, for the key's file.
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    fn seal(&self, what: &str, session: &str, hash: &str) -> String {
        // HMAC accepts a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return String::new();
        };
        mac.update(format!("{what}\n{session}\n{hash}").as_bytes());
        hex(&mac.finalize().into_bytes())
    }

    /// The head of a log.
    pub fn head(&self, session: &str, seq: u64, hash: &str) -> Head {
        Head {
            session: session.to_owned(),
            seq,
            hash: hash.to_owned(),
            seal: self.seal("head", session, &format!("{seq}\n{hash}")),
        }
    }

    /// Whether a head was sealed with this key for this session.
    pub fn made(&self, head: &Head, session: &str) -> bool {
        head.session == session && *head == self.head(session, head.seq, &head.hash)
    }

    /// Writes a line, and returns its hash.
    pub fn write(
        &self,
        session: &str,
        (seq, previous): (u64, &str),
        time: &str,
        record: &Record,
        to: &mut String,
    ) -> String {
        let begin = to.len();
        let _ = write!(
            to,
            "{{\"seq\":{seq},\"time\":\"{time}\",\"previous\":\"{previous}\","
        );
        // Serialising maps with string keys cannot fail.
        let record = serde_json::to_string(record).unwrap_or_default();
        let inner = record.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        to.push_str(inner.unwrap_or_default());
        let hash = sha256(to.get(begin..).unwrap_or_default().as_bytes());
        let seal = self.seal("line", session, &hash);
        let _ = write!(to, "{HASH}{hash}{SEAL}{seal}{END}");
        to.push('\n');
        hash
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(***)")
    }
}

/// Verifies a log against its hashes, the key and its head. A missing key or head is a fault as well; whatever can be
/// checked without them is checked first.
///
/// # Errors
/// Errors of reading the log.
pub fn verify(
    mut log: impl BufRead,
    session: &str,
    key: Option<&Key>,
    head: Option<&Head>,
    mut each: impl FnMut(&Line),
) -> io::Result<Verified> {
    let mut verified = Verified {
        lines: 0,
        last: (0, NONE.to_owned()),
        behind_head: 0,
        fault: None,
    };
    let mut at_head = None;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let limit = LONGEST as u64 + 1;
        if log.by_ref().take(limit).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let (seq, previous) = &verified.last;
        match check(&bytes, session, (seq + 1, previous), key) {
            Ok(line) => {
                if head.is_some_and(|head| head.seq == line.seq) {
                    at_head = Some(line.hash.clone());
                }
                each(&line);
                verified.lines += 1;
                verified.last = (line.seq, line.hash);
            }
            Err(what) => {
                verified.fault = Some(Fault {
                    line: verified.lines + 1,
                    what,
                });
                return Ok(verified);
            }
        }
    }
    let lines = verified.lines;
    let fault = |line, what: String| Some(Fault { line, what });
    let (last, _) = verified.last;
    verified.fault = match (key, head) {
        (None, _) => fault(
            1,
            "the key that sealed this log is not there: its lines are consistent, but anyone could have written them"
                .to_owned(),
        ),
        (Some(_), None) => fault(
            lines + 1,
            "the head of this log is not there: lines at its end may be missing".to_owned(),
        ),
        (Some(key), Some(head)) if !key.made(head, session) => fault(
            lines + 1,
            "the head of this log was changed: lines at its end may be missing".to_owned(),
        ),
        (Some(_), Some(head)) if head.seq > last => fault(
            lines + 1,
            format!("{} lines are missing at the end", head.seq - last),
        ),
        (Some(_), Some(head)) if at_head.as_ref() != Some(&head.hash) => {
            fault(head.seq, "this is not the line that the head names".to_owned())
        }
        (Some(_), Some(head)) => {
            verified.behind_head = last - head.seq;
            None
        }
    };
    Ok(verified)
}

/// Checks one line against the expected number and previous hash.
fn check(
    bytes: &[u8],
    session: &str,
    (seq, previous): (u64, &str),
    key: Option<&Key>,
) -> Result<Line, String> {
    let Some(text) = bytes.strip_suffix(b"\n") else {
        return Err(if bytes.len() > LONGEST {
            "it is too long".to_owned()
        } else {
            "it is incomplete: a process was killed while it wrote, or its end was changed"
                .to_owned()
        });
    };
    let text = std::str::from_utf8(text).map_err(|_| "it is not text".to_owned())?;
    let (body, hash, seal) = parts(text).ok_or("it has no hash and seal")?;
    if sha256(body.as_bytes()) != hash {
        return Err("it was changed: its hash is another one".to_owned());
    }
    let line: Line =
        serde_json::from_str(text).map_err(|error| format!("it is not a record: {error}"))?;
    if line.hash != hash || line.seal != seal {
        return Err("it has a second hash or seal".to_owned());
    }
    if line.seq != seq {
        return Err(match line.seq.checked_sub(seq) {
            Some(missing) => format!(
                "it is number {}: {missing} lines before it are missing",
                line.seq
            ),
            None => format!("it is number {}, which was there before", line.seq),
        });
    }
    if line.previous != previous {
        return Err("it does not follow the line before it".to_owned());
    }
    if key.is_some_and(|key| key.seal("line", session, hash) != seal) {
        return Err("it was not sealed on this machine for this session".to_owned());
    }
    match &line.record {
        Record::Begun(header) | Record::Resumed(header) if header.version > VERSION => {
            Err(format!(
                "it is of a later version ({}) of the format",
                header.version
            ))
        }
        Record::Begun(header) | Record::Resumed(header) if header.session != session => {
            Err(format!("it is of another session, {}", header.session))
        }
        _ => Ok(line),
    }
}

/// Splits a line into the hashed part, the hash, and the seal.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let rest = text.strip_suffix(END)?;
    let (rest, seal) = rest.split_at_checked(rest.len().checked_sub(HEX)?)?;
    let rest = rest.strip_suffix(SEAL)?;
    let (body, hash) = rest.split_at_checked(rest.len().checked_sub(HEX)?)?;
    Some((body.strip_suffix(HASH)?, hash, seal))
}

#[cfg(test)]
mod tests;
