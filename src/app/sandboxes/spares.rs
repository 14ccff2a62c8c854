//! Spares: directories with a Python kernel that is ready, for sandboxes that are wanted later. None is there before the first
//! sandbox; when nobody has wanted a sandbox for a while they end.

use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::context::CodeContext;
use super::lock;
use super::machine::Machine;
use crate::kernel::KernelState;
use crate::task;

/// Spares at the same time. Each costs the memory of a kernel.
const SPARES: usize = 2;
/// From a new sandbox to the start of the next spare: the sandbox's own code has the processor first.
const REFILL_AFTER: Duration = Duration::from_millis(500);
/// Without a new sandbox they end after this.
const IDLE: Duration = Duration::from_mins(10);

/// How long the end waits for one that is being made.
const END_WITHIN: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Spares {
    ready: Mutex<Ready>,
    wanted: watch::Sender<u64>,
    /// Held while one is made.
    making: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Ready {
    all: Vec<Spare>,
    is_filled: bool,
    is_closed: bool,
}

/// One that is ready.
pub(super) struct Spare {
    /// The name that its sandbox gets, by which its directory is called.
    pub(super) id: String,
    pub(super) machine: Arc<Machine>,
    pub(super) context: Arc<CodeContext>,
}

impl Spares {
    pub(super) fn new() -> Self {
        Self {
            ready: Mutex::default(),
            wanted: watch::Sender::new(0),
            making: tokio::sync::Mutex::default(),
        }
    }

    /// One whose kernel lives, if there is one.
    pub(super) async fn take(&self) -> Option<Spare> {
        loop {
            let spare = lock(&self.ready).all.pop()?;
            let kernel = spare.context.kernel();
            if kernel.is_some_and(|it| !matches!(it.state(), KernelState::Dead(_))) {
                return Some(spare);
            }
            spare.end().await;
        }
    }

    /// Notes that a sandbox was wanted, so that there may be others. `make` makes a spare; `None`: nobody wants one any more.
    pub(super) fn refill<M, F>(self: &Arc<Self>, make: M)
    where
        M: Fn() -> F + Send + 'static,
        F: Future<Output = Option<Spare>> + Send + 'static,
    {
        self.wanted.send_modify(|count| *count += 1);
        let is_filled = {
            let mut ready = lock(&self.ready);
            std::mem::replace(&mut ready.is_filled, true)
        };
        if !is_filled {
            let (spares, wanted) = (Arc::downgrade(self), self.wanted.subscribe());
            task::spawn("spare sandboxes", fill(spares, wanted, make)).detach();
        }
    }

    /// Ends all, and takes no more.
    pub(super) async fn close(&self) {
        lock(&self.ready).is_closed = true;
        // One that is being made ends as soon as it is ready.
        let _ = timeout(END_WITHIN, self.making.lock()).await;
        self.clear().await;
    }

    async fn clear(&self) {
        let all = std::mem::take(&mut lock(&self.ready).all);
        futures_util::future::join_all(all.iter().map(Spare::end)).await;
    }

    /// Keeps one, unless it is not wanted any more.
    async fn keep(&self, spare: Spare) {
        let refused = {
            let mut ready = lock(&self.ready);
            if ready.is_closed {
                Some(spare)
            } else {
                ready.all.push(spare);
                None
            }
        };
        if let Some(spare) = refused {
            spare.end().await;
        }
    }
}

/// Makes spares while sandboxes are wanted.
async fn fill<M, F>(spares: Weak<Spares>, mut wanted: watch::Receiver<u64>, make: M)
where
    M: Fn() -> F,
    F: Future<Output = Option<Spare>>,
{
    loop {
        wanted.mark_unchanged();
        sleep(REFILL_AFTER).await;
        loop {
            let Some(spares) = spares.upgrade() else {
                return;
            };
            let _making = spares.making.lock().await;
            let (count, is_closed) = {
                let ready = lock(&spares.ready);
                (ready.all.len(), ready.is_closed)
            };
            if is_closed {
                return;
            }
            if count >= SPARES {
                break;
            }
            let Some(spare) = make().await else {
                break;
            };
            spares.keep(spare).await;
        }
        match timeout(IDLE, wanted.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_idle) => {
                let Some(spares) = spares.upgrade() else {
                    return;
                };
                spares.clear().await;
                drop(spares);
                if wanted.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Spare {
    pub(super) async fn end(&self) {
        self.context.end().await;
        self.machine.remove().await;
    }
}
