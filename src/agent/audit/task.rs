//! The task that writes a session's audit log: a subscriber of its stream that reads at its own pace.
//!
//! Everything that waits is bounded: items wait in the session's log, and a record says if the writer fell behind;
//! records wait in memory while the disk cannot be written, and dropped ones are counted. The session learns how far
//! its items are written. A person is told of a problem once, until writing works again.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};

use super::AuditOptions;
use super::file::{AppendError, AuditFile, FoundLog};
use super::record::Record;
use super::watch::Watcher;
use crate::agent::stream::{Client, Received};
use crate::agent::tool_calls::{ToolCall, ToolCalls};
use crate::kernel::{Connection, Connections};
use crate::session::Transcript;
use crate::task::{self, Task};

/// Maximum records per write.
const BATCH: usize = 256;
/// Maximum records that wait while the disk cannot be written.
const WAITING: usize = 4096;
/// How long the end of a session waits for its last records.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How far the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::agent) struct Progress {
    /// The last item that is in it, if it was worth a line. Advances even if the log cannot be written.
    pub(in crate::agent) item: u64,
}

/// The log of a running session.
#[derive(Debug)]
pub(in crate::agent) struct Audit {
    task: Task,
}

/// What the session receives from the writer.
#[derive(Debug)]
pub(in crate::agent) struct Written {
    pub(in crate::agent) progress: watch::Receiver<Progress>,
    /// Notices for a person.
    pub(in crate::agent) notices: mpsc::Receiver<String>,
}

impl Audit {
    /// Waits until the records of an ended session are written.
    pub(in crate::agent) async fn end(self) {
        if tokio::time::timeout(END_WITHIN, self.task.join())
            .await
            .is_err()
        {
            tracing::error!("the audit log was not written to its end in time");
        }
    }
}

/// Writes the log of the session that `client` follows from its beginning, and of its code's tool `calls`.
pub(in crate::agent) fn start(
    options: AuditOptions,
    calls: Option<&ToolCalls>,
    client: Client,
    language: &str,
    transcript: &Transcript,
) -> (Audit, Written) {
    // Subscribe from now on: nothing has happened yet.
    let beside = Beside {
        connections: options.connections.as_ref().map(Connections::subscribe),
        calls: calls.map(ToolCalls::subscribe),
    };
    let (sender, progress) = watch::channel(Progress::default());
    let (notices, received) = mpsc::channel(4);
    let writer = Writer {
        watcher: Watcher::new(&options.header, language, transcript),
        options,
        state: Some(State::Unopened),
        waiting: Vec::new(),
        lost: 0,
        is_worth_it: false,
        trouble: false,
        notices,
    };
    let task = task::spawn("audit log", writer.run(client, beside, sender));
    let written = Written {
        progress,
        notices: received,
    };
    (Audit { task }, written)
}

/// Sources of records besides the session's stream.
struct Beside {
    connections: Option<broadcast::Receiver<Connection>>,
    calls: Option<broadcast::Receiver<ToolCall>>,
}

impl Beside {
    /// The next record; pending forever if nothing is being logged. Cancel-safe.
    async fn next(&mut self) -> Record {
        tokio::select! {
            record = next_of(&mut self.connections, Record::Connection) => record,
            record = next_of(&mut self.calls, Record::ToolCalled) => record,
        }
    }
}

async fn next_of<T: Clone>(
    receiver: &mut Option<broadcast::Receiver<T>>,
    record: fn(T) -> Record,
) -> Record {
    if let Some(open) = receiver {
        match open.recv().await {
            Ok(found) => return record(found),
            Err(RecvError::Lagged(records)) => return Record::Lost { records },
            Err(RecvError::Closed) => *receiver = None,
        }
    }
    std::future::pending().await
}

enum State {
    Unopened,
    Open(Box<AuditFile>),
}

struct Writer {
    options: AuditOptions,
    watcher: Watcher,
    /// `None` during a write, and after a panic in it, which is in the program's log.
    state: Option<State>,
    /// Records not written yet, with their times.
    waiting: Vec<(String, Record)>,
    /// Number of dropped records.
    lost: u64,
    /// Whether anything worth a file has happened.
    is_worth_it: bool,
    /// Whether a person was told that writing fails.
    trouble: bool,
    notices: mpsc::Sender<String>,
}

