//! Code that asks for a line: the person, the model or nobody answers, and nothing waits for ever.

use sponde::agent::approval::Approval;
use sponde::agent::stdin::{ANSWERS, AnsweredBy};
use sponde::agent::{Command, EventKind, StdinPolicy, TurnEnd};
use sponde::kernel::{ExecuteOptions, Verdict};
use sponde::llm::scripted::Reply;
use sponde::llm::types::{Message, Part, ToolChoice};

use crate::agent::{Session, call, start_with};
use crate::support::{ipykernel, misbehaving, start};

fn session(stdin: StdinPolicy, replies: impl IntoIterator<Item = Reply>) -> Session {
    start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.stdin = stdin;
    })
}

fn answered(events: &[EventKind]) -> Vec<(Option<&str>, AnsweredBy)> {
    events
        .iter()
        .filter_map(|event| match event {
            EventKind::InputAnswered { value, by, .. } => Some((value.as_deref(), *by)),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_model_answers_where_it_may() {
    let mut session = session(
        StdinPolicy::Model,
        [
            call("name = input('your name? ')\nprint('hello', name)"),
            Reply::text("```\nAda Lovelace\n```"),
            Reply::text("Done."),
        ],
    );
    session.submit("greet").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    assert_eq!(
        answered(&events),
        [(Some("Ada Lovelace"), AnsweredBy::Model)]
    );
    let prompts = session.model.prompts();
    assert_eq!(prompts[1].tool_choice, ToolChoice::None);
    let Some(Message::User(parts)) = prompts[1].messages.last() else {
        panic!("{:?}", prompts[1].messages)
    };
    assert!(
        matches!(&parts[..], [Part::Text(text)] if text.contains(r#"Its prompt is: "your name? ""#)),
        "{parts:?}"
    );
    // What was answered is in the cell, and the conversation has no trace of how.
    assert_eq!(
        session.answers(),
        [(
            "your name? Ada Lovelace\nhello Ada Lovelace".to_owned(),
            false
        )]
    );
    assert_eq!(prompts[2].messages[..2], prompts[1].messages[..2]);
}

#[tokio::test]
async fn a_model_is_never_asked_for_a_password() {
    let mut session = session(
        StdinPolicy::Model,
        [
            call("import getpass\ngetpass.getpass('key: ')"),
            Reply::text("No."),
        ],
    );
    session.submit("log in").await;
    let (events, end) = session.turn().await;
    assert_eq!((end, answered(&events)), (TurnEnd::Done, vec![]));
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [(text, true)]
            if text.starts_with("StdinNotImplementedError: the code asked for input: passwords are never asked of the model")),
        "{answers:?}"
    );
    assert_eq!(session.model.prompts().len(), 2);
}

#[tokio::test]
async fn a_model_answers_a_few_times_for_a_cell() {
    let times = usize::try_from(ANSWERS).unwrap();
    let mut replies = vec![call("for i in range(9): print('got', input())")];
    replies.extend((0..times).map(|i| Reply::text(&format!("line {i}"))));
    replies.push(Reply::text("Enough."));
    let mut session = session(StdinPolicy::Model, replies);
    session.submit("ask me").await;
    let (events, end) = session.turn().await;
    assert_eq!((end, answered(&events).len()), (TurnEnd::Done, times));
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [(text, true)] if text.contains("got line 4") && text.contains("the model has answered 5 times for it")),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_model_that_cannot_answer_is_not_waited_for() {
    let mut session = session(StdinPolicy::Model, [call("input('? ')")]);
    session.submit("ask me").await;
    let (_, end) = session.turn().await;
    // The script is over, so the next request fails too.
    assert!(matches!(end, TurnEnd::ModelFailed { .. }), "{end:?}");
    assert_eq!(session.cells()[1].1, "error");
}

#[tokio::test]
async fn a_persons_password_is_kept_nowhere() {
    let mut session = session(
        StdinPolicy::Ask,
        [
            call("import getpass\nprint(len(getpass.getpass('key: ')))"),
            Reply::text("Done."),
        ],
    );
    session.submit("log in").await;
    let events = session
        .until(|event| matches!(event, EventKind::InputRequested { .. }))
        .await;
    let Some(EventKind::InputRequested {
        cell,
        prompt,
        password: true,
    }) = events.last().cloned()
    else {
        panic!("{events:?}")
    };
    assert_eq!(prompt, "key: ");
    let value = "hunter2".to_owned();
    session.send(Command::Reply { cell, value }).await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    assert_eq!(answered(&events), [(None, AnsweredBy::Person)]);
    assert_eq!(session.answers(), [("key: ········\n7".to_owned(), false)]);
    let notebook = std::fs::read_to_string(session.dir.path().join("session.ipynb")).unwrap();
    assert!(!notebook.contains("hunter2"), "{notebook}");
}

/// Kernels that ask although nobody is there: they are interrupted, or get an empty line if that does not help.
#[tokio::test]
async fn a_kernel_that_asks_although_nobody_answers_is_refused() {
    let kernel = start(misbehaving(&[])).await;
    for code in ["input-anyway name?", "input-deaf name?"] {
        let execution = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
        let (_, outcome) = execution.collect().await;
        assert_eq!(
            outcome.verdict,
            Verdict::Error {
                ename: "StdinNotImplementedError".to_owned(),
                evalue: "the code asked for input: nobody is there to answer".to_owned(),
            },
            "{code}"
        );
    }
    // The kernel and its state live on.
    let after = kernel
        .execute(ExecuteOptions::cell("echo fine"))
        .await
        .unwrap();
    assert_eq!(after.collect().await.1.verdict, Verdict::Ok);
}
