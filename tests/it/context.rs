//! A conversation that outgrows its model's window: what is kept, what the model is told, what is sent again byte for
//! byte.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::{Command, CompactionReason, EventKind, TurnEnd};
use sponde::jupyter::nbformat::validate;
use sponde::llm::endpoint::ProviderKind;
use sponde::llm::scripted::Reply;
use sponde::llm::types::{Message, Part, Prompt, Provider as _, ToolCall, ToolChoice, ToolSpec};

use crate::agent::{Session, call, start_with};
use crate::model_server::{Answer, ModelServer, Request, provider};
use crate::support::{ipykernel, misbehaving};

/// The window of the model in these tests, in its own tokens.
const WINDOW: u64 = 16_384;
const QUESTIONS: usize = 12;
/// Cells for each question; with the answer that is 60 steps.
const CELLS: usize = 4;

/// The parts of a request whose bytes must stay, as they came.
#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    tools: &'a RawValue,
}

/// How the model counts: not as we do. Pictures are not counted by their base64.
fn tokens(request: &Request) -> u64 {
    let body = request.json();
    let mut tokens = body["tools"].to_string().len() as u64 * 10 / 35;
    for message in body["messages"].as_array().unwrap() {
        let text = message.to_string();
        tokens += match message["content"].as_array() {
            Some(parts) => parts
                .iter()
                .map(|part| match part["type"].as_str() {
                    Some("image_url") => 765,
                    _ => part.to_string().len() as u64 * 10 / 35,
                })
                .sum(),
            None => text.len() as u64 * 10 / 35,
        };
    }
    tokens
}

fn too_long(tokens: u64) -> Answer {
    Answer::Refuse(
        400,
        json!({"error": {"message": format!("This model's maximum context length is {WINDOW} tokens. However, your \
            messages resulted in {tokens} tokens."), "type": "invalid_request_error", "code": "context_length_exceeded"}}),
    )
}

fn wants_summary(request: &Request) -> bool {
    String::from_utf8_lossy(&request.body).contains("Your context window is nearly full")
}

fn question(n: usize) -> String {
    format!(
        "Question {n}: what is total {n} if \"depth\" is {n}.5 mm?\nThink of code word quartz-{n}."
    )
}

/// A variable of its own, much output, now and then a picture.
fn code(question: usize, cell: usize) -> String {
    let png = BASE64_STANDARD.encode(TINY_PNG);
    let show = if cell == 1 {
        format!(
            "\nimport base64\nfrom IPython.display import Image, display\ndisplay(Image(base64.b64decode('{png}')))"
        )
    } else {
        String::new()
    };
    format!(
        "# step {cell} of question {question}\ntotal_{question}_{cell} = [{question}] * {}\n\
         for i in range(40):\n    print('row', i, 'of question', {question}, 'has', i * {question} + 0.25){show}\n\
         print('done', len(total_{question}_{cell}))",
        10 + cell
    )
}

const TINY_PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    2, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0xd1, 0x49, 0x63, 0x0e, 0, 0, 0, 11, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0x60, 0xf8, 0x0f, 0, 0x01, 0x02, 0x01, 0, 0x1e, 0xd4, 0x6b, 0x8c, 0, 0, 0, 0,
    b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A model that goes through all questions, and has so many tokens and no more. `summary` is what it answers when it is
/// asked for one.
async fn small_window(summary: impl Fn(usize) -> Answer + Send + 'static) -> ModelServer {
    let mut step = 0;
    let mut summaries = 0;
    ModelServer::start(move |request| {
        let tokens = tokens(request);
        if tokens > WINDOW {
            return (too_long(tokens), tokens);
        }
        if wants_summary(request) {
            summaries += 1;
            return (summary(summaries), tokens);
        }
        let (question, cell) = (step / (CELLS + 1), step % (CELLS + 1));
        step += 1;
        let answer = if cell < CELLS {
            Answer::Call(code(question, cell))
        } else {
            Answer::Text(format!("Total {question} is {}.", question * 3))
        };
        (answer, tokens)
    })
    .await
}

fn session(server: &ModelServer, window: Option<u64>) -> Session {
    let provider = Arc::new(server.provider(window));
    start_with(ipykernel(), Approval::Never, [], move |options, _| {
        options.provider = Some(provider);
        options.max_steps = 20;
        options.facts = Some("Files here: rain.csv (12 kB)".to_owned());
    })
}

