//! Assembles messages from scanned bytes, so that they need not go through `zeromq`'s socket.
//!
//! `zeromq` does the handshake and the subscription. What a kernel sends after its handshake reaches our readers from
//! here: a message makes no second trip through the operating system, and `zeromq` never parses its content.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;

use crate::kernel::zmtp::{GREETING, Head, MORE};

/// Messages that arrived together, each as its frames, in order.
pub type Batch = Vec<Vec<Bytes>>;

/// A batch of this many bytes is handed over before the next message is started.
const BATCH: usize = 256 * 1024;

/// Initial buffer size for a message; most fit.
const USUAL: usize = 1024;

type Permit = mpsc::OwnedPermit<Batch>;
type Waiting = Pin<Box<dyn Future<Output = Result<Permit, SendError<()>>> + Send>>;

/// Sink for one direction of a connection, after a [`Scanner`](super::scanner::Scanner). Passes the handshake on to
/// `client` and queues messages. Accepts nothing while the queue is full, so it holds at most one batch and one
/// message.
pub(super) struct Collector<W> {
    client: W,
    queue: mpsc::Sender<Batch>,
    room: QueueSpace,
    place: CollectState,
    /// The frames of the current message, concatenated.
    bytes: BytesMut,
    /// The ranges of its frames in `bytes`.
    frames: Vec<Range<usize>>,
    batch: Batch,
    batch_bytes: usize,
}

/// Queue capacity for one batch.
enum QueueSpace {
    Unknown,
    Awaited(Waiting),
    Reserved(Permit),
}

enum CollectState {
    /// Bytes of the greeting still to come.
    Greeting(usize),
    /// Part of a header; `is_ready` once the handshake's command has passed.
    Header { kept: Vec<u8>, is_ready: bool },
    /// Bytes of the handshake's command still to come.
    Ready(usize),
    /// Bytes of a frame's body still to come.
    Body { left: usize, more: bool },
}

impl<W> Collector<W> {
    pub(super) fn new(client: W, queue: mpsc::Sender<Batch>) -> Self {
        Self {
            client,
            queue,
            room: QueueSpace::Unknown,
            place: CollectState::Greeting(GREETING),
            bytes: BytesMut::new(),
            frames: Vec::new(),
            batch: Batch::new(),
            batch_bytes: 0,
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.room = match &mut self.room {
                QueueSpace::Reserved(_) => return Poll::Ready(Ok(())),
                QueueSpace::Unknown => match self.queue.clone().try_reserve_owned() {
                    Ok(permit) => QueueSpace::Reserved(permit),
                    Err(_) => QueueSpace::Awaited(Box::pin(self.queue.clone().reserve_owned())),
                },
                QueueSpace::Awaited(waiting) => match ready!(waiting.as_mut().poll(cx)) {
                    Ok(permit) => QueueSpace::Reserved(permit),
                    Err(SendError(())) => {
                        return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                    }
                },
            };
        }
    }

    /// Consumes the start of `bytes` as part of a message.
    fn take(&mut self, bytes: &[u8]) -> usize {
        match &mut self.place {
            CollectState::Header { kept, .. } => {
                let (count, head) = match Head::read(bytes) {
                    Ok(Some(head)) if kept.is_empty() => (head.size, Some(head)),
                    _ => read_head(kept, bytes),
                };
                if let Some(head) = head {
                    let (start, length) = (self.bytes.len(), length(head));
                    self.bytes
                        .reserve(length.max(if start == 0 { USUAL } else { 0 }));
                    self.frames.push(start..start + length);
                    self.go_on(length, head.flags & MORE != 0);
                }
                count
            }
            CollectState::Body { left, more } => {
                let count = bytes.len().min(*left);
                let (left, more) = (*left - count, *more);
                self.bytes.extend_from_slice(&bytes[..count]);
                self.go_on(left, more);
                count
            }
            CollectState::Greeting(_) | CollectState::Ready(_) => 0,
        }
    }

    fn go_on(&mut self, left: usize, more: bool) {
        if left > 0 {
            self.place = CollectState::Body { left, more };
            return;
        }
        self.place = CollectState::Header {
            kept: Vec::new(),
            is_ready: true,
        };
        if !more {
            self.batch_bytes += self.bytes.len();
            let bytes = std::mem::take(&mut self.bytes).freeze();
            let frames = self.frames.drain(..).map(|frame| bytes.slice(frame));
            self.batch.push(frames.collect());
        }
    }

    /// Hands over the complete messages.
    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if let QueueSpace::Reserved(permit) = std::mem::replace(&mut self.room, QueueSpace::Unknown)
        {
            permit.send(std::mem::take(&mut self.batch));
            self.batch_bytes = 0;
        }
    }
}

