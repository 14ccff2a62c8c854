//! A message as it came over the wire: its signature was verified, its JSON is unparsed.
//!
//! Code that passes messages on (`kernel::proxy`) must not change a byte of them, and our typed contents keep only what
//! Sponde acts on. The frames share the memory they were received in.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::content::Content;
use super::message::{Header, Message};
use super::signature::{DELIMITER, Signer, WireError};

/// Most identity frames to search for the delimiter.
const MAX_IDENTITIES: usize = 16;

/// The frames of one message (messaging spec, "The Wire Protocol"), without delimiter and signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawMessage {
    /// The frames before the delimiter: identities of a requester, or the topic of an iopub message.
    pub prefix: Vec<Bytes>,
    /// The header, JSON.
    pub header: Bytes,
    /// The parent's header, JSON.
    pub parent: Bytes,
    /// Metadata, JSON.
    pub metadata: Bytes,
    /// The content, JSON.
    pub content: Bytes,
    /// Raw binary buffers.
    pub buffers: Vec<Bytes>,
}

impl RawMessage {
    /// Splits the frames of one multipart message and verifies its signature. Parses no JSON.
    ///
    /// # Errors
    /// [`WireError`], but not [`WireError::NotJson`].
    pub fn open(frames: &[Bytes], signer: &Signer) -> Result<Self, WireError> {
        let start = frames
            .iter()
            .take(MAX_IDENTITIES)
            .position(|frame| frame.as_ref() == DELIMITER)
            .ok_or(WireError::NoDelimiter {
                frames: frames.len(),
            })?;
        let rest = frames.get(start + 1..).unwrap_or_default();
        let [signature, header, parent, metadata, content, buffers @ ..] = rest else {
            return Err(WireError::TooShort { found: rest.len() });
        };
        signer.verify(signature, [header, parent, metadata, content])?;
        Ok(Self {
            prefix: frames.get(..start).unwrap_or_default().to_vec(),
            header: header.clone(),
            parent: parent.clone(),
            metadata: metadata.clone(),
            content: content.clone(),
            buffers: buffers.to_vec(),
        })
    }

    /// The frames with prefix, delimiter and `signer`'s signature.
    pub fn seal(&self, signer: &Signer) -> Vec<Bytes> {
        let json = [&self.header, &self.parent, &self.metadata, &self.content];
        let signature = signer.sign(json.map(Bytes::as_ref));
        let mut frames = Vec::with_capacity(self.prefix.len() + 6 + self.buffers.len());
        frames.extend(self.prefix.iter().cloned());
        frames.push(Bytes::from_static(DELIMITER));
        frames.push(signature);
        frames.extend(json.into_iter().cloned());
        frames.extend(self.buffers.iter().cloned());
        frames
    }

    /// Parses the message.
    ///
    /// # Errors
    /// [`WireError::NotJson`].
    pub fn decode(&self) -> Result<Message, WireError> {
        let header = self.header()?;
        let metadata: Map<String, Value> =
            serde_json::from_slice(&self.metadata).unwrap_or_default();
        let content =
            Content::from_json(&header.msg_type, &self.content).map_err(not_json("content"))?;
        Ok(Message {
            header,
            parent: self.parent(),
            metadata,
            content,
            buffers: self.buffers.clone(),
        })
    }

    /// Parses the header.
    ///
    /// # Errors
    /// [`WireError::NotJson`].
    pub fn header(&self) -> Result<Header, WireError> {
        // serde also reads a struct from an array, but a header must be an object.
        if !self.header.trim_ascii_start().starts_with(b"{") {
            return Err(WireError::NotJson {
                frame: "header",
                reason: "it is not an object".to_owned(),
            });
        }
        serde_json::from_slice(&self.header).map_err(not_json("header"))
    }

    /// Parses the parent's header. `None` if it is empty or invalid; the kernel's first `status: starting` has none.
    pub fn parent(&self) -> Option<Header> {
        serde_json::from_slice::<Header>(&self.parent)
            .ok()
            .filter(|parent| !parent.msg_id.is_empty())
    }
}

impl From<&Message> for RawMessage {
    fn from(message: &Message) -> Self {
        fn json<T: serde::Serialize>(value: &T) -> Bytes {
            // Serialising our own maps and strings cannot fail; an empty object keeps the frame count.
            serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"{}"), Bytes::from)
        }
        Self {
            prefix: Vec::new(),
            header: json(&message.header),
            parent: message
                .parent
                .as_ref()
                .map_or_else(|| Bytes::from_static(b"{}"), json),
            metadata: json(&message.metadata),
            content: json(&message.content.to_json()),
            buffers: message.buffers.clone(),
        }
    }
}

fn not_json(frame: &'static str) -> impl Fn(serde_json::Error) -> WireError {
    move |error| WireError::NotJson {
        frame,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn what_is_opened_and_sealed_again_has_not_changed() {
        let message = RawMessage {
            prefix: vec![raw("kernel.1.stream")],
            // Unknown fields, a number that no float can represent, unusual white space.
            header: raw(r#"{"msg_id": "m", "msg_type" :"new_reply", "later": 1}"#),
            parent: raw(r#"{"msg_id":"p","extra":null}"#),
            metadata: raw(r#"{"n":123456789012345678901234567890}"#),
            content: raw("{\"status\":\"ok\" , \"f\":1.10}"),
            buffers: vec![Bytes::from_static(b"\x00\xff")],
        };
        let (theirs, ours) = (Signer::new("theirs"), Signer::new("ours"));
        let opened = RawMessage::open(&message.seal(&theirs), &theirs).unwrap();
        assert_eq!(opened, message);
        let sealed = opened.seal(&ours);
        assert_eq!(RawMessage::open(&sealed, &ours), Ok(message));
        assert_eq!(
            RawMessage::open(&sealed, &theirs),
            Err(WireError::BadSignature)
        );
        assert_eq!(opened.header().unwrap().msg_type, "new_reply");
        assert_eq!(opened.parent().unwrap().msg_id, "p");
    }
}
