//! The `llm` floor against a server nobody here wrote: aimock, an npm package that plays every
//! vendor's API. What our side sends is read from its journal, byte for byte.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use serde_json::{Value, json};
use sponde::llm::catalog::{self, Resolved, Setup};
use sponde::llm::endpoint::{Endpoint, Key, KeySource, ProviderKind, Secret};
use sponde::llm::providers::AllSettings;
use sponde::llm::retry::{Retry, RetryOptions};
use sponde::llm::rig::{RigOptions, RigProvider};
use sponde::llm::{
    Delta, Message, ModelInfo, Part, Prompt, Provider, ProviderError, StopReason, ToolCall,
    ToolSpec, http,
};

use crate::aimock::Aimock;

fn endpoint_at(mock: &Aimock, kind: ProviderKind) -> Endpoint {
    let path = match kind {
        ProviderKind::Anthropic | ProviderKind::Gemini | ProviderKind::Ollama => "",
        _ => "/v1",
    };
    endpoint(kind, &format!("{}{path}", mock.url))
}

fn endpoint(kind: ProviderKind, base_url: &str) -> Endpoint {
    Endpoint {
        key: Some(Key {
            secret: Secret::new("sk-test-hunter2"),
            source: KeySource::Variable("TEST_API_KEY".to_owned()),
        }),
        info: ModelInfo {
            name: "test/gpt-4o".to_owned(),
            context_window: Some(16_384),
            vision: true,
            ..ModelInfo::default()
        },
        ..Endpoint::new(kind, base_url, "gpt-4o")
    }
}

fn provider(endpoint: &Endpoint) -> RigProvider {
    let client = http::client(&endpoint.base_url).unwrap();
    RigProvider::new(endpoint, client, RigOptions::default())
}

fn prompt(messages: Vec<Message>) -> Prompt {
    Prompt {
        system: "You analyse data.".to_owned(),
        messages,
        tools: vec![ToolSpec {
            name: "run_code".to_owned(),
            description: "Runs a cell.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"code": {"type": "string"}},
                "required": ["code"],
            }),
        }],
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
        tool_choice: sponde::llm::types::ToolChoice::Auto,
    }
}

fn user(text: &str) -> Message {
    Message::User(vec![Part::Text(text.to_owned())])
}

/// A reply put together from its deltas.
#[derive(Debug, Default, PartialEq)]
struct Reply {
    text: String,
    calls: Vec<ToolCall>,
    reason: Option<StopReason>,
    /// Deltas of text or arguments: more than one or two, if it streamed.
    fragments: usize,
}

async fn ask(provider: &dyn Provider, prompt: Prompt) -> Result<Reply, ProviderError> {
    let mut reply = Reply::default();
    let mut deltas = provider.stream(prompt);
    while let Some(delta) = deltas.next().await {
        assert_eq!(reply.reason, None, "something came after the end");
        match delta? {
            Delta::Text(text) => {
                reply.fragments += 1;
                reply.text.push_str(&text);
            }
            Delta::Reasoning(text) => panic!("unexpected reasoning: {text}"),
            Delta::Retrying(_) => reply = Reply::default(),
            Delta::Native(native) => panic!("unexpected: {}", native.value()),
            Delta::CallStart { index, id, name } => {
                assert_eq!(index, reply.calls.len());
                reply.calls.push(ToolCall {
                    after: 0,
                    id,
                    name,
                    arguments: String::new(),
                });
            }
            Delta::CallArguments { index, fragment } => {
                reply.fragments += 1;
                reply.calls[index].arguments.push_str(&fragment);
            }
            Delta::Finished { reason, .. } => reply.reason = Some(reason),
        }
    }
    assert!(reply.reason.is_some(), "the stream ended without an end");
    Ok(reply)
}

/// A picture of two pixels.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    2, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0xd1, 0x49, 0x63, 0x0e, 0, 0, 0, 11, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0x60, 0xf8, 0x0f, 0, 0x01, 0x02, 0x01, 0, 0x1e, 0xd4, 0x6b, 0x8c, 0, 0, 0, 0,
    b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

const CODE: &str = r#"{"code": "print(17*23)\nplot()"}"#;

