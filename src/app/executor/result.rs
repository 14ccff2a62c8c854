//! What a program's model gets from a cell: short text and small pictures; everything else is available as files.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::ProgramSession;
use crate::jupyter::mime::TEXT_PLAIN;
use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::llm::types::{Part, PictureRules};
use crate::session::chart;
use crate::session::summarize::{self, Budget, ImagePreparer, plain};
use crate::session::visual::Visual;
use crate::session::{CodeCell, CodeStatus};

/// The size to which model vendors scale pictures down, and few enough for a client's limit on a result.
const PICTURES: PictureRules = PictureRules {
    longest_side: 1024,
    bytes: 400 << 10,
    most: 8,
    tile: None,
};

/// Shrinks pictures, and caches the results.
#[derive(Debug, Clone)]
pub struct SharedPreparer(Arc<ImagePreparer>);

impl Default for SharedPreparer {
    fn default() -> Self {
        Self(Arc::new(ImagePreparer::new(PICTURES)))
    }
}

/// A cell's outputs for a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CellResult {
    /// All text, cut in the middle if it is long.
    pub text: String,
    /// Pictures: type and bytes.
    pub images: Vec<(&'static str, Bytes)>,
    /// Whether the text was cut.
    pub is_cut: bool,
    /// The exception that the code raised.
    pub error: Option<CodeError>,
    /// Outputs with a form other than text, at full size.
    pub visuals: Vec<OutputFile>,
    /// Its charts as typed data.
    pub charts: Vec<Value>,
}

/// An exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeError {
    /// Its type.
    pub name: String,
    /// Its message.
    pub value: String,
}

/// An output that can be read as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Its index among the cell's outputs.
    pub index: usize,
    /// Its MIME type.
    pub mime: String,
    /// Size in bytes.
    pub bytes: usize,
}

impl ProgramSession {
    /// The result of the cell `id` for a model, with at most this many bytes of text. `None`: there is no such cell.
    pub async fn result(
        &self,
        id: &str,
        most: usize,
        preparer: &SharedPreparer,
    ) -> Option<CellResult> {
        let cell = self.cell(id).await?;
        let (id, preparer) = (id.to_owned(), preparer.clone());
        let made = tokio::task::spawn_blocking(move || of_cell(&id, &cell, most, Some(&preparer)));
        made.await.ok()
    }
}

pub(super) fn of_cell(
    id: &str,
    cell: &CodeCell,
    most: usize,
    preparer: Option<&SharedPreparer>,
) -> CellResult {
    let budget = Budget {
        text: most,
        preparer: preparer.map(|it| &*it.0),
        brief: false,
        reads: false,
        said: None,
    };
    let (parts, _) = summarize::result(id, cell, budget);
    let mut result = CellResult {
        is_cut: cell.outputs.is_cut() || summarize::whole_text(cell).len() > most,
        error: error_of(cell),
        visuals: visuals(cell),
        charts: charts(cell),
        ..CellResult::default()
    };
    for part in parts {
        match part {
            Part::Text(text) => {
                if !result.text.is_empty() {
                    result.text.push('\n');
                }
                result.text.push_str(&text);
            }
            Part::Image { media_type, data } => result.images.push((media_type, data)),
        }
    }
    result
}

fn error_of(cell: &CodeCell) -> Option<CodeError> {
    let CodeStatus::Finished(Verdict::Error { .. }) = &cell.status else {
        return None;
    };
    let outputs = cell.outputs.to_notebook();
    outputs.into_iter().rev().find_map(|output| match output {
        Output::Error { ename, evalue, .. } => Some(CodeError {
            name: ename,
            value: evalue,
        }),
        _ => None,
    })
}

/// An output, for programs that show outputs one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownOutput {
    /// Printed text.
    Stdout(String),
    /// Text on stderr.
    Stderr(String),
    /// A value, as text.
    Value(String),
    /// A traceback, without colours.
    Error(String),
    /// A picture: type and bytes.
    Picture(String, Vec<u8>),
}

/// The outputs of a cell in order: pictures at full size, everything else as text without colours.
pub fn shown(cell: &CodeCell) -> Vec<ShownOutput> {
    let outputs = cell.outputs.to_notebook();
    outputs.iter().filter_map(shown_output).collect()
}

fn shown_output(output: &Output) -> Option<ShownOutput> {
    match output {
        Output::Stream { name, text, .. } if name == "stderr" => {
            Some(ShownOutput::Stderr(plain(text)))
        }
        Output::Stream { text, .. } => Some(ShownOutput::Stdout(plain(text))),
        Output::Error { traceback, .. } => Some(ShownOutput::Error(plain(&traceback.join("\n")))),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            if let Some((mime, bytes)) = file_of(output)
                && mime.starts_with("image/")
            {
                return Some(ShownOutput::Picture(mime, bytes));
            }
            let text = data.text_of(TEXT_PLAIN)?;
            Some(ShownOutput::Value(plain(&text)))
        }
        Output::Other(_) => None,
    }
}

/// The file suffix of a picture.
pub fn ending_of(mime: &str) -> &str {
    match mime {
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        other => other.strip_prefix("image/").unwrap_or("png"),
    }
}

/// The charts of a cell, in E2B's schema.
fn charts(cell: &CodeCell) -> Vec<Value> {
    let outputs = cell.outputs.to_notebook();
    let chart = |output: &Output| match output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => chart::of(data),
        Output::Stream { .. } | Output::Error { .. } | Output::Other(_) => None,
    };
    outputs.iter().filter_map(chart).collect()
}

/// The outputs of a cell that text cannot represent.
pub fn visuals(cell: &CodeCell) -> Vec<OutputFile> {
    let outputs = cell.outputs.to_notebook().into_iter().enumerate();
    let file = |(index, output): (usize, Output)| {
        let (mime, bytes) = file_of(&output)?;
        let is_visual = mime != TEXT_PLAIN;
        is_visual.then_some(OutputFile {
            index,
            mime,
            bytes: bytes.len(),
        })
    };
    outputs.filter_map(file).collect()
}

/// An output as a file: type and bytes.
pub fn file_of(output: &Output) -> Option<(String, Vec<u8>)> {
    match output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            if let Some(visual) = Visual::of(data) {
                let (ending, bytes) = visual.file(data)?;
                let mime = match ending {
                    "svg" => "image/svg+xml".to_owned(),
                    "html" => "text/html".to_owned(),
                    picture => format!("image/{picture}"),
                };
                return Some((mime, bytes));
            }
            let text = data.text_of(TEXT_PLAIN)?.into_owned();
            Some((TEXT_PLAIN.to_owned(), text.into_bytes()))
        }
        Output::Stream { text, .. } => Some((TEXT_PLAIN.to_owned(), text.clone().into_bytes())),
        Output::Error { traceback, .. } => {
            Some((TEXT_PLAIN.to_owned(), traceback.join("\n").into_bytes()))
        }
        Output::Other(_) => None,
    }
}
