//! Facts from the live kernel about a cell that failed, or that may be wrong without failing, for every model: which columns there
//! are that are called like the missing one, which values are no numbers, that a merge has multiplied rows.

use std::time::Duration;

use super::{Coaching, Edit, ExecuteOptions, Session, Verdict, guidance, random_cell_id};
use crate::kernel::stdout_of;
use crate::session::sql;

/// Prints what tables are new, changed or gone since it was asked last.
const CHANGES: &str = include_str!("../prompts/changes.py");
/// Prints one line of facts, or nothing.
const LOOK: &str = include_str!("../prompts/hint.py");
/// How long that may take.
const WITHIN: Duration = Duration::from_secs(3);
/// Bytes of it that a model gets.
const MOST: usize = 800;
/// What may be wrong without failing: a merge that multiplies rows, a change of a copy.
const DOUBTFUL: [&str; 3] = ["merge(", "][", "inplace=True"];

/// Numbers without a source that are named.
const DOUBTS: usize = 8;

impl Session {
    /// Numbers of the answer that come from nowhere are pointed out to the person, and to the model with the next
    /// question. A small model was told before ([`Session::check_answer`]).
    pub(super) fn doubt_numbers(&mut self) {
        if self.options.coaching != Coaching::Off {
            return;
        }
        let mut numbers = guidance::doubtful_numbers(&self.turn_cells(), self.transcript.cells());
        if numbers.is_empty() {
            return;
        }
        numbers.truncate(DOUBTS);
        let numbers = numbers.join(", ");
        self.notice(&format!(
            "numbers of this answer that stand in no output: {numbers}"
        ));
        self.edit(Edit::Note {
            cell: random_cell_id(),
            text: format!(
                "Numbers of your last answer stand in no output so far: {numbers}. Compute and print them before you use them again, or say where they are from."
            ),
        });
    }

    /// Tells the model which tables a cell has made, changed or removed: names, rows and columns, and only what is new.
    /// A small model is not told, for it takes them for the answer. Returns the words.
    pub(super) async fn tell_tables(&mut self, cell: &str) -> Option<String> {
        if self.options.coaching != Coaching::Off {
            return None;
        }
        let source = self.python_source(cell)?;
        if !source.contains('=') && !source.contains("del ") {
            return None;
        }
        let words = self.ask_python(CHANGES.to_owned()).await?;
        let text = format!("Tables in the kernel: {words}");
        self.edit(Edit::Hint {
            cell: cell.to_owned(),
            text: text.clone(),
        });
        Some(text)
    }

    /// What the kernel of the latest cell can say about it.
    pub(super) async fn live_hint(&mut self, cell: &str, verdict: &Verdict) -> Option<String> {
        let source = self.python_source(cell)?;
        let failed = match verdict {
            Verdict::Error { .. } => true,
            Verdict::Ok if DOUBTFUL.iter().any(|it| source.contains(it)) => false,
            _ => return None,
        };
        let request = serde_json::json!([source, failed]).to_string();
        // A string of JSON is one of Python.
        let request = serde_json::Value::String(request);
        let words = self
            .ask_python(format!("_sponde_request = {request}\n{LOOK}"))
            .await?;
        Some(format!("From the kernel: {words}"))
    }

    /// The code of a cell, if it is Python and nothing else.
    fn python_source(&self, cell: &str) -> Option<String> {
        let source = self.transcript.cell(cell)?.source.clone();
        let language = self.transcript.code(cell)?.language.clone();
        let language = language.unwrap_or_else(|| self.language());
        let is_python = language.eq_ignore_ascii_case("python") && !sql::is_cell(&source);
        is_python.then_some(source)
    }

    /// What code of ours prints in the kernel of the latest cell, if it prints anything.
    async fn ask_python(&mut self, code: String) -> Option<String> {
        let kernel = self.kernels.ready(self.cells.current)?.clone();
        let options = ExecuteOptions::aside(code, WITHIN);
        let (outputs, _) = kernel.execute(options).await.ok()?.collect().await;
        let text = stdout_of(outputs);
        let text = text.trim();
        let end = text.floor_char_boundary(MOST);
        let words = text.get(..end).filter(|words| !words.is_empty());
        words.map(str::to_owned)
    }
}
