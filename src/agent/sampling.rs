//! One streaming reply of the model: its text, its calls, and what is new to show.

use super::tools;
use crate::llm::types::{BoxStream, Delta, Native, ProviderError, Retrying, StopReason, Usage};

/// A reply in progress.
pub(super) struct Sampling {
    pub(super) stream: BoxStream<'static, Result<Delta, ProviderError>>,
    pub(super) step: u32,
    /// The id of the assistant cell, once there is text.
    pub(super) text_cell: Option<String>,
    pub(super) text: String,
    pub(super) calls: Vec<PartialCall>,
    /// Text after calls: it becomes cells between those of the calls, which exist once the reply is complete.
    pub(super) later: Vec<LaterWords>,
    pub(super) ended: Ended,
}

/// Text of a reply that came after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaterWords {
    /// The number of calls before it.
    pub(super) calls: usize,
    pub(super) cell: String,
    pub(super) text: String,
}

/// How a reply ended, for the message about an incomplete call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Regularly, or not yet.
    Whole,
    /// At the length limit.
    Limit,
    /// Stopped because it repeated itself.
    Circles,
}

/// A call in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartialCall {
    pub(super) cell: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// The code shown so far.
    shown: String,
}

impl PartialCall {
    /// The code shown so far.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

/// What a delta adds.
#[derive(Debug, PartialEq)]
pub(super) enum Progress {
    /// More text.
    Text(String),
    /// More text after a call, and the id of its future cell.
    LaterText { cell: String, text: String },
    /// More reasoning.
    Reasoning(String),
    /// More code for the call's future cell.
    Code {
        cell: String,
        text: String,
        /// The language, as the model names it, where it has by now.
        language: Option<String>,
    },
    /// Data that the provider needs back.
    Native(Native),
    /// Nothing to show.
    Nothing,
    /// The reply so far is void, and was shown in this cell if there is one; the reply starts again.
    Again { why: Retrying, cell: Option<String> },
    /// The reply is complete.
    Complete { usage: Usage },
}

impl Sampling {
    pub(super) fn new(stream: BoxStream<'static, Result<Delta, ProviderError>>, step: u32) -> Self {
        Self {
            stream,
            step,
            text_cell: None,
            text: String::new(),
            calls: Vec::new(),
            later: Vec::new(),
            ended: Ended::Whole,
        }
    }

    /// Processes a delta; `new_id` generates ids of new cells.
    pub(super) fn take(&mut self, delta: Delta, new_id: &mut dyn FnMut() -> String) -> Progress {
        match delta {
            Delta::Text(text) => {
                self.text.push_str(&text);
                if self.calls.is_empty() {
                    Progress::Text(text)
                } else {
                    self.later_text(text, new_id)
                }
            }
            Delta::Reasoning(text) => Progress::Reasoning(text),
            Delta::CallStart { index, id, name } => {
                let call = self.call(index, new_id);
                // Without an id the result could not refer to its call.
                call.id = if id.is_empty() {
                    format!("call_{}", call.cell)
                } else {
                    id
                };
                call.name = name;
                Progress::Nothing
            }
            Delta::CallArguments { index, fragment } => {
                let call = self.call(index, new_id);
                call.arguments.push_str(&fragment);
                let tools::Partial { code, language } = tools::partial(&call.arguments);
                match code.strip_prefix(&call.shown) {
                    Some(new) if !new.is_empty() => {
                        let text = new.to_owned();
                        call.shown = code;
                        Progress::Code {
                            cell: call.cell.clone(),
                            text,
                            language,
                        }
                    }
                    _ => Progress::Nothing,
                }
            }
            Delta::Retrying(why) => {
                self.text.clear();
                self.calls.clear();
                self.later.clear();
                Progress::Again {
                    why,
                    cell: self.text_cell.take(),
                }
            }
            Delta::Native(native) => Progress::Native(native),
            Delta::Finished { reason, usage } => {
                if reason == StopReason::Length {
                    self.ended = Ended::Limit;
                }
                Progress::Complete { usage }
            }
        }
    }

    fn later_text(&mut self, text: String, new_id: &mut dyn FnMut() -> String) -> Progress {
        let calls = self.calls.len();
        let kept = match self.later.last_mut().filter(|last| last.calls == calls) {
            Some(last) => last,
            None if text.trim().is_empty() => return Progress::Nothing,
            None => {
                let cell = new_id();
                self.later.push(LaterWords {
                    calls,
                    cell,
                    text: String::new(),
                });
                let at = self.later.len() - 1;
                &mut self.later[at]
            }
        };
        // Leading blank lines only separate it from the code.
        let new = if kept.text.is_empty() {
            text.trim_start()
        } else {
            &text
        };
        kept.text.push_str(new);
        Progress::LaterText {
            cell: kept.cell.clone(),
            text,
        }
    }

    /// Whether the streaming code repeats one line again and again: a small model that has begun this does not stop
    /// before its limit.
    pub(super) fn goes_in_circles(&self) -> bool {
        /// Characters below which a line may legitimately be repeated.
        const LONG: usize = 40;
        const OFTEN: usize = 4;
        let Some(code) = self.calls.last().map(|call| call.shown.as_str()) else {
            return false;
        };
        // The last line is incomplete, unless the next one has begun.
        let Some((written, _)) = code.rsplit_once('\n') else {
            return false;
        };
        let mut lines = written.lines().rev().map(str::trim);
        let Some(last) = lines.next().filter(|line| line.len() >= LONG) else {
            return false;
        };
        lines.filter(|line| *line == last).count() + 1 >= OFTEN
    }

    fn call(&mut self, index: usize, new_id: &mut dyn FnMut() -> String) -> &mut PartialCall {
        // No valid reply has more calls than this; the rest goes to the last one, which then fails to parse.
        const MOST: usize = 64;
        let index = index.min(MOST - 1);
        while self.calls.len() <= index {
            let cell = new_id();
            self.calls.push(PartialCall {
                id: format!("call_{cell}"),
                cell,
                ..PartialCall::default()
            });
        }
        &mut self.calls[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_goes_in_circles_is_noticed() {
        let line = "frame['month'] = frame['month'].astype('category')";
        let sampled = |code: &str| {
            let mut sampling = Sampling::new(Box::pin(futures_util::stream::empty()), 1);
            let fragment = serde_json::json!({ "code": code }).to_string();
            let delta = Delta::CallArguments { index: 0, fragment };
            sampling.take(delta, &mut || "cell".to_owned());
            sampling.goes_in_circles()
        };
        assert!(!sampled(&format!("{line}\n").repeat(3)));
        assert!(!sampled(&"plt.show()\n".repeat(9)));
        assert!(sampled(&format!("{line}\n").repeat(4)));
        assert!(sampled(&(format!("x = 1\n{line}\n").repeat(4) + "y")));
    }
}
