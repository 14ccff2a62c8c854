//! SHA-256 in hexadecimal, as records and their chain write it.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// SHA-256 as text.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