/// All events of all questions.
async fn ask_all(session: &mut Session) -> Vec<EventKind> {
    let mut all = Vec::new();
    for n in 0..QUESTIONS {
        session.submit(&question(n)).await;
        let (events, end) = session.turn().await;
        assert_eq!(end, TurnEnd::Done, "{events:?}");
        all.extend(events);
    }
    all
}

/// The requests that were answered with a step, in order.
fn steps(server: &ModelServer) -> Vec<Request> {
    let mut all = server.requests();
    all.retain(|request| !wants_summary(request) && tokens(request) <= WINDOW);
    all
}

/// The numbers of the steps before which the conversation was compacted, and who wrote the summaries.
fn compactions(events: &[EventKind]) -> (BTreeSet<u32>, Vec<Option<&str>>) {
    let mut pending = false;
    let (mut steps, mut writers) = (BTreeSet::new(), Vec::new());
    for event in events {
        match event {
            EventKind::Compacted {
                summary_by,
                tokens_before,
                tokens_after,
                window,
                ..
            } => {
                assert!(tokens_after < tokens_before, "{event:?}");
                assert_eq!(*window, Some(WINDOW));
                pending = true;
                writers.push(summary_by.as_deref());
            }
            EventKind::StepStarted { step } if std::mem::take(&mut pending) => {
                steps.insert(*step);
            }
            _ => {}
        }
    }
    (steps, writers)
}

/// What the model reads in a request, without JSON's escapes.
fn words(request: &Request) -> String {
    fn texts(value: &Value, all: &mut String) {
        match value {
            Value::String(text) => {
                all.push_str(text);
                all.push('\n');
            }
            Value::Array(values) => values.iter().for_each(|value| texts(value, all)),
            Value::Object(fields) => fields.values().for_each(|value| texts(value, all)),
            _ => {}
        }
    }
    let mut all = String::new();
    texts(&request.json()["messages"], &mut all);
    all
}

/// Between compactions each request begins with all bytes of the one before.
fn assert_prefixes(requests: &[Request], compacted: &BTreeSet<u32>) {
    for (index, pair) in requests.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let before: Sent<'_> = serde_json::from_slice(&before.body).unwrap();
        let after: Sent<'_> = serde_json::from_slice(&after.body).unwrap();
        assert_eq!(before.tools.get(), after.tools.get());
        assert_eq!(before.messages[0].get(), after.messages[0].get(), "system");
        // Steps count from 1.
        let step = u32::try_from(index).unwrap() + 2;
        let kept = before
            .messages
            .iter()
            .zip(&after.messages)
            .take_while(|(before, after)| before.get() == after.get())
            .count();
        if compacted.contains(&step) {
            assert!(kept < before.messages.len(), "step {step}: nothing changed");
        } else {
            assert_eq!(
                kept,
                before.messages.len(),
                "step {step}: the prefix changed"
            );
        }
    }
}

#[tokio::test]
async fn sixty_steps_in_a_window_of_16k() {
    let server = small_window(|n| {
        Answer::Text(format!(
            "Goal: totals. Findings: summary number {n} by the model."
        ))
    })
    .await;
    let mut session = session(&server, Some(WINDOW));
    let events = ask_all(&mut session).await;

    let requests = steps(&server);
    assert_eq!(requests.len(), QUESTIONS * (CELLS + 1));
    assert!(requests.iter().all(|request| tokens(request) <= WINDOW));
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|request| tokens(request) > WINDOW)
            .count(),
        0,
        "it never asked too much"
    );
    let (compacted, writers) = compactions(&events);
    assert!(compacted.len() >= 3, "{compacted:?}");
    assert!(
        writers.contains(&None) && writers.contains(&Some("model")),
        "{writers:?}"
    );
    assert_eq!(writers[0], None, "outputs go first");
    assert_prefixes(&requests, &compacted);

    for (index, request) in requests.iter().enumerate() {
        let read = words(request);
        // Nothing that the person said is ever lost.
        for n in 0..=index / (CELLS + 1) {
            assert!(
                read.contains(&question(n)),
                "step {}: question {n}",
                index + 1
            );
        }
        assert!(read.contains("Files here: rain.csv (12 kB)"));
        // Right after a compaction all variables are named.
        if compacted.contains(&(u32::try_from(index).unwrap() + 1)) {
            for before in 0..index {
                let (question, cell) = (before / (CELLS + 1), before % (CELLS + 1));
                let variable = format!(
                    "total_{question}_{cell}: list, {} = [{question}, ",
                    10 + cell
                );
                assert!(
                    cell == CELLS || read.contains(&variable),
                    "step {}: {variable}\n{read}",
                    index + 1
                );
            }
        }
    }
    // The model's own summary is what it reads later.
    assert!(words(requests.last().unwrap()).contains("by the model."));

    // The notebook has all of it.
    let notebook = session.notebook();
    assert_eq!(validate(&notebook), []);
    let cells = session.cells();
    let of = |role: &str| cells.iter().filter(|(found, ..)| found == role).count();
    assert_eq!(of("compaction"), writers.len());
    assert_eq!(of("user"), QUESTIONS);
    let code_cells = cells
        .iter()
        .filter(|(role, status, _)| role == "assistant" && status == "ok");
    assert_eq!(code_cells.count(), QUESTIONS * CELLS);
    let outputs: usize = notebook.cells.iter().map(|cell| cell.outputs().len()).sum();
    assert!(outputs >= QUESTIONS * CELLS, "{outputs}");
}

