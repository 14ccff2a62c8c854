//! Reads a constrained reply while it streams.
//!
//! Nothing is passed on until the object's key is complete. Code then passes through unchanged, JSON and all, as a tool
//! call's arguments. An answer is unescaped as it arrives. Anything else, from a server that ignores schemas, is passed
//! on as text.

use super::{ANSWER, CODE};
use crate::llm::coded::{Piece, ReadReply};

/// A reply so far.
#[derive(Debug, Default)]
pub(super) struct Reader(State);

#[derive(Debug)]
enum State {
    /// The text so far, while the key may be incomplete.
    Head(String),
    Code,
    Answer(Unescape),
    /// The answer's string is closed; a brace may follow.
    Closed,
    Plain,
}

impl Default for State {
    fn default() -> Self {
        Self::Head(String::new())
    }
}

/// How a reply may begin.
enum Head<'a> {
    Incomplete,
    Code,
    /// With what follows the answer's opening quote.
    Answer(&'a str),
    Neither,
}

impl ReadReply for Reader {
    fn read(&mut self, fragment: &str) -> Vec<Piece> {
        match &mut self.0 {
            State::Head(text) => {
                text.push_str(fragment);
                let text = std::mem::take(text);
                self.begin(text)
            }
            State::Code => vec![Piece::Arguments(fragment.to_owned())],
            State::Answer(unescape) => {
                let (words, closed) = unescape.read(fragment);
                if closed {
                    self.0 = State::Closed;
                }
                answer(words)
            }
            State::Closed => Vec::new(),
            State::Plain => answer(fragment.to_owned()),
        }
    }

    fn finish(&mut self, _cut: bool) -> Vec<Piece> {
        match std::mem::replace(&mut self.0, State::Closed) {
            State::Head(text) => answer(text),
            State::Code | State::Answer(_) | State::Closed | State::Plain => Vec::new(),
        }
    }

    fn anew(&self) -> Box<dyn ReadReply> {
        Box::new(Self::default())
    }
}

impl Reader {
    fn begin(&mut self, text: String) -> Vec<Piece> {
        match head(&text) {
            Head::Incomplete => {
                self.0 = State::Head(text);
                Vec::new()
            }
            Head::Code => {
                self.0 = State::Code;
                vec![Piece::Call(None, text)]
            }
            Head::Answer(rest) => {
                let rest = rest.to_owned();
                self.0 = State::Answer(Unescape::default());
                self.read(&rest)
            }
            Head::Neither => {
                self.0 = State::Plain;
                answer(text)
            }
        }
    }
}

fn answer(words: String) -> Vec<Piece> {
    if words.is_empty() {
        Vec::new()
    } else {
        vec![Piece::Text(words)]
    }
}

/// Matches `{"code":` or `{"answer":"`, with white space anywhere between the tokens.
fn head(text: &str) -> Head<'_> {
    let Some(rest) = token(text, "{").and_then(|rest| token(rest, "\"")) else {
        return unless_begun(text, &["{", "\""]);
    };
    let Some((key, rest)) = rest.split_once('"') else {
        let begun = [CODE, ANSWER].iter().any(|key| key.starts_with(rest));
        return if begun {
            Head::Incomplete
        } else {
            Head::Neither
        };
    };
    let Some(value) = token(rest, ":") else {
        return unless_begun(rest, &[":"]);
    };
    match key {
        CODE => Head::Code,
        ANSWER => match token(value, "\"") {
            Some(words) => Head::Answer(words),
            None => unless_begun(value, &["\""]),
        },
        _ => Head::Neither,
    }
}

/// The text after `expected`, if `text` begins with it after white space.
fn token<'a>(text: &'a str, expected: &str) -> Option<&'a str> {
    text.trim_start().strip_prefix(expected)
}

/// Whether `text` may still become `tokens` as more arrives.
fn unless_begun<'a>(text: &str, tokens: &[&str]) -> Head<'a> {
    let mut rest = text.trim_start();
    for token in tokens {
        match rest.strip_prefix(token) {
            Some(after) => rest = after.trim_start(),
            None => break,
        }
    }
    if rest.is_empty() {
        Head::Incomplete
    } else {
        Head::Neither
    }
}

/// Unescapes the inside of a JSON string as it arrives. Lenient: an unknown escape yields its character, half of a
/// surrogate pair yields U+FFFD.
#[derive(Debug, Default)]
struct Unescape {
    escape: Escape,
    /// The first half of a surrogate pair, waiting for the second.
    high: Option<u16>,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// `\u`, with the digits so far.
    Unicode(String),
}

