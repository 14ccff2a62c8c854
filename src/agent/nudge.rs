//! What a small model forgets, said to it in time: a plot that was asked for, numbers that were never printed.
//!
//! Pure and general: the rules look at the question, the outputs and the answer, never at what a question is about.

use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::session::{Cell, CellKind, CodeStatus};

/// Whether to help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nudges {
    /// The model needs no help.
    Off,
    /// It is a small one.
    Small,
}

/// What the turn has produced so far.
struct Produced {
    plots: usize,
    text: String,
}

/// What is missing after a cell that ran well; `cells` are those of the turn.
pub fn after_cell(nudges: Nudges, question: &str, cells: &[&Cell]) -> Option<String> {
    if nudges == Nudges::Off {
        return None;
    }
    let produced = produced(cells);
    if wants_plot(question) && produced.plots == 0 {
        return Some(
            "No plot was shown yet. The question asks for one: draw it now with matplotlib and plt.show().".to_owned(),
        );
    }
    if produced.text.trim().is_empty() {
        return Some(format!("Nothing was printed. Now print() the numbers that answer the question: {question}"));
    }
    None
}

/// What is missing from an answer that would end the turn.
pub fn after_answer(nudges: Nudges, question: &str, _answer: &str, cells: &[&Cell]) -> Option<String> {
    if nudges == Nudges::Off {
        return None;
    }
    (wants_plot(question) && produced(cells).plots == 0).then(|| {
        "The question asks for a plot and none was shown yet. Draw it now with matplotlib and plt.show().".to_owned()
    })
}

fn produced(cells: &[&Cell]) -> Produced {
    let mut produced = Produced { plots: 0, text: String::new() };
    for cell in cells {
        let CellKind::Code(code) = &cell.kind else { continue };
        if code.status != CodeStatus::Finished(Verdict::Ok) {
            continue;
        }
        for output in code.outputs.to_notebook() {
            match output {
                Output::Stream { text, .. } => produced.text.push_str(&text),
                Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                    if data.raster().is_some() {
                        produced.plots += 1;
                    } else if let Some(text) = data.text_of("text/plain") {
                        produced.text.push_str(&text);
                    }
                }
                Output::Error { .. } | Output::Other(_) => {}
            }
        }
    }
    produced
}

/// Whether the words of the question ask for a picture.
pub fn wants_plot(question: &str) -> bool {
    const WORDS: [&str; 24] = [
        "plot", "plots", "plotted", "chart", "charts", "graph", "graphs", "histogram", "histograms", "scatter",
        "draw", "visualise", "visualize", "visualisation", "visualization", "diagram", "diagrams", "boxplot",
        "heatmap", "heatmaps", "curve", "curves", "distribution", "scatterplot",
    ];
    question
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_ask_for_a_picture() {
        for (question, wants) in [
            ("Plot the rain", true),
            ("show me a bar-chart of sales", true),
            ("What is the mean?", false),
            ("a plotline", false),
        ] {
            assert_eq!(wants_plot(question), wants, "{question}");
        }
    }
}
