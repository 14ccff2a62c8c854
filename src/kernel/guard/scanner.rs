//! Scans one direction of a ZMTP 3.1 connection (RFC 37), split at any byte.
//!
//! A pure state machine except for [`Scanner::pass_on`], which writes what may pass. Greetings, commands and split
//! headers are kept until they are complete; message bodies pass at once and are never buffered.

use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::GuardLimits;
use crate::kernel::oversize::{Oversize, Oversized};
use crate::kernel::zmtp::{COMMAND_LIMIT, GREETING, Head, MORE, UnknownFlags, pong};

/// How a kernel violated ZMTP or the [`GuardLimits`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// A frame above [`GuardLimits::discard`]: most likely a forged header.
    #[error("announced a frame of {length} bytes (limit {limit})")]
    Frame {
        /// The announced length.
        length: u64,
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
    /// A command other than `READY` in the handshake, or other than `PING` and `PONG` after it.
    #[error("sent the unexpected command `{name}`")]
    Command {
        /// Its name, in printable characters.
        name: String,
    },
    /// A message before `READY`.
    #[error("sent a message before the handshake was complete")]
    Early,
    /// Greeting or `READY` did not come within [`GuardLimits::handshake`].
    #[error("did not complete the handshake within {0:?}")]
    Handshake(Duration),
    /// A message stopped midway for [`GuardLimits::stall`]; its header may be forged.
    #[error("began a message and sent nothing more for {0:?}")]
    Stalled(Duration),
}

impl From<UnknownFlags> for Violation {
    fn from(UnknownFlags(flags): UnknownFlags) -> Self {
        Self::Flags { flags }
    }
}

/// Why a chunk was not passed on.
pub(super) enum Refusal {
    Broken(Violation),
    Unwritable,
}

/// What the guard has to do besides copying.
pub(super) enum Note {
    /// Send this frame, the answer to a `PING`, back.
    Answer(Vec<u8>),
    /// A frame of this many bytes was replaced by an empty one, and saved to this file.
    Emptied(u64, Option<PathBuf>),
}

/// Scans one direction of a ZMTP 3 connection, split at any byte.
pub(super) struct Scanner {
    limits: GuardLimits,
    pub(super) phase: Phase,
    place: ScanState,
    /// The incomplete greeting, command or header.
    kept: Vec<u8>,
    /// Number of frames in the current message, and the bytes of those that passed.
    frames: usize,
    bytes: u64,
    /// Where emptied frames are saved, and the file of the current one.
    oversize: Option<Oversize>,
    file: Option<Oversized>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Greeting,
    Handshake,
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Header,
    Body { fate: Fate, flags: u8, left: u64 },
}

/// What happens to a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    /// It has this many bytes, which is too many: an empty one replaces it.
    Empty(u64),
}

/// What to do with the next bytes of a chunk.
enum Step {
    /// Parts of messages: pass them on.
    Pass(usize),
    /// Part of something incomplete, or of something that does not pass: keep it back.
    Keep(usize),
    /// Part of an emptied frame.
    Divert(usize),
    /// The end of something that was kept: pass these bytes on instead.
    Release(usize, Vec<u8>),
    /// The same, with a note.
    Noted(usize, Vec<u8>, Note),
}

impl Scanner {
    pub(super) fn new(limits: GuardLimits, oversize: Option<Oversize>) -> Self {
        Self {
            limits,
            phase: Phase::Greeting,
            place: ScanState::Header,
            kept: Vec::new(),
            frames: 0,
            bytes: 0,
            oversize,
            file: None,
        }
    }

    pub(super) fn is_between_messages(&self) -> bool {
        let nothing_begun = self.frames == 0 && self.kept.is_empty();
        self.phase == Phase::Open && self.place == ScanState::Header && nothing_begun
    }