impl Writer {
    async fn run(
        mut self,
        mut client: Client,
        mut beside: Beside,
        progress: watch::Sender<Progress>,
    ) {
        let mut records = Vec::new();
        let mut is_over = false;
        while !is_over {
            let mut received = tokio::select! {
                received = client.next() => received,
                record = beside.next() => {
                    self.note(vec![record]);
                    self.write().await;
                    continue;
                }
            };
            // Write everything available in one batch.
            loop {
                match received {
                    Some(Received::Item(_) | Received::Snapshot(_)) => {}
                    None => {
                        while let Some(record) = beside.next().now_or_never() {
                            records.push(record);
                        }
                        records.push(Record::Ended);
                        is_over = true;
                        break;
                    }
                }
                if let Some(received) = &received {
                    self.watcher.take(received, &mut records);
                }
                if records.len() >= BATCH {
                    break;
                }
                match client.next().now_or_never() {
                    Some(next) => received = next,
                    None => break,
                }
            }
            let item = self.watcher.at();
            self.note(std::mem::take(&mut records));
            self.write().await;
            progress.send_replace(Progress { item });
        }
    }

    /// Queues records for writing.
    fn note(&mut self, records: Vec<Record>) {
        let now = jiff::Timestamp::now().to_string();
        self.is_worth_it |= records.iter().any(Record::is_worth_it);
        for record in records {
            if self.waiting.len() >= WAITING {
                self.lost += 1;
            } else {
                let record = record.redacted(&self.options.redactor);
                self.waiting.push((now.clone(), record));
            }
        }
    }

    async fn write(&mut self) {
        if !self.is_worth_it || self.waiting.is_empty() {
            return;
        }
        let Some(mut state) = self.state.take() else {
            return;
        };
        let mut records = std::mem::take(&mut self.waiting);
        if self.lost > 0 {
            let lost = Record::Lost { records: self.lost };
            records.push((jiff::Timestamp::now().to_string(), lost));
        }
        let options = self.options.clone();
        let written = tokio::task::spawn_blocking(move || {
            let result = state.write(&options, &mut records);
            (state, records, result)
        });
        let Ok((state, records, result)) = written.await else {
            self.say("the audit log is no longer written: its task failed");
            return;
        };
        self.state = Some(state);
        match result {
            Ok(words) => {
                self.lost = 0;
                if let Some(words) = words {
                    self.say(&words);
                }
                if std::mem::take(&mut self.trouble) {
                    self.say("the audit log is written again");
                }
            }
            Err(words) => {
                self.waiting = records;
                // The number of lost records is recorded anew.
                self.waiting
                    .retain(|(_, record)| !matches!(record, Record::Lost { .. }));
                if !std::mem::replace(&mut self.trouble, true) {
                    self.say(&words);
                }
            }
        }
    }

    fn say(&self, words: &str) {
        tracing::warn!(words, "audit log");
        // A session that does not listen has ended, or has enough notices queued.
        let _ = self.notices.try_send(words.to_owned());
    }
}

impl State {
    /// Writes `records` and removes the written ones. Returns a notice for a person. Blocks.
    fn write(
        &mut self,
        options: &AuditOptions,
        records: &mut Vec<(String, Record)>,
    ) -> Result<Option<String>, String> {
        let mut words = None;
        if matches!(self, Self::Unopened) {
            let path = options.files.log.display();
            let (mut file, found) = AuditFile::open(options.files.clone())
                .map_err(|error| failed(&format!("could not open `{path}`: {error}")))?;
            words = found.notes.iter().find_map(|note| match note {
                Record::Broken { line, what } => Some(format!(
                    "the audit log `{path}` was changed since it was written (line {line}: {what}); it goes on, and \
                     `sponde audit verify` will keep saying so"
                )),
                _ => None,
            });
            let time = records.first().map(|(time, _)| time.clone());
            let time = time.unwrap_or_default();
            let first = beginning(options, found);
            let first: Vec<(String, Record)> =
                first.into_iter().map(|it| (time.clone(), it)).collect();
            match file.append(&first, true) {
                Ok(()) | Err(AppendError::Head { .. }) => *self = Self::Open(Box::new(file)),
                Err(error @ AppendError::Log { .. }) => return Err(failed(&error.to_string())),
            }
        }
        let Self::Open(file) = self else {
            return Ok(words);
        };
        let sync = records.iter().any(|(_, record)| record.wants_disk());
        match file.append(records, sync) {
            Ok(()) => {
                records.clear();
                Ok(words)
            }
            Err(error @ AppendError::Head { .. }) => {
                records.clear();
                Err(failed(&error.to_string()))
            }
            Err(error @ AppendError::Log { .. }) => Err(failed(&error.to_string())),
        }
    }
}

/// The records written each time a log is opened.
fn beginning(options: &AuditOptions, found: FoundLog) -> Vec<Record> {
    let header = options.header.clone();
    let mut records = found.notes;
    records.push(if found.is_old {
        Record::Resumed(header)
    } else {
        Record::Begun(header)
    });
    records
}

fn failed(what: &str) -> String {
    format!(
        "the audit log is not complete: {what}; the session continues and retries with each record"
    )
}
