//! Reminds a small model of what it forgets: a requested plot, numbers that were never printed, an answer that does
//! not follow from the output.
//!
//! Pure and general: the rules look at the question, the code, the outputs and the answer, never at the question's
//! subject. Each rule gives at most one hint, which is added to the latest outputs, and sets what the next reply must
//! be. `docs/adr/0006-constrained-small-models.md` describes what was tried and the results.

mod checks;
mod hints;
mod repair;

use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::llm::types::ToolChoice;
use crate::session::{Cell, CellKind, CodeStatus};

pub use repair::torn as repair_torn;

/// Whether to help the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coaching {
    /// The model needs no help.
    Off,
    /// The model is small.
    Small,
}

/// A hint, and the required kind of the next reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nudge {
    /// The text, which follows the latest outputs.
    pub words: String,
    /// The required kind of the next reply.
    pub choice: ToolChoice,
    /// Its topic.
    pub topic: Topic,
}

/// The topic of a nudge. Some are given only once per turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// The cell failed.
    Failure,
    /// The plot is missing.
    Plot,
    /// Nothing was printed.
    Print,
    /// Numbers in the answer do not occur in any output.
    Numbers,
    /// The answer says "fell" about a rise.
    Direction,
    /// Months were printed as numbers.
    Months,
    /// The kernel reports a doubt about a cell that did not fail.
    Doubt,
}

/// What the live kernel reports about a cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// A fact about the error, or about a possible mistake without one.
    pub fact: Option<String>,
    /// Its frames and series, after a cell that failed.
    pub variables: Option<String>,
}

/// How a cell that the model wants to run relates to the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// New.
    New,
    /// The same code has already succeeded.
    Done,
    /// The same code has already failed.
    Failed,
}

/// The hint after a cell.
pub fn after_cell(
    question: &str,
    verdict: &Verdict,
    live: &Live,
    cells: &[&Cell],
) -> Option<Nudge> {
    if let Verdict::Error { ename, evalue } = verdict {
        let words = hints::after_error(ename, evalue, live);
        return Some(Nudge {
            words,
            choice: ToolChoice::Required,
            topic: Topic::Failure,
        });
    }
    if let Some(fact) = &live.fact {
        return Some(Nudge {
            words: format!("{fact} If that changes the answer, write the corrected complete cell."),
            choice: ToolChoice::Auto,
            topic: Topic::Doubt,
        });
    }
    let produced = produced(cells);
    if wants_plot(question) && produced.plots == 0 {
        return Some(Nudge {
            words: "No plot was shown yet. The question asks for one: draw it now with matplotlib and plt.show()."
                .to_owned(),
            choice: ToolChoice::Required,
            topic: Topic::Plot,
        });
    }
    if produced.text.trim().is_empty() {
        return Some(Nudge {
            words: format!(
                "Nothing was printed. Now print() the numbers that answer the question: {question}"
            ),
            choice: ToolChoice::Required,
            topic: Topic::Print,
        });
    }
    let source = cells
        .last()
        .map(|cell| cell.source.as_str())
        .unwrap_or_default();
    if source.contains(".dt.month") && !source.contains(".dt.month_name") {
        return Some(Nudge {
            words: MONTHS.to_owned(),
            choice: ToolChoice::Auto,
            topic: Topic::Months,
        });
    }
    None
}

/// How many bytes of a session are searched for an answer's numbers.
const SOURCES: usize = 4 << 20;

/// A small model thinks that month 8 is July.
const MONTHS: &str = "(months: 1 January, 2 February, 3 March, 4 April, 5 May, 6 June, 7 July, 8 August, 9 September, \
                      10 October, 11 November, 12 December)";

/// What is missing from an answer that would end the turn; `said` are the topics of this turn so far, `facts` what the
/// model was told about the files.
pub fn after_answer(
    question: &str,
    answer: &str,
    facts: &str,
    said: &[Topic],
    cells: &[&Cell],
) -> Option<Nudge> {
    let produced = produced(cells);
    if wants_plot(question) && produced.plots == 0 && !said.contains(&Topic::Plot) {
        return Some(Nudge {
            words: "The question asks for a plot and none was shown yet. Draw it now with matplotlib and plt.show()."
                .to_owned(),
            choice: ToolChoice::Required,
            topic: Topic::Plot,
        });
    }
    let sources = format!("{}\n{question}\n{facts}", produced.text);
    if !said.contains(&Topic::Numbers) && !checks::unfounded(answer, &sources).is_empty() {
        return Some(Nudge {
            words: "Copy the numbers exactly as printed, with at most two decimals.".to_owned(),
            choice: ToolChoice::None,
            topic: Topic::Numbers,
        });
    }
    if !said.contains(&Topic::Direction)
        && let Some(contradiction) = checks::contradiction(answer)
    {
        return Some(Nudge {
            words: format!("Careful: {contradiction}."),
            choice: ToolChoice::None,
            topic: Topic::Direction,
        });
    }
    None
}

