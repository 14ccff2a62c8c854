//! The agent loop: a scripted model (named so), real kernels, the real notebook on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::guidance::Coaching;
use sponde::agent::stream::{Body, Received, View};
use sponde::agent::{
    Agent, AgentOptions, Command, Decision, EventKind, OutputChange, StdinPolicy, TurnEnd,
};
use sponde::jupyter::nbformat::{Notebook, Output, random_cell_id, validate};
use sponde::kernel::KernelSource;
use sponde::llm::scripted::{Reply, ScriptedProvider};
use sponde::llm::types::{Message, ModelInfo, Part};

use crate::support::{ipykernel, launch_options, misbehaving};

pub(crate) struct Session {
    pub(crate) agent: Agent,
    pub(crate) view: View,
    pub(crate) model: ScriptedProvider,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn call(code: &str) -> Reply {
    Reply::call("", "id", "run_code", &json!({ "code": code }).to_string())
}

pub(crate) fn start(
    kernel: KernelSource,
    approval: Approval,
    replies: impl IntoIterator<Item = Reply>,
) -> Session {
    start_with(kernel, approval, replies, |_, _| {})
}

/// The same with other options; they get the directory too.
pub(crate) fn start_with(
    kernel: KernelSource,
    approval: Approval,
    replies: impl IntoIterator<Item = Reply>,
    change: impl FnOnce(&mut AgentOptions, &Path),
) -> Session {
    let dir = tempfile::tempdir().unwrap();
    let info = ModelInfo {
        name: "scripted/model".to_owned(),
        vision: true,
        ..ModelInfo::default()
    };
    let model = ScriptedProvider::new(info, replies);
    let mut options = AgentOptions {
        unread: Vec::new(),
        pictures: Vec::new(),
        own_dirs: Vec::new(),
        models: None,
        tool_calls: None,
        provider: Some(Arc::new(model.clone())),
        system: "system".to_owned(),
        instructions: vec![],
        facts: None,
        before: None,
        coaching: Coaching::Off,
        kernel: launch_options(kernel, dir.path()),
        others: Vec::new(),
        notebook: dir.path().join("session.ipynb"),
        transcript: None,
        opened: None,
        confinement: String::new(),
        approval,
        rules: Vec::new(),
        judges_clients: false,
        max_steps: 10,
        follow_ups: false,
        budgets: sponde::agent::Budgets::default(),
        at_limit: sponde::agent::AtLimit::End,
        cell_timeout: Some(Duration::from_mins(1)),
        stdin: StdinPolicy::Ask,
        sql: None,
        installs: None,
        output_budget: 4000,
        limits: sponde::session::OutputLimits::default(),
        spare: false,
        undo: None,
        temperature: None,
        audit: None,
        redactor: sponde::kernel::Redactor::default(),
    };
    change(&mut options, dir.path());
    let agent = Agent::start(options);
    let view = View::new(agent.client("test"));
    Session {
        agent,
        view,
        model,
        dir,
    }
}

impl Session {
    pub(crate) async fn send(&mut self, command: Command) {
        self.view.send(command).await.unwrap();
    }

    pub(crate) async fn submit(&mut self, text: &str) {
        self.send(Command::Submit {
            text: text.to_owned(),
        })
        .await;
    }

    /// Events up to and with the first for which `last` holds.
    pub(crate) async fn until(&mut self, last: impl Fn(&EventKind) -> bool) -> Vec<EventKind> {
        let mut seen = Vec::new();
        loop {
            let event = tokio::time::timeout(Duration::from_mins(1), self.view.recv())
                .await
                .unwrap_or_else(|_| panic!("nothing more after {seen:?}"))
                .expect("the session ended")
                .kind;
            let done = last(&event);
            seen.push(event);
            if done {
                return seen;
            }
        }
    }

