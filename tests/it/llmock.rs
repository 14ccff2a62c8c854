//! llmock, a PyPI package that plays vendors' APIs, breaks them on command, and then judges how the client coped.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use sponde::llm::endpoint::{Endpoint, ProviderKind};
use sponde::llm::retry::{Retry, RetryOptions};
use sponde::llm::rig::{RigOptions, RigProvider};
use sponde::llm::types::ToolChoice;
use sponde::llm::{
    Delta, Message, ModelInfo, Part, Prompt, Provider as _, ProviderError, ToolSpec, http,
};
use tokio::process::{Child, Command};

use crate::support::python_prefix;

/// Tokens of the window that the server pretends to have.
const WINDOW: usize = 2000;

/// Milliseconds between two chunks. It goes on after a malformed one, and a stream that it has sent to its end before we
/// could hang up counts as accepted: at full speed its verdict is on who was faster. At this pace the rest takes a second.
const PACE: &str = "50";

/// How long the server may take to come up: the machine may be busy.
const START_LIMIT: Duration = Duration::from_mins(1);

/// The wires that it speaks and we do.
const WIRES: [(ProviderKind, &str); 6] = [
    (ProviderKind::OpenAiCompatible, "/v1"),
    (ProviderKind::OpenAiResponses, "/v1"),
    (ProviderKind::Anthropic, "/anthropic"),
    (ProviderKind::Gemini, "/gemini"),
    (ProviderKind::Groq, "/groq/openai/v1"),
    (ProviderKind::Mistral, "/mistral"),
];

/// The server; ended when dropped.
struct Llmock {
    url: String,
    client: reqwest::Client,
    _process: Child,
}

impl Llmock {
    async fn start() -> Self {
        Self::at("0").await
    }

