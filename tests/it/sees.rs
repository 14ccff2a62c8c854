//! What a model gets to see, and where it is stopped: a scripted model (named so), real kernels.

use serde_json::json;
use sponde::agent::approval::Approval;
use sponde::agent::{AtLimit, Budgets, Cap, Command, EventKind, TurnEnd};
use sponde::llm::scripted::{Reply, ScriptedProvider, Step};
use sponde::llm::types::{Delta, Message, ModelInfo, Native, Part, Price, StopReason, Usage};
use sponde::session::OutputLimits;

use crate::agent::{Session, call, start_with};
use crate::support::{ipykernel, launch_options, misbehaving};

fn start(replies: impl IntoIterator<Item = Reply>) -> Session {
    start_with(ipykernel(), Approval::Never, replies, |_, _| {})
}

/// The answers to calls of one session, as texts.
async fn answers(mut session: Session) -> (Session, Vec<String>) {
    session.submit("go").await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    let answers = session
        .answers()
        .into_iter()
        .map(|(text, _)| text)
        .collect();
    (session, answers)
}

fn read_output(arguments: &serde_json::Value) -> Reply {
    Reply::call("", "read", "read_output", &arguments.to_string())
}

/// Several calls in one reply.
fn calls(codes: &[&str]) -> Reply {
    let mut steps = Vec::new();
    for (index, code) in codes.iter().enumerate() {
        steps.push(Step::Delta(Delta::CallStart {
            index,
            id: format!("call-{index}"),
            name: "run_code".to_owned(),
        }));
        steps.push(Step::Delta(Delta::CallArguments {
            index,
            fragment: json!({ "code": code }).to_string(),
        }));
    }
    steps.push(Step::Delta(Delta::Finished {
        reason: StopReason::ToolCalls,
        usage: Usage::default(),
    }));
    Reply::new(steps)
}

/// A model that was asked for the first time has said nothing yet.
fn cell_of(events: &[EventKind]) -> String {
    let of = |event: &EventKind| match event {
        EventKind::CodeStarted { cell } => Some(cell.clone()),
        _ => None,
    };
    events.iter().find_map(of).expect("no code ran")
}

#[tokio::test]
async fn what_was_hidden_can_be_read() {
    let flood = "for n in range(1, 5001): print('row', n)\nprint('\\x1b[31mred\\x1b[0m')";
    let mut session = start([call(flood), Reply::text("Long.")]);
    session.submit("flood").await;
    let (events, _) = session.turn().await;
    let cell = cell_of(&events);
    let tools: Vec<String> = session.model.prompts()[0]
        .tools
        .iter()
        .map(|tool| tool.name.clone())
        .collect();
    assert_eq!(tools, ["run_code", "read_output"]);
    let (shown, _) = session.answers().remove(0);
    let hidden = format!("read_output with cell \"{cell}\" and start ");
    assert!(shown.contains(&hidden) && shown.len() < 4300, "{shown}");
    assert!(
        shown.starts_with("row 1\n") && shown.ends_with("row 5000\nred"),
        "{shown}"
    );

    // The same words again: the script is made after the cell has its name.
    let reads = [
        read_output(&json!({ "cell": cell, "start": 2500, "lines": 2 })),
        read_output(&json!({ "cell": cell, "search": "ROW 499" })),
        read_output(&json!({ "cell": "nowhere" })),
        Reply::text("Row 2500."),
    ];
    session.model.extend(reads);
    session.submit("what is in the middle?").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let read = |event: &&EventKind| matches!(event, EventKind::OutputRead { .. });
    assert_eq!(events.iter().filter(read).count(), 3);
    let answers = session.answers();
    assert_eq!(
        answers[1],
        (
            "[lines 2500 to 2501 of 5001]\nrow 2500\nrow 2501".to_owned(),
            false
        )
    );
    assert!(
        answers[2]
            .0
            .starts_with("[11 of 5001 lines have that in it]\n499: row 499\n4990: row 4990\n"),
        "{}",
        answers[2].0
    );
    assert_eq!(
        answers[3],
        ("there is no cell \"nowhere\" that ran".to_owned(), true)
    );
    // A reading is part of the conversation, and of the notebook, where it does not run.
    let prompts = session.model.prompts();
    let [.., before, last] = &prompts[..] else {
        panic!("too few")
    };
    assert_eq!(before.messages[..], last.messages[..before.messages.len()]);
    let notebook = session.notebook();
    assert_eq!(sponde::jupyter::nbformat::validate(&notebook), []);
    let roles: Vec<&str> = notebook
        .cells
        .iter()
        .filter_map(|cell| cell.metadata["sponde"]["role"].as_str())
        .collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "assistant",
            "user",
            "reading",
            "reading",
            "reading",
            "assistant"
        ]
    );
}

