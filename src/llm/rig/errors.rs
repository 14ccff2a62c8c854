//! Converts the library's errors to [`ProviderError`]s: facts a person can act on, and never a key.

use std::time::Duration;

use rig_core::ProviderResponseError;
use rig_core::error::ProviderError as RigError;
use rig_core::http_client::{Error as HttpError, HeaderMap};
use serde_json::Value;

use super::super::catalog::near;
use super::super::endpoint::{Endpoint, KeySource};
use super::super::http::root_cause;
use super::super::listing;
use super::super::providers::catalogued;
use super::super::types::ProviderError;

/// Maximum length of a server's message in an error.
const MESSAGE_LIMIT: usize = 600;

/// How servers report that a prompt is too long.
const TOO_LONG: [&str; 19] = [
    // OpenAI, and most servers with its wires.
    "context_length_exceeded",
    "exceeds the context window",
    "maximum context length",
    "reduce the length of the messages",
    // Anthropic: prompt alone, prompt with reply, in a stream; Bedrock.
    "prompt is too long",
    "exceed context limit",
    "model_context_window_exceeded",
    "input is too long",
    // Gemini.
    "exceeds the maximum number of tokens",
    // llama-server.
    "exceed_context_size_error",
    "available context size",
    // LM Studio.
    "context length of only",
    "greater than the context length",
    // Ollama.
    "exceeds the context length",
    // vLLM.
    "maximum model length",
    // xAI, Cohere, Moonshot, MiniMax.
    "maximum prompt length",
    "too many tokens",
    "exceeded model token limit",
    "context window exceeds limit",
];

/// How servers report an unknown model: OpenAI, Groq, vLLM and LM Studio; DeepSeek; OpenRouter; Mistral; Azure;
/// Bedrock.
const NO_MODEL: [&str; 8] = [
    "model_not_found",
    "model not exist",
    "model does not exist",
    "not a valid model",
    "invalid model",
    "invalid_model",
    "deploymentnotfound",
    "model identifier is invalid",
];

/// Limit for listing the models when one was not found.
const LIST_WITHIN: Duration = Duration::from_secs(3);

/// The endpoint: named in every error, and the key to redact.
pub(super) struct Origin {
    asked: Endpoint,
    client: reqwest::Client,
}

impl Origin {
    pub(super) fn of(endpoint: &Endpoint, client: reqwest::Client) -> Self {
        Self {
            asked: endpoint.clone(),
            client,
        }
    }

    /// Converts `error`, adding similar model names if the model was not found.
    pub(super) async fn explained(&self, error: &RigError) -> ProviderError {
        let mut error = self.error(error);
        if let ProviderError::UnknownModel { model, near, .. } = &mut error {
            *near = self.near(model).await;
        }
        error
    }

    async fn near(&self, model: &str) -> Vec<String> {
        let Endpoint {
            kind,
            base_url,
            key,
            ..
        } = &self.asked;
        let asked = listing::list(&self.client, *kind, base_url, key.as_ref());
        match tokio::time::timeout(LIST_WITHIN, asked).await {
            Ok(Ok(listed)) => near(model, listed.iter().map(|listed| listed.name.as_str())),
            Ok(Err(_)) | Err(_) => near(model, catalogued(*kind).into_iter()),
        }
    }

    fn endpoint(&self) -> String {
        self.asked.base_url.clone()
    }

    /// Converts `error`.
    pub(super) fn error(&self, error: &RigError) -> ProviderError {
        match error {
            RigError::Http(error) => self.transport(error),
            RigError::ProviderResponse(response)
            | RigError::InvalidAuthentication(response)
            | RigError::CacheExpired { response, .. } => self.response(response),
            RigError::Truncated => {
                self.truncated("the server closed the stream before the reply was complete")
            }
            RigError::Json(error) => ProviderError::Garbled {
                endpoint: self.endpoint(),
                message: self.clean(&error.to_string()),
            },
            RigError::Request(error) => self.unsendable(&error.to_string()),
            RigError::UnsupportedOption(error) => self.unsendable(&error.to_string()),
            RigError::Url(error) => self.unsendable(&error.to_string()),
            error => self.malformed(error.to_string()),
        }
    }

    pub(super) fn unsendable(&self, message: &str) -> ProviderError {
        ProviderError::Unsendable {
            endpoint: self.endpoint(),
            message: self.clean(message),
        }
    }

    pub(super) fn stalled(&self, after: Duration) -> ProviderError {
        ProviderError::Stalled {
            endpoint: self.endpoint(),
            after,
        }
    }

    pub(super) fn malformed(&self, message: impl AsRef<str>) -> ProviderError {
        ProviderError::Malformed {
            endpoint: self.endpoint(),
            message: self.clean(message.as_ref()),
        }
    }

