//! In which encoding a file of text is, and what Python calls it.

use std::io::{self, Read};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes that are read at a time, and of which those in other letters than ASCII's are given to the detector.
const BLOCK: usize = 64 << 10;
/// Bytes that the detector gets to see: it is slow, and sure after a few.
const DETECTED: usize = 256 << 10;
/// Bytes that decide about UTF-16 without a mark.
const ZEROS: usize = 4 << 10;

/// A file's beginning as text.
pub(super) struct Decoded {
    pub(super) text: String,
    /// Python's name of the encoding; empty for UTF-8.
    pub(super) encoding: &'static str,
    /// Whether some bytes are no characters of it.
    pub(super) is_wrong: bool,
}

/// What can be known of a file's bytes without keeping them.
pub(super) struct Survey {
    detector: EncodingDetector,
    detected: usize,
    /// Line breaks.
    pub(super) lines: u64,
    /// The beginning of a character at the end of what was seen.
    open: Vec<u8>,
    /// Characters beyond ASCII, and bytes that are not, as UTF-8.
    characters: u64,
    wrong: u64,
    /// Bytes that Windows-1252 lacks.
    unassigned: bool,
}

impl Survey {
    pub(super) fn new() -> Self {
        Self {
            detector: EncodingDetector::new(Iso2022JpDetection::Allow),
            detected: 0,
            lines: 0,
            open: Vec::new(),
            characters: 0,
            wrong: 0,
            unassigned: false,
        }
    }

    /// Looks at these bytes, which follow those seen before.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            self.lines += count(block, |byte| byte == b'\n');
            if block.is_ascii() && self.open.is_empty() && !block.contains(&0x1b) {
                continue;
            }
            self.unassigned |= block
                .iter()
                .any(|byte| matches!(byte, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d));
            if self.detected < DETECTED {
                self.detected += block.len();
                self.detector.feed(block, false);
            }
            let mut all = std::mem::take(&mut self.open);
            all.extend_from_slice(block);
            let mut at = 0;
            for chunk in all.utf8_chunks() {
                at += chunk.valid().len();
                self.characters += count(chunk.valid().as_bytes(), |byte| byte >= 0xc0);
                let invalid = chunk.invalid();
                let rest = all.get(at..).unwrap_or_default();
                at += invalid.len();
                let is_cut = at == all.len()
                    && std::str::from_utf8(rest).is_err_and(|e| e.error_len().is_none());
                if is_cut {
                    self.open = invalid.to_vec();
                } else if !invalid.is_empty() {
                    self.wrong += 1;
                }
            }
        }
    }

    /// The same for what is left of `file`, up to `most` bytes. Returns how many that were, and whether these were all.
    pub(super) fn see_rest(&mut self, file: &mut dyn Read, most: u64) -> io::Result<(u64, bool)> {
        let mut block = vec![0; 16 * BLOCK];
        let mut seen = 0;
        while seen < most {
            let length = file.read(&mut block)?;
            if length == 0 {
                return Ok((seen, true));
            }
            seen += length as u64;
            self.see(block.get(..length).unwrap_or_default());
        }
        Ok((seen, false))
    }

    /// The beginning of the file, of which all was surveyed. `is_all` if it is the whole file.
    pub(super) fn decode(mut self, head: &[u8], is_all: bool) -> Decoded {
        let (encoding, name) = self.encoding(head);
        let (text, _, _) = encoding.decode(head);
        // A character cut at the end of the beginning is not wrong.
        let cut = if is_all {
            text.len()
        } else {
            text.trim_end_matches('\u{fffd}').len()
        };
        let is_wrong = if encoding == UTF_8 {
            self.wrong > 0 || (is_all && !self.open.is_empty())
        } else {
            // Python knows no such bytes; the web's decoders make control characters of them.
            let is_unknown = |c: char| c == '\u{fffd}' || ('\u{80}'..='\u{9f}').contains(&c);
            name != "latin-1" && text.get(..cut).unwrap_or_default().contains(is_unknown)
        };
        Decoded {
            text: text.into_owned(),
            encoding: name,
            is_wrong,
        }
    }

    /// The encoding and its name in Python, which is empty for UTF-8.
    fn encoding(&mut self, head: &[u8]) -> (&'static Encoding, &'static str) {
        match head {
            [0xef, 0xbb, 0xbf, ..] => return (UTF_8, "utf-8-sig"),
            [0xff, 0xfe, ..] => return (UTF_16LE, "utf-16"),
            [0xfe, 0xff, ..] => return (UTF_16BE, "utf-16"),
            _ => {}
        }
        let start = head.get(..ZEROS.min(head.len())).unwrap_or_default();
        let zeros = |first: usize| count_iter(start.iter().skip(first).step_by(2), 0);
        let half = start.len() as u64 / 2;
        if half > 1 {
            // Most letters of a table are ASCII: every second byte is zero.
            match (zeros(0) * 2 > half, zeros(1) * 2 > half) {
                (false, true) => return (UTF_16LE, "utf-16-le"),
                (true, false) => return (UTF_16BE, "utf-16-be"),
                (true, true) | (false, false) => {}
            }
        }
        // A few broken characters make no other encoding of it.
        if self.wrong == 0 && self.open.is_empty() || self.wrong * 20 < self.characters {
            let escapes = head.contains(&0x1b);
            if !escapes {
                return (UTF_8, "");
            }
        }
        self.detector.feed(b"", true);
        let encoding = self.detector.guess(None, Utf8Detection::Allow);
        if encoding == UTF_8 {
            return (UTF_8, "");
        }
        if encoding == WINDOWS_1252 && self.unassigned {
            return (encoding, "latin-1");
        }
        (encoding, python_name(encoding))
    }
}

