//! Messages over two pipes: one a line.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Bytes of a message of a client.
pub const LONGEST: usize = 96 << 20;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end.
    Whole,
    /// One of too many bytes, which was not kept.
    TooLong,
    /// The pipe ended.
    End,
}

/// Reads a line of at most `most` bytes into `line`; one that is too long is read to its end and not kept.
///
/// # Errors
/// Those of the pipe.
pub async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    most: usize,
) -> io::Result<Line> {
    line.clear();
    let mut is_too_long = false;
    loop {
        let buffer = input.fill_buf().await?;
        if buffer.is_empty() {
            // The pipe ended in the middle of a message: drop the rest.
            return Ok(Line::End);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let piece = buffer
            .get(..end.unwrap_or(buffer.len()))
            .unwrap_or_default();
        is_too_long |= line.len() + piece.len() > most;
        if is_too_long {
            line.clear();
        } else {
            line.extend_from_slice(piece);
        }
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(if is_too_long {
                Line::TooLong
            } else {
                Line::Whole
            });
        }
    }
}

/// Writes messages as lines until `messages` ends or nobody reads them.
pub async fn write(mut messages: mpsc::Receiver<Value>, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        // JSON has no line break outside of its strings, and none in them.
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the client reads no more");
            return;
        }
    }
}
