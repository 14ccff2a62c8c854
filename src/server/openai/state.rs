//! The server's state for OpenAI's wire: containers, responses, named chats.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::input::{Role, Said};
use crate::app::SessionSettings;
use crate::app::containers::{ContainerNames, Containers};
use crate::app::executor::Executor;
use crate::app::registry::Registry;

/// How many responses are remembered, and their total bytes.
const RESPONSES: usize = 1000;
const BYTES: usize = 256 << 20;
/// Maximum containers at a time.
const CONTAINERS: usize = 1000;
/// How many turns of a conversation are repeated to a new container.
const TOLD_AGAIN: usize = 50;

/// The state of this API.
pub(in crate::server) struct OpenAiState {
    /// The containers.
    pub(in crate::server) containers: Containers,
    pub(super) responses: Responses,
    /// Named chats.
    pub(super) chats: ContainerNames,
}

impl OpenAiState {
    pub(in crate::server) fn new(registry: &Registry, settings: &SessionSettings) -> Self {
        let root = registry.context().paths.data.join("containers");
        let mut settings = settings.clone();
        settings.sandbox.at_mnt_data = true;
        let executor = Executor::new(registry.clone(), settings, root.clone());
        Self {
            containers: Containers::new(executor, &root, CONTAINERS),
            responses: Responses::default(),
            chats: ContainerNames::default(),
        }
    }
}

/// Responses that can be continued.
#[derive(Default)]
pub(super) struct Responses(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_id: HashMap<String, Stored>,
    /// Oldest first.
    order: VecDeque<String>,
    bytes: usize,
    /// The last complete response of each container.
    tips: HashMap<String, String>,
}

/// A stored response.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) response: Value,
    /// Its input items.
    pub(super) input: Vec<Value>,
    /// Its container.
    pub(super) container: String,
    /// The question and the answer.
    pub(super) said: (String, String),
    pub(super) previous: Option<String>,
}

impl Responses {
    pub(super) fn get(&self, id: &str) -> Option<Stored> {
        self.lock().by_id.get(id).cloned()
    }

    /// Whether it is the last exchange in its container.
    pub(super) fn is_last(&self, id: &str, container: &str) -> bool {
        let kept = self.lock();
        kept.tips.get(container).is_none_or(|tip| tip == id)
    }

    /// The conversation up to and including response `id`, oldest first.
    pub(super) fn history(&self, id: &str) -> Vec<Said> {
        let kept = self.lock();
        let mut turns = Vec::new();
        let mut next = kept.by_id.get(id);
        while let Some(stored) = next.filter(|_| turns.len() < TOLD_AGAIN) {
            let (asked, answered) = stored.said.clone();
            let said = |by, text| Said { by, text };
            turns.push([said(Role::User, asked), said(Role::Assistant, answered)]);
            next = stored.previous.as_ref().and_then(|id| kept.by_id.get(id));
        }
        turns.into_iter().rev().flatten().collect()
    }

    pub(super) fn keep(&self, id: &str, stored: Stored, is_whole: bool) {
        let mut kept = self.lock();
        if is_whole {
            kept.tips.insert(stored.container.clone(), id.to_owned());
        }
        kept.bytes += size(&stored);
        kept.order.push_back(id.to_owned());
        kept.by_id.insert(id.to_owned(), stored);
        while kept.order.len() > RESPONSES || kept.bytes > BYTES && kept.order.len() > 1 {
            let oldest = kept.order.pop_front().unwrap_or_default();
            kept.remove(&oldest);
        }
    }

    /// Removes a response. Returns whether it existed.
    pub(super) fn forget(&self, id: &str) -> bool {
        let mut kept = self.lock();
        kept.order.retain(|it| it != id);
        kept.remove(id)
    }

    /// Consistent after every change.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, id: &str) -> bool {
        let Some(gone) = self.by_id.remove(id) else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(size(&gone));
        if self.tips.get(&gone.container).is_some_and(|tip| tip == id) {
            self.tips.remove(&gone.container);
        }
        true
    }
}

fn size(stored: &Stored) -> usize {
    let input: usize = stored.input.iter().map(|it| it.to_string().len()).sum();
    stored.response.to_string().len() + input
}
