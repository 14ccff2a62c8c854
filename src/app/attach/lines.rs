//! JSON lines of bounded length.

use std::io;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// Maximum bytes of a line from a client: a command with code.
pub const FROM_CLIENT: usize = 8 << 20;

/// Reads one value per line. Reading can be cancelled without loss.
#[derive(Debug)]
pub struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    longest: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `longest` bytes.
    pub fn new(read: R, longest: usize) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            longest,
        }
    }

    /// The next value, or why its line is invalid; `None` at the end.
    ///
    /// # Errors
    /// A read error, or a line that is too long or unfinished: nothing can be read after it.
    pub async fn next<T: DeserializeOwned>(
        &mut self,
    ) -> io::Result<Option<Result<T, serde_json::Error>>> {
        let room = self.longest.saturating_add(1) - self.line.len().min(self.longest);
        // Text that was read before a cancellation is still in `line`.
        (&mut self.read)
            .take(room as u64)
            .read_until(b'\n', &mut self.line)
            .await?;
        if self.line.last() != Some(&b'\n') {
            return if self.line.is_empty() {
                Ok(None)
            } else {
                Err(io::Error::other("a line without an end, or too long"))
            };
        }
        let parsed = serde_json::from_slice(&self.line);
        self.line.clear();
        Ok(Some(parsed))
    }
}
