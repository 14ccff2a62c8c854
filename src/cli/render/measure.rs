//! Entry points for `scripts/bench`: text goes through the renderer as in a session.

use super::super::markdown::Markdown;
use super::Renderer;
use super::output::{CellOutput, HEAD, TAIL};
use crate::agent::{EventKind, OutputChange};
use crate::jupyter::nbformat::Output;

/// Renders a model's words for a terminal of this width, piece by piece. Returns the bytes that a terminal would
/// receive.
pub fn words<'a>(pieces: impl Iterator<Item = &'a str>, columns: usize) -> usize {
    let mut markdown = Markdown::new(true);
    let mut bytes = 0;
    for piece in pieces {
        markdown.set_width(columns);
        bytes += markdown.push(piece).len();
    }
    bytes + markdown.finish().len()
}

/// Takes a cell's printed text, piece by piece. Returns how many rows are shown at its end.
pub fn output(pieces: impl Iterator<Item = String>) -> usize {
    let mut output = CellOutput::new(true);
    for text in pieces {
        output.apply(&OutputChange::Append {
            output: Output::stream("stdout", &text),
            display_id: None,
        });
    }
    output.rows(HEAD, TAIL).len()
}

/// Renders a session's events as on a terminal with a movable cursor, wherever stdout and stderr go.
pub fn session(events: impl Iterator<Item = EventKind>) {
    let mut renderer = Renderer::new(true);
    renderer.can.moves_cursor = true;
    renderer.can.colours = true;
    renderer.words_aside();
    for event in events {
        renderer.show(&event);
    }
}
