//! The state of widgets (ipywidgets), so that an executed notebook shows them without a kernel: kept as received, and
//! written as `metadata.widgets` (the schema of @jupyter-widgets, version 2), as nbclient does.
//!
//! An `Output` widget captures its cell's output while it is entered; front ends implement that, so we do. Bounded:
//! widget state beyond a limit is dropped.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::limits::Whole;
use super::{OutputLimits, Outputs};
use crate::jupyter::nbformat::Output;
use crate::kernel::{Comm, CommKind, OutputEvent};

/// Maximum bytes of messages, and maximum number of widgets.
const BYTES: usize = 128 << 20;
const WIDGETS: usize = 10_000;

const TARGET: &str = "jupyter.widget";
const STATE: &str = "application/vnd.jupyter.widget-state+json";

/// All widgets of a notebook.
#[derive(Debug, Default)]
pub struct Widgets {
    models: BTreeMap<String, Model>,
    /// `Output` widgets that capture an execution's output, the innermost last: (execution, widget).
    entered: Vec<(String, String)>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Model {
    state: Map<String, Value>,
    /// Binary values by path.
    buffers: BTreeMap<String, Value>,
    /// What an `Output` widget has captured.
    outputs: Option<Outputs>,
    /// Has state that the kernel has not been sent.
    is_new: bool,
}

/// A widget's state to send to the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct WidgetState {
    /// The comm.
    pub comm: String,
    /// The message's data.
    pub data: Value,
}

impl Widgets {
    /// Handles a comm message from the kernel.
    pub fn comm(&mut self, comm: Comm) {
        let size = comm.buffers.iter().map(bytes::Bytes::len).sum::<usize>()
            + comm
                .data
                .iter()
                .map(|(key, value)| key.len() + weight(value))
                .sum::<usize>();
        self.bytes = self.bytes.saturating_add(size);
        let opens = matches!(&comm.kind, CommKind::Open { target } if target == TARGET);
        if self.bytes > BYTES || (opens && self.models.len() >= WIDGETS) {
            return;
        }
        if opens {
            self.models.insert(comm.id.clone(), Model::default());
        }
        let Some(model) = self.models.get_mut(&comm.id) else {
            return;
        };
        let mut data = comm.data;
        let Some(Value::Object(state)) = data.remove("state") else {
            return;
        };
        let paths = data.remove("buffer_paths");
        for (path, buffer) in paths
            .iter()
            .filter_map(Value::as_array)
            .flatten()
            .zip(&comm.buffers)
        {
            let value =
                json!({"data": STANDARD.encode(buffer), "encoding": "base64", "path": path});
            model.buffers.insert(path.to_string(), value);
        }
        let is_output = |state: &Map<String, Value>| {
            state
                .get("_model_name")
                .is_some_and(|name| name == "OutputModel")
        };
        if opens && is_output(&state) {
            model.outputs = Some(Outputs::default());
        }
        if model.outputs.is_some()
            && let Some(execution) = state.get("msg_id").and_then(Value::as_str)
        {
            if execution.is_empty() {
                if let Some(at) = self
                    .entered
                    .iter()
                    .rposition(|(_, widget)| *widget == comm.id)
                {
                    self.entered.remove(at);
                }
            } else if self.entered.len() < WIDGETS {
                self.entered.push((execution.to_owned(), comm.id.clone()));
            }
        }
        model.state.extend(state);
    }

    /// Whether a widget captures the output of `execution`; if so it has taken `output`.
    pub fn take(&mut self, execution: &str, output: &OutputEvent) -> bool {
        let mut entered = self.entered.iter().rev();
        let widget = entered.find(|(entered, _)| entered == execution);
        let Some(model) = widget.and_then(|(_, widget)| self.models.get_mut(widget)) else {
            return false;
        };
        let Some(outputs) = &mut model.outputs else {
            return false;
        };
        outputs.apply(output);
        let limits = OutputLimits::default().of_cell(0);
        if outputs.is_over(&limits) {
            outputs.cut(&limits, Whole::Nowhere(None));
        }
        model.is_new = true;
        true
    }

