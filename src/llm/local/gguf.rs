//! Reads metadata from a GGUF file, without reading the model.
//!
//! Reads the key-value header of versions 2 and 3 (source: ggml's `gguf.md`). The file is untrusted: every length is
//! checked against the bytes that exist, only the four values below are kept, each within a limit, and the size of the
//! header is bounded. Tensors are never read. Big-endian files and version 1 are not supported; llama.cpp refuses them
//! too.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

/// Real headers are far smaller (the largest vocabularies make about 15 MB), so walking one stays quick.
const MAX_HEADER: u64 = 128 << 20;
/// Keys are at most 65535 bytes by the specification.
const MAX_KEY: u64 = 65_535;
/// The longest template seen in the wild is under 20 kB.
const MAX_STRING: u64 = 1 << 20;
/// Arrays of arrays are legal and unused.
const MAX_DEPTH: u32 = 4;

/// The parts of a GGUF header that Sponde uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GgufMetadata {
    /// `general.architecture`, for example `qwen2`.
    pub architecture: Option<String>,
    /// `general.name`, for people.
    pub name: Option<String>,
    /// `<architecture>.context_length`: the longest context the model was made for, in tokens.
    pub context_length: Option<u64>,
    /// `tokenizer.chat_template`: the Jinja template that turns messages into a prompt.
    pub chat_template: Option<String>,
}

impl GgufMetadata {
    /// Reads the header of the file at `path`.
    pub fn read(path: &Path) -> Result<Self, GgufError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        parse(BufReader::with_capacity(1 << 16, file), length)
    }
}

