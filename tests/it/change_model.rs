//! Another model in the middle of a session, and replies that break off: what the agent makes of both.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use sponde::agent::approval::Approval;
use sponde::agent::guidance::Coaching;
use sponde::agent::{Command, EventKind, ModelSetup, Models, Opening, TurnEnd};
use sponde::llm::scripted::{Reply, ScriptedProvider, Step};
use sponde::llm::types::{Delta, Message, ModelInfo, Part, Provider as _, ProviderError, Retrying};
use tokio::sync::Notify;

use crate::agent::{cell, start_with};
use crate::support::misbehaving;

/// Knows `b/two`, which is there once the test says so.
struct Shelf {
    model: ScriptedProvider,
    ready: Arc<Notify>,
}

impl Models for Shelf {
    fn open(&self, name: &str) -> Opening {
        let (model, ready) = (self.model.clone(), Arc::clone(&self.ready));
        let known = name == model.info().name;
        Box::pin(async move {
            if !known {
                return Err("nobody knows it".to_owned());
            }
            ready.notified().await;
            Ok(ModelSetup {
                provider: Arc::new(model),
                system: "the system of two".to_owned(),
                coaching: Coaching::Off,
                output_budget: 100,
            })
        })
    }
}

fn shelf(replies: impl IntoIterator<Item = Reply>) -> (Shelf, ScriptedProvider, Arc<Notify>) {
    let info = ModelInfo {
        name: "b/two".to_owned(),
        context_window: Some(8192),
        ..ModelInfo::default()
    };
    let model = ScriptedProvider::new(info, replies);
    let ready = Arc::new(Notify::new());
    let shelf = Shelf {
        model: model.clone(),
        ready: Arc::clone(&ready),
    };
    (shelf, model, ready)
}

fn set(model: &str) -> Command {
    Command::SetModel {
        model: model.to_owned(),
    }
}

fn is_answer(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::ModelChanged { .. } | EventKind::ModelUnchanged { .. }
    )
}

/// Everything a prompt says, joined.
fn words(messages: &[Message]) -> String {
    let parts = messages.iter().flat_map(|message| match message {
        Message::User(parts) | Message::ToolResult { parts, .. } => parts.clone(),
        Message::Assistant { text, .. } => vec![Part::Text(text.clone())],
    });
    let texts = parts.map(|part| match part {
        Part::Text(text) => text,
        Part::Image { .. } => "[image]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn another_model_goes_on_with_the_conversation() {
    let (shelf, two, ready) = shelf([Reply::text("Two here.")]);
    let mut session = start_with(
        misbehaving(&[]),
        Approval::Never,
        [Reply::text("One here."), Reply::text("Still one.")],
        |options, _| options.models = Some(Arc::new(shelf)),
    );
    session.submit("first").await;
    session.turn().await;

    // A model that cannot be had leaves everything as it is.
    session.send(set("b/three")).await;
    let events = session.until(is_answer).await;
    assert_eq!(
        events.last(),
        Some(&EventKind::ModelUnchanged {
            model: "b/three".to_owned(),
            message: "nobody knows it".to_owned()
        })
    );
    session.submit("second").await;
    session.turn().await;

    // A question that comes while it is opened waits for it.
    session.send(set("b/two")).await;
    session.submit("third").await;
    ready.notify_one();
    let events = session.until(is_answer).await;
    assert_eq!(
        events.last(),
        Some(&EventKind::ModelChanged {
            model: "b/two".to_owned(),
            vision: false,
            context_window: Some(8192)
        })
    );
    let (_, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);

    assert_eq!(
        (session.model.prompts().len(), session.model.unused()),
        (2, 0)
    );
    let prompts = two.prompts();
    let [prompt] = prompts.as_slice() else {
        panic!("{} prompts", prompts.len());
    };
    assert_eq!(prompt.system, "the system of two");
    assert_eq!(
        words(&prompt.messages),
        "first|One here.|second|Still one.|third"
    );
    let notebook = session.notebook();
    assert_eq!(notebook.metadata["sponde"]["model"], "b/two");
    assert_eq!(
        notebook.metadata["sponde"]["models"],
        json!([{"model": "scripted/model", "from_step": 1}, {"model": "b/two", "from_step": 3}])
    );
}

#[tokio::test]
async fn a_model_that_takes_too_long_is_given_up() {
    let (shelf, _, _) = shelf([]);
    let mut session = start_with(misbehaving(&[]), Approval::Never, [], |options, _| {
        options.models = Some(Arc::new(shelf));
    });
    session.send(set("b/two")).await;
    session.send(set("b/two")).await;
    session.send(Command::Interrupt).await;
    let mut why = Vec::new();
    for _ in 0..2 {
        let events = session.until(is_answer).await;
        let Some(EventKind::ModelUnchanged { message, .. }) = events.last() else {
            panic!("{events:?}");
        };
        why.push(message.clone());
    }
    assert_eq!(why, ["another model is being opened", "interrupted"]);
}

fn retrying() -> Retrying {
    Retrying {
        error: ProviderError::Truncated {
            endpoint: "http://x/v1".to_owned(),
            message: "cut".to_owned(),
        },
        wait: Duration::from_millis(1500),
        attempt: 2,
        of: 5,
    }
}

#[tokio::test]
async fn a_reply_that_broke_off_is_kept_for_the_person_and_not_for_the_model() {
    let whole = ScriptedProvider::new(ModelInfo::default(), [Reply::text("It is 4.")]);
    let prompt = sponde::llm::types::Prompt {
        system: String::new(),
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: sponde::llm::types::ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
    };
    let whole: Vec<Delta> = whole
        .stream(prompt)
        .map(|delta| delta.unwrap())
        .collect()
        .await;
    let mut steps = vec![
        Step::Delta(Delta::Text("The mean".to_owned())),
        Step::Delta(Delta::CallStart {
            index: 0,
            id: "lost".to_owned(),
            name: "run_code".to_owned(),
        }),
        Step::Delta(Delta::CallArguments {
            index: 0,
            fragment: r#"{"code": "os.remove("#.to_owned(),
        }),
        Step::Delta(Delta::Retrying(retrying())),
    ];
    steps.extend(whole.into_iter().map(Step::Delta));
    let mut session = start_with(
        misbehaving(&[]),
        Approval::Never,
        [Reply::new(steps), Reply::text("Yes.")],
        |_, _| {},
    );
    session.submit("what is the mean?").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let told = events.iter().find_map(|event| match event {
        EventKind::Retrying {
            message,
            wait_ms,
            attempt,
            of,
            cell,
        } => Some((message.clone(), *wait_ms, *attempt, *of, cell.is_some())),
        _ => None,
    });
    let message = "the reply from `http://x/v1` was cut off: cut";
    assert_eq!(told, Some((message.to_owned(), 1500, 2, 5, true)));
    // The half call is no cell.
    let kept = format!("The mean\n\n*(cut off: {message}; asked again)*");
    assert_eq!(
        session.cells(),
        [
            cell("user", "", "what is the mean?"),
            cell("cut off", "", &kept),
            cell("assistant", "", "It is 4."),
        ]
    );
    session.submit("sure?").await;
    session.turn().await;
    let last = session.model.prompts().pop().unwrap();
    assert_eq!(words(&last.messages), "what is the mean?|It is 4.|sure?");
}
