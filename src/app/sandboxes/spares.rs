//! Spares: directories with a running Python kernel, ready for later sandboxes. The first sandbox triggers them; they
//! end after some time without new sandboxes.

use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::lock;
use crate::task;

/// Maximum spares at the same time. Each costs a kernel's memory.
const SPARES: usize = 2;
/// When spares are created, and when they end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Delay between a new sandbox and the start of the next spare: the sandbox's own code gets the processor first.
    refill_after: Duration,
    /// Time without new sandboxes after which they end.
    idle: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            refill_after: Duration::from_millis(500),
            idle: Duration::from_mins(10),
        }
    }
}

/// How long shutdown waits for a spare that is being created.
const END_WITHIN: Duration = Duration::from_secs(5);

/// See the module documentation.
pub(super) struct Spares<S> {
    ready: Mutex<Ready<S>>,
    wanted: watch::Sender<u64>,
    pace: Pace,
    /// Held while a spare is created.
    making: tokio::sync::Mutex<()>,
}

struct Ready<S> {
    all: Vec<S>,
    is_filled: bool,
    is_closed: bool,
}

/// A spare that is ready.
pub(super) trait Spare: Send + Sync + 'static {
    /// Whether it can still be used.
    fn lives(&self) -> bool;
    /// Ends it.
    fn end(&self) -> impl Future<Output = ()> + Send;
}

impl<S: Spare> Spares<S> {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            ready: Mutex::new(Ready {
                all: Vec::new(),
                is_filled: false,
                is_closed: false,
            }),
            wanted: watch::Sender::new(0),
            pace,
            making: tokio::sync::Mutex::default(),
        }
    }

    /// Takes a usable spare, if there is one.
    pub(super) async fn take(&self) -> Option<S> {
        loop {
            let spare = lock(&self.ready).all.pop()?;
            if spare.lives() {
                return Some(spare);
            }
            spare.end().await;
        }
    }

    /// Records that a sandbox was created, so more may follow. `make` creates a spare; `None`: spares are no longer
    /// wanted.
    pub(super) fn refill<M, F>(self: &Arc<Self>, make: M)
    where
        M: Fn() -> F + Send + 'static,
        F: Future<Output = Option<S>> + Send + 'static,
    {
        self.wanted.send_modify(|count| *count += 1);
        let is_filled = {
            let mut ready = lock(&self.ready);
            std::mem::replace(&mut ready.is_filled, true)
        };
        if !is_filled {
            let (spares, wanted) = (Arc::downgrade(self), self.wanted.subscribe());
            task::spawn("spare sandboxes", fill(spares, wanted, self.pace, make)).detach();
        }
    }

    /// Ends all spares, and accepts no more.
    pub(super) async fn close(&self) {
        lock(&self.ready).is_closed = true;
        // A spare that is being created ends as soon as it is ready.
        let _ = timeout(END_WITHIN, self.making.lock()).await;
        self.clear().await;
    }

    async fn clear(&self) {
        let all = std::mem::take(&mut lock(&self.ready).all);
        futures_util::future::join_all(all.iter().map(S::end)).await;
    }

    /// Stores a spare, unless spares are no longer wanted.
    async fn keep(&self, spare: S) {
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

/// Creates spares as long as sandboxes are created.
async fn fill<S, M, F>(
    spares: Weak<Spares<S>>,
    mut wanted: watch::Receiver<u64>,
    pace: Pace,
    make: M,
) where
    S: Spare,
    M: Fn() -> F,
    F: Future<Output = Option<S>>,
{
    loop {
        wanted.mark_unchanged();
        sleep(pace.refill_after).await;
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
        match timeout(pace.idle, wanted.changed()).await {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Counts what happens to spares.
    #[derive(Default)]
    struct Counted {
        made: AtomicUsize,
        ended: Mutex<Vec<usize>>,
    }

    struct Numbered {
        number: usize,
        is_dead: AtomicBool,
        counted: Arc<Counted>,
    }

    impl Spare for Numbered {
        fn lives(&self) -> bool {
            !self.is_dead.load(Ordering::Relaxed)
        }

        async fn end(&self) {
            lock(&self.counted.ended).push(self.number);
        }
    }

    struct Filled {
        spares: Arc<Spares<Numbered>>,
        counted: Arc<Counted>,
    }

    impl Filled {
        fn new(idle: Duration) -> Self {
            let pace = Pace {
                refill_after: Duration::ZERO,
                idle,
            };
            Self {
                spares: Arc::new(Spares::new(pace)),
                counted: Arc::default(),
            }
        }

        /// Records that a sandbox was created.
        fn wanted(&self) {
            let counted = Arc::clone(&self.counted);
            self.spares.refill(move || {
                let counted = Arc::clone(&counted);
                async move {
                    Some(Numbered {
                        number: counted.made.fetch_add(1, Ordering::Relaxed),
                        is_dead: AtomicBool::default(),
                        counted,
                    })
                }
            });
        }

        /// Waits until all spares are replaced after one was taken.
        async fn refilled(&self) {
            self.wanted();
            until(|| lock(&self.spares.ready).all.len() == SPARES).await;
        }

        async fn take(&self) -> Option<usize> {
            self.spares.take().await.map(|it| it.number)
        }

        fn made(&self) -> usize {
            self.counted.made.load(Ordering::Relaxed)
        }

        fn ended(&self) -> Vec<usize> {
            lock(&self.counted.ended).clone()
        }
    }

    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    }

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn one_is_taken_and_another_made() {
        let filled = Filled::new(LONG);
        assert_eq!(filled.take().await, None, "before the first sandbox");
        filled.refilled().await;
        assert_eq!(filled.take().await, Some(1));
        filled.refilled().await;
        assert_eq!(filled.made(), SPARES + 1);
        assert_eq!(filled.take().await, Some(2));
        assert_eq!(filled.take().await, Some(0));
        assert_eq!(filled.take().await, None);
        assert_eq!(filled.ended(), [0; 0], "what was taken is the sandbox's");
    }

    #[tokio::test]
    async fn one_that_died_is_passed_over_and_ended() {
        let filled = Filled::new(LONG);
        filled.refilled().await;
        if let Some(last) = lock(&filled.spares.ready).all.last() {
            last.is_dead.store(true, Ordering::Relaxed);
        }
        assert_eq!(filled.take().await, Some(0));
        assert_eq!(filled.ended(), [1]);
    }

    #[tokio::test]
    async fn they_end_when_nobody_wants_one_and_come_back() {
        let filled = Filled::new(Duration::from_millis(1));
        filled.wanted();
        until(|| filled.ended() == [0, 1]).await;
        assert_eq!(filled.take().await, None);
        filled.wanted();
        until(|| filled.made() == 2 * SPARES).await;
    }

    #[tokio::test]
    async fn a_closed_pool_ends_them_and_keeps_none() {
        let filled = Filled::new(LONG);
        filled.refilled().await;
        filled.spares.close().await;
        assert_eq!(filled.ended(), [0, 1]);
        filled.wanted();
        // The task that creates them notices the close, and ends.
        until(|| filled.spares.wanted.receiver_count() == 0).await;
        assert_eq!(filled.take().await, None);
        assert_eq!(filled.made(), SPARES);
    }
}
