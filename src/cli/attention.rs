//! Signals to the terminal besides its output: the window title, and a call to a person who may have gone.

use std::time::Duration;

use tokio::time::Instant;

use super::style::moves_cursor;
use super::terminal_kind::TerminalKind;
use super::{eprint, filter, human};
use crate::agent::EventKind;
use crate::app::configured::NOTIFY_AFTER;
use crate::config;

/// How many characters of a question a title shows.
const TITLE: usize = 60;
/// Saves the window's title, so that it can be restored.
const SAVE_TITLE: &str = "\u{1b}[22;2t";
const RESTORE_TITLE: &str = "\u{1b}[23;2t";

/// How to call a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A desktop notification with text (OSC 9).
    Notification,
    /// A bell.
    Bell,
}

/// The state for one chat or question.
#[derive(Debug)]
pub(super) struct Attention {
    call: Option<(Call, Duration)>,
    has_title: bool,
    /// Whether file names may be links.
    pub(super) links: bool,
    is_titled: bool,
    /// When the person began to wait.
    since: Option<Instant>,
}

impl Attention {
    /// Reads the configuration, if stderr is a terminal that supports this. `titles`: this is a chat.
    pub(super) fn of(config: &config::Terminal, titles: bool) -> Self {
        let kind = TerminalKind::of_environment();
        let call = if kind.notifications {
            Call::Notification
        } else {
            // A multiplexer passes a bell on, and shows which window rang.
            Call::Bell
        };
        let seconds = config.notify_after.unwrap_or(NOTIFY_AFTER);
        let is_wanted = moves_cursor() && seconds > 0;
        let after = Duration::from_secs(seconds.into());
        Self {
            call: is_wanted.then_some((call, after)),
            has_title: titles && moves_cursor() && config.title.unwrap_or(true) && kind.title,
            links: config.links.unwrap_or(true),
            is_titled: false,
            since: None,
        }
    }

    /// Shows the current activity in the window's title.
    pub(super) fn name(&mut self, what: &str) {
        if !self.has_title {
            return;
        }
        if !std::mem::replace(&mut self.is_titled, true) {
            eprint(SAVE_TITLE);
        }
        eprint(&format!("\u{1b}]2;sponde: {}\u{1b}\\", in_sequence(what)));
    }

    /// Follows the events: one that needs the person after a long time calls them.
    pub(super) fn follow(&mut self, event: &EventKind) {
        let words = match event {
            EventKind::ApprovalRequested { .. } => "code waits for your approval",
            EventKind::InputRequested { .. } => "code asks for input",
            EventKind::ContinueRequested { .. } => "a limit is reached: go on?",
            EventKind::TurnFinished { .. } => "the turn has ended",
            EventKind::StepStarted { .. }
            | EventKind::CodeStarted { .. }
            | EventKind::CompactionStarted { .. } => {
                self.since.get_or_insert_with(Instant::now);
                return;
            }
            _ => return,
        };
        let waited = self.since.take().map(|since| since.elapsed());
        if let (Some((call, after)), Some(waited)) = (self.call, waited)
            && waited >= after
        {
            eprint(&match call {
                Call::Notification => format!("\u{1b}]9;sponde: {words}\u{1b}\\"),
                Call::Bell => "\u{7}".to_owned(),
            });
        }
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        if self.is_titled {
            // A terminal that cannot save titles shows an empty one, which most of them replace with their own.
            eprint(&format!("\u{1b}]2;\u{1b}\\{RESTORE_TITLE}"));
        }
    }
}

/// Text that is safe inside a terminal sequence: without C0 or C1 control characters.
fn in_sequence(text: &str) -> String {
    let text: String = filter::plain(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    human::shortened(&text, TITLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_nothing_that_a_terminal_would_handle() {
        let words = in_sequence("why\u{1b}]0;x\u{7}\u{9c}\u{9b}2J\nis it? ");
        assert!(!words.chars().any(char::is_control), "{words:?}");
        assert_eq!(words, "why is it? ");
        assert!(in_sequence(&"a".repeat(200)).chars().count() <= TITLE);
    }
}