#[tokio::test]
async fn what_was_too_much_for_the_notebook_is_read_from_its_file_whatever_the_language() {
    let mut session = start_with(
        ipykernel(),
        Approval::Never,
        [
            call("for n in range(20000): print('row', n)"),
            Reply::text("Long."),
        ],
        |options, dir| {
            options.limits = OutputLimits {
                cell_text: 10_000,
                ..OutputLimits::default()
            };
            let mut other = misbehaving(&[]);
            "misbehave".clone_into(&mut other.spec.language);
            options.others = vec![launch_options(other, dir)];
        },
    );
    session.submit("flood").await;
    let (events, _) = session.turn().await;
    let cell = cell_of(&events);
    let other = json!({ "code": "echo one\necho two", "language": "misbehave" });
    session.model.extend([
        read_output(&json!({ "cell": cell, "start": 10_001, "lines": 1 })),
        Reply::call("", "other", "run_code", &other.to_string()),
        Reply::text("Both."),
    ]);
    session.submit("both").await;
    let (events, _) = session.turn().await;
    let other = cell_of(&events);
    session.model.extend([
        read_output(&json!({ "cell": other, "start": 2 })),
        Reply::text("Two."),
    ]);
    session.submit("and the other?").await;
    session.turn().await;
    let answers = session.answers();
    assert!(
        answers[0].0.contains("[read_output with cell \"")
            && answers[0].0.contains("session.outputs/"),
        "{}",
        answers[0].0
    );
    assert!(
        answers[1]
            .0
            .starts_with("[stdout.txt; there are: stdout.txt (")
            && answers[1]
                .0
                .ends_with("[lines 10001 to 10001 of 20000]\nrow 10000"),
        "{}",
        answers[1].0
    );
    assert_eq!(answers[3].0, "[lines 2 to 2 of 2]\ntwo");
}

const SHOW: &str = "from IPython.display import display, HTML, Image, SVG\nimport pandas as pd\n";

#[tokio::test]
async fn frames_and_charts_are_told_in_words() {
    let code = format!(
        "{SHOW}frame = pd.DataFrame({{'city': ['Graz', 'Linz'], 'rain': [1.5, 2.5]}})
display(HTML(frame.to_html()))
display(frame)
values = [{{'month': 'May', 'rain': n}} for n in range(500)]
display({{'application/vnd.vegalite.v5+json': {{'title': 'Rain', 'mark': 'bar', 'data': {{'values': values}},
  'encoding': {{'x': {{'field': 'month'}}, 'y': {{'field': 'rain', 'aggregate': 'mean'}}}}}},
  'text/plain': '<VegaLite 5 object>'}}, raw=True)
display({{'application/vnd.plotly.v1+json': {{'data': [{{'type': 'scatter', 'y': list(range(1000))}}], 'layout': {{}}}},
  'text/html': '<script>draw</script>', 'text/plain': 'Figure(' + 'x' * 5000}}, raw=True)
display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\"><rect/><text>hello</text></svg>'))"
    );
    let (_, answers) = answers(start([call(&code), Reply::text("Done.")])).await;
    assert_eq!(
        answers[0],
        " | city | rain\n0 | Graz | 1.5\n1 | Linz | 2.5\n\
         [as HTML in a file that the user can open, session_files/plot-1.html]\n\x20  city  rain\n0  Graz   1.5\n1  Linz   2.5\n\
         [Vega-Lite chart in a file that the user can open, session_files/plot-2.html, titled \"Rain\"; bar with x=month, y=mean(rain); data: 500 rows of month, rain]\n\
         [Plotly figure in a file that the user can open, session_files/plot-3.html; scatter, y: 1000 from 0 to 999]\n\
         [vector graphic in a file that the user can open, session_files/plot-4.svg, 30 x 20, 1 shapes; it is not drawn for you; words in it: hello]\
         |Tables in the kernel: `frame` is a new DataFrame, 2 rows, columns 'city', 'rain'"
    );
}