    fn truncated(&self, message: &str) -> ProviderError {
        ProviderError::Truncated {
            endpoint: self.endpoint(),
            message: self.clean(message),
        }
    }

    fn transport(&self, error: &HttpError) -> ProviderError {
        match error {
            HttpError::Instance(cause) => {
                let message = root_cause(cause.as_ref());
                match cause.downcast_ref::<reqwest::Error>() {
                    Some(error) if error.is_body() || error.is_decode() => self.truncated(&message),
                    _ => ProviderError::Unreachable {
                        endpoint: self.endpoint(),
                        message: self.clean(&message),
                    },
                }
            }
            HttpError::InvalidContentType(kind) => self.malformed(format!(
                "it answered with `{}` where an event stream was expected; is the base URL right?",
                kind.to_str().unwrap_or("unreadable")
            )),
            HttpError::StreamEnded => self.truncated("the stream ended"),
            HttpError::Protocol(_)
            | HttpError::InvalidStatusCodeWithDetails { .. }
            | HttpError::InvalidHeaderValue(_)
            | HttpError::NoHeaders => self.unsendable(&error.to_string()),
        }
    }

    fn response(&self, response: &ProviderResponseError) -> ProviderError {
        let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let message = self.clean(&message(&body, &response.body));
        // Gateways report a failure inside a reply that began with 200, with the status as its code.
        let status = response
            .status
            .map(|status| status.as_u16())
            .filter(|status| !(200..300).contains(status))
            .or_else(|| status_within(&body, response.machine_code().as_deref()))
            .unwrap_or(200);
        self.refusal(status, message, response, &body)
    }

    fn refusal(
        &self,
        status: u16,
        message: String,
        response: &ProviderResponseError,
        body: &Value,
    ) -> ProviderError {
        let endpoint = self.endpoint();
        let said = response.body.as_str();
        if matches!(status, 200 | 400 | 413 | 422 | 500) && too_long(said) {
            return ProviderError::ContextTooLong { message };
        }
        if matches!(status, 400 | 404 | 422) && self.no_model(status, said) {
            return ProviderError::UnknownModel {
                endpoint,
                model: self.asked.model.clone(),
                message,
                near: Vec::new(),
            };
        }
        match status {
            // Gemini reports an invalid key as a bad request.
            400 if said.contains("API_KEY_INVALID") => self.unauthorized(message),
            401 | 403 => self.unauthorized(message),
            // Retrying does not help an empty account.
            429 if said.contains("insufficient_quota") => ProviderError::Rejected {
                endpoint,
                status,
                message,
            },
            408 | 425 | 429 | 500 | 502 | 503 | 504 | 520..=529 => ProviderError::Busy {
                endpoint,
                status,
                message,
                retry_after: response
                    .headers
                    .as_ref()
                    .and_then(retry_after)
                    .or_else(|| retry_delay(body)),
            },
            _ => ProviderError::Rejected {
                endpoint,
                status,
                message,
            },
        }
    }

    /// Whether a refusal means an unknown model rather than a wrong address.
    fn no_model(&self, status: u16, body: &str) -> bool {
        let body = body.to_ascii_lowercase();
        let named = body.contains(&self.asked.model.to_ascii_lowercase());
        let missing = ["not found", "not_found", "does not exist"];
        NO_MODEL.iter().any(|words| body.contains(words))
            || (status == 404 && named && missing.iter().any(|words| body.contains(words)))
    }

    fn unauthorized(&self, message: String) -> ProviderError {
        let (message, variable) = match self.asked.key.as_ref().map(|key| &key.source) {
            Some(KeySource::Variable(name)) => (message, Some(name.clone())),
            Some(KeySource::Command(provider)) => (
                format!(
                    "{message} (the key is what `api-key-command` of `[providers.{provider}]` printed)"
                ),
                None,
            ),
            Some(KeySource::Ours) => (message, None),
            None => (format!("{message} (no key was sent)"), None),
        };
        ProviderError::Unauthorized {
            endpoint: self.endpoint(),
            message,
            variable,
        }
    }

    /// One line of bounded length, with the key redacted.
    fn clean(&self, text: &str) -> String {
        let text = match &self.asked.key {
            Some(key) => key.secret.redact(text),
            None => text.to_owned(),
        };
        let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.len() > MESSAGE_LIMIT {
            line.truncate(line.floor_char_boundary(MESSAGE_LIMIT));
            line.push('…');
        }
        line
    }
}

/// The human-readable message in an error body, wherever the vendor puts it.
fn message(body: &Value, raw: &str) -> String {
    let error = body.get(0).unwrap_or(body);
    let places = ["/error/message", "/message", "/error", "/detail"];
    let words = places
        .iter()
        .find_map(|place| error.pointer(place)?.as_str())
        .filter(|words| !words.trim().is_empty());
    match words {
        Some(words) => words.to_owned(),
        None if raw.trim().is_empty() => "no reason was given".to_owned(),
        None => raw.to_owned(),
    }
}

