//! A chat whose lines come from a pipe: how it ends, and what of it is a question.

use serde_json::json;

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde};

/// Nobody can approve in a pipe, and the next line is no answer to what was asked.
#[tokio::test(flavor = "multi_thread")]
async fn code_that_nobody_can_approve_ends_a_chat() {
    let arguments = json!({ "code": "print(1)" }).to_string();
    let replies = json!([{"match": {"turnIndex": 0}, "response": {"blocks": [
        {"type": "toolCall", "name": "run_code", "arguments": arguments}]}}]);
    let mock = Aimock::start(&replies).await;
    let sponde = Sponde::new().with_model(&mock);
    let chat = &["--model", "gpt-4o", "-k", "misbehave"];
    let ended = tokio::task::block_in_place(|| sponde.run_with_stdin(chat, "do sum\ny\n"));
    let requests = mock.journal().await;
    mock.stop().await;
    insta::assert_snapshot!(ended.error().1, @"
    exit: 3
    error: the model's code needs approval and nobody is there to give it

    hint: run in a terminal, or allow its code with --yes
    ");
    assert_eq!(requests.len(), 1, "{requests:?}");
}

#[test]
fn a_conversation_that_cannot_be_saved_is_an_error() {
    // Where not even root can write.
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("SPONDE_DATA_DIR", "/proc/sponde");
    let chat = &["--model", "m", "-k", "misbehave"];
    let ended = sponde.run_with_stdin(chat, "!echo hi\n");
    assert_eq!(ended.code, Some(1), "{ended}");
    let (before, error) = ended.error();
    assert!(!before.contains("notebook:"), "{ended}");
    let place = "the conversation is over, but its notebook `/proc/sponde/sessions/";
    assert!(error.contains(place), "{ended}");
}

#[test]
fn what_looks_like_a_command_is_no_question() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let lines = "/exit now\n/compact now\n/nosuch arg\n!\n%%\n/help me\n";
    let ended = sponde.run_with_stdin(&["--model", "m", "-k", "misbehave"], lines);
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "`/exit` takes nothing behind it, and there is `now`",
        "`/compact` takes nothing behind it",
        "there is no `/nosuch`",
        "there is no code to run: write !CODE",
        "there is no code to run: write %%LANGUAGE CODE",
        "Ctrl-C stops what is going on",
    ] {
        assert!(ended.stderr.contains(words), "{words} in {ended}");
    }
    // Nobody was asked anything.
    assert!(!ended.stderr.contains("error:"), "{ended}");
}

/// As a script's is that of its last command.
#[test]
fn the_exit_code_is_that_of_the_last_turn() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let chat = &["--model", "m", "-k", "misbehave"];
    for (lines, code) in [
        ("why?\n", 5),
        ("!error Wrong sum\n", 1),
        ("!error Wrong sum\n!echo well\n", 0),
        ("why?\n/help\n", 5),
    ] {
        let ended = sponde.run_with_stdin(chat, lines);
        assert_eq!(ended.code, Some(code), "{lines}: {ended}");
    }
}

#[test]
fn an_error_of_the_model_has_a_hint() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let ended = sponde.run_with_stdin(&["--model", "m", "-k", "misbehave"], "why?\n");
    let hint = "hint: `sponde models` shows what can be reached";
    assert!(ended.stderr.contains(hint), "{ended}");
}