#[tokio::test]
async fn all_plots_of_a_cell_are_sent_and_kept_as_files() {
    let code = "import matplotlib.pyplot as plt\nfor n in range(8):\n    plt.plot([n]); plt.show()";
    let (session, answers) = answers(start([call(code), Reply::text("Eight.")])).await;
    let text = &answers[0];
    assert!(
        text.contains("[plot 8 shown to the user, ")
            && text.contains("file session_files/plot-8.png]"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "[plots 1 to 8 of this cell, made smaller, in rows from left to right:]|image/png"
        ),
        "{text}"
    );
    for n in 1..=8 {
        let file = session
            .dir
            .path()
            .join(format!("session_files/plot-{n}.png"));
        assert!(image_starts(&std::fs::read(file).unwrap()));
    }
}

fn image_starts(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n")
}

/// A session that was asked, and its model, which does not see and runs `code`.
async fn blind(code: &str) -> (Session, std::sync::Arc<ScriptedProvider>) {
    let info = ModelInfo {
        name: "scripted/blind".to_owned(),
        vision: false,
        ..ModelInfo::default()
    };
    let model = ScriptedProvider::new(info, [call(code), Reply::text("Done.")]);
    let model = std::sync::Arc::new(model);
    let provider = std::sync::Arc::clone(&model);
    let mut session = start_with(ipykernel(), Approval::Never, [], |options, _| {
        options.provider = Some(provider);
    });
    session.submit("go").await;
    (session, model)
}