impl<W: AsyncWrite + Unpin> Collector<W> {
    /// Passes on the start of `bytes` as part of the handshake.
    fn poll_handshake(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let left = match &mut self.place {
            CollectState::Header { kept, .. } => {
                let (count, head) = read_head(kept, bytes);
                let Some(head) = head else {
                    return Poll::Ready(Ok(count));
                };
                // Our socket is new and empty: it has room for nine bytes.
                let written = ready!(Pin::new(&mut self.client).poll_write(cx, kept))?;
                if written < kept.len() {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.place = CollectState::Ready(length(head));
                return Poll::Ready(Ok(count));
            }
            CollectState::Greeting(left) | CollectState::Ready(left) => left,
            CollectState::Body { .. } => return Poll::Ready(Ok(0)),
        };
        let wanted = bytes.len().min(*left);
        let count = ready!(Pin::new(&mut self.client).poll_write(cx, &bytes[..wanted]))?;
        *left -= count;
        if *left == 0 {
            let is_ready = matches!(self.place, CollectState::Ready(_));
            let kept = Vec::new();
            self.place = CollectState::Header { kept, is_ready };
        }
        Poll::Ready(Ok(count))
    }

    fn shakes_hands(&self) -> bool {
        match self.place {
            CollectState::Greeting(_) | CollectState::Ready(_) => true,
            CollectState::Header { is_ready, .. } => !is_ready,
            CollectState::Body { .. } => false,
        }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Collector<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.shakes_hands() {
            return this.poll_handshake(cx, bytes);
        }
        ready!(this.poll_room(cx))?;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty())
            && this.batch_bytes < BATCH
        {
            at += this.take(rest);
        }
        // Complete messages must not stay here: no further call may come.
        this.hand_over();
        Poll::Ready(Ok(at))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_shutdown(cx)
    }
}

/// Appends the header bytes in `bytes` to `kept`. Returns how many there were, and the header once it is complete.
fn read_head(kept: &mut Vec<u8>, bytes: &[u8]) -> (usize, Option<Head>) {
    for (at, &byte) in bytes.iter().enumerate() {
        kept.push(byte);
        // The scanner has let it pass, so it is valid.
        if let Ok(Some(head)) = Head::read(kept) {
            return (at + 1, Some(head));
        }
    }
    (bytes.len(), None)
}

/// Body length; the scanner has let the frame pass, so it fits in memory.
fn length(head: Head) -> usize {
    usize::try_from(head.length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::tests::{Dice, frame, hello};
    use super::*;

    #[tokio::test]
    async fn messages_come_whole_and_in_order_in_whatever_pieces_they_came() {
        let long = vec![7; 70_000];
        let mut expected = Batch::new();
        let mut stream = hello();
        for n in 0..200_u8 {
            let frames = [vec![n], Vec::new(), long[..usize::from(n) * 300].to_vec()];
            for (index, body) in frames.iter().enumerate() {
                stream.extend(frame(u8::from(index < 2), body));
            }
            expected.push(frames.map(Bytes::from).to_vec());
        }
        for seed in 0..3 {
            let (client, mut handshake) = tokio::io::duplex(1024);
            let (queue, mut messages) = mpsc::channel(1);
            let mut collector = Collector::new(client, queue);
            let read = async {
                let mut got = Batch::new();
                while let Some(batch) = messages.recv().await {
                    assert!(!batch.is_empty());
                    got.extend(batch);
                }
                got
            };
            let write = async {
                Dice(seed).write(&stream, &mut collector).await;
                drop(collector);
            };
            let ((), got) = tokio::join!(write, read);
            assert!(got == expected, "seed {seed}");
            let mut shaken = Vec::new();
            handshake.read_to_end(&mut shaken).await.unwrap();
            assert_eq!(shaken, hello());
        }
    }

    #[tokio::test]
    async fn nothing_is_taken_while_nobody_reads_and_a_reader_that_has_gone_is_an_error() {
        let (queue, mut messages) = mpsc::channel(1);
        let mut collector = Collector::new(tokio::io::sink(), queue);
        collector.write_all(&hello()).await.unwrap();
        let message = frame(0, b"one");
        assert_eq!(collector.write(&message).await.unwrap(), message.len());
        let mut next = taken_now(&mut collector, &message).await;
        assert!(next.is_none(), "there is no room");
        assert_eq!(messages.recv().await.unwrap(), [[Bytes::from("one")]]);
        next = taken_now(&mut collector, &message).await;
        assert_eq!(next, Some(message.len()));
        drop(messages);
        let error = collector.write_all(&message).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    /// How many bytes one poll accepts.
    async fn taken_now(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Option<usize> {
        std::future::poll_fn(|cx| {
            Poll::Ready(match Pin::new(&mut *to).poll_write(cx, bytes) {
                Poll::Ready(taken) => taken.ok(),
                Poll::Pending => None,
            })
        })
        .await
    }
}