    pub(super) async fn pass_on(
        &mut self,
        mut chunk: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
        mut note: impl FnMut(Note),
    ) -> Result<(), Refusal> {
        while !chunk.is_empty() {
            let (taken, written) = match self.scan(chunk).map_err(Refusal::Broken)? {
                Step::Pass(count) => (count, to.write_all(&chunk[..count]).await),
                Step::Keep(count) => (count, Ok(())),
                Step::Divert(count) => {
                    self.divert(&chunk[..count]);
                    if let Some((empty, noted)) = self.end_diverted() {
                        note(noted);
                        (count, to.write_all(&empty).await)
                    } else {
                        (count, Ok(()))
                    }
                }
                Step::Release(count, bytes) => (count, to.write_all(&bytes).await),
                Step::Noted(count, bytes, noted) => {
                    note(noted);
                    (count, to.write_all(&bytes).await)
                }
            };
            if written.is_err() {
                return Err(Refusal::Unwritable);
            }
            chunk = &chunk[taken..];
        }
        Ok(())
    }

    /// Consumes at least one byte of a non-empty chunk: as many as may pass at once, or else the next item that needs a
    /// closer look. So everything before a violation is passed on first.
    fn scan(&mut self, chunk: &[u8]) -> Result<Step, Violation> {
        if self.phase == Phase::Greeting {
            return self.scan_greeting(chunk);
        }
        let mut at = 0;
        while let Some(rest) = chunk.get(at..).filter(|rest| !rest.is_empty()) {
            at += match self.place {
                ScanState::Header => match self.passable(rest) {
                    Some(head) => {
                        self.enter_frame(head, Fate::Pass);
                        head.size
                    }
                    None if at > 0 => break,
                    None => return self.scan_kept(chunk),
                },
                ScanState::Body {
                    fate: Fate::Empty(_),
                    ..
                } if at > 0 => break,
                ScanState::Body { fate, flags, left } => {
                    let count =
                        usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    let left = left - count as u64;
                    match fate {
                        Fate::Pass => {
                            self.enter_body(fate, flags, left);
                            count
                        }
                        Fate::Empty(_) => {
                            self.place = ScanState::Body { fate, flags, left };
                            return Ok(Step::Divert(count));
                        }
                    }
                }
            };
        }
        Ok(Step::Pass(at))
    }

    /// The complete header at the start of `bytes`, if its frame passes unchanged.
    fn passable(&self, bytes: &[u8]) -> Option<Head> {
        let head = Head::read(bytes).ok().flatten()?;
        let passes =
            self.kept.is_empty() && !head.is_command() && self.judge(head) == Ok(Fate::Pass);
        passes.then_some(head)
    }

    /// Decides about a frame of a message.
    fn judge(&self, head: Head) -> Result<Fate, Violation> {
        if self.phase != Phase::Open {
            return Err(Violation::Early);
        }
        let limit = self.limits.frames_per_message;
        if self.frames >= limit {
            return Err(Violation::Frames { limit });
        }
        let (length, limit) = (head.length, self.limits.discard);
        if length > limit {
            return Err(Violation::Frame { length, limit });
        }
        let bytes = self.bytes.saturating_add(length);
        let fits = length <= self.limits.frame && bytes <= self.limits.message;
        Ok(if fits {
            Fate::Pass
        } else {
            Fate::Empty(length)
        })
    }

    fn enter_frame(&mut self, head: Head, fate: Fate) {
        self.frames += 1;
        if fate == Fate::Pass {
            self.bytes = self.bytes.saturating_add(head.length);
        }
        self.enter_body(fate, head.flags, head.length);
    }

    fn enter_body(&mut self, fate: Fate, flags: u8, left: u64) {
        if left > 0 {
            self.place = ScanState::Body { fate, flags, left };
            return;
        }
        self.place = ScanState::Header;
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
        if self.kept.len() < GREETING {
            return Ok(Step::Keep(count));
        }
        let mechanism = self.kept[12..32].split(|&byte| byte == 0).next();
        let mechanism = mechanism.unwrap_or_default();
        if mechanism != b"NULL" {
            let found = printable(mechanism);
            return Err(Violation::Mechanism { found });
        }
        self.phase = Phase::Handshake;
        Ok(Step::Release(count, mem::take(&mut self.kept)))
    }

