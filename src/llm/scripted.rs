//! A model that plays back scripted replies, for tests of the agent loop only.
//!
//! It is part of the library because the integration tests live in another crate. It proves that the loop handles a
//! reply, not that a model would give one; wires are tested against real servers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{self, StreamExt};

use super::types::{
    BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError, StopReason, Usage,
};

/// A provider that plays back replies in order. Clones share the script and the record.
#[derive(Debug, Clone)]
pub struct ScriptedProvider {
    info: ModelInfo,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    replies: VecDeque<Reply>,
    prompts: Vec<Prompt>,
}

/// One reply, played back unchanged: a script may break the rules of [`Provider::stream`] on purpose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    steps: Vec<Step>,
}

/// One step of a [`Reply`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Yield this.
    Delta(Delta),
    /// Fail with this.
    Error(ProviderError),
    /// Say nothing more, forever: for tests of cancellation.
    Hang,
}

impl ScriptedProvider {
    /// A model with `info` that gives `replies`, one per request.
    pub fn new(info: ModelInfo, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            info,
            state: Arc::new(Mutex::new(State {
                replies: replies.into_iter().collect(),
                prompts: Vec::new(),
            })),
        }
    }

    /// Appends more replies.
    pub fn extend(&self, replies: impl IntoIterator<Item = Reply>) {
        self.lock().replies.extend(replies);
    }

    /// The prompts received so far, oldest first.
    pub fn prompts(&self) -> Vec<Prompt> {
        self.lock().prompts.clone()
    }

    /// Number of replies not requested yet.
    pub fn unused(&self) -> usize {
        self.lock().replies.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for ScriptedProvider {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        let mut state = self.lock();
        state.prompts.push(prompt);
        let asked = state.prompts.len();
        let reply = state.replies.pop_front().unwrap_or_else(|| {
            Reply::error(ProviderError::Malformed {
                endpoint: "script".to_owned(),
                message: format!("the script has no reply to request {asked}"),
            })
        });
        Box::pin(stream::iter(reply.steps).then(|step| async {
            match step {
                Step::Delta(delta) => Ok(delta),
                Step::Error(error) => Err(error),
                Step::Hang => std::future::pending().await,
            }
        }))
    }
}

impl Reply {
    /// A reply of exactly these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
        }
    }

    /// A reply that fails at once.
    pub fn error(error: ProviderError) -> Self {
        Self::new([Step::Error(error)])
    }

    /// A complete answer as text, split at spaces as a model streams.
    pub fn text(text: &str) -> Self {
        let mut steps: Vec<Step> = text
            .split_inclusive(' ')
            .map(|word| Step::Delta(Delta::Text(word.to_owned())))
            .collect();
        steps.push(finished(StopReason::Done));
        Self::new(steps)
    }

    /// A complete reply: optional text, then one tool call with these raw arguments, in two fragments.
    pub fn call(text: &str, id: &str, tool: &str, arguments: &str) -> Self {
        let half = arguments.floor_char_boundary(arguments.len() / 2);
        let (first, second) = arguments.split_at(half);
        let fragment = |fragment: &str| {
            Step::Delta(Delta::CallArguments {
                index: 0,
                fragment: fragment.to_owned(),
            })
        };
        let mut steps = Vec::new();
        if !text.is_empty() {
            steps.push(Step::Delta(Delta::Text(text.to_owned())));
        }
        steps.extend([
            Step::Delta(Delta::CallStart {
                index: 0,
                id: id.to_owned(),
                name: tool.to_owned(),
            }),
            fragment(first),
            fragment(second),
            finished(StopReason::ToolCalls),
        ]);
        Self::new(steps)
    }
}

fn finished(reason: StopReason) -> Step {
    Step::Delta(Delta::Finished {
        reason,
        usage: Usage {
            input: 10,
            cached: 0,
            written: 0,
            output: 5,
            cost: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::types::{Message, Part};

    fn prompt(question: &str) -> Prompt {
        Prompt {
            system: "be brief".to_owned(),
            messages: vec![Message::User(vec![Part::Text(question.to_owned())])],
            tools: Vec::new(),
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
            tool_choice: crate::llm::types::ToolChoice::Auto,
        }
    }

    fn model(replies: impl IntoIterator<Item = Reply>) -> ScriptedProvider {
        let info = ModelInfo {
            name: "scripted/one".to_owned(),
            ..ModelInfo::default()
        };
        ScriptedProvider::new(info, replies)
    }

    #[tokio::test]
    async fn replies_come_in_order_and_prompts_are_recorded() {
        let model = model([Reply::call(
            "Let me see.",
            "c1",
            "run_code",
            r#"{"code":"1+1"}"#,
        )]);

        let first: Vec<_> = model.stream(prompt("1+1?")).collect().await;
        let second: Vec<_> = model.stream(prompt("and?")).collect().await;

        assert_eq!(
            first,
            vec![
                Ok(Delta::Text("Let me see.".to_owned())),
                Ok(Delta::CallStart {
                    index: 0,
                    id: "c1".to_owned(),
                    name: "run_code".to_owned()
                }),
                Ok(Delta::CallArguments {
                    index: 0,
                    fragment: r#"{"code""#.to_owned()
                }),
                Ok(Delta::CallArguments {
                    index: 0,
                    fragment: r#":"1+1"}"#.to_owned()
                }),
                Ok(Delta::Finished {
                    reason: StopReason::ToolCalls,
                    usage: Usage {
                        input: 10,
                        cached: 0,
                        written: 0,
                        output: 5,
                        cost: None,
                    }
                }),
            ]
        );
        assert_eq!(
            second,
            vec![Err(ProviderError::Malformed {
                endpoint: "script".to_owned(),
                message: "the script has no reply to request 2".to_owned()
            })]
        );
        assert_eq!(model.prompts(), vec![prompt("1+1?"), prompt("and?")]);
        assert_eq!(model.unused(), 0);
    }
}
