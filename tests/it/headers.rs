//! What stands above code and outputs: language, number and time, the same in a chat as in `ask`, while it runs and when the session
//! comes back or another terminal comes.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::drawn::Drawn;
use crate::subscribers::running;
use crate::support::{NOBODY, Sponde, tools};
use crate::terminal::{Screen, play_on};

const PROMPT: &str = ">\u{1b}[0m ";
const QUESTION: &str = "or say what to do instead:";
const XTERM: &str = "xterm-256color";

fn with_kernels(sponde: Sponde) -> Sponde {
    let prefix = tools().join("kernels/python");
    sponde.with("VIRTUAL_ENV", prefix.to_str().unwrap())
}

fn call(arguments: &str) -> Value {
    json!({"type": "toolCall", "name": "run_code", "arguments": arguments})
}

/// It makes these calls, one after another, and then says that that was it.
async fn model(calls: &[&str]) -> Aimock {
    let mut turns: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(turn, it)| json!({"match": {"turnIndex": turn}, "response": {"blocks": [call(it)]}}))
        .collect();
    turns.push(
        json!({"match": {"turnIndex": calls.len()}, "response": {"content": "That was it."}}),
    );
    Aimock::start(&json!(turns)).await
}

/// The rules on a screen, without what is different each time.
fn rules(screen: &Screen) -> Vec<String> {
    let lines = Drawn::of(screen).lines().into_iter();
    let rules = lines.filter(|line| line.starts_with("── "));
    rules.map(|line| timeless(&line)).collect()
}

/// With `N s` in the place of seconds.
fn timeless(line: &str) -> String {
    let title = line.trim_matches('─').trim();
    let parts = title
        .split(" · ")
        .map(|part| match part.strip_suffix(" s") {
            Some(_) => "N s",
            None => part,
        });
    parts.collect::<Vec<_>>().join(" · ")
}

