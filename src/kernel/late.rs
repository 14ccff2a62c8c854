//! Outputs that come after their execution has finished: from threads, from child processes, from kernels that send
//! `idle` too early. They belong to their own cell, never to the one that runs now.
//!
//! Bounded in number and bytes, separately from messages to running cells, so that a slow listener cannot stop them.
//! Excess outputs are dropped; the next one delivered says how many.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::OutputEvent;

/// Most finished executions remembered.
const REMEMBERED: usize = 256;
/// Most outputs queued for the listener.
const WAITING: usize = 256;
/// Most bytes of them.
const WAITING_BYTES: usize = 8 << 20;

/// An output of a finished execution.
#[derive(Debug)]
pub struct Late {
    /// [`super::Execution::id`].
    pub execution: String,
    /// The output.
    pub output: OutputEvent,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A bounded queue for the late outputs of any number of kernels.
pub fn late_outputs() -> (mpsc::Sender<Late>, mpsc::Receiver<Late>) {
    mpsc::channel(WAITING)
}

/// Which executions have finished, and who listens for their late outputs.
#[derive(Debug)]
pub(super) struct LateOutputs {
    finished: VecDeque<String>,
    /// Finished asides: their late outputs belong to cells.
    asides: VecDeque<String>,
    /// The last cell that finished.
    latest: Option<String>,
    listener: Option<mpsc::Sender<Late>>,
    room: Arc<Semaphore>,
    dropped: u32,
}

impl Default for LateOutputs {
    fn default() -> Self {
        Self {
            finished: VecDeque::new(),
            asides: VecDeque::new(),
            latest: None,
            listener: None,
            room: Arc::new(Semaphore::new(WAITING_BYTES)),
            dropped: 0,
        }
    }
}

impl LateOutputs {
    pub(super) fn listen(&mut self, listener: mpsc::Sender<Late>) {
        self.listener = Some(listener);
    }

    pub(super) fn remember(&mut self, execution: String, is_aside: bool) {
        let ids = if is_aside {
            &mut self.asides
        } else {
            self.latest = Some(execution.clone());
            &mut self.finished
        };
        if ids.len() >= REMEMBERED {
            ids.pop_front();
        }
        ids.push_back(execution);
    }

    /// Whether `execution` is a finished cell.
    pub(super) fn knows(&self, execution: &str) -> bool {
        self.finished.iter().any(|id| id == execution)
    }

    /// Whether it is a finished aside.
    pub(super) fn knows_aside(&self, execution: &str) -> bool {
        self.asides.iter().any(|id| id == execution)
    }

    /// The last cell that finished.
    pub(super) fn latest(&self) -> Option<&str> {
        self.latest.as_deref()
    }

    /// Passes on an output of this many bytes.
    pub(super) fn tell(&mut self, execution: &str, output: OutputEvent, bytes: usize) {
        let Some(listener) = &self.listener else {
            return;
        };
        if self.dropped > 0 {
            let what = format!(
                "{} outputs that arrived after their cell had finished were dropped",
                self.dropped
            );
            let lost = Late {
                execution: execution.to_owned(),
                output: OutputEvent::Lost(what),
                _permit: None,
            };
            if listener.try_send(lost).is_ok() {
                self.dropped = 0;
            }
        }
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let late = Arc::clone(&self.room)
            .try_acquire_many_owned(permits)
            .ok()
            .map(|permit| Late {
                execution: execution.to_owned(),
                output,
                _permit: Some(permit),
            });
        if late.is_none_or(|late| listener.try_send(late).is_err()) {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_bounded_and_named() {
        let mut late = LateOutputs::default();
        for n in 0..=REMEMBERED {
            late.remember(n.to_string(), false);
        }
        assert!(!late.knows("0") && late.knows("1") && late.knows(&REMEMBERED.to_string()));
        let (outputs, mut listener) = mpsc::channel(2);
        late.listen(outputs);
        let tell = |late: &mut LateOutputs, bytes| {
            late.tell("1", OutputEvent::Clear { wait: false }, bytes);
        };
        tell(&mut late, WAITING_BYTES);
        tell(&mut late, 1);
        assert!(listener.try_recv().is_ok());
        tell(&mut late, 1);
        let next = listener.try_recv().unwrap();
        let words = "1 outputs that arrived after their cell had finished were dropped".to_owned();
        assert_eq!(next.output, OutputEvent::Lost(words));
        assert!(listener.try_recv().is_ok());
    }
}
