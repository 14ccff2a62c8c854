//! Compares a cell's outputs with the stored ones, for `sponde run --check` and session replays.
//!
//! Text is compared after removing everything that varies between runs ([`normal`]), or by its numbers within a
//! tolerance; pictures by how much of the drawing differs ([`picture`]); errors by name and message, not by traceback.
//! Each stream's text is joined first, because how it is split and how two streams interleave is chance. Execution
//! counts and metadata are ignored.
//!
//! Pure: outputs in, differences out. Not here: running code and displaying differences.

mod normal;
mod numbers;
mod picture;

use serde_json::Value;

use super::outputs::Text;
use crate::jupyter::mime::{self, CHART, MimeBundle};
use crate::jupyter::nbformat::Output;
pub use normal::{Sanitizer, SanitizerError};
use numbers::same_numbers;
pub use picture::distance;

/// What counts as equal.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Numbers `a` and `b` in text are equal if `|a - b| <= tolerance * max(1, |a|, |b|)`; `None` compares text
    /// exactly.
    pub tolerance: Option<f64>,
    /// Pictures up to this distance are equal (0 to 1, see [`distance`]).
    pub picture_distance: f64,
    /// Normalises texts before they are compared.
    pub sanitizer: Sanitizer,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            tolerance: None,
            picture_distance: PICTURE_DISTANCE,
            sanitizer: Sanitizer::default(),
        }
    }
}

/// Other fonts, resolutions and renderer versions stay below this (0 to 0.22, measured with matplotlib); other data,
/// titles and colours exceed it (0.37 to 1).
pub const PICTURE_DISTANCE: f64 = 0.25;

/// MIME types whose data refers to objects of one run.
const OF_ONE_RUN: [&str; 2] = [
    "application/vnd.jupyter.widget-view+json",
    "application/pdf",
];