    /// With so many milliseconds between two chunks.
    async fn at(pace: &str) -> Self {
        let program = python_prefix().join("bin/llmock");
        assert!(
            program.exists(),
            "`{}` is missing: run scripts/test, it installs what the tests need",
            program.display()
        );
        // It cannot choose a port by itself. One that is free now may be taken in a moment: then the next.
        for _ in 0..5 {
            let port = std::net::TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .unwrap()
                .port();
            let mut process = Command::new(&program)
                .args(["serve", "--log-level", "error", "--port", &port.to_string()])
                .args(["--context-window", &WINDOW.to_string()])
                .args(["--stream-chunk-delay-ms", pace])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::inherit())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let url = format!("http://127.0.0.1:{port}");
            let client = http::client(&url).unwrap();
            let up = async {
                loop {
                    let asked = client.get(format!("{url}/_llmock/scenario")).send().await;
                    if asked.is_ok_and(|answer| answer.status().is_success()) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::select! {
                () = up => return Self { url, client, _process: process },
                _ = process.wait() => {}
                () = tokio::time::sleep(START_LIMIT) => panic!("llmock did not come up"),
            }
        }
        panic!("llmock found no port");
    }

    /// What the next requests meet with.
    async fn queue(&self, behaviors: Value) {
        let url = format!("{}/_llmock/scenario", self.url);
        let body = json!({ "behaviors": behaviors });
        let answer = self.client.post(url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    }

    /// Judges the requests since the last judgement.
    async fn verdict(&self) -> Value {
        let url = format!("{}/_llmock/verdict", self.url);
        let text = self.client.get(url).send().await.unwrap();
        let verdict = serde_json::from_str(&text.text().await.unwrap()).unwrap();
        let url = format!("{}/_llmock/reset", self.url);
        self.client.post(url).send().await.unwrap();
        verdict
    }

    /// Our client, as it is in the program but for shorter waits.
    fn client_on(&self, kind: ProviderKind, path: &str) -> Retry {
        let base_url = format!("{}{path}", self.url);
        let model = match kind {
            ProviderKind::Gemini => "gemini-2.5-flash",
            ProviderKind::Anthropic => "claude-sonnet-4-5",
            _ => "gpt-4o",
        };
        let endpoint = Endpoint {
            info: ModelInfo::default(),
            idle_timeout: Some(Duration::from_millis(700)),
            ..Endpoint::new(kind, &base_url, model)
        };
        let client = http::client(&base_url).unwrap();
        let provider = RigProvider::new(&endpoint, client, RigOptions::default());
        let options = RetryOptions {
            first_wait: Duration::from_millis(100),
            ..RetryOptions::default()
        };
        Retry::new(Arc::new(provider), options)
    }
}

/// What came of a question: the text that counts in the end, the arguments of calls, how often it was asked again.
#[derive(Debug, Default)]
struct Outcome {
    text: String,
    arguments: Vec<String>,
    again: usize,
    error: Option<ProviderError>,
}

async fn ask(provider: &Retry, question: &str) -> Outcome {
    let tool = ToolSpec {
        name: "run_code".to_owned(),
        description: "Runs a cell.".to_owned(),
        parameters: json!({"type": "object", "properties": {"code": {"type": "string"}}}),
    };
    let prompt = Prompt {
        system: "You analyse data.".to_owned(),
        messages: vec![Message::User(vec![Part::Text(question.to_owned())])],
        tools: vec![tool],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
    };
    let mut outcome = Outcome::default();
    let mut deltas = provider.stream(prompt);
    while let Some(delta) = deltas.next().await {
        match delta {
            Ok(Delta::Text(text)) => outcome.text.push_str(&text),
            Ok(Delta::CallStart { .. }) => outcome.arguments.push(String::new()),
            Ok(Delta::CallArguments { index, fragment }) => {
                outcome.arguments[index].push_str(&fragment);
            }
            Ok(Delta::Retrying(_)) => {
                outcome = Outcome {
                    again: outcome.again + 1,
                    ..Outcome::default()
                };
            }
            Ok(Delta::Reasoning(_) | Delta::Native(_) | Delta::Finished { .. }) => {}
            Err(error) => outcome.error = Some(error),
        }
    }
    outcome
}

const WORDS: &str = "The mean of the column is forty two and a half millimetres, which is more than the median of forty, \
                     so that a few large values are likely to be found.";

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_on_our_client_is_good_on_every_wire() {
    let (usual, slow) = tokio::join!(Llmock::start(), Llmock::at(PACE));
    let fault = |kind: &str| json!({"type": "stream_fault", "kind": kind, "after_chunks": 2, "stall_seconds": 2});
    // What goes wrong, and how often the question is asked again for it.
    let passing = [
        (
            "429",
            json!({"type": "fail", "status": 429, "retry_after": 1}),
            1,
        ),
        ("529", json!({"type": "fail", "status": 529, "times": 2}), 2),
        ("disconnect", fault("disconnect"), 1),
        ("truncate", fault("truncate"), 1),
        ("malformed", fault("malformed"), 1),
        ("stall", fault("stall"), 1),
    ];
    for (kind, path) in WIRES {
        for (name, behavior, again) in &passing {
            let llmock = if *name == "malformed" { &slow } else { &usual };
            let client = llmock.client_on(kind, path);
            let reply = json!({"type": "reply", "text": WORDS, "times": null});
            llmock.queue(json!([behavior, reply])).await;
            let outcome = ask(&client, &format!("What is the mean? ({name})")).await;
            let verdict = llmock.verdict().await;
            let place = format!("{kind:?}, {name}: {outcome:?}\n{verdict:#}");
            assert_eq!(outcome.error, None, "{place}");
            // Whole, and nothing of the broken one in it.
            assert_eq!(outcome.text, WORDS, "{place}");
            assert_eq!(outcome.again, *again, "{place}");
            assert_eq!(verdict["findings"], json!([]), "{place}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_helped_is_asked_once() {
    let llmock = Llmock::start().await;
    for (kind, path) in WIRES {
        let client = llmock.client_on(kind, path);
        let base_url = format!("{}{path}", llmock.url);
        for status in [400, 401, 403, 404, 422] {
            llmock
                .queue(json!([{"type": "fail", "status": status, "times": null}]))
                .await;
            let outcome = ask(&client, "hello").await;
            let verdict = llmock.verdict().await;
            let place = format!("{kind:?}, {status}: {outcome:?}\n{verdict:#}");
            match (status, outcome.error.as_ref()) {
                (401 | 403, Some(ProviderError::Unauthorized { endpoint, .. })) => {
                    assert_eq!(endpoint, &base_url, "{place}");
                }
                (_, Some(ProviderError::Rejected { status: told, .. })) if *told == status => {}
                (404, Some(ProviderError::UnknownModel { .. })) => {}
                _ => panic!("{place}"),
            }
            assert_eq!(
                (outcome.again, &verdict["findings"]),
                (0, &json!([])),
                "{place}"
            );
        }

        // A conversation that does not fit is that, and no other error.
        let outcome = ask(&client, &"many words ".repeat(WINDOW)).await;
        let place = format!("{kind:?}: {outcome:?}");
        assert!(
            matches!(outcome.error, Some(ProviderError::ContextTooLong { .. })),
            "{place}"
        );
        assert_eq!(outcome.again, 0, "{place}");
        assert_eq!(llmock.verdict().await["findings"], json!([]), "{place}");

        // Arguments that are none stay what the model wrote: nobody mends them into an empty cell.
        llmock
            .queue(json!([{"type": "tool_fault", "kind": "malformed_arguments"}]))
            .await;
        let outcome = ask(&client, "hello").await;
        let place = format!("{kind:?}: {outcome:?}");
        assert_eq!(outcome.error, None, "{place}");
        let [arguments] = outcome.arguments.as_slice() else {
            panic!("{place}");
        };
        let parsed: Result<Value, _> = serde_json::from_str(arguments);
        // Gemini's arguments are an object on the wire; what is broken there is what is in it.
        let code = parsed.ok().and_then(|it| Some(it.get("code")?.is_string()));
        assert_ne!(code, Some(true), "{place}");
        llmock.verdict().await;
    }
}
