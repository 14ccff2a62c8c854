//! The session's kernels, one per language: starting, ready, or failed. The first is the main one, which the notebook
//! names. It starts with the session, the others with their first cell. The kernels are independent of each other.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use crate::agent::event::KernelOffer;
use crate::agent::tools;
use crate::kernel::{Kernel, KernelError, LaunchOptions, Pool};
use crate::task::{self, Task};

/// The main kernel among the [`Slots`].
pub(super) const MAIN: usize = 0;

/// The kernels of a session.
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// Spares of the main kernel, if enabled.
    pool: Option<Arc<Pool>>,
}

/// One kernel, and its launch options.
pub(super) struct Slot {
    pub(super) options: LaunchOptions,
    pub(super) state: KernelSlot,
}

/// The state of a kernel.
pub(super) enum KernelSlot {
    /// It has not been needed yet.
    Asleep,
    /// It is starting or restarting.
    Starting {
        ready: oneshot::Receiver<Result<Kernel, KernelError>>,
        /// Aborted with the slot.
        _task: Task,
    },
    /// It is ready.
    Ready(Kernel),
    /// It could not be started.
    Failed(KernelError),
}

impl Slots {
    /// Starts `main` in the background; `others` start when they are needed.
    pub(super) fn starting(main: LaunchOptions, others: Vec<LaunchOptions>, spare: bool) -> Self {
        let pool = spare.then(|| Arc::new(Pool::new()));
        let mut slots = vec![Slot {
            state: KernelSlot::starting(main.clone(), pool.clone()),
            options: main,
        }];
        slots.extend(others.into_iter().map(|options| Slot {
            options,
            state: KernelSlot::Asleep,
        }));
        Self { slots, pool }
    }

    /// The available kernels, the main one first.
    pub(super) fn offers(&self) -> Vec<KernelOffer> {
        self.slots
            .iter()
            .map(|slot| KernelOffer {
                kernel: slot.options.kernel.name.clone(),
                language: slot.options.kernel.spec.language.clone(),
            })
            .collect()
    }

    /// The kernel for a cell's language; `None` is the main one's.
    pub(super) fn find(&self, language: Option<&str>) -> Option<usize> {
        language.map_or(Some(MAIN), |language| {
            tools::find_language(language, &self.offers())
        })
    }

    /// The language that a model means by `named`, in the form for a person.
    pub(super) fn language_of(&self, named: String) -> String {
        let mut offers = self.offers();
        let found = tools::find_language(&named, &offers);
        found.map_or(named, |at| offers.swap_remove(at).language)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// The kernel at `index` if it is ready.
    pub(super) fn ready(&self, index: usize) -> Option<&Kernel> {
        match &self.slots.get(index)?.state {
            KernelSlot::Ready(kernel) => Some(kernel),
            KernelSlot::Asleep | KernelSlot::Starting { .. } | KernelSlot::Failed(_) => None,
        }
    }

    /// Whether it is starting.
    pub(super) fn is_starting(&self, index: usize) -> bool {
        self.slots
            .get(index)
            .is_some_and(|slot| matches!(slot.state, KernelSlot::Starting { .. }))
    }

    /// All kernels that are ready, with their languages.
    pub(super) fn all_ready(&self) -> Vec<(String, Kernel)> {
        let ready = self.slots.iter().filter_map(|slot| match &slot.state {
            KernelSlot::Ready(kernel) => {
                Some((slot.options.kernel.spec.language.clone(), kernel.clone()))
            }
            KernelSlot::Asleep | KernelSlot::Starting { .. } | KernelSlot::Failed(_) => None,
        });
        ready.collect()
    }

    /// Its kernelspec's name.
    pub(super) fn name(&self, index: usize) -> String {
        self.slots
            .get(index)
            .map(|slot| slot.options.kernel.name.clone())
            .unwrap_or_default()
    }

    /// Starts the kernel at `index` if it has not been started. A failed one is tried again, except for the main one:
    /// without it there is no session.
    pub(super) fn need(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            match &slot.state {
                KernelSlot::Failed(_) if index == MAIN => {}
                KernelSlot::Asleep | KernelSlot::Failed(_) => {
                    slot.state = KernelSlot::starting(slot.options.clone(), None);
                }
                KernelSlot::Starting { .. } | KernelSlot::Ready(_) => {}
            }
        }
    }

    /// Starts a new kernel at `index`, and stops waiting for the one that was left running.
    pub(super) fn start_new(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.options.adopt = None;
            slot.state = KernelSlot::starting(slot.options.clone(), None);
        }
    }

    /// Restarts the kernel at `index` in the background, if it is ready.
    pub(super) fn restart(&mut self, index: usize) {
        if let Some(kernel) = self.ready(index).cloned()
            && let Some(slot) = self.slots.get_mut(index)
        {
            slot.state = match self.pool.clone().filter(|_| index == MAIN) {
                Some(pool) => {
                    let options = slot.options.clone();
                    KernelSlot::when(async move {
                        // The old one may be slow to end; nobody waits for it.
                        task::spawn("old kernel", async move { kernel.shutdown().await }).detach();
                        pool.take(options).await
                    })
                }
                None => KernelSlot::restarting(kernel),
            };
        }
    }

    /// Waits until a starting kernel is ready or has failed, and returns that once.
    pub(super) async fn changed(&mut self) -> (usize, Result<(), KernelError>) {
        std::future::poll_fn(|context| {
            for (index, slot) in self.slots.iter_mut().enumerate() {
                let KernelSlot::Starting { ready, .. } = &mut slot.state else {
                    continue;
                };
                let Poll::Ready(result) = Pin::new(ready).poll(context) else {
                    continue;
                };
                let result = match result.unwrap_or(Err(KernelError::Closed)) {
                    Ok(kernel) => {
                        slot.state = KernelSlot::Ready(kernel);
                        Ok(())
                    }
                    Err(error) => {
                        slot.state = KernelSlot::Failed(error.clone());
                        Err(error)
                    }
                };
                return Poll::Ready((index, result));
            }
            Poll::Pending
        })
        .await
    }

    /// Ends all kernels at the same time.
    pub(super) async fn shutdown(self) {
        let ready = self.slots.into_iter().filter_map(|slot| match slot.state {
            // A kernel that is to be kept stays running when its last handle is dropped.
            KernelSlot::Ready(_) if slot.options.keep => None,
            KernelSlot::Ready(kernel) => Some(kernel),
            // An unwanted start is cancelled; the process ends with its task.
            KernelSlot::Asleep | KernelSlot::Starting { .. } | KernelSlot::Failed(_) => None,
        });
        futures_util::future::join_all(ready.map(|kernel| async move { kernel.shutdown().await }))
            .await;
    }
}

impl KernelSlot {
    /// Starts a kernel in the background.
    fn starting(options: LaunchOptions, pool: Option<Arc<Pool>>) -> Self {
        Self::when(async move {
            match pool {
                Some(pool) => pool.take(options).await,
                None => Kernel::launch(options).await,
            }
        })
    }

    /// Restarts `kernel` in the background.
    fn restarting(kernel: Kernel) -> Self {
        Self::when(async move { kernel.restart().await.map(|()| kernel) })
    }

    fn when(future: impl Future<Output = Result<Kernel, KernelError>> + Send + 'static) -> Self {
        let (sender, ready) = oneshot::channel();
        let task = task::spawn("kernel start", async move {
            // A session that has ended drops the kernel, which shuts it down.
            let _ = sender.send(future.await);
        });
        Self::Starting { ready, _task: task }
    }
}