#[tokio::test]
async fn a_window_that_nobody_knows_is_learned_from_the_refusal() {
    let server = small_window(|_| Answer::Text("Goal: totals.".to_owned())).await;
    let mut session = session(&server, None);
    let events = ask_all(&mut session).await;

    let all = server.requests();
    let refused = all
        .iter()
        .filter(|request| tokens(request) > WINDOW)
        .count();
    assert_eq!(refused, 1);
    let reasons: Vec<CompactionReason> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::CompactionStarted { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons[0], CompactionReason::Refused);
    assert!(
        reasons.len() > 1
            && reasons[1..]
                .iter()
                .all(|reason| *reason == CompactionReason::NearLimit),
        "{reasons:?}"
    );
    let requests = steps(&server);
    assert_eq!(requests.len(), QUESTIONS * (CELLS + 1));
    let last = words(requests.last().unwrap());
    for n in 0..QUESTIONS {
        assert!(last.contains(&question(n)), "question {n}");
    }
}

#[tokio::test]
async fn a_model_that_does_not_summarise_is_done_without() {
    let server =
        small_window(|_| Answer::Refuse(404, json!({"error": {"message": "not today"}}))).await;
    let mut session = session(&server, Some(WINDOW));
    let events = ask_all(&mut session).await;

    let (compacted, writers) = compactions(&events);
    assert!(
        writers.contains(&Some("rules")) && !writers.contains(&Some("model")),
        "{writers:?}"
    );
    let told = events.iter().any(|event| {
        matches!(event, EventKind::Notice { message } if message.contains("did not write a summary") && message.contains("not today"))
    });
    assert!(told);
    let requests = steps(&server);
    assert_prefixes(&requests, &compacted);
    let last = words(requests.last().unwrap());
    for n in 0..QUESTIONS {
        assert!(last.contains(&question(n)), "question {n}");
    }
    assert!(last.contains("# step 0 of question 0 -> done 10"), "{last}");
}

