//! What comes of a turn, as the result of a tool.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::super::resources::{cell_uri, notebook_uri, output_uri};
use super::super::state::McpServer;
use crate::app::executor::{CellResult, ProgramSession, TurnOutcome};

/// Bytes of text of a cell that is looked at for its pictures.
const TEXT: usize = 20_000;
/// Pictures of an answer.
const PICTURES: usize = 8;

/// What a run gives.
pub(super) fn of_cell(
    session: &ProgramSession,
    outcome: &TurnOutcome,
    cell: Option<&str>,
    result: CellResult,
) -> Value {
    let status = outcome.word();
    let text = session.told(outcome, result.text, cell.is_some());
    let mut content = vec![json!({ "type": "text", "text": text })];
    content.extend(images(&result.images));
    if let Some(cell) = cell {
        content.extend(result.visuals.iter().map(|file| {
            json!({
                "type": "resource_link",
                "uri": output_uri(&session.name, cell, file.index),
                "name": format!("output {} of cell {cell}", file.index),
                "mimeType": file.mime,
                "size": file.bytes,
            })
        }));
        if result.is_cut {
            content.push(json!({
                "type": "resource_link",
                "uri": cell_uri(&session.name, cell),
                "name": format!("all text of cell {cell}"),
                "mimeType": "text/plain",
            }));
        }
    }
    let mut fields = json!({
        "session": session.name,
        "cell": cell,
        "status": status,
        "execution_count": outcome.count,
        "seconds": (outcome.took().as_secs_f64() * 1000.0).round() / 1000.0,
        "error": result.error.map(|error| json!({ "name": error.name, "value": error.value })),
    });
    if !result.charts.is_empty() {
        fields["charts"] = result.charts.into();
    }
    let mut answer = json!({
        "content": content,
        "isError": status != "ok",
        "_meta": { "sponde/outcome": fields },
    });
    // Clients that read the structure show their model nothing else, so it says all, and stands for no picture.
    if result.images.is_empty() {
        let mut fields = fields;
        fields["text"] = text.into();
        answer["structuredContent"] = fields;
    }
    answer
}

/// Pictures as content.
fn images(images: &[(&'static str, Bytes)]) -> Vec<Value> {
    let encoded = |data: &Bytes| STANDARD.encode(data);
    let image = |(mime, data): &(&'static str, Bytes)| json!({ "type": "image", "data": encoded(data), "mimeType": mime });
    images.iter().map(image).collect()
}

/// The answer, and the pictures of what ran for it.
pub(super) async fn of_answer(
    server: &McpServer,
    session: &ProgramSession,
    outcome: &TurnOutcome,
    answer: &str,
) -> Value {
    let mut pictures = Vec::new();
    for cell in &outcome.cells {
        if let Some(result) = session.result(cell, TEXT, server.preparer()).await {
            pictures.extend(result.images);
        }
    }
    let late = pictures.len().saturating_sub(PICTURES);
    let problem = outcome.problem();
    let mut text = answer.trim().to_owned();
    if let Some(problem) = &problem {
        let problem = format!("error: {problem}");
        let lines = outcome.notices.iter().map(String::as_str);
        text = [text.as_str(), &problem]
            .into_iter()
            .chain(lines)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
    }
    let mut content = vec![json!({ "type": "text", "text": text })];
    content.extend(images(pictures.get(late..).unwrap_or_default()));
    content.push(json!({
        "type": "resource_link",
        "uri": notebook_uri(&session.name),
        "name": format!("notebook of session {}", session.name),
        "mimeType": "application/x-ipynb+json",
    }));
    json!({
        "content": content,
        "isError": problem.is_some(),
        "_meta": { "sponde/outcome": {
            "session": session.name,
            "cells": outcome.cells,
            "seconds": outcome.took().as_secs_f64(),
        }},
    })
}
