//! The provider against a scripted server: what goes over the wire, and what the response becomes.
//! `tests/it/llm_wire.rs` tests real servers.

use std::time::Duration;

use futures_util::stream::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

mod reasoning;

use super::*;
use crate::llm::endpoint::{Key, KeySource, ProviderKind, Secret};
use crate::llm::http;
use crate::llm::types::{Message, Part, StopReason, ToolCall, ToolSpec, Usage};

/// How the server behaves after its response.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// Ends the response.
    End,
    /// Closes the connection in the middle of a chunk.
    Cut,
    /// Keeps the connection open and silent.
    Hang,
}

/// Answers one request with these events of a stream. Returns the request's head and body.
async fn serve(events: &str, then: Then) -> (String, JoinHandle<(String, Value)>) {
    let events = events.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let request = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{head}{:x}\r\n{events}\r\n", events.len());
        stream.write_all(chunk.as_bytes()).await.unwrap();
        match then {
            Then::End => stream.write_all(b"0\r\n\r\n").await.unwrap(),
            Then::Cut => stream.write_all(b"ff\r\ndata").await.unwrap(),
            Then::Hang => {
                // Until the client disconnects.
                let _ = stream.read(&mut [0]).await;
            }
        }
        request
    });
    (base_url, request)
}

async fn read(stream: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let count = stream.read_buf(&mut bytes).await.unwrap();
        assert_ne!(count, 0, "the client went away");
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_ascii_lowercase(), body);
        }
    }
}

fn endpoint(kind: ProviderKind, base_url: &str, key: Option<&str>) -> Endpoint {
    Endpoint {
        key: key.map(|key| Key {
            secret: Secret::new(key),
            source: KeySource::Ours,
        }),
        info: ModelInfo {
            name: "test/m".to_owned(),
            context_window: Some(4096),
            vision: true,
            ..ModelInfo::default()
        },
        ..Endpoint::new(kind, base_url, "m")
    }
}

fn provider(endpoint: &Endpoint, options: RigOptions) -> RigProvider {
    RigProvider::new(endpoint, http::client(&endpoint.base_url).unwrap(), options)
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::Text(text.to_owned())]
}

fn question() -> Prompt {
    Prompt {
        system: "You analyse data.".to_owned(),
        messages: vec![Message::User(text("17*23?"))],
        tools: Vec::new(),
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
        tool_choice: crate::llm::types::ToolChoice::Auto,
    }
}