    /// A command, a split header, or a frame that does not pass unchanged.
    fn scan_kept(&mut self, chunk: &[u8]) -> Result<Step, Violation> {
        let mut count = 0;
        loop {
            let head = Head::read(&self.kept)?;
            let whole = match head {
                None => self.kept.len() + 1,
                Some(head) if head.is_command() => command_size(head)?,
                Some(head) => head.size,
            };
            if let Some(head) = head
                && self.kept.len() == whole
            {
                let kept = mem::take(&mut self.kept);
                return if head.is_command() {
                    self.end_command(count, kept, head)
                } else {
                    self.end_header(count, kept, head)
                };
            }
            if count == chunk.len() {
                return Ok(Step::Keep(count));
            }
            count += self.keep(&chunk[count..], whole);
        }
    }

    /// Keeps what is missing to `whole` bytes and returns how many bytes that took.
    fn keep(&mut self, chunk: &[u8], whole: usize) -> usize {
        let count = chunk.len().min(whole - self.kept.len());
        self.kept.extend_from_slice(&chunk[..count]);
        count
    }

    /// A command stands between frames; `libzmq` may even put one between two frames of a message.
    fn end_command(&mut self, count: usize, kept: Vec<u8>, head: Head) -> Result<Step, Violation> {
        // A name that claims to be longer than its command counts as empty.
        let (name, data) = kept[head.size..]
            .split_first()
            .and_then(|(&length, rest)| rest.split_at_checked(length.into()))
            .unwrap_or_default();
        match (self.phase, name) {
            (Phase::Handshake, b"READY") => {
                self.phase = Phase::Open;
                Ok(Step::Release(count, kept))
            }
            (Phase::Open, b"PING") => Ok(Step::Noted(count, Vec::new(), Note::Answer(pong(data)))),
            (Phase::Open, b"PONG") => Ok(Step::Keep(count)),
            (Phase::Greeting | Phase::Handshake | Phase::Open, _) => {
                let name = printable(name);
                Err(Violation::Command { name })
            }
        }
    }

    fn end_header(&mut self, count: usize, kept: Vec<u8>, head: Head) -> Result<Step, Violation> {
        let fate = self.judge(head)?;
        self.enter_frame(head, fate);
        Ok(match fate {
            Fate::Pass => Step::Release(count, kept),
            Fate::Empty(length) => {
                self.file = self.oversize.as_ref().and_then(|to| to.begin(length));
                Step::Keep(count)
            }
        })
    }

    fn divert(&mut self, part: &[u8]) {
        self.file = self.file.take().and_then(|file| file.write(part));
    }

    /// Once an emptied frame has arrived completely: the empty frame, and the note. Not earlier, so that whoever gets
    /// the note finds the file complete.
    fn end_diverted(&mut self) -> Option<(Vec<u8>, Note)> {
        let ScanState::Body {
            fate: Fate::Empty(length),
            flags,
            left: 0,
        } = self.place
        else {
            return None;
        };
        self.enter_body(Fate::Empty(length), flags, 0);
        let file = self.file.take().map(Oversized::end);
        Some((vec![flags & MORE, 0], Note::Emptied(length, file)))
    }
}

/// Size in bytes of a command with its header.
fn command_size(head: Head) -> Result<usize, Violation> {
    let (length, limit) = (head.length, COMMAND_LIMIT);
    match usize::try_from(length) {
        Ok(size) if length <= limit => Ok(head.size + size),
        Ok(_) | Err(_) => Err(Violation::LongCommand { length, limit }),
    }
}

fn printable(name: &[u8]) -> String {
    let shown = name.iter().take(32);
    shown
        .flat_map(|byte| byte.escape_ascii())
        .map(char::from)
        .collect()
}