/// What is drawn with matplotlib and what stands on it is told to a model that does not see, and stands in the notebook as the
/// picture's text.
#[tokio::test]
async fn a_model_that_does_not_see_is_told_what_a_plot_shows() {
    let plot = "import matplotlib.pyplot as plt, pandas as pd\n\
        plt.bar(['Oslo', 'Bergen', 'Graz'], [763, 2250, 812.5])\n\
        plt.title('Rain\\x1b[31m'); plt.xlabel('city'); plt.ylabel('mm'); plt.show()\n\
        pd.Series([3, 1, 2], index=[2001, 2002, 2003], name='frogs').plot(legend=True); plt.show()";
    let (mut blind, model) = blind(plot).await;
    assert_eq!(blind.turn().await.1, TurnEnd::Done);
    let Some(Message::ToolResult { parts, .. }) = model.prompts()[1].messages.last().cloned()
    else {
        unreachable!()
    };
    let Part::Text(text) = &parts[0] else {
        unreachable!()
    };
    for part in [
        "it shows \"Rain",
        "bar, 3 of city (Oslo to Graz), mm from 763 (at Oslo) to 2250 (at Bergen)]",
        "it shows line \"frogs\", 3 of x (2001 to 2003), y from 1 (at 2002) to 3 (at 2001)]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    blind.agent.shutdown().await;
    let notebook = std::fs::read_to_string(blind.dir.path().join("session.ipynb")).unwrap();
    assert!(notebook.contains("\"alt\": \"line"), "{notebook}");
}

#[tokio::test]
async fn a_model_that_does_not_see_gets_words_and_a_bomb_is_no_picture() {
    // 60000 x 60000 pixels, or so it says.
    let bomb = "import struct, zlib\n\
        def chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n\
        head = chunk(b'IHDR', struct.pack('>IIBBBBB', 60000, 60000, 8, 6, 0, 0, 0))\n\
        data = chunk(b'IDAT', zlib.compress(b'\\0' * 1000000))\n\
        display(Image(b'\\x89PNG\\r\\n\\x1a\\n' + head + data + chunk(b'IEND', b''), format='png'))";
    let plot = "import matplotlib.pyplot as plt\nplt.subplots(1, 2); plt.show()";
    let code = format!("{SHOW}{bomb}\n{plot}");
    let (_, seen) = answers(start([call(&code), Reply::text("Done.")])).await;
    assert!(
        seen[0].starts_with("[plot 1 shown to the user, 60000x60000 pixels, file session_files/plot-1.png; you cannot see it]\n")
            && seen[0].ends_with("file session_files/plot-2.png]|image/png"),
        "{}",
        seen[0]
    );
    let (mut blind, model) = blind(plot).await;
    let (events, end) = blind.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let prompts = model.prompts();
    let told = prompts[1].messages.last().unwrap();
    assert_eq!(
        *told,
        Message::ToolResult {
            call_id: "id".to_owned(),
            parts: vec![Part::Text(
                "[plot 1 shown to the user, 558x418 pixels, Figure size 640x480 with 2 Axes, file \
                 session_files/plot-1.png; you cannot see it]"
                    .to_owned()
            )],
            is_error: false,
        }
    );
    let files = events.iter().find_map(|event| match event {
        EventKind::PicturesSaved { files, .. } => Some(files.clone()),
        _ => None,
    });
    assert_eq!(
        files.unwrap(),
        [blind
            .dir
            .path()
            .join("session_files/plot-1.png")
            .display()
            .to_string()]
    );
}

#[tokio::test]
async fn calls_of_one_reply_run_in_order_until_one_fails() {
    let replies = [
        calls(&["x = 1\nprint(x)", "x += 1\nprint(x)"]),
        calls(&["print(x)", "1/0", "print('never')"]),
        Reply::text("Done."),
    ];
    let (session, answers) = answers(start(replies)).await;
    assert_eq!(
        (&answers[0][..], &answers[1][..], &answers[2][..]),
        ("1", "2", "2")
    );
    assert!(
        answers[3].ends_with("ZeroDivisionError: division by zero"),
        "{}",
        answers[3]
    );
    assert_eq!(answers[4], "Not run: the code before it failed");
    let prompts = session.model.prompts();
    assert_eq!(
        prompts[1].messages[..],
        prompts[2].messages[..prompts[1].messages.len()]
    );
}

#[tokio::test]
async fn the_same_failing_code_is_pointed_out_and_the_third_time_the_person_decides() {
    let same = [
        "1/0",
        "# once more\n1 / 0",
        "1/0  # really",
        "print('other')",
    ];
    let replies = || same.map(call).into_iter().chain([Reply::text("It works.")]);
    // Nobody to ask.
    let mut session = start(replies());
    session.submit("go").await;
    assert_eq!(session.turn().await.1, TurnEnd::Repeating);
    assert_eq!(session.model.unused(), 2);
    let (second, _) = session.answers().remove(1);
    assert!(
        second
            .ends_with("|This is the same code with the same error as before. Do something else."),
        "{second}"
    );
    // A person who says yes.
    let mut session = start_with(ipykernel(), Approval::Never, replies(), |options, _| {
        options.at_limit = AtLimit::Ask;
    });
    session.submit("go").await;
    let asked = |event: &EventKind| {
        matches!(
            event,
            EventKind::ContinueRequested {
                end: TurnEnd::Repeating
            }
        )
    };
    session.until(asked).await;
    session
        .send(Command::Continue {
            go_on: true,
            words: None,
        })
        .await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    let (third, _) = session.answers().remove(2);
    assert!(
        third.contains("The user lets you go on: do it another way."),
        "{third}"
    );
}

#[tokio::test]
async fn steps_and_tokens_are_limited() {
    // Each reply takes 15 tokens, as the script says.
    let replies = || vec![call("print(1)"); 9];
    let limited = |change: fn(&mut sponde::agent::AgentOptions)| {
        start_with(
            ipykernel(),
            Approval::Never,
            replies(),
            move |options, _| change(options),
        )
    };
    let mut session = limited(|options| options.max_steps = 2);
    session.submit("go").await;
    assert_eq!(session.turn().await.1, TurnEnd::StepLimit { steps: 2 });

    let mut session = limited(|options| {
        options.budgets.turn.tokens = Some(600);
        options.system = "x".repeat(400);
    });
    session.submit("go").await;
    let (events, end) = session.turn().await;
    let TurnEnd::Budget { message } = &end else {
        panic!("{end:?}")
    };
    assert!(
        message.starts_with(
            "the turn has taken 0 tokens of at most 600, and the next request would take about "
        ),
        "{message}"
    );
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, EventKind::StepStarted { .. }))
    );
    assert!(session.model.prompts().is_empty());
}

