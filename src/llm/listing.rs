//! What a server reports about its models: which ones it has, and their abilities.
//!
//! Every vendor answers in its own form and detail; what is not reported stays unknown. Only the requested server is
//! queried, within bounds: an answer that is too long or not a list is an error.

use futures_util::stream::StreamExt as _;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use super::endpoint::{Endpoint, Key, ProviderKind};
use super::http::root_cause;
use super::types::{ModelInfo, Price};

/// Maximum length of an answer in bytes: OpenRouter's list has half a megabyte.
const ANSWER_LIMIT: usize = 4 << 20;

/// Words in names of models that do not generate text.
const SILENT: [&str; 13] = [
    "embed",
    "whisper",
    "tts",
    "dall-e",
    "moderation",
    "transcribe",
    "realtime",
    "-audio",
    "gpt-image",
    "imagen",
    "sora",
    "veo-",
    "rerank",
];

/// A model on a server's list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its name there.
    pub name: String,
    /// What the server reports about it.
    pub facts: ModelFacts,
}

/// What a server reports about a model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelFacts {
    /// Context window in tokens, as configured on the server.
    pub context_window: Option<u64>,
    /// Maximum tokens of a reply.
    pub max_output: Option<u64>,
    /// Whether it reads images.
    pub vision: Option<bool>,
    /// Whether it calls tools.
    pub tools: Option<bool>,
    /// What it costs.
    pub price: Option<Price>,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// 401 or 403.
    #[error("it refuses the key (status {status})")]
    Refused {
        /// The status.
        status: u16,
    },
    /// The answer is not a list.
    #[error("it did not answer with a list of models (status {status})")]
    NoList {
        /// The status.
        status: u16,
    },
    /// No answer.
    #[error("no answer: {message}")]
    Unreachable {
        /// What the operating system or the TLS layer said.
        message: String,
    },
    /// The provider has no list that an API key can read.
    #[error("it lists no models")]
    Never,
}

impl ModelFacts {
    /// Fills in what `info` does not know yet.
    pub fn fill(&self, info: &mut ModelInfo) {
        info.context_window = info.context_window.or(self.context_window);
        info.max_output = info.max_output.or(self.max_output);
        info.tools = info.tools.or(self.tools);
        info.price = info.price.or(self.price);
        if !info.known {
            info.vision = self.vision.unwrap_or(info.vision);
        }
        info.known |= self.vision.is_some();
    }
}

/// The models that the server at `base_url` has.
pub async fn list(
    client: &Client,
    kind: ProviderKind,
    base_url: &str,
    key: Option<&Key>,
) -> Result<Vec<Listed>, ListError> {
    let url = match kind {
        ProviderKind::Ollama => format!("{base_url}/api/tags"),
        ProviderKind::Anthropic => format!("{base_url}/v1/models?limit=1000"),
        ProviderKind::Gemini => format!("{base_url}/v1beta/models?pageSize=1000"),
        ProviderKind::Mistral => format!("{base_url}/v1/models"),
        // Deployments are listed by another API, which needs another kind of key.
        ProviderKind::Azure => return Err(ListError::Never),
        ProviderKind::Bedrock => {
            let root = base_url.trim_end_matches("/anthropic");
            format!("{}/openai/v1/models", root.trim_end_matches("/openai/v1"))
        }
        ProviderKind::OpenAi
        | ProviderKind::OpenAiResponses
        | ProviderKind::OpenAiChat
        | ProviderKind::OpenRouter
        | ProviderKind::Groq
        | ProviderKind::DeepSeek
        | ProviderKind::LmStudio
        | ProviderKind::LlamaServer
        | ProviderKind::Vllm
        | ProviderKind::OpenAiCompatible => format!("{base_url}/models"),
    };
    let answer = ask(signed(client.get(url), kind, key)).await?;
    let entries = ["data", "models"]
        .iter()
        .find_map(|place| answer.get(place)?.as_array())
        .ok_or(ListError::NoList { status: 200 })?;
    Ok(entries.iter().filter_map(listed).collect())
}

