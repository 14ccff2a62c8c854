//! Lets a person pick from a list at a terminal: typing narrows it, arrows move, Enter picks. Afterwards the list is
//! removed.

use std::time::Duration;

use super::eprint;
use super::filter;
use super::line_source::keys::{Control, Keys, Read};
use super::render::clipped;
use super::style::{DIM, HINT, NAME, columns, paint, rows, stderr_colours};

/// Maximum rows of a list shown at once.
const SHOWN: usize = 12;
/// How often to check whether the terminal's size changed.
const LOOKS: Duration = Duration::from_millis(200);
/// How long a list may stay open.
const PATIENCE: Duration = Duration::from_hours(12);

/// A key, as the list interprets it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    Up,
    Down,
    Take,
    Leave,
    Erase,
    Text(String),
}

/// The list on the screen and its state.
struct List<'a> {
    choices: &'a [String],
    typed: String,
    /// Index among the matching choices.
    at: usize,
}

/// The index of the choice; `None` if the person picks none, or there is no terminal.
pub(super) fn pick(title: &str, choices: &[String]) -> Option<usize> {
    pick_from(title, choices, "")
}

/// The same, starting with the filter `typed`.
pub(super) fn pick_from(title: &str, choices: &[String], typed: &str) -> Option<usize> {
    let keys = Keys::start(Control::IsKey).ok()?;
    let mut list = List {
        choices,
        typed: typed.to_owned(),
        at: 0,
    };
    let mut drawn = 0;
    let mut shown = String::new();
    let until = std::time::Instant::now() + PATIENCE;
    let picked = loop {
        let lines = list.lines(title);
        let text = lines.join("\n");
        if text != shown {
            eprint(&format!(
                "{}{}\n",
                up(drawn),
                text.replace('\n', "\u{1b}[K\n") + "\u{1b}[K"
            ));
            eprint("\u{1b}[J");
            drawn = lines.len();
            shown = text;
        }
        if std::time::Instant::now() > until {
            break None;
        }
        let bytes = match keys.read(LOOKS) {
            Ok(Read::Nothing) => continue,
            Ok(Read::Bytes(bytes)) => bytes,
            Ok(Read::End | Read::GivenUp) | Err(_) => break None,
        };
        match list.take(&key(&String::from_utf8_lossy(&bytes))) {
            Taken::GoesOn => {}
            Taken::Picked(number) => break Some(number),
            Taken::Left => break None,
        }
    };
    eprint(&format!("{}\u{1b}[J", up(drawn)));
    picked
}

fn up(lines: usize) -> String {
    match lines {
        0 => "\r".to_owned(),
        lines => format!("\r\u{1b}[{lines}A"),
    }
}

fn key(text: &str) -> Key {
    match text {
        "\u{1b}[A" | "\u{1b}OA" | "\u{10}" => Key::Up,
        "\u{1b}[B" | "\u{1b}OB" | "\u{e}" => Key::Down,
        "\r" | "\n" => Key::Take,
        "\u{1b}" | "\u{3}" | "\u{4}" => Key::Leave,
        "\u{7f}" | "\u{8}" => Key::Erase,
        text if text.starts_with('\u{1b}') => Key::Text(String::new()),
        text => Key::Text(text.to_owned()),
    }
}

enum Taken {
    GoesOn,
    Picked(usize),
    Left,
}

/// Whether `text` has the letters of `word` in order.
fn has_letters(text: &str, word: &str) -> bool {
    let mut letters = text.chars();
    word.chars().all(|wanted| letters.any(|it| it == wanted))
}

impl List<'_> {
    /// Indices of the matching choices: first those that contain all words, then those that have their letters in
    /// order.
    fn fitting(&self) -> Vec<usize> {
        let typed = self.typed.to_lowercase();
        let (mut fitting, mut loosely) = (Vec::new(), Vec::new());
        for (at, choice) in self.choices.iter().enumerate() {
            let choice = choice.to_lowercase();
            if typed.split_whitespace().all(|word| choice.contains(word)) {
                fitting.push(at);
            } else if typed
                .split_whitespace()
                .all(|word| has_letters(&choice, word))
            {
                loosely.push(at);
            }
        }
        fitting.extend(loosely);
        fitting
    }

    fn take(&mut self, key: &Key) -> Taken {
        let fitting = self.fitting();
        match key {
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Down => self.at = (self.at + 1).min(fitting.len().saturating_sub(1)),
            Key::Take => {
                if let Some(&number) = fitting.get(self.at) {
                    return Taken::Picked(number);
                }
            }
            Key::Leave => return Taken::Left,
            Key::Erase => {
                self.typed.pop();
                self.at = 0;
            }
            Key::Text(text) => {
                for c in text.chars() {
                    if c == '\n' || c == '\r' {
                        return self.take(&Key::Take);
                    }
                    if !c.is_control() {
                        self.typed.push(c);
                        self.at = 0;
                    }
                }
            }
        }
        Taken::GoesOn
    }

    fn lines(&self, title: &str) -> Vec<String> {
        let colours = stderr_colours();
        let size = |side: u32| usize::try_from(side).unwrap_or(24);
        let width = size(columns()).saturating_sub(1);
        let most = size(rows()).saturating_sub(5).clamp(3, SHOWN);
        let fitting = self.fitting();
        let first = (self.at + 1).saturating_sub(most);
        let typed = filter::plain(&self.typed);
        let mut lines = vec![
            clipped(&paint(DIM, title, colours), width),
            clipped(&format!("{} {typed}", paint(HINT, ">", colours)), width),
        ];
        for (at, number) in fitting.iter().enumerate().skip(first).take(most) {
            let choice = self.choices.get(*number).map(|it| filter::plain(it));
            let choice = choice.unwrap_or_default();
            let line = if at == self.at {
                paint(NAME, &clipped(&format!("❯ {choice}"), width), colours)
            } else {
                clipped(&format!("  {choice}"), width)
            };
            lines.push(line);
        }
        let below = fitting.len().saturating_sub(first + most);
        let words = match (fitting.len(), below) {
            (0, _) => "nothing fits".to_owned(),
            (_, 0) => return lines,
            (_, below) => format!("  and {below} more"),
        };
        lines.push(paint(DIM, &words, colours));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_narrowed_and_walked() {
        let choices = ["rain in Seattle", "rain in Rome", "sales"].map(str::to_owned);
        let mut list = List {
            choices: &choices,
            typed: String::new(),
            at: 0,
        };
        let picked = |taken| match taken {
            Taken::Picked(number) => Some(number),
            Taken::GoesOn | Taken::Left => None,
        };
        for (keys, expected) in [
            ("\u{1b}[B|\u{1b}[B|\u{1b}[B|\r", Some(2)),
            ("RAIN ro|\r", Some(1)),
            ("x|\u{7f}|\u{1b}[A|\n", Some(0)),
            ("sls|\r", Some(2)),
            ("rnrm|\r", Some(1)),
            ("nothing|\r", None),
            ("\u{1b}", None),
        ] {
            (list.typed, list.at) = (String::new(), 0);
            let mut number = None;
            for text in keys.split('|') {
                number = picked(list.take(&key(text)));
            }
            assert_eq!(number, expected, "{keys}");
        }
    }
}
