//! Outputs and files in OpenAI's format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::app::containers::ContainerFile;
use crate::app::executor::ShownOutput;

/// Maximum bytes of a cell's printed text.
const LOGS: usize = 256 << 10;

/// The position in `text`, in characters, that mentions a file; the end if none does.
pub(super) fn citation(file: &ContainerFile, text: &str) -> Value {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let length = text.chars().count();
    let (start, end) = text.find(name).map_or((length, length), |at| {
        let start = text.get(..at).map_or(0, |before| before.chars().count());
        (start, start + name.chars().count())
    });
    json!({
        "type": "container_file_citation",
        "container_id": file.container,
        "file_id": file.id,
        "filename": name,
        "start_index": start,
        "end_index": end,
    })
}

/// Outputs in OpenAI's format: text as logs, pictures as data URLs.
pub(super) fn outputs_of(shown: &[ShownOutput]) -> Vec<Value> {
    let mut outputs = Vec::new();
    let mut logs = String::new();
    let flush = |logs: &mut String, outputs: &mut Vec<Value>| {
        if !logs.is_empty() {
            outputs.push(json!({ "type": "logs", "logs": std::mem::take(logs) }));
        }
    };
    for output in shown {
        match output {
            ShownOutput::Stdout(text) | ShownOutput::Stderr(text) => logs.push_str(text),
            ShownOutput::Value(text) | ShownOutput::Error(text) => {
                if !logs.is_empty() && !logs.ends_with('\n') {
                    logs.push('\n');
                }
                logs.push_str(text);
            }
            ShownOutput::Picture(mime, picture) => {
                flush(&mut logs, &mut outputs);
                let url = format!("data:{mime};base64,{}", STANDARD.encode(picture));
                outputs.push(json!({ "type": "image", "url": url }));
            }
        }
        if logs.len() > LOGS {
            let end = logs.floor_char_boundary(LOGS);
            logs.truncate(end);
            logs.push_str("\n[cut: the notebook has all of it]");
            break;
        }
    }
    flush(&mut logs, &mut outputs);
    outputs
}
