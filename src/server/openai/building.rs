//! Builds a response: its output items, and the events about them, numbered and in OpenAI's order.

use serde_json::{Map, Value, json};

use super::ids::random;
use super::shown::{citation, outputs_of};
use crate::agent::Totals;
use crate::app::containers::ContainerFile;
use crate::app::executor::ShownOutput;
use crate::session::CellStatus;

/// A response that is being built.
pub(super) struct Building {
    /// The constant part: the request's fields and the id.
    head: Map<String, Value>,
    container: String,
    /// Whether to include outputs of code.
    shows_outputs: bool,
    output: Vec<Item>,
    events: Vec<Value>,
    sequence: u64,
}

/// An item of the output.
enum Item {
    Words {
        id: String,
        text: String,
        annotations: Vec<Value>,
        status: &'static str,
    },
    Code {
        id: String,
        cell: String,
        code: String,
        stage: Stage,
        outputs: Vec<Value>,
    },
}

/// The stage of a code call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Written,
    Whole,
    Runs,
    Over(&'static str),
}

/// How a response ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    /// A limit was reached.
    Incomplete,
    Failed(String),
}

impl Building {
    pub(super) fn new(head: Map<String, Value>, container: &str, shows_outputs: bool) -> Self {
        Self {
            head,
            container: container.to_owned(),
            shows_outputs,
            output: Vec::new(),
            events: Vec::new(),
            sequence: 0,
        }
    }

    /// The events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// All text of the answer, without outputs of code.
    pub(super) fn text(&self) -> String {
        let words = self.output.iter().filter_map(|item| match item {
            Item::Words { text, .. } => Some(text.as_str()),
            Item::Code { .. } => None,
        });
        words.collect::<Vec<_>>().join("\n\n")
    }

