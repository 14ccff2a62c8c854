//! Records the outcome of each connection: for the audit log, for the user, and as a note in the cell that caused it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, broadcast};

use super::pace::Pace;
use super::policy::No;

/// Most connections remembered.
const RECENT: usize = 1000;
/// How far a subscriber may lag; then it is told how many it missed.
const BEHIND: usize = 256;
/// Most refusals waiting for a cell to be reported in.
const REFUSALS: usize = 20;

/// A connection that has ended or was never made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The requested name.
    pub host: String,
    /// The port; a lookup has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How it ended.
    #[serde(flatten)]
    pub end: ConnectionEnd,
    /// Bytes sent.
    pub up: u64,
    /// Bytes received.
    pub down: u64,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ConnectionEnd {
    /// It was made.
    Allowed,
    /// The rules forbid it.
    Refused {
        /// Why.
        reason: String,
    },
    /// It was allowed but failed.
    Failed {
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match &self.end {
            ConnectionEnd::Allowed => {
                write!(f, ": {} bytes sent, {} received", self.up, self.down)
            }
            ConnectionEnd::Refused { reason } => write!(f, ": refused, {reason}"),
            ConnectionEnd::Failed { reason } => write!(f, ": failed, {reason}"),
        }
    }
}

/// All connections of the kernels that share this. Cheap to clone.
#[derive(Clone)]
pub struct Connections(Arc<Log>);

struct Log {
    recent: Mutex<VecDeque<Connection>>,
    pace: Mutex<Pace>,
    ended: broadcast::Sender<Connection>,
}

impl Connections {
    /// The last ones, oldest first.
    pub fn recent(&self) -> Vec<Connection> {
        lock(&self.0.recent).iter().cloned().collect()
    }

    /// Subscribes to connections as they end.
    pub fn subscribe(&self) -> broadcast::Receiver<Connection> {
        self.0.ended.subscribe()
    }

    /// Rate-limited: code can make connections much faster than anybody can read about them.
    fn add(&self, connection: Connection) {
        let (is_one_too_many, before) = lock(&self.0.pace).next(Instant::now());
        if before > 0 {
            let reason = format!("{before} more connections were not recorded");
            self.write(Connection {
                host: "others".to_owned(),
                port: None,
                end: ConnectionEnd::Refused { reason },
                up: 0,
                down: 0,
            });
        }
        if !is_one_too_many {
            self.write(connection);
        }
    }

    fn write(&self, connection: Connection) {
        let Connection {
            host,
            port,
            end,
            up,
            down,
        } = &connection;
        tracing::info!(
            host,
            port,
            ?end,
            up,
            down,
            "connection of a confined kernel"
        );
        push(&mut lock(&self.0.recent), connection.clone(), RECENT);
        // There may be no subscriber.
        let _ = self.0.ended.send(connection);
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self(Arc::new(Log {
            recent: Mutex::default(),
            pace: Mutex::default(),
            ended: broadcast::Sender::new(BEHIND),
        }))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connections")
    }
}

/// Compares identity, not content.
impl PartialEq for Connections {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Refusals of one kernel that have not been reported.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    waiting: Mutex<VecDeque<String>>,
    came: Notify,
}

impl Refusals {
    fn add(&self, words: String) {
        let mut waiting = lock(&self.waiting);
        // Programs retry.
        if !waiting.contains(&words) {
            push(&mut waiting, words, REFUSALS);
        }
        drop(waiting);
        self.came.notify_one();
    }

    pub(super) fn take(&self) -> Vec<String> {
        lock(&self.waiting).drain(..).collect()
    }

