//! Tables in a Python kernel, viewed one window at a time: pandas, polars, arrays.
//!
//! The kernel slices, sorts and filters, so that a frame of any size costs only as much as its window. The code sent to
//! it leaves nothing behind and has no timeout: a slow request is never interrupted, because ignoring the interrupt
//! would end in the loss of the kernel. The caller makes sure that no cell runs.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use super::execution::{Execution, ExecutionEvent, OutputEvent};
use super::{ExecuteOptions, Kernel, KernelError};

const CODE: &str = include_str!("frames.py");
/// Most bytes of one line of an answer.
const LONGEST: usize = 64 << 20;

/// A request about a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FrameRequest {
    /// The variable.
    pub name: String,
    /// Only rows that contain this text, ignoring case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The column to sort by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// Largest first.
    pub descending: bool,
    /// The part of the table.
    #[serde(flatten)]
    pub what: FramePart,
}

/// The part of a table that is requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FramePart {
    /// Some rows: answered by one line with `columns`, `rows`, `total`, `offset`.
    Window {
        /// The first row.
        offset: u64,
        /// How many rows.
        limit: u64,
    },
    /// One column: answered by one line with `profile`.
    Profile {
        /// Its name.
        column: String,
    },
    /// The whole table as a file: answered by `size`, the bytes, `end`.
    Export {
        /// `csv`, `parquet` or `xlsx`.
        format: &'static str,
    },
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum FramePiece {
    /// JSON fields; `refused`, `message` and `hint` if it cannot be done.
    Fields(Value),
    /// Bytes of a file.
    Bytes(Vec<u8>),
}

/// A streaming answer.
#[derive(Debug)]
pub struct FrameAnswer {
    execution: Execution,
    nonce: String,
    /// The incomplete last line.
    line: String,
    pieces: VecDeque<FramePiece>,
}

impl Kernel {
    /// Sends a request about a table.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`] if the kernel is not IPython; otherwise that the kernel is gone.
    pub async fn frame(&self, request: &FrameRequest) -> Result<FrameAnswer, KernelError> {
        let info = self.info().await?;
        if info.implementation != "ipython" {
            return Err(KernelError::Unsupported {
                kernel: info.implementation,
                what: "show its tables",
            });
        }
        // Tells the answer from what other threads print.
        let nonce = format!("{} ", uuid::Uuid::new_v4().simple());
        let mut fields = serde_json::json!(request);
        fields["nonce"] = Value::from(nonce.as_str());
        let code = CODE.replace("@REQUEST@", &STANDARD.encode(fields.to_string()));
        let options = ExecuteOptions {
            timeout: None,
            ..ExecuteOptions::aside(code, std::time::Duration::ZERO)
        };
        Ok(FrameAnswer {
            execution: self.execute(options).await?,
            nonce,
            line: String::new(),
            pieces: VecDeque::new(),
        })
    }
}

impl FrameAnswer {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<FramePiece> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(piece);
            }
            match self.execution.next().await? {
                ExecutionEvent::Output(OutputEvent::Stream(stream)) if stream.name == "stdout" => {
                    self.take(&stream.text);
                }
                ExecutionEvent::Finished(_) => return None,
                ExecutionEvent::Started { .. }
                | ExecutionEvent::Output(_)
                | ExecutionEvent::Comm(_)
                | ExecutionEvent::InputRequested(_)
                | ExecutionEvent::StillRunning { .. } => {}
            }
        }
    }

    fn take(&mut self, text: &str) {
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            self.line.push_str(line);
            let line = std::mem::take(&mut self.line);
            // Other output may precede it on the line.
            let answer = line.find(&self.nonce);
            let answer = answer.and_then(|at| line.get(at + self.nonce.len()..));
            self.pieces.extend(answer.and_then(piece));
            rest = after;
        }
        if self.line.len() + rest.len() <= LONGEST {
            self.line.push_str(rest);
        }
    }
}

fn piece(line: &str) -> Option<FramePiece> {
    if line.starts_with('{') {
        return serde_json::from_str(line).ok().map(FramePiece::Fields);
    }
    STANDARD.decode(line).ok().map(FramePiece::Bytes)
}
