//! The model's reply while it streams: shows it as it arrives, and stores the text of a reply that breaks off.

use super::{Coaching, Edit, EventKind, Input, Sampling, Session, random_cell_id};
use crate::agent::sampling::{Ended, Progress};
use crate::llm::types::{Delta, ProviderError, Retrying};

/// The next piece of the reply; never resolves if there is none.
pub(super) async fn next_delta(
    sampling: Option<&mut Sampling>,
) -> Option<Result<Delta, ProviderError>> {
    match sampling {
        Some(sampling) => futures_util::StreamExt::next(&mut sampling.stream).await,
        None => std::future::pending().await,
    }
}

impl Session {
    /// The provider's stream yielded `delta`; `None` is its end.
    pub(super) async fn sampled(&mut self, delta: Option<Result<Delta, ProviderError>>) {
        let Some(sampling) = &mut self.asking.sampling else {
            return;
        };
        match delta {
            Some(Ok(delta)) => match sampling.take(delta, &mut random_cell_id) {
                // A small model's answer is checked before anyone sees it.
                Progress::Text(_) | Progress::LaterText { .. }
                    if self.options.coaching == Coaching::Small => {}
                Progress::LaterText { cell, text } => {
                    self.publish(EventKind::Text { cell, text });
                }
                Progress::Text(text) => {
                    let cell = sampling
                        .text_cell
                        .get_or_insert_with(random_cell_id)
                        .clone();
                    let step = sampling.step;
                    self.say(cell, step, text);
                }
                Progress::Reasoning(text) => self.publish(EventKind::Reasoning { text }),
                Progress::Code {
                    cell,
                    text,
                    language,
                } => {
                    let cut =
                        self.options.coaching == Coaching::Small && sampling.goes_in_circles();
                    if cut {
                        sampling.ended = Ended::Circles;
                    }
                    let language = language.map(|named| self.kernels.language_of(named));
                    self.publish(EventKind::CodeDelta {
                        cell,
                        text,
                        language,
                    });
                    if cut && let Some(sampling) = self.asking.sampling.take() {
                        self.replied(sampling).await;
                    }
                }
                Progress::Native(native) => {
                    let step = sampling.step;
                    self.edit(Edit::Keep { step, native });
                }
                Progress::Nothing => {}
                Progress::Again { why, cell } => self.asked_again(&why, cell),
                Progress::Complete { usage } => {
                    self.asking.budget.replied(usage);
                    self.spend(usage);
                    if let Some(sampling) = self.asking.sampling.take() {
                        self.replied(sampling).await;
                    }
                }
            },
            Some(Err(error)) => {
                self.break_off("cut off");
                if let ProviderError::ContextTooLong { message } = &error
                    && self.refused(message)
                {
                    return;
                }
                self.drive(model_failed(&error)).await;
            }
            None => {
                self.break_off("cut off");
                let message = "the reply ended without an end".to_owned();
                self.drive(Input::ModelFailed {
                    message,
                    key_variable: None,
                })
                .await;
            }
        }
    }

    /// The reply is requested again. Its text so far stays visible to the person; the model does not get it.
    fn asked_again(&mut self, why: &Retrying, cell: Option<String>) {
        if let Some(cell) = &cell {
            self.edit(Edit::CutOff {
                cell: cell.clone(),
                reason: why.error.to_string(),
            });
        }
        self.publish(EventKind::Retrying {
            message: why.error.to_string(),
            wait_ms: u64::try_from(why.wait.as_millis()).unwrap_or(u64::MAX),
            attempt: why.attempt,
            of: why.of,
            cell,
        });
    }

    /// Ends the streaming reply; its text is stored with a mark.
    pub(super) fn break_off(&mut self, how: &str) {
        let Some(mut sampling) = self.asking.sampling.take() else {
            return;
        };
        let later = sampling.later.last().map(|last| last.cell.clone());
        self.keep_later_words(&mut sampling, usize::MAX);
        if let Some(cell) = later.or(sampling.text_cell) {
            self.edit(Edit::AppendText {
                cell,
                step: sampling.step,
                text: format!("\n\n*({how})*"),
            });
        }
    }
}

fn model_failed(error: &ProviderError) -> Input {
    let key_variable = match error {
        ProviderError::Unauthorized { variable, .. } => variable.clone(),
        _ => None,
    };
    Input::ModelFailed {
        message: error.to_string(),
        key_variable,
    }
}
