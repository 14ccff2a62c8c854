//! `sponde ask` where nobody looks on: the answer in a file, as checked JSON, alone on stdout; and what a failure leaves.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde};

const SCHEMA: &str = r#"{"type": "object", "required": ["rain"], "additionalProperties": false,
  "properties": {"rain": {"type": "integer", "minimum": 0}}}"#;

/// It runs code, then answers with `answers` one after the other.
async fn model(answers: &[&str]) -> Aimock {
    let arguments = json!({ "code": "echo computed" }).to_string();
    let mut fixtures = vec![json!({"match": {"turnIndex": 0}, "response": {
        "content": "Let me see.",
        "toolCalls": [{"name": "run_code", "arguments": arguments}]}})];
    for (number, answer) in answers.iter().enumerate() {
        let at = number + 1;
        fixtures.push(json!({"match": {"turnIndex": at}, "response": {"content": answer}}));
    }
    Aimock::start(&Value::Array(fixtures)).await
}

const ASK: [&str; 7] = [
    "ask",
    "how much rain?",
    "--yes",
    "--model",
    "gpt-4o",
    "-k",
    "misbehave",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ASK.iter().chain(more).copied().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_answer_is_a_file_and_alone_on_stdout() {
    let mock = model(&["It rained **12** mm."]).await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.write("answer.txt", "old and longer than what comes now");
    let quiet = with(&["-o", "answer.txt", "--quiet"]);
    let ended = tokio::task::block_in_place(|| sponde.run(&quiet));
    let loud = tokio::task::block_in_place(|| sponde.run(&with(&["-o", "second.txt"])));
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(ended.stdout, "It rained **12** mm.\n");
    assert_eq!(ended.stderr, "");
    assert_eq!(sponde.read("answer.txt"), "It rained **12** mm.\n");
    assert_eq!(loud.code, Some(0), "{loud}");
    assert!(loud.stdout.contains("Let me see."), "{loud}");
    assert!(loud.stderr.contains("computed"), "{loud}");
    assert_eq!(sponde.read("second.txt"), "It rained **12** mm.\n");
    let beside: Vec<_> = std::fs::read_dir(sponde.path(""))
        .unwrap()
        .flatten()
        .collect();
    let names: Vec<_> = beside.iter().map(std::fs::DirEntry::file_name).collect();
    assert!(
        !names
            .iter()
            .any(|it| it.to_string_lossy().contains(".sponde-")),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    let mock = model(&["It rained 12 mm.", "```json\n{\"rain\": 12}\n```"]).await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.write("schema.json", SCHEMA);
    let ask = with(&["--output-schema", "schema.json", "-o", "answer.json"]);
    let ended = tokio::task::block_in_place(|| sponde.run(&ask));
    let requests = mock.journal().await;
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(ended.stdout, "{\"rain\":12}\n", "{ended}");
    assert_eq!(sponde.read("answer.json"), "{\"rain\":12}\n");
    assert!(
        ended
            .stderr
            .contains("asking again: the answer is not JSON"),
        "{ended}"
    );
    assert_eq!(requests.len(), 3, "{requests:?}");
    let first = requests[0].to_string();
    assert!(first.contains("additionalProperties"), "{first}");
    let last = requests[2].to_string();
    assert!(
        last.contains("does not fit the JSON schema: the answer is not JSON"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_fits_is_a_failure_and_no_file() {
    let mock = model(&[
        "{\"rain\": -1}",
        "{\"rain\": 1.5, \"more\": 2}",
        "never asked for",
    ])
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.write("schema.json", SCHEMA);
    let ask = with(&[
        "--output-schema",
        "schema.json",
        "-o",
        "answer.json",
        "--quiet",
    ]);
    let ended = tokio::task::block_in_place(|| sponde.run(&ask));
    let requests = mock.journal().await;
    mock.stop().await;
    insta::assert_snapshot!(ended.error().1, @"
    exit: 1
    error: the answer does not fit the schema: `rain` is a number, and must be an integer; `more` must not be there

    hint: the model was asked twice; `sponde sessions show` has both answers
    ");
    assert_eq!(ended.stdout, "");
    assert_eq!(requests.len(), 3);
    assert!(!sponde.path("answer.json").exists());
}

/// Before a model is paid for an answer that could not be checked or kept.
#[test]
fn a_schema_and_a_file_that_cannot_be_used_are_said_at_once() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    sponde.write("schema.json", r#"{"properties": {"a": {"if": true}}}"#);
    let ended = sponde.run(&with(&["--output-schema", "schema.json"]));
    insta::assert_snapshot!(ended.error().1, @"
    exit: 2
    error: `schema.json` is not a JSON schema: #/properties/a/if is not supported
    ");
    let ended = sponde.run(&with(&["--output-schema", "nosuch.json"]));
    insta::assert_snapshot!(ended.error().1, @"
    exit: 2
    error: could not read `nosuch.json`: No such file or directory (os error 2)
    ");
    let ended = sponde.run(&with(&["-o", "nosuch/answer.txt"]));
    insta::assert_snapshot!(ended.error().1, @"
    exit: 2
    error: the answer cannot be written to `nosuch/answer.txt`

    hint: name a file in a directory that is there
    ");
    let ended = sponde.run(&with(&["--quiet", "--json"]));
    assert_eq!(ended.code, Some(2), "{ended}");
}

/// Neither a session, nor its notebook, its audit log or what was piped into it.
#[test]
fn a_failed_question_leaves_no_session() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let ended = sponde.run_with_stdin(
        &["ask", "why?", "--model", "m", "-k", "misbehave"],
        "a,b\n1,2\n",
    );
    assert_eq!(ended.code, Some(5), "{ended}");
    let broken = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    broken.add_kernel("broken", &["/bin/false".to_owned()]);
    let no_kernel = broken.run(&["ask", "why?", "--model", "m", "-k", "broken"]);
    assert_ne!(no_kernel.code, Some(0), "{no_kernel}");
    for sponde in [&sponde, &broken] {
        let left: Vec<_> = std::fs::read_dir(sponde.sessions())
            .map(|entries| entries.flatten().map(|it| it.file_name()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn doctor_tells_programs_too() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let ended = sponde.run(&["doctor", "--json", "-v"]);
    let checks: Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<_> = checks
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    let names: Vec<_> = names.iter().filter(|it| **it != "gvisor").collect();
    assert_eq!(
        names,
        [
            "sponde", "sessions", "python", "sandbox", "limits", "kernel", "models"
        ]
        .each_ref()
        .to_vec()
    );
    let told = sponde.run(&["doctor"]);
    assert_eq!(told.code, ended.code, "{told}");
    for check in checks.as_array().unwrap() {
        let is_good = check["state"] == "ok";
        assert_eq!(check["hint"].is_null(), is_good, "{check}");
        // How long the kernel took is another number each time.
        let words = check["words"].as_str().unwrap();
        if check["name"] != "kernel" {
            assert!(told.stdout.contains(words), "{words} in {told}");
        }
    }
}
