//! Facts from the live kernel about a cell that failed or may be wrong, for every model: existing columns with a name
//! like the missing one, values that are not numbers, a merge that multiplied rows.

use std::time::Duration;

use super::{Coaching, Edit, ExecuteOptions, Session, Verdict, guidance, random_cell_id};
use crate::kernel::stdout_of;
use crate::session::sql;

/// Prints which tables are new, changed or gone since the last call.
const CHANGES: &str = include_str!("../prompts/changes.py");
/// Prints one line of facts, or nothing.
const LOOK: &str = include_str!("../prompts/hint.py");
/// Prints the frames and series in a kernel, for a small model whose cell failed.
const INVENTORY: &str = include_str!("../prompts/inventory.py");
/// Time limit of each.
const WITHIN: Duration = Duration::from_secs(3);
/// How many bytes of a hint a model gets.
const MOST: usize = 800;
/// How many bytes of an inventory a model gets.
const MOST_INVENTORY: usize = 4000;
/// Code that may be wrong without failing: a merge that multiplies rows, a change to a copy.
const DOUBTFUL: [&str; 3] = ["merge(", "][", "inplace=True"];

/// How many unsupported numbers are named.
const DOUBTS: usize = 8;

impl Session {
    /// Points out unsupported numbers in the answer to the person, and to the model with the next question. A small
    /// model was already reminded once ([`Session::check_answer`]); its second answer may be just as wrong.
    pub(super) fn doubt_numbers(&mut self) {
        let mut numbers = guidance::doubtful_numbers(&self.turn_cells(), self.transcript.cells());
        if numbers.is_empty() {
            return;
        }
        numbers.truncate(DOUBTS);
        let numbers = numbers.join(", ");
        self.notice(&format!(
            "numbers of this answer that stand in no output: {numbers}"
        ));
        if self.options.coaching == Coaching::Small {
            return;
        }
        self.edit(Edit::Note {
            cell: random_cell_id(),
            text: format!(
                "Numbers of your last answer stand in no output so far: {numbers}. Compute and print them before you use them again, or say where they are from."
            ),
        });
    }

    /// Tells the model which tables a cell created, changed or removed: names, rows and columns, only the differences.
    /// A small model is not told, because it would take them for the answer. The kernel still records them, so that it
    /// knows what the next cell changes. Returns the text.
    pub(super) async fn tell_tables(&mut self, cell: &str) -> Option<String> {
        let source = self.python_source(cell)?;
        if !source.contains('=') && !source.contains("del ") {
            return None;
        }
        let words = self.ask_python(CHANGES.to_owned(), MOST).await?;
        if self.options.coaching == Coaching::Small {
            return None;
        }
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
        // A JSON string is also a Python string.
        let request = serde_json::Value::String(request);
        let words = self
            .ask_python(format!("_sponde_request = {request}\n{LOOK}"), MOST)
            .await?;
        Some(format!("From the kernel: {words}"))
    }

    /// The frames and series in the kernel of a cell that failed.
    pub(super) async fn frames_after(&mut self, cell: &str, verdict: &Verdict) -> Option<String> {
        if !matches!(verdict, Verdict::Error { .. }) {
            return None;
        }
        self.python_source(cell)?;
        self.ask_python(INVENTORY.to_owned(), MOST_INVENTORY).await
    }

    /// The code of a cell, if it is Python and nothing else.
    fn python_source(&self, cell: &str) -> Option<String> {
        let source = self.transcript.cell(cell)?.source.clone();
        let language = self.transcript.code(cell)?.language.clone();
        let language = language.unwrap_or_else(|| self.language());
        let is_python = language.eq_ignore_ascii_case("python") && !sql::is_cell(&source);
        is_python.then_some(source)
    }

    /// The output of our own code in the kernel of the latest cell, up to `most` bytes; `None` if it prints nothing.
    async fn ask_python(&mut self, code: String, most: usize) -> Option<String> {
        let kernel = self.kernels.ready(self.cells.current)?.clone();
        let options = ExecuteOptions::aside(code, WITHIN);
        let (outputs, _) = kernel.execute(options).await.ok()?.collect().await;
        let text = stdout_of(outputs);
        let text = text.trim();
        let end = text.floor_char_boundary(most);
        let words = text.get(..end).filter(|words| !words.is_empty());
        words.map(str::to_owned)
    }
}
