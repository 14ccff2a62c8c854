//! All of `sponde ask`: a question over HTTP to a model (aimock plays OpenAI's chat completions, streamed), its code in
//! a real kernel, the outputs back over HTTP, the conversation as a notebook.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{Ended, Sponde, assert_is_valid_notebook};

const QUESTION: &str = "What is 6*7, as a bar chart?";

/// A reply with a call of the tool. `arguments` are what the model writes, JSON or not.
fn call(text: &str, arguments: &str) -> Value {
    json!({"blocks": [
        {"type": "text", "text": text},
        {"type": "toolCall", "name": "run_code", "arguments": arguments},
    ]})
}

fn code(source: &str) -> String {
    json!({"code": source}).to_string()
}

/// The model's replies, one after the other.
fn conversation(replies: &[Value]) -> Value {
    replies
        .iter()
        .enumerate()
        .map(|(index, reply)| json!({"match": {"turnIndex": index}, "response": reply}))
        .collect()
}

/// One question to a model that replies so.
async fn ask(replies: &Value, arguments: &[&str]) -> Asked {
    let mock = Aimock::start(replies).await;
    let sponde = Sponde::new().with_model(&mock);
    let mut all = vec![
        "ask",
        QUESTION,
        "--model",
        "gpt-4o",
        "--notebook",
        "out.ipynb",
    ];
    all.extend(arguments);
    let ended = tokio::task::block_in_place(|| sponde.run(&all));
    let requests = mock.journal().await;
    mock.stop().await;
    Asked {
        sponde,
        ended,
        requests,
    }
}

struct Asked {
    sponde: Sponde,
    ended: Ended,
    /// What the model was sent.
    requests: Vec<Value>,
}

impl Asked {
    /// The notebook's code cells.
    fn code_cells(&self) -> Vec<Value> {
        assert_is_valid_notebook(&self.sponde.path("out.ipynb"));
        let notebook: Value = serde_json::from_str(&self.sponde.read("out.ipynb")).unwrap();
        let cells = notebook["cells"].as_array().unwrap();
        cells
            .iter()
            .filter(|cell| cell["cell_type"] == "code")
            .cloned()
            .collect()
    }

    /// The words of the tool's results in the last request, in order.
    fn results(&self) -> Vec<String> {
        let messages = self.requests.last().unwrap()["body"]["messages"]
            .as_array()
            .unwrap();
        messages
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The events' names; what comes in pieces is named once, when the kernel is ready is chance.
fn names(events: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    names.retain(|&name| name != "kernel_ready");
    names.dedup();
    names
}

/// All text of the events of one name, joined.
fn text(events: &[Value], name: &str) -> String {
    events
        .iter()
        .filter(|event| event["event"] == name)
        .map(|event| event["text"].as_str().unwrap())
        .collect()
}

fn find<'a>(events: &'a [Value], name: &str) -> &'a Value {
    events
        .iter()
        .find(|event| event["event"] == name)
        .unwrap_or_else(|| panic!("no `{name}`"))
}

