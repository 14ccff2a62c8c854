//! Terminal control sequences in text (ECMA-48): the one parser of them. Kernels and models write the text, so every
//! sequence ends: what is not one is text again, and no text is lost with it.
//!
//! C1 controls count in their two-byte form (U+009B), as terminals in UTF-8 mode take them.

/// Longest run of parameters that is believed.
const PARAMETERS: usize = 64;
/// Longest text of a title, link or picture before it counts as never ended.
const STRING: usize = 1 << 20;

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text without sequences; other control characters are still in it.
    Text(&'a str),
    /// SGR, colours and weight: the parameters, nothing but digits, `;` and `:`.
    Colour(&'a str),
}

/// Reads one stream of text. State is kept between pieces, so that a sequence cut in two is still recognised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parser {
    state: State,
    /// Parameters of the sequence that is being read.
    parameters: String,
    /// Bytes of the control string that is being read.
    string: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// Bytes between ESC and the final one of a short sequence.
    Intermediate,
    Csi,
    /// OSC, APC, PM, SOS: up to BEL or ST, or to the end of its line.
    String,
    /// DCS: the same, over several lines.
    Device,
    /// ESC within one of them.
    StringEscape,
    DeviceEscape,
}

impl Parser {
    /// Takes the next piece of the stream apart. Sequences other than colours are left out.
    pub(crate) fn parse(&mut self, text: &str, mut found: impl FnMut(Piece<'_>)) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.state == State::Text {
                let end = rest.find(begins_sequence).unwrap_or(rest.len());
                let (plain, after) = rest.split_at(end);
                if !plain.is_empty() {
                    found(Piece::Text(plain));
                }
                rest = after;
            }
            let mut chars = rest.chars();
            let Some(c) = chars.next() else { break };
            // What cannot go on a sequence ends it and is looked at anew.
            if self.take(c, &mut found) {
                rest = chars.as_str();
            } else {
                self.state = State::Text;
            }
        }
    }

    /// Whether `c` is part of a sequence.
    fn take(&mut self, c: char, found: &mut impl FnMut(Piece<'_>)) -> bool {
        self.state = match (self.state, c) {
            (State::Text | State::Escape | State::Intermediate | State::Csi, '\u{1b}') => {
                State::Escape
            }
            (State::Text, '\u{9b}') | (State::Escape, '[') => {
                self.parameters.clear();
                State::Csi
            }
            (State::Text, '\u{90}') | (State::Escape, 'P') => self.string(State::Device),
            (State::Text, _) | (State::Escape, ']' | 'X' | '^' | '_') => self.string(State::String),
            (State::Escape | State::Intermediate, ' '..='/') => State::Intermediate,
            (State::Csi, ' '..='?') => {
                if self.parameters.len() < PARAMETERS {
                    self.parameters.push(c);
                }
                State::Csi
            }
            (State::Csi, 'm') => {
                if self.is_colour() {
                    found(Piece::Colour(&self.parameters));
                }
                State::Text
            }
            (State::Csi, '@'..='~') | (State::Escape | State::Intermediate, '0'..='~') => {
                State::Text
            }
            (State::String, '\u{1b}') => State::StringEscape,
            (State::Device, '\u{1b}') => State::DeviceEscape,
            (State::String | State::Device, '\u{7}' | '\u{9c}')
            | (State::StringEscape | State::DeviceEscape, '\\') => State::Text,
            (State::String | State::StringEscape, c) if c != '\n' && self.string < STRING => {
                self.longer(State::String, c)
            }
            (State::Device | State::DeviceEscape, c) if self.string < STRING => {
                self.longer(State::Device, c)
            }
            _ => return false,
        };
        true
    }

    /// Whether the next character is text unless it begins a sequence.
    pub(crate) fn is_in_text(&self) -> bool {
        self.state == State::Text
    }

    fn string(&mut self, state: State) -> State {
        self.string = 0;
        state
    }

    fn longer(&mut self, state: State, c: char) -> State {
        self.string += c.len_utf8();
        state
    }

    fn is_colour(&self) -> bool {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, ';' | ':');
        self.parameters.len() < PARAMETERS && self.parameters.chars().all(is_number)
    }
}

fn begins_sequence(c: char) -> bool {
    matches!(
        c,
        '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}'
    )
}

/// The text without any sequence, colours neither.
pub(crate) fn strip(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    Parser::default().parse(text, |piece| {
        if let Piece::Text(text) = piece {
            plain.push_str(text);
        }
    });
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pieces: &[&str]) -> String {
        let (mut parser, mut seen) = (Parser::default(), String::new());
        for piece in pieces {
            parser.parse(piece, |piece| match piece {
                Piece::Text(text) => seen.push_str(text),
                Piece::Colour(codes) => {
                    seen.push('<');
                    seen.push_str(codes);
                    seen.push('>');
                }
            });
        }
        seen
    }

    #[test]
    fn sequences_are_told_from_text() {
        for (text, expected) in [
            ("a\u{1b}[31mred\u{1b}[0m\n", "a<31>red<0>\n"),
            ("\u{9b}38:2:1:2:3mx", "<38:2:1:2:3>x"),
            ("\u{1b}[>4;2m\u{1b}[?25l\u{1b}[2Jx", "x"),
            ("\u{1b}]52;c;aGFjaw==\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{9d}0;t\u{9c}s", "links"),
            ("\u{1b}P1$r\u{1b}x\nq\u{1b}\\y", "y"),
            ("\u{1b}(Bx\u{1b}cy\u{1b}", "xy"),
            ("\u{1b}[31\u{1b}[32mx", "<32>x"),
        ] {
            assert_eq!(seen(&[text]), expected, "{text:?}");
            let chars: Vec<String> = text.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            assert_eq!(seen(&chars), expected, "{text:?} in pieces");
        }
    }

    #[test]
    fn what_never_ends_hides_nothing() {
        assert_eq!(seen(&["\u{1b}[3é"]), "é");
        assert_eq!(seen(&["\u{1b}[31\nm"]), "\nm");
        assert_eq!(seen(&["\u{1b}é"]), "é");
        assert_eq!(seen(&["\u{1b}]0;title\nafter"]), "\nafter");
        let long = format!("\u{1b}P{}after\u{1b}\\end", "x".repeat(STRING));
        assert_eq!(seen(&[&long]), "afterend");
        assert_eq!(strip("\u{1b}[1mbold\u{1b}[0m"), "bold");
    }
}
