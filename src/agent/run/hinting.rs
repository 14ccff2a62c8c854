//! Facts from the live kernel about a cell that failed, or that may be wrong without failing, for every model: which columns there
//! are that are called like the missing one, which values are no numbers, that a merge has multiplied rows.

use std::time::Duration;

use super::{Coaching, Edit, ExecuteOptions, Session, Verdict, guidance, random_cell_id};
use crate::kernel::stdout_of;
use crate::session::sql;

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

    /// What the kernel of the latest cell can say about it.
    pub(super) async fn live_hint(&mut self, cell: &str, verdict: &Verdict) -> Option<String> {
        let source = self.transcript.cell(cell)?.source.clone();
        let failed = match verdict {
            Verdict::Error { .. } => true,
            Verdict::Ok if DOUBTFUL.iter().any(|it| source.contains(it)) => false,
            _ => return None,
        };
        let language = self.transcript.code(cell)?.language.clone();
        let language = language.unwrap_or_else(|| self.language());
        if !language.eq_ignore_ascii_case("python") || sql::is_cell(&source) {
            return None;
        }
        let kernel = self.kernels.ready(self.cells.current)?.clone();
        let request = serde_json::json!([source, failed]).to_string();
        // A string of JSON is one of Python.
        let request = serde_json::Value::String(request);
        let code = format!("_sponde_request = {request}\n{LOOK}");
        let options = ExecuteOptions::aside(code, WITHIN);
        let (outputs, _) = kernel.execute(options).await.ok()?.collect().await;
        let text = stdout_of(outputs);
        let text = text.trim();
        let end = text.floor_char_boundary(MOST);
        let words = text.get(..end).filter(|words| !words.is_empty())?;
        Some(format!("From the kernel: {words}"))
    }
}
