//! The server's counters.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Answers by the first digit of their status, 1 to 5.
    pub(super) answers: [AtomicU64; 5],
    /// Wrong tokens.
    pub(super) wrong_tokens: AtomicU64,
}

impl Counters {
    pub(super) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).wrapping_sub(1);
        if let Some(counter) = self.answers.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn wrong_token(&self) {
        self.wrong_tokens.fetch_add(1, Ordering::Relaxed);
    }
}