    pub(crate) async fn turn(&mut self) -> (Vec<EventKind>, TurnEnd) {
        let events = self
            .until(|event| matches!(event, EventKind::TurnFinished { .. }))
            .await;
        let Some(EventKind::TurnFinished { end, .. }) = events.last() else {
            unreachable!()
        };
        let end = end.clone();
        (events, end)
    }

    pub(crate) fn notebook(&self) -> Notebook {
        let bytes = std::fs::read(self.dir.path().join("session.ipynb")).unwrap();
        Notebook::read(&bytes, &mut random_cell_id)
            .unwrap()
            .notebook
    }

    /// Role, status and source of the notebook's cells.
    pub(crate) fn cells(&self) -> Vec<(String, String, String)> {
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        self.notebook()
            .cells
            .iter()
            .map(|cell| {
                let ours = &cell.metadata["sponde"];
                (
                    text(ours.get("role")),
                    text(ours.get("status")),
                    cell.source.clone(),
                )
            })
            .collect()
    }

    /// The answers to calls in the model's last prompt.
    pub(crate) fn answers(&self) -> Vec<(String, bool)> {
        let prompts = self.model.prompts();
        let Some(last) = prompts.last() else {
            return vec![];
        };
        last.messages
            .iter()
            .filter_map(|message| match message {
                Message::ToolResult {
                    parts, is_error, ..
                } => {
                    let text: Vec<&str> = parts
                        .iter()
                        .map(|part| match part {
                            Part::Text(text) => text.as_str(),
                            Part::Image { media_type, .. } => media_type,
                        })
                        .collect();
                    Some((text.join("|"), *is_error))
                }
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn cell(role: &str, status: &str, source: &str) -> (String, String, String) {
    (role.to_owned(), status.to_owned(), source.to_owned())
}

#[tokio::test]
async fn question_code_plot_answer_notebook() {
    let plot = "import matplotlib.pyplot as plt\nprint(6 * 7)\nplt.plot([1, 2]); plt.show()";
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [
            Reply::call(
                "Let me see. ",
                "id",
                "run_code",
                &json!({ "code": plot }).to_string(),
            ),
            Reply::text("It is 42."),
        ],
    );
    session.submit("what is 6*7?").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let pngs = events
        .iter()
        .filter(|event| {
            matches!(event, EventKind::Output { change: OutputChange::Append { output, .. }, .. }
                if output.data().is_some_and(|data| data.contains("image/png")))
        })
        .count();
    assert_eq!(pngs, 1);
    let written: String = events
        .iter()
        .filter_map(|event| match event {
            EventKind::CodeDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(written, plot);
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [(text, false)] if text.starts_with("42\n[plot 1 shown to the user") && text.ends_with("|image/png")),
        "{answers:?}"
    );
    assert_eq!(
        session.cells(),
        [
            cell("user", "", "what is 6*7?"),
            cell("assistant", "", "Let me see. "),
            cell("assistant", "ok", plot),
            cell("assistant", "", "It is 42."),
        ]
    );
    let notebook = session.notebook();
    assert_eq!(validate(&notebook), []);
    assert_eq!(notebook.metadata["kernelspec"]["name"], "python3");
    assert_eq!(notebook.metadata["language_info"]["name"], "python");
    assert_eq!(notebook.metadata["sponde"]["model"], "scripted/model");
    // The next question still has the variables, and the prompt only grew.
    session.agent.shutdown().await;
    let prompts = session.model.prompts();
    assert_eq!(
        prompts[0].messages[..],
        prompts[1].messages[..prompts[0].messages.len()]
    );
}

#[tokio::test]
async fn broken_calls_are_answered_and_never_run() {
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [
            Reply::call("", "id", "run_code", r#"{"code": "print(1"#),
            Reply::call("", "id", "shell", r#"{"code": "print(1)"}"#),
            Reply::text("I give up."),
        ],
    );
    session.submit("x").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, EventKind::CodeStarted { .. }))
    );
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [(first, true), (second, true)]
            if first.contains("not valid JSON") && second.contains("there is no tool `shell`")),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_dead_kernel_is_told_to_the_model_and_restarted() {
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [
            call("x = 1\nimport os; os._exit(1)"),
            call("print('x' in globals())"),
            Reply::text("It was lost."),
        ],
    );
    session.submit("go").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, EventKind::KernelDied { .. }))
    );
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [(died, true), (after, false)]
            if died.contains("The kernel died (exit status 1)") && died.contains("all variables and imports are lost") && after == "False"),
        "{answers:?}"
    );
    let statuses: Vec<String> = session
        .cells()
        .into_iter()
        .map(|(_, status, _)| status)
        .collect();
    assert_eq!(statuses, ["", "kernel died", "ok", ""]);
}

