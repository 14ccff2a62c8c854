//! Sends a resumed session's earlier cells to the client, in order and in their final state.

use std::path::Path;

use serde_json::{Value, json};

use super::tool_call::{self, ShownCell, text_block};
use super::updates;
use crate::session::transcript::Author;
use crate::session::{CellKind, CodeStatus, Transcript, sql};

/// Maximum bytes of pictures, in base64; older ones are sent as links.
const PICTURES: usize = 48 << 20;

/// The updates for `transcript`, oldest first.
pub(super) fn whole(
    transcript: &Transcript,
    main: &str,
    notebook: &Path,
    workspace: &Path,
) -> Vec<Value> {
    let mut left = PICTURES;
    // The latest pictures are the most relevant ones.
    let newest_first = transcript.cells().iter().rev();
    let mut all: Vec<Value> = newest_first
        .filter_map(|cell| {
            Some(match &cell.kind {
                CellKind::User => updates::asked(&cell.id, &cell.source),
                CellKind::Assistant { .. } | CellKind::Cut => updates::said(&cell.id, &cell.source),
                CellKind::Note | CellKind::Compaction(_) => return None,
                CellKind::Reading(reading) => updates::tool_call(json!({
                    "toolCallId": cell.id,
                    "title": "Read more of an output",
                    "kind": "read",
                    "status": if reading.is_error { "failed" } else { "completed" },
                    "content": [tool_call::block(&text_block(&tool_call::fenced("", &reading.answer)))],
                })),
                CellKind::Code(code) => {
                    let is_broken = matches!(&code.author, Author::Model { broken: Some(_), .. });
                    if is_broken || sql::is_setup(&cell.source) {
                        return None;
                    }
                    let shown = ShownCell::of(cell, main)?;
                    let mut fields = shown.fields(notebook, workspace, &mut left);
                    if matches!(code.status, CodeStatus::Proposed | CodeStatus::Running) {
                        // Nothing is running in a session that was just opened.
                        fields["status"] = "failed".into();
                    }
                    updates::tool_call(fields)
                }
            })
        })
        .collect();
    all.reverse();
    all
}
