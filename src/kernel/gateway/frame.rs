//! Messages on a kernel's websocket, both ways (jupyter_server docs, "WebSocket kernel wire protocols").
//!
//! `v1.kernel.websocket.jupyter.org` is binary: the number of offsets, the offsets, then channel, header, parent
//! header, metadata, content and buffers at those offsets. Servers without it send JSON text, and binary frames of
//! another format for messages with buffers. There is no signature: the server has checked it.
//!
//! Frames are untrusted. Invariants: nothing is read past the end, and no memory is allocated for a length that a frame
//! merely claims. Pure.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::jupyter::message::{Channel, Message};
use crate::jupyter::raw::RawMessage;
use crate::jupyter::wire::WireError;

/// The name of the binary protocol in `Sec-WebSocket-Protocol`.
pub(super) const V1: &str = "v1.kernel.websocket.jupyter.org";

/// Most parts of a message: more buffers than any widget has. The same as in `guard`.
const MAX_PARTS: usize = 1024;

/// Size of an offset in the binary protocol.
const OFFSET: usize = size_of::<u64>();

/// The wire protocol of a kernel's websocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// [`V1`].
    V1,
    /// JSON texts.
    Json,
}

impl Dialect {
    /// The name of the binary protocol in `Sec-WebSocket-Protocol`; JSON has none.
    pub const V1_NAME: &str = V1;

    /// Encodes `message`; `None` if a part of it is not JSON.
    pub fn encode(self, channel: Channel, message: &RawMessage) -> Option<Frame> {
        match self {
            Self::V1 => Some(Frame::Binary(encode_v1(channel, message))),
            Self::Json => encode_json(channel, message),
        }
    }

    /// Decodes a frame. Its JSON is parsed once and kept as it came.
    ///
    /// # Errors
    /// If the frame is not a message.
    pub fn decode(self, frame: &Frame) -> Result<(Channel, RawMessage), WireError> {
        let decoded = match frame {
            Frame::Binary(frame) => decode_binary(self, frame),
            Frame::Text(text) => decode_text(text.as_bytes()),
        };
        let decoded = decoded.map_err(|unreadable| unreadable.error)?;
        Ok((decoded.channel, decoded.raw))
    }
}

/// One websocket message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An opcode 2 message.
    Binary(Bytes),
    /// An opcode 1 message.
    Text(String),
}

/// The content of a frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decoded {
    /// The channel it came on.
    pub(super) channel: Channel,
    /// The message.
    pub(super) message: Message,
    /// The same message as it came.
    pub(super) raw: RawMessage,
}

/// A frame that is not a message, and the channel it came on if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// The channel; iopub when the frame does not say.
    pub(super) channel: Channel,
    /// What is wrong with it.
    pub(super) error: WireError,
}

/// Encodes `message` for `channel`.
pub(super) fn encode(dialect: Dialect, channel: Channel, message: &Message) -> Frame {
    let raw = RawMessage::from(message);
    let frame = dialect.encode(channel, &raw);
    // Our own messages are always JSON.
    frame.unwrap_or_else(|| Frame::Text(String::new()))
}

/// Decodes a binary frame.
///
/// # Errors
/// [`Unreadable`]; the caller must drop the frame and report it.
pub(super) fn decode_binary(dialect: Dialect, frame: &Bytes) -> Result<Decoded, Unreadable> {
    match dialect {
        Dialect::V1 => decode_v1(frame),
        Dialect::Json => decode_json_with_buffers(frame),
    }
}

/// Decodes a text frame. Servers that speak [`V1`] send none, but the format is unambiguous.
///
/// # Errors
/// [`Unreadable`]; the caller must drop the frame and report it.
pub(super) fn decode_text(frame: &[u8]) -> Result<Decoded, Unreadable> {
    decode_json(frame, Vec::new())
}