/// Why a header could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin with `GGUF`.
    #[error("not a GGUF file")]
    NotGguf,
    /// Not version 2 or 3.
    #[error("GGUF version {0} is not supported")]
    Version(u32),
    /// A length exceeds the bytes that exist.
    #[error("the header is cut short at byte {at}")]
    Cut {
        /// Offset of the value that does not fit.
        at: u64,
    },
    /// An impossible value: an unknown type, invalid text, a key of megabytes.
    #[error("the header is damaged at byte {at}: {what}")]
    Damaged {
        /// Offset after the value.
        at: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

fn parse(input: impl Read + Seek, length: u64) -> Result<GgufMetadata, GgufError> {
    let mut header = Header {
        input,
        at: 0,
        end: length.min(MAX_HEADER),
    };
    if header.end < 4 || header.bytes::<4>()? != *b"GGUF" {
        return Err(GgufError::NotGguf);
    }
    let version = header.u32()?;
    if !(2..=3).contains(&version) {
        return Err(GgufError::Version(version));
    }
    let _tensors = header.u64()?;
    let pairs = header.u64()?;

    let mut metadata = GgufMetadata::default();
    // Some files also have the length of a second architecture; which one applies is known at the end.
    let mut lengths = Vec::new();
    // Every pair takes at least 12 bytes, so a false count stops at the end of the header.
    for _ in 0..pairs {
        let key = header.string(MAX_KEY)?;
        let kind = header.u32()?;
        match key.as_str() {
            "general.architecture" => metadata.architecture = Some(header.text(kind)?),
            "general.name" => metadata.name = Some(header.text(kind)?),
            "tokenizer.chat_template" => metadata.chat_template = Some(header.text(kind)?),
            _ => match key.strip_suffix(".context_length") {
                Some(architecture) if lengths.len() < 8 => {
                    lengths.push((architecture.to_owned(), header.unsigned(kind)?));
                }
                _ => header.skip_value(kind, 0)?,
            },
        }
    }
    let own = |entry: &&(String, u64)| Some(entry.0.as_str()) == metadata.architecture.as_deref();
    metadata.context_length = lengths.iter().find(own).map(|entry| entry.1);
    Ok(metadata)
}

/// A reader that tracks its position and its limit.
struct Header<R> {
    input: R,
    at: u64,
    end: u64,
}

impl<R: Read + Seek> Header<R> {
    /// Advances by `count` bytes, which must exist.
    fn claim(&mut self, count: u64) -> Result<(), GgufError> {
        match self.at.checked_add(count) {
            Some(next) if next <= self.end => {
                self.at = next;
                Ok(())
            }
            _ => Err(GgufError::Cut { at: self.at }),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        self.claim(N as u64)?;
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A length-prefixed string of at most `limit` bytes.
    fn string(&mut self, limit: u64) -> Result<String, GgufError> {
        let length = self.u64()?;
        self.claim(length)?;
        if length > limit {
            return Err(self.damaged("a text that is too long"));
        }
        let size = usize::try_from(length).map_err(|_| self.damaged("a text that is too long"))?;
        let mut bytes = vec![0; size];
        self.input.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.damaged("a text that is not UTF-8"))
    }

    /// A value that must be a string.
    fn text(&mut self, kind: u32) -> Result<String, GgufError> {
        if kind == kind::STRING {
            self.string(MAX_STRING)
        } else {
            Err(self.damaged("a number where a text belongs"))
        }
    }

    /// A value that must be a whole number.
    fn unsigned(&mut self, kind: u32) -> Result<u64, GgufError> {
        match kind {
            kind::U16 => self
                .bytes()
                .map(|bytes| u64::from(u16::from_le_bytes(bytes))),
            kind::U32 | kind::I32 => self.u32().map(u64::from),
            kind::U64 | kind::I64 => self.u64(),
            _ => Err(self.damaged("no number where one belongs")),
        }
    }

    fn skip(&mut self, count: u64) -> Result<(), GgufError> {
        self.claim(count)?;
        let count = i64::try_from(count).map_err(|_| GgufError::Cut { at: self.at })?;
        Ok(self.input.seek_relative(count)?)
    }

    fn skip_value(&mut self, kind: u32, depth: u32) -> Result<(), GgufError> {
        if let Some(size) = kind::fixed_size(kind) {
            return self.skip(size);
        }
        match kind {
            kind::STRING => {
                let length = self.u64()?;
                self.skip(length)
            }
            kind::ARRAY if depth < MAX_DEPTH => {
                let element = self.u32()?;
                let count = self.u64()?;
                if let Some(size) = kind::fixed_size(element) {
                    let bytes = count
                        .checked_mul(size)
                        .ok_or(GgufError::Cut { at: self.at })?;
                    return self.skip(bytes);
                }
                // Every element takes at least 8 bytes, so this loop too is bounded by the header.
                (0..count).try_for_each(|_| self.skip_value(element, depth + 1))
            }
            kind::ARRAY => Err(self.damaged("arrays nested too deeply")),
            _ => Err(self.damaged("a value of an unknown type")),
        }
    }

    fn damaged(&self, what: &'static str) -> GgufError {
        GgufError::Damaged { at: self.at, what }
    }
}

/// Value types as numbered by the format.
mod kind {
    pub(super) const U16: u32 = 2;
    pub(super) const U32: u32 = 4;
    pub(super) const I32: u32 = 5;
    pub(super) const STRING: u32 = 8;
    pub(super) const ARRAY: u32 = 9;
    pub(super) const U64: u32 = 10;
    pub(super) const I64: u32 = 11;

    /// Bytes of a number or boolean; `None` for strings, arrays and unknown types.
    pub(super) fn fixed_size(kind: u32) -> Option<u64> {
        match kind {
            0 | 1 | 7 => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Cursor;

    /// Writes a header by hand.
    #[derive(Clone)]
    struct File(Vec<u8>);

    impl File {
        fn new(version: u32, pairs: u64) -> Self {
            let mut bytes = b"GGUF".to_vec();
            bytes.extend(version.to_le_bytes());
            bytes.extend(7_u64.to_le_bytes());
            bytes.extend(pairs.to_le_bytes());
            Self(bytes)
        }
        fn raw(mut self, bytes: impl AsRef<[u8]>) -> Self {
            self.0.extend(bytes.as_ref());
            self
        }
        fn text(self, text: &str) -> Self {
            self.raw((text.len() as u64).to_le_bytes()).raw(text)
        }
        fn key(self, key: &str, kind: u32) -> Self {
            self.text(key).raw(kind.to_le_bytes())
        }
        fn array(self, key: &str, element: u32, count: u64) -> Self {
            self.key(key, 9)
                .raw(element.to_le_bytes())
                .raw(count.to_le_bytes())
        }
        fn parse(self) -> Result<GgufMetadata, String> {
            let length = self.0.len() as u64;
            parse(BufReader::new(Cursor::new(self.0)), length).map_err(|error| error.to_string())
        }
    }

    fn good() -> File {
        File::new(3, 8)
            .key("general.architecture", 8)
            .text("qwen2")
            .key("other.context_length", 4)
            .raw(5_u32.to_le_bytes())
            .key("qwen2.context_length", 4)
            .raw(32_768_u32.to_le_bytes())
            .array("tokenizer.ggml.tokens", 8, 2)
            .text("a")
            .text("bc")
            .array("tokenizer.ggml.token_type", 5, 3)
            .raw([0; 12])
            .key("general.name", 8)
            .text("Qwen2.5 Coder")
            .array("nested", 9, 1)
            .raw(7_u32.to_le_bytes())
            .raw(2_u64.to_le_bytes())
            .raw([0, 1])
            .key("tokenizer.chat_template", 8)
            .text("{{ messages }} é")
    }

    #[test]
    fn reads_what_is_asked_and_skips_the_rest() {
        let expected = GgufMetadata {
            architecture: Some("qwen2".to_owned()),
            name: Some("Qwen2.5 Coder".to_owned()),
            context_length: Some(32_768),
            chat_template: Some("{{ messages }} é".to_owned()),
        };
        assert_eq!(good().parse(), Ok(expected.clone()));
        // Tensor data after the header is not read.
        assert_eq!(good().raw([0xff; 100]).parse(), Ok(expected));
        assert_eq!(File::new(2, 0).parse(), Ok(GgufMetadata::default()));
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = good().0;
        for length in 0..whole.len() {
            assert!(
                File(whole[..length].to_vec()).parse().is_err(),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn hostile_headers_are_refused() {
        let huge = u64::MAX.to_le_bytes();
        let deep = (0..6).fold(File::new(3, 1).key("k", 9), |file, _| {
            file.raw(9_u32.to_le_bytes()).raw(1_u64.to_le_bytes())
        });
        for (file, expected) in [
            (File(Vec::new()), "not a GGUF file"),
            (File(b"PK\x03\x04 and more".to_vec()), "not a GGUF file"),
            (File::new(1, 0), "GGUF version 1 is not supported"),
            (
                File::new(0x0300_0000, 0),
                "GGUF version 50331648 is not supported",
            ),
            (File::new(3, u64::MAX), "the header is cut short at byte 24"),
            (
                File::new(3, 1).raw(huge),
                "the header is cut short at byte 32",
            ),
            (
                File::new(3, 1)
                    .raw(70_000_u64.to_le_bytes())
                    .raw("k".repeat(70_000)),
                "the header is damaged at byte 70032: a text that is too long",
            ),
            (
                File::new(3, 1).key("k", 8).raw(huge),
                "the header is cut short at byte 45",
            ),
            (
                File::new(3, 1).array("k", 4, u64::MAX),
                "the header is cut short at byte 49",
            ),
            (
                File::new(3, 1).array("k", 8, u64::MAX),
                "the header is cut short at byte 49",
            ),
            (
                File::new(3, 1).array("k", 4, 1 << 40),
                "the header is cut short at byte 49",
            ),
            (
                File::new(3, 1).array("k", 99, 1),
                "the header is damaged at byte 49: a value of an unknown type",
            ),
            (
                deep,
                "the header is damaged at byte 85: arrays nested too deeply",
            ),
            (
                File::new(3, 1).key("k", 13),
                "the header is damaged at byte 37: a value of an unknown type",
            ),
            (
                File::new(3, 1).key("general.name", 4).raw([0; 4]),
                "the header is damaged at byte 48: a number where a text belongs",
            ),
            (
                File::new(3, 1)
                    .key("general.name", 8)
                    .raw(2_u64.to_le_bytes())
                    .raw([0xff, 0xfe]),
                "the header is damaged at byte 58: a text that is not UTF-8",
            ),
            (
                File::new(3, 1).key("a.context_length", 6).raw([0; 4]),
                "the header is damaged at byte 52: no number where one belongs",
            ),
        ] {
            let start = String::from_utf8_lossy(&file.0[..file.0.len().min(60)]).into_owned();
            assert_eq!(file.parse(), Err(expected.to_owned()), "{start:?}");
        }
    }
}
