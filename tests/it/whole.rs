//! Whole sessions as a person sees them, recorded on a pseudo-terminal and drawn by an emulator: an error after a flood and
//! an edit at the question, two calls with tqdm and a table, a plot, words with code, an interrupt, and the session resumed. At
//! 80 and 200 columns, on dark and light, with and without pictures, and resized meanwhile.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::drawn::{Drawn, PALETTES};
use crate::support::Sponde;
use crate::terminal::play_on;

const PROMPT: &str = ">\u{1b}[0m ";
const QUESTION: &str = "or say what to do instead:";
/// How much text stands out from its background, at least.
const CONTRAST: f64 = 2.0;

/// A terminal.
#[derive(Clone, Copy)]
struct Terminal {
    /// `TERM`.
    kind: &'static str,
    /// `COLORFGBG`, by which some terminals tell programs how light they are.
    light: &'static str,
    columns: u16,
}

const DARK: &str = "15;0";
const LIGHT: &str = "0;15";

/// What a person saw: text, and the same with colours.
struct Seen {
    text: String,
    styled: String,
}

/// Ids of sessions, times and counts, which are different each time, as they are shown; `None` of a line that is not always
/// there.
fn redacted(line: &str, sponde: &Sponde) -> Option<String> {
    let home = sponde.path("").parent().unwrap().display().to_string();
    let mut line = line.replace(&home, "[HOME]");
    if let Some(at) = line.find("/sessions/") {
        let is_notebook = line.contains(".ipynb");
        line.truncate(at);
        line.push_str(if is_notebook {
            "/sessions/[ID].ipynb"
        } else {
            "/sessions/[FILE]"
        });
    }
    if let Some(rest) = line.strip_prefix("resuming ") {
        let (_, name) = rest.split_once(':').unwrap();
        line = format!("resuming [ID]:{name}");
    }
    if line.starts_with("── output ") {
        // How long a cell took is only said if it is over a second.
        let title = line.trim_end_matches('─').trim_end();
        let parts = title.split(" · ").filter(|part| !part.ends_with(" s"));
        line = parts.collect::<Vec<_>>().join(" · ");
    }
    if line.contains(" tokens in, ") {
        "[TOKENS AND TIME]".clone_into(&mut line);
    }
    // How long a cell took is only said if it is over a second, and that it goes on only if it did for half a second or two.
    let is_time = line.starts_with('(') && line.ends_with(" s)");
    let goes_on = [
        "still running; ",
        "not stopped yet: ",
        "interrupt itself; Ctrl-C again",
        "Matplotlib is building the font cache",
    ]
    .iter()
    .any(|begin| line.starts_with(begin));
    (!is_time && !goes_on).then_some(line)
}

/// All rows; colours of those that had to be redacted are left out.
fn seen(drawn: &Drawn, sponde: &Sponde) -> Seen {
    let (mut text, mut styled) = (String::new(), String::new());
    for row in drawn.rows() {
        let Some(line) = redacted(&row.text, sponde) else {
            continue;
        };
        let is_same = line == row.text;
        styled.push_str(if is_same { &row.styled } else { &line });
        styled.push('\n');
        text.push_str(&line);
        text.push('\n');
    }
    Seen { text, styled }
}

fn call(code: &str) -> Value {
    let arguments = json!({ "code": code }).to_string();
    json!({"type": "toolCall", "name": "run_code", "arguments": arguments})
}

async fn model() -> Aimock {
    let flood = "for i in range(100):\n    print('line', i)\nraise ValueError('broken')";
    let progress = "from tqdm import tqdm\nfor n in tqdm(range(3), ncols=60, bar_format='{l_bar}{bar}|{n}/{total}'):\n    pass";
    let table = "import pandas as pd\npd.DataFrame({'city': ['Seattle', 'New York'], 'rain': [4426.0, 4178.6]})";
    let plot = "import matplotlib.pyplot as plt\nplt.figure(figsize=(3, 2))\nplt.axis('off')\nplt.bar(['a', 'b'], [1, 2]);";
    let words = "## Rain\nIt rains **more** in `Seattle` than in New York, although many people believe that it is the other way round.\n\n\
                 | City | Rain |\n|:--|--:|\n| Seattle | 4426.0 |\n| New York | 4178.6 |\n\n\
                 1. *Read* the file.\n2. Sum it:\n\n```python\n# all years\ntotal = df.groupby(\"city\").rain.sum()  # 2 rows\n```\n\
                 More is in [the docs](https://example.org/rain).\n";
    Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [call(flood)]}},
        {"match": {"turnIndex": 1}, "response": {"blocks": [call(progress), call(table)]}},
        {"match": {"turnIndex": 2}, "response": {"blocks": [call(plot)]}},
        {"match": {"turnIndex": 3}, "response": {"content": words}},
    ]))
    .await
}