fn tool_loop() -> Value {
    let answer = json!({"content": "17*23 is 391, see the plot."});
    json!([
        // Where a wire has no images in tool results they follow as a message of the user.
        {"match": {"userMessage": "Attached image"}, "response": answer},
        {"match": {"userMessage": "17*23", "hasToolResult": true}, "response": answer},
        {"match": {"userMessage": "17*23", "hasToolResult": false}, "response": {"blocks": [
            {"type": "text", "text": "Let me compute that for you."},
            {"type": "toolCall", "name": "run_code", "arguments": CODE},
        ]}},
    ])
}

/// Text, a tool call, its result with a picture, the answer. Returns the call's id.
async fn run_tool_loop(provider: &dyn Provider) -> String {
    let mut messages = vec![user("What is 17*23?")];
    let reply = ask(provider, prompt(messages.clone())).await.unwrap();
    let call = reply.calls.first().cloned().expect("no tool call");
    assert_eq!(
        (reply.text.as_str(), reply.reason, reply.calls.len()),
        (
            "Let me compute that for you.",
            Some(StopReason::ToolCalls),
            1
        )
    );
    assert_eq!(call.name, "run_code");
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    assert_eq!(arguments, serde_json::from_str::<Value>(CODE).unwrap());
    assert!(reply.fragments >= 3, "it did not stream: {reply:?}");

    let id = call.id.clone();
    messages.push(Message::Assistant {
        text: reply.text,
        calls: reply.calls,
        native: None,
    });
    messages.push(Message::ToolResult {
        call_id: id.clone(),
        parts: vec![
            Part::Text("391".to_owned()),
            Part::Image {
                media_type: "image/png",
                data: PNG.into(),
            },
        ],
        is_error: false,
    });
    let reply = ask(provider, prompt(messages)).await.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.reason, reply.calls.len()),
        ("17*23 is 391, see the plot.", Some(StopReason::Done), 0)
    );
    id
}

#[tokio::test]
async fn a_tool_loop_over_chat_completions() {
    let mock = Aimock::start(&tool_loop()).await;
    let base_url = mock.url.clone();
    let environment = move |name: &str| match name {
        "OPENAI_BASE_URL" => Some(base_url.clone()),
        "OPENAI_API_KEY" => Some("sk-test-hunter2".to_owned()),
        _ => None,
    };
    let providers = AllSettings::new();
    let setup = Setup {
        environment: &environment,
        providers: &providers,
    };
    let Ok(Resolved::Served(endpoint)) = catalog::resolve("gpt-4o", None, setup) else {
        panic!("the name did not resolve");
    };

    let id = run_tool_loop(&provider(&endpoint)).await;

    let journal = mock.journal().await;
    let [_, second] = journal.as_slice() else {
        panic!("{} requests", journal.len());
    };
    let picture = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(PNG));
    assert_eq!(second["path"], "/v1/chat/completions");
    assert_eq!(
        second["body"]["messages"],
        json!([
            {"role": "system", "content": "You analyse data."},
            {"role": "user", "content": "What is 17*23?"},
            {"role": "assistant", "content": "Let me compute that for you.", "tool_calls": [{
                "type": "function", "id": id,
                "function": {"name": "run_code", "arguments": CODE.replace(": ", ":")},
            }]},
            {"role": "tool", "tool_call_id": id, "content": "391\n(see attached image)"},
            {"role": "user", "content": [
                {"type": "text", "text": "Attached image(s) from tool result:"},
                {"type": "image_url", "image_url": {"url": picture, "detail": "auto"}},
            ]},
        ])
    );
}

#[tokio::test]
async fn the_same_loop_over_every_other_wire() {
    let mock = Aimock::start(&tool_loop()).await;
    let wires = [
        (ProviderKind::OpenAi, "/v1/responses"),
        (ProviderKind::Anthropic, "/v1/messages"),
        (
            ProviderKind::Gemini,
            "/v1beta/models/gpt-4o:streamGenerateContent",
        ),
        (ProviderKind::Ollama, "/api/chat"),
        (ProviderKind::OpenRouter, "/v1/chat/completions"),
        (ProviderKind::Groq, "/v1/chat/completions"),
    ];
    for (kind, path) in wires {
        let before = mock.journal().await.len();
        run_tool_loop(&provider(&endpoint_at(&mock, kind))).await;
        let journal = mock.journal().await;
        let paths: Vec<&str> = journal
            .iter()
            .skip(before)
            .filter_map(|entry| entry["path"].as_str()?.split('?').next())
            .collect();
        assert_eq!(paths, [path, path], "{kind:?}");
    }
}

