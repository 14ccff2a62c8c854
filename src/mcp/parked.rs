//! Turns that wait while their client asks its person (multi round-trip requests): the client returns with the answer
//! and the name of the waiting turn. The name is unguessable, valid for one request, and expires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::app::executor::{ProgramSession, Turn};
use crate::task;

/// How long a person may take.
const WAITS: Duration = Duration::from_mins(10);
/// Maximum waiting turns.
const MOST: usize = 64;

/// A turn that a request follows, or that waits for its client.
pub(super) struct Follow {
    pub(super) session: ProgramSession,
    pub(super) turn: Turn,
    /// The model's text, if a model was asked.
    pub(super) answer: Option<String>,
    /// Maximum bytes of the result's text.
    pub(super) most: usize,
    /// The end of the printed text, for progress.
    pub(super) printed: String,
    /// The question to the client's person.
    pub(super) asking: Option<Asking>,
}

/// A question of a turn.
#[derive(Clone)]
pub(super) enum Asking {
    /// Code asks for a line of input.
    Line { cell: String, prompt: String },
    /// Whether our model's code may run.
    Approval {
        cell: String,
        reason: String,
        source: String,
    },
}

/// The waiting turns.
#[derive(Clone, Default)]
pub(super) struct Parked {
    turns: Arc<Mutex<HashMap<String, Waiting>>>,
}

struct Waiting {
    follow: Follow,
    /// The original call, which must be repeated.
    called: Value,
}

impl Parked {
    /// Stores a turn; `None` if there are too many, and the turn is cancelled. Returns the name for it.
    pub(super) fn park(&self, follow: Follow, called: Value) -> Option<String> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        {
            let mut turns = self.turns();
            if turns.len() >= MOST {
                return None;
            }
            turns.insert(name.clone(), Waiting { follow, called });
        }
        let (turns, gone) = (Arc::downgrade(&self.turns), name.clone());
        task::spawn("parked turn", async move {
            tokio::time::sleep(WAITS).await;
            if let Some(turns) = turns.upgrade() {
                // Dropping a turn interrupts it.
                drop(lock(&turns).remove(&gone));
            }
        })
        .detach();
        Some(name)
    }

    /// The waiting turn `name`, if it was called with `called`.
    pub(super) fn take(&self, name: &str, called: &Value) -> Option<Follow> {
        let mut turns = self.turns();
        let waiting = turns.get(name)?;
        if waiting.called != *called {
            return None;
        }
        turns.remove(name).map(|waiting| waiting.follow)
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        lock(&self.turns)
    }
}

/// Consistent after every change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
