//! One key answers whether code runs, on a real pseudo-terminal.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::Sponde;
use crate::terminal::{Screen, play_on};

const QUESTION: &str = "or say what to do instead:";
const PROMPT: &str = ">\u{1b}[0m ";

/// It wants to run these, one after another, and then says that that was it.
async fn model_that_runs(codes: &[&str]) -> Aimock {
    let mut turns: Vec<Value> = Vec::new();
    for (turn, code) in codes.iter().enumerate() {
        let arguments = json!({ "code": code }).to_string();
        turns.push(
            json!({"match": {"turnIndex": turn}, "response": {"blocks": [
                {"type": "toolCall", "name": "run_code", "arguments": arguments}]}}),
        );
    }
    turns.push(
        json!({"match": {"turnIndex": codes.len()}, "response": {"content": "That was it."}}),
    );
    Aimock::start(&json!(turns)).await
}

/// What the model was sent last.
async fn asked(mock: &Aimock) -> String {
    let journal = mock.journal().await;
    journal.last().unwrap().to_string()
}

fn chat(mock: &Aimock, steps: &Value) -> Screen {
    let sponde = Sponde::new().with_model(mock);
    sponde.configure("approval = \"always\"\n");
    let screen = tokio::task::block_in_place(|| {
        let arguments = ["--model", "gpt-4o", "-k", "misbehave"];
        play_on("xterm-256color", &sponde, &arguments, steps)
    });
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    screen
}

const ONE: &str = "echo one\necho 2\necho 3\necho 4";
const TWO: &str = "echo two\necho 2\necho 3\necho 4";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_an_answer() {
    let mock = model_that_runs(&[ONE, TWO, ONE]).await;
    let screen = chat(
        &mock,
        &json!([
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", QUESTION],
            ["type", "?"],
            ["wait", "explain it first"],
            // The model proposes it anew, with a change that is shown.
            ["wait", "different from before:"],
            ["wait", "- echo one"],
            ["wait", "+ echo two"],
            ["wait", QUESTION],
            ["type", "n"],
            ["wait", "What instead?"],
            ["type", "print one\r"],
            ["wait", QUESTION],
            ["type", "y"],
            ["wait", "one\u{1b}[K\r\n2"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    let asked = asked(&mock).await;
    mock.stop().await;
    assert!(!screen.all.contains("two\u{1b}[K\r\n2"), "{}", screen.all);
    assert!(asked.contains("Explain this code first"), "{asked}");
    assert!(asked.contains("print one"), "{asked}");
}

/// Nothing that is pasted or begun as words approves anything, and `q` ends the turn.
#[tokio::test(flavor = "multi_thread")]
async fn words_are_no_keys() {
    let mock = model_that_runs(&[ONE, TWO, ONE]).await;
    let screen = chat(
        &mock,
        &json!([
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", QUESTION],
            ["type", "yellow is better\r"],
            ["wait", QUESTION],
            // Not so fast that it could be pasted.
            ["type", "u"],
            ["wait", "instead:"],
            ["type", "se polars\r"],
            ["wait", QUESTION],
            ["type", "q"],
            ["wait", "you declined"],
            ["wait", PROMPT],
            ["type", "!echo al"],
            ["type", "ive\r"],
            ["wait", "alive\u{1b}[K\r\n\u{1b}[J"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    let asked = asked(&mock).await;
    mock.stop().await;
    for ran in ["one\u{1b}[K\r\n2", "two\u{1b}[K\r\n2"] {
        assert!(!screen.all.contains(ran), "{}", screen.all);
    }
    assert!(asked.contains("yellow is better"), "{asked}");
    assert!(asked.contains("use polars"), "{asked}");
}

/// Ctrl-C at the question ends the turn, and the rest of `yes` is no line of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_leaves_nothing_behind() {
    let mock = model_that_runs(&[ONE, ONE]).await;
    let screen = chat(
        &mock,
        &json!([
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", QUESTION],
            ["type", "\u{3}"],
            ["wait", "interrupted"],
            ["wait", PROMPT],
            ["type", "again\r"],
            ["wait", QUESTION],
            ["type", "y"],
            ["wait", "yes\r\n"],
            ["type", "es\r"],
            ["wait", "one\u{1b}[K\r\n2"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    mock.stop().await;
    assert!(!screen.all.contains("> es"), "{}", screen.all);
}

/// A line that is typed right after the key is the next line, and whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_typed_right_after_a_key_is_kept() {
    let mock = model_that_runs(&[ONE]).await;
    let screen = chat(
        &mock,
        &json!([
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", QUESTION],
            ["type", "y"],
            ["wait", "yes\r\n"],
            // Begins as the rest of `yes` does.
            ["type", "echo ééé\u{1}!\r"],
            ["wait", "That was it."],
            ["wait", "\r\nééé"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
}

/// `a` runs it, and code like it runs without a question.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_a_asks_no_more() {
    let mock = model_that_runs(&[ONE, TWO]).await;
    let screen = chat(
        &mock,
        &json!([
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", QUESTION],
            ["type", "a"],
            ["wait", "always\r\n"],
            ["wait", "from now on code of this language that"],
            ["wait", "one\u{1b}[K\r\n2"],
            ["wait", "two\u{1b}[K\r\n2"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "/approve\r"],
            ["wait", "that may do what the sandbox does not stop"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    mock.stop().await;
    assert_eq!(screen.all.matches("Run it?").count(), 1, "{}", screen.all);
}

/// `/interrupt` at the question ends the turn.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_is_a_command_at_the_question() {
    let mock = model_that_runs(&[ONE]).await;
    let screen = chat(
        &mock,
        &json!([
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", QUESTION],
            ["type", "/"],
            ["wait", "instead:"],
            ["type", "interrupt\r"],
            ["wait", "interrupted"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    mock.stop().await;
    assert!(!screen.all.contains("one\u{1b}[K"), "{}", screen.all);
}
