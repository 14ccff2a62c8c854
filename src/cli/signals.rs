//! Delivers Ctrl-C and requests to end through a channel. The third Ctrl-C in a row ends the program at once.

use super::stop::Ask;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

use crate::task::{self, Task};

/// This many Ctrl-C within [`IN_A_ROW`] end the program at once.
const AT_ONCE: usize = 3;
/// See [`AT_ONCE`]. Shorter than the delay before a person is told that a cell is still running and that two more
/// Ctrl-C restart the kernel: those two must not end the program.
const IN_A_ROW: Duration = Duration::from_millis(1500);
/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Notifies that the program must end at once.
static NOW: Notify = Notify::const_new();
/// How long the program has to clean up then.
const STUCK: Duration = Duration::from_secs(1);

/// Resolves when the program must end at once.
pub(super) async fn at_once() {
    NOW.notified().await;
}

/// Starts listening.
pub(super) fn listen() -> (mpsc::Receiver<Ask>, Task) {
    let (sender, receiver) = mpsc::channel(8);
    let task = task::spawn("signals", async move {
        let (Ok(mut int), Ok(mut term), Ok(mut hup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return;
        };
        let mut pressed: Vec<Instant> = Vec::new();
        loop {
            let ask = tokio::select! {
                _ = int.recv() => {
                    let now = Instant::now();
                    pressed.retain(|at| now.duration_since(*at) < IN_A_ROW);
                    pressed.push(now);
                    if pressed.len() >= AT_ONCE {
                        NOW.notify_one();
                        // The task that waits for it may be blocked in a write.
                        tokio::time::sleep(STUCK).await;
                        super::line_source::restore();
                        std::process::exit(INTERRUPTED);
                    }
                    Ask::Interrupt
                }
                _ = term.recv() => Ask::End,
                _ = hup.recv() => Ask::End,
            };
            if sender.send(ask).await.is_err() {
                return;
            }
        }
    });
    (receiver, task)
}
