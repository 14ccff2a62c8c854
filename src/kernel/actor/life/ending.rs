//! How one life of a kernel ends (requested, forced or by itself), and how its last messages are collected.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Life;
use crate::jupyter::content::Content;
use crate::jupyter::message::Channel;
use crate::kernel::actor::End;
use crate::kernel::actor::limits::LimitWatch;
use crate::kernel::command::{Hearer, Tapped};
use crate::kernel::host::ExitReason;
use crate::kernel::link::Incoming;

/// How long a kernel may take to answer a shutdown_request by exiting.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The same before a restart, where its last messages do not matter.
const RESTART_GRACE: Duration = Duration::from_secs(1);
/// Silence after which we assume that no more messages will come.
const LAST_WORDS_QUIET: Duration = Duration::from_millis(50);
/// How long we collect what a kernel wrote just before it died.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Life {
    /// Ends this life cleanly and notifies everyone who still waits.
    pub(in crate::kernel::actor) async fn finish(mut self, end: End) -> (End, Option<Hearer>) {
        let reason = match &end {
            End::Died(reason) => {
                self.last_words().await;
                let reason = reason.clone();
                match &mut self.limits {
                    Some(limits) => limits.cause(reason),
                    None => reason,
                }
            }
            End::Shutdown(_) | End::Restart(_) if !self.host.is_ours() => ExitReason::Requested,
            End::Shutdown(None) if self.host.is_kept() => ExitReason::Requested,
            End::Shutdown(_) => self.shut_down(false, SHUTDOWN_GRACE).await,
            End::Restart(_) => self.shut_down(true, RESTART_GRACE).await,
            // Anything it would still do or say is part of what is being undone.
            End::Restore(_) => self.kill(ExitReason::Requested).await,
        };
        let stays = matches!(end, End::Shutdown(None)) && self.host.is_kept();
        self.files.iter_mut().for_each(|files| files.keep(stays));
        self.table.kernel_died(&reason);
        self.limits.iter_mut().for_each(LimitWatch::end);
        let end = match end {
            End::Died(_) => End::Died(reason),
            end => end,
        };
        (end, self.listener.into_sender())
    }

    async fn shut_down(&mut self, restart: bool, grace: Duration) -> ExitReason {
        if self.host.ends_by_message() {
            let request = self.request(Content::ShutdownRequest { restart });
            self.send(Channel::Control, request);
        }
        self.wait_for_end(restart, grace).await;
        if self.listener.is_there() {
            // The shutdown_reply arrives when the kernel ends.
            self.last_words().await;
        }
        ExitReason::Requested
    }

    /// Keeps reading outputs meanwhile: a kernel blocked on a write could not end.
    async fn wait_for_end(&mut self, restart: bool, grace: Duration) {
        let end = self.host.end(restart, grace);
        tokio::pin!(end);
        loop {
            tokio::select! {
                _ = &mut end => return,
                () = self.listener.make_room(), if self.listener.is_full() => {}
                incoming = self.link.incoming.recv(), if !self.listener.is_full() => match incoming {
                    Some(Incoming::Message { channel, message, raw, permit }) => {
                        let routed = self.table.route(channel, *message, permit, Instant::now());
                        if let Err((stray, permit)) = routed
                            && !stray.is_child_of(&self.session)
                        {
                            self.listener.offer(Tapped { channel, message: raw, permit });
                        }
                    }
                    Some(
                        Incoming::Unreadable(..)
                        | Incoming::Emptied { .. }
                        | Incoming::TooLarge { .. }
                        | Incoming::Truncated(_)
                        | Incoming::Reconnected
                        | Incoming::Lost(_),
                    ) => {}
                    None => {
                        end.await;
                        return;
                    }
                },
            }
        }
    }

    /// Collects what a dead kernel had written before it died.
    async fn last_words(&mut self) {
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            if timeout_at(deadline, self.listener.make_room())
                .await
                .is_err()
            {
                return;
            }
            let quiet = deadline.min(Instant::now() + LAST_WORDS_QUIET);
            let Ok(Some(incoming)) = timeout_at(quiet, self.link.incoming.recv()).await else {
                return;
            };
            self.take(incoming);
        }
    }
}
