//! The last turns of a session that comes back, as they were shown when they were new.

use crate::agent::{EventKind, OutputChange};
use crate::cli::render::Renderer;
use crate::cli::style::{DIM, HINT, paint, stderr_colours};
use crate::cli::{eprint, filter, human};
use crate::session::transcript::Author;
use crate::session::{Cell, CellKind, CellStatus, Transcript};

/// Turns that are shown.
const TURNS: usize = 2;
/// Cells of them.
const CELLS: usize = 12;

/// Shows them.
pub(super) fn show(transcript: &Transcript) {
    let cells = transcript.cells();
    let mut begins = (0..cells.len()).rev().filter(|&at| {
        let cell = cells.get(at);
        cell.is_some_and(|cell| cell.kind == CellKind::User)
    });
    let Some(begin) = begins.by_ref().take(TURNS).last() else {
        return;
    };
    let shown = cells.get(begin..).unwrap_or_default();
    let hidden = begin + shown.len().saturating_sub(CELLS);
    let colours = stderr_colours();
    let before = cells.get(..hidden).unwrap_or_default().iter();
    let before = before
        .filter(|cell| !matches!(cell.kind, CellKind::Note))
        .count();
    if before > 0 {
        let words = format!("(… {} before)\n", human::count(before, "cell"));
        eprint(&paint(DIM, &words, colours));
    }
    let mut renderer = Renderer::new(true);
    let main = transcript.kernel().map(|kernel| kernel.language.clone());
    renderer.speaks(main.as_deref().unwrap_or_default());
    for (at, cell) in cells.iter().enumerate().skip(hidden) {
        renderer.numbered(Some(at + 1));
        show_cell(cell, main.as_deref(), &mut renderer);
    }
    renderer.end_line();
}

fn show_cell(cell: &Cell, main: Option<&str>, renderer: &mut Renderer) {
    let id = cell.id.clone();
    let events = match &cell.kind {
        CellKind::User => {
            renderer.end_line();
            let mark = paint(HINT, ">", stderr_colours());
            let question = filter::plain(cell.source.trim());
            eprint(&format!("\n{mark} {question}\n"));
            return;
        }
        CellKind::Assistant { .. } => {
            let text = cell.source.clone();
            vec![EventKind::Text { cell: id, text }]
        }
        CellKind::Code(code) => {
            let language = code
                .language
                .as_deref()
                .or(main)
                .unwrap_or("code")
                .to_owned();
            let mut events = Vec::new();
            if matches!(code.author, Author::Model { .. }) {
                let (cell, source) = (id.clone(), cell.source.clone());
                events.push(EventKind::StepStarted { step: 0 });
                events.push(EventKind::CodeProposed {
                    cell,
                    language,
                    source,
                });
            } else {
                renderer.end_line();
                let mark = paint(HINT, ">", stderr_colours());
                eprint(&format!(
                    "\n{mark} !{}\n",
                    filter::plain(cell.source.trim())
                ));
            }
            let outputs = code.outputs.to_notebook().into_iter();
            events.extend(outputs.map(|output| EventKind::Output {
                cell: id.clone(),
                change: OutputChange::Append {
                    output,
                    display_id: None,
                },
            }));
            events.push(EventKind::CodeFinished {
                cell: id,
                status: CellStatus::Ok,
                count: code.count,
            });
            events
        }
        CellKind::Note | CellKind::Cut | CellKind::Reading(_) | CellKind::Compaction(_) => return,
    };
    for event in &events {
        renderer.show(event);
    }
}