#[tokio::test]
async fn compact_by_hand() {
    let long = "print('x ' * 900)\nkept = {'a': 1}";
    let script = [
        call(long),
        Reply::text("Done."),
        call(long),
        Reply::text("Done again."),
        Reply::text("Goal: print. Findings: it was printed."),
        Reply::text("You asked me to print."),
    ];
    let mut session = start_with(ipykernel(), Approval::Never, script, |_, _| {});
    session.send(Command::Compact).await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    assert!(
        matches!(&events[..], [.., EventKind::Notice { message }, EventKind::TurnFinished { .. }]
        if message == "there is nothing to compact yet"),
        "{events:?}"
    );

    for question in ["print it, please", "and again"] {
        session.submit(question).await;
        session.turn().await;
    }
    session.send(Command::Compact).await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let Some(EventKind::Compacted {
        tokens_before,
        tokens_after,
        summary_by,
        words,
        variables,
        ..
    }) = events
        .iter()
        .find(|event| matches!(event, EventKind::Compacted { .. }))
    else {
        panic!("{events:?}")
    };
    assert!(tokens_after < tokens_before);
    assert_eq!((summary_by.as_deref(), *variables), (Some("model"), 1));
    assert!((1..=2).contains(words), "{words}");

    // The request for the summary was the conversation as it was, so that it comes from the provider's cache.
    let prompts = session.model.prompts();
    let [.., before, asked] = &prompts[..] else {
        panic!()
    };
    assert_eq!(
        (&asked.system, &asked.tools),
        (&before.system, &before.tools)
    );
    assert_eq!(asked.messages[..before.messages.len()], before.messages[..]);

    session.submit("what did I want?").await;
    let (_, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let prompts = session.model.prompts();
    let Some(Message::User(parts)) = prompts.last().unwrap().messages.first() else {
        panic!()
    };
    let Some(Part::Text(summary)) = parts.first() else {
        panic!()
    };
    for part in [
        "print it, please",
        "Findings: it was printed.",
        "kept: dict, 1 = {'a': 1}",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert_eq!(session.model.unused(), 0);
}

/// Output that comes when the model has read the cell already changes nothing that was sent; it is told by itself.
#[tokio::test]
async fn late_output_rewrites_nothing() {
    let script = [
        call("echo first"),
        call("echo second\noutput-of-last came late"),
        call("echo third"),
        Reply::text("Done."),
    ];
    let mut session = start_with(misbehaving(&[]), Approval::Never, script, |_, _| {});
    session.submit("go").await;
    let (_, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let prompts = session.model.prompts();
    for pair in prompts.windows(2) {
        assert_eq!(
            pair[0].messages[..],
            pair[1].messages[..pair[0].messages.len()]
        );
    }
    let all = format!("{:?}", prompts.last().unwrap().messages);
    let told = "[Output of In [1] that came after it had ended]\\ncame late";
    assert_eq!(all.matches(told).count(), 1, "{all}");
}

/// A conversation of so many calls with a picture each.
fn conversation(exchanges: usize) -> Prompt {
    let text = |text: &str| Part::Text(text.to_owned());
    let exchange = |n: usize| {
        let id = format!("call_{n}");
        let call = ToolCall {
            after: 0,
            id: id.clone(),
            name: "run_code".to_owned(),
            arguments: json!({ "code": format!("print({n})\nplot()") }).to_string(),
        };
        let picture = Part::Image {
            media_type: "image/png",
            data: TINY_PNG.into(),
        };
        [
            Message::Assistant {
                text: format!("Step {n}."),
                calls: vec![call],
                native: None,
            },
            Message::ToolResult {
                call_id: id,
                parts: vec![text(&n.to_string()), picture],
                is_error: n == 2,
            },
        ]
    };
    Prompt {
        system: "You analyse data.".to_owned(),
        messages: std::iter::once(Message::User(vec![text("facts"), text("why?")]))
            .chain((0..exchanges).flat_map(exchange))
            .collect(),
        tools: vec![ToolSpec {
            name: "run_code".to_owned(),
            description: "Runs a cell.".to_owned(),
            parameters: json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}),
        }],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
    }
}

/// Each wire sends again what it sent, byte for byte, and says where a cache may begin if the provider wants to know.
#[tokio::test]
async fn every_wire_appends() {
    let server = ModelServer::scripted([]).await;
    let root = server.url.trim_end_matches("/v1").to_owned();
    for (kind, base, list, fixed) in [
        (
            ProviderKind::OpenAiCompatible,
            "/v1",
            "messages",
            &["tools"][..],
        ),
        (ProviderKind::OpenRouter, "/v1", "messages", &["tools"]),
        (
            ProviderKind::OpenAi,
            "/v1",
            "input",
            &["tools", "instructions"],
        ),
        (
            ProviderKind::Anthropic,
            "",
            "messages",
            &["tools", "system", "cache_control"],
        ),
        (
            ProviderKind::Gemini,
            "",
            "contents",
            &["tools", "systemInstruction"],
        ),
        (ProviderKind::Ollama, "", "messages", &["tools"]),
    ] {
        let provider = provider(kind, &format!("{root}{base}"), Some(WINDOW));
        let before = server.requests().len();
        for exchanges in 0..4 {
            let mut stream = provider.stream(conversation(exchanges));
            while stream.next().await.is_some() {}
        }
        let bodies: Vec<Value> = server.requests()[before..]
            .iter()
            .map(Request::json)
            .collect();
        assert_eq!(bodies.len(), 4, "{kind:?}");
        for pair in bodies.windows(2) {
            for field in fixed {
                assert_eq!(
                    pair[0].get(field).map(Value::to_string),
                    pair[1].get(field).map(Value::to_string),
                    "{kind:?}"
                );
            }
            let old = pair[0][list]
                .as_array()
                .unwrap_or_else(|| panic!("{kind:?}: {}", pair[0]));
            let new = pair[1][list].as_array().unwrap();
            assert!(old.len() < new.len(), "{kind:?}");
            for (old, new) in old.iter().zip(new) {
                assert_eq!(old.to_string(), new.to_string(), "{kind:?}");
            }
        }
        let marker = &bodies[0]["cache_control"];
        match kind {
            ProviderKind::Anthropic => assert_eq!(*marker, json!({"type": "ephemeral"})),
            _ => assert_eq!(*marker, Value::Null, "{kind:?}"),
        }
    }
}
