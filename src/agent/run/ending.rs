//! Ends a turn: hints, follow-up questions, and the cost.

use super::{EventKind, Session};
use crate::agent::event::TurnEnd;

impl Session {
    /// Ends the turn; asks for follow-up questions first, if wanted.
    pub(super) async fn finish_turn(&mut self, end: TurnEnd) {
        self.after_turn().await;
        if end == TurnEnd::Done {
            self.doubt_numbers();
            // The person's own cell is no answer.
            let answered = self.asking.guard.is_answering();
            if self.options.follow_ups && answered && self.ask_follow_ups() {
                self.ending = Some(end);
                return;
            }
        }
        self.conclude_turn(end).await;
    }

    /// Reports how the turn ended, and its cost.
    pub(super) async fn conclude_turn(&mut self, end: TurnEnd) {
        let turn = self.account();
        let saved = self.save(true).await;
        let session = self.transcript.spent();
        let notebook = saved.then(|| self.options.notebook.display().to_string());
        self.publish(EventKind::TurnFinished {
            end,
            input_tokens: session.usage.input,
            output_tokens: session.usage.output,
            turn: turn.into(),
            session: session.into(),
            notebook,
        });
    }
}