/// A conversation with every kind of message.
fn conversation() -> Prompt {
    let call = |id: &str, arguments: &str| ToolCall {
        after: 0,
        id: id.to_owned(),
        name: "run_code".to_owned(),
        arguments: arguments.to_owned(),
    };
    let result = |id: &str, parts: Vec<Part>, is_error| Message::ToolResult {
        call_id: id.to_owned(),
        parts,
        is_error,
    };
    let png = Part::Image {
        media_type: "image/png",
        data: vec![1, 2, 3].into(),
    };
    Prompt {
        messages: vec![
            Message::User(vec![
                Part::Text("17*23?".to_owned()),
                Part::Text("And a plot.".to_owned()),
            ]),
            Message::Assistant {
                text: "Let me see.".to_owned(),
                calls: vec![
                    call("c1", r#"{"code":"17*23"}"#),
                    call("c2", r#"{"code": "plo"#),
                ],
                native: None,
            },
            result("c1", vec![Part::Text("391".to_owned()), png], false),
            result("c2", text("the arguments are not JSON"), true),
            Message::Assistant {
                text: String::new(),
                calls: Vec::new(),
                native: None,
            },
            Message::User(text("Well?")),
        ],
        tools: vec![ToolSpec {
            name: "run_code".to_owned(),
            description: "Runs a cell.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        max_output_tokens: Some(500),
        temperature: Some(0.5),
        ..question()
    }
}

/// A stream of chat completion chunks.
fn chunks(chunks: &[Value]) -> String {
    let mut events = String::new();
    for chunk in chunks {
        events.push_str("data: ");
        events.push_str(&chunk.to_string());
        events.push_str("\n\n");
    }
    events.push_str("data: [DONE]\n\n");
    events
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

fn greeting() -> String {
    chunks(&[
        chunk(&json!({"role": "assistant", "content": "391"}), None),
        chunk(&json!({}), Some("stop")),
    ])
}

async fn ask(provider: &RigProvider, prompt: Prompt) -> Vec<Result<Delta, ProviderError>> {
    provider.stream(prompt).collect().await
}

#[tokio::test]
async fn a_conversation_on_the_chat_wire() {
    let (base_url, request) = serve(&greeting(), Then::End).await;
    let endpoint = endpoint(ProviderKind::LlamaServer, &base_url, Some("sk-hunter2"));
    let mut options = RigOptions::default();
    options.extra.insert("seed".to_owned(), json!(1));

    let deltas = ask(&provider(&endpoint, options), conversation()).await;
    let (head, body) = request.await.unwrap();

    assert_eq!(
        deltas,
        vec![
            Ok(Delta::Text("391".to_owned())),
            Ok(Delta::Finished {
                reason: StopReason::Done,
                usage: Usage::default()
            }),
        ]
    );
    assert!(head.starts_with("post /v1/chat/completions "), "{head}");
    assert!(head.contains("authorization: bearer sk-hunter2"), "{head}");
    assert!(
        head.contains(concat!("user-agent: sponde/", env!("CARGO_PKG_VERSION"))),
        "{head}"
    );
    assert_eq!(
        body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "You analyse data."},
                {"role": "user", "content": "17*23?\nAnd a plot."},
                {"role": "assistant", "content": "Let me see.", "tool_calls": [
                    {"type": "function", "id": "c1", "function":
                        {"name": "run_code", "arguments": "{\"code\":\"17*23\"}"}},
                    {"type": "function", "id": "c2", "function":
                        {"name": "run_code", "arguments": "{\"code\":\"plo\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "391\n(see attached image)"},
                {"role": "tool", "tool_call_id": "c2", "content": "the arguments are not JSON"},
                {"role": "user", "content": [
                    {"type": "text", "text": "Attached image(s) from tool result:"},
                    {"type": "image_url", "image_url":
                        {"url": "data:image/png;base64,AQID", "detail": "auto"}},
                    {"type": "text", "text": "Well?"},
                ]},
            ],
            "tools": [{"type": "function", "function": {
                "name": "run_code", "description": "Runs a cell.", "parameters": {"type": "object"},
            }}],
            "temperature": 0.5,
            "max_tokens": 500,
            "parallel_tool_calls": false,
            "seed": 1,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn a_conversation_on_the_other_wires() {
    let wires = [
        ProviderKind::OpenAi,
        ProviderKind::Anthropic,
        ProviderKind::Gemini,
        ProviderKind::Ollama,
    ];
    let mut seen = Vec::new();
    for kind in wires {
        // The response is invalid on these wires; only the request matters.
        let (base_url, request) = serve(&greeting(), Then::End).await;
        let endpoint = endpoint(kind, &base_url, Some("sk-hunter2"));
        ask(&provider(&endpoint, RigOptions::default()), conversation()).await;
        let (_, body) = request.await.unwrap();
        seen.push(format!("{kind:?} {body}"));
    }
    insta::assert_snapshot!(seen.join("\n"), @r##"
    OpenAi {"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"17*23?"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"And a plot."}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[]}],"status":"completed","id":"msg_rig_2"},{"type":"function_call","call_id":"c1","name":"run_code","arguments":"{\"code\":\"17*23\"}"},{"type":"function_call","call_id":"c2","name":"run_code","arguments":"{\"code\":\"plo\"}"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"391"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AQID"}],"status":"completed"},{"type":"function_call_output","call_id":"c2","output":"the arguments are not JSON","status":"completed"},{"type":"message","role":"user","content":[{"type":"input_text","text":"Well?"}]}],"instructions":"You analyse data.","max_output_tokens":500,"temperature":0.5,"tools":[{"type":"function","name":"run_code","parameters":{"type":"object"},"strict":false,"description":"Runs a cell."}],"parallel_tool_calls":false,"store":false,"stream":true,"include":["reasoning.encrypted_content"]}
    Anthropic {"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"17*23?"},{"type":"text","text":"And a plot."}]},{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"c1","name":"run_code","input":{"code":"17*23"}},{"type":"tool_use","id":"c2","name":"run_code","input":{"code":"plo"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"391"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQID"}}]},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"the arguments are not JSON"}],"is_error":true},{"type":"text","text":"Well?"}]}],"max_tokens":500,"system":[{"type":"text","text":"You analyse data."}],"temperature":0.5,"tools":[{"name":"run_code","description":"Runs a cell.","input_schema":{"type":"object"},"eager_input_streaming":true}],"cache_control":{"type":"ephemeral"},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"stream":true}
    Gemini {"contents":[{"parts":[{"text":"17*23?","thought":false},{"text":"And a plot.","thought":false}],"role":"user"},{"parts":[{"text":"Let me see."},{"functionCall":{"name":"run_code","args":{"code":"17*23"}}},{"functionCall":{"name":"run_code","args":{"code":"plo"}}}],"role":"model"},{"parts":[{"functionResponse":{"name":"run_code","response":{"result":"391"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AQID"}}]},"thought":false},{"functionResponse":{"name":"run_code","response":{"error":"the arguments are not JSON"}},"thought":false}],"role":"user"},{"parts":[{"text":"Well?","thought":false}],"role":"user"}],"generationConfig":{"temperature":0.5,"maxOutputTokens":500},"safetySettings":null,"toolConfig":null,"systemInstruction":{"parts":[{"text":"You analyse data.","thought":false}],"role":"model"},"tools":[{"functionDeclarations":[{"name":"run_code","description":"Runs a cell.","parametersJsonSchema":{"type":"object"}}],"codeExecution":null}]}
    Ollama {"model":"m","messages":[{"role":"system","content":"You analyse data."},{"role":"user","content":"17*23?\nAnd a plot."},{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"c1","function":{"name":"run_code","arguments":{"code":"17*23"}}},{"id":"c2","function":{"name":"run_code","arguments":{"code":"plo"}}}]},{"role":"tool","content":"391\n(see attached image)","tool_name":"run_code","tool_call_id":"c1"},{"role":"tool","content":"the arguments are not JSON","tool_name":"run_code","tool_call_id":"c2"},{"role":"user","content":"Attached image(s) from tool result:\nWell?","images":["AQID"]}],"tools":[{"type":"function","function":{"name":"run_code","description":"Runs a cell.","parameters":{"type":"object"}}}],"options":{"temperature":0.5,"num_predict":500,"num_ctx":4096},"stream":true}
    "##);
}

#[tokio::test]
async fn a_model_that_does_not_see_gets_no_pictures() {
    let (base_url, request) = serve(&greeting(), Then::End).await;
    let mut endpoint = endpoint(ProviderKind::OpenAiCompatible, &base_url, None);
    endpoint.info.vision = false;

    ask(&provider(&endpoint, RigOptions::default()), conversation()).await;
    let (_, body) = request.await.unwrap();

    assert_eq!(
        body.pointer("/messages/3/content"),
        Some(&json!("391\n(a picture, which you cannot see)"))
    );
    assert!(!body.to_string().contains("image_url"), "{body}");
}

#[tokio::test]
async fn a_schema_goes_out_as_it_is_and_no_key_means_no_header() {
    let (base_url, request) = serve(&greeting(), Then::End).await;
    let endpoint = endpoint(ProviderKind::OpenAiCompatible, &base_url, None);
    let schema = json!({"anyOf": [{"type": "object"}, {"type": "string"}]});
    let prompt = Prompt {
        reply_schema: Some(schema.clone()),
        tool_choice: crate::llm::types::ToolChoice::Auto,
        ..question()
    };

    ask(&provider(&endpoint, RigOptions::default()), prompt).await;
    let (head, body) = request.await.unwrap();

    assert!(!head.contains("authorization"), "{head}");
    assert_eq!(
        body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "You analyse data."},
                {"role": "user", "content": "17*23?"},
            ],
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "reply", "strict": true, "schema": schema}},
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn a_reply_with_everything_in_it() {
    let call = |index: u32, fields: Value| {
        let mut call = json!({"index": index});
        call.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        chunk(&json!({"tool_calls": [call]}), None)
    };
    let arguments = |text: &str| json!({"function": {"arguments": text}});
    let events = chunks(&[
        chunk(
            &json!({"role": "assistant", "reasoning_content": "Mul"}),
            None,
        ),
        chunk(&json!({"reasoning_content": "tiply."}), None),
        chunk(&json!({"content": "Let me"}), None),
        chunk(&json!({"content": " see."}), None),
        call(
            0,
            json!({"id": "p1", "type": "function", "function": {"name": "run_code", "arguments": ""}}),
        ),
        call(0, arguments("{\"code\":")),
        call(0, arguments(" \"17*23\"}")),
        call(
            1,
            json!({"id": "p2", "type": "function", "function": {"name": "run_code", "arguments": "{\"code\": \""}}),
        ),
        chunk(&json!({}), Some("tool_calls")),
        json!({
            "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
            "usage": {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29,
                "prompt_tokens_details": {"cached_tokens": 12}},
        }),
    ]);
    let (base_url, _request) = serve(&events, Then::End).await;
    let endpoint = endpoint(ProviderKind::Vllm, &base_url, None);

    let deltas = ask(&provider(&endpoint, RigOptions::default()), conversation()).await;

    let mut ids = Vec::new();
    let told: Vec<Delta> = deltas
        .into_iter()
        // `reasoning` tests what is kept for the provider.
        .filter(|delta| !matches!(delta, Ok(Delta::Native(_))))
        .map(|delta| match delta.unwrap() {
            Delta::CallStart { index, id, name } => {
                ids.push(id);
                Delta::CallStart {
                    index,
                    id: String::new(),
                    name,
                }
            }
            delta => delta,
        })
        .collect();
    let start = |index| Delta::CallStart {
        index,
        id: String::new(),
        name: "run_code".to_owned(),
    };
    let arguments = |index, fragment: &str| Delta::CallArguments {
        index,
        fragment: fragment.to_owned(),
    };
    assert_eq!(
        told,
        vec![
            Delta::Reasoning("Mul".to_owned()),
            Delta::Reasoning("tiply.".to_owned()),
            Delta::Text("Let me".to_owned()),
            Delta::Text(" see.".to_owned()),
            start(0),
            arguments(0, "{\"code\":"),
            arguments(0, " \"17*23\"}"),
            start(1),
            // Broken, and passed on unchanged.
            arguments(1, "{\"code\": \""),
            Delta::Finished {
                reason: StopReason::ToolCalls,
                usage: Usage {
                    input: 20,
                    cached: 12,
                    written: 0,
                    output: 9,
                    cost: None,
                },
            },
        ]
    );
    assert_eq!(ids.len(), 2);
    assert_ne!(ids.first(), ids.last());
}

#[tokio::test]
async fn reasons_to_stop() {
    let said = json!({"role": "assistant", "content": "x"});
    let silent = json!({"role": "assistant"});
    let cases = [
        (&said, "stop", Ok(StopReason::Done)),
        (&said, "length", Ok(StopReason::Length)),
        (&said, "content_filter", Ok(StopReason::Refused)),
        (
            &said,
            "model_context_window_exceeded",
            Ok(StopReason::Length),
        ),
        (&said, "eos_token", Ok(StopReason::Done)),
        (&silent, "stop", Ok(StopReason::Done)),
        (
            &silent,
            "weird",
            Err("the model stopped without an answer, reason `weird`"),
        ),
    ];
    for (delta, reason, expected) in cases {
        let events = chunks(&[chunk(delta, None), chunk(&json!({}), Some(reason))]);
        let (base_url, _request) = serve(&events, Then::End).await;
        let endpoint = endpoint(ProviderKind::Vllm, &base_url, None);

        let mut deltas = ask(&provider(&endpoint, RigOptions::default()), question()).await;

        let expected = match expected {
            Ok(reason) => Ok(Delta::Finished {
                reason,
                usage: Usage::default(),
            }),
            Err(message) => Err(ProviderError::Malformed {
                endpoint: base_url,
                message: message.to_owned(),
            }),
        };
        assert_eq!(deltas.pop(), Some(expected), "{reason}");
    }
}

#[tokio::test]
async fn broken_streams() {
    let begun = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\
                 \"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"39\"}}]}\n\n";
    let garbage = format!("{begun}data: {{\"id\": nonsense\n\n");
    let idle = Duration::from_millis(100);
    let cases = [
        (begun, Then::End),
        (begun, Then::Cut),
        (garbage.as_str(), Then::End),
        (begun, Then::Hang),
    ];
    let mut errors = Vec::new();
    for (events, then) in cases {
        let (base_url, _request) = serve(events, then).await;
        let endpoint = endpoint(ProviderKind::Vllm, &base_url, None);
        let options = RigOptions {
            idle_timeout: if matches!(then, Then::Hang) {
                idle
            } else {
                Duration::from_secs(10)
            },
            ..RigOptions::default()
        };

        let deltas = ask(&provider(&endpoint, options), question()).await;

        assert_eq!(deltas.first(), Some(&Ok(Delta::Text("39".to_owned()))));
        assert_eq!(deltas.len(), 2, "{deltas:?}");
        errors.push(
            deltas
                .last()
                .unwrap()
                .clone()
                .unwrap_err()
                .to_string()
                .replace(&base_url, "URL"),
        );
    }
    insta::assert_snapshot!(errors.join("\n"), @"
    the reply from `URL` was cut off: the server closed the stream before the reply was complete
    the reply from `URL` was cut off: end of file before message length reached
    the reply from `URL` was garbled: expected ident at line 1 column 9
    `URL` sent nothing for 0 s
    ");
}

#[tokio::test]
async fn nobody_there() {
    // Bound and closed again, so that nothing listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let endpoint = endpoint(ProviderKind::Vllm, &base_url, None);

    let deltas = ask(&provider(&endpoint, RigOptions::default()), question()).await;

    match deltas.as_slice() {
        [Err(ProviderError::Unreachable { endpoint, message })] => {
            assert_eq!(endpoint, &base_url);
            assert_eq!(message, "Connection refused (os error 111)");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_empty_conversation_is_not_sent() {
    let endpoint = endpoint(ProviderKind::Vllm, "http://127.0.0.1:9/v1", None);
    let prompt = Prompt {
        messages: Vec::new(),
        ..question()
    };
    assert_eq!(
        ask(&provider(&endpoint, RigOptions::default()), prompt).await,
        vec![Err(ProviderError::Unsendable {
            endpoint: "http://127.0.0.1:9/v1".to_owned(),
            message: "the conversation is empty".to_owned(),
        })]
    );
}

#[tokio::test]
async fn dropping_a_reply_closes_its_connection_at_once() {
    let begun = chunk(&json!({"role": "assistant", "content": "391"}), None);
    let (base_url, request) = serve(&format!("data: {begun}\n\n"), Then::Hang).await;
    let endpoint = endpoint(ProviderKind::Vllm, &base_url, None);
    let mut reply = provider(&endpoint, RigOptions::default()).stream(question());
    assert_eq!(reply.next().await, Some(Ok(Delta::Text("391".to_owned()))));
    drop(reply);
    // The server reads until the client disconnects.
    request.await.unwrap();
}

#[tokio::test]
async fn dropping_it_before_the_answer_begins_does_as_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let endpoint = endpoint(ProviderKind::Vllm, &base_url, None);
    let provider = provider(&endpoint, RigOptions::default());
    let mut reply = provider.stream(question());
    let mut client = tokio::select! {
        item = reply.next() => panic!("{item:?}"),
        client = async {
            let (mut client, _) = listener.accept().await.unwrap();
            read(&mut client).await;
            client
        } => client,
    };
    drop(reply);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

/// Answers consecutive requests with these statuses and bodies; returns their heads.
async fn answer(answers: Vec<(u16, Value)>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let heads = tokio::spawn(async move {
        let mut heads = Vec::new();
        for (status, body) in answers {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 8192];
            let count = client.read(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            heads.push(text.lines().next().unwrap_or_default().to_owned());
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            client.write_all((head + &body).as_bytes()).await.unwrap();
        }
        heads
    });
    (base_url, heads)
}

#[tokio::test]
async fn a_model_that_is_not_there_is_told_with_those_that_are() {
    let refusal = json!({"error": {"message": "The model `gpt-40` does not exist", "code": "model_not_found"}});
    let list = json!({"data": [{"id": "gpt-4o"}, {"id": "gpt-4o-mini"}, {"id": "text-embedding-3"}, {"id": "o3"}]});
    let (base_url, heads) = answer(vec![(404, refusal), (200, list)]).await;
    let endpoint = Endpoint::new(ProviderKind::OpenAiCompatible, &base_url, "gpt-40");
    let deltas = ask(&provider(&endpoint, RigOptions::default()), question()).await;
    assert_eq!(
        deltas,
        vec![Err(ProviderError::UnknownModel {
            endpoint: base_url,
            model: "gpt-40".to_owned(),
            message: "The model `gpt-40` does not exist".to_owned(),
            near: vec!["gpt-4o".to_owned(), "gpt-4o-mini".to_owned()],
        })]
    );
    assert_eq!(
        heads.await.unwrap(),
        [
            "POST /v1/chat/completions HTTP/1.1",
            "GET /v1/models HTTP/1.1"
        ]
    );
}

#[tokio::test]
async fn keys_travel_in_headers() {
    let cases = [
        (
            ProviderKind::Bedrock,
            "eu.anthropic.claude-sonnet-5",
            "authorization: bearer sk-hunter2",
        ),
        (
            ProviderKind::Bedrock,
            "openai.gpt-oss-120b-1:0",
            "authorization: bearer sk-hunter2",
        ),
        (
            ProviderKind::Gemini,
            "gemini-2.5-flash",
            "x-goog-api-key: sk-hunter2",
        ),
        (ProviderKind::Azure, "mine", "api-key: sk-hunter2"),
    ];
    for (kind, model, header) in cases {
        let (base_url, request) = serve("", Then::End).await;
        let endpoint = Endpoint {
            model: model.to_owned(),
            api_version: Some("2024-10-21".to_owned()),
            ..endpoint(kind, &base_url, Some("sk-hunter2"))
        };
        ask(&provider(&endpoint, RigOptions::default()), question()).await;
        let (head, _) = request.await.unwrap();
        assert!(head.lines().any(|line| line == header), "{kind:?}: {head}");
        assert_eq!(head.matches("sk-hunter2").count(), 1, "{kind:?}: {head}");
    }
}
