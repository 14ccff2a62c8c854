//! How a model is asked to run code: as configured, otherwise as suits it; and how a small model is helped.

use std::sync::Arc;

use super::{Chosen, Wanted};
use crate::agent::guidance::Coaching;
use crate::agent::prompt;
use crate::app::Notify;
use crate::llm::coded::Coded;
use crate::llm::constrained::ConstrainedOptions;
use crate::llm::endpoint::ProviderKind;
use crate::llm::fallback::Fallback;
use crate::llm::fenced::FencedOptions;
use crate::llm::mode::CodeMode;
use crate::llm::native::Explaining;
use crate::llm::tuning::Tuning;
use crate::llm::types::{Provider, ProviderError};
use crate::llm::wording::Wording;

/// How many bytes of a cell's text a model gets.
pub(in crate::app) const OUTPUT_BUDGET: usize = 8_000;
/// How many a small model gets.
const SMALL_BUDGET: usize = 600;

/// Prepares `provider` as wanted.
pub(super) fn ready(
    provider: Arc<dyn Provider>,
    kind: ProviderKind,
    wanted: &Wanted<'_>,
    notify: &Notify,
) -> Chosen {
    // Self-hosted servers have small models of all kinds; vendors' own models are trained on tools.
    let coached = provider.info().small && keeps_to_schemas(kind);
    let suits = match (coached, provider.info().tools) {
        (true, _) => CodeMode::Json,
        (false, Some(false)) => CodeMode::Fenced,
        (false, Some(true) | None) => CodeMode::Tools,
    };
    let mode = wanted.mode.unwrap_or(suits);
    let tuning = if coached {
        small_tuning()
    } else {
        Tuning::default()
    };
    let fenced = |provider: Arc<dyn Provider>| -> Arc<dyn Provider> {
        Arc::new(Coded::new(
            provider,
            fenced_options(wanted.language, coached, tuning.clone()),
        ))
    };
    let provider: Arc<dyn Provider> = match mode {
        CodeMode::Json => {
            let options = constrained_options(coached, tuning.clone());
            Arc::new(Coded::new(provider, options))
        }
        CodeMode::Fenced => fenced(provider),
        CodeMode::Tools => {
            let native: Arc<dyn Provider> = if writes_calls(kind) {
                Arc::new(Coded::new(Arc::clone(&provider), tuning.clone()))
            } else {
                Arc::clone(&provider)
            };
            if wanted.mode.is_some() {
                Arc::new(Explaining(native))
            } else {
                let notify = notify.clone();
                let say = move |error: &ProviderError| say(error, &notify);
                Arc::new(Fallback::new(native, fenced(provider), say))
            }
        }
    };
    Chosen {
        provider,
        coaching: if coached {
            Coaching::Small
        } else {
            Coaching::Off
        },
        output_budget: if coached { SMALL_BUDGET } else { OUTPUT_BUDGET },
        system: match (coached, wanted.language) {
            (true, "python") => prompt::small_system(mode),
            // The examples are in Python; for another language, the ordinary prompt does less harm.
            (_, language) => prompt::system(language),
        },
        own: None,
    }
}

fn say(error: &ProviderError, notify: &Notify) {
    notify.warning(format!(
        "{error}; it is asked to write fenced code instead (--code-mode fenced)"
    ));
}

fn small_tuning() -> Tuning {
    Tuning {
        few_shot: prompt::small_examples(),
        max_output_tokens: Some(700),
        temperature: Some(0.0),
        forgets: true,
    }
}

fn constrained_options(coached: bool, tuning: Tuning) -> ConstrainedOptions {
    let usual = ConstrainedOptions::default();
    if !coached {
        return ConstrainedOptions { tuning, ..usual };
    }
    ConstrainedOptions {
        // The small prompt already says it.
        instructions: String::new(),
        wording: Wording {
            after_output:
                "If this answers the question, reply with {\"answer\"}; otherwise run another cell."
                    .to_owned(),
            after_error: String::new(),
            ..usual.wording
        },
        tuning,
    }
}

fn fenced_options(language: &str, coached: bool, tuning: Tuning) -> FencedOptions {
    let usual = FencedOptions::new(language);
    if !coached {
        return FencedOptions { tuning, ..usual };
    }
    FencedOptions {
        // The small prompt already says it.
        instructions: String::new(),
        wording: Wording {
            after_output:
                "If this answers the question, answer it in words; otherwise write another cell."
                    .to_owned(),
            ..usual.wording
        },
        only_code: "Reply with one ```{language} block.".replace("{language}", language),
        only_words: "Reply in words, without code.".to_owned(),
        tuning,
        ..usual
    }
}

/// Whether servers of this kind honour a JSON schema for the reply.
fn keeps_to_schemas(kind: ProviderKind) -> bool {
    match kind {
        ProviderKind::LlamaServer
        | ProviderKind::LmStudio
        | ProviderKind::Vllm
        | ProviderKind::Ollama
        | ProviderKind::OpenAiResponses
        | ProviderKind::OpenAiCompatible => true,
        ProviderKind::OpenAi
        | ProviderKind::OpenAiChat
        | ProviderKind::Azure
        | ProviderKind::Bedrock
        | ProviderKind::Anthropic
        | ProviderKind::Gemini
        | ProviderKind::OpenRouter
        | ProviderKind::Groq
        | ProviderKind::DeepSeek
        | ProviderKind::Mistral => false,
    }
}

/// Whether models behind servers of this kind may write their calls as text.
fn writes_calls(kind: ProviderKind) -> bool {
    match kind {
        ProviderKind::OpenAi
        | ProviderKind::OpenAiChat
        | ProviderKind::Azure
        | ProviderKind::Anthropic
        | ProviderKind::Gemini => false,
        ProviderKind::LlamaServer
        | ProviderKind::LmStudio
        | ProviderKind::Vllm
        | ProviderKind::Ollama
        | ProviderKind::OpenAiResponses
        | ProviderKind::OpenAiCompatible
        | ProviderKind::Bedrock
        | ProviderKind::OpenRouter
        | ProviderKind::Groq
        | ProviderKind::DeepSeek
        | ProviderKind::Mistral => true,
    }
}
