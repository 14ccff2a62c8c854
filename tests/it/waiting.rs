//! The line that says that something goes on: also below a line of words that has not ended, and without flicker.

use serde_json::json;

use crate::aimock::Aimock;
use crate::drawn::Drawn;
use crate::support::{NOBODY, Sponde};
use crate::terminal::play_on;

const PROMPT: &str = ">\u{1b}[0m ";
const XTERM: &str = "xterm-256color";
/// The first character of the line.
const FRAMES: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";

/// A model that stops in the middle of a line, of words and of code.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_stops_says_how_long_and_what_stops_it() {
    let words = "The rain in these years is more than people believe, for most of it falls in November alone.";
    let arguments = json!({"code": "total = 40 + 2\nprint('it is', total)"}).to_string();
    let mock = Aimock::start_in_pieces(
        &json!([
            {"match": {"turnIndex": 0}, "response": {"blocks": [
                {"type": "text", "text": words},
                {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
            {"match": {"turnIndex": 1}, "response": {"content": "Done."}},
        ]),
        "1700",
        "32",
    )
    .await;
    for size in ["24x80", "6x60"] {
        let sponde = Sponde::new().with_model(&mock);
        let ask = ["ask", "--yes", "--model", "gpt-4o", "go"];
        let steps = json!([
            ["size", size],
            ["wait", "The rain"],
            ["wait", "writing · "],
            ["wait", " s · ~"],
            ["wait", " tokens · Ctrl-C stops"],
            ["wait", "total"],
            ["wait", "writing code · "],
            ["wait", "Done."],
        ]);
        let screen = tokio::task::block_in_place(|| play_on(XTERM, &sponde, &ask, &steps));
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
        let lines = Drawn::of(&screen).lines();
        // Nothing of it stays, and what it stood below is whole.
        let stays = |line: &&String| line.contains(|c| FRAMES.contains(c));
        assert_eq!(lines.iter().find(stays), None, "{lines:#?}");
        let begin = lines
            .iter()
            .position(|it| it.starts_with("The rain"))
            .unwrap();
        let said: Vec<&str> = lines[begin..]
            .iter()
            .take_while(|line| !line.starts_with("── "))
            .map(String::as_str)
            .collect();
        assert_eq!(said.join(" "), words, "{lines:#?}");
        for line in [
            "total = 40 + 2",
            "print('it is', total)",
            "it is 42",
            "Done.",
        ] {
            assert!(lines.iter().any(|it| it == line), "{line}: {lines:#?}");
        }
    }
    mock.stop().await;
}

/// What is drawn anew is written over what is there, which is not erased first.
#[test]
fn nothing_that_stays_is_erased() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let code = "!import time; print('first'); [(print('\\rstep', n, end=''), time.sleep(.15)) for n in range(12)] and None";
    let screen = play_on(
        XTERM,
        &sponde,
        &["--model", "m"],
        &json!([
            ["size", "24x80"],
            ["wait", PROMPT],
            ["type", format!("{code}\r")],
            ["wait", "step 11"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    let (_, drawn) = screen
        .all
        .split_once("─\u{1b}[0m\u{1b}[K\r\nfirst")
        .unwrap();
    let (drawn, _) = drawn.rsplit_once("step 11").unwrap();
    assert!(drawn.matches("first").count() > 3, "{drawn:?}");
    // Up, and over what is there; what was below is erased when all of it is written.
    for piece in drawn
        .split("\u{1b}[2A")
        .chain(drawn.split("\u{1b}[3A"))
        .skip(1)
    {
        let erases = piece.find("\u{1b}[J").unwrap_or(piece.len());
        let written = piece.find("first").unwrap_or(0);
        assert!(written < erases, "{piece:?} in {drawn:?}");
    }
    for frame in FRAMES.chars() {
        for erased in [
            "\u{1b}[J",
            "\u{1b}[J\u{1b}[2m",
            "\u{1b}[K\r",
            "\u{1b}[K\r\u{1b}[2m",
        ] {
            let flickers = format!("\r{erased}{frame}");
            assert!(!drawn.contains(&flickers), "{flickers:?} in {drawn:?}");
        }
    }
}
