//! `sponde sessions list`.

use std::fmt::Write as _;

use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use super::super::args::SessionListArgs;
use super::super::style::{DIM, NAME, WARN, columns, paint, stdout_colours};
use super::super::{Context, eprint, filter, human, print};
use crate::agent::sessions::{self, Found};
use crate::cli::exit::Exit;
use crate::error::Failure;
use crate::kernel::reap::{self, KeptKernel};

/// Minimum width of the question column.
const QUESTION: usize = 20;

/// Prints the sessions, as lines or as JSON.
pub(super) fn list(args: &SessionListArgs, context: &Context) -> Result<Exit, Failure> {
    let (limit, as_json) = (args.limit, args.json);
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    let shown = all.get(..limit.unwrap_or(all.len()).min(all.len()));
    let shown = shown.unwrap_or_default();
    if as_json {
        let values: Vec<Value> = shown.iter().map(|found| as_value(found, &all)).collect();
        let text = serde_json::to_string_pretty(&values).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        eprint("there is no session yet: `sponde` begins one\n");
        return Ok(Exit::Done);
    }
    let kept = reap::kept(&context.paths.sockets);
    print(&lines(shown, &all, &kept, &Zoned::now()))?;
    if shown.len() < all.len() {
        eprint(&format!("and {} more\n", all.len() - shown.len()));
    }
    Ok(Exit::Done)
}

/// A session as JSON.
pub(super) fn as_value(found: &Found, all: &[Found]) -> Value {
    let summary = &found.summary;
    let begin = found.begin.as_ref();
    json!({
        "id": found.id,
        "short": sessions::short(&found.id, all),
        "title": summary.title,
        "question": summary.question,
        "questions": summary.questions,
        "code_cells": summary.code_cells,
        "model": summary.model,
        "input_tokens": summary.usage.input,
        "output_tokens": summary.usage.output,
        "begun": begin.map(|begin| &begin.at),
        "modified": second(found.modified).to_string(),
        "directory": begin.map(|begin| &begin.cwd),
        "kernel": begin.map(|begin| &begin.kernel.name),
        "forked_from": begin.and_then(|begin| begin.forked_from.as_ref()),
        "notebook": found.notebook,
        "bytes": found.bytes,
        "open": found.open.is_some(),
        "closed": found.closed,
        "process": found.open.and_then(|holder| holder.pid),
        "kernels": summary.kernels,
    })
}

/// Drops the fraction of a second, which is of no interest.
fn second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn lines(shown: &[Found], all: &[Found], kept: &[KeptKernel], now: &Zoned) -> String {
    let colours = stdout_colours();
    let rows: Vec<[String; 5]> = shown
        .iter()
        .map(|found| {
            [
                sessions::short(&found.id, all).to_owned(),
                human::ago(found.modified, now),
                found.summary.questions.to_string(),
                human::bytes(found.bytes),
                filter::plain(found.summary.name().unwrap_or("(no question)")),
            ]
        })
        .collect();
    let heads = ["ID", "WHEN", "TURNS", "SIZE", "QUESTION"];
    let mut widths = heads.map(str::len);
    for row in &rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    let [id, when, turns, size, _] = widths;
    let left = usize::try_from(columns()).unwrap_or(80);
    let room = left
        .saturating_sub(id + when + turns + size + 8)
        .max(QUESTION);
    let mut text = paint(
        DIM,
        &format!(
            "{:id$}  {:when$}  {:>turns$}  {:>size$}  {}",
            heads[0], heads[1], heads[2], heads[3], heads[4]
        ),
        colours,
    );
    text.push('\n');
    for (found, row) in shown.iter().zip(&rows) {
        let [name, time, asked, bytes, question] = row;
        let state = state(found, kept);
        let used = state.map_or(0, |state| state.len() + 1);
        let question = human::shortened(question, room.saturating_sub(used));
        let name = paint(NAME, &format!("{name:id$}"), colours);
        let _ = write!(
            text,
            "{name}  {time:when$}  {asked:>turns$}  {bytes:>size$}  {question}"
        );
        if let Some(state) = state {
            text.push(' ');
            text.push_str(&paint(WARN, state, colours));
        }
        text.push('\n');
    }
    text
}

/// What a person should know before they resume it.
fn state(found: &Found, kept: &[KeptKernel]) -> Option<&'static str> {
    if found.open.is_some() {
        Some("[open]")
    } else if has_kept_kernel(found, kept) {
        Some("[kernel kept]")
    } else if !found.closed {
        Some("[was killed]")
    } else {
        None
    }
}

/// Whether a kernel of the session is still running: it may have ended since the session was left.
fn has_kept_kernel(found: &Found, kept: &[KeptKernel]) -> bool {
    let mut its = found.summary.kernels.iter();
    its.any(|its| {
        kept.iter()
            .any(|kernel| kernel.connection_file == its.connection_file)
    })
}