async fn session(terminal: Terminal) -> Seen {
    let mock = model().await;
    let sponde = Sponde::new()
        .with_model(&mock)
        .with("COLORFGBG", terminal.light)
        .with("EDITOR", "sed -i s/broken/changed/");
    sponde.configure("approval = \"always\"\n");
    let size = format!("24x{}", terminal.columns);
    let yes = [json!(["wait", QUESTION]), json!(["type", "y"])];
    let mut steps = vec![
        json!(["size", size]),
        json!(["wait", PROMPT]),
        json!(["type", "where does it rain more?\r"]),
        json!(["wait", QUESTION]),
        json!(["type", "e"]),
    ];
    for _ in 0..4 {
        steps.extend(yes.clone());
    }
    for step in [
        ["wait", "More is in"],
        ["wait", PROMPT],
        ["type", "!while True: pass\r"],
        ["wait", "running · 0 s"],
        ["pause", "0.3"],
        ["type", "\u{3}"],
        ["wait", "interrupted\u{1b}[0m"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ] {
        steps.push(json!(step));
    }
    let again: Value = json!([
        ["size", size],
        ["wait", "go on [f]resh?"],
        ["type", "f\r"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let screens = tokio::task::block_in_place(|| {
        let arguments = ["--model", "gpt-4o"];
        let chat = play_on(terminal.kind, &sponde, &arguments, &json!(steps));
        let resumed = ["resume", "--last", "--model", "gpt-4o"];
        [chat, play_on(terminal.kind, &sponde, &resumed, &again)]
    });
    mock.stop().await;
    let [chat, resumed] = screens.map(|screen| {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
        let drawn = Drawn::of(&screen);
        readable(&drawn);
        seen(&drawn, &sponde)
    });
    let joined = |one: String, two: &str| one + "\n════ resumed\n" + two;
    Seen {
        text: joined(chat.text, &resumed.text),
        styled: joined(chat.styled, &resumed.styled),
    }
}

/// Everything can be read on dark and on light.
fn readable(drawn: &Drawn) {
    for palette in &PALETTES {
        for (text, background, line) in drawn.colours() {
            let contrast = palette.contrast(text, background);
            assert!(
                contrast >= CONTRAST,
                "{text:?} on {background:?} is {contrast:.1} on {}: {line}",
                palette.name
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_80_columns() {
    let shown = session(Terminal {
        kind: "xterm-256color",
        light: DARK,
        columns: 80,
    })
    .await;
    for line in shown.text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    insta::assert_snapshot!(shown.text);
}

/// With kitty's pictures.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_200_columns() {
    let shown = session(Terminal {
        kind: "xterm-kitty",
        light: DARK,
        columns: 200,
    })
    .await;
    insta::assert_snapshot!(shown.text);
}

/// Colours are the terminal's own, so that its theme makes them readable: nothing is different on light.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_dark_and_on_light() {
    let on = |light| {
        session(Terminal {
            kind: "xterm-kitty",
            light,
            columns: 80,
        })
    };
    let dark = on(DARK).await.styled;
    insta::assert_snapshot!(dark);
    assert_eq!(on(LIGHT).await.styled, dark);
}

/// On a terminal that shows no pictures: a plot is a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_pictures() {
    let shown = session(Terminal {
        kind: "vt220",
        light: DARK,
        columns: 80,
    })
    .await;
    insta::assert_snapshot!(shown.text);
}

/// The terminal becomes narrower while a cell runs, whose last lines are drawn in place, and wider while the model writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_resized() {
    let code = "import os, time\nfor n in range(24):\n    if n == 12:\n        while not os.path.exists('on'): time.sleep(.05)\n    \
                print('row', n, '.' * 70)";
    let words = "This is a line of words that is longer than the narrow terminal, and shorter than the wide one was before.";
    let last = "And this is one more line of words that is longer than the narrow terminal, but not than the one that it became.";
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [{"type": "text", "text": words}, call(code)]}},
        {"match": {"turnIndex": 1}, "response": {"content": format!("{words}\n\n| a | b |\n|--|--|\n| {words} | 2 |\n")}},
        {"match": {"turnIndex": 2}, "response": {"content": last}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let steps = json!([
        ["size", "24x100"],
        ["wait", PROMPT],
        ["type", "go\r"],
        ["wait", "row 11 "],
        ["size", "24x60"],
        ["touch", "on"],
        ["wait", "row 23 "],
        ["wait", PROMPT],
        ["size", "24x120"],
        ["type", "once more\r"],
        ["wait", "that it became."],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let arguments = ["--model", "gpt-4o", "--approval", "never"];
    let screen =
        tokio::task::block_in_place(|| play_on("xterm-256color", &sponde, &arguments, &steps));
    mock.stop().await;
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    insta::assert_snapshot!(seen(&Drawn::of(&screen), &sponde).text);
}

/// Words that come while the terminal is resized are whole, and no line of ours is wider than the terminal is by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_resized_breaks_no_word() {
    let words: Vec<String> = (0..150).map(|n| format!("word{n}")).collect();
    let text = words.join(" ");
    let mock = Aimock::start_with_pauses(
        &json!([{"match": {"turnIndex": 0}, "response": {"content": text}}]),
        "20",
    )
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let steps = json!([
        ["size", "24x100"],
        ["wait", "word20 "],
        ["size", "24x50"],
        ["wait", "word100"],
        ["size", "24x90"],
    ]);
    let ask = ["ask", "--model", "gpt-4o", "-k", "misbehave", "go"];
    let screen = tokio::task::block_in_place(|| play_on("xterm-256color", &sponde, &ask, &steps));
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    let lines = Drawn::of(&screen).lines();
    let begin = lines
        .iter()
        .position(|it| it.starts_with("word0 "))
        .unwrap();
    let said: Vec<&String> = lines[begin..]
        .iter()
        .take_while(|line| !line.is_empty())
        .collect();
    let found: Vec<&str> = said.iter().flat_map(|line| line.split(' ')).collect();
    assert_eq!(found, words);
    // The line in which the size changed was begun before.
    let of = |word: &str| {
        said.iter()
            .position(|line| line.split(' ').any(|it| it == word))
    };
    let (narrow, wide) = (of("word60").unwrap(), of("word100").unwrap());
    for line in &said[narrow..=wide] {
        assert!(line.len() <= 50, "{line}");
    }
    assert!(said.last().unwrap().len() <= 90);
    assert!(said[..narrow].iter().any(|line| line.len() > 50));
}