#[tokio::test]
async fn the_person_decides() {
    let mut session = start(
        ipykernel(),
        Approval::Always,
        [
            call("print('first')"),
            call("print('second')"),
            Reply::text("Done."),
        ],
    );
    let asks = |event: &EventKind| matches!(event, EventKind::ApprovalRequested { .. });
    session.submit("go").await;
    for decision in [
        Decision::Decline {
            reason: Some("print the other".to_owned()),
        },
        Decision::Change {
            source: "print('mine')".to_owned(),
        },
    ] {
        let events = session.until(asks).await;
        let Some(EventKind::ApprovalRequested { cell, .. }) = events.last().cloned() else {
            unreachable!()
        };
        session.send(Command::Decide { cell, decision }).await;
    }
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    assert_eq!(
        session.answers(),
        [
            (
                "The user declined to run this code and said: print the other".to_owned(),
                true
            ),
            (
                "The user changed the code before running it, to:\nprint('mine')|mine".to_owned(),
                false
            ),
        ]
    );
    assert_eq!(
        session.cells()[1..3],
        [
            cell("assistant", "declined", "print('first')"),
            cell("assistant", "ok", "print('mine')")
        ]
    );
}

#[tokio::test]
async fn interrupts_stop_what_is_going_on() {
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [
            Reply::new([sponde::llm::scripted::Step::Hang]),
            call("import time\nprint('begun', flush=True)\ntime.sleep(600)"),
            call("print('alive')"),
            Reply::text("Yes."),
        ],
    );
    session.submit("never answered").await;
    session
        .until(|event| matches!(event, EventKind::StepStarted { .. }))
        .await;
    session.send(Command::Interrupt).await;
    assert_eq!(session.turn().await.1, TurnEnd::Interrupted);
    session.submit("slow").await;
    session
        .until(|event| matches!(event, EventKind::Output { .. }))
        .await;
    session.send(Command::Interrupt).await;
    assert_eq!(session.turn().await.1, TurnEnd::Interrupted);
    session.submit("still there?").await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    let answers = session.answers();
    assert!(
        answers[0].0.contains("The user interrupted the code"),
        "{answers:?}"
    );
    assert_eq!(answers[1], ("alive".to_owned(), false));
}

#[tokio::test]
async fn a_second_interrupt_restarts_a_kernel_that_ignores_the_first() {
    let mut session = start(
        misbehaving(&[]),
        Approval::Never,
        [
            call("echo begun\nhang"),
            call("echo alive"),
            Reply::text("Yes."),
        ],
    );
    session.submit("hang").await;
    session
        .until(|event| matches!(event, EventKind::Output { .. }))
        .await;
    session.send(Command::Interrupt).await;
    session.send(Command::RestartKernel).await;
    assert_eq!(session.turn().await.1, TurnEnd::Interrupted);
    session.submit("again").await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    assert_eq!(session.answers()[1], ("alive".to_owned(), false));
}

