//! Shows the last turns of a resumed session, or of one that another terminal attaches to, as they looked when they
//! were new.

use std::path::Path;
use std::time::Duration;

use super::render::Renderer;
use super::style::{DIM, HINT, paint, stderr_colours};
use super::{eprint, filter, human};
use crate::agent::{EventKind, OutputChange};
use crate::session::numbered::CellPlace;
use crate::session::transcript::{Author, CodeCell};
use crate::session::{Cell, CellKind, CellStatus, CodeStatus, Transcript};

/// How many turns are shown.
const TURNS: usize = 3;
/// How many of their cells are shown.
const CELLS: usize = 12;

/// Shows the last turns. `notebook` is the session's file. A cell that is still running stays open in `renderer`; a
/// cell that waits for a decision is shown with its question.
pub(super) fn show(transcript: &Transcript, notebook: &Path, renderer: &mut Renderer) {
    let cells = transcript.cells();
    let mut begins = (0..cells.len())
        .rev()
        .filter(|&at| cells.get(at).is_some_and(begins_turn));
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
    let main = transcript.kernel().map(|kernel| kernel.language.as_str());
    let main = main.unwrap_or_default();
    // A kernel that has not started yet is known only from the session's first event.
    if !main.is_empty() {
        renderer.speaks(main);
    }
    for (at, cell) in cells.iter().enumerate().skip(hidden) {
        match &cell.kind {
            CellKind::User => echo(&cell.source, renderer),
            CellKind::Assistant { .. } => renderer.show(&EventKind::Text {
                cell: cell.id.clone(),
                text: cell.source.clone(),
            }),
            CellKind::Code(code) if code.status == CodeStatus::Proposed => {}
            CellKind::Code(code) => {
                let place = CellPlace {
                    number: at + 1,
                    language: code.language.clone(),
                };
                let events = events(cell, code, main, notebook);
                if !matches!(code.author, Author::Model { .. }) {
                    echo(
                        &typed(&cell.source, code.language.as_deref(), main),
                        renderer,
                    );
                }
                renderer.numbered(Some(place));
                renderer.took(ran_for(code));
                for event in &events {
                    renderer.show(event);
                }
            }
            CellKind::Note | CellKind::Cut | CellKind::Reading(_) | CellKind::Compaction(_) => {}
        }
    }
}

/// Whether a person typed the cell: a question, or their own code.
fn begins_turn(cell: &Cell) -> bool {
    match &cell.kind {
        CellKind::User => true,
        CellKind::Code(code) => !matches!(code.author, Author::Model { .. }),
        CellKind::Assistant { .. }
        | CellKind::Note
        | CellKind::Cut
        | CellKind::Reading(_)
        | CellKind::Compaction(_) => false,
    }
}

/// Shows what a person typed.
fn echo(text: &str, renderer: &mut Renderer) {
    renderer.end_line();
    let mark = paint(HINT, ">", stderr_colours());
    eprint(&format!("\n{mark} {}\n", filter::plain(text.trim())));
}

/// Code as it is typed for the kernel of this language; `None` is the main kernel, whose language is `main`.
fn typed(code: &str, language: Option<&str>, main: &str) -> String {
    match language {
        Some(language) => format!("%%{language} {}", code.trim()),
        // A Python kernel runs a line of the shell itself.
        None => match code.trim().strip_prefix('!') {
            Some(command) if main == "python" && !command.contains('\n') => format!("$ {command}"),
            _ => format!("!{}", code.trim()),
        },
    }
}

/// Rebuilds the events of a cell.
fn events(cell: &Cell, code: &CodeCell, main: &str, notebook: &Path) -> Vec<EventKind> {
    let id = || cell.id.clone();
    let mut events = Vec::new();
    if matches!(code.author, Author::Model { .. }) {
        events.push(EventKind::StepStarted { step: 0 });
        events.push(EventKind::CodeProposed {
            cell: id(),
            language: code.language.as_deref().unwrap_or(main).to_owned(),
            source: cell.source.clone(),
        });
    }
    let status = CellStatus::from(&code.status);
    if status == CellStatus::Running {
        events.push(EventKind::CodeStarted { cell: id() });
    }
    let outputs = code.outputs.to_notebook().into_iter();
    events.extend(outputs.map(|output| EventKind::Output {
        cell: id(),
        change: OutputChange::Append {
            output,
            display_id: None,
        },
    }));
    if status == CellStatus::Running {
        return events;
    }
    let directory = notebook.parent().unwrap_or(Path::new(""));
    let pictures = code.pictures.iter().flatten();
    let file = |beside: &str| directory.join(beside).display().to_string();
    let files: Vec<String> = pictures.map(|it| file(&it.beside_notebook)).collect();
    if !files.is_empty() {
        events.push(EventKind::PicturesSaved { cell: id(), files });
    }
    if let Some(files) = code.files.clone() {
        events.push(EventKind::FilesChanged { cell: id(), files });
    }
    events.push(EventKind::CodeFinished {
        cell: id(),
        status,
        count: code.count,
    });
    events
}

/// The recorded time between the cell's start and its end.
fn ran_for(code: &CodeCell) -> Option<Duration> {
    let time = |text: &Option<String>| text.as_deref()?.parse::<jiff::Timestamp>().ok();
    let (started, finished) = (time(&code.started)?, time(&code.finished)?);
    finished.duration_since(started).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn code_is_shown_as_a_person_types_it() {
        for (code, language, main, shown) in [
            ("x = 1\n", None, "python", "!x = 1"),
            ("!ls", None, "python", "$ ls"),
            ("!ls\ny = 2", None, "python", "!!ls\ny = 2"),
            ("!ls", None, "bash", "!!ls"),
            ("ls", Some("bash"), "python", "%%bash ls"),
        ] {
            assert_eq!(typed(code, language, main), shown);
        }
    }
}
