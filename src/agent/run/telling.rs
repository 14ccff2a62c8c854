//! Publishes edits and events to the session's log, which never blocks us ([`crate::agent::stream::log`]).

use super::{Edit, EventKind, Session};
use crate::agent::stream::Body;

impl Session {
    /// Publishes an event to all subscribers.
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

    /// Reports that the model is asked, and for what purpose.
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

    /// Publishes an applied edit.
    pub(super) fn tell_edit(&mut self, edit: Edit, by: Option<String>) {
        let revision = self.transcript.revision();
        self.append(Body::Edit { revision, by, edit });
    }

    fn append(&mut self, body: Body) {
        self.subscribers.append(body, self.disk.is_saving);
    }

    /// Announces the pending log items.
    pub(super) fn announce(&mut self) {
        self.subscribers.announce();
    }
}
