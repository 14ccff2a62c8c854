//! The two directions of a unix socket, without a wake-up each time the other side has read something.
//!
//! tokio's own `UnixStream` always watches for room to write. A reader at the other end makes room with each message,
//! so each message costs two wake-ups where one would do. Here we wait for room only while there is none. tokio's pipe
//! types can watch a file descriptor for one direction; `read` and `write` treat a connected socket like a pipe.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The receiving half.
pub(super) type Reading = pipe::Receiver;

/// The sending half. Dropping it shuts down this direction.
#[derive(Debug)]
pub(super) struct Writing {
    stream: StdUnixStream,
    /// The same socket, watched only while it is full.
    full: Option<pipe::Sender>,
}

/// Takes over `stream`. Call it inside a tokio runtime.
///
/// # Errors
/// If registering a file descriptor fails.
pub(super) fn halves(stream: UnixStream) -> io::Result<(Reading, Writing)> {
    let stream = stream.into_std()?;
    let reading = pipe::Receiver::from_owned_fd_unchecked(stream.try_clone()?.into())?;
    Ok((reading, Writing { stream, full: None }))
}

impl AsyncWrite for Writing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let full = match &mut this.full {
            Some(full) => full,
            None => match this.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let again = this.stream.try_clone()?;
                    let watched = pipe::Sender::from_owned_fd_unchecked(again.into())?;
                    this.full.insert(watched)
                }
                written => return Poll::Ready(written),
            },
        };
        let written = ready!(Pin::new(full).poll_write(cx, bytes));
        this.full = None;
        Poll::Ready(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Fails if the other side has gone, which is fine.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn all_arrives_in_order_though_there_is_seldom_room() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reading, mut writing) = halves(ours).unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut from, mut to) = theirs.into_split();
        let (mut got, mut echoed) = (vec![0; sent.len()], Vec::new());
        let (written, read, back, all) = tokio::join!(
            async {
                let written = writing.write_all(&sent).await;
                drop(writing);
                written
            },
            from.read_exact(&mut got),
            async {
                let written = to.write_all(&sent).await;
                drop(to);
                written
            },
            reading.read_to_end(&mut echoed),
        );
        written.unwrap();
        read.unwrap();
        back.unwrap();
        all.unwrap();
        assert!(got == sent && echoed == sent);
        // The other side sees the end of our writes.
        assert_eq!(from.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn an_other_side_that_has_gone_is_an_error_and_no_wait() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reading, mut writing) = halves(ours).unwrap();
        drop(theirs);
        assert_eq!(reading.read(&mut [0]).await.unwrap(), 0);
        let error = writing.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
