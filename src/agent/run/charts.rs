//! Figures: their chart data is stored with the output, and as files beside the picture or page. For matplotlib, the data
//! comes with the picture, and the vector graphic too.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{ExecuteOptions, OutputEvent, Session};
use crate::jupyter::mime::{IMAGE_PNG, MimeBundle};
use crate::kernel::{Kernel, Verdict, with_figures};
use crate::session::chart;
use crate::session::plot_data::PlotSource;

static CODE: LazyLock<String> = LazyLock::new(|| with_figures(include_str!("../prompts/plots.py")));
/// How long the kernel's setup for charts may take.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(5);
/// Words in code that draws.
const DRAWS: [&str; 5] = ["plt", "matplotlib", "plot", "seaborn", "sns"];
/// How many figures of one cell have their sources stored.
const FIGURES: usize = 50;

/// The sources of the running cell's figures, by picture.
#[derive(Default)]
pub(super) struct PlotSources(HashMap<Vec<u8>, PlotSource>);

impl PlotSources {
    /// Moves the sources out of an output.
    pub(super) fn take_from(&mut self, output: &mut OutputEvent) {
        let (data, metadata) = match output {
            OutputEvent::Display { data, metadata, .. }
            | OutputEvent::Update { data, metadata, .. }
            | OutputEvent::Result { data, metadata, .. } => (data, metadata),
            OutputEvent::Stream(_)
            | OutputEvent::Error(_)
            | OutputEvent::Clear { .. }
            | OutputEvent::Lost(_) => return,
        };
        let Some(mut source) = PlotSource::take_from(data) else {
            if let Some(chart) = chart::of(data) {
                chart::keep(chart, data);
            }
            return;
        };
        for problem in &source.problems {
            tracing::warn!(%problem, "not all could be read from a figure");
        }
        if let Some(chart) = source.chart.take() {
            chart::keep(chart, data);
        }
        if let Some(words) = source.words() {
            describe(metadata, words);
        }
        if let Some(picture) = picture(data).filter(|_| self.0.len() < FIGURES) {
            self.0.insert(picture, source);
        }
    }

    /// The files that belong to a picture, with their suffixes.
    pub(super) fn files_of(&self, data: &MimeBundle) -> Vec<(&'static str, Vec<u8>)> {
        let Some(source) = picture(data).and_then(|picture| self.0.get(&picture)) else {
            // One of Plotly or Vega has its data in the output.
            let data = chart::csv(data).map(|it| ("csv", it.into_bytes()));
            return data.into_iter().collect();
        };
        let graphic = source.svg.clone().map(|it| ("svg", it.into_bytes()));
        let data = source.csv().map(|it| ("csv", it.into_bytes()));
        graphic.into_iter().chain(data).collect()
    }

    /// The cell has ended.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Sets the alternative text where nbconvert looks for it.
fn describe(metadata: &mut Map<String, Value>, words: String) {
    let of_picture = metadata
        .entry(IMAGE_PNG)
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(of_picture) = of_picture {
        of_picture.entry("alt").or_insert(Value::String(words));
    }
}

/// A key that identifies a picture.
fn picture(data: &MimeBundle) -> Option<Vec<u8>> {
    let text = data.text_of(IMAGE_PNG)?;
    Some(Sha256::digest(text.trim()).to_vec())
}

impl Session {
    /// Before code draws, sets its kernel up to send the sources of figures.
    pub(super) async fn teach_charts(&mut self, kernel: &Kernel, code: &str) {
        let language = self.kernels.get(self.cells.current);
        let is_python = language.is_some_and(|slot| {
            let language = &slot.options.kernel.spec.language;
            language.eq_ignore_ascii_case("python")
        });
        if !is_python || !DRAWS.iter().any(|it| code.contains(it)) {
            return;
        }
        let problem = match kernel.execute(ExecuteOptions::aside(&*CODE, WITHIN)).await {
            Ok(execution) => match execution.outcome().await.verdict {
                Verdict::Ok => return,
                verdict => format!("{verdict:?}"),
            },
            Err(error) => error.to_string(),
        };
        tracing::warn!(problem, "a kernel did not learn to tell of figures");
    }
}
