//! The list entry of a running session, derived from its events.

use crate::agent::EventKind;
use crate::agent::stream::snapshot::TurnPhase;
use crate::agent::stream::{Body, Received, Snapshot};
use crate::session::Edit;
use crate::session::transcript::Author;

/// Maximum characters of a title.
const TITLE: usize = 80;

/// The activity of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Its first question, shortened.
    pub title: Option<String>,
    /// The model that answers.
    pub model: Option<String>,
    /// Whether a turn is running.
    pub is_busy: bool,
    /// Whether it waits for a person.
    pub is_pending: bool,
}

#[derive(Debug)]
pub(super) struct Watch {
    pub(super) activity: Activity,
}

impl Watch {
    pub(super) fn new(title: Option<&str>) -> Self {
        Self {
            activity: Activity {
                title: title.map(shortened),
                ..Activity::default()
            },
        }
    }

    pub(super) fn take(&mut self, received: &Received) {
        match received {
            Received::Snapshot(snapshot) => self.catch_up(snapshot),
            Received::Item(item) => match &item.body {
                Body::Edit { edit, .. } => self.edited(edit),
                Body::Event { event } => self.happened(event),
            },
        }
    }

    fn edited(&mut self, edit: &Edit) {
        match edit {
            Edit::Say { text, .. } => {
                self.activity.is_busy = true;
                let title = &mut self.activity.title;
                title.get_or_insert_with(|| shortened(text));
            }
            Edit::Propose {
                author: Author::Person,
                ..
            } => self.activity.is_busy = true,
            Edit::Start { .. } => self.activity.is_pending = false,
            _ => {}
        }
    }

    fn happened(&mut self, event: &EventKind) {
        match event {
            EventKind::SessionStarted { model, .. } => self.activity.model.clone_from(model),
            EventKind::ModelChanged { model, .. } => self.activity.model = Some(model.clone()),
            EventKind::ApprovalRequested { .. }
            | EventKind::InputRequested { .. }
            | EventKind::ContinueRequested { .. } => self.activity.is_pending = true,
            EventKind::ApprovalResolved { .. }
            | EventKind::InputAnswered { .. }
            | EventKind::ContinueResolved { .. } => self.activity.is_pending = false,
            EventKind::StepStarted { .. } => self.activity.is_busy = true,
            EventKind::TurnFinished { .. } => {
                self.activity.is_busy = false;
                self.activity.is_pending = false;
            }
            _ => {}
        }
    }

    fn catch_up(&mut self, snapshot: &Snapshot) {
        let state = &snapshot.state;
        self.activity.model.clone_from(&state.model);
        self.activity.is_busy = state.turn != TurnPhase::Idle;
        self.activity.is_pending = !state.pending.is_empty();
        if self.activity.title.is_none() {
            self.activity.title = snapshot.transcript.iter().find_map(|edit| match edit {
                Edit::Say { text, .. } => Some(shortened(text)),
                _ => None,
            });
        }
    }
}

fn shortened(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    let mut short: String = line.chars().take(TITLE).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_title_is_the_first_line() {
        assert_eq!(shortened(" one \ntwo"), "one…");
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"ä".repeat(100)), "ä".repeat(80) + "…");
    }
}
