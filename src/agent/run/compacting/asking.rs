//! Contributions to a compaction: a summary from the model, and the variables from the kernels. Every wait has a time
//! limit; a missing contribution is mentioned in the text, and is never an error.

use std::sync::Arc;
use std::time::Duration;

use super::{Draft, as_many_bytes};
use crate::agent::guidance::Coaching;
use crate::agent::run::Session;
use crate::kernel::{Kernel, KernelError};
use crate::llm::tokens;
use crate::llm::types::{Delta, Message, Part, Prompt, Provider, ProviderError, ToolChoice, Usage};
use crate::session::compaction::{self, Inventory, Plan, Variables};

/// The request for a summary; the number of words is filled in.
const INSTRUCTION: &str = include_str!("../../prompts/compact.md");

/// How long a model may take for a summary.
const SUMMARY_WITHIN: Duration = Duration::from_mins(3);
/// How many bytes of its reply are used.
const SUMMARY_KEPT: usize = 64 << 10;
/// How long all kernels together may take to list their variables.
const INVENTORY_WITHIN: Duration = Duration::from_secs(8);

/// A request for a summary.
pub(super) struct SummaryRequest {
    pub(super) provider: Arc<dyn Provider>,
    /// From the best prompt to one that certainly fits.
    pub(super) prompts: Vec<Prompt>,
}

impl SummaryRequest {
    pub(super) async fn ask(self, draft: &mut Draft) {
        for prompt in self.prompts {
            let reply = tokio::time::timeout(SUMMARY_WITHIN, written(&*self.provider, prompt));
            let trouble = match reply.await {
                Ok(Ok((text, usage))) => {
                    *draft.usage.get_or_insert_default() += usage;
                    if !text.trim().is_empty() {
                        draft.work = Some(text.trim().to_owned());
                        draft.trouble = None;
                        return;
                    }
                    "its reply was empty".to_owned()
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it took too long".to_owned(),
            };
            draft.trouble = Some(trouble);
        }
    }
}

impl Session {
    /// The request for a summary; `None` if the model is too small to write one.
    pub(super) fn summary_request(&self, plan: &Plan, prompt: Prompt) -> Option<SummaryRequest> {
        let provider = self.options.provider.clone()?;
        if self.options.coaching == Coaching::Small || provider.info().small {
            return None;
        }
        let limit = self.limit();
        let words = (limit / 12).clamp(120, 900);
        let instruction = INSTRUCTION.replace("{words}", &words.to_string());
        // As text, without pictures and outputs: short enough, and without unanswered calls.
        let conversation =
            compaction::as_text(self.transcript.cells(), &plan.through, as_many_bytes(limit));
        let short = Prompt {
            messages: vec![Message::User(vec![
                Part::Text(format!("# The conversation so far\n{conversation}")),
                Part::Text(instruction.clone()),
            ])],
            tool_choice: ToolChoice::None,
            ..prompt.clone()
        };
        // The prompt that the provider has already cached, if the reply fits.
        let mut whole = prompt;
        whole.tool_choice = ToolChoice::None;
        let words = Part::Text(instruction);
        match whole.messages.last_mut() {
            Some(Message::User(parts) | Message::ToolResult { parts, .. }) => parts.push(words),
            Some(Message::Assistant { .. }) | None => {
                whole.messages.push(Message::User(vec![words]));
            }
        }
        let window = self.window().unwrap_or(tokens::ASSUMED_WINDOW);
        let fits = self.asking.budget.meter.tokens(tokens::weigh(&whole)) + limit / 6 <= window;
        let prompts = if fits {
            vec![whole, short]
        } else {
            vec![short]
        };
        Some(SummaryRequest { provider, prompts })
    }
}

/// The whole text of a reply.
async fn written(
    provider: &dyn Provider,
    prompt: Prompt,
) -> Result<(String, Usage), ProviderError> {
    let mut stream = provider.stream(prompt);
    let mut text = String::new();
    while let Some(delta) = futures_util::StreamExt::next(&mut stream).await {
        match delta? {
            Delta::Text(more) if text.len() < SUMMARY_KEPT => text.push_str(&more),
            // The text so far belongs to a reply that broke off.
            Delta::Retrying(_) => text.clear(),
            // It was told to call nothing; its calls are not carried out.
            Delta::Text(_)
            | Delta::Reasoning(_)
            | Delta::Native(_)
            | Delta::CallStart { .. }
            | Delta::CallArguments { .. } => {}
            Delta::Finished { usage, .. } => return Ok((text, usage)),
        }
    }
    Ok((text, Usage::default()))
}

/// The variables of running kernels, each with its language.
pub(super) async fn inventories(kernels: Vec<(String, Kernel)>) -> Vec<Inventory> {
    let asked = kernels.into_iter().map(|(language, kernel)| async move {
        let listed = tokio::time::timeout(INVENTORY_WITHIN, kernel.variables());
        let variables = match listed.await {
            Ok(Ok(all)) => Variables::Listed(all),
            Ok(Err(KernelError::Dead { .. } | KernelError::Closed)) => Variables::None,
            Ok(Err(error)) => Variables::Unknown(error.to_string()),
            Err(_) => Variables::Unknown("the kernel did not answer in time".to_owned()),
        };
        Inventory {
            language,
            variables,
        }
    });
    futures_util::future::join_all(asked).await
}