fn too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    TOO_LONG.iter().any(|words| body.contains(words))
}

/// The HTTP status that an error reported inside a stream stands for.
fn status_within(body: &Value, code: Option<&str>) -> Option<u16> {
    let number = body.pointer("/error/code").and_then(Value::as_u64);
    if let Some(status) = number.and_then(|number| u16::try_from(number).ok()) {
        return Some(status);
    }
    let code = code?.to_ascii_lowercase();
    let stands_for = [
        ("rate_limit", 429),
        ("resource_exhausted", 429),
        ("overloaded", 529),
        ("unavailable", 503),
        ("timeout", 504),
        ("authentication", 401),
        ("permission", 403),
        ("server_error", 500),
        ("api_error", 500),
        ("internal", 500),
    ];
    stands_for
        .iter()
        .find(|(word, _)| code.contains(word))
        .map(|(_, status)| *status)
}

/// `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = value("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let text = value("retry-after")?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let left = date.timestamp().duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(left).unwrap_or_default())
}

/// Gemini puts the delay into the body: `"retryDelay": "34s"`.
fn retry_delay(body: &Value) -> Option<Duration> {
    let error = body.get(0).unwrap_or(body);
    let details = error.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| {
        let delay = detail.get("retryDelay")?.as_str()?;
        delay.strip_suffix('s')?.parse().ok()
    })?;
    Duration::try_from_secs_f64(delay).ok()
}

#[cfg(test)]
mod tests {
    use rig_core::http_client::{HeaderValue, StatusCode};

    use super::*;
    use crate::llm::endpoint::{Key, ProviderKind, Secret};

    const ENDPOINT: &str = "http://x/v1";

    fn origin() -> Origin {
        let key = Key {
            secret: Secret::new("sk-hunter2"),
            source: KeySource::Variable("OPENAI_API_KEY".to_owned()),
        };
        let endpoint = Endpoint {
            key: Some(key),
            ..Endpoint::new(ProviderKind::OpenAiCompatible, ENDPOINT, "gpt-40")
        };
        Origin::of(&endpoint, crate::llm::http::client(ENDPOINT).unwrap())
    }

    fn answered(status: u16, body: &str, headers: &[(&'static str, &'static str)]) -> RigError {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        RigError::from_http_response(StatusCode::from_u16(status).unwrap(), body)
            .with_response_headers(Some(headers))
    }

    fn unauthorized(message: &str) -> ProviderError {
        ProviderError::Unauthorized {
            endpoint: ENDPOINT.to_owned(),
            message: message.to_owned(),
            variable: Some("OPENAI_API_KEY".to_owned()),
        }
    }

    fn busy(status: u16, message: &str, retry_after: Option<u64>) -> ProviderError {
        ProviderError::Busy {
            endpoint: ENDPOINT.to_owned(),
            status,
            message: message.to_owned(),
            retry_after: retry_after.map(Duration::from_millis),
        }
    }

    fn unknown(message: &str) -> ProviderError {
        ProviderError::UnknownModel {
            endpoint: ENDPOINT.to_owned(),
            model: "gpt-40".to_owned(),
            message: message.to_owned(),
            near: Vec::new(),
        }
    }

    fn rejected(status: u16, message: &str) -> ProviderError {
        ProviderError::Rejected {
            endpoint: ENDPOINT.to_owned(),
            status,
            message: message.to_owned(),
        }
    }

