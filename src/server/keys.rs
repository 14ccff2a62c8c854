//! Remembers commands that were sent with a key: a repeated one gets the first one's answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::agent::Command;
use crate::agent::stream::{ItemId, Rejection};

/// How many keys are remembered.
const KEYS: usize = 4096;

/// The session's reply to a command; `None` until it comes.
pub(super) type Answer = watch::Receiver<Option<Result<ItemId, Rejection>>>;

/// The keys and their commands; the oldest are forgotten.
#[derive(Default)]
pub(super) struct Keys {
    known: Mutex<VecDeque<Known>>,
}

struct Known {
    /// A session's id, and the key.
    key: (String, String),
    /// The digest of the command: a large one is not stored.
    digest: [u8; 32],
    answer: Answer,
}

impl Keys {
    /// The answer to the command with this key, which `send` sends if it is new; `None` if the key came with another
    /// command.
    pub(super) fn enter(
        &self,
        key: (String, String),
        command: &Command,
        send: impl FnOnce() -> Answer,
    ) -> Option<Answer> {
        // Plain data: serialization cannot fail.
        let digest: [u8; 32] =
            Sha256::digest(serde_json::to_vec(command).unwrap_or_default()).into();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().rev().find(|it| it.key == key) {
            return (found.digest == digest).then(|| found.answer.clone());
        }
        if known.len() >= KEYS {
            known.pop_front();
        }
        let answer = send();
        known.push_back(Known {
            key,
            digest,
            answer: answer.clone(),
        });
        Some(answer)
    }
}