fn encode_v1(channel: Channel, raw: &RawMessage) -> Bytes {
    let parts = [&raw.header, &raw.parent, &raw.metadata, &raw.content];
    let name = channel.name().as_bytes();
    let lengths = std::iter::once(name.len())
        .chain(parts.iter().map(|part| part.len()))
        .chain(raw.buffers.iter().map(Bytes::len));
    // One offset for the start of each part, and one for the end of the last.
    let count = 1 + parts.len() + raw.buffers.len() + 1;
    let start = OFFSET * (count + 1);
    let total = start + lengths.clone().sum::<usize>();
    let mut frame = BytesMut::with_capacity(total);
    let mut put = |offset: usize| frame.put_u64_le(offset as u64);
    put(count);
    put(start);
    let mut offset = start;
    for length in lengths {
        offset += length;
        put(offset);
    }
    frame.put_slice(name);
    for part in parts.into_iter().chain(&raw.buffers) {
        frame.put_slice(part);
    }
    frame.freeze()
}

fn decode_v1(frame: &Bytes) -> Result<Decoded, Unreadable> {
    let malformed = |what| unreadable(Channel::IoPub, WireError::Malformed { what });
    let count = offset_at(frame, 0).ok_or_else(|| malformed("it is shorter than a number"))?;
    // The channel and the four parts of every message.
    if count < 6 {
        return Err(malformed("it has too few parts"));
    }
    if count > MAX_PARTS {
        return Err(malformed("it has too many parts"));
    }
    let mut parts = Vec::with_capacity(count - 1);
    let mut start = offset_at(frame, 1).ok_or_else(|| malformed("its offsets are cut short"))?;
    if start < OFFSET * (count + 1) {
        return Err(malformed("its parts overlap its offsets"));
    }
    for n in 1..count {
        let end = offset_at(frame, n + 1).ok_or_else(|| malformed("its offsets are cut short"))?;
        if end < start || end > frame.len() {
            return Err(malformed("a part begins or ends outside of it"));
        }
        parts.push(frame.slice(start..end));
        start = end;
    }
    let buffers = parts.split_off(5);
    let [channel, header, parent, metadata, content] = parts.as_slice() else {
        return Err(malformed("it has too few parts"));
    };
    let channel = channel_named(channel).ok_or_else(|| malformed("its channel has no name"))?;
    let raw = RawMessage {
        prefix: Vec::new(),
        header: header.clone(),
        parent: parent.clone(),
        metadata: metadata.clone(),
        content: content.clone(),
        buffers,
    };
    decoded(channel, raw)
}

fn offset_at(frame: &[u8], n: usize) -> Option<usize> {
    let bytes = frame.get(OFFSET * n..)?.first_chunk::<OFFSET>()?;
    usize::try_from(u64::from_le_bytes(*bytes)).ok()
}

fn encode_json(channel: Channel, raw: &RawMessage) -> Option<Frame> {
    /// Clients also expect two header fields at the top level.
    #[derive(Serialize)]
    struct Parts<'a> {
        header: &'a RawValue,
        msg_id: &'a str,
        msg_type: &'a str,
        parent_header: &'a RawValue,
        metadata: &'a RawValue,
        content: &'a RawValue,
        buffers: [(); 0],
        channel: &'a str,
    }
    fn part(bytes: &Bytes) -> Option<&RawValue> {
        serde_json::from_slice(if bytes.is_empty() { b"{}" } else { bytes }).ok()
    }
    let header = raw.header().ok()?;
    let parts = Parts {
        header: part(&raw.header)?,
        msg_id: &header.msg_id,
        msg_type: &header.msg_type,
        parent_header: part(&raw.parent)?,
        metadata: part(&raw.metadata)?,
        content: part(&raw.content)?,
        buffers: [],
        channel: channel.name(),
    };
    let text = serde_json::to_string(&parts).ok()?;
    if raw.buffers.is_empty() {
        return Some(Frame::Text(text));
    }
    // This format is big-endian with 32 bits: the number of parts, the offset of each, the parts.
    let parts = || std::iter::once(text.as_bytes()).chain(raw.buffers.iter().map(Bytes::as_ref));
    let mut frame = BytesMut::new();
    let put = |frame: &mut BytesMut, n: usize| frame.put_u32(u32::try_from(n).unwrap_or(u32::MAX));
    put(&mut frame, parts().count());
    let mut offset = size_of::<u32>() * (parts().count() + 1);
    for part in parts() {
        put(&mut frame, offset);
        offset += part.len();
    }
    for part in parts() {
        frame.put_slice(part);
    }
    Some(Frame::Binary(frame.freeze()))
}

