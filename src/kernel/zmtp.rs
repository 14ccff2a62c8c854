//! Frames of ZMTP 3 (RFC 23, RFC 37) as bytes, shared by the guard and the proxy.

/// Bytes of a greeting.
pub(in crate::kernel) const GREETING: usize = 64;
/// The longest command that is accepted: `READY` with its metadata.
pub(in crate::kernel) const COMMAND_LIMIT: u64 = 8 * 1024;
/// Flag: more frames of the message follow.
pub(in crate::kernel) const MORE: u8 = 1;
const LONG: u8 = 2;
/// Flag: the frame is a command.
pub(in crate::kernel) const COMMAND: u8 = 4;
/// Bytes of time-to-live after the name of a `PING`, which are not part of the answer.
const PING_TTL: usize = 2;
/// Most context bytes of a `PING` that are sent back.
const PING_CONTEXT: usize = 16;

/// Reserved bits, or a command that claims to have a second part.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kernel) struct UnknownFlags(pub(in crate::kernel) u8);

/// The header of a frame.
#[derive(Clone, Copy)]
pub(in crate::kernel) struct Head {
    pub(in crate::kernel) flags: u8,
    pub(in crate::kernel) length: u64,
    /// Size of the header itself.
    pub(in crate::kernel) size: usize,
}

impl Head {
    /// `None` if `bytes` is shorter than a header; an error with the flags if ZMTP 3 does not define them.
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

/// Appends the header of a message frame with a body of `length` bytes.
pub(in crate::kernel) fn push_head(to: &mut Vec<u8>, length: usize, is_last: bool) {
    let more = if is_last { 0 } else { MORE };
    if let Ok(length) = u8::try_from(length) {
        to.extend([more, length]);
    } else {
        to.push(more | LONG);
        to.extend((length as u64).to_be_bytes());
    }
}

/// The frame that answers a `PING` with this data: it returns the context.
pub(in crate::kernel) fn pong(data: &[u8]) -> Vec<u8> {
    let context = data.get(PING_TTL..).unwrap_or_default();
    let context = &context[..context.len().min(PING_CONTEXT)];
    let body = [b"\x04PONG", context].concat();
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [&[COMMAND, length], body.as_slice()].concat()
}