/// Numbers in the final answer of a turn with code that occur nowhere in the session: in its questions, notes, code
/// and outputs.
pub fn doubtful_numbers(turn: &[&Cell], session: &[Cell]) -> Vec<String> {
    let is_code = |cell: &&Cell| matches!(cell.kind, CellKind::Code(_));
    let Some(last) = turn.iter().rposition(is_code) else {
        return Vec::new();
    };
    let answer: Vec<&str> = turn
        .iter()
        .skip(last)
        .filter(|cell| matches!(cell.kind, CellKind::Assistant { .. }))
        .map(|cell| cell.source.as_str())
        .collect();
    let answer = answer.join("\n");
    if !answer.contains(|c: char| c.is_ascii_digit()) {
        return Vec::new();
    }
    let mut sources = String::new();
    for cell in session.iter().rev() {
        match &cell.kind {
            CellKind::Assistant { .. } | CellKind::Cut => {}
            CellKind::Code(code) => {
                sources.push_str(&cell.source);
                sources.push('\n');
                sources.push_str(&texts(&code.outputs.to_notebook()));
            }
            CellKind::Reading(reading) => sources.push_str(&reading.answer),
            CellKind::User | CellKind::Note | CellKind::Compaction(_) => {
                sources.push_str(&cell.source);
            }
        }
        sources.push('\n');
        if sources.len() > SOURCES {
            // A longer session cannot be searched for every answer, and without a full search there is no doubt to
            // report.
            return Vec::new();
        }
    }
    checks::doubtful(&answer, &sources)
}

/// The text of all outputs.
fn texts(outputs: &[Output]) -> String {
    let mut all = String::new();
    for output in outputs {
        match output {
            Output::Stream { text, .. } => all.push_str(text),
            Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                for mime in ["text/plain", "text/html", "text/markdown"] {
                    all.push_str(&data.text_of(mime).unwrap_or_default());
                    all.push('\n');
                }
            }
            Output::Error { evalue, .. } => all.push_str(evalue),
            Output::Other(_) => {}
        }
        all.push('\n');
    }
    all
}

/// Whether this code has already run in the turn.
pub fn novelty(code: &str, cells: &[&Cell]) -> Novelty {
    let wanted = squeezed(code);
    cells
        .iter()
        .rev()
        .find_map(|cell| match &cell.kind {
            CellKind::Code(known) if squeezed(&cell.source) == wanted => match &known.status {
                CodeStatus::Finished(Verdict::Ok) => Some(Novelty::Done),
                CodeStatus::Finished(_) => Some(Novelty::Failed),
                CodeStatus::Proposed
                | CodeStatus::Running
                | CodeStatus::Declined(_)
                | CodeStatus::NotRun(_) => None,
            },
            _ => None,
        })
        .unwrap_or(Novelty::New)
}

fn squeezed(code: &str) -> String {
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the turn has produced so far. Failed cells do not count.
struct Produced {
    plots: usize,
    text: String,
}

fn produced(cells: &[&Cell]) -> Produced {
    let mut produced = Produced {
        plots: 0,
        text: String::new(),
    };
    for cell in cells {
        let CellKind::Code(code) = &cell.kind else {
            continue;
        };
        if code.status != CodeStatus::Finished(Verdict::Ok) {
            continue;
        }
        for output in code.outputs.to_notebook() {
            match output {
                Output::Stream { text, name, .. } if name == "stdout" => {
                    produced.text.push_str(&text);
                }
                Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                    if data.raster().is_some() {
                        produced.plots += 1;
                    } else if let Some(text) = data.text_of("text/plain") {
                        produced.text.push('\n');
                        produced.text.push_str(&text);
                    }
                }
                Output::Stream { .. } | Output::Error { .. } | Output::Other(_) => {}
            }
        }
    }
    produced
}

/// Whether the question asks for a picture.
pub fn wants_plot(question: &str) -> bool {
    const WORDS: [&str; 26] = [
        "plot",
        "plots",
        "plotted",
        "chart",
        "charts",
        "graph",
        "graphs",
        "histogram",
        "histograms",
        "scatter",
        "scatterplot",
        "draw",
        "visualise",
        "visualize",
        "visualisation",
        "visualization",
        "diagram",
        "diagrams",
        "boxplot",
        "boxplots",
        "barchart",
        "heatmap",
        "heatmaps",
        "curve",
        "curves",
        "distribution",
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

    #[test]
    fn a_failure_asks_for_the_corrected_cell() {
        let verdict = Verdict::Error {
            ename: "KeyError".to_owned(),
            evalue: "'x'".to_owned(),
        };
        let live = Live {
            fact: None,
            variables: Some("df: DataFrame".to_owned()),
        };
        let nudge = after_cell("what?", &verdict, &live, &[]).unwrap();
        assert_eq!(
            (nudge.choice, nudge.topic),
            (ToolChoice::Required, Topic::Failure)
        );
        assert!(
            nudge.words.contains("Variables now:\ndf: DataFrame\n"),
            "{}",
            nudge.words
        );
    }
}
