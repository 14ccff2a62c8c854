//! One client of a hub: its queue, bounded by bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Ask;
use crate::jupyter::message::Channel;
use crate::jupyter::raw::RawMessage;

/// Most bytes queued for a client; a single larger message passes alone.
const WAITING: u32 = 64 << 20;
/// Bytes that a message takes besides its frames.
const OVERHEAD: usize = 512;

/// A connection to a shared kernel. The hub sees when it is dropped.
#[derive(Debug)]
pub struct HubClient {
    session: String,
    seat: u64,
    messages: mpsc::UnboundedReceiver<Queued>,
    asks: mpsc::Sender<Ask>,
}

/// A message for a client.
#[derive(Debug)]
pub struct Queued {
    /// The channel it came on.
    pub channel: Channel,
    /// The message.
    pub message: RawMessage,
    _permit: OwnedSemaphorePermit,
}

/// The hub's end of a client.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) id: u64,
    /// Unbounded, because each message holds a permit for its bytes.
    messages: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
}

impl HubClient {
    pub(super) fn new(session: &str, asks: mpsc::Sender<Ask>) -> (Self, Seat) {
        static SEATS: AtomicU64 = AtomicU64::new(0);
        let id = SEATS.fetch_add(1, Ordering::Relaxed);
        let (sender, messages) = mpsc::unbounded_channel();
        let client = Self {
            session: session.to_owned(),
            seat: id,
            messages,
            asks,
        };
        let seat = Seat {
            id,
            messages: sender,
            room: Arc::new(Semaphore::new(WAITING as usize)),
        };
        (client, seat)
    }

    /// The next message; `None` once the client was disconnected or the kernel is gone for good.
    pub async fn next(&mut self) -> Option<Queued> {
        self.messages.recv().await
    }

    /// Whether another message is queued.
    pub fn has_more(&self) -> bool {
        !self.messages.is_empty()
    }

    /// A sender of requests to the kernel, for use in another task. It does nothing once the client is gone.
    pub fn sender(&self) -> HubSender {
        HubSender {
            session: self.session.clone(),
            asks: self.asks.clone(),
        }
    }
}

impl Drop for HubClient {
    fn drop(&mut self) {
        let leave = Ask::Leave {
            session: std::mem::take(&mut self.session),
            seat: self.seat,
        };
        if let Err(mpsc::error::TrySendError::Full(leave)) = self.asks.try_send(leave) {
            let asks = self.asks.clone();
            crate::task::spawn("kernel hub client", async move {
                // A closed hub does not need it.
                let _ = asks.send(leave).await;
            })
            .detach();
        }
    }
}

/// Sends a client's requests.
#[derive(Debug, Clone)]
pub struct HubSender {
    session: String,
    asks: mpsc::Sender<Ask>,
}

impl HubSender {
    /// Sends a message of the client. Returns false if the hub is gone.
    pub async fn send(&self, channel: Channel, message: RawMessage) -> bool {
        let request = Ask::Request {
            session: self.session.clone(),
            channel,
            message,
        };
        self.asks.send(request).await.is_ok()
    }
}

impl Seat {
    /// Queues a message. Returns false if there was no room within `patience`, or the client is gone.
    pub(super) async fn give(
        &self,
        channel: Channel,
        message: RawMessage,
        patience: Duration,
    ) -> bool {
        let bytes = u32::try_from(bytes_of(&message)).unwrap_or(WAITING);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes.min(WAITING));
        let Ok(Ok(permit)) = tokio::time::timeout(patience, room).await else {
            return false;
        };
        let queued = Queued {
            channel,
            message,
            _permit: permit,
        };
        self.messages.send(queued).is_ok()
    }
}

/// Bytes of memory that a message takes.
pub(super) fn bytes_of(message: &RawMessage) -> usize {
    let parts = [
        &message.header,
        &message.parent,
        &message.metadata,
        &message.content,
    ];
    let parts = parts.into_iter().chain(&message.buffers);
    OVERHEAD + parts.map(bytes::Bytes::len).sum::<usize>()
}
