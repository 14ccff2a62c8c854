//! Waits for the end of a kernel across many turns of the actor's loop.
//!
//! The actor's `select!` cancels the wait with each message and starts it again. The future here is kept and resumed:
//! otherwise each message would cost a read of `/proc`, or a request to a gateway.

use std::fmt;
use std::pin::Pin;

use super::ExitReason;

/// A wait in progress.
#[derive(Default)]
pub(in crate::kernel) struct Watch(Option<Pin<Box<dyn Future<Output = ExitReason> + Send>>>);

impl Watch {
    /// Resumes the current wait, or starts one with `begin` if there is none. Cancel-safe.
    pub(in crate::kernel) async fn end<F>(&mut self, begin: impl FnOnce() -> F) -> ExitReason
    where
        F: Future<Output = ExitReason> + Send + 'static,
    {
        let waiting = self.0.get_or_insert_with(|| Box::pin(begin()));
        let reason = waiting.as_mut().await;
        self.0 = None;
        reason
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn waiting_that_is_given_up_goes_on_where_it_was() {
        let steps = Arc::new(AtomicU32::new(0));
        let begun = AtomicU32::new(0);
        let mut watch = Watch::default();
        let mut given_up = 0;
        loop {
            let steps = Arc::clone(&steps);
            let end = watch.end(|| {
                begun.fetch_add(1, Ordering::Relaxed);
                async move {
                    for _ in 0..10 {
                        steps.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                    ExitReason::Exited(3)
                }
            });
            tokio::pin!(end);
            if let std::task::Poll::Ready(reason) = futures_util::poll!(end) {
                assert_eq!(reason, ExitReason::Exited(3));
                break;
            }
            given_up += 1;
        }
        assert_eq!((given_up, steps.load(Ordering::Relaxed)), (10, 10));
        assert_eq!(begun.load(Ordering::Relaxed), 1);
    }
}