/// What the server reports about the endpoint's model; `None` if nothing.
pub async fn inspect(client: &Client, endpoint: &Endpoint) -> Option<ModelFacts> {
    let key = endpoint.key.as_ref();
    let root = endpoint.base_url.trim_end_matches("/v1");
    let name = endpoint.model.as_str();
    match endpoint.kind {
        ProviderKind::Ollama => {
            let request = client
                .post(format!("{root}/api/show"))
                .json(&json!({ "model": name }));
            let answer = ask(signed(request, endpoint.kind, key)).await.ok()?;
            let capable = |what| has(answer.get("capabilities"), what);
            Some(ModelFacts {
                vision: capable("vision"),
                tools: capable("tools"),
                ..ModelFacts::default()
            })
        }
        ProviderKind::LlamaServer | ProviderKind::OpenAiCompatible => {
            let props = ask(signed(
                client.get(format!("{root}/props")),
                endpoint.kind,
                key,
            ))
            .await;
            let window = |props: &Value| {
                props
                    .pointer("/default_generation_settings/n_ctx")?
                    .as_u64()
            };
            match props.ok().and_then(|props| Some((window(&props)?, props))) {
                Some((context_window, props)) => Some(ModelFacts {
                    context_window: Some(context_window),
                    vision: props.pointer("/modalities/vision").and_then(Value::as_bool),
                    ..ModelFacts::default()
                }),
                None => listed_as(client, endpoint).await,
            }
        }
        ProviderKind::LmStudio => {
            let url = format!("{root}/api/v0/models/{name}");
            let answer = ask(signed(client.get(url), endpoint.kind, key)).await;
            match answer.ok().as_ref().and_then(listed) {
                Some(listed) => Some(listed.facts),
                None => listed_as(client, endpoint).await,
            }
        }
        ProviderKind::Vllm
        | ProviderKind::OpenAiResponses
        | ProviderKind::OpenRouter
        | ProviderKind::Groq
        | ProviderKind::Mistral
        | ProviderKind::Gemini => listed_as(client, endpoint).await,
        ProviderKind::OpenAi
        | ProviderKind::OpenAiChat
        | ProviderKind::Azure
        | ProviderKind::Bedrock
        | ProviderKind::Anthropic
        | ProviderKind::DeepSeek => None,
    }
}

async fn listed_as(client: &Client, endpoint: &Endpoint) -> Option<ModelFacts> {
    let key = endpoint.key.as_ref();
    let all = list(client, endpoint.kind, &endpoint.base_url, key).await;
    let found = all.ok()?.into_iter().find(|it| it.name == endpoint.model);
    found.map(|listed| listed.facts)
}

fn signed(request: RequestBuilder, kind: ProviderKind, key: Option<&Key>) -> RequestBuilder {
    let request = match kind {
        ProviderKind::Anthropic => request.header("anthropic-version", "2023-06-01"),
        _ => request,
    };
    let Some(key) = key else { return request };
    let secret = key.secret.expose();
    match kind {
        ProviderKind::Anthropic => request.header("x-api-key", secret),
        ProviderKind::Gemini => request.header("x-goog-api-key", secret),
        _ => request.bearer_auth(secret),
    }
}

async fn ask(request: RequestBuilder) -> Result<Value, ListError> {
    let unreachable = |error: reqwest::Error| ListError::Unreachable {
        message: root_cause(&error.without_url()),
    };
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status().as_u16();
    match status {
        200..300 => {}
        401 | 403 => return Err(ListError::Refused { status }),
        _ => return Err(ListError::NoList { status }),
    }
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(unreachable)?);
        if body.len() > ANSWER_LIMIT {
            return Err(ListError::NoList { status });
        }
    }
    serde_json::from_slice(&body).map_err(|_| ListError::NoList { status })
}

/// An entry of a list, if it is a model that generates text.
fn listed(entry: &Value) -> Option<Listed> {
    let name = ["id", "name", "model"]
        .iter()
        .find_map(|key| entry.get(key)?.as_str())?;
    let name = name.strip_prefix("models/").unwrap_or(name);
    let lower = name.to_ascii_lowercase();
    let talks = !SILENT.iter().any(|word| lower.contains(word))
        // Gemini's and Mistral's lists say whether it does.
        && has(entry.get("supportedGenerationMethods"), "generateContent") != Some(false)
        && entry.pointer("/capabilities/completion_chat") != Some(&Value::Bool(false));
    talks.then(|| Listed {
        name: name.to_owned(),
        facts: facts_of(entry),
    })
}

/// Reads the facts of an entry: vLLM, OpenRouter, Groq, Mistral, Gemini, LM Studio, llama-server, Anthropic.
fn facts_of(entry: &Value) -> ModelFacts {
    let number = |places: &[&str]| {
        places
            .iter()
            .find_map(|place| entry.pointer(place)?.as_u64())
            .filter(|number| *number > 0)
    };
    let flag = |place: &str| entry.pointer(place).and_then(Value::as_bool);
    let capable = |what| has(entry.get("capabilities"), what);
    ModelFacts {
        context_window: number(&[
            "/loaded_context_length",
            "/max_model_len",
            "/context_length",
            "/context_window",
            "/max_context_length",
            "/inputTokenLimit",
            "/max_input_tokens",
            "/meta/n_ctx",
        ]),
        max_output: number(&[
            "/top_provider/max_completion_tokens",
            "/max_completion_tokens",
            "/outputTokenLimit",
        ]),
        vision: flag("/capabilities/vision")
            .or_else(|| flag("/capabilities/image_input/supported"))
            .or_else(|| has(entry.pointer("/architecture/input_modalities"), "image"))
            .or_else(|| Some(entry.get("type")?.as_str()? == "vlm"))
            .or_else(|| capable("multimodal")),
        tools: flag("/capabilities/function_calling")
            .or_else(|| has(entry.get("supported_parameters"), "tools"))
            .or_else(|| capable("tool_use").filter(|can| *can)),
        price: price(entry.get("pricing")),
    }
}

