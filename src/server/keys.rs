//! Commands that were sent with a key: one that is sent again gets the first one's answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::agent::Command;
use crate::agent::stream::{ItemId, Rejection};

/// Keys that are remembered.
const KEYS: usize = 4096;

/// What a session says to a command; `None` until it does.
pub(super) type Answer = watch::Receiver<Option<Result<ItemId, Rejection>>>;

/// Which keys came with which commands; the oldest are forgotten.
#[derive(Default)]
pub(super) struct Keys {
    known: Mutex<VecDeque<Known>>,
}

struct Known {
    /// A session's id, and the key.
    key: (String, String),
    /// Of the command: a large one is not kept.
    digest: [u8; 32],
    answer: Answer,
}

impl Keys {
    /// The answer to the command of this key, which `send` sends if it is new; `None` if the key came with another
    /// command.
    pub(super) fn enter(
        &self,
        key: (String, String),
        command: &Command,
        send: impl FnOnce() -> Answer,
    ) -> Option<Answer> {
        // Plain data: nothing in it can fail.
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
