//! Whole replies and whole conversations through the provider.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::json;

use super::*;
use crate::llm::coded::Coded;
use crate::llm::scripted::{Reply, ScriptedProvider, Step};
use crate::llm::types::{
    Delta, Message, ModelInfo, Part, Provider as _, StopReason, ToolCall, ToolSpec, Usage,
};

fn text(text: &str) -> Vec<Part> {
    vec![Part::Text(text.to_owned())]
}

fn user(words: &str) -> Message {
    Message::User(text(words))
}

fn said(words: &str) -> Message {
    Message::Assistant {
        text: words.to_owned(),
        calls: vec![],
        native: None,
    }
}

fn prompt(messages: Vec<Message>) -> Prompt {
    let languages = json!({"type": "string", "enum": ["python", "R"]});
    Prompt {
        system: "s".to_owned(),
        messages,
        tools: vec![ToolSpec {
            name: "run_code".to_owned(),
            description: "runs a cell".to_owned(),
            parameters: json!({"type": "object", "properties": {"language": languages}}),
        }],
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
        tool_choice: ToolChoice::Auto,
    }
}

fn model(steps: Vec<Step>) -> ScriptedProvider {
    let info = ModelInfo {
        name: "scripted/one".to_owned(),
        ..ModelInfo::default()
    };
    ScriptedProvider::new(info, [Reply::new(steps)])
}

/// A reply in fragments of five characters.
fn streamed(text: &str, reason: StopReason) -> Vec<Step> {
    let chars: Vec<char> = text.chars().collect();
    let usage = Usage {
        input: 10,
        cached: 0,
        written: 0,
        output: 5,
        cost: None,
    };
    chars
        .chunks(5)
        .map(|chunk| Step::Delta(Delta::Text(chunk.iter().collect())))
        .chain([Step::Delta(Delta::Finished { reason, usage })])
        .collect()
}

/// Text, reasoning, calls as name and arguments, stop reason, usage.
type Told = (String, String, Vec<(String, String)>, StopReason, Usage);

async fn ask(prompt: Prompt, steps: Vec<Step>) -> (Told, Prompt) {
    let model = model(steps);
    let fenced = Coded::new(Arc::new(model.clone()), FencedOptions::new("Python"));
    let mut stream = fenced.stream(prompt);
    let (mut words, mut thought, mut calls, mut end) = (String::new(), String::new(), vec![], None);
    while let Some(item) = stream.next().await {
        assert!(end.is_none());
        match item.unwrap() {
            Delta::Text(text) => words.push_str(&text),
            Delta::Reasoning(text) => thought.push_str(&text),
            Delta::CallStart { index, id, name } => {
                assert_eq!((index, id.starts_with("call_")), (calls.len(), true));
                calls.push((name, String::new()));
            }
            Delta::CallArguments { index, fragment } => calls[index].1.push_str(&fragment),
            Delta::Retrying(_) | Delta::Native(_) => unreachable!(),
            Delta::Finished { reason, usage } => end = Some((reason, usage)),
        }
    }
    let (reason, usage) = end.unwrap();
    (
        (words, thought, calls, reason, usage),
        model.prompts().pop().unwrap(),
    )
}

const USAGE: Usage = Usage {
    input: 10,
    cached: 0,
    written: 0,
    output: 5,
    cost: None,
};

fn call(arguments: &str) -> (String, String) {
    ("run_code".to_owned(), arguments.to_owned())
}

