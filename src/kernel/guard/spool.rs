//! Buffers what a kernel sent until our own socket has room for it.
//!
//! A kernel silently drops messages when about a thousand of them wait to be read (libzmq's high-water mark). Reading
//! bytes is almost free, turning them into messages is not; so bytes are read from the kernel at once, up to a limit,
//! and wait here.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Most capacity kept for later messages, so that a flood does not hold its memory for ever.
const KEPT: usize = 256 * 1024;
/// Writes of at least this size skip the buffer if it is empty; smaller ones are merged, because a system call costs
/// more than a copy.
const LARGE: usize = 16 * 1024;

/// Buffers writes until they are drained into `inner`, so that many frames pass in one system call.
#[derive(Debug)]
pub(super) struct Spool<W> {
    inner: W,
    waiting: VecDeque<u8>,
    limit: usize,
}

impl<W: AsyncWrite + Unpin> Spool<W> {
    pub(super) fn new(inner: W, limit: usize) -> Self {
        Self {
            inner,
            waiting: VecDeque::new(),
            limit,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes as much as `inner` has room for now.
    pub(super) async fn push(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| match self.poll_drain(cx) {
            Poll::Ready(drained) => Poll::Ready(drained),
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Writes everything that is buffered. Cancel-safe.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_drain(cx)).await
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let (front, _) = self.waiting.as_slices();
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, front))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.drain(..count);
        }
        if self.waiting.capacity() > KEPT {
            self.waiting = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Spool<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if bytes.len() >= LARGE
            && let Poll::Ready(drained) = this.poll_drain(cx)
        {
            drained?;
            if let Poll::Ready(written) = Pin::new(&mut this.inner).poll_write(cx, bytes) {
                return Poll::Ready(written);
            }
        }
        if this.waiting.len() >= this.limit {
            ready!(this.poll_drain(cx))?;
        }
        let room = this.limit.saturating_sub(this.waiting.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        this.waiting.extend(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn keeps_what_is_not_taken_in_order_and_within_bounds() {
        let (inner, mut reader) = tokio::io::duplex(4);
        let mut spool = Spool::new(inner, 6);
        assert_eq!(spool.write(b"0123").await.unwrap(), 4);
        // Four bytes pass, six are buffered, two have no room.
        spool.push().await.unwrap();
        assert!(spool.is_empty());
        assert_eq!(spool.write(b"456789ab").await.unwrap(), 6);
        let mut full = async |bytes: &'static [u8]| {
            std::future::poll_fn(|cx| {
                Poll::Ready(Pin::new(&mut spool).poll_write(cx, bytes).is_pending())
            })
            .await
        };
        assert!(full(b"ab").await);
        let mut got = [0; 10];
        let (drained, read) = tokio::join!(spool.drain(), reader.read_exact(&mut got));
        drained.unwrap();
        read.unwrap();
        assert_eq!((&got, spool.is_empty()), (b"0123456789", true));
        drop(reader);
        spool.write_all(b"x").await.unwrap();
        assert!(spool.push().await.is_err());
    }
}
