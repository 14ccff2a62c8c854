//! The end of a sandbox's lifetime.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;

/// The time when a sandbox's lifetime ends, which can be moved.
pub(super) struct Clock {
    end: Mutex<End>,
    moved: watch::Sender<()>,
}

#[derive(Clone, Copy)]
struct End {
    /// `None`: never, or not while it is paused.
    at: Option<Instant>,
    shown: SystemTime,
    is_paused: bool,
}

/// Waits for the current end time.
pub(super) struct Ending {
    at: Option<Instant>,
    moved: watch::Receiver<()>,
}

impl Clock {
    pub(super) fn new(lifetime: Option<Duration>) -> Self {
        let clock = Self {
            end: Mutex::new(End {
                at: None,
                shown: SystemTime::now(),
                is_paused: false,
            }),
            moved: watch::Sender::new(()),
        };
        clock.set(lifetime);
        clock
    }

    /// Sets the end to this long from now.
    pub(super) fn set(&self, lifetime: Option<Duration>) {
        let mut end = lock(&self.end);
        end.at = lifetime.map(|it| Instant::now() + it);
        // Without an end, a distant one is shown.
        end.shown = SystemTime::now() + lifetime.unwrap_or(super::LONGEST);
        drop(end);
        self.moved.send_replace(());
    }

    /// The same, unless the end is later already.
    pub(super) fn extend(&self, lifetime: Duration) {
        let at = lock(&self.end).at;
        if at.is_some_and(|at| at < Instant::now() + lifetime) {
            self.set(Some(lifetime));
        }
    }

    /// Stops the clock, or restarts it with `lifetime` left.
    pub(super) fn pause(&self, lifetime: Option<Duration>) {
        let mut end = lock(&self.end);
        end.is_paused = lifetime.is_none();
        drop(end);
        self.set(lifetime);
    }

    pub(super) fn is_paused(&self) -> bool {
        lock(&self.end).is_paused
    }

    pub(super) fn shown(&self) -> SystemTime {
        lock(&self.end).shown
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.end).at.is_some_and(|at| at <= Instant::now())
    }

    pub(super) fn ending(&self) -> Ending {
        let mut moved = self.moved.subscribe();
        moved.mark_unchanged();
        Ending {
            at: lock(&self.end).at,
            moved,
        }
    }
}

impl Ending {
    /// Waits until the time is over or was moved. Returns `false` if the sandbox is gone.
    pub(super) async fn wait(mut self) -> bool {
        let over = async {
            match self.at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => true,
            moved = self.moved.changed() => moved.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_is_over_when_it_was_last_said() {
        let clock = Clock::new(Some(Duration::from_hours(1)));
        let ending = clock.ending();
        clock.extend(Duration::from_secs(5));
        clock.set(Some(Duration::from_hours(2)));
        // The end was moved.
        assert!(ending.wait().await && !clock.is_over());
        clock.set(Some(Duration::from_millis(1)));
        assert!(clock.ending().wait().await && clock.is_over());
        clock.pause(None);
        assert!(clock.is_paused() && !clock.is_over());
        clock.pause(Some(Duration::from_hours(1)));
        assert!(!clock.is_paused());
        let ending = clock.ending();
        drop(clock);
        assert!(!ending.wait().await);
    }
}
