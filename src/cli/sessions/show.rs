//! `sponde sessions show` and `search`: show the content of a session as text.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::style::{DIM, HINT, NAME, WARN, paint, stdout_colours};
use super::super::{Context, eprint, filter, human, print};
use crate::agent::sessions::{self, Found};
use crate::app::kept;
use crate::cli::exit::Exit;
use crate::error::Failure;
use crate::jupyter::mime::Audience;
use crate::jupyter::nbformat::{Cell, Notebook, Output};

/// How many lines of a cell's output are shown.
const LINES: usize = 20;
/// How many matches per session are shown.
const HITS: usize = 3;

/// Prints one session.
pub(super) fn show(
    wanted: Option<&str>,
    as_json: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let all = sessions::list(&context.paths.sessions());
    let found = kept::find(&all, wanted)?;
    let notebook = kept::read(found, context)?;
    if as_json {
        let mut value = super::list::as_value(found, &all);
        let cells: Vec<Value> = notebook.cells.iter().map(as_value).collect();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("cells".to_owned(), cells.into());
        }
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    let colours = stdout_colours();
    let mut text = String::new();
    let name = found.summary.name().unwrap_or("(no question)");
    text.push_str(&paint(NAME, &filter::plain(name), colours));
    text.push('\n');
    let model = found.summary.model.as_deref().unwrap_or("no model");
    let head = format!(
        "{}, {model}, {} in {}\n",
        found.id,
        human::bytes(found.bytes),
        found.notebook.display()
    );
    text.push_str(&paint(DIM, &filter::plain(&head), colours));
    for (at, cell) in notebook.cells.iter().enumerate() {
        text.push_str(&cell_text(at + 1, cell, colours));
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// Prints the sessions that contain all words, with the matches.
pub(super) fn search(words: &[String], as_json: bool, context: &Context) -> Result<Exit, Failure> {
    let all = sessions::list(&context.paths.sessions());
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let colours = stdout_colours();
    let mut values = Vec::new();
    let mut any = false;
    for found in &all {
        // An unreadable session does not end the search.
        let Ok(notebook) = kept::read(found, context) else {
            continue;
        };
        let hits = hits(found, &notebook, &words);
        if hits.is_empty() {
            continue;
        }
        any = true;
        if as_json {
            let mut value = super::list::as_value(found, &all);
            let places: Vec<Value> = hits
                .iter()
                .map(|(cell, line)| json!({ "cell": cell, "line": line }))
                .collect();
            if let Some(fields) = value.as_object_mut() {
                fields.insert("hits".to_owned(), places.into());
            }
            values.push(value);
            continue;
        }
        let short = sessions::short(&found.id, &all);
        let name = human::shortened(found.summary.name().unwrap_or("(no question)"), 70);
        let mut text = format!(
            "{}  {}\n",
            paint(NAME, short, colours),
            filter::plain(&name)
        );
        for (cell, line) in hits.iter().take(HITS) {
            let number = if *cell == 0 {
                "title".to_owned()
            } else {
                format!("[{cell}]")
            };
            let line = human::shortened(line.trim(), 90);
            let _ = writeln!(
                text,
                "  {} {}",
                paint(DIM, &number, colours),
                filter::plain(&line)
            );
        }
        if let more @ 1.. = hits.len().saturating_sub(HITS) {
            text.push_str(&paint(DIM, &format!("  and {more} more\n"), colours));
        }
        print(&text)?;
    }
    if as_json {
        let text = serde_json::to_string_pretty(&values).unwrap_or_default();
        print(&format!("{text}\n"))?;
    } else if !any {
        let all = words.join("`, `");
        eprint(&filter::plain(&format!("no session has `{all}` in it\n")));
    }
    Ok(if any { Exit::Done } else { Exit::Failed })
}

/// If the session contains all words, the lines with the first word, by cell number; 0 is the title.
fn hits(found: &Found, notebook: &Notebook, words: &[String]) -> Vec<(usize, String)> {
    let mut missing: Vec<&String> = words.iter().collect();
    let mut hits = Vec::new();
    let title = found.summary.title.clone().unwrap_or_default();
    let texts = std::iter::once((0, title)).chain(
        notebook
            .cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| is_said(cell))
            .map(|(at, cell)| (at + 1, all_text(cell))),
    );
    for (number, text) in texts {
        let lower = text.to_lowercase();
        missing.retain(|word| !lower.contains(*word));
        for line in text.lines() {
            let lower = line.to_lowercase();
            if words.iter().any(|word| lower.contains(word)) {
                hits.push((number, line.to_owned()));
            }
        }
    }
    if missing.is_empty() { hits } else { Vec::new() }
}

/// Whether a person or the model said it: nobody searches for text that only the model is told.
fn is_said(cell: &Cell) -> bool {
    cell.kind.as_str() == "code" || !matches!(ours(cell, "role"), "note" | "reading" | "compaction")
}

/// Source and printed text.
fn all_text(cell: &Cell) -> String {
    let mut text = cell.source.clone();
    for output in cell.outputs() {
        text.push('\n');
        match output {
            Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                text.push_str(&data.text_of("text/plain").unwrap_or_default());
            }
            Output::Stream { .. } | Output::Error { .. } | Output::Other(_) => {
                text.push_str(&output_text(output));
            }
        }
    }
    text
}

