//! The person's messages to the model: a question, one that wants a plan first, and whether a turn continues.

use tokio::sync::mpsc;

use super::rerun::Replayed;
use super::{Edit, Input, Session, State, TurnEnd, random_cell_id};
use crate::agent::stream::handle::Request;
use crate::llm::types::ToolChoice;

/// The notice for a person who typed a secret.
const SECRET_ASKED: &str = "what looks like a secret in your question is not sent to the model";

impl Session {
    /// Begins a turn with this text and `input`, at once or when the model is ready. Returns whether the session must
    /// end.
    pub(super) async fn ask(
        &mut self,
        text: String,
        input: Input,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> bool {
        if self.waits_for_model(&text, &input) {
            self.subscribers.by = None;
            return false;
        }
        if self.options.redactor.finds_any(&text) {
            self.notice(SECRET_ASKED);
        }
        self.asking.turn_begins(&text, self.options.coaching);
        let cell = random_cell_id();
        self.turn_begins(&cell);
        let said = text.clone();
        self.edit_by(Edit::Say { cell, text: said });
        self.tell_of_files(&text);
        self.show_pictures().await;
        let stopped = self.look_inside(inbox).await;
        if matches!(stopped, Some(Replayed::Ending)) {
            return true;
        }
        if input == Input::Plan {
            self.asking.choice = ToolChoice::None;
        }
        self.drive(input).await;
        if stopped.is_some() {
            self.drive(Input::Interrupt).await;
        }
        self.subscribers.by = None;
        false
    }

    /// Continues a turn that waits at a limit or with its plan, perhaps with a text from the person, or ends it.
    pub(super) async fn go_on(&mut self, go_on: bool, words: Option<String>) {
        self.asking.guard.goes_on();
        self.said_to_go_on(go_on);
        if !go_on {
            return self.drive(Input::GiveUp).await;
        }
        let is_planned = self.turn.state == State::Paused(TurnEnd::Planned);
        let words = words.filter(|words| !words.trim().is_empty());
        let is_changed = words.is_some();
        if is_planned && !is_changed {
            self.asking.choice = ToolChoice::Auto;
        }
        if let Some(text) = words {
            if self.options.redactor.finds_any(&text) {
                self.notice(SECRET_ASKED);
            }
            let cell = random_cell_id();
            let said = text.clone();
            self.edit_by(Edit::Say { cell, text: said });
            self.tell_of_files(&text);
            self.show_pictures().await;
        }
        self.drive(Input::GoOn { is_changed }).await;
    }
}
