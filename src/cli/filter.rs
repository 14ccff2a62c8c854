//! Text from kernels and models, made safe for a terminal.
//!
//! Colours (SGR) stay if colours are on; every other escape sequence goes: a cell must not be able to write the
//! clipboard (OSC 52), move the cursor over what a person approves, or change the title. Characters that reorder text
//! (bidirectional controls) are shown by their code. State is kept between pieces, so that a sequence cut in two is
//! still recognised.

/// A filter for one stream of text.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    colours: bool,
    state: State,
    /// Parameters of the sequence that is being read.
    pending: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// Bytes between ESC and the final one of a two-character sequence.
    Intermediate,
    Csi,
    /// OSC, DCS, APC, PM, SOS: up to BEL or ST.
    Payload,
    /// ESC within such a string.
    StringEscape,
}

/// Longest run of parameters that is believed.
const PARAMETERS: usize = 64;

impl Filter {
    /// A filter that lets colours through, or not.
    pub(super) fn new(colours: bool) -> Self {
        Self {
            colours,
            ..Self::default()
        }
    }

    /// A sequence that was left open is forgotten.
    pub(super) fn begin_again(&mut self) {
        *self = Self::new(self.colours);
    }

    /// What of `text` may be shown.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            if self.state == State::Text {
                // Almost all text is harmless.
                let (harmless, other) = rest.split_at(harmless(rest));
                shown.push_str(harmless);
                rest = other;
            }
            let mut chars = rest.chars();
            if let Some(c) = chars.next() {
                self.take(c, &mut shown);
            }
            rest = chars.as_str();
        }
        shown
    }

    fn take(&mut self, c: char, shown: &mut String) {
        self.state = match (self.state, c) {
            (State::Text, '\u{1b}') => State::Escape,
            (State::Text, '\u{9b}') | (State::Escape, '[') => self.begin_csi(),
            (State::Text, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}')
            | (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Payload,
            (State::Text, c) => {
                push_safe(c, shown);
                State::Text
            }
            (State::Escape | State::Intermediate, ' '..='/') => State::Intermediate,
            (State::Csi, ' '..='?') => {
                if self.pending.len() < PARAMETERS {
                    self.pending.push(c);
                }
                State::Csi
            }
            (State::Csi, 'm') => {
                self.end_colour(shown);
                State::Text
            }
            (State::Payload, '\u{1b}') => State::StringEscape,
            (State::Payload, '\u{7}' | '\u{9c}')
            | (State::StringEscape, '\\')
            | (State::Csi | State::Escape | State::Intermediate, _) => State::Text,
            (State::Payload | State::StringEscape, _) => State::Payload,
        };
    }

    /// A complete SGR sequence: shown if colours are on and it is nothing but numbers.
    fn end_colour(&self, shown: &mut String) {
        let plain = self
            .pending
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
        if self.colours && plain && self.pending.len() < PARAMETERS {
            shown.push_str("\u{1b}[");
            shown.push_str(&self.pending);
            shown.push('m');
        }
    }

    fn begin_csi(&mut self) -> State {
        self.pending.clear();
        State::Csi
    }
}

/// How much of the beginning is nothing but printable ASCII and line ends.
fn harmless(text: &str) -> usize {
    let is_harmless = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let bytes = text.as_bytes();
    bytes
        .iter()
        .position(|byte| !is_harmless(byte))
        .unwrap_or(bytes.len())
}

fn push_safe(c: char, shown: &mut String) {
    match c {
        '\n' | '\t' | '\r' => shown.push(c),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            shown.extend(c.escape_unicode());
        }
        c if c.is_control() => {}
        c => shown.push(c),
    }
}

/// All of `text` at once, without colours. Nothing in it goes back to the beginning of its line, over what is there.
pub(super) fn plain(text: &str) -> String {
    let mut shown = Filter::new(false).push(text);
    shown.retain(|c| c != '\r');
    shown
}

/// The same with its colours, where there are any.
pub(super) fn coloured(text: &str, colours: bool) -> String {
    let mut shown = Filter::new(colours).push(text);
    shown.retain(|c| c != '\r');
    if colours && shown.contains('\u{1b}') {
        shown.push_str("\u{1b}[0m");
    }
    shown
}

/// Code, with everything that a terminal would not show written out: what a person approves is what runs.
pub(super) fn code(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => push_safe(c, &mut shown),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_get_through() {
        for (text, coloured, plain_text) in [
            (
                "a\u{1b}[31mred\u{1b}[0m\n",
                "a\u{1b}[31mred\u{1b}[0m\n",
                "ared\n",
            ),
            ("\u{1b}[38:2:1:2:3mx", "\u{1b}[38:2:1:2:3mx", "x"),
            ("\u{1b}]52;c;aGFjaw==\u{7}after", "after", "after"),
            ("\u{1b}]0;title\u{1b}\\after", "after", "after"),
            ("\u{1b}[2J\u{1b}[1;1Hx", "x", "x"),
            ("\u{1b}[>4;2m\u{1b}[?25lx", "x", "x"),
            ("\u{1b}P1$r\u{1b}x\u{1b}\\y", "y", "y"),
            ("\u{9b}31mx\u{9d}0;t\u{9c}y", "\u{1b}[31mxy", "xy"),
            ("\u{1b}(Bx\u{1b}cy\u{8}\u{0}z", "xyz", "xyz"),
            ("tab\tcr\r\nüñ\r😀", "tab\tcr\r\nüñ\r😀", "tab\tcr\nüñ😀"),
            ("rm\u{202e}txt", "rm\\u{202e}txt", "rm\\u{202e}txt"),
        ] {
            assert_eq!(Filter::new(true).push(text), coloured, "{text:?}");
            assert_eq!(plain(text), plain_text, "{text:?}");
            let mut filter = Filter::new(true);
            let pieces: String = text.chars().map(|c| filter.push(&c.to_string())).collect();
            assert_eq!(pieces, coloured, "{text:?} in pieces");
        }
    }

    #[test]
    fn code_hides_nothing() {
        assert_eq!(
            code("x = 1 #\u{1b}]\ny = 2\rz\t\u{9b}\u{202e}\u{0}é"),
            "x = 1 #\\u{1b}]\ny = 2\\rz\t\\u{9b}\\u{202e}\\u{0}é"
        );
    }
}