/// Whether a list contains this word; `None` if it is not a list.
fn has(list: Option<&Value>, word: &str) -> Option<bool> {
    let list = list?.as_array()?;
    Some(list.iter().any(|item| item.as_str() == Some(word)))
}

/// OpenRouter's prices: dollars per token, as text. A negative one means "it depends".
fn price(pricing: Option<&Value>) -> Option<Price> {
    let at = |key: &str| -> Option<f64> {
        let dollars: f64 = pricing?.get(key)?.as_str()?.parse().ok()?;
        (dollars >= 0.0).then_some(dollars * 1e6)
    };
    let input = at("prompt")?;
    Some(Price {
        input,
        cached: at("input_cache_read").unwrap_or(input),
        written: at("input_cache_write").unwrap_or(input),
        output: at("completion")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entries: &[Value]) -> Vec<String> {
        let listed = entries.iter().filter_map(listed);
        listed.map(|listed| listed.name).collect()
    }

    #[test]
    fn only_models_that_talk_are_listed() {
        let entries = [
            json!({"id": "gpt-4o", "object": "model"}),
            json!({"id": "text-embedding-3-small"}),
            json!({"id": "whisper-1"}),
            json!({"name": "models/gemini-2.5-flash", "supportedGenerationMethods": ["generateContent"]}),
            json!({"name": "models/aqa", "supportedGenerationMethods": ["generateAnswer"]}),
            json!({"id": "mistral-ocr", "capabilities": {"completion_chat": false}}),
            json!({"name": "qwen3:4b", "model": "qwen3:4b"}),
            json!({"object": "model"}),
        ];
        assert_eq!(names(&entries), ["gpt-4o", "gemini-2.5-flash", "qwen3:4b"]);
    }

    #[test]
    fn each_vendors_facts_are_read() {
        let vllm = json!({"id": "m", "object": "model", "max_model_len": 32768});
        assert_eq!(
            facts_of(&vllm),
            ModelFacts {
                context_window: Some(32_768),
                ..ModelFacts::default()
            }
        );
        let router = json!({
            "id": "a/b", "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "top_provider": {"max_completion_tokens": 8192, "context_length": 200_000},
            "supported_parameters": ["max_tokens", "tools"],
            "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
        });
        let facts = facts_of(&router);
        assert_eq!(
            (
                facts.context_window,
                facts.max_output,
                facts.vision,
                facts.tools
            ),
            (Some(200_000), Some(8192), Some(true), Some(true))
        );
        let price = facts.price.unwrap();
        assert!((price.input - 3.0).abs() < 1e-9 && (price.cached - 0.3).abs() < 1e-9);
        assert!((price.output - 15.0).abs() < 1e-9 && (price.written - 3.0).abs() < 1e-9);
        let mistral = json!({"id": "m", "max_context_length": 131_072,
            "capabilities": {"completion_chat": true, "function_calling": true, "vision": false}});
        assert_eq!(
            facts_of(&mistral),
            ModelFacts {
                context_window: Some(131_072),
                vision: Some(false),
                tools: Some(true),
                ..ModelFacts::default()
            }
        );
        let studio = json!({"id": "m", "type": "vlm", "max_context_length": 131_072,
            "loaded_context_length": 8192, "capabilities": ["tool_use"]});
        assert_eq!(
            facts_of(&studio),
            ModelFacts {
                context_window: Some(8192),
                vision: Some(true),
                tools: Some(true),
                ..ModelFacts::default()
            }
        );
        let auto = json!({"id": "auto", "pricing": {"prompt": "-1", "completion": "-1"}});
        assert_eq!(facts_of(&auto), ModelFacts::default());
    }

    #[test]
    fn what_is_known_otherwise_is_not_overwritten() {
        let mut info = ModelInfo {
            context_window: Some(1000),
            vision: true,
            known: true,
            ..ModelInfo::default()
        };
        let facts = ModelFacts {
            context_window: Some(2000),
            max_output: Some(10),
            vision: Some(false),
            ..ModelFacts::default()
        };
        facts.fill(&mut info);
        assert_eq!(
            info,
            ModelInfo {
                context_window: Some(1000),
                max_output: Some(10),
                vision: true,
                known: true,
                ..ModelInfo::default()
            }
        );
    }
}