const PLOT: &str =
    "print('it is', 6 * 7)\nimport matplotlib.pyplot as plt\nplt.bar(['6*7'], [42])\nplt.show()\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_question_a_plot_an_answer() {
    let replies = conversation(&[
        call("Let me compute and draw that.", &code(PLOT)),
        json!({"content": "6*7 is 42, as the chart shows."}),
    ]);
    let asked = ask(&replies, &["--json", "--yes"]).await;
    assert_eq!(
        (asked.ended.code, asked.ended.stderr.as_str()),
        (Some(0), ""),
        "{}",
        asked.ended
    );

    let events = asked.ended.events();
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| event["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        names(&events),
        [
            "session_started",
            "step_started",
            "text",
            "code_delta",
            "code_proposed",
            "code_started",
            "output",
            "pictures_saved",
            "code_finished",
            "step_started",
            "text",
            "turn_finished",
        ]
    );
    find(&events, "kernel_ready");
    assert_eq!(
        text(&events, "text"),
        "Let me compute and draw that.6*7 is 42, as the chart shows."
    );
    assert_eq!(text(&events, "code_delta"), PLOT);
    assert_eq!(find(&events, "code_proposed")["source"], PLOT);
    let outputs: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "output")
        .collect();
    assert_eq!(
        outputs[0]["output"],
        json!({"output_type": "stream", "name": "stdout", "text": "it is 42\n"})
    );
    let finished = find(&events, "code_finished");
    assert_eq!(
        (&finished["status"], &finished["count"]),
        (&json!("ok"), &json!(1))
    );
    let end = find(&events, "turn_finished");
    assert_eq!(
        (&end["end"], &end["notebook"]),
        (
            &json!("done"),
            &json!(asked.sponde.path("out.ipynb").to_string_lossy())
        )
    );

    let cells = asked.code_cells();
    let [cell] = cells.as_slice() else {
        panic!("{} code cells", cells.len())
    };
    assert_eq!(
        (&cell["execution_count"], joined(&cell["source"])),
        (&json!(1), PLOT.to_owned())
    );
    assert_eq!(cell["outputs"][0]["text"], json!(["it is 42\n"]));
    // matplotlib may complain between the two.
    let outputs = cell["outputs"].as_array().unwrap();
    let png = outputs
        .iter()
        .find_map(|output| output["data"]["image/png"].as_str())
        .unwrap();
    assert!(
        png.starts_with("iVBORw0KGgo") && png.len() > 1000,
        "{} bytes",
        png.len()
    );

    let paths: Vec<&str> = asked
        .requests
        .iter()
        .map(|request| request["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["/v1/chat/completions"; 2]);
    let results = asked.results();
    assert!(
        results.len() == 1 && results[0].starts_with("it is 42\n"),
        "{results:?}"
    );
    // The model sees the plot, too.
    let last = asked.requests[1]["body"].to_string();
    assert!(last.contains("data:image/png;base64,iVBORw0KGgo"), "{last}");
}

fn joined(source: &Value) -> String {
    match source {
        Value::Array(lines) => lines.iter().map(|line| line.as_str().unwrap()).collect(),
        source => source.as_str().unwrap().to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn for_a_person_the_answer_is_on_stdout_and_the_rest_on_stderr() {
    let replies = conversation(&[
        call("Let me see.", &code("print(6 * 7)")),
        json!({"content": "It is 42."}),
    ]);
    let asked = ask(&replies, &["--yes"]).await;
    assert!(
        asked.ended.stdout.ends_with('\n'),
        "{:?}",
        asked.ended.stdout
    );
    let took = |line: &str| {
        // How much is asked depends on the directory and the libraries of this machine.
        let (_, line) = line.split_once(' ').unwrap_or_default();
        let (before, seconds) = line.rsplit_once(", ").unwrap_or_default();
        format!(
            "{before}, {}",
            seconds.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
        )
    };
    let shown: Vec<String> = asked
        .ended
        .to_string()
        .lines()
        .map(|line| {
            if line.contains(" tokens in") {
                took(line)
            } else {
                line.to_owned()
            }
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    exit: 0
    --- stdout
    Let me see.

    It is 42.
    --- stderr
    sponde: openai-compatible/gpt-4o with kernel python3
    ── python ──────────────────────────────────────────────────────────────
    print(6 * 7)
    ── output 4 · python ───────────────────────────────────────────────────
    42


    tokens in, 14 out,  s
    notebook: [HOME]/work/out.ipynb
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_nobody_approved_is_not_run() {
    let asked = ask(
        &conversation(&[call("Let me see.", &code("open('made', 'w')"))]),
        &["--json", "--approval", "always"],
    )
    .await;
    assert_eq!(asked.ended.code, Some(3), "{}", asked.ended);
    assert!(!asked.sponde.path("made").exists());
    let events = asked.ended.events();
    assert!(
        !names(&events).contains(&"code_started"),
        "{:?}",
        names(&events)
    );
    assert_eq!(find(&events, "turn_finished")["end"], "declined");
    assert_eq!(asked.code_cells()[0]["execution_count"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_dies_under_the_models_code() {
    // It sleeps because a process that is gone at once takes along what its own ZeroMQ had not written yet.
    let replies = conversation(&[
        call(
            "Let me see.",
            &code(
                "import os, time\nx = 1\nprint('last words', flush=True)\ntime.sleep(0.3)\nos._exit(3)",
            ),
        ),
        call("Again.", &code("print('x' in globals())")),
        json!({"content": "The kernel died, and x with it."}),
    ]);
    let asked = ask(&replies, &["--json", "--yes"]).await;
    assert_eq!(
        (asked.ended.code, asked.ended.stderr.as_str()),
        (Some(0), ""),
        "{}",
        asked.ended
    );

    let events = asked.ended.events();
    let finished: Vec<(&Value, &Value)> = events
        .iter()
        .filter(|event| event["event"] == "code_finished")
        .map(|event| (&event["status"], &event["count"]))
        .collect();
    assert_eq!(
        finished,
        [
            (&json!("kernel died"), &json!(1)),
            (&json!("ok"), &json!(1))
        ]
    );
    assert_eq!(
        find(&events, "kernel_died")["reason"],
        "exit status 3; all variables are lost"
    );
    assert_eq!(find(&events, "turn_finished")["end"], "done");

    let results = asked.results();
    let [died, again] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert!(
        died.starts_with("last words\n") && died.contains("kernel died"),
        "{died}"
    );
    assert_eq!(again.trim_end(), "False");
    assert_eq!(asked.code_cells().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_whole_is_answered_and_not_run() {
    let broken = r#"{"code": "open('made', 'w')""#;
    let replies = conversation(&[
        call("Let me see.", broken),
        json!({"content": "I could not."}),
    ]);
    let asked = ask(&replies, &["--json", "--yes"]).await;
    assert_eq!(
        (asked.ended.code, asked.ended.stderr.as_str()),
        (Some(0), ""),
        "{}",
        asked.ended
    );
    assert!(!asked.sponde.path("made").exists());
    let events = asked.ended.events();
    assert!(
        !names(&events).contains(&"code_started"),
        "{:?}",
        names(&events)
    );
    let results = asked.results();
    assert!(
        results.len() == 1 && results[0].contains("not valid JSON"),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key() {
    let refusal = json!([{"match": {}, "response": {"status": 401, "error":
        {"message": "Incorrect API key provided: sk-hunter2", "type": "invalid_request_error"}}}]);
    let asked = ask(&refusal, &["-k", "misbehave"]).await;
    let (before, error) = asked.ended.error();
    assert!(!before.contains("error:"), "said twice: {}", asked.ended);
    insta::assert_snapshot!(error, @"
    exit: 5
    error: `http://127.0.0.1:[PORT]/v1` refused the key: Incorrect API key provided: ***

    hint: check the key in `OPENAI_API_KEY`
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model() {
    let refusal = json!([{"match": {}, "response": {"status": 404, "error":
        {"message": "The model `gpt-4o` does not exist", "type": "invalid_request_error", "code": "model_not_found"}}}]);
    let asked = ask(&refusal, &["-k", "misbehave"]).await;
    let (_, error) = asked.ended.error();
    insta::assert_snapshot!(error, @"
    exit: 5
    error: `http://127.0.0.1:[PORT]/v1` has no model `gpt-4o`: The model `gpt-4o` does not exist; it has `gpt-4o`, `gpt-4`

    hint: `sponde models` shows what can be reached; -v says more
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_breaks_off_is_asked_for_again() {
    let words = json!({"content": "The answer to this question is a rather long sentence."});
    let replies = json!([
        {"match": {"sequenceIndex": 0}, "truncateAfterChunks": 3, "response": words},
        {"match": {"sequenceIndex": 1}, "response": words},
    ]);
    let asked = ask(&replies, &["--json", "-k", "misbehave"]).await;
    assert_eq!(
        (asked.ended.code, &*asked.ended.stderr),
        (Some(0), ""),
        "{}",
        asked.ended
    );
    let events = asked.ended.events();
    assert_eq!(
        names(&events),
        [
            "session_started",
            "step_started",
            "text",
            "retrying",
            "text",
            "turn_finished"
        ]
    );
    let retrying = find(&events, "retrying");
    assert_eq!(
        (&retrying["attempt"], &retrying["of"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(
        asked.requests[0]["body"], asked.requests[1]["body"],
        "half a reply got into the prompt"
    );
    // What was said is not lost, and marked.
    let shown = events
        .iter()
        .filter(|event| event["cell"] == retrying["cell"] && event["event"] == "text")
        .map(|event| event["text"].as_str().unwrap())
        .collect::<String>();
    assert!(words["content"].as_str().unwrap().starts_with(&shown) && !shown.is_empty());
    let notebook: Value = serde_json::from_str(&asked.sponde.read("out.ipynb")).unwrap();
    let cells = notebook["cells"].as_array().unwrap();
    let cut = cells
        .iter()
        .find(|cell| cell["metadata"]["sponde"]["role"] == "cut off");
    let cut = joined(&cut.unwrap()["source"]);
    assert!(cut.starts_with(&format!("{shown}\n\n*(cut off: ")), "{cut}");
}