#[tokio::test]
async fn refusals() {
    let mock = Aimock::start(&json!([
        {"match": {"userMessage": "bad key"}, "response": {"status": 401, "error":
            {"message": "Incorrect API key provided: sk-test-hunter2", "type": "invalid_request_error"}}},
        {"match": {"userMessage": "too fast"}, "response": {"status": 429, "retryAfter": 7, "error":
            {"message": "Rate limit reached", "type": "rate_limit_error"}}},
        {"match": {"userMessage": "too long"}, "response": {"status": 400, "error":
            {"message": "maximum context length is 8 tokens", "type": "invalid_request_error",
                "code": "context_length_exceeded"}}},
        {"match": {"userMessage": "too much"}, "response": {"status": 404, "error":
            {"message": "no such model", "type": "invalid_request_error"}}},
    ]))
    .await;
    let endpoint = endpoint_at(&mock, ProviderKind::OpenAiCompatible);
    let base_url = endpoint.base_url.clone();
    let provider = provider(&endpoint);
    let cases = [
        (
            "bad key",
            ProviderError::Unauthorized {
                endpoint: base_url.clone(),
                message: "Incorrect API key provided: ***".to_owned(),
                variable: Some("TEST_API_KEY".to_owned()),
            },
        ),
        (
            "too fast",
            ProviderError::Busy {
                endpoint: base_url.clone(),
                status: 429,
                message: "Rate limit reached".to_owned(),
                retry_after: Some(Duration::from_secs(7)),
            },
        ),
        (
            "too long",
            ProviderError::ContextTooLong {
                message: "maximum context length is 8 tokens".to_owned(),
            },
        ),
        (
            "too much",
            ProviderError::Rejected {
                endpoint: base_url,
                status: 404,
                message: "no such model".to_owned(),
            },
        ),
    ];
    for (question, expected) in cases {
        let error = ask(&provider, prompt(vec![user(question)]))
            .await
            .unwrap_err();
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_said() {
    let mock = Aimock::start(&json!([
        {"match": {"userMessage": "hello", "sequenceIndex": 0}, "response": {
            "status": 429, "retryAfter": 1,
            "error": {"message": "busy", "type": "rate_limit_error"}}},
        {"match": {"userMessage": "hello"}, "response": {"content": "Hello there."}},
    ]))
    .await;
    let endpoint = endpoint_at(&mock, ProviderKind::OpenAiCompatible);
    let retry = Retry::new(Arc::new(provider(&endpoint)), RetryOptions::default());

    let began = Instant::now();
    let reply = ask(&retry, prompt(vec![user("hello")])).await.unwrap();

    assert_eq!(reply.text, "Hello there.");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(mock.journal().await.len(), 2);
}

#[tokio::test]
async fn broken_streams() {
    let words = json!({"content": "The answer to this question is a rather long sentence."});
    let mock = Aimock::start(&json!([
        {"match": {"userMessage": "cut"}, "truncateAfterChunks": 3, "response": words},
        {"match": {"userMessage": "garbage"}, "chaos": {"malformedRate": 1}, "response": words},
    ]))
    .await;
    let endpoint = endpoint_at(&mock, ProviderKind::OpenAiCompatible);
    let base_url = endpoint.base_url.clone();
    let provider = provider(&endpoint);

    let cut = ask(&provider, prompt(vec![user("cut")])).await;
    let garbage = ask(&provider, prompt(vec![user("garbage")])).await;

    assert_eq!(
        cut,
        Err(ProviderError::Truncated {
            endpoint: base_url.clone(),
            message: "unexpected EOF during chunk size line".to_owned(),
        })
    );
    assert_eq!(
        garbage,
        Err(ProviderError::Malformed {
            endpoint: base_url,
            message: "it answered with `application/json` where an event stream was expected; is the base URL right?".to_owned(),
        })
    );
}

#[tokio::test]
async fn a_server_that_went_away() {
    let mock = Aimock::start(&json!([
        {"match": {"userMessage": "hello"}, "response": {"content": "Hello there."}},
    ]))
    .await;
    let endpoint = endpoint_at(&mock, ProviderKind::OpenAiCompatible);
    let provider = provider(&endpoint);
    ask(&provider, prompt(vec![user("hello")])).await.unwrap();
    mock.stop().await;

    let error = ask(&provider, prompt(vec![user("hello")]))
        .await
        .unwrap_err();

    assert_eq!(
        error,
        ProviderError::Unreachable {
            endpoint: endpoint.base_url,
            message: "Connection refused (os error 111)".to_owned(),
        }
    );
}
