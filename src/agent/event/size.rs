//! The size of an event, and sending events so that the queue is bounded in bytes.

use tokio::sync::mpsc;

use super::{EventKind, OutputChange};
use crate::jupyter::mime::MimeBundle;
use crate::jupyter::nbformat::Output;

/// Bytes from which an event waits until the queue to the front end is empty.
const LARGE: usize = 256 << 10;

/// Sends `event`. A large one waits until the queue is empty: the queue bounds the number of events, and this bounds
/// their bytes. A front end that disconnected is not an error.
pub(in crate::agent) async fn send<T>(events: &mpsc::Sender<T>, event: T, bytes: usize) {
    if bytes > LARGE {
        if let Ok(mut all) = events.reserve_many(events.max_capacity()).await
            && let Some(first) = all.next()
        {
            first.send(event);
        }
    } else {
        let _ = events.send(event).await;
    }
}

impl EventKind {
    /// Approximate bytes of its output.
    pub(in crate::agent) fn bytes(&self) -> usize {
        let bundle = |data: &MimeBundle| -> usize {
            data.iter()
                .map(|(_, value)| value.as_str().map_or(LARGE / 4, str::len))
                .sum()
        };
        match self {
            Self::Output {
                change: OutputChange::Append { output, .. },
                ..
            } => match output {
                Output::Stream { text, .. } => text.len(),
                Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                    bundle(data)
                }
                Output::Error {
                    evalue, traceback, ..
                } => evalue.len() + traceback.iter().map(String::len).sum::<usize>(),
                Output::Other(_) => LARGE,
            },
            Self::Output {
                change: OutputChange::Update { data, .. },
                ..
            } => bundle(data),
            _ => 0,
        }
    }
}