#[tokio::test]
async fn money_is_limited_where_prices_are_known() {
    let price = Price {
        input: 1000.0,
        cached: 100.0,
        written: 1000.0,
        output: 2000.0,
    };
    let priced = |price: Option<Price>| {
        start_with(ipykernel(), Approval::Never, [], move |options, _| {
            let info = ModelInfo {
                name: "scripted/priced".to_owned(),
                price,
                ..ModelInfo::default()
            };
            let dear = Reply::new([
                Step::Delta(Delta::CallStart {
                    index: 0,
                    id: "dear".to_owned(),
                    name: "run_code".to_owned(),
                }),
                Step::Delta(Delta::CallArguments {
                    index: 0,
                    fragment: json!({ "code": "print(1)" }).to_string(),
                }),
                Step::Delta(Delta::Finished {
                    reason: StopReason::ToolCalls,
                    usage: Usage {
                        input: 1000,
                        output: 100,
                        ..Usage::default()
                    },
                }),
            ]);
            let model = ScriptedProvider::new(info, vec![dear, Reply::text("One.")]);
            options.provider = Some(std::sync::Arc::new(model));
            options.budgets = Budgets {
                session: Cap {
                    cost: Some(2.0),
                    tokens: None,
                },
                ..Budgets::default()
            };
        })
    };
    let mut session = priced(Some(price));
    session.submit("one?").await;
    let (events, end) = session.turn().await;
    let Some(EventKind::TurnFinished {
        turn, session: all, ..
    }) = events.last()
    else {
        panic!()
    };
    // 1000 tokens in at a tenth of a cent, 100 out at a fifth.
    let TurnEnd::Budget { message } = &end else {
        panic!("{end:?} {all:?}")
    };
    assert!(
        message.starts_with(
            "the session has cost $1.20 of at most $2.00, and the next request would cost about $1."
        ),
        "{message}"
    );
    assert_eq!(
        (turn.requests, turn.input_tokens, turn.output_tokens),
        (1, 1000, 100)
    );
    assert_eq!(turn.cost_usd, Some(1.2));

    let mut session = priced(None);
    session.submit("one?").await;
    let (_, end) = session.turn().await;
    let message = "there is a limit in dollars, and the price of the model is not known".to_owned();
    assert_eq!(
        end,
        TurnEnd::ModelFailed {
            message,
            key_variable: None
        }
    );
}

#[tokio::test]
async fn what_was_spent_is_told_and_kept() {
    let mut session = start([call("print(1)"), Reply::text("One."), Reply::text("Two.")]);
    session.submit("one?").await;
    session.turn().await;
    session.submit("two?").await;
    let (events, _) = session.turn().await;
    let Some(EventKind::TurnFinished {
        turn, session: all, ..
    }) = events.last()
    else {
        panic!()
    };
    assert_eq!(
        (
            turn.requests,
            turn.input_tokens,
            all.requests,
            all.input_tokens
        ),
        (1, 10, 3, 30)
    );
    let notebook = session.notebook();
    let account = |usage: &serde_json::Value| {
        assert!(usage["seconds"].as_f64().unwrap() > 0.0, "{usage}");
        let mut usage = usage.clone();
        usage.as_object_mut().unwrap().shift_remove("seconds");
        usage
    };
    let of = |requests: u64| json!({"requests": requests, "input_tokens": 10 * requests, "cached_tokens": 0, "output_tokens": 5 * requests});
    assert_eq!(account(&notebook.metadata["sponde"]["usage"]), of(3));
    assert_eq!(
        account(&notebook.cells[0].metadata["sponde"]["usage"]),
        of(2)
    );
    // A cell of the person's own costs nothing.
    session
        .send(Command::Run {
            code: "1".to_owned(),
            language: None,
        })
        .await;
    let (events, _) = session.turn().await;
    assert!(
        matches!(events.last(), Some(EventKind::TurnFinished { turn, .. }) if turn.requests == 0)
    );
}

#[tokio::test]
async fn what_the_provider_wants_back_is_sent_again_and_kept_in_the_notebook() {
    let native = Native::new(json!({"signature": "s"}));
    let reply = Reply::new([
        Step::Delta(Delta::Reasoning("Hm.".to_owned())),
        Step::Delta(Delta::Text("One.".to_owned())),
        Step::Delta(Delta::Native(native.clone())),
        Step::Delta(Delta::Finished {
            reason: StopReason::Done,
            usage: Usage::default(),
        }),
    ]);
    let mut session = start([reply, Reply::text("Two.")]);
    session.submit("one?").await;
    let (events, _) = session.turn().await;
    assert!(events.contains(&EventKind::Reasoning {
        text: "Hm.".to_owned()
    }));
    session.submit("two?").await;
    session.turn().await;
    let last = session.model.prompts().pop().unwrap();
    assert_eq!(
        last.messages[1],
        Message::Assistant {
            text: "One.".to_owned(),
            calls: vec![],
            native: Some(native),
        }
    );
    let text = |text: &str| Message::User(vec![Part::Text(text.to_owned())]);
    assert_eq!(
        (&last.messages[0], &last.messages[2]),
        (&text("one?"), &text("two?"))
    );
    let notebook = session.notebook();
    assert_eq!(
        notebook.cells[1].metadata["sponde"]["reply"],
        json!({"signature": "s"})
    );
}