#[tokio::test]
async fn input_is_answered_by_the_person() {
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [
            call("import getpass\nprint(input('name? ') + getpass.getpass('pin? '))"),
            Reply::text("Hello."),
        ],
    );
    session.submit("ask me").await;
    for (expected, secret, value) in [("name? ", false, "Ada"), ("pin? ", true, "42")] {
        let events = session
            .until(|event| matches!(event, EventKind::InputRequested { .. }))
            .await;
        let Some(EventKind::InputRequested {
            cell,
            prompt,
            password,
        }) = events.last().cloned()
        else {
            unreachable!()
        };
        assert_eq!((prompt.as_str(), password), (expected, secret));
        session
            .send(Command::Reply {
                cell,
                value: value.to_owned(),
            })
            .await;
    }
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    // With what was answered, as other front ends show it.
    let shown = "name? Ada\npin? ········\nAda42".to_owned();
    assert_eq!(session.answers(), [(shown, false)]);
}

#[tokio::test]
async fn without_a_kernel_the_turn_ends_with_the_reason() {
    let mut kernel = ipykernel();
    kernel.spec.argv = vec!["false".to_owned(), "{connection_file}".to_owned()];
    let mut session = start(kernel, Approval::Never, [call("print(1)")]);
    session.submit("x").await;
    let (_, end) = session.turn().await;
    let message = "kernel `python3` exited before it was ready (exit status 1)".to_owned();
    assert_eq!(end, TurnEnd::KernelFailed { message });
    assert_eq!(session.cells().last().unwrap().1, "not run");
}

#[tokio::test]
async fn a_person_runs_code_in_the_same_kernel_and_the_model_knows() {
    let mut session = start(ipykernel(), Approval::Always, [Reply::text("It is 5.")]);
    session
        .send(Command::Run {
            code: "y = 5; y".to_owned(),
            language: None,
        })
        .await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    session.submit("what is y?").await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    let expected = [
        "I ran this in the kernel:\ny = 5; y\n\nIt gave:",
        "5",
        "what is y?",
    ];
    let parts = expected.map(|text| Part::Text(text.to_owned())).into();
    assert_eq!(session.model.prompts()[0].messages, [Message::User(parts)]);
    assert!(matches!(
        &session.notebook().cells[0].outputs(),
        [Output::ExecuteResult { .. }]
    ));
}

#[tokio::test]
async fn a_flood_is_told_in_pieces_and_kept_short() {
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [
            call("for i in range(200_000): print('line', i)"),
            Reply::text("Long."),
        ],
    );
    session.submit("flood").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let told: String = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Output {
                change:
                    OutputChange::Append {
                        output: Output::Stream { text, .. },
                        ..
                    },
                ..
            } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told.lines().count(), 200_000);
    let [(answer, false)] = &session.answers()[..] else {
        panic!("not one answer")
    };
    assert!(
        answer.len() < 4200
            && answer.contains(" are hidden here, ")
            && answer.ends_with("line 199999"),
        "{answer}"
    );
}

/// What a front end shows of a cell that has followed all events.
fn shown(events: &[EventKind]) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            EventKind::Output {
                change: OutputChange::Clear { wait: false },
                ..
            } => text.clear(),
            EventKind::Output {
                change:
                    OutputChange::Append {
                        output: Output::Stream { text: more, .. },
                        ..
                    },
                ..
            } => text.push_str(more),
            _ => {}
        }
    }
    text
}

