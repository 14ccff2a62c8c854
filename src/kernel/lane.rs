//! A queue to a socket that never blocks its sender: a kernel that reads nothing must not delay interrupts.
//!
//! Invariants: order is kept; what exceeds the bounded queue waits in a backlog, which is bounded in bytes
//! ([`BACKLOG`]) and emptied by a task of its own. Without a backlog, senders use the queue directly.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::task;

/// Most bytes in the backlog.
pub(super) const BACKLOG: usize = 64 << 20;

/// The sending side.
#[derive(Debug)]
pub(super) struct Lane<T> {
    queue: mpsc::Sender<T>,
    backlog: Arc<Mutex<Backlog<T>>>,
}

#[derive(Debug)]
struct Backlog<T> {
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    /// Whether a task is emptying the backlog.
    is_served: bool,
}

/// Why a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The backlog is full.
    Full,
    /// The receiver is gone.
    Closed,
}

impl<T: Send + 'static> Lane<T> {
    pub(super) fn new(queue: mpsc::Sender<T>) -> Self {
        Self {
            queue,
            backlog: Arc::new(Mutex::new(Backlog {
                waiting: VecDeque::new(),
                bytes: 0,
                is_served: false,
            })),
        }
    }

    /// Whether one more message would be accepted.
    pub(super) fn has_room(&self) -> bool {
        lock(&self.backlog).bytes < BACKLOG
    }

    /// Sends `item` of `bytes` bytes. A single large item is accepted while the backlog is below its limit.
    ///
    /// # Errors
    /// [`Unsent`]; the item is dropped.
    pub(super) fn send(&self, item: T, bytes: usize) -> Result<(), Unsent> {
        let mut backlog = lock(&self.backlog);
        let item = if backlog.is_served {
            item
        } else {
            match self.queue.try_send(item) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(Unsent::Closed),
                Err(TrySendError::Full(item)) => item,
            }
        };
        if backlog.bytes >= BACKLOG {
            return Err(Unsent::Full);
        }
        backlog.bytes += bytes;
        backlog.waiting.push_back((item, bytes));
        if !std::mem::replace(&mut backlog.is_served, true) {
            let (queue, backlog) = (self.queue.clone(), Arc::clone(&self.backlog));
            // Ends when the backlog is empty, or with the receiver.
            task::spawn("kernel backlog", move_on(queue, backlog)).detach();
        }
        Ok(())
    }
}

async fn move_on<T>(queue: mpsc::Sender<T>, backlog: Arc<Mutex<Backlog<T>>>) {
    while let Ok(place) = queue.reserve().await {
        let mut backlog = lock(&backlog);
        let Some((item, bytes)) = backlog.waiting.pop_front() else {
            backlog.is_served = false;
            return;
        };
        backlog.bytes -= bytes;
        place.send(item);
    }
    let mut backlog = lock(&backlog);
    backlog.waiting.clear();
    backlog.bytes = 0;
    backlog.is_served = false;
}

fn lock<T>(backlog: &Mutex<Backlog<T>>) -> MutexGuard<'_, Backlog<T>> {
    backlog.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_and_order_is_kept() {
        let (queue, mut received) = mpsc::channel(2);
        let lane = Lane::new(queue);
        for number in 0..100 {
            assert_eq!(lane.send(number, 1), Ok(()));
        }
        for number in 0..50 {
            assert_eq!(received.recv().await, Some(number));
        }
        for number in 100..200 {
            assert_eq!(lane.send(number, 1), Ok(()));
        }
        for number in 50..200 {
            assert_eq!(received.recv().await, Some(number));
        }
        // The backlog is empty: the queue is used directly again.
        while lock(&lane.backlog).is_served {
            tokio::task::yield_now().await;
        }
        assert_eq!(lane.send(200, 1), Ok(()));
        assert!(!lock(&lane.backlog).is_served);
        assert_eq!(received.recv().await, Some(200));
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let (queue, received) = mpsc::channel(1);
        let lane = Lane::new(queue);
        let half = BACKLOG / 2;
        assert_eq!(lane.send(0, half), Ok(()), "in the queue");
        assert_eq!(lane.send(1, half), Ok(()));
        assert!(lane.has_room());
        assert_eq!(lane.send(2, half), Ok(()));
        assert!(!lane.has_room());
        assert_eq!(lane.send(3, 1), Err(Unsent::Full));
        drop(received);
        while lock(&lane.backlog).is_served {
            tokio::task::yield_now().await;
        }
        assert_eq!(lane.send(4, 1), Err(Unsent::Closed));
    }
}
