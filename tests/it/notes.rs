//! What a terminal is told besides what it shows, and what is written down for those who look for a mistake.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{NOBODY, Sponde};
use crate::terminal::{Screen, model_that_runs, play_on};

const PROMPT: &str = ">\u{1b}[0m ";

/// A chat with a turn that takes over a second.
async fn slow_turn(term: &str, config: &str) -> Screen {
    let mock = model_that_runs("import time; time.sleep(1.3)").await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure(&format!("approval = \"never\"\n{config}"));
    let screen = tokio::task::block_in_place(|| {
        let steps = json!([
            ["wait", PROMPT],
            ["type", "how long \u{202e}is it?\r"],
            ["wait", "That was it."],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]);
        play_on(term, &sponde, &["--model", "gpt-4o"], &steps)
    });
    mock.stop().await;
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    screen
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_has_a_title_and_a_long_turn_calls() {
    let screen = slow_turn("xterm-256color", "[terminal]\nnotify-after = 1\n").await;
    let titles: Vec<&str> = screen
        .all
        .split("\u{1b}]2;")
        .skip(1)
        .map(|title| title.split('\u{1b}').next().unwrap())
        .collect();
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(titles[0].starts_with("sponde: "), "{titles:?}");
    assert_eq!(titles[1], "sponde: how long \\u{202e}is it?");
    assert_eq!(titles[2], "");
    // What the window was called before comes back.
    assert_eq!(screen.all.matches("\u{1b}[22;2t").count(), 1);
    assert!(screen.all.contains("\u{1b}]2;\u{1b}\\\u{1b}[23;2t"));
    assert_eq!(screen.all.matches('\u{7}').count(), 1, "{:?}", screen.all);
    assert!(!screen.all.contains("\u{1b}]9;"), "{:?}", screen.all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_with_notifications_gets_one() {
    let screen = slow_turn("xterm-kitty", "[terminal]\nnotify-after = 1\n").await;
    let told = "\u{1b}]9;sponde: the turn has ended\u{1b}\\";
    assert_eq!(screen.all.matches(told).count(), 1, "{:?}", screen.all);
    assert!(!screen.all.contains('\u{7}'), "{:?}", screen.all);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_can_be_turned_off_and_a_simple_terminal_has_neither() {
    let off = "[terminal]\ntitle = false\nnotify-after = 0\n";
    for (term, config) in [
        ("xterm-256color", off),
        ("xterm-256color", "[terminal]\ntitle = false\n"),
    ] {
        let screen = slow_turn(term, config).await;
        let all = &screen.all;
        assert!(
            !all.contains("\u{1b}]") && !all.contains('\u{7}'),
            "{all:?}"
        );
    }
}

/// In the state directory, for its owner alone.
#[test]
fn the_log_says_what_happened_and_no_secrets() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("MY_KEY", "sk-hunter4-hunter5");
    let ask = [
        "ask",
        "why?",
        "--model",
        "sk-hunter4-hunter5",
        "-k",
        "misbehave",
    ];
    for _ in 0..2 {
        let ended = sponde.run(&ask);
        assert_eq!(ended.code, Some(5), "{ended}");
    }
    let log = sponde.path("../state/sponde/logs/sponde.log");
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches("a session begins").count(), 2, "{text}");
    assert_eq!(text.matches("ended with an error").count(), 2, "{text}");
    assert!(!text.contains("hunter"), "{text}");
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // What goes well and is not asked about is not on stderr.
    let quiet = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let ran = quiet.run(&["run", "-k", "misbehave", "-c", "echo hi"]);
    assert_eq!(ran.stderr, "", "{ran}");
}

/// Names of files are links where the terminal knows them and the person wants them.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_files_are_links_if_wanted() {
    let plot =
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)); plt.plot([1, 2]); plt.show()";
    for (term, config, is_link) in [
        ("xterm-kitty", "", true),
        ("xterm-kitty", "[terminal]\nlinks = false\n", false),
        ("xterm-256color", "", false),
    ] {
        let mock = model_that_runs(plot).await;
        let sponde = Sponde::new().with_model(&mock);
        sponde.configure(config);
        let ask = [
            "ask",
            "--yes",
            "--model",
            "gpt-4o",
            "--notebook",
            "out.ipynb",
            "go",
        ];
        let screen = tokio::task::block_in_place(|| {
            play_on(term, &sponde, &ask, &json!([["size", "24x200"]]))
        });
        mock.stop().await;
        assert_eq!(screen.code, 0, "{}", screen.all);
        for name in ["out_files/plot-1.png", "out.ipynb"] {
            let path = sponde.path(name).display().to_string();
            let link = format!("\u{1b}]8;;file://{path}\u{1b}\\");
            assert_eq!(
                screen.all.matches(&link).count(),
                usize::from(is_link),
                "{:?}",
                screen.all
            );
        }
        assert_eq!(
            screen.all.contains("\u{1b}]8;"),
            is_link,
            "{:?}",
            screen.all
        );
    }
}

/// A mistake of ours in the middle of a turn: the terminal is as before, and what the cell has put out is there again.
#[test]
fn a_panic_in_a_turn_loses_nothing() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let steps = json!([
        ["wait", PROMPT],
        ["type", "!print('kept', 6 * 7)\r"],
        ["wait", "kept 42"],
        ["wait", "internal error in Sponde at "],
        ["wait", "what was done is kept"],
        ["wait", "hint: continue with `sponde resume "],
    ]);
    let failing = sponde.with("SPONDE_TEST_FAILS_AT", "finished");
    let screen = play_on("xterm-256color", &failing, &["--model", "m"], &steps);
    assert!(screen.as_always && screen.code != 0, "{}", screen.all);
    let (_, id) = screen.all.split_once("`sponde resume ").unwrap();
    let (id, _) = id.split_once('`').unwrap();
    let sponde = failing.with("SPONDE_TEST_FAILS_AT", "");
    let again = json!([
        ["wait", "kept 42"],
        ["wait", "go on [f]resh?"],
        ["type", "r\r"],
        ["wait", "with the same outputs"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let screen = play_on(
        "xterm-256color",
        &sponde,
        &["resume", id, "--model", "m"],
        &again,
    );
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
}
