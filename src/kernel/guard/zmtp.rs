//! Reads one direction of a ZMTP 3.1 connection (RFC 37), in whatever pieces it comes.
//!
//! A pure state machine but for [`Scanner::pass_on`], which writes what may pass. It keeps back greetings and
//! commands until they are whole; parts of messages pass at once and are never collected.

use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::GuardLimits;

const GREETING: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// The longest command, `READY` with its metadata, that is looked at.
const COMMAND_LIMIT: usize = 8 * 1024;
/// After the name of a `PING`: two bytes of time-to-live, which are not part of the answer.
const PING_TTL: usize = 2;
/// What a `PING` may want back at most.
const PING_CONTEXT: usize = 16;

/// What a kernel did against ZMTP or against the [`GuardLimits`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// A frame above [`GuardLimits::frame`], or a forged header.
    #[error("announced a frame of {length} bytes (limit {limit})")]
    Frame {
        /// The announced length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A message above [`GuardLimits::message`].
    #[error("announced a message of at least {bytes} bytes (limit {limit})")]
    Message {
        /// The frames so far, with the one that went too far.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A message above [`GuardLimits::frames_per_message`].
    #[error("sent a message of more than {limit} frames")]
    Frames {
        /// The limit.
        limit: usize,
    },
    /// Reserved bits in a frame's flags, or a command that claims to have a second part.
    #[error("sent the frame flags {flags:#04x}, which ZMTP 3 does not know")]
    Flags {
        /// The flags.
        flags: u8,
    },
    /// Not a ZMTP 3 peer.
    #[error("sent {found:#04x} as byte {at} of its ZMTP 3 greeting")]
    Greeting {
        /// Which byte of the 64.
        at: usize,
        /// Its value.
        found: u8,
    },
    /// A security mechanism other than NULL, such as CURVE.
    #[error("wants the security mechanism `{found}`, only NULL is supported")]
    Mechanism {
        /// Its name, in printable characters.
        found: String,
    },
    /// A command longer than any that makes sense.
    #[error("announced a command of {length} bytes (limit {limit})")]
    LongCommand {
        /// The announced length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A command other than `READY` in the handshake, or than `PING` and `PONG` after it.
    #[error("sent the unexpected command `{name}`")]
    Command {
        /// Its name, in printable characters.
        name: String,
    },
    /// A message before `READY`.
    #[error("sent a message before the handshake was complete")]
    Early,
    /// Greeting or `READY` did not come in [`GuardLimits::handshake`].
    #[error("did not complete the handshake within {0:?}")]
    Handshake(Duration),
}

/// Why a chunk was not passed on.
pub(super) enum Refusal {
    Broken(Violation),
    Unwritable,
}

/// Reads one direction of a ZMTP 3 connection, in whatever pieces it comes.
pub(super) struct Scanner {
    limits: GuardLimits,
    pub(super) phase: Phase,
    place: Place,
    /// The greeting, or the latest command with its header.
    kept: Vec<u8>,
    /// Frames and bytes of the message so far.
    frames: usize,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Greeting,
    Handshake,
    Open,
}

#[derive(Clone, Copy)]
enum Place {
    Greeting,
    Command,
    Flags,
    Length { flags: u8, missing: u8, length: u64 },
    Body { flags: u8, left: u64 },
}

/// What the next bytes of a chunk are.
enum Step {
    /// Parts of messages, to pass on.
    Pass(usize),
    /// A part of a greeting or command, or the rest of a command that is of no use.
    Keep(usize),
    /// The rest of a greeting or of `READY`: pass on what was kept.
    Release(usize),
    /// The rest of a `PING`, and the frame that answers it.
    Answer(usize, Vec<u8>),
}

impl Scanner {
    pub(super) fn new(limits: GuardLimits) -> Self {
        Self {
            limits,
            phase: Phase::Greeting,
            place: Place::Greeting,
            kept: Vec::new(),
            frames: 0,
            bytes: 0,
        }
    }

    pub(super) fn is_between_messages(&self) -> bool {
        self.phase == Phase::Open && self.frames == 0 && matches!(self.place, Place::Flags)
    }

    pub(super) async fn pass_on(
        &mut self,
        mut chunk: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
        asked: Option<&mpsc::Sender<Vec<u8>>>,
    ) -> Result<(), Refusal> {
        while !chunk.is_empty() {
            let (taken, written) = match self.scan(chunk).map_err(Refusal::Broken)? {
                Step::Pass(count) => (count, to.write_all(&chunk[..count]).await),
                Step::Keep(count) => (count, Ok(())),
                Step::Release(count) => (count, to.write_all(&self.kept).await),
                Step::Answer(count, pong) => {
                    if let Some(asked) = asked {
                        // Full: the kernel asks faster than it reads answers.
                        let _ = asked.try_send(pong);
                    }
                    (count, Ok(()))
                }
            };
            if written.is_err() {
                return Err(Refusal::Unwritable);
            }
            chunk = &chunk[taken..];
        }
        Ok(())
    }

    /// Takes at least one byte of a chunk that is not empty. A violation is reported when it stands at the chunk's
    /// start, so that all before it is passed on first.
    fn scan(&mut self, chunk: &[u8]) -> Result<Step, Violation> {
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            match self.place {
                Place::Greeting | Place::Command if at > 0 => break,
                Place::Greeting => return self.scan_greeting(chunk),
                Place::Command => return self.scan_command(chunk),
                Place::Flags if byte & COMMAND != 0 => {
                    self.kept.clear();
                    self.place = Place::Command;
                }
                Place::Flags => match self.scan_flags(byte) {
                    Ok(()) => at += 1,
                    Err(_) if at > 0 => break,
                    Err(violation) => return Err(violation),
                },
                Place::Length {
                    flags,
                    missing,
                    length,
                } => match self.scan_length(flags, missing - 1, length << 8 | u64::from(byte)) {
                    Ok(()) => at += 1,
                    Err(_) if at > 0 => break,
                    Err(violation) => return Err(violation),
                },
                Place::Body { flags, left } => {
                    let rest = chunk.len() - at;
                    let count = usize::try_from(left).map_or(rest, |left| left.min(rest));
                    at += count;
                    self.enter_body(flags, left - count as u64);
                }
            }
        }
        Ok(Step::Pass(at))
    }

    /// The first byte of a message frame. Nothing changes when it is refused.
    fn scan_flags(&mut self, flags: u8) -> Result<(), Violation> {
        if flags & !(MORE | LONG) != 0 {
            return Err(Violation::Flags { flags });
        }
        if self.phase != Phase::Open {
            return Err(Violation::Early);
        }
        let limit = self.limits.frames_per_message;
        if self.frames >= limit {
            return Err(Violation::Frames { limit });
        }
        let missing = if flags & LONG == 0 { 1 } else { 8 };
        self.enter_length(flags, missing, 0);
        Ok(())
    }

    /// One byte of a message frame's length. Nothing changes when it is refused.
    fn scan_length(&mut self, flags: u8, missing: u8, length: u64) -> Result<(), Violation> {
        if missing > 0 {
            self.enter_length(flags, missing, length);
            return Ok(());
        }
        let limit = self.limits.frame;
        if length > limit {
            return Err(Violation::Frame { length, limit });
        }
        let limit = self.limits.message;
        let bytes = self.bytes.saturating_add(length);
        if bytes > limit {
            return Err(Violation::Message { bytes, limit });
        }
        self.bytes = bytes;
        self.frames += 1;
        self.enter_body(flags, length);
        Ok(())
    }

    fn enter_length(&mut self, flags: u8, missing: u8, length: u64) {
        self.place = Place::Length {
            flags,
            missing,
            length,
        };
    }

    fn enter_body(&mut self, flags: u8, left: u64) {
        if left > 0 {
            self.place = Place::Body { flags, left };
            return;
        }
        self.place = Place::Flags;
        if flags & MORE == 0 {
            self.frames = 0;
            self.bytes = 0;
        }
    }

    /// 0xff, 8 bytes of padding, 0x7f, version 3.x, 20 bytes of mechanism, as-server, filler.
    fn scan_greeting(&mut self, chunk: &[u8]) -> Result<Step, Violation> {
        let count = self.keep(chunk, GREETING);
        for (at, &found) in self.kept.iter().enumerate() {
            let fits = match at {
                0 => found == 0xff,
                9 => found == 0x7f,
                10 => found >= 3,
                _ => true,
            };
            if !fits {
                return Err(Violation::Greeting { at, found });
            }
        }
        let Some(mechanism) = self
            .kept
            .get(12..32)
            .filter(|_| self.kept.len() == GREETING)
        else {
            return Ok(Step::Keep(count));
        };
        let mechanism = mechanism
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        if mechanism != b"NULL" {
            return Err(Violation::Mechanism {
                found: printable(mechanism),
            });
        }
        self.phase = Phase::Handshake;
        self.place = Place::Flags;
        Ok(Step::Release(count))
    }

    /// A command stands alone between frames, and `libzmq` may put one between two frames of a message.
    fn scan_command(&mut self, chunk: &[u8]) -> Result<Step, Violation> {
        let mut count = 0;
        loop {
            let whole = command_length(&self.kept)?;
            if self.kept.len() == whole {
                break;
            }
            if count == chunk.len() {
                return Ok(Step::Keep(count));
            }
            count += self.keep(&chunk[count..], whole);
        }
        self.place = Place::Flags;
        let (name, data) = command_parts(&self.kept);
        match (self.phase, name) {
            (Phase::Handshake, b"READY") => {
                self.phase = Phase::Open;
                Ok(Step::Release(count))
            }
            (Phase::Open, b"PING") => Ok(Step::Answer(count, pong(data))),
            (Phase::Open, b"PONG") => Ok(Step::Keep(count)),
            (Phase::Greeting | Phase::Handshake | Phase::Open, _) => Err(Violation::Command {
                name: printable(name),
            }),
        }
    }

    /// Keeps what is missing to `whole` bytes and says how many these were.
    fn keep(&mut self, chunk: &[u8], whole: usize) -> usize {
        let count = chunk.len().min(whole - self.kept.len());
        self.kept.extend_from_slice(&chunk[..count]);
        count
    }
}

/// How long a command is with its header, or its header as far as that is known yet.
fn command_length(kept: &[u8]) -> Result<usize, Violation> {
    let Some((&flags, length)) = kept.split_first() else {
        return Ok(1);
    };
    if flags & !LONG != COMMAND {
        return Err(Violation::Flags { flags });
    }
    let header = if flags & LONG == 0 { 2 } else { 9 };
    let Some(length) = length.get(..header - 1) else {
        return Ok(header);
    };
    let length = length
        .iter()
        .fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
    match usize::try_from(length) {
        Ok(length) if length <= COMMAND_LIMIT => Ok(header + length),
        Ok(_) | Err(_) => Err(Violation::LongCommand {
            length,
            limit: COMMAND_LIMIT as u64,
        }),
    }
}

/// Name and data of a complete command; a name that claims to be longer than the command is empty.
fn command_parts(kept: &[u8]) -> (&[u8], &[u8]) {
    let header = if kept.first().is_some_and(|flags| flags & LONG == 0) {
        2
    } else {
        9
    };
    let body = kept.get(header..).unwrap_or_default();
    let parts = body
        .split_first()
        .and_then(|(&length, rest)| rest.split_at_checked(length.into()));
    parts.unwrap_or_default()
}

/// The frame that answers a `PING` with this data: its context comes back.
fn pong(data: &[u8]) -> Vec<u8> {
    let context = data.get(PING_TTL..).unwrap_or_default();
    let context = &context[..context.len().min(PING_CONTEXT)];
    let body = [b"\x04PONG", context].concat();
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [&[COMMAND, length], body.as_slice()].concat()
}

fn printable(name: &[u8]) -> String {
    name.iter()
        .take(32)
        .flat_map(|byte| byte.escape_ascii())
        .map(char::from)
        .collect()
}