    /// What to send to the kernel now: the outputs that widgets captured. A kernel does not read messages while it runs
    /// a cell, so call this at the end of one.
    pub fn told(&mut self) -> Vec<WidgetState> {
        let mut all = Vec::new();
        for (id, model) in &mut self.models {
            let Some(outputs) = model.outputs.as_ref().filter(|_| model.is_new) else {
                continue;
            };
            model.is_new = false;
            let outputs = outputs.to_notebook();
            let shown: Value = outputs.iter().map(Output::to_value).collect();
            model.state.insert("outputs".to_owned(), shown.clone());
            all.push(WidgetState {
                comm: id.clone(),
                data: json!({"method": "update", "state": {"outputs": shown}, "buffer_paths": []}),
            });
        }
        all
    }

    /// The state as a notebook's `metadata.widgets`; `None` if there are no widgets.
    pub fn metadata(self) -> Option<Value> {
        if self.models.is_empty() {
            return None;
        }
        let models: Map<String, Value> = self
            .models
            .into_iter()
            .map(|(id, model)| {
                let field = |name: &str| model.state.get(name).cloned().unwrap_or_default();
                let mut entry = json!({
                    "model_name": field("_model_name"),
                    "model_module": field("_model_module"),
                    "model_module_version": field("_model_module_version"),
                });
                if let Value::Object(entry) = &mut entry {
                    entry.insert("state".to_owned(), Value::Object(model.state));
                    if !model.buffers.is_empty() {
                        let buffers = model.buffers.into_values().collect();
                        entry.insert("buffers".to_owned(), buffers);
                    }
                }
                (id, entry)
            })
            .collect();
        Some(json!({ STATE: {"state": models, "version_major": 2, "version_minor": 0} }))
    }
}

/// Approximate bytes of a value.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 24,
        Value::Array(values) => 24 + values.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => {
            24 + fields
                .iter()
                .map(|(key, value)| key.len() + 24 + weight(value))
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::content::Stream;

    fn comm(id: &str, kind: CommKind, data: Value) -> Comm {
        let Value::Object(data) = data else {
            panic!("no object");
        };
        Comm {
            id: id.to_owned(),
            kind,
            data,
            buffers: vec![bytes::Bytes::from_static(b"abc")],
        }
    }

    fn open() -> CommKind {
        CommKind::Open {
            target: TARGET.to_owned(),
        }
    }

    fn stdout(text: &str) -> OutputEvent {
        OutputEvent::Stream(Stream {
            name: "stdout".to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn state_is_kept_and_outputs_are_taken_over() {
        let mut widgets = Widgets::default();
        let label =
            json!({"state": {"_model_name": "LabelModel", "_model_module": "m", "value": "a"}});
        widgets.comm(comm("a", open(), label));
        let update = json!({"method": "update", "state": {"value": "b", "raw": null}, "buffer_paths": [["raw"]]});
        widgets.comm(comm("a", CommKind::Message, update));
        widgets.comm(comm(
            "none",
            CommKind::Message,
            json!({"state": {"value": "x"}}),
        ));
        let output = json!({"state": {"_model_name": "OutputModel", "outputs": [], "msg_id": ""}});
        widgets.comm(comm("o", open(), output));
        assert!(!widgets.take("e1", &stdout("before\n")));
        let enter = |id: &str| comm("o", CommKind::Message, json!({"state": {"msg_id": id}}));
        widgets.comm(enter("e1"));
        assert!(widgets.take("e1", &stdout("in")));
        assert!(widgets.take("e1", &stdout("side\n")));
        assert!(!widgets.take("e2", &stdout("another cell\n")));
        let taken = json!([{"output_type": "stream", "name": "stdout", "text": "inside\n"}]);
        let told = WidgetState {
            comm: "o".to_owned(),
            data: json!({"method": "update", "state": {"outputs": taken}, "buffer_paths": []}),
        };
        assert_eq!(widgets.told(), [told]);
        assert_eq!(widgets.told(), []);
        widgets.comm(enter(""));
        assert!(!widgets.take("e1", &stdout("after\n")));
        assert_eq!(
            widgets.metadata(),
            Some(json!({STATE: {
                "state": {
                    "a": {
                        "model_name": "LabelModel", "model_module": "m", "model_module_version": null,
                        "state": {"_model_name": "LabelModel", "_model_module": "m", "value": "b", "raw": null},
                        "buffers": [{"data": "YWJj", "encoding": "base64", "path": ["raw"]}],
                    },
                    "o": {
                        "model_name": "OutputModel", "model_module": null, "model_module_version": null,
                        "state": {"_model_name": "OutputModel", "outputs": taken, "msg_id": ""},
                    },
                },
                "version_major": 2, "version_minor": 0,
            }}))
        );
        assert_eq!(Widgets::default().metadata(), None);
    }
}
