//! Reasoning and its signatures return to the provider unchanged, on every wire that has them.

use super::*;
use crate::llm::types::Native;

/// Server-sent events, named by their `type`.
fn named(events: &[Value]) -> String {
    let events: Vec<String> = events
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    events.concat()
}

fn anthropic() -> String {
    let delta = |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    named(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
        delta(
            0,
            json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
        ),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "run_code", "input": {}}}),
        delta(
            1,
            json!({"type": "input_json_delta", "partial_json": "{\"code\": \"17*23\"}"}),
        ),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ])
}

fn responses() -> String {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "ZW5jcnlwdGVk",
        "summary": [{"type": "summary_text", "text": "Let me see."}]});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_abc", "name": "run_code",
        "arguments": "{\"code\": \"17*23\"}", "status": "completed"});
    let response = |status: &str, output: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output,
            "error": null, "incomplete_details": null, "instructions": null, "tools": [], "parallel_tool_calls": false,
            "usage": {"input_tokens": 10, "output_tokens": 20, "total_tokens": 30,
                "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 5}}})
    };
    let mut events = [
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "Let me see."}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "fc_1", "call_id": "call_abc", "name": "run_code", "arguments": "", "status": "in_progress"}}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": "{\"code\": \"17*23\"}"}),
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 1, "arguments": "{\"code\": \"17*23\"}"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
        json!({"type": "response.completed", "response": response("completed", json!([reasoning, call]))}),
    ];
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    named(&events)
}

fn gemini() -> String {
    let chunk = |parts: Value, finish: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 20, "totalTokenCount": 30}, "modelVersion": "m", "responseId": "r1"})
    };
    let chunks = [
        chunk(
            json!([{"text": "Let me see.", "thought": true}]),
            Value::Null,
        ),
        chunk(
            json!([{"functionCall": {"name": "run_code", "args": {"code": "17*23"}}, "thoughtSignature": "c2lnbmVk"}]),
            json!("STOP"),
        ),
    ];
    chunks.map(|chunk| format!("data: {chunk}\n\n")).concat()
}

fn deepseek() -> String {
    let call = json!({"tool_calls": [{"index": 0, "id": "call_d", "type": "function",
        "function": {"name": "run_code", "arguments": "{\"code\": \"17*23\"}"}}]});
    chunks(&[
        chunk(
            &json!({"role": "assistant", "content": null, "reasoning_content": "Let me "}),
            None,
        ),
        chunk(&json!({"reasoning_content": "see."}), None),
        chunk(&call, None),
        chunk(&json!({}), Some("tool_calls")),
    ])
}

/// The reasoning that was shown, and the request that follows the call's result.
async fn second_request(
    kind: ProviderKind,
    reply: &str,
    arguments: Option<&str>,
) -> (String, Value) {
    let (base_url, _request) = serve(reply, Then::End).await;
    let served = endpoint(kind, &base_url, Some("sk-hunter2"));
    let mut shown = String::new();
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut native = None;
    for delta in ask(&provider(&served, RigOptions::default()), question()).await {
        match delta.unwrap() {
            Delta::Reasoning(text) => shown.push_str(&text),
            Delta::CallStart { id, name, .. } => calls.push(ToolCall {
                after: 0,
                id,
                name,
                arguments: String::new(),
            }),
            Delta::CallArguments { fragment, .. } => {
                calls.last_mut().unwrap().arguments.push_str(&fragment);
            }
            Delta::Native(kept) => native = Some(kept),
            Delta::Finished { reason, .. } => assert_eq!(reason, StopReason::ToolCalls),
            Delta::Text(_) | Delta::Retrying(_) => panic!("not expected"),
        }
    }
    // In the form that a notebook stores.
    let kept = native.expect("nothing was kept").value().to_string();
    let native = Some(Native::new(serde_json::from_str(&kept).unwrap()));
    if let Some(arguments) = arguments {
        calls[0].arguments = arguments.to_owned();
    }
    let mut prompt = question();
    let call_id = calls[0].id.clone();
    prompt.messages.push(Message::Assistant {
        text: String::new(),
        calls,
        native,
    });
    prompt.messages.push(Message::ToolResult {
        call_id,
        parts: text("391"),
        is_error: false,
    });
    prompt.tools.push(ToolSpec {
        name: "run_code".to_owned(),
        description: "Runs a cell.".to_owned(),
        parameters: json!({"type": "object"}),
    });
    let (base_url, request) = serve(reply, Then::End).await;
    let again = endpoint(kind, &base_url, Some("sk-hunter2"));
    ask(&provider(&again, RigOptions::default()), prompt).await;
    (shown, request.await.unwrap().1)
}