fn stored(notebook: &Notebook) -> String {
    let outputs = notebook
        .cells
        .iter()
        .flat_map(sponde::jupyter::nbformat::Cell::outputs);
    outputs
        .filter_map(|output| match output {
            Output::Stream { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Nobody answers "Run it?", nobody reads events, and a thread in the kernel prints.
#[tokio::test]
async fn a_front_end_that_reads_nothing_holds_nothing_up() {
    let thread = "import threading, time, os\n\
        def chatter():\n\
        \x20   for number in range(400):\n\
        \x20       print('line', number, flush=True); time.sleep(0.005)\n\
        \x20   open('done', 'w').close()\n\
        threading.Thread(target=chatter).start()";
    let mut session = start(ipykernel(), Approval::Always, [call(thread), call("1 + 1")]);
    session.submit("go").await;
    let asked = |event: &EventKind| matches!(event, EventKind::ApprovalRequested { .. });
    let mut events = session.until(asked).await;
    let Some(EventKind::ApprovalRequested { cell, .. }) = events.last().cloned() else {
        unreachable!()
    };
    session
        .send(Command::Decide {
            cell,
            decision: Decision::Run,
        })
        .await;
    events.extend(session.until(asked).await);
    // From here on nobody reads. The thread ends, and what it printed is kept.
    let done = session.dir.path().join("done");
    tokio::task::spawn_blocking(move || crate::support::eventually(|| done.exists()))
        .await
        .unwrap();
    // It is taken, although nobody reads.
    let interrupt = session.send(Command::Interrupt);
    tokio::time::timeout(Duration::from_secs(20), interrupt)
        .await
        .expect("the command is taken");
    events.extend(session.turn().await.0);
    let lines: Vec<String> = (0..400).map(|number| format!("line {number}\n")).collect();
    let expected = lines.concat();
    // The last lines may still be on their way.
    while !shown(&events).ends_with(&expected[expected.len() - 9..]) {
        events.extend(session.until(|_| true).await);
    }
    assert_eq!(shown(&events), expected);
    session.agent.shutdown().await;
    let bytes = std::fs::read(session.dir.path().join("session.ipynb")).unwrap();
    let read = Notebook::read(&bytes, &mut random_cell_id).unwrap();
    assert_eq!(stored(&read.notebook), expected);
}

/// More than the log of a session holds: a subscriber that reads nothing for long arrives at what the notebook has.
#[tokio::test]
async fn a_slow_subscriber_ends_with_the_transcript_of_the_session() {
    let flood = "for number in range(60):\n\
        \x20   print(str(number % 10) * (1 << 20), flush=True)";
    let mut session = start(ipykernel(), Approval::Never, []);
    let mut slow = session.agent.client("slow");
    session
        .send(Command::Run {
            code: flood.to_owned(),
            language: None,
        })
        .await;
    session.turn().await;
    let end = session.agent.handle().newest();
    let mut replica = sponde::session::Transcript::default();
    let (mut at, mut items, mut snapshots) = (None, 0, 0);
    while at != Some(end) {
        match slow.next().await.unwrap() {
            Received::Snapshot(snapshot) => {
                replica = snapshot.transcript();
                at = Some(snapshot.at);
                snapshots += 1;
            }
            Received::Item(item) => {
                if let Body::Edit { edit, .. } = &item.body {
                    replica.apply(edit.clone()).unwrap();
                }
                at = Some(item.id);
                items += 1;
            }
        }
    }
    assert_eq!(snapshots, 1, "after {items} items");
    let code = replica.cells().iter().find_map(|cell| cell.code()).unwrap();
    let outputs = code.outputs.to_notebook();
    let shown: String = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Stream { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let stored = stored(&session.notebook());
    assert!(stored.contains("[sponde: "), "the notebook has a part");
    assert!(shown == stored, "they differ");
}

/// A disk that takes its time: the session's thread goes on, and all bytes arrive in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_outputs_are_written_where_blocking_is_fine() {
    use std::io::Read as _;

    let flood = "for number in range(100):\n\
        \x20   print(f'{number:03}' * 20_000, flush=True)\n\
        open('done', 'w').close()";
    let mut session = start(
        ipykernel(),
        Approval::Always,
        [call(flood), Reply::text("Done.")],
    );
    session.submit("go").await;
    let asked = |event: &EventKind| matches!(event, EventKind::ApprovalRequested { .. });
    let events = session.until(asked).await;
    let Some(EventKind::ApprovalRequested { cell, .. }) = events.last().cloned() else {
        unreachable!()
    };
    // A pipe blocks anyone who opens it until somebody reads it.
    let dir = session.dir.path().join("session.outputs").join(&cell);
    std::fs::create_dir_all(&dir).unwrap();
    let pipe = dir.join("stdout.txt");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let done = session.dir.path().join("done");
    session
        .send(Command::Decide {
            cell,
            decision: Decision::Run,
        })
        .await;
    tokio::task::spawn_blocking(move || crate::support::eventually(|| done.exists()))
        .await
        .unwrap();
    let other = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(500)).await });
    let is_free = tokio::time::timeout(Duration::from_secs(10), other).await;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let mut pipe = std::fs::File::open(pipe).unwrap();
        pipe.read_to_string(&mut text).unwrap();
        text
    });
    session.turn().await;
    assert!(
        is_free.is_ok(),
        "the thread of the session's task is blocked"
    );
    let expected: String = (0..100)
        .map(|number| format!("{number:03}").repeat(20_000) + "\n")
        .collect();
    assert!(reader.join().unwrap() == expected);
}