    /// Waits until there are some. Cancel-safe.
    pub(super) async fn some(&self) {
        while lock(&self.waiting).is_empty() {
            self.came.notified().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push<T>(queue: &mut VecDeque<T>, new: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(new);
}

/// The record of one kernel's connections.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) connections: Connections,
    pub(super) refusals: Refusals,
    /// The allow-list as text for people.
    pub(super) allowed: String,
}

impl Book {
    /// Records a connection that was not made; returns the text for the client.
    pub(super) fn not_made(&self, host: &str, port: Option<u16>, no: No) -> String {
        let place = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let (words, end) = match no {
            No::Refused(reason) => {
                let what = match port {
                    Some(_) => "a connection to",
                    None => "to look up",
                };
                let words = format!(
                    "the sandbox refused {what} {place}: {reason}; allowed are {}",
                    self.allowed
                );
                self.refusals.add(words.clone());
                (words, ConnectionEnd::Refused { reason })
            }
            No::Failed(reason) => (
                format!("no connection to {place}: {reason}"),
                ConnectionEnd::Failed { reason },
            ),
        };
        self.connections.add(Connection {
            host: host.to_owned(),
            port,
            end,
            up: 0,
            down: 0,
        });
        words
    }

    /// Starts the record of a connection; it is written when the connection ends.
    pub(super) fn made(self: &Arc<Self>, host: &str, port: u16) -> Made {
        Made {
            book: Arc::clone(self),
            host: host.to_owned(),
            port,
            meter: Arc::default(),
            is_refused: false,
        }
    }
}

/// A connection that was made.
pub(super) struct Made {
    book: Arc<Book>,
    host: String,
    port: u16,
    pub(super) meter: Arc<Meter>,
    /// Whether a refusal was recorded instead.
    is_refused: bool,
}

impl Made {
    /// Marks the connection as refused, which is recorded separately.
    pub(super) fn refused(mut self) {
        self.is_refused = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_refused {
            return;
        }
        self.book.connections.add(Connection {
            host: std::mem::take(&mut self.host),
            port: Some(self.port),
            end: ConnectionEnd::Allowed,
            up: self.meter.written.load(Ordering::Relaxed),
            down: self.meter.read.load(Ordering::Relaxed),
        });
    }
}

/// Counts bytes.
#[derive(Debug, Default)]
pub(super) struct Meter {
    read: AtomicU64,
    written: AtomicU64,
}

impl Meter {
    /// Returns when nothing has passed for `silence`, with a precision of a quarter.
    pub(super) async fn silent_for(&self, silence: Duration) {
        const QUARTERS: u32 = 4;
        let mut before = None;
        let mut quiet = 0;
        while quiet < QUARTERS {
            tokio::time::sleep(silence / QUARTERS).await;
            let now = self.read.load(Ordering::Relaxed) + self.written.load(Ordering::Relaxed);
            quiet = if before == Some(now) { quiet + 1 } else { 0 };
            before = Some(now);
        }
    }
}

/// A stream that counts its bytes.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let more = buffer.filled().len().saturating_sub(before);
        self.meter.read.fetch_add(count(more), Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            self.meter
                .written
                .fetch_add(count(*written), Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_refused_is_told_once_and_written_down_each_time() {
        let book = Arc::new(Book {
            connections: Connections::default(),
            refusals: Refusals::default(),
            allowed: "a.org".to_owned(),
        });
        let mut ended = book.connections.subscribe();
        for _ in 0..3 {
            book.not_made("b.org", Some(443), No::Refused("why".to_owned()));
        }
        book.not_made("c.org", None, No::Refused("why".to_owned()));
        book.not_made("a.org", Some(80), No::Failed("gone".to_owned()));
        book.refusals.some().await;
        assert_eq!(
            book.refusals.take(),
            [
                "the sandbox refused a connection to b.org:443: why; allowed are a.org",
                "the sandbox refused to look up c.org: why; allowed are a.org",
            ]
        );
        assert_eq!(book.refusals.take(), Vec::<String>::new());
        assert_eq!(book.connections.recent().len(), 5);
        let first = ended.recv().await.unwrap();
        let json = serde_json::to_value(&first).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"host": "b.org", "port": 443, "end": "refused", "reason": "why", "up": 0, "down": 0})
        );
        assert_eq!(serde_json::from_value::<Connection>(json).unwrap(), first);
    }

    #[tokio::test]
    async fn bytes_of_a_connection_are_counted() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let book = Arc::new(Book {
            connections: Connections::default(),
            refusals: Refusals::default(),
            allowed: String::new(),
        });
        let made = book.made("a.org", 443);
        let (near, mut far) = tokio::io::duplex(100);
        let mut near = Metered::new(near, Arc::clone(&made.meter));
        near.write_all(b"hello").await.unwrap();
        far.write_all(b"you").await.unwrap();
        near.read_exact(&mut [0; 3]).await.unwrap();
        drop(made);
        let connection = Connection {
            host: "a.org".to_owned(),
            port: Some(443),
            end: ConnectionEnd::Allowed,
            up: 5,
            down: 3,
        };
        assert_eq!(book.connections.recent(), [connection]);
    }
}
