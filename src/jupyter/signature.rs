//! Signatures of messages: HMAC-SHA256 over the four JSON frames (messaging spec, "The Wire Protocol"), and why
//! frames are rejected.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Separates the identities from the message.
pub const DELIMITER: &[u8] = b"<IDS|MSG>";

/// Why frames are not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No `<IDS|MSG>`.
    #[error("no <IDS|MSG> delimiter in a message of {frames} frames")]
    NoDelimiter {
        /// Number of frames received.
        frames: usize,
    },
    /// Fewer than the five frames that must follow the delimiter.
    #[error("message is cut short: {found} of 5 frames after the delimiter")]
    TooShort {
        /// Number of frames after the delimiter.
        found: usize,
    },
    /// The signature does not match the key.
    #[error("message signature does not match the connection file's key")]
    BadSignature,
    /// A frame is not JSON.
    #[error("the {frame} frame is not JSON: {reason}")]
    NotJson {
        /// Which frame.
        frame: &'static str,
        /// The parser's error.
        reason: String,
    },
    /// Invalid lengths or names in a websocket frame (jupyter_server, "WebSocket kernel wire protocols").
    #[error("websocket frame is malformed: {what}")]
    Malformed {
        /// What is invalid.
        what: &'static str,
    },
}

/// Signs and verifies with a connection file's key. An empty key turns signing off.
#[derive(Clone)]
pub struct Signer {
    mac: Option<Hmac<Sha256>>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl Signer {
    /// A signer for `key`, the `key` field of a connection file.
    pub fn new(key: &str) -> Self {
        let mac = (!key.is_empty())
            .then(|| Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok())
            .flatten();
        Self { mac }
    }

    fn over(&self, parts: [&[u8]; 4]) -> Option<Hmac<Sha256>> {
        let mut mac = self.mac.clone()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }

    /// The signature frame: lower-case hex, or empty without a key.
    pub(super) fn sign(&self, parts: [&[u8]; 4]) -> Bytes {
        self.over(parts)
            .map_or_else(Bytes::new, |mac| hex(&mac.finalize().into_bytes()).into())
    }

    /// Constant-time comparison (`Mac::verify_slice`).
    pub(super) fn verify(&self, signature: &[u8], parts: [&[u8]; 4]) -> Result<(), WireError> {
        let Some(mac) = self.over(parts) else {
            return Ok(());
        };
        let expected = unhex(signature).ok_or(WireError::BadSignature)?;
        mac.verify_slice(&expected)
            .map_err(|_| WireError::BadSignature)
    }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 0x0f)]])
        .collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    fn digit(c: u8) -> Option<u8> {
        char::from(c)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    }
    let (pairs, []) = text.as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}
