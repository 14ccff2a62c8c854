//! Handles a complete reply of the model: its calls become cells; a small model's text and cells are checked first.

use super::{
    Author, Coaching, CodeStatus, Edit, Input, Novelty, Sampling, Session, ToolChoice, guidance,
    random_cell_id, tools,
};
use crate::agent::sampling::Ended;
use crate::agent::turn::Call;
use crate::session::context::READ_OUTPUT;

impl Session {
    /// Adds text of the model.
    pub(super) fn say(&mut self, cell: String, step: u32, text: String) {
        self.edit(Edit::AppendText { cell, step, text });
    }

    /// Turns the calls of a complete reply into cells.
    pub(super) async fn replied(&mut self, mut sampling: Sampling) {
        if self.options.coaching == Coaching::Small {
            // Sent in one piece, after it was checked.
            sampling.later.clear();
        }
        let nudge = self.check_answer(&sampling);
        if self.options.coaching == Coaching::Small && nudge.is_none() && !sampling.text.is_empty()
        {
            self.say(random_cell_id(), sampling.step, sampling.text.clone());
        }
        let mut calls = Vec::new();
        let mut broken = false;
        for (index, call) in std::mem::take(&mut sampling.calls).into_iter().enumerate() {
            self.keep_later_words(&mut sampling, index);
            if call.name == READ_OUTPUT && self.reads() {
                broken = true;
                self.read_output(sampling.step, call).await;
                continue;
            }
            let parsed = tools::parse(&call.name, &call.arguments, &self.offers());
            let (source, language, raw, reason) = match parsed {
                Ok(tools::Parsed { code, language }) => {
                    let (code, reason) = self.look_at(code);
                    (code, language, None, reason)
                }
                Err(reason) => {
                    let raw = Some(call.arguments.clone());
                    let reason = match sampling.ended {
                        Ended::Circles => format!(
                            "the code says the same line again and again. Call `{}` again, with fewer lines",
                            tools::RUN_CODE
                        ),
                        Ended::Limit => {
                            "the reply reached its limit in the middle of the code. Write it again in a shorter cell"
                                .to_owned()
                        }
                        Ended::Whole => reason,
                    };
                    (String::new(), None, raw, Some(reason))
                }
            };
            // Later cells may depend on a cell that could not be parsed.
            let reason = reason.or_else(|| {
                broken.then(|| "the code before it in the same reply was not run".to_owned())
            });
            let author = Author::Model {
                step: sampling.step,
                call_id: call.id,
                broken: raw,
            };
            self.before_sql(&source, language.as_deref(), &author);
            self.edit(Edit::Propose {
                cell: call.cell.clone(),
                author,
                language: language.clone(),
                source: source.clone(),
            });
            let code_language = language.unwrap_or_else(|| self.language());
            if let Some(reason) = reason {
                broken = true;
                let what = first_sentence(&reason);
                self.notice(&format!("the model's call was not run: {what}"));
                self.end_cell(&call.cell, CodeStatus::NotRun(reason));
                continue;
            }
            let analysis = self.analysed(&source, &code_language).await;
            calls.push(Call {
                cell: call.cell,
                code: source,
                language: code_language,
                analysis,
            });
        }
        self.keep_later_words(&mut sampling, usize::MAX);
        if calls.is_empty() && !broken && nudge.is_none() && sampling.text.trim().is_empty() {
            let message = "the model's reply was empty: it has neither words nor code; ask again, or another model"
                .to_owned();
            return self
                .drive(Input::ModelFailed {
                    message,
                    key_variable: None,
                })
                .await;
        }
        self.drive(Input::Replied {
            calls,
            broken,
            nudge,
        })
        .await;
    }

    /// Text that came after at most this many calls becomes cells, in the model's order.
    pub(super) fn keep_later_words(&mut self, sampling: &mut Sampling, calls: usize) {
        let step = sampling.step;
        for words in sampling.later.extract_if(.., |words| words.calls <= calls) {
            self.edit(Edit::AppendText {
                cell: words.cell,
                step,
                text: words.text,
            });
        }
    }

    /// What is missing from an answer of a small model.
    fn check_answer(&mut self, sampling: &Sampling) -> Option<String> {
        if self.options.coaching == Coaching::Off || !sampling.calls.is_empty() {
            return None;
        }
        let facts = self.options.facts.as_deref().unwrap_or_default();
        let nudge = guidance::after_answer(
            &self.asking.question,
            &sampling.text,
            facts,
            &self.asking.topics,
            &self.turn_cells(),
        )?;
        self.asking.choice = nudge.choice;
        self.asking.topics.push(nudge.topic);
        Some(nudge.words)
    }

    /// Checks a cell of a small model: repairs damaged code, and rejects code that has already run.
    fn look_at(&mut self, code: String) -> (String, Option<String>) {
        if self.options.coaching == Coaching::Off {
            return (code, None);
        }
        let code = if self.language() == "python" {
            guidance::repair_torn(&code)
        } else {
            code
        };
        let (choice, reason) = match guidance::novelty(&code, &self.turn_cells()) {
            Novelty::New => (ToolChoice::Auto, None),
            Novelty::Done => (
                ToolChoice::None,
                Some(
                    "this is the same cell as before, so it was not run again. Give the answer from the output above",
                ),
            ),
            Novelty::Failed => (ToolChoice::Required, Some("this cell failed before")),
        };
        self.asking.choice = choice;
        (code, reason.map(str::to_owned))
    }
}

/// What happened, without the instructions to the model that follow.
fn first_sentence(reason: &str) -> &str {
    reason.split_once(". ").map_or(reason, |(what, _)| what)
}
