//! `Run it?` on a real pseudo-terminal: the words a person uses, commands at the question, several cells of one reply, and
//! taking back what was allowed.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::Sponde;
use crate::terminal::{Screen, model_that_runs, play};

const PROMPT: &str = "\r\n> ";
const QUESTION: &str = "or say what to do instead:";

/// A chat with `misbehave` in which the first question is asked, then `steps` are played, and the chat ends.
async fn chat(mock: Aimock, steps: Value) -> (Screen, Vec<Value>) {
    let sponde = Sponde::new().with_model(&mock);
    let mut all = vec![json!(["wait", PROMPT]), json!(["type", "go\n"])];
    all.extend(steps.as_array().unwrap().iter().cloned());
    let arguments = ["--model", "gpt-4o", "-k", "misbehave", "-k", "python3"];
    let steps = Value::Array(all);
    let screen = tokio::task::block_in_place(|| play(&sponde, &arguments, &steps));
    let journal = mock.journal().await;
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    (screen, journal)
}

/// It wants to run these cells in one reply, and then says that that was it.
async fn model_that_runs_all(codes: &[&str]) -> Aimock {
    let call = |code: &&str| {
        let arguments = json!({ "code": code }).to_string();
        json!({"type": "toolCall", "name": "run_code", "arguments": arguments})
    };
    let calls: Vec<Value> = codes.iter().map(call).collect();
    Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": calls}},
        {"match": {"turnIndex": 1}, "response": {"content": "That was it."}},
    ]))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_consent_run_code_and_help_says_what_can_be_said() {
    let mock = model_that_runs("echo ran it").await;
    let (screen, _) = chat(
        mock,
        json!([
            ["wait", QUESTION],
            ["type", "h\n"],
            [
                "wait",
                "anything else                do not run it, and tell the model"
            ],
            ["wait", QUESTION],
            ["type", "yes please, go ahead\n"],
            ["wait", "\r\nran it\r\n"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    )
    .await;
    assert!(!screen.all.contains("declined"), "{}", screen.all);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_refusal_end_the_turn_and_other_words_are_its_reason() {
    let mock = model_that_runs("echo ran it").await;
    let (screen, journal) = chat(
        mock,
        json!([
            ["wait", QUESTION],
            ["type", "no thanks\n"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    )
    .await;
    assert_eq!(journal.len(), 1, "{}", screen.all);

    let mock = model_that_runs("echo ran it").await;
    let (screen, journal) = chat(
        mock,
        json!([
            ["wait", QUESTION],
            ["type", "ok but say it twice\n"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    )
    .await;
    assert!(!screen.all.contains("\r\nran it\r\n"), "{}", screen.all);
    let told = journal[1].to_string();
    assert!(told.contains("ok but say it twice"), "{told}");
}

/// A command is no refusal: the model hears nothing of it, and the question comes back.
#[tokio::test(flavor = "multi_thread")]
async fn commands_work_at_the_question_and_it_comes_back() {
    let mock = model_that_runs("recall").await;
    let (screen, journal) = chat(
        mock,
        json!([
            ["wait", QUESTION],
            ["type", "/help\n"],
            ["wait", "when you are asked before code runs"],
            ["wait", QUESTION],
            ["type", "!remember what I said\n"],
            ["wait", QUESTION],
            // A cell of one's own that fails ends nothing.
            ["type", "!error Wrong own\n"],
            ["wait", "own"],
            ["wait", QUESTION],
            ["type", "%%nosuch x\n"],
            ["wait", "there is no kernel for `nosuch`"],
            ["wait", QUESTION],
            ["type", "/kernel\n"],
            ["wait", "> misbehave (misbehave)"],
            ["wait", QUESTION],
            ["type", "/undo\n"],
            ["wait", "`/undo` works between two turns"],
            ["wait", QUESTION],
            ["type", "/nosuch\n"],
            ["wait", "there is no `/nosuch`"],
            ["wait", QUESTION],
            ["type", "y\n"],
            ["wait", "what I said"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    )
    .await;
    assert_eq!(journal.len(), 2, "{}", screen.all);
    let told = journal[1].to_string();
    assert!(
        !told.contains("/help") && !told.contains("declined"),
        "{told}"
    );
    // It learns what the person ran meanwhile.
    assert!(told.contains("remember what I said"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_can_be_left_at_the_question() {
    let mock = model_that_runs("echo ran it").await;
    let (screen, journal) = chat(mock, json!([["wait", QUESTION], ["type", "/exit\n"]])).await;
    assert_eq!(journal.len(), 1);
    assert!(!screen.all.contains("\r\nran it\r\n"), "{}", screen.all);
    assert!(screen.all.contains("notebook:"), "{}", screen.all);
}

/// Each is printed once, right above its own question.
#[tokio::test(flavor = "multi_thread")]
async fn cells_of_one_reply_are_shown_once_each_with_their_own_question() {
    let mock = model_that_runs_all(&["echo the-first", "echo the-second"]).await;
    let (screen, _) = chat(
        mock,
        json!([
            ["wait", "Run 1 of 2?"],
            ["wait", QUESTION],
            ["type", "y\n"],
            ["wait", "\r\nthe-first\r\n"],
            ["wait", "Run 2 of 2?"],
            ["wait", QUESTION],
            ["type", "y\n"],
            ["wait", "\r\nthe-second\r\n"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    )
    .await;
    let first = &screen.waited[1];
    assert!(first.contains("\r\necho the-first\r\n"), "{first}");
    assert!(!first.contains("the-second"), "{first}");
    let second = &screen.waited[4];
    assert!(second.contains("misbehave · 2 of 2"), "{second}");
    assert!(
        second.ends_with(
            "─\r\necho the-second\r\nline 1: code in misbehave is not analysed (echo the-second)\r\nRun 2 of 2?"
        ),
        "{second}"
    );
    for code in ["echo the-first", "echo the-second"] {
        let shown = format!("\r\n{code}\r\n");
        assert_eq!(screen.all.matches(&shown).count(), 1, "{}", screen.all);
    }
}

/// The code that runs without a question is shown too, and so is what becomes of a cell that does not run.
#[tokio::test(flavor = "multi_thread")]
async fn always_is_seen_in_the_prompt_and_taken_back() {
    let mock = model_that_runs_all(&["echo the-first", "error Wrong sum", "echo the-third"]).await;
    let (screen, _) = chat(
        mock,
        json!([
            ["wait", "Run 1 of 3?"],
            ["wait", QUESTION],
            ["type", "always\n"],
            [
                "wait",
                "code of this language that is not analysed runs without a question in this session"
            ],
            ["wait", "\r\nthe-first\r\n"],
            ["wait", "─\r\nerror Wrong sum\r\n"],
            ["wait", "cell 3 of 3: not run"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "/approve never\n"],
            [
                "wait",
                "runs without a question; /approve always or /approve on-risk changes that"
            ],
            ["wait", "\r\nnever > "],
            ["type", "/approve ask\n"],
            ["wait", "you are asked before"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    )
    .await;
    assert!(!screen.all.contains("Run 2 of 3?"), "{}", screen.all);
}

/// What `/approve` says holds for the agent too.
#[tokio::test(flavor = "multi_thread")]
async fn code_is_asked_about_again_after_approve_ask() {
    let mock = model_that_runs("echo ran it").await;
    let sponde = Sponde::new().with_model(&mock);
    let screen = tokio::task::block_in_place(|| {
        play(
            &sponde,
            &["--model", "gpt-4o", "-k", "misbehave", "--yes"],
            &json!([
                ["wait", "\r\nnever > "],
                ["type", "/approve ask\n"],
                ["wait", PROMPT],
                ["type", "go\n"],
                ["wait", QUESTION],
                ["type", "/approve never\n"],
                ["wait", "runs without a question"],
                ["wait", QUESTION],
                ["type", "no\n"],
                ["wait", "\r\nnever > "],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    assert!(!screen.all.contains("\r\nran it\r\n"), "{}", screen.all);
}
