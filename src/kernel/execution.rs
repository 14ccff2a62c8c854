//! One running request as a stream of events that ends with exactly one [`ExecutionEvent::Finished`].
//!
//! Memory is bounded by bytes, not by messages: every event carries the permit that its bytes took in the
//! link, and gives it back when the next one is asked for. A slow reader therefore stops the socket, and a
//! fast kernel never fills our memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::comm::Comm;
use super::host::ExitReason;
use crate::jupyter::content::{Content, ErrorContent, InputRequest, Stream};
use crate::jupyter::mime::MimeBundle;

/// Where the events of an execution go. Unbounded, because each event holds a permit for its bytes.
pub(super) type Events = mpsc::UnboundedSender<(ExecutionEvent, Option<OwnedSemaphorePermit>)>;

/// A running execution.
#[derive(Debug)]
pub struct Execution {
    /// The `msg_id` of its execute_request.
    pub id: String,
    events: mpsc::UnboundedReceiver<(ExecutionEvent, Option<OwnedSemaphorePermit>)>,
    held: Option<OwnedSemaphorePermit>,
    finished: bool,
}

/// What happens to an execution, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionEvent {
    /// The kernel took the code; `count` is its `In [n]` number. Only if [`super::ExecuteOptions::tell_start`].
    Started {
        /// The number, if the kernel counts.
        count: Option<i64>,
    },
    /// Something to show.
    Output(OutputEvent),
    /// Something about a widget.
    Comm(Comm),
    /// The code waits for a line; answer with [`super::Kernel::reply`].
    InputRequested(InputRequest),
    /// The limit passed or an interrupt was sent and the code still runs.
    StillRunning {
        /// How many interrupts were sent so far.
        interrupts: u32,
    },
    /// The end. Always last.
    Finished(Outcome),
}

/// A change to a cell's outputs, as the kernel sent it. `session::outputs` folds these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputEvent {
    /// Text.
    Stream(Stream),
    /// Rich output.
    Display {
        /// The representations.
        data: MimeBundle,
        /// Metadata for each of them.
        metadata: Map<String, Value>,
        /// Its name for updates.
        display_id: Option<String>,
    },
    /// New data for every display of that name.
    Update {
        /// The representations.
        data: MimeBundle,
        /// Metadata for each of them.
        metadata: Map<String, Value>,
        /// Which displays.
        display_id: String,
    },
    /// The value of the last expression.
    Result {
        /// The representations.
        data: MimeBundle,
        /// Metadata for each of them.
        metadata: Map<String, Value>,
        /// The `Out [n]` number.
        count: Option<i64>,
        /// Its name for updates.
        display_id: Option<String>,
    },
    /// An exception.
    Error(ErrorContent),
    /// Clear what is there, now or when the next output comes.
    Clear {
        /// Wait for the next output.
        wait: bool,
    },
    /// What we say of the outputs ourselves: of one that was too large for us or got lost on the way, or of what the
    /// sandbox refused.
    Lost(String),
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The `In [n]` number.
    pub count: Option<i64>,
}

/// The verdict on an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It ran to its end.
    Ok,
    /// It raised; the error is among the outputs.
    Error {
        /// Exception name.
        ename: String,
        /// Exception text.
        evalue: String,
    },
    /// It was stopped on request.
    Interrupted,
    /// It was stopped because its time was up.
    TimedOut,
    /// It was never run, because one before it failed.
    Aborted,
    /// The kernel is gone, and all variables with it.
    KernelDied(ExitReason),
}

impl Execution {
    /// The kernel's task ended without saying how the execution ended.
    const LOST: Outcome = Outcome {
        verdict: Verdict::KernelDied(ExitReason::Unknown),
        count: None,
    };

    /// An execution that has not been sent yet, and the sender of its events.
    pub(super) fn new(id: String) -> (Self, Events) {
        let (sender, events) = mpsc::unbounded_channel();
        let execution = Self {
            id,
            events,
            held: None,
            finished: false,
        };
        (execution, sender)
    }

