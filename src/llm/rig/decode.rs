//! The library's events as [`Delta`]s.

use std::collections::VecDeque;

use rig_core::completion::{CompletionResponse, FinishReason, Usage as RigUsage};
use rig_core::message::{AssistantContent, ToolName};
use rig_core::streaming::{Part, PartKind, StreamEvent};

use super::super::types::{Cost, Delta, StopReason, Usage};
use super::native;

/// State of a reply while it streams.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The parts of the reply that are tool calls; the position here is our index of the call.
    calls: Vec<Part>,
    /// The part whose text or arguments came last: a part that ends without having been here arrived in one piece.
    growing: Option<Part>,
    /// Whether the reply contains anything but reasoning.
    answered: bool,
}

impl Decoder {
    /// Appends the deltas of `event`, if any, to `deltas`.
    pub(super) fn event(&mut self, event: StreamEvent, deltas: &mut VecDeque<Delta>) {
        match event {
            StreamEvent::Start {
                part,
                kind: PartKind::ToolCall,
                name,
            } => self.start_call(part, name.as_ref(), deltas),
            StreamEvent::Start { .. } => {}
            StreamEvent::Text { part, text } => {
                self.growing = Some(part);
                self.answered = true;
                deltas.push_back(Delta::Text(text));
            }
            StreamEvent::Reasoning { part, text } => {
                self.growing = Some(part);
                deltas.push_back(Delta::Reasoning(text));
            }
            StreamEvent::Arguments { part, json } => {
                self.growing = Some(part);
                if let Some(index) = self.calls.iter().position(|call| *call == part) {
                    deltas.push_back(Delta::CallArguments {
                        index,
                        fragment: json,
                    });
                }
            }
            StreamEvent::End { part, content } => self.end(part, content, deltas),
        }
    }

    /// Appends the last deltas, or returns what is wrong with a reply that ended properly on the wire.
    pub(super) fn finish(
        &self,
        response: &CompletionResponse,
        deltas: &mut VecDeque<Delta>,
    ) -> Result<(), String> {
        let reason = self.reason(response.finish_reason(), response.error.is_some())?;
        if reason != StopReason::Refused
            && let Some(native) = native::keep(response)
        {
            deltas.push_back(Delta::Native(native));
        }
        deltas.push_back(Delta::Finished {
            reason,
            usage: usage(&response.usage),
        });
        Ok(())
    }

    fn start_call(&mut self, part: Part, name: Option<&ToolName>, deltas: &mut VecDeque<Delta>) {
        self.answered = true;
        let index = self.calls.len();
        self.calls.push(part);
        deltas.push_back(Delta::CallStart {
            index,
            id: format!("call_{}", uuid::Uuid::new_v4().simple()),
            name: name.map(ToString::to_string).unwrap_or_default(),
        });
    }

    /// Text that never streamed is yielded when its part ends. Calls always stream.
    fn end(&mut self, part: Part, content: AssistantContent, deltas: &mut VecDeque<Delta>) {
        let grew = self.growing.take() == Some(part);
        match content {
            AssistantContent::Text(text) if !grew && !text.text.is_empty() => {
                self.answered = true;
                deltas.push_back(Delta::Text(text.text));
            }
            _ => {}
        }
    }

    fn reason(&self, reason: Option<FinishReason>, failed: bool) -> Result<StopReason, String> {
        let done = if self.calls.is_empty() {
            StopReason::Done
        } else {
            StopReason::ToolCalls
        };
        match reason {
            Some(FinishReason::ContentFilter) => Ok(StopReason::Refused),
            _ if failed => Ok(StopReason::Refused),
            Some(FinishReason::Length) => Ok(StopReason::Length),
            Some(FinishReason::Stop | FinishReason::ToolCalls) | None => Ok(done),
            Some(FinishReason::Other(reason)) if reason.contains("context_window") => {
                Ok(StopReason::Length)
            }
            // A gateway's own reason: accepted if there was any content.
            Some(_) if self.answered => Ok(done),
            Some(FinishReason::Other(reason)) => Err(format!(
                "the model stopped without an answer, reason `{reason}`"
            )),
            Some(_) => Err("the model stopped without an answer".to_owned()),
        }
    }
}

fn usage(usage: &RigUsage) -> Usage {
    Usage {
        input: usage.input_tokens.unwrap_or_default(),
        cached: usage.cached_input_tokens.unwrap_or_default(),
        written: usage.cache_creation_input_tokens.unwrap_or_default(),
        output: usage.output_tokens.unwrap_or_default(),
        cost: usage
            .cost
            .map(|cost| cost.total)
            .filter(|total| total.is_finite())
            .map(Cost::dollars),
    }
}
