//! Colours, and whether they are on. All output is understandable without them: a colour never says what words do not.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Effects, Style};
use rustix::termios::Winsize;
use unicode_width::UnicodeWidthStr as _;

/// Hints.
pub(super) const HINT: Style = AnsiColor::Cyan.on_default();
/// Good news.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Bad news.
pub(super) const BAD: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);
/// Neither good nor bad, but important.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// Secondary text.
pub(super) const DIM: Style = Style::new().effects(Effects::DIMMED);
/// Names.
pub(super) const NAME: Style = Style::new().effects(Effects::BOLD);

/// `text` in `style`; unchanged without colours.
pub(super) fn paint(style: Style, text: &str, colours: bool) -> String {
    if colours && !text.is_empty() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// Whether stderr supports colours (`NO_COLOR`, `CLICOLOR_FORCE`, `TERM=dumb`, not a terminal).
pub(super) fn stderr_colours() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// The same for stdout.
pub(super) fn stdout_colours() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Whether a person is at this terminal: they can read stderr and type.
pub(super) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Whether stderr is a terminal with a movable cursor, so that text can be replaced.
pub(super) fn moves_cursor() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Width of the terminal in columns; 80 if there is none.
pub(super) fn columns() -> u32 {
    size(|size| size.ws_col).unwrap_or(80)
}

/// Height of the terminal in rows; 24 if there is none.
pub(super) fn rows() -> u32 {
    size(|size| size.ws_row).unwrap_or(24)
}

/// Width and height of a character in pixels; typical values if the terminal does not report them.
pub(super) fn character() -> (u32, u32) {
    let side = |pixels: fn(&Winsize) -> u16, count: u32| size(pixels).map(|all| all / count);
    let width = side(|size| size.ws_xpixel, columns());
    let height = side(|size| size.ws_ypixel, rows());
    match (width, height) {
        (Some(width), Some(height)) if width > 0 && height > 0 => (width, height),
        _ => (10, 20),
    }
}

/// The terminal's width, if there is one.
pub(super) fn terminal_width() -> Option<usize> {
    size(|size| size.ws_col).and_then(|width| usize::try_from(width).ok())
}

fn size(part: impl Fn(&Winsize) -> u16) -> Option<u32> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    Some(u32::from(part(&size))).filter(|&part| part > 0)
}

/// `text`, wrapped between words at `columns`. A long word such as a path is left to the terminal, which then copies
/// it as one word.
pub(super) fn wrapped(text: &str, columns: u32) -> String {
    let columns = usize::try_from(columns).unwrap_or(usize::MAX);
    let mut shown = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            shown.push('\n');
        }
        let mut width = 0;
        for word in line.split_inclusive(' ') {
            let bare = word.trim_end_matches(' ').width();
            if width > 0 && width + bare > columns && bare <= columns / 2 {
                shown.truncate(shown.trim_end_matches(' ').len());
                shown.push('\n');
                width = 0;
            }
            shown.push_str(word);
            width += word.width();
        }
    }
    shown
}

/// A line of ours for stderr, wrapped between words if that is a terminal.
pub(super) fn wrapped_for_stderr(text: &str) -> std::borrow::Cow<'_, str> {
    if std::io::stderr().is_terminal() {
        wrapped(text, columns()).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        for (text, expected) in [
            ("one two three", "one two\nthree"),
            ("  one two\nthree four", "  one two\nthree four"),
            ("at /a/very/long/path of it", "at /a/very/long/path\nof it"),
            ("one two 日本 x", "one two\n日本 x"),
            ("ten chars.", "ten chars."),
        ] {
            assert_eq!(wrapped(text, 10), expected);
        }
    }
}