fn decode_json_with_buffers(frame: &Bytes) -> Result<Decoded, Unreadable> {
    let malformed = |what| unreadable(Channel::IoPub, WireError::Malformed { what });
    let number = |n: usize| {
        let bytes = frame.get(size_of::<u32>() * n..)?.first_chunk()?;
        usize::try_from(u32::from_be_bytes(*bytes)).ok()
    };
    let count = number(0).ok_or_else(|| malformed("it is shorter than a number"))?;
    if count == 0 {
        return Err(malformed("it has too few parts"));
    }
    if count > MAX_PARTS {
        return Err(malformed("it has too many parts"));
    }
    let mut parts = Vec::with_capacity(count);
    for n in 1..=count {
        let start = number(n).ok_or_else(|| malformed("its offsets are cut short"))?;
        let end = if n == count {
            Some(frame.len())
        } else {
            number(n + 1)
        };
        let end = end.ok_or_else(|| malformed("its offsets are cut short"))?;
        if start > end || end > frame.len() {
            return Err(malformed("a part begins or ends outside of it"));
        }
        parts.push(frame.slice(start..end));
    }
    let buffers = parts.split_off(1);
    decode_json(parts.first().map_or(&[], Bytes::as_ref), buffers)
}

fn decode_json(text: &[u8], buffers: Vec<Bytes>) -> Result<Decoded, Unreadable> {
    /// Only separates the parts; [`RawMessage::decode`] parses them, once.
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        channel: Option<&'a RawValue>,
        #[serde(borrow)]
        header: Option<&'a RawValue>,
        #[serde(borrow)]
        parent_header: Option<&'a RawValue>,
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    fn raw(part: Option<&RawValue>) -> Bytes {
        Bytes::copy_from_slice(part.map_or("{}", RawValue::get).as_bytes())
    }
    let parts: Parts<'_> = serde_json::from_slice(text).map_err(|error| {
        let error = WireError::NotJson {
            frame: "whole",
            reason: error.to_string(),
        };
        unreadable(Channel::IoPub, error)
    })?;
    let name: String = match parts.channel {
        Some(name) => serde_json::from_str(name.get()).unwrap_or_default(),
        // A client that names no channel means shell (smolagents; jupyter_server reads it so too).
        None => Channel::Shell.name().to_owned(),
    };
    let channel = channel_named(name.as_bytes()).ok_or_else(|| {
        let what = "its channel has no name";
        unreadable(Channel::IoPub, WireError::Malformed { what })
    })?;
    let raw = RawMessage {
        prefix: Vec::new(),
        header: raw(parts.header),
        parent: raw(parts.parent_header),
        metadata: raw(parts.metadata),
        content: raw(parts.content),
        buffers,
    };
    decoded(channel, raw)
}

fn decoded(channel: Channel, raw: RawMessage) -> Result<Decoded, Unreadable> {
    let message = raw.decode().map_err(|error| unreadable(channel, error))?;
    Ok(Decoded {
        channel,
        message,
        raw,
    })
}

fn channel_named(name: &[u8]) -> Option<Channel> {
    use Channel::{Control, IoPub, Shell, Stdin};
    [Shell, Control, Stdin, IoPub]
        .into_iter()
        .find(|channel| channel.name().as_bytes() == name)
}