    /// The next event; `None` after [`ExecutionEvent::Finished`].
    pub async fn next(&mut self) -> Option<ExecutionEvent> {
        self.held = None;
        if self.finished {
            return None;
        }
        if let Some((event, permit)) = self.events.recv().await {
            self.held = permit;
            self.finished = matches!(event, ExecutionEvent::Finished(_));
            return Some(event);
        }
        // The actor ended without a `Finished` event: it panicked, or the runtime is shutting down.
        self.finished = true;
        Some(ExecutionEvent::Finished(Self::LOST))
    }

    /// Runs to the end and ignores all other events.
    pub async fn outcome(mut self) -> Outcome {
        loop {
            match self.next().await {
                Some(ExecutionEvent::Finished(outcome)) => return outcome,
                Some(_) => {}
                None => return Self::LOST,
            }
        }
    }

    /// Runs to the end and returns all outputs. For code whose outputs are known to be small.
    pub async fn collect(mut self) -> (Vec<OutputEvent>, Outcome) {
        let mut outputs = Vec::new();
        loop {
            match self.next().await {
                Some(ExecutionEvent::Output(output)) => outputs.push(output),
                Some(ExecutionEvent::Finished(outcome)) => return (outputs, outcome),
                Some(
                    ExecutionEvent::Started { .. }
                    | ExecutionEvent::Comm(_)
                    | ExecutionEvent::InputRequested(_)
                    | ExecutionEvent::StillRunning { .. },
                ) => {}
                None => return (outputs, Self::LOST),
            }
        }
    }
}

impl OutputEvent {
    /// Strips terminal colours from `text/plain`, where notebooks have none.
    pub(super) fn strip_plain(&mut self) {
        let (Self::Display { data, .. } | Self::Update { data, .. } | Self::Result { data, .. }) =
            self
        else {
            return;
        };
        let plain = data
            .text_of("text/plain")
            .filter(|text| text.contains('\u{1b}'))
            .map(|text| crate::ansi::strip(&text));
        if let Some(plain) = plain {
            data.insert("text/plain", plain);
        }
    }

    /// Whether an iopub message is an output.
    pub(super) fn is_output(content: &Content) -> bool {
        matches!(
            content,
            Content::Stream(_)
                | Content::DisplayData(_)
                | Content::UpdateDisplayData(_)
                | Content::ExecuteResult(_)
                | Content::Error(_)
                | Content::ClearOutput { .. }
        )
    }

    /// The output in an iopub message, if it is one.
    pub(super) fn from_content(content: Content) -> Option<Self> {
        Some(match content {
            Content::Stream(stream) => Self::Stream(stream),
            Content::DisplayData(display) => Self::Display {
                data: display.data,
                metadata: display.metadata,
                display_id: display.transient.display_id,
            },
            Content::UpdateDisplayData(display) => Self::Update {
                data: display.data,
                metadata: display.metadata,
                display_id: display.transient.display_id.unwrap_or_default(),
            },
            Content::ExecuteResult(display) => Self::Result {
                data: display.data,
                metadata: display.metadata,
                count: display.execution_count,
                display_id: display.transient.display_id,
            },
            Content::Error(error) => Self::Error(error),
            Content::ClearOutput { wait } => Self::Clear { wait },
            _ => return None,
        })
    }
}

/// An exception's traceback as one text, without colours.
pub fn plain_traceback(error: &ErrorContent) -> String {
    crate::ansi::strip(&error.traceback.join("\n"))
}

/// All text printed on stdout, concatenated.
pub(crate) fn stdout_of(outputs: Vec<OutputEvent>) -> String {
    outputs
        .into_iter()
        .filter_map(|output| match output {
            OutputEvent::Stream(stream) if stream.name == "stdout" => Some(stream.text),
            _ => None,
        })
        .collect()
}
