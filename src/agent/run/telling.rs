//! What a front end is told. The session never waits for it: [`crate::agent::event::queue`].

use super::{EventKind, Session};
use crate::agent::event::OutputChange;
use crate::kernel::OutputEvent;

impl Session {
    /// Puts an event into the queue. A cell that is behind has its outputs sent before its end.
    #[expect(clippy::unused_async, reason = "a queue of events may have to wait")]
    pub(super) async fn tell(&mut self, kind: EventKind) {
        match &kind {
            EventKind::CodeFinished { cell, .. } | EventKind::InputRequested { cell, .. }
                if self.events.take_behind(cell) =>
            {
                self.resend(cell);
            }
            EventKind::TurnFinished { .. } => self.caught_up(),
            _ => {}
        }
        self.events.tell(kind);
    }

    pub(super) async fn notice(&mut self, message: &str) {
        self.tell(EventKind::Notice {
            message: message.to_owned(),
        })
        .await;
    }

    /// Tells a change to a cell's outputs.
    pub(super) fn tell_output(&self, cell: String, change: OutputChange) {
        let cells = match &change {
            OutputChange::Update { display_id, .. } => self.transcript.showing(display_id),
            OutputChange::Append { .. } | OutputChange::Clear { .. } => vec![cell.clone()],
        };
        self.events.output(cell, cells, change);
    }

    /// Sends the outputs of all cells that are behind.
    pub(super) fn caught_up(&mut self) {
        for cell in self.events.take_all_behind() {
            self.resend(&cell);
        }
    }

    fn resend(&mut self, cell: &str) {
        let Some(code) = self.transcript.code(cell) else {
            // It was taken back.
            return;
        };
        if let Some(running) = self.running.as_mut().filter(|it| it.cell == cell) {
            // The transcript has what was not told yet. An update may be one of another cell's display.
            let is_update = |output: &OutputEvent| matches!(output, OutputEvent::Update { .. });
            running.pending.retain(is_update);
        }
        let (outputs, is_cleared_next) = code.outputs.to_events();
        let mut changes = vec![OutputChange::Clear { wait: false }];
        changes.extend(
            outputs
                .into_iter()
                .map(|(output, display_id)| OutputChange::Append { output, display_id }),
        );
        changes.extend(is_cleared_next.then_some(OutputChange::Clear { wait: true }));
        self.events.resend(cell, changes);
    }
}
