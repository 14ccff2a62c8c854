//! Colours, and whether there are any. Understandable without: a colour never says what words do not.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Effects, Style};

/// Hints.
pub(super) const HINT: Style = AnsiColor::Cyan.on_default();
/// Good news.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Bad news.
pub(super) const BAD: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);
/// Neither good nor bad, but to be read.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// Secondary.
pub(super) const DIM: Style = Style::new().effects(Effects::DIMMED);
/// Names.
pub(super) const NAME: Style = Style::new().effects(Effects::BOLD);

/// `text` in `style`, or as it is.
pub(super) fn paint(style: Style, text: &str, colours: bool) -> String {
    if colours && !text.is_empty() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// Whether stderr takes colours (`NO_COLOR`, `CLICOLOR_FORCE`, `TERM=dumb`, not a terminal).
pub(super) fn stderr_colours() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// The same for stdout.
pub(super) fn stdout_colours() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Whether a person sits at this terminal: they can read stderr and type.
pub(super) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Width of the terminal in columns; 80 if there is none.
pub(super) fn columns() -> u32 {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .ok()
        .map(|size| u32::from(size.ws_col))
        .filter(|&columns| columns > 0)
        .unwrap_or(80)
}