    pub(super) fn begin(&mut self) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress", Value::Null, Value::Null, Value::Null);
            self.emit(kind, json!({ "response": response }));
        }
    }

    /// Adds text.
    pub(super) fn words(&mut self, delta: &str) {
        if delta.is_empty() {
            return;
        }
        let open = match self.output.last() {
            Some(Item::Words { status, .. }) => *status == "in_progress",
            _ => false,
        };
        if !open {
            self.open_words();
        }
        let index = self.output.len().saturating_sub(1);
        if let Some(Item::Words { id, text, .. }) = self.output.last_mut() {
            text.push_str(delta);
            let id = id.clone();
            self.emit(
                "response.output_text.delta",
                json!({
                    "item_id": id, "output_index": index, "content_index": 0, "delta": delta,
                    "logprobs": [],
                }),
            );
        }
    }

    fn open_words(&mut self) {
        let id = format!("msg_{}", random());
        let index = self.output.len();
        self.output.push(Item::Words {
            id: id.clone(),
            text: String::new(),
            annotations: Vec::new(),
            status: "in_progress",
        });
        let item = json!({
            "id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": [],
        });
        self.emit(
            "response.output_item.added",
            json!({ "output_index": index, "item": item }),
        );
        let part = json!({ "type": "output_text", "text": "", "annotations": [] });
        self.emit(
            "response.content_part.added",
            json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part }),
        );
    }

    /// Ends the current text as a message; it cites the files in `made`.
    fn close_words(&mut self, made: &[ContainerFile], ends_as: &'static str) {
        let index = self.output.len().saturating_sub(1);
        let Some(Item::Words {
            id,
            text,
            annotations,
            status,
        }) = self.output.last_mut()
        else {
            return;
        };
        if *status != "in_progress" {
            return;
        }
        *status = ends_as;
        annotations.extend(made.iter().map(|file| citation(file, text)));
        let (id, text, annotations) = (id.clone(), text.clone(), annotations.clone());
        for (number, annotation) in annotations.iter().enumerate() {
            self.emit(
                "response.output_text.annotation.added",
                json!({
                    "item_id": id, "output_index": index, "content_index": 0,
                    "annotation_index": number, "annotation": annotation,
                }),
            );
        }
        self.emit(
            "response.output_text.done",
            json!({
                "item_id": id, "output_index": index, "content_index": 0, "text": text,
                "logprobs": [],
            }),
        );
        let part = json!({ "type": "output_text", "text": text, "annotations": annotations });
        self.emit(
            "response.content_part.done",
            json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part }),
        );
        self.item_done(index);
    }

    /// Adds code of `cell`.
    pub(super) fn code_delta(&mut self, cell: &str, delta: &str) {
        let index = match self.code_of(cell) {
            Some(index) => index,
            None => self.open_code(cell),
        };
        if let Some(Item::Code {
            id,
            code,
            stage: Stage::Written,
            ..
        }) = self.output.get_mut(index)
        {
            code.push_str(delta);
            let id = id.clone();
            self.emit(
                "response.code_interpreter_call_code.delta",
                json!({ "item_id": id, "output_index": index, "delta": delta }),
            );
        }
    }

    fn open_code(&mut self, cell: &str) -> usize {
        self.close_words(&[], "completed");
        let id = format!("ci_{}", random());
        let index = self.output.len();
        self.output.push(Item::Code {
            id: id.clone(),
            cell: cell.to_owned(),
            code: String::new(),
            stage: Stage::Written,
            outputs: Vec::new(),
        });
        let item = json!({
            "id": id, "type": "code_interpreter_call", "status": "in_progress", "code": "",
            "container_id": self.container, "outputs": null,
        });
        self.emit(
            "response.output_item.added",
            json!({ "output_index": index, "item": item }),
        );
        self.emit(
            "response.code_interpreter_call.in_progress",
            json!({ "item_id": id, "output_index": index }),
        );
        index
    }

    /// The complete code of `cell`.
    pub(super) fn code(&mut self, cell: &str, source: &str) {
        let index = self.code_of(cell).unwrap_or_else(|| {
            self.code_delta(cell, source);
            self.output.len().saturating_sub(1)
        });
        if let Some(Item::Code {
            id, code, stage, ..
        }) = self.output.get_mut(index)
            && *stage == Stage::Written
        {
            source.clone_into(code);
            *stage = Stage::Whole;
            let id = id.clone();
            self.emit(
                "response.code_interpreter_call_code.done",
                json!({ "item_id": id, "output_index": index, "code": source }),
            );
        }
    }

    pub(super) fn code_runs(&mut self, cell: &str) {
        let Some(index) = self.code_of(cell) else {
            return;
        };
        if let Some(Item::Code { id, stage, .. }) = self.output.get_mut(index)
            && matches!(stage, Stage::Written | Stage::Whole)
        {
            *stage = Stage::Runs;
            let id = id.clone();
            self.emit(
                "response.code_interpreter_call.interpreting",
                json!({ "item_id": id, "output_index": index }),
            );
        }
    }

    pub(super) fn code_ended(&mut self, cell: &str, status: CellStatus, shown: &[ShownOutput]) {
        // Code that raised an exception ran to completion: the exception is in its logs.
        let ended = match status {
            CellStatus::Ok | CellStatus::Error => "completed",
            CellStatus::Interrupted | CellStatus::TimedOut => "incomplete",
            CellStatus::Proposed
            | CellStatus::Running
            | CellStatus::NotRun
            | CellStatus::Declined
            | CellStatus::KernelDied => "failed",
        };
        if let Some(index) = self.code_of(cell) {
            self.close_code(index, ended, outputs_of(shown));
        }
    }

    fn close_code(&mut self, index: usize, ended: &'static str, told: Vec<Value>) {
        let Some(Item::Code {
            id, stage, outputs, ..
        }) = self.output.get_mut(index)
        else {
            return;
        };
        if matches!(stage, Stage::Over(_)) {
            return;
        }
        *stage = Stage::Over(ended);
        *outputs = told;
        let id = id.clone();
        if ended == "completed" {
            self.emit(
                "response.code_interpreter_call.completed",
                json!({ "item_id": id, "output_index": index }),
            );
        }
        self.item_done(index);
    }

    /// The reply broke off: its text and code so far stay as incomplete items.
    pub(super) fn again(&mut self) {
        self.close_words(&[], "incomplete");
        for index in 0..self.output.len() {
            if let Some(Item::Code {
                stage: Stage::Written,
                ..
            }) = self.output.get(index)
            {
                self.close_code(index, "incomplete", Vec::new());
            }
        }
    }

    /// Finishes; `made` are the files that code made. Returns the whole response.
    pub(super) fn finish(&mut self, end: &End, made: &[ContainerFile], spent: Totals) -> Value {
        for index in 0..self.output.len() {
            let ended = if *end == End::Completed {
                "failed"
            } else {
                "incomplete"
            };
            self.close_code(index, ended, Vec::new());
        }
        let words_end = if *end == End::Completed {
            "completed"
        } else {
            "incomplete"
        };
        self.close_words(made, words_end);
        let usage = json!({
            "input_tokens": spent.input_tokens,
            "input_tokens_details": { "cached_tokens": spent.cached_tokens, "cache_write_tokens": 0 },
            "output_tokens": spent.output_tokens,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": spent.input_tokens + spent.output_tokens,
        });
        let (status, error, incomplete) = match end {
            End::Completed => ("completed", Value::Null, Value::Null),
            End::Incomplete => (
                "incomplete",
                Value::Null,
                json!({ "reason": "max_output_tokens" }),
            ),
            End::Failed(message) => {
                let error = json!({ "code": "server_error", "message": message });
                ("failed", error, Value::Null)
            }
        };
        let response = self.response(status, error, incomplete, usage);
        self.emit(
            &format!("response.{status}"),
            json!({ "response": response }),
        );
        response
    }

    /// Sets the model that answers.
    pub(super) fn answers(&mut self, model: &str) {
        self.head.insert("model".to_owned(), model.into());
    }

    fn response(&self, status: &str, error: Value, incomplete: Value, usage: Value) -> Value {
        let mut response = self.head.clone();
        let output: Vec<Value> = self.output.iter().map(|item| self.value(item)).collect();
        if status == "completed" {
            let now = jiff::Timestamp::now().as_second();
            response.insert("completed_at".to_owned(), now.into());
        }
        for (name, value) in [
            ("status", status.into()),
            ("error", error),
            ("incomplete_details", incomplete),
            ("output", output.into()),
            ("usage", usage),
        ] {
            response.insert(name.to_owned(), value);
        }
        Value::Object(response)
    }

    fn value(&self, item: &Item) -> Value {
        match item {
            Item::Words {
                id,
                text,
                annotations,
                status,
            } => json!({
                "id": id, "type": "message", "role": "assistant", "status": status,
                "content": [{
                    "type": "output_text", "text": text, "annotations": annotations, "logprobs": [],
                }],
            }),
            Item::Code {
                id,
                code,
                stage,
                outputs,
                ..
            } => json!({
                "id": id, "type": "code_interpreter_call",
                "status": match stage {
                    Stage::Written | Stage::Whole => "in_progress",
                    Stage::Runs => "interpreting",
                    Stage::Over(status) => *status,
                },
                "code": code,
                "container_id": self.container,
                "outputs": self.shows_outputs.then_some(outputs),
            }),
        }
    }

    fn item_done(&mut self, index: usize) {
        if let Some(item) = self.output.get(index) {
            let item = self.value(item);
            self.emit(
                "response.output_item.done",
                json!({ "output_index": index, "item": item }),
            );
        }
    }

    fn code_of(&self, of: &str) -> Option<usize> {
        let is_it = |item: &Item| matches!(item, Item::Code { cell, .. } if cell == of);
        self.output.iter().position(is_it)
    }

    fn emit(&mut self, kind: &str, mut event: Value) {
        event["type"] = kind.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.events.push(event);
    }
}