/// Between the cells where the model wrote them, in the notebook and in what it reads of itself.
#[tokio::test]
async fn words_stay_where_the_model_wrote_them() {
    use sponde::llm::scripted::Step;
    use sponde::llm::types::{Delta, Message, StopReason, Usage};

    let words = |text: &str| Step::Delta(Delta::Text(text.to_owned()));
    let code = |index: usize, code: &str| {
        [
            Step::Delta(Delta::CallStart {
                index,
                id: format!("call{index}"),
                name: "run_code".to_owned(),
            }),
            Step::Delta(Delta::CallArguments {
                index,
                fragment: json!({ "code": code }).to_string(),
            }),
        ]
    };
    let mut steps = vec![words("First I load.")];
    steps.extend(code(0, "x = 1"));
    steps.extend([words("\n\nThen "), words("I print.")]);
    steps.extend(code(1, "print(x)"));
    steps.push(words("\n\nThat is all."));
    steps.push(Step::Delta(Delta::Finished {
        reason: StopReason::ToolCalls,
        usage: Usage::default(),
    }));
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [Reply::new(steps), Reply::text("Done.")],
    );
    session.submit("go").await;
    session.turn().await;
    let sources: Vec<String> = session.cells().into_iter().map(|cell| cell.2).collect();
    assert_eq!(
        sources,
        [
            "go",
            "First I load.",
            "x = 1",
            "Then I print.",
            "print(x)",
            "That is all.",
            "Done."
        ]
    );
    let prompt = session.model.prompts().pop().unwrap();
    let said = prompt.messages.iter().find_map(|message| match message {
        Message::Assistant { text, calls, .. } => Some((text, calls)),
        _ => None,
    });
    let (text, calls) = said.unwrap();
    assert_eq!(text, "First I load.\n\nThen I print.\n\nThat is all.");
    let before: Vec<&str> = calls.iter().map(|call| &text[..call.after]).collect();
    assert_eq!(before, ["First I load.", "First I load.\n\nThen I print."]);
}

/// Code puts a link in the place of the notebook, then of the directory with its plots: what they lead to stays as it is.
#[tokio::test]
async fn a_link_in_the_place_of_the_notebook_is_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("precious.txt");
    std::fs::write(&target, "mine").unwrap();
    let link = format!(
        "import os\nos.remove('session.ipynb')\nos.symlink({:?}, 'session.ipynb')\n\
         os.symlink({:?}, 'session_files')",
        target.display().to_string(),
        outside.path().display().to_string(),
    );
    let plot = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()";
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [call("1 + 1"), call(&link), call(plot), Reply::text("Done.")],
    );
    session.submit("go").await;
    session.turn().await;
    session.agent.shutdown().await;
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
    let others = std::fs::read_dir(outside.path()).unwrap().count();
    assert_eq!(others, 1, "nothing was written outside");
    // As with a file that another program has put there: the session goes on beside it, and nothing is lost.
    let bytes = std::fs::read(session.dir.path().join("session-2.ipynb")).unwrap();
    let read = Notebook::read(&bytes, &mut random_cell_id).unwrap();
    assert!(read.notebook.to_json().contains("plt.show()"));
}
