//! The bytes of a file as text, of compressed ones too, as far as they are looked at.
//!
//! A small file can say that it is a large one, and be it (a "zip bomb"): every reader has its end, whatever the file says.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};

use flate2::read::MultiGzDecoder;

use super::encoding::Survey;

/// Bytes of a text that are looked at.
pub(super) const HEAD: u64 = 32 << 20;
/// Bytes behind them that are searched for other letters and line breaks.
const SURVEYED: u64 = 128 << 20;
/// The same of what was compressed, which costs more.
const SURVEYED_PACKED: u64 = 32 << 20;

/// What can be told of a file that could not be read; never with words from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken(pub(super) String);

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                "it is damaged, or not of that kind".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

impl From<&str> for Broken {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

/// How much of a text was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// The beginning.
    First {
        /// Lines that follow, if something is known of that.
        rest: Option<u64>,
    },
}

/// A file's beginning as text.
pub(super) struct Text {
    pub(super) head: String,
    pub(super) extent: Extent,
    /// The encoding as Python calls it; empty for UTF-8.
    pub(super) encoding: &'static str,
    /// Whether some bytes are no characters of it.
    pub(super) is_wrong: bool,
    /// Line breaks, as far as they are known.
    pub(super) lines: u64,
    /// What broke off the reading of compressed data.
    pub(super) damage: Option<Broken>,
}

impl Text {
    /// What pandas must be told of the encoding.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if !self.encoding.is_empty() {
            arguments.push(format!("encoding='{}'", self.encoding));
        }
        if self.is_wrong {
            arguments.push("encoding_errors='replace'".to_owned());
        }
        arguments
    }
}

/// How a text is packed in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
}

/// The text in `file`, which has `bytes` bytes.
pub(super) fn read(file: &mut File, bytes: u64, packing: Packing) -> io::Result<Text> {
    file.seek(SeekFrom::Start(0))?;
    match packing {
        Packing::Plain => from(file, Some(bytes), SURVEYED),
        Packing::Gzip => from(
            &mut MultiGzDecoder::new(io::BufReader::new(file)),
            None,
            SURVEYED_PACKED,
        ),
    }
}

/// The text that `reader` gives, of `bytes` if that is known.
pub(super) fn from(reader: &mut dyn Read, bytes: Option<u64>, most: u64) -> io::Result<Text> {
    let mut head = Vec::new();
    let mut damage = None;
    // What came before the damage can be told.
    if let Err(error) = reader.take(HEAD).read_to_end(&mut head) {
        if head.is_empty() {
            return Err(error);
        }
        damage = Some(Broken::from(error));
    }
    let mut survey = Survey::new();
    survey.see(&head);
    let before = survey.lines;
    let seen = head.len() as u64;
    let extent = if damage.is_some() {
        Extent::First { rest: None }
    } else if seen < HEAD {
        Extent::Whole
    } else {
        match survey.see_rest(reader, most)? {
            (_, true) => Extent::First {
                rest: Some(survey.lines - before),
            },
            (more, false) => Extent::First {
                rest: bytes.map(|bytes| {
                    let lines = u128::from(survey.lines) * u128::from(bytes);
                    let all = lines / u128::from((seen + more).max(1));
                    u64::try_from(all)
                        .unwrap_or(u64::MAX)
                        .saturating_sub(before)
                }),
            },
        }
    };
    // An empty rest counts as missing.
    let extent = match extent {
        Extent::First { rest: Some(0) } if bytes == Some(seen) => Extent::Whole,
        extent => extent,
    };
    let lines = match extent {
        Extent::First { rest: Some(rest) } => before.saturating_add(rest),
        Extent::Whole | Extent::First { rest: None } => survey.lines,
    };
    let decoded = survey.decode(&head, extent == Extent::Whole);
    Ok(Text {
        head: decoded.text,
        extent,
        encoding: decoded.encoding,
        is_wrong: decoded.is_wrong,
        lines,
        damage,
    })
}