/// One difference between a cell's outputs.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// Text, after normalisation.
    Text {
        /// Which text, for display: `stdout`, `text/html of output 2`.
        what: String,
        /// The stored text.
        stored: String,
        /// The new text.
        fresh: String,
    },
    /// A picture.
    Picture {
        /// Which picture, for display.
        what: String,
        /// Distance between the pictures, 0 to 1.
        distance: f64,
        /// The stored picture: MIME type and bytes.
        stored: (&'static str, Vec<u8>),
        /// The new picture.
        fresh: (&'static str, Vec<u8>),
    },
    /// An output, or one of its representations, that is not in the stored outputs.
    New {
        /// Which one, for display.
        what: String,
    },
    /// A stored output or representation that is missing now.
    Gone {
        /// Which one, for display.
        what: String,
    },
}

/// The differences between a cell's outputs; empty if they are equal.
pub fn compare(stored: &[Output], fresh: &[Output], options: &CheckOptions) -> Vec<Difference> {
    let mut found = Vec::new();
    for name in ["stdout", "stderr"] {
        texts(
            name.to_owned(),
            &stream(stored, name),
            &stream(fresh, name),
            options,
            &mut found,
        );
    }
    let mut old = stored.iter().filter(|output| !is_stream(output));
    let mut new = fresh.iter().filter(|output| !is_stream(output));
    for number in 1.. {
        match (old.next(), new.next()) {
            (Some(old), Some(new)) => pair(number, old, new, options, &mut found),
            (Some(old), None) => found.push(Difference::Gone { what: name(old) }),
            (None, Some(new)) => found.push(Difference::New { what: name(new) }),
            (None, None) => break,
        }
    }
    found
}

fn is_stream(output: &Output) -> bool {
    matches!(output, Output::Stream { .. })
}

/// All text of one stream, as a terminal would finally show it.
fn stream(outputs: &[Output], wanted: &str) -> String {
    let mut all = Text::new("stdout");
    for output in outputs {
        if let Output::Stream { name, text, .. } = output
            && (name == "stderr") == (wanted == "stderr")
        {
            all.push(text);
        }
    }
    all.into_shown()
}

/// A short name for an output.
fn name(output: &Output) -> String {
    match output {
        Output::Error { ename, evalue, .. } => format!("the error {}", error(ename, evalue)),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => data
            .iter()
            .map(|(mime, _)| mime)
            .max_by_key(|mime| mime.starts_with("image/"))
            .map_or_else(
                || "an output".to_owned(),
                |mime| format!("an output of {mime}"),
            ),
        Output::Stream { name, .. } => name.clone(),
        Output::Other(_) => "an output".to_owned(),
    }
}

fn error(ename: &str, evalue: &str) -> String {
    format!("{ename}: {}", evalue.lines().next().unwrap_or_default())
}

fn pair(
    number: usize,
    stored: &Output,
    fresh: &Output,
    options: &CheckOptions,
    found: &mut Vec<Difference>,
) {
    match (stored, fresh) {
        (
            Output::Error { ename, evalue, .. },
            Output::Error {
                ename: new_ename,
                evalue: new_evalue,
                ..
            },
        ) => texts(
            "the error".to_owned(),
            &format!("{ename}: {evalue}"),
            &format!("{new_ename}: {new_evalue}"),
            options,
            found,
        ),
        (Output::Other(stored), Output::Other(fresh)) => texts(
            format!("output {number}"),
            &stored.to_string(),
            &fresh.to_string(),
            options,
            found,
        ),
        _ => {
            if let (Some(old), Some(new)) = (stored.data(), fresh.data()) {
                bundles(number, old, new, options, found);
            } else {
                found.push(Difference::Gone { what: name(stored) });
                found.push(Difference::New { what: name(fresh) });
            }
        }
    }
}

fn bundles(
    number: usize,
    stored: &MimeBundle,
    fresh: &MimeBundle,
    options: &CheckOptions,
    found: &mut Vec<Difference>,
) {
    let counts = |mime: &str| !OF_ONE_RUN.contains(&mime) && mime != CHART;
    for (mime, old) in stored.iter().filter(|(mime, _)| counts(mime)) {
        let what = format!("{mime} of output {number}");
        let Some(new) = fresh.get(mime) else {
            found.push(Difference::Gone { what });
            continue;
        };
        if let Some(known) = mime::RASTER_IMAGES.into_iter().find(|known| *known == mime) {
            if let Some(difference) = pictures(&what, known, stored, fresh, options) {
                found.push(difference);
            }
        } else if mime::is_json(mime) {
            let text = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
            if old != new {
                texts(what, &text(old), &text(new), options, found);
            }
        } else {
            let text = |bundle: &MimeBundle| {
                normal::markup(mime, &bundle.text_of(mime).unwrap_or_default())
            };
            texts(what, &text(stored), &text(fresh), options, found);
        }
    }
    for (mime, _) in fresh.iter().filter(|(mime, _)| counts(mime)) {
        if !stored.contains(mime) {
            let what = format!("{mime} of output {number}");
            found.push(Difference::New { what });
        }
    }
}

/// The difference between two pictures, if their distance exceeds the limit.
fn pictures(
    what: &str,
    mime: &'static str,
    stored: &MimeBundle,
    fresh: &MimeBundle,
    options: &CheckOptions,
) -> Option<Difference> {
    let bytes = |bundle: &MimeBundle| bundle.bytes(mime).and_then(Result::ok).unwrap_or_default();
    let (old, new) = (bytes(stored), bytes(fresh));
    let distance = distance(&old, &new);
    (distance > options.picture_distance).then(|| Difference::Picture {
        what: what.to_owned(),
        distance,
        stored: (mime, old),
        fresh: (mime, new),
    })
}

fn texts(
    what: String,
    stored: &str,
    fresh: &str,
    options: &CheckOptions,
    found: &mut Vec<Difference>,
) {
    if stored == fresh {
        return;
    }
    let (old, new) = (
        options.sanitizer.text(stored),
        options.sanitizer.text(fresh),
    );
    let same = old == new
        || options
            .tolerance
            .is_some_and(|tolerance| same_numbers(&old, &new, tolerance));
    if !same {
        found.push(Difference::Text {
            what,
            stored: old,
            fresh: new,
        });
    }
}

#[cfg(test)]
mod tests;
