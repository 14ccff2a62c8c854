//! Connect's streams: each message is a byte of flags, its length in four bytes, and JSON.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::{Buf as _, Bytes, BytesMut};
use serde_json::{Value, json};

use super::failure::E2bFailure;

/// Of the last message, which says how it ended.
const LAST: u8 = 2;
/// Of one that is packed, which nobody asked for.
const PACKED: u8 = 1;
/// Bytes of a message.
const LARGEST: usize = 8 << 20;
/// What stands before the JSON.
const HEAD: usize = 5;

/// A message.
pub(super) fn message(value: &Value) -> Bytes {
    framed(0, value)
}

/// The last one.
pub(super) fn end(failure: Option<&E2bFailure>) -> Bytes {
    framed(
        LAST,
        &failure.map_or_else(|| json!({}), |it| json!({ "error": it.connect_error() })),
    )
}

fn framed(flags: u8, value: &Value) -> Bytes {
    let json = value.to_string();
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(json.len() + HEAD);
    framed.push(flags);
    framed.extend(length.to_be_bytes());
    framed.extend(json.as_bytes());
    framed.into()
}

/// A stream that says at once why there is nothing in it.
pub(super) fn refused(failure: &E2bFailure) -> Response {
    (
        [(CONTENT_TYPE, "application/connect+json")],
        end(Some(failure)),
    )
        .into_response()
}

/// Messages out of pieces of a body.
#[derive(Default)]
pub(super) struct Frames(BytesMut);

impl Frames {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// The next message that is whole.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, E2bFailure> {
        let refused = |message: &str| {
            E2bFailure::new(axum::http::StatusCode::BAD_REQUEST, message.to_owned())
        };
        let Some((flags, length)) = self.0.split_first_chunk::<HEAD>().map(|(head, _)| {
            let [flags, a, b, c, d] = *head;
            (flags, u32::from_be_bytes([a, b, c, d]) as usize)
        }) else {
            return Ok(None);
        };
        if length > LARGEST {
            return Err(refused("a message is too large"));
        }
        if flags & PACKED != 0 {
            return Err(refused("messages cannot be packed"));
        }
        if self.0.len() < HEAD + length {
            return Ok(None);
        }
        self.0.advance(HEAD);
        Ok(Some(self.0.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_pieces() {
        let mut frames = Frames::default();
        let sent = [message(&json!({"a": 1})), end(None)].concat();
        let mut found = Vec::new();
        for byte in &sent {
            frames.add(&[*byte]);
            found.extend(frames.next().unwrap());
        }
        assert_eq!(found, [Bytes::from("{\"a\":1}"), Bytes::from("{}")]);
        assert_eq!(sent.first_chunk(), Some(&[0, 0, 0, 0, 7]));
        frames.add(&[0, 0xff, 0, 0, 0]);
        assert!(frames.next().is_err());
    }
}
