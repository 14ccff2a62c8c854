//! What a person sees of a model's words and code on a real pseudo-terminal: Markdown as it comes, colours, and a line that
//! says what goes on; and that none of it is in a pipe, on a simple terminal, or where colours are not wanted.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::shown::rows;
use crate::support::Sponde;
use crate::terminal::play_on;

const ASK: [&str; 5] = ["ask", "--yes", "--model", "gpt-4o", "go"];
const XTERM: &str = "xterm-256color";
const WORDS: &str = "## Rain\nIt rains **more** in `Seattle`, which has 4426 mm, than it does in New York.\n\n\
                     - one\n- two\n\n| City | Rain |\n|:--|--:|\n| Seattle | 4426.0 |\n| New York | 4178.6 |\n\n\
                     ```python\nfor x in y:\n    print(1)\n```\nDone.";

/// It runs a cell, and then says [`WORDS`].
async fn model(pause: &str) -> Aimock {
    let code =
        "import time\ntime.sleep(1.5)\nprint('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\x1b[2Jend')";
    let arguments = json!({ "code": code }).to_string();
    Aimock::start_with_pauses(
        &json!([
            {"match": {"turnIndex": 0}, "response": {"blocks": [
                {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
            {"match": {"turnIndex": 1}, "response": {"content": WORDS}},
        ]),
        pause,
    )
    .await
}

/// What a terminal of 80 columns got.
async fn on_terminal(term: &str, no_color: bool) -> String {
    let mock = model("5").await;
    let sponde = Sponde::new().with_model(&mock);
    let sponde = if no_color {
        sponde.with("NO_COLOR", "1")
    } else {
        sponde
    };
    let steps: Value = json!([["size", "24x80"]]);
    let screen = tokio::task::block_in_place(|| play_on(term, &sponde, &ASK, &steps));
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    screen.all
}

/// The words, from the heading on.
fn words(rows: &[String]) -> String {
    let begin = rows.iter().position(|row| row.ends_with("Rain")).unwrap();
    let end = rows.iter().rposition(|row| row == "Done.").unwrap();
    rows[begin..=end].join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn words_and_code_are_readable_while_they_come() {
    let all = on_terminal(XTERM, false).await;
    insta::assert_snapshot!(words(&rows(&all)), @r"
    Rain
    It rains more in Seattle, which has 4426 mm, than it does in New York.

    • one
    • two

    City        Rain
    ────────  ──────
    Seattle   4426.0
    New York  4178.6

    for x in y:
        print(1)

    Done.
    ");
    // Code in colours while the model writes it, and in its words.
    assert!(all.contains("\u{1b}[35mimport\u{1b}[0m time"), "{all:?}");
    assert!(
        all.contains("\u{1b}[35mfor\u{1b}[0m x \u{1b}[35min\u{1b}[0m y:"),
        "{all:?}"
    );
    assert!(
        all.contains("\u{1b}[1mmore\u{1b}[0m in \u{1b}[36mSeattle\u{1b}[0m,"),
        "{all:?}"
    );
    // Colours of an output stay, everything else of it goes.
    assert!(all.contains("\u{1b}[31mred\u{1b}[0m end"), "{all:?}");
    assert!(
        !all.contains("title") || !all.contains("\u{1b}]0;"),
        "{all:?}"
    );
    // What goes on is said from the beginning, with seconds and what stops it.
    assert!(all.contains(" thinking · 0 s · Ctrl-C stops"), "{all:?}");
    assert!(all.contains(" running · 0 s · Ctrl-C stops"), "{all:?}");
    assert!(all.contains(" running · 1 s · Ctrl-C stops"), "{all:?}");
    let left: Vec<String> = rows(&all);
    assert!(!left.iter().any(|row| row.contains("Ctrl-C")), "{left:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_colours_there_are_none() {
    let all = on_terminal(XTERM, true).await;
    assert!(
        !all.contains("\u{1b}[3") && !all.contains("\u{1b}[1m"),
        "{all:?}"
    );
    insta::assert_snapshot!(words(&rows(&all)), @r"
    ## Rain
    It rains **more** in `Seattle`, which has 4426 mm, than it does in New York.

    • one
    • two

    City        Rain
    ────────  ──────
    Seattle   4426.0
    New York  4178.6

    ```python
    for x in y:
        print(1)
    ```

    Done.
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_and_a_simple_terminal_have_the_words_as_they_are() {
    let dumb = on_terminal("dumb", false).await;
    assert!(dumb.contains(&WORDS.replace('\n', "\r\n")), "{dumb:?}");
    assert!(
        !dumb.contains("Ctrl-C stops") && !dumb.contains('⠋'),
        "{dumb:?}"
    );
    let mock = model("1").await;
    let sponde = Sponde::new().with_model(&mock);
    let run = tokio::task::block_in_place(|| sponde.run(&ASK));
    mock.stop().await;
    assert_eq!(run.stdout, format!("{WORDS}\n"));
    assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
}
