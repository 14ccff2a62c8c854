//! Scans JSON text below the parser: finds what `serde_json` refuses or rounds, and where.
//!
//! Invariant: nothing here decides whether text is JSON; the parser does, before or after.

/// A piece of JSON text that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// The inside of a string, escapes as written.
    Text(&'a str),
    /// A number, a keyword, or what should be one.
    Atom(&'a str),
}

/// Integers that fit neither `i64` nor `u64`: how many, and the byte offset of the first.
pub(super) fn big_integers(text: &str) -> (usize, usize) {
    let mut count = 0;
    let mut first = 0;
    for (offset, token) in tokens(text) {
        if let Token::Atom(atom) = token
            && is_big_integer(atom)
        {
            if count == 0 {
                first = offset;
            }
            count += 1;
        }
    }
    (count, first)
}

/// The text with `NaN`, `Infinity` and `-Infinity`, as Python writes them, replaced by null, and their number. `None`
/// if there are none.
pub(super) fn without_non_finite(text: &str) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut done = 0;
    let mut count = 0;
    for (offset, token) in tokens(text) {
        if let Token::Atom(atom @ ("NaN" | "Infinity" | "-Infinity")) = token {
            out.push_str(&text[done..offset]);
            out.push_str("null");
            done = offset + atom.len();
            count += 1;
        }
    }
    out.push_str(&text[done..]);
    (count > 0).then_some((out, count))
}

/// The first escape that is half of a UTF-16 pair: its byte offset and code unit.
pub(super) fn lone_surrogate(text: &str) -> Option<(usize, u16)> {
    tokens(text).find_map(|(offset, token)| match token {
        Token::Text(inside) => lone_surrogate_in(inside).map(|(at, unit)| (offset + at, unit)),
        Token::Atom(_) => None,
    })
}

/// Line of the first git conflict marker, from 1.
pub(super) fn merge_conflict(text: &str) -> Option<usize> {
    text.lines()
        .position(|line| line.starts_with("<<<<<<< "))
        .map(|index| index + 1)
}

/// Line and column, both from 1, of a byte offset; the column counts characters.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

fn is_big_integer(atom: &str) -> bool {
    let digits = atom.strip_prefix('-').unwrap_or(atom);
    // 18 digits always fit, which covers most numbers.
    digits.len() > 18
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && atom.parse::<i64>().is_err()
        && atom.parse::<u64>().is_err()
}

fn lone_surrogate_in(inside: &str) -> Option<(usize, u16)> {
    let mut at = 0;
    while let Some(found) = inside[at..].find('\\') {
        let start = at + found;
        match unit(inside, start) {
            Some(0xd800..=0xdbff) if matches!(unit(inside, start + 6), Some(0xdc00..=0xdfff)) => {
                at = start + 12;
            }
            Some(unit @ 0xd800..=0xdfff) => return Some((start, unit)),
            Some(_) => at = start + 6,
            // Any other escape: a backslash and an ASCII character, if the text is valid JSON.
            None => at = inside.ceil_char_boundary(start + 2),
        }
    }
    None
}

/// The code unit of the `\uXXXX` at `start`.
fn unit(inside: &str, start: usize) -> Option<u16> {
    let digits = inside.get(start..start + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

fn tokens(text: &str) -> impl Iterator<Item = (usize, Token<'_>)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let byte = *bytes.get(at)?;
            if byte == b'"' {
                let start = at + 1;
                let end = string_end(bytes, start);
                at = end + 1;
                return Some((start, Token::Text(&text[start..end])));
            }
            if is_atom(byte) {
                let start = at;
                while bytes.get(at).copied().is_some_and(is_atom) {
                    at += 1;
                }
                return Some((start, Token::Atom(&text[start..at])));
            }
            at += 1;
        }
    })
}

/// Offset of the closing quote, or the end of the text.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn is_atom(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_beyond_64_bits_are_big() {
        let text = r#"{"18446744073709551616": [1, 18446744073709551615, -9223372036854775808,
            18446744073709551616, -9223372036854775809, 1e30, 10000000000000000000000.0]}"#;
        let first = text.find("1844674407370955161 6".replace(' ', "").as_str());
        assert_eq!(first, Some(2));
        let offset = text.rfind("18446744073709551616").unwrap();
        assert_eq!(big_integers(text), (2, offset));
    }

    #[test]
    fn non_finite_numbers_outside_strings() {
        let text = r#"{"NaN": [NaN, Infinity, -Infinity, "NaN \" NaN", nul]}"#;
        let clean = r#"{"NaN": [null, null, null, "NaN \" NaN", nul]}"#;
        assert_eq!(without_non_finite(text), Some((clean.to_owned(), 3)));
        assert_eq!(without_non_finite(clean), None);
    }

    #[test]
    fn halves_of_pairs() {
        let cases = [
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud800""#, None),
            (r#""x\ud800""#, Some((2, 0xd800))),
            (r#"["\ud83d\ud83d\ude00"]"#, Some((2, 0xd83d))),
            (r#""\n\ude00""#, Some((3, 0xde00))),
            (r#""\u00e9\u12"#, None),
            ("\"\\é\\", None),
        ];
        for (text, expected) in cases {
            assert_eq!(lone_surrogate(text), expected, "{text}");
        }
    }

    #[test]
    fn positions_count_characters() {
        assert_eq!(position("ab", 0), (1, 1));
        assert_eq!(position("a\néé!", 6), (2, 3));
        assert_eq!(position("a", 99), (1, 2));
    }
}
