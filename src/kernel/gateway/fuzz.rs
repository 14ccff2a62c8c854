//! Fuzzes websocket frames of a Jupyter server: a decoded message is no larger than its frame, and encoding it again
//! decodes to the same.
#![expect(clippy::panic, reason = "a property that does not hold is a panic")]

use bytes::Bytes;

use super::frame::{self, Dialect, Frame};
use crate::jupyter::content::Content;
use crate::jupyter::message::Message;

/// The first byte chooses the kind of frame.
pub(crate) fn websocket(data: &[u8]) {
    let Some((kind, frame)) = data.split_first() else {
        return;
    };
    let frame = Bytes::copy_from_slice(frame);
    let decoded = match kind % 3 {
        0 => frame::decode_binary(Dialect::V1, &frame),
        1 => frame::decode_binary(Dialect::Json, &frame),
        _ => frame::decode_text(&frame),
    };
    let Ok(decoded) = decoded else {
        return;
    };
    let buffers: usize = decoded.message.buffers.iter().map(Bytes::len).sum();
    assert!(buffers <= frame.len());
    // Messages that only kernels send are never encoded by us.
    let is_written = matches!(
        decoded.message.content,
        Content::Other { .. } | Content::ExecuteRequest(_)
    );
    for dialect in [Dialect::V1, Dialect::Json]
        .into_iter()
        .filter(|_| is_written)
    {
        let again = match frame::encode(dialect, decoded.channel, &decoded.message) {
            Frame::Binary(frame) => frame::decode_binary(dialect, &frame),
            Frame::Text(text) => frame::decode_text(text.as_bytes()),
        };
        let Ok(again) = again else {
            panic!("{dialect:?}: {again:?}");
        };
        // Encoding merges duplicate keys of an object, which can change how its content is classified.
        let content = match (&decoded.message.content, again.message.content) {
            (Content::Other { .. }, content) if !matches!(content, Content::Other { .. }) => {
                decoded.message.content.clone()
            }
            (_, content) => content,
        };
        let again = (
            again.channel,
            Message {
                content,
                ..again.message
            },
        );
        assert_eq!(again, (decoded.channel, decoded.message.clone()));
    }
}
