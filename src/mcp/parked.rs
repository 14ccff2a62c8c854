//! Turns that wait while their client asks its person (multi round-trip requests): the client comes back with the
//! answer and the name that the turn waits under. The name cannot be guessed, is good for one request, and goes with time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::app::executor::{ProgramSession, Turn};
use crate::task;

/// How long a person may think.
const WAITS: Duration = Duration::from_mins(10);
/// Turns that wait at a time.
const MOST: usize = 64;

/// A turn that a request follows, or that waits for its client.
pub(super) struct Follow {
    pub(super) session: ProgramSession,
    pub(super) turn: Turn,
    /// The words of the model, if one was asked.
    pub(super) answer: Option<String>,
    /// Bytes of text of the result.
    pub(super) most: usize,
    /// The end of what was printed, for progress.
    pub(super) printed: String,
    /// What the client's person is asked.
    pub(super) asking: Option<Asking>,
}

/// A question of a turn.
#[derive(Clone)]
pub(super) enum Asking {
    /// Code wants a line.
    Line { cell: String, prompt: String },
    /// May the code of our model run?
    Approval {
        cell: String,
        reason: String,
        source: String,
    },
}

/// The turns that wait.
#[derive(Clone, Default)]
pub(super) struct Parked {
    turns: Arc<Mutex<HashMap<String, Waiting>>>,
}

struct Waiting {
    follow: Follow,
    /// What was called, which must be called again.
    called: Value,
}

impl Parked {
    /// Keeps a turn; `None` if there are too many, and the turn is given up. Returns the name it waits under.
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
                // Dropped, it is interrupted.
                drop(lock(&turns).remove(&gone));
            }
        })
        .detach();
        Some(name)
    }

    /// The turn that waits under `name`, if `called` is what it was called with.
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

/// Whole after every change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