#[tokio::test(flavor = "multi_thread")]
async fn code_and_outputs_say_their_language_in_a_chat_as_in_ask() {
    let mock = model(&[
        r#"{"language": "bash", "code": "sleep 1.2\necho one"}"#,
        r#"{"code": "print(2)"}"#,
        r#"{"code": "echo three", "language": "bash"}"#,
    ])
    .await;
    let kernels = [
        "--model",
        "gpt-4o",
        "--approval",
        "never",
        "-k",
        "python3",
        "-k",
        "bash",
    ];
    let expected = [
        "bash",
        "output 3 · bash · N s",
        "python",
        "output 4 · python",
        // What it was taken for while it came, and what it is.
        "python",
        "bash · as it will run",
        "output 5 · bash",
    ];
    let sponde = with_kernels(Sponde::new().with_model(&mock));
    let (asked, chatted) = tokio::task::block_in_place(|| {
        let ask = [&["ask"][..], &kernels, &["go"]].concat();
        let asked = play_on(XTERM, &sponde, &ask, &json!([["size", "40x100"]]));
        let steps = json!([
            ["size", "40x100"],
            ["wait", PROMPT],
            ["type", "go\r"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "%%bash echo own\r"],
            ["wait", "\nown"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]);
        (asked, play_on(XTERM, &sponde, &kernels, &steps))
    });
    mock.stop().await;
    assert_eq!(rules(&asked), expected, "{}", asked.all);
    let mut in_chat = expected.map(str::to_owned).to_vec();
    in_chat.push("output 7 · bash".to_owned());
    assert_eq!(rules(&chatted), in_chat, "{}", chatted.all);
    for screen in [asked, chatted] {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    }
}

/// R knows how wide the terminal is.
#[test]
fn r_prints_as_wide_as_the_terminal() {
    for (columns, lines) in [(120, 1), (60, 2)] {
        let sponde = with_kernels(Sponde::new().with("OPENAI_BASE_URL", NOBODY));
        let steps = json!([
            ["size", format!("24x{columns}")],
            ["wait", PROMPT],
            ["type", "!1:20 + 100\r"],
            ["wait", "120"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]);
        let screen = play_on(XTERM, &sponde, &["--model", "m", "-k", "r"], &steps);
        let shown = Drawn::of(&screen).lines();
        let printed = shown
            .iter()
            .filter(|line| line.trim_start().starts_with('['));
        assert_eq!(printed.count(), lines, "{shown:#?}");
        let rules = rules(&screen);
        assert!(
            rules.len() == 1 && rules[0].starts_with("output 2 · R"),
            "{rules:?}"
        );
    }
}

/// Each cell of a recorded session with what became of it, where it is resumed and where another terminal attaches.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_cells_say_what_became_of_them() {
    let code = |code: &str| json!({ "code": code }).to_string();
    let plot =
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)); plt.plot([1, 2]); plt.show()";
    let slow = "import time; time.sleep(1.2)\nopen('made.txt', 'w').write('1')";
    let mock = model(&[
        &code("print('no' * 2)"),
        &code(plot),
        &code(slow),
        &code("while True: pass"),
    ])
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let chat = ["--model", "gpt-4o", "--notebook", "out.ipynb"];
    let first = json!([
        ["size", "40x100"],
        ["wait", PROMPT],
        ["type", "go\r"],
        ["wait", QUESTION],
        ["type", "n"],
        ["wait", "What instead?"],
        ["type", "\r"],
        ["wait", PROMPT],
        ["type", "go on\r"],
        ["wait", QUESTION],
        ["type", "y"],
        ["wait", QUESTION],
        ["type", "y"],
        ["wait", QUESTION],
        ["type", "y"],
        ["wait", "running · 0 s"],
        ["pause", "0.3"],
        ["type", "\u{3}"],
        ["wait", "interrupted"],
        ["wait", PROMPT],
        ["type", "%%misbehave echo own\r"],
        ["wait", "\nown"],
        ["wait", PROMPT],
        ["wait", "it is over"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let second = json!([
        ["size", "40x100"],
        ["wait", "own"],
        ["wait", "own"],
        ["wait", PROMPT],
        ["type", "!print('it is', 'over')\r"],
        ["wait", "the session has ended"],
    ]);
    let again = json!([
        ["size", "40x100"],
        ["wait", "go on [f]resh?"],
        ["type", "f\r"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let screens = tokio::task::block_in_place(|| {
        let attached = std::thread::scope(|scope| {
            let one = scope.spawn(|| play_on(XTERM, &sponde, &chat, &first));
            let id = running(&sponde);
            while !sponde.path("made.txt").exists() {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            let two = play_on(XTERM, &sponde, &["attach", &id], &second);
            let one = one.join().unwrap();
            assert_eq!((one.code, one.as_always), (0, true), "{}", one.all);
            two
        });
        let resume = ["resume", "--last", "--model", "gpt-4o"];
        [attached, play_on(XTERM, &sponde, &resume, &again)]
    });
    mock.stop().await;
    // The attached terminal saw the person's own cell run; only the resumed one is told of it.
    // A resumed session shows its last turns, and the first is before them.
    for (screen, more) in screens
        .iter()
        .zip(["cell: declined", "> %%misbehave echo own"])
    {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
        let lines = Drawn::of(screen).lines();
        let file = sponde.path("out_files/plot-1.png").display().to_string();
        let plot = format!("plot: {file} (and .svg, .csv)");
        for expected in [&plot, "files: + made.txt (1 B)", more] {
            assert!(
                lines.iter().any(|it| it == expected),
                "{expected}: {lines:#?}"
            );
        }
        let rules = rules(screen);
        for rule in ["output 5 · python", "output 6 · python · N s"] {
            assert!(
                rules.iter().any(|it| it.starts_with(rule)),
                "{rule}: {rules:#?}"
            );
        }
        assert!(
            lines.iter().any(|it| it.contains("KeyboardInterrupt")),
            "{lines:#?}"
        );
        assert!(!screen.all.contains("cell 3: no output"), "{}", screen.all);
    }
}
