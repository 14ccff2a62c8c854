//! Ctrl-C and requests to end, as a channel. The third Ctrl-C in a row ends the program at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::kernel::task::{self, Task};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Ctrl-C: stop what is going on.
    Interrupt,
    /// SIGTERM or SIGHUP: end in good order.
    End,
}

/// Listens from now on.
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
        loop {
            let ask = tokio::select! {
                _ = int.recv() => Ask::Interrupt,
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
