//! What a terminal is told besides what it shows: the title of its window, and that a person who may have gone is wanted.

use std::time::Duration;

use tokio::time::Instant;

use super::style::moves_cursor;
use super::terminal_kind::TerminalKind;
use super::{eprint, filter, human};
use crate::agent::EventKind;
use crate::app::configured::NOTIFY_AFTER;
use crate::config;

/// Characters of a question in a title.
const TITLE: usize = 60;
/// Keep the title that the window has, and give it back.
const SAVE_TITLE: &str = "\u{1b}[22;2t";
const RESTORE_TITLE: &str = "\u{1b}[23;2t";

/// How a person is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A notification of the desktop, with words (OSC 9).
    Notification,
    /// A bell.
    Bell,
}

/// Of one chat or question.
#[derive(Debug)]
pub(super) struct Attention {
    call: Option<(Call, Duration)>,
    has_title: bool,
    /// Whether names of files may be links.
    pub(super) links: bool,
    is_titled: bool,
    /// Since when the person waits.
    since: Option<Instant>,
}

impl Attention {
    /// As the configuration wants it, where stderr is a terminal that can. `titles` if it is a chat.
    pub(super) fn of(config: &config::Terminal, titles: bool) -> Self {
        let kind = TerminalKind::of_environment();
        let call = if kind.notifications {
            Call::Notification
        } else {
            // A multiplexer passes it on, and shows in which window it rang.
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

    /// Names what goes on in the title of the window.
    pub(super) fn name(&mut self, what: &str) {
        if !self.has_title {
            return;
        }
        if !std::mem::replace(&mut self.is_titled, true) {
            eprint(SAVE_TITLE);
        }
        eprint(&format!("\u{1b}]2;sponde: {}\u{1b}\\", in_sequence(what)));
    }

    /// Follows what happens: whatever waits for the person after a long time calls them.
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
            // Terminals that keep no titles show an empty one, which most of them replace by their own.
            eprint(&format!("\u{1b}]2;\u{1b}\\{RESTORE_TITLE}"));
        }
    }
}

/// What stands in a sequence for a terminal: no control characters, of either kind.
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