/// What Python calls an encoding of the web (encoding.spec.whatwg.org; Python's `codecs`, "Standard Encodings").
fn python_name(encoding: &'static Encoding) -> &'static str {
    match encoding.name() {
        "Shift_JIS" => "cp932",
        "EUC-JP" => "euc_jp",
        "ISO-2022-JP" => "iso2022_jp",
        "GBK" | "gb18030" => "gb18030",
        "Big5" => "big5hkscs",
        "EUC-KR" => "cp949",
        "IBM866" => "cp866",
        "KOI8-R" => "koi8_r",
        "KOI8-U" => "koi8_u",
        "ISO-8859-2" => "iso8859-2",
        "ISO-8859-4" => "iso8859-4",
        "ISO-8859-5" => "iso8859-5",
        "ISO-8859-6" => "iso8859-6",
        "ISO-8859-7" => "iso8859-7",
        "ISO-8859-8" | "ISO-8859-8-I" => "iso8859-8",
        "ISO-8859-13" => "iso8859-13",
        "windows-874" => "cp874",
        "windows-1250" => "cp1250",
        "windows-1251" => "cp1251",
        "windows-1252" => "cp1252",
        "windows-1253" => "cp1253",
        "windows-1254" => "cp1254",
        "windows-1255" => "cp1255",
        "windows-1256" => "cp1256",
        "windows-1257" => "cp1257",
        "windows-1258" => "cp1258",
        // It reads every byte.
        _ => "latin-1",
    }
}

fn count(bytes: &[u8], is_counted: impl Fn(u8) -> bool) -> u64 {
    bytes.iter().filter(|byte| is_counted(**byte)).count() as u64
}

fn count_iter<'a>(bytes: impl Iterator<Item = &'a u8>, wanted: u8) -> u64 {
    bytes.filter(|byte| **byte == wanted).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> (String, &'static str, bool) {
        let mut survey = Survey::new();
        survey.see(bytes);
        let decoded = survey.decode(bytes, true);
        (decoded.text, decoded.encoding, decoded.is_wrong)
    }

    #[test]
    fn encodings_are_known_by_their_bytes() {
        let utf_16 = |big: bool| -> Vec<u8> {
            let units = "stadt;höhe\nKöln;37\n".encode_utf16();
            units
                .flat_map(|unit| {
                    if big {
                        unit.to_be_bytes()
                    } else {
                        unit.to_le_bytes()
                    }
                })
                .collect()
        };
        let with_mark = [b"\xff\xfe".to_vec(), utf_16(false)].concat();
        let text = "stadt;höhe\nKöln;37\n";
        for (bytes, expected, encoding) in [
            (b"a,b\n1,2\n".to_vec(), "a,b\n1,2\n", ""),
            (text.as_bytes().to_vec(), text, ""),
            (b"\xef\xbb\xbfa,b\n".to_vec(), "a,b\n", "utf-8-sig"),
            (
                b"stadt;h\xf6he\nK\xf6ln;37\n".to_vec(),
                text,
                "cp1252",
            ),
            (with_mark, text, "utf-16"),
            (utf_16(false), text, "utf-16-le"),
            (utf_16(true), text, "utf-16-be"),
            (
                b"\xcc\xee\xf1\xea\xe2\xe0,\xd1\xe0\xed\xea\xf2-\xcf\xe5\xf2\xe5\xf0\xe1\xf3\xf0\xe3\n".to_vec(),
                "Москва,Санкт-Петербург\n",
                "cp1251",
            ),
            (
                b"\x93\x8c\x8b\x9e,\x91\xe5\x8d\xe3\x95\x7b\n".to_vec(),
                "東京,大阪府\n",
                "cp932",
            ),
            (
                "é".repeat(30).into_bytes().into_iter().chain([b'\n', 0xff, b'\n']).collect(),
                &*("é".repeat(30) + "\n\u{fffd}\n"),
                "!",
            ),
        ] {
            assert_eq!(
                decoded(&bytes),
                (
                    expected.to_owned(),
                    encoding.trim_end_matches('!'),
                    encoding == "!"
                ),
                "{expected}"
            );
        }
    }

    #[test]
    fn characters_across_blocks_are_no_errors() {
        for shift in 0..3 {
            let text = "x".repeat(shift) + &"漢".repeat(BLOCK);
            let mut survey = Survey::new();
            survey.see(text.as_bytes());
            assert_eq!((survey.wrong, survey.characters), (0, BLOCK as u64));
            // The same where the beginning ends within a character.
            let head = &text.as_bytes()[..=BLOCK];
            let decoded = survey.decode(head, false);
            assert_eq!((decoded.encoding, decoded.is_wrong), ("", false));
        }
    }

    #[test]
    fn what_comes_late_counts() {
        let mut survey = Survey::new();
        survey.see(b"a,b\n");
        let mut rest =
            io::Cursor::new([vec![b'x'; 100_000], b"\nM\xfcnchen,1\n".to_vec()].concat());
        assert_eq!(
            survey.see_rest(&mut rest, u64::MAX).unwrap(),
            (100_011, true)
        );
        assert_eq!(survey.lines, 3);
        let decoded = survey.decode(b"a,b\n", false);
        assert_eq!(decoded.encoding, "cp1252");
    }
}