fn output_text(output: &Output) -> String {
    match output {
        Output::Stream { text, .. } => text.clone(),
        Output::Error { ename, evalue, .. } => format!("{ename}: {evalue}"),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => data
            .text_of("text/plain")
            .map(std::borrow::Cow::into_owned)
            .or_else(|| {
                data.richest_for(Audience::Terminal)
                    .map(|(mime, _)| format!("[{mime}]"))
            })
            .unwrap_or_default(),
        Output::Other(_) => String::new(),
    }
}

fn ours<'a>(cell: &'a Cell, key: &str) -> &'a str {
    let ours = cell.metadata.get("sponde");
    let text = ours.and_then(|ours| ours.get(key)?.as_str());
    text.unwrap_or_default()
}

fn as_value(cell: &Cell) -> Value {
    let outputs: Vec<Value> = cell.outputs().iter().map(Output::to_value).collect();
    json!({
        "id": cell.id,
        "type": cell.kind.as_str(),
        "role": ours(cell, "role"),
        "status": ours(cell, "status"),
        "source": cell.source,
        "outputs": outputs,
    })
}

fn cell_text(number: usize, cell: &Cell, colours: bool) -> String {
    let is_code = cell.kind.as_str() == "code";
    let who = match ours(cell, "role") {
        "user" => "you",
        "assistant" => "model",
        "note" => "note",
        other => other,
    };
    let status = ours(cell, "status");
    let style = if who == "you" { HINT } else { DIM };
    let mut head = format!("[{number}] {who}");
    if is_code && !status.is_empty() && status != "ok" {
        let _ = write!(head, " ({status})");
    }
    let mut text = format!("\n{}\n", paint(style, &filter::plain(&head), colours));
    let source = filter::plain(cell.source.trim_end());
    // Text for the model only can be looked up, but is not shown here.
    if who == "note" {
        let lines = source.lines().count();
        text.push_str(&paint(
            DIM,
            &format!("({lines} lines to the model)\n"),
            colours,
        ));
        return text;
    }
    for line in source.lines() {
        text.push_str(if is_code { "    " } else { "" });
        text.push_str(line);
        text.push('\n');
    }
    for output in cell.outputs() {
        let shown = filter::plain(output_text(output).trim_end());
        let style = if matches!(output, Output::Error { .. }) {
            WARN
        } else {
            DIM
        };
        let mut lines = shown.lines();
        for line in lines.by_ref().take(LINES) {
            text.push_str(&paint(style, &format!("  | {line}"), colours));
            text.push('\n');
        }
        if let more @ 1.. = lines.count() {
            text.push_str(&paint(DIM, &format!("  | … {more} more lines"), colours));
            text.push('\n');
        }
    }
    text
}