#[tokio::test]
async fn blocks_are_calls() {
    let reply = "Both:\n```python\nprint(\"é\\n\")\n```\nand\n```r\nx\n```\n";
    let (told, _) = ask(prompt(vec![user("q")]), streamed(reply, StopReason::Done)).await;
    assert_eq!(
        told,
        (
            "Both:\n\nand".to_owned(),
            String::new(),
            vec![
                call(r#"{"language": "python", "code": "print(\"é\\n\")"}"#),
                call(r#"{"language": "r", "code": "x"}"#),
            ],
            StopReason::ToolCalls,
            USAGE,
        )
    );
    let (told, _) = ask(
        prompt(vec![user("q")]),
        streamed("It is 391.\n", StopReason::Done),
    )
    .await;
    assert_eq!(
        told,
        (
            "It is 391.".to_owned(),
            String::new(),
            vec![],
            StopReason::Done,
            USAGE
        )
    );
}

#[tokio::test]
async fn a_block_cut_at_the_limit_stays_broken() {
    let reply = streamed("```python\nx = 1\ny", StopReason::Length);
    let (told, _) = ask(prompt(vec![user("q")]), reply).await;
    assert_eq!(
        (told.2, told.3),
        (
            vec![call(r#"{"language": "python", "code": "x = 1\ny"#)],
            StopReason::Length
        )
    );
}

#[tokio::test]
async fn thoughts_are_neither_words_nor_code() {
    let reply = "<think>\nLet me:\n```python\nbad\n```\n</think>\n\n```python\ngood\n```";
    let (told, _) = ask(prompt(vec![user("q")]), streamed(reply, StopReason::Done)).await;
    assert_eq!(told.0, "");
    assert_eq!(told.1, "\nLet me:\n```python\nbad\n```\n");
    assert_eq!(
        told.2,
        vec![call(r#"{"language": "python", "code": "good"}"#)]
    );
}

#[tokio::test]
async fn a_made_up_output_ends_the_request() {
    let mut steps = streamed(
        "```python\nprint(1)\n```\nOutput:\n1\n\nIt is 1.",
        StopReason::Done,
    );
    // The script hangs here, so reading further would never return.
    let at = steps.len() - 1;
    steps.insert(at, Step::Hang);
    let (told, _) = ask(prompt(vec![user("q")]), steps).await;
    assert_eq!(
        (told.0.as_str(), told.2.len(), told.3),
        ("", 1, StopReason::ToolCalls)
    );
    assert!(told.4.input > 0 && told.4.output > 5, "{:?}", told.4);
}

#[tokio::test]
async fn a_conversation_becomes_blocks_and_outputs() {
    let calls = vec![
        ToolCall {
            after: "I look.\n".len(),
            id: "1".to_owned(),
            name: "run_code".to_owned(),
            arguments: r#"{"code":"s = '````'\nprint(s)"}"#.to_owned(),
        },
        ToolCall {
            after: "I look.\n\nNow".len(),
            id: "2".to_owned(),
            name: "run_code".to_owned(),
            arguments: r#"{"code":"y","language":"R"}"#.to_owned(),
        },
        ToolCall {
            after: "I look.\n\nNow".len(),
            id: "3".to_owned(),
            name: "run_code".to_owned(),
            arguments: r#"{"code":"cut\nof"#.to_owned(),
        },
    ];
    let result = |id: &str, parts, is_error| Message::ToolResult {
        call_id: id.to_owned(),
        parts,
        is_error,
    };
    let messages = vec![
        user("q"),
        Message::Assistant {
            text: "I look.\n\nNow\n\nSo.".to_owned(),
            calls,
            native: None,
        },
        result("1", text("````\n"), false),
        result("2", vec![], false),
        result("3", text("Not run: x"), true),
        said("Done."),
        user("and?"),
    ];
    let (_, sent) = ask(prompt(messages), streamed("a", StopReason::Done)).await;
    assert_eq!(
        sent.messages,
        vec![
            user("q"),
            said(
                "I look.\n\n`````python\ns = '````'\nprint(s)\n`````\n\nNow\n\n```r\ny\n```\n\n```python\ncut\nof\n```\n\nSo."
            ),
            user("Output:\n````\n\nOutput:\n[nothing printed]\n\nOutput:\nNot run: x"),
            said("Done."),
            user("and?"),
        ]
    );
    assert!(sent.tools.is_empty());
    assert!(
        sent.system
            .starts_with("s\n\nTo run code, write a fenced block that begins with ```python.")
            && sent.system.contains("Blocks of ```r run too"),
        "{}",
        sent.system
    );
}

#[tokio::test]
async fn where_only_words_may_come_no_code_is_run() {
    let words = Prompt {
        tool_choice: ToolChoice::None,
        ..prompt(vec![user("q")])
    };
    let reply = "So:\n```python\nx\n```";
    let (told, _) = ask(words, streamed(reply, StopReason::Done)).await;
    assert_eq!((told.0.as_str(), told.2), (reply, vec![]));
}