    fn too_long(message: &str) -> ProviderError {
        ProviderError::ContextTooLong {
            message: message.to_owned(),
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn refusals_by_status_and_body() {
        let cases = [
            (
                answered(
                    401,
                    r#"{"error":{"message":"Incorrect API key provided: sk-hunter2."}}"#,
                    &[],
                ),
                unauthorized("Incorrect API key provided: ***."),
            ),
            (answered(403, "", &[]), unauthorized("no reason was given")),
            (
                answered(
                    400,
                    r#"[{"error":{"code":400,"message":"API key not valid.","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
                    &[],
                ),
                unauthorized("API key not valid."),
            ),
            (
                answered(
                    429,
                    r#"{"error":{"message":"slow\n down"}}"#,
                    &[("retry-after", "2")],
                ),
                busy(429, "slow down", Some(2000)),
            ),
            (
                answered(
                    429,
                    "{}",
                    &[("retry-after-ms", "250"), ("retry-after", "1")],
                ),
                busy(429, "{}", Some(250)),
            ),
            (
                answered(
                    503,
                    r#"{"error":{"message":"Loading model","code":503}}"#,
                    &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")],
                ),
                busy(503, "Loading model", Some(0)),
            ),
            (
                answered(
                    429,
                    r#"{"error":{"code":429,"message":"quota","details":[{"a":1},{"retryDelay":"34.5s"}]}}"#,
                    &[],
                ),
                busy(429, "quota", Some(34_500)),
            ),
            (
                answered(
                    429,
                    r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#,
                    &[],
                ),
                rejected(429, "no money"),
            ),
            (
                answered(
                    529,
                    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                    &[],
                ),
                busy(529, "Overloaded", None),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"message":"This model's maximum context length is 4096 tokens.","code":"context_length_exceeded"}}"#,
                    &[],
                ),
                too_long("This model's maximum context length is 4096 tokens."),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
                    &[],
                ),
                too_long("prompt is too long: 9 tokens > 8 maximum"),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"message":"The input token count (9) exceeds the maximum number of tokens allowed (8)."}}"#,
                    &[],
                ),
                too_long(
                    "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                ),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#,
                    &[],
                ),
                too_long("the request exceeds the available context size"),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}"#,
                    &[],
                ),
                too_long(
                    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
                ),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"message":"Your input exceeds the context window of this model.","code":null}}"#,
                    &[],
                ),
                too_long("Your input exceeds the context window of this model."),
            ),
            (
                answered(
                    422,
                    r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"}"#,
                    &[],
                ),
                too_long(
                    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                ),
            ),
            // OpenAI, Ollama, Anthropic, Gemini, OpenRouter, Azure.
            (
                answered(
                    404,
                    r#"{"error":{"message":"The model `gpt-40` does not exist.","code":"model_not_found"}}"#,
                    &[],
                ),
                unknown("The model `gpt-40` does not exist."),
            ),
            (
                answered(404, r#"{"error":"model 'gpt-40' not found"}"#, &[]),
                unknown("model 'gpt-40' not found"),
            ),
            (
                answered(
                    404,
                    r#"{"type":"error","error":{"type":"not_found_error","message":"model: gpt-40"}}"#,
                    &[],
                ),
                unknown("model: gpt-40"),
            ),
            (
                answered(
                    404,
                    r#"{"error":{"code":404,"message":"models/gpt-40 is not found for API version v1beta","status":"NOT_FOUND"}}"#,
                    &[],
                ),
                unknown("models/gpt-40 is not found for API version v1beta"),
            ),
            (
                answered(
                    400,
                    r#"{"error":{"message":"gpt-40 is not a valid model ID","code":400}}"#,
                    &[],
                ),
                unknown("gpt-40 is not a valid model ID"),
            ),
            (
                answered(
                    404,
                    r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
                    &[],
                ),
                unknown("The API deployment for this resource does not exist."),
            ),
            (
                answered(404, r#"{"error":"file 'x' not found"}"#, &[]),
                rejected(404, "file 'x' not found"),
            ),
            (
                answered(422, r#"{"detail":"no field `foo`"}"#, &[]),
                rejected(422, "no field `foo`"),
            ),
            (
                answered(404, "<h1>Not\n Found</h1>", &[]),
                rejected(404, "<h1>Not Found</h1>"),
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(origin().error(&error), expected);
        }
    }

    #[test]
    fn failures_inside_a_stream() {
        let cases = [
            (
                r#"{"error":{"code":502,"message":"upstream"}}"#,
                busy(502, "upstream", None),
            ),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                busy(529, "Overloaded", None),
            ),
            (
                r#"{"error":{"type":"rate_limit_exceeded","message":"wait"}}"#,
                busy(429, "wait", None),
            ),
            (
                r#"{"error":{"type":"exceed_context_size_error","message":"long"}}"#,
                too_long("long"),
            ),
            (
                r#"{"error":{"type":"odd","message":"what"}}"#,
                rejected(200, "what"),
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(
                origin().error(&RigError::from_provider_body(body)),
                expected
            );
        }
    }

    #[test]
    fn other_failures() {
        let page = HttpError::InvalidContentType(HeaderValue::from_static("text/html"));
        let cases = [
            (
                RigError::Truncated,
                ProviderError::Truncated {
                    endpoint: ENDPOINT.to_owned(),
                    message: "the server closed the stream before the reply was complete".to_owned(),
                },
            ),
            (
                RigError::from_transport_error(page),
                ProviderError::Malformed {
                    endpoint: ENDPOINT.to_owned(),
                    message: "it answered with `text/html` where an event stream was expected; is the base URL right?".to_owned(),
                },
            ),
            (
                RigError::request("no such thing"),
                ProviderError::Unsendable {
                    endpoint: ENDPOINT.to_owned(),
                    message: "no such thing".to_owned(),
                },
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(origin().error(&error), expected);
        }
    }

    #[test]
    fn messages_are_bounded() {
        let long = "é".repeat(2000);
        let clean = origin().clean(&long);
        assert_eq!(clean, format!("{}…", "é".repeat(300)));
    }
}