#[tokio::test]
async fn thinking_goes_back_with_its_signature() {
    let (shown, body) = second_request(ProviderKind::Anthropic, &anthropic(), None).await;
    assert_eq!(shown, "Let me see.");
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "toolu_1", "name": "run_code", "input": {"code": "17*23"}},
        ])
    );
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "toolu_1");
}

#[tokio::test]
async fn a_broken_call_is_mended_and_its_thinking_stays() {
    let (_, body) = second_request(
        ProviderKind::Anthropic,
        &anthropic(),
        Some("{\"code\": \"17"),
    )
    .await;
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "toolu_1", "name": "run_code", "input": {"code": "17"}},
        ])
    );
}

#[tokio::test]
async fn encrypted_reasoning_goes_back_before_its_call() {
    let (shown, body) = second_request(ProviderKind::OpenAi, &responses(), None).await;
    assert_eq!(shown, "Let me see.");
    let input = body["input"].as_array().unwrap();
    let kinds: Vec<&str> = input
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "reasoning",
            "function_call",
            "function_call_output"
        ]
    );
    assert_eq!(
        (&input[1]["id"], &input[1]["encrypted_content"]),
        (&json!("rs_1"), &json!("ZW5jcnlwdGVk"))
    );
    assert_eq!(
        (&input[2]["id"], &input[2]["call_id"], &input[3]["call_id"]),
        (&json!("fc_1"), &json!("call_abc"), &json!("call_abc"))
    );
}

#[tokio::test]
async fn a_thought_signature_goes_back_with_its_call() {
    let (shown, body) = second_request(ProviderKind::Gemini, &gemini(), None).await;
    assert_eq!(shown, "Let me see.");
    let parts = body["contents"][1]["parts"].as_array().unwrap();
    let call = parts
        .iter()
        .find(|part| part.get("functionCall").is_some())
        .unwrap();
    assert_eq!(
        (&call["thoughtSignature"], &call["functionCall"]["args"]),
        (&json!("c2lnbmVk"), &json!({"code": "17*23"}))
    );
}

#[tokio::test]
async fn reasoning_content_goes_back_where_it_came_from() {
    for kind in [ProviderKind::DeepSeek, ProviderKind::Vllm] {
        let (shown, body) = second_request(kind, &deepseek(), None).await;
        assert_eq!(shown, "Let me see.");
        assert_eq!(
            body["messages"][2]["reasoning_content"], "Let me see.",
            "{kind:?}: {body}"
        );
        assert_eq!(
            body["messages"][3]["tool_call_id"],
            body["messages"][2]["tool_calls"][0]["id"]
        );
    }
}

#[tokio::test]
async fn a_reply_without_reasoning_is_not_kept_twice() {
    let (base_url, _request) = serve(&greeting(), Then::End).await;
    let endpoint = endpoint(ProviderKind::DeepSeek, &base_url, Some("sk-hunter2"));
    let deltas = ask(&provider(&endpoint, RigOptions::default()), question()).await;
    assert!(
        !deltas
            .iter()
            .any(|delta| matches!(delta, Ok(Delta::Native(_)))),
        "{deltas:?}"
    );
}