impl Unescape {
    /// The unescaped text of `fragment`, and whether it closes the string.
    fn read(&mut self, fragment: &str) -> (String, bool) {
        let mut words = String::with_capacity(fragment.len());
        for c in fragment.chars() {
            match &mut self.escape {
                Escape::None => match c {
                    '"' => {
                        self.settle(&mut words);
                        return (words, true);
                    }
                    '\\' => self.escape = Escape::Backslash,
                    c => {
                        self.settle(&mut words);
                        words.push(c);
                    }
                },
                Escape::Backslash if c == 'u' => self.escape = Escape::Unicode(String::new()),
                Escape::Backslash => {
                    self.escape = Escape::None;
                    self.settle(&mut words);
                    words.push(match c {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        other => other,
                    });
                }
                Escape::Unicode(digits) => {
                    digits.push(c);
                    if digits.len() >= 4 {
                        let unit = u16::from_str_radix(digits, 16).unwrap_or(0xFFFD);
                        self.escape = Escape::None;
                        self.unit(unit, &mut words);
                    }
                }
            }
        }
        (words, false)
    }

    /// Adds one UTF-16 code unit.
    fn unit(&mut self, unit: u16, words: &mut String) {
        if let Some(high) = self.high.take() {
            if let Some(Ok(c)) = char::decode_utf16([high, unit]).next() {
                words.push(c);
                return;
            }
            words.push(char::REPLACEMENT_CHARACTER);
        }
        match char::from_u32(u32::from(unit)) {
            Some(c) => words.push(c),
            None if unit < 0xDC00 => self.high = Some(unit),
            None => words.push(char::REPLACEMENT_CHARACTER),
        }
    }

    /// Replaces a first half whose second never came.
    fn settle(&mut self, words: &mut String) {
        if self.high.take().is_some() {
            words.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in fragments of `size` characters: the code's JSON, and the answer's text.
    fn read(text: &str, size: usize) -> (String, String) {
        let chars: Vec<char> = text.chars().collect();
        let mut reader = Reader::default();
        let mut pieces: Vec<Piece> = chars
            .chunks(size)
            .flat_map(|chunk| reader.read(&chunk.iter().collect::<String>()))
            .collect();
        pieces.extend(reader.finish(false));
        let (mut code, mut words) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                Piece::Call(None, fragment) | Piece::Arguments(fragment) => {
                    code.push_str(&fragment);
                }
                Piece::Text(fragment) => words.push_str(&fragment),
                other => panic!("{other:?}"),
            }
        }
        (code, words)
    }

    #[test]
    fn replies_are_told_apart_however_they_are_cut() {
        let code = r#"{"code": "print(\"1\\n\")"}"#;
        let cases = [
            (code, (code, "")),
            (" \n{ \"code\" :\"x\"} ", (" \n{ \"code\" :\"x\"} ", "")),
            (r#"{"code": "x = "#, (r#"{"code": "x = "#, "")),
            (r#"{"code": 5}"#, (r#"{"code": 5}"#, "")),
            (r#"{"answer": "It is 391."}"#, ("", "It is 391.")),
            (
                r#"{"answer":"a\n\"b\"\t\\ \/ \q"} "#,
                ("", "a\n\"b\"\t\\ / q"),
            ),
            (r#"{"answer": "caf\u00e9 \ud83d\ude00!"}"#, ("", "café 😀!")),
            (r#"{"answer": "\ud83dx\udc00"}"#, ("", "\u{FFFD}x\u{FFFD}")),
            (
                r#"{"answer": "\ud83d\n\ud83d"}"#,
                ("", "\u{FFFD}\n\u{FFFD}"),
            ),
            (r#"{"answer": "\uZZZZ"}"#, ("", "\u{FFFD}")),
            (r#"{"answer": "naïve — ok"}"#, ("", "naïve — ok")),
            (r#"{"answer": "cut o"#, ("", "cut o")),
            (r#"{"answer": 391}"#, ("", r#"{"answer": 391}"#)),
            (r#"{"result": "x"}"#, ("", r#"{"result": "x"}"#)),
            ("It is 391.", ("", "It is 391.")),
            ("```json\n{\"code\"", ("", "```json\n{\"code\"")),
            (r#"{"co"#, ("", r#"{"co"#)),
            ("", ("", "")),
        ];
        for (text, (code, words)) in cases {
            for size in [1, 2, 3, 7, 1000] {
                let read = read(text, size);
                assert_eq!(
                    (read.0.as_str(), read.1.as_str()),
                    (code, words),
                    "{text}, {size}"
                );
            }
        }
    }

    #[test]
    fn an_answer_is_told_while_it_is_written() {
        let mut reader = Reader::default();
        let told: Vec<Vec<Piece>> = [r#"{"ans"#, r#"wer": "The "#, r"mean\", r"n is", r#"""#, "}"]
            .into_iter()
            .map(|fragment| reader.read(fragment))
            .collect();
        let words = |words: &str| vec![Piece::Text(words.to_owned())];
        assert_eq!(
            told,
            vec![
                vec![],
                words("The "),
                words("mean"),
                words("\n is"),
                vec![],
                vec![]
            ]
        );
    }
}
