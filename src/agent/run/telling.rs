//! What subscribers see: edits and events go into the session's log, which never makes us wait ([`crate::agent::stream::log`]).

use super::{Edit, EventKind, Session};
use crate::agent::stream::Body;

impl Session {
    /// Gives an event to all subscribers.
    pub(super) fn publish(&mut self, event: EventKind) {
        if event.asks_person() {
            self.asking.guard.waits();
        }
        if matches!(event, EventKind::TurnFinished { .. }) {
            self.subscribers.last_turn = Some(event.clone());
        }
        self.append(Body::Event { event });
    }

    pub(super) fn notice(&mut self, message: &str) {
        self.publish(EventKind::Notice {
            message: message.to_owned(),
        });
    }

    /// Tells that the model is asked, and what for.
    pub(super) fn tell_asked(&mut self, purpose: &str) {
        let Some(provider) = &self.options.provider else {
            return;
        };
        let (model, host) = (provider.info().name.clone(), provider.info().host.clone());
        self.publish(EventKind::ModelAsked {
            purpose: purpose.to_owned(),
            model,
            host,
        });
    }

    /// Tells an edit that was applied.
    pub(super) fn tell_edit(&mut self, edit: Edit, by: Option<String>) {
        let revision = self.transcript.revision();
        self.append(Body::Edit { revision, by, edit });
    }

    fn append(&mut self, body: Body) {
        self.subscribers.append(body, self.disk.is_saving);
    }

    /// Lets subscribers see what waits in the log.
    pub(super) fn announce(&mut self) {
        self.subscribers.announce();
    }
}
