//! Frames of ZMTP 3 (RFC 23, RFC 37) as bytes: what the guard and the proxy read and write alike.

/// Bytes of a greeting.
pub(in crate::kernel) const GREETING: usize = 64;
/// The longest command, `READY` with its metadata, that is looked at.
pub(in crate::kernel) const COMMAND_LIMIT: u64 = 8 * 1024;
/// The flag of a frame that is not its message's last.
pub(in crate::kernel) const MORE: u8 = 1;
const LONG: u8 = 2;
/// The flag of a frame that is a command.
pub(in crate::kernel) const COMMAND: u8 = 4;
/// After the name of a `PING`: two bytes of time-to-live, which are not part of the answer.
const PING_TTL: usize = 2;
/// What a `PING` may want back at most.
const PING_CONTEXT: usize = 16;

/// Reserved bits, or a command that claims to have a second part.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kernel) struct UnknownFlags(pub(in crate::kernel) u8);

/// The header of a frame.
#[derive(Clone, Copy)]
pub(in crate::kernel) struct Head {
    pub(in crate::kernel) flags: u8,
    pub(in crate::kernel) length: u64,
    /// Of the header itself.
    pub(in crate::kernel) size: usize,
}

impl Head {
    /// None if `bytes` are less than a header; an error if ZMTP 3 does not know the flags, which it names.
    pub(in crate::kernel) fn read(bytes: &[u8]) -> Result<Option<Self>, UnknownFlags> {
        let Some((&flags, rest)) = bytes.split_first() else {
            return Ok(None);
        };
        let is_known = flags & !(MORE | LONG | COMMAND) == 0;
        if !is_known || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(UnknownFlags(flags));
        }
        let size = if flags & LONG == 0 { 2 } else { 9 };
        let length = rest.get(..size - 1).map(|length| {
            length
                .iter()
                .fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte))
        });
        Ok(length.map(|length| Self {
            flags,
            length,
            size,
        }))
    }

    pub(in crate::kernel) fn is_command(self) -> bool {
        self.flags & COMMAND != 0
    }

    /// Whether another frame of the message follows.
    pub(in crate::kernel) fn has_more(self) -> bool {
        self.flags & MORE != 0
    }
}

/// Writes the header of a frame of `length` bytes of a message.
pub(in crate::kernel) fn push_head(to: &mut Vec<u8>, length: usize, is_last: bool) {
    let more = if is_last { 0 } else { MORE };
    if let Ok(length) = u8::try_from(length) {
        to.extend([more, length]);
    } else {
        to.push(more | LONG);
        to.extend((length as u64).to_be_bytes());
    }
}

/// The frame that answers a `PING` with this data: its context comes back.
pub(in crate::kernel) fn pong(data: &[u8]) -> Vec<u8> {
    let context = data.get(PING_TTL..).unwrap_or_default();
    let context = &context[..context.len().min(PING_CONTEXT)];
    let body = [b"\x04PONG", context].concat();
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [&[COMMAND, length], body.as_slice()].concat()
}
