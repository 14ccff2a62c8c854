//! Multipart frames <-> [`Message`] (messaging spec, "The Wire Protocol").
//!
//! `[identities.., "<IDS|MSG>", signature, header, parent_header, metadata, content, buffers..]`, signed with
//! HMAC-SHA256 over the four JSON frames. Frames are untrusted: nothing is read past the end, the signature is compared
//! in constant time before any JSON is parsed, and extra identity frames are skipped.

use bytes::Bytes;

use super::message::Message;
use super::raw::RawMessage;
pub use super::signature::{DELIMITER, Signer, WireError};

/// The frames of `message`, starting with the delimiter.
pub fn encode(message: &Message, signer: &Signer) -> Vec<Bytes> {
    RawMessage::from(message).seal(signer)
}

/// Estimates how many bytes the message in these frames takes in memory, rather too many: `[0,0]` takes more than five.
/// Text with few commas is scanned only once.
pub fn weight(frames: &[Bytes]) -> usize {
    let bytes: usize = frames.iter().map(Bytes::len).sum();
    // Buffers are not JSON.
    let start = frames.iter().position(|frame| frame.as_ref() == DELIMITER);
    let json = frames.iter().skip(start.unwrap_or(0)).take(6);
    bytes + json.map(|frame| tree(frame)).sum::<usize>()
}

/// The memory that the values of a JSON text take besides its characters.
fn tree(json: &[u8]) -> usize {
    const VALUE: usize = 32;
    const ENTRY: usize = 64;
    // Not worth an exact count.
    const LITTLE: usize = 1 << 20;
    let value = |byte: &u8| u8::from(matches!(*byte, b',' | b'[' | b'{'));
    // Counted in chunks of 255 bytes, which compilers turn into vector instructions: an image is 27 MB of text.
    let values = json
        .chunks(usize::from(u8::MAX))
        .map(|some| usize::from(some.iter().map(value).sum::<u8>()));
    let most = values.sum::<usize>() * (VALUE + ENTRY);
    if most <= LITTLE {
        return most;
    }
    let mut cost = 0;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'[' => cost += VALUE,
            b'{' | b':' => cost += ENTRY,
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    cost
}

/// Decodes the frames of one multipart message.
///
/// # Errors
/// [`WireError`]; the caller must drop the message and report it, never use parts of it.
pub fn decode(frames: &[Bytes], signer: &Signer) -> Result<Message, WireError> {
    RawMessage::open(frames, signer)?.decode()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::jupyter::content::{Content, ExecutionState, Stream};
    use crate::jupyter::message::Header;

    fn frames(signature: &'static [u8], header: &'static str, content: &'static str) -> Vec<Bytes> {
        vec![
            Bytes::from_static(b"identity"),
            Bytes::from_static(DELIMITER),
            Bytes::from_static(signature),
            Bytes::from_static(header.as_bytes()),
            Bytes::from_static(b"{}"),
            Bytes::from_static(b"{}"),
            Bytes::from_static(content.as_bytes()),
        ]
    }

    #[test]
    fn small_values_weigh_more_than_they_are_long() {
        let weigh = |content: String| {
            let mut frames = frames(b"", "{}", "");
            frames[6] = Bytes::from(content);
            weight(&frames) / (1 << 20)
        };
        let zeros = vec!["0"; 1 << 20].join(",");
        assert_eq!(weigh(format!("[{zeros}]")), 34);
        assert_eq!(weigh(format!("{{\"data\": [{zeros}]}}")), 34);
        // Inside a string they are only characters.
        assert_eq!(weigh(format!("{{\"text\": \"\\\"{zeros}\"}}")), 2);
        assert_eq!(weigh("[".repeat(1 << 20)), 33);
    }

    #[test]
    fn what_we_sign_we_accept_and_nobody_else_does() {
        let signer = Signer::new("secret");
        let message = Message::request(Content::KernelInfoRequest, "s", "u", "d".to_owned());
        let mut wire = encode(&message, &signer);
        let decoded = decode(&wire, &signer).unwrap();
        assert_eq!(decoded.header, message.header);
        assert_eq!(
            decode(&wire, &Signer::new("other")),
            Err(WireError::BadSignature)
        );
        wire[5] = Bytes::from_static(b"{\"x\":1}");
        assert_eq!(decode(&wire, &signer), Err(WireError::BadSignature));
        wire[1] = Bytes::from_static(b"zz");
        assert_eq!(decode(&wire, &signer), Err(WireError::BadSignature));
    }

    /// RFC 4231, test case 2.
    #[test]
    fn the_signature_is_hmac_sha256_in_hex() {
        let signer = Signer::new("Jefe");
        assert_eq!(
            signer.sign([b"what do ya want ", b"for ", b"nothing", b"?"]),
            Bytes::from_static(b"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        );
    }

    #[test]
    fn identities_are_skipped_and_buffers_kept() {
        let open = Signer::new("");
        let mut wire = frames(
            b"",
            r#"{"msg_type":"stream","msg_id":"m"}"#,
            r#"{"name":"stdout","text":"hi"}"#,
        );
        wire.insert(0, Bytes::from_static(b"another"));
        wire.push(Bytes::from_static(b"\x00\xff"));
        let message = decode(&wire, &open).unwrap();
        assert_eq!(
            message,
            Message {
                header: Header {
                    msg_id: "m".to_owned(),
                    msg_type: "stream".to_owned(),
                    ..Header::default()
                },
                parent: None,
                metadata: Map::new(),
                content: Content::Stream(Stream {
                    name: "stdout".to_owned(),
                    text: "hi".to_owned()
                }),
                buffers: vec![Bytes::from_static(b"\x00\xff")],
            }
        );
    }

    #[test]
    fn short_and_broken_frames_are_errors_not_panics() {
        let open = Signer::new("");
        assert_eq!(
            decode(&[], &open),
            Err(WireError::NoDelimiter { frames: 0 })
        );
        let full = frames(
            b"",
            r#"{"msg_type":"status"}"#,
            r#"{"execution_state":"idle"}"#,
        );
        assert_eq!(
            decode(&full[..4], &open),
            Err(WireError::TooShort { found: 2 })
        );
        assert_eq!(
            decode(&full, &open).unwrap().content,
            Content::Status(ExecutionState::Idle)
        );
        let bad = frames(b"", "{", "{}");
        assert!(matches!(
            decode(&bad, &open),
            Err(WireError::NotJson {
                frame: "header",
                ..
            })
        ));
        let bad = frames(b"", r#"{"msg_type":"stream"}"#, "\"\\ud800");
        assert!(matches!(
            decode(&bad, &open),
            Err(WireError::NotJson {
                frame: "content",
                ..
            })
        ));
    }
}
