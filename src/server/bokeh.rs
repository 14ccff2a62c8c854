//! A Bokeh chart in a notebook consists of three outputs: the library, which `output_notebook()` shows once, an
//! element, and a script that draws into it. A frame needs all of them.

use crate::jupyter::mime::{self, MimeBundle};
use crate::jupyter::nbformat::Output;
use crate::session::Transcript;
use crate::session::outputs::Piece;

/// The library, as a script.
const LOAD: &str = "application/vnd.bokehjs_load.v0+json";
/// The type next to the script that draws.
const EXEC: &str = "application/vnd.bokehjs_exec.v0+json";

/// The earlier outputs that a Bokeh script needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bokeh {
    /// The library, as a script.
    pub(super) library: String,
    /// The element, as HTML.
    pub(super) element: String,
}

/// What the output `index` of `cell` needs, if it is a Bokeh script.
pub(super) fn before(transcript: &Transcript, cell: &str, index: usize) -> Option<Bokeh> {
    let outputs = &transcript.code(cell)?.outputs;
    bundle(&outputs.nth(index)?)?.get(EXEC)?;
    let element = outputs.nth(index.checked_sub(1)?)?;
    let element = bundle(&element)?.text_of(mime::TEXT_HTML)?.into_owned();
    let cells = transcript.cells();
    let at = cells.iter().position(|it| it.id == cell)?;
    let mut code = cells.get(..=at)?.iter().rev().filter_map(|it| it.code());
    let library = code.find_map(|it| it.outputs.pieces().filter_map(library).last());
    Some(Bokeh {
        library: library?.to_owned(),
        element,
    })
}

fn library(piece: Piece<'_>) -> Option<&str> {
    match piece {
        Piece::Rich { output, .. } => bundle(output)?.get(LOAD)?.as_str(),
        Piece::Text { .. } => None,
    }
}

fn bundle(output: &Output) -> Option<&MimeBundle> {
    match output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => Some(data),
        Output::Stream { .. } | Output::Error { .. } | Output::Other(_) => None,
    }
}