fn unreadable(channel: Channel, error: WireError) -> Unreadable {
    Unreadable { channel, error }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jupyter::content::{Content, ExecuteRequest, Stream};
    use crate::jupyter::message::Header;

    fn request() -> Message {
        let content = Content::ExecuteRequest(ExecuteRequest {
            code: "print('größe')".to_owned(),
            silent: false,
            store_history: true,
            user_expressions: serde_json::Map::new(),
            allow_stdin: false,
            stop_on_error: true,
        });
        Message::request(content, "session", "me", "2026-11-22T00:00:00Z".to_owned())
    }

    /// The decoded message, after checking that its raw content matches.
    fn read(decoded: Result<Decoded, Unreadable>) -> Result<(Channel, Message), Unreadable> {
        decoded.map(|decoded| {
            let kind = &decoded.message.header.msg_type;
            let content = Content::from_json(kind, &decoded.raw.content).unwrap();
            assert_eq!(content, decoded.message.content);
            (decoded.channel, decoded.message)
        })
    }

    fn stream(buffers: Vec<Bytes>) -> Message {
        Message {
            header: Header {
                msg_id: "m".to_owned(),
                msg_type: "stream".to_owned(),
                ..Header::default()
            },
            parent: Some(Header {
                msg_id: "p".to_owned(),
                ..Header::default()
            }),
            metadata: serde_json::Map::new(),
            content: Content::Stream(Stream {
                name: "stdout".to_owned(),
                text: "héllo\n".to_owned(),
            }),
            buffers,
        }
    }

    /// As jupyter_server encodes it: `serialize_msg_to_ws_v1` in services/kernels/connection/base.py.
    fn v1(channel: &str, parts: &[&[u8]]) -> Bytes {
        let mut offsets = vec![8 * (1 + 1 + parts.len() as u64 + 1)];
        offsets.push(offsets[0] + channel.len() as u64);
        for part in parts {
            offsets.push(offsets.last().unwrap() + part.len() as u64);
        }
        let mut frame = (offsets.len() as u64).to_le_bytes().to_vec();
        for offset in offsets {
            frame.extend(offset.to_le_bytes());
        }
        frame.extend(channel.as_bytes());
        for part in parts {
            frame.extend(*part);
        }
        frame.into()
    }

    const STREAM: [&[u8]; 4] = [
        br#"{"msg_id":"m","msg_type":"stream"}"#,
        br#"{"msg_id":"p"}"#,
        b"{}",
        r#"{"name":"stdout","text":"héllo\n"}"#.as_bytes(),
    ];

    #[test]
    fn what_a_server_sends_is_read() {
        let plain = v1("iopub", &STREAM);
        assert_eq!(
            read(decode_binary(Dialect::V1, &plain)),
            Ok((Channel::IoPub, stream(vec![])))
        );
        let with_buffers = v1("iopub", &[&STREAM[..], &[b"\x00\xff", b""]].concat());
        assert_eq!(
            read(decode_binary(Dialect::V1, &with_buffers)),
            Ok((
                Channel::IoPub,
                stream(vec![Bytes::from_static(b"\x00\xff"), Bytes::new()])
            ))
        );
        let text = r#"{"header":{"msg_id":"m","msg_type":"stream"},"msg_id":"m","msg_type":"stream",
            "parent_header":{"msg_id":"p"},"metadata":{},"content":{"name":"stdout","text":"h\u00e9llo\n"},
            "buffers":[],"channel":"iopub"}"#;
        assert_eq!(
            read(decode_text(text.as_bytes())),
            Ok((Channel::IoPub, stream(vec![])))
        );
        let mut legacy = Vec::new();
        for n in [3_u32, 16, 16 + u32::try_from(text.len()).unwrap()] {
            legacy.extend(n.to_be_bytes());
        }
        legacy.extend((18 + u32::try_from(text.len()).unwrap()).to_be_bytes());
        legacy.extend(text.as_bytes());
        legacy.extend(b"\x00\xffrest");
        assert_eq!(
            read(decode_binary(Dialect::Json, &legacy.into())),
            Ok((
                Channel::IoPub,
                stream(vec![
                    Bytes::from_static(b"\x00\xff"),
                    Bytes::from_static(b"rest")
                ])
            ))
        );
    }

    #[test]
    fn what_we_send_is_what_we_would_read() {
        for dialect in [Dialect::V1, Dialect::Json] {
            for buffers in [vec![], vec![Bytes::from_static(b"\x01"), Bytes::new()]] {
                let mut message = stream(buffers);
                "comm_msg".clone_into(&mut message.header.msg_type);
                message.content = Content::Other {
                    msg_type: "comm_msg".to_owned(),
                    content: json!({"comm_id": "1", "data": {"ü": [1.5, null]}}),
                };
                let back = match encode(dialect, Channel::Stdin, &message) {
                    Frame::Binary(bytes) => decode_binary(dialect, &bytes),
                    Frame::Text(text) => decode_text(text.as_bytes()),
                };
                assert_eq!(read(back), Ok((Channel::Stdin, message)));
            }
        }
        let Frame::Binary(frame) = encode(Dialect::V1, Channel::Shell, &request()) else {
            panic!("v1 is binary");
        };
        let raw = RawMessage::from(&request());
        let parts = [&raw.header, &raw.parent, &raw.metadata, &raw.content];
        assert_eq!(frame.len(), v1("shell", &parts.map(|p| &p[..])).len());
        assert_eq!(frame[..8], 6_u64.to_le_bytes());
        assert_eq!(frame[56..61], *b"shell");
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let good = v1("iopub", &STREAM);
        let with = |n: usize, value: u64| {
            let mut frame = good.to_vec();
            frame[8 * n..8 * n + 8].copy_from_slice(&value.to_le_bytes());
            decode_binary(Dialect::V1, &frame.into()).map_err(|unreadable| unreadable.error)
        };
        let malformed = |what| Err(WireError::Malformed { what });
        assert_eq!(with(0, u64::MAX), malformed("it has too many parts"));
        assert_eq!(with(0, 1 << 45), malformed("it has too many parts"));
        assert_eq!(with(0, 5), malformed("it has too few parts"));
        assert_eq!(with(0, 0), malformed("it has too few parts"));
        assert_eq!(with(0, 100), malformed("its parts overlap its offsets"));
        assert_eq!(with(1, 0), malformed("its parts overlap its offsets"));
        let outside = malformed("a part begins or ends outside of it");
        assert_eq!(with(2, 1), outside);
        assert_eq!(with(6, u64::MAX), outside);
        assert_eq!(with(6, good.len() as u64 + 1), outside);
        assert_eq!(
            decode_binary(Dialect::V1, &v1("heartbeat", &STREAM)),
            Err(Unreadable {
                channel: Channel::IoPub,
                error: WireError::Malformed {
                    what: "its channel has no name"
                }
            })
        );
        assert_eq!(
            decode_text(b"[1]").map_err(|unreadable| unreadable.channel),
            Err(Channel::IoPub)
        );
        let mut bad = STREAM;
        bad[3] = b"{";
        assert!(matches!(
            decode_binary(Dialect::V1, &v1("shell", &bad)),
            Err(Unreadable {
                channel: Channel::Shell,
                error: WireError::NotJson {
                    frame: "content",
                    ..
                }
            })
        ));
    }

    /// Decodes every prefix of a good frame, and a hundred thousand frames with some bytes changed: no panic, and the
    /// decoded buffers are never longer than the frame.
    #[test]
    fn cut_and_garbled_frames_never_panic() {
        let message = stream(vec![Bytes::from_static(b"buffer"), Bytes::new()]);
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % below as u64).unwrap()
        };
        for dialect in [Dialect::V1, Dialect::Json] {
            let Frame::Binary(good) = encode(dialect, Channel::IoPub, &message) else {
                panic!("with buffers it is binary");
            };
            let read = |frame: Bytes| {
                let size = frame.len();
                if let Ok(decoded) = decode_binary(dialect, &frame) {
                    assert!(
                        decoded
                            .message
                            .buffers
                            .iter()
                            .map(Bytes::len)
                            .sum::<usize>()
                            <= size
                    );
                }
                let _ = decode_text(&frame);
            };
            for end in 0..good.len() {
                read(good.slice(..end));
            }
            for _ in 0..50_000 {
                let mut frame = good.to_vec();
                for _ in 0..=random(4) {
                    // Mostly among the numbers at the front.
                    let reach = if random(3) == 0 { frame.len() } else { 72 };
                    let at = random(reach);
                    frame[at] = [0, 1, 8, 0x7f, 0x80, 0xff, b'{', b'"'][random(8)];
                }
                frame.truncate(frame.len() - random(3));
                read(frame.into());
            }
        }
    }
}
