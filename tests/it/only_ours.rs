//! What reaches a terminal is text, colours, our own movements of the cursor, and nothing else: every control character, and every
//! sequence cut at every byte, through outputs of code, words of a model, code, and names of files.

use serde_json::json;

use crate::aimock::Aimock;
use crate::drawn::Drawn;
use crate::support::{NOBODY, Sponde};
use crate::terminal::{Screen, play_on};

/// What code sends, and what of it a person may see.
const SENT: [(&str, &str); 29] = [
    (r"\x1b]52;c;aGFjaw==\x07", ""),
    (r"\x1b]0;title\x1b\\", ""),
    (r"\x1b]2;title\x07", ""),
    (r"\x1b]9;words\x07", ""),
    (r"\x1b]8;;http://x\x07y\x1b]8;;\x07", "y"),
    (r"\x1b]1337;File=inline=1:AAAA\x07", ""),
    (r"\x1b[2J", ""),
    (r"\x1b[J", ""),
    (r"\x1b[K", ""),
    (r"\x1b[A", ""),
    (r"\x1b[3A", ""),
    (r"\x1b[1;1H", ""),
    (r"\x1b[?25l", ""),
    (r"\x1b[?1049h", ""),
    (r"\x1b[>4;2m", ""),
    (r"\x1b[6n", ""),
    (r"\x1b[31mred\x1b[0m", "red"),
    (r"\x1bP1$r\x1b\\", ""),
    (r"\x1b_Gf=100;AAAA\x1b\\", ""),
    (r"\x1bc", ""),
    (r"\x1b7\x1b8", ""),
    (r"\x1b(0", ""),
    (r"\x1b#8", ""),
    (r"\x07\x08\x0b\x0c\x7f\x00\x84\x85", ""),
    ("\\u202e\\u2066", "\\u{202e}\\u{2066}"),
    (r"\x9b2J", ""),
    (r"\x9b31mred\x9b0m", "red"),
    (r"\x9d0;t\x9c", ""),
    (r"\x90q\x9c", ""),
];

/// Sends each in a line of its own: whole, cut at every character with a flush between the parts, and cut at every byte between two
/// writes past Python. Then shows all as results, and in the name of a file.
const CODE: &str = r"
import sys, os
from IPython.display import display
def sent(n, text):
    print(f'{n}a (' + text + ')')
    for at in range(1, len(text)):
        sys.stdout.write((f'{n}b ' if at == 1 else '') + '(' + text[:at]); sys.stdout.flush(); sys.stdout.write(text[at:] + ')'); sys.stdout.flush()
    print()
def written(n, text):
    bytes_ = text.encode()
    for at in range(1, len(bytes_)):
        os.write(1, (f'{n}c ' if at == 1 else '').encode() + b'(' + bytes_[:at]); os.write(1, bytes_[at:] + b')')
    os.write(1, b'\n')
for n, text in ALL:
    sent(n, text)
sys.stdout.flush()
for n, text in ALL:
    written(n, text)
# What was written past Python comes by a thread of the kernel: here all of it is still this cell's.
import fcntl, struct, termios, time
while struct.unpack('i', fcntl.ioctl(1, termios.FIONREAD, bytes(4)))[0]: time.sleep(0.01)
time.sleep(0.2)
bad = ''.join(text for _, text in ALL)
";

/// The last cell: everything else that shows text.
const REST: &str = r"
for n, text in ALL:
    try: open('f' + text.replace('/', '').replace('\x00', ''), 'w').close()
    except OSError: pass
display({'text/plain': bad}, raw=True)
for mime in ('text/markdown', 'text/latex', 'text/html'):
    display({mime: '# a **' + bad + '** `x` '}, raw=True)
class Odd:
    def __repr__(self): return bad
display(Odd())
print(bad, file=sys.stderr)
raise ValueError(bad)
";

/// So many lines of a cell are shown.
const SHOWN: usize = 60;

/// The code of a cell that sends these of [`SENT`].
fn code(range: std::ops::Range<usize>, rest: &str) -> String {
    let all: Vec<String> = range.map(|n| format!("({n}, '{}')", SENT[n].0)).collect();
    format!("ALL = [{}]{CODE}{rest}", all.join(", "))
}

/// What our line of what goes on begins and ends with below a line that has not ended.
const BELOW: [&str; 2] = ["\u{b}\u{1b}[A\u{1b}7\u{1b}[B\r\u{1b}[0m", "\u{1b}[K\u{1b}8"];

/// What is there besides text and what is ours.
fn foreign(screen: &str) -> Vec<String> {
    let mut found = Vec::new();
    let screen = BELOW
        .iter()
        .fold(screen.to_owned(), |screen, ours| screen.replace(ours, ""));
    let mut rest = &*screen;
    while let Some(at) = rest.find(|c: char| c.is_control() && !matches!(c, '\r' | '\n' | '\t')) {
        let after = rest.get(at..).unwrap();
        let is_final = |c: char| ('@'..='~').contains(&c);
        let sequence = after.strip_prefix("\u{1b}[").and_then(|inner| {
            let end = inner.find(is_final)?;
            Some((inner.get(..end)?, inner.get(end..=end)?))
        });
        let Some((parameters, end)) = sequence else {
            found.push(after.chars().take(12).collect());
            rest = after
                .get(after.chars().next().unwrap().len_utf8()..)
                .unwrap();
            continue;
        };
        let is_number = parameters
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
        let is_ours = match end {
            // Besides colours, what is drawn in place: up, to the end of the line, to the end of the screen.
            "m" | "A" => is_number,
            "K" | "J" => parameters.is_empty(),
            _ => false,
        };
        if !is_ours {
            found.push(format!("CSI {parameters} {end}"));
        }
        rest = after.get(2 + parameters.len() + 1..).unwrap();
    }
    found
}

/// The text between colours.
fn without_colours(screen: &str) -> String {
    let mut text = String::new();
    let mut pieces = screen.split("\u{1b}[");
    text.extend(pieces.next());
    for piece in pieces {
        let (codes, after) = piece.split_once(|c: char| c.is_ascii_alphabetic()).unwrap();
        assert!(!codes.contains('\u{1b}'));
        text.push_str(after);
    }
    text
}

fn call(code: &str) -> serde_json::Value {
    let arguments = json!({ "code": code }).to_string();
    json!({"type": "toolCall", "name": "run_code", "arguments": arguments})
}

/// Every line that was sent is on the screen, each time with exactly what a person may see of it, and with colours at most.
fn exact(screen: &str) {
    let lines: Vec<&str> = screen
        .split('\n')
        .map(|line| line.trim_end_matches('\r'))
        .map(|line| line.strip_suffix("\u{1b}[K").unwrap_or(line))
        .collect();
    for (n, (sent, visible)) in SENT.iter().enumerate() {
        for way in ["a", "b", "c"] {
            let begin = format!("{n}{way} (");
            let mut found = 0;
            for line in &lines {
                // Before it may stand what draws over the lines that were there.
                let Some((before, rest)) = line.split_once(&*begin) else {
                    continue;
                };
                if before.ends_with(|c: char| c.is_ascii_digit()) {
                    continue;
                }
                assert!(foreign(before).is_empty(), "{before:?} in {line:?}");
                let rest = without_sgr(rest).unwrap_or_else(|| panic!("{sent} left {line:?}"));
                let mut parts: Vec<&str> = rest.split(")(").collect();
                // A line that is drawn while it comes has not all of it.
                let last = parts.pop().unwrap();
                let (last, is_whole) = match last.strip_suffix(')') {
                    Some(last) => (last, true),
                    None => (last, false),
                };
                // A kernel may decode the halves of a character that was cut, each by itself.
                let is_cut = |part: &str| way == "c" && part.contains('\u{fffd}');
                for part in parts.into_iter().chain(is_whole.then_some(last)) {
                    assert!(
                        part == *visible || is_cut(part),
                        "{sent} left {part:?} in {line:?}"
                    );
                }
                if !is_whole {
                    let is_begun = visible.starts_with(last) || is_cut(last) || last == "(";
                    assert!(is_begun, "{sent} left {last:?} in {line:?}");
                    continue;
                }
                found += 1;
            }
            assert!(found > 0, "{begin} is not on the screen");
        }
    }
}

/// `None` if there is any other control character than those of colours.
fn without_sgr(text: &str) -> Option<String> {
    let mut pieces = text.split("\u{1b}[");
    let mut plain = pieces.next()?.to_owned();
    for piece in pieces {
        let (codes, after) = piece.split_once('m')?;
        let is_code = |c: char| c.is_ascii_digit() || matches!(c, ';' | ':');
        codes.chars().all(is_code).then_some(())?;
        plain.push_str(after);
    }
    (!plain.contains(char::is_control)).then_some(plain)
}

const WORDS: &str = "# a\u{1b}[2Jb\n- **c\u{9b}2Jd** `e\u{1b}]0;t\u{7}f` [g](http://\u{1b}[2Jh)\n\n| i\u{1b}[2J | j |\n|-|-|\n| \u{8}k | \u{7}l |\n\n\
                     ```python\nm = \"\u{1b}]52;c;aGFjaw==\u{7}\"\n```\n\u{1b}P1$r\u{1b}\\n\u{202e}o\u{0}\u{1b}[K\u{1b}[A.";

/// Runs three cells and says [`WORDS`].
async fn model(size: &str) -> Aimock {
    let hidden = "x = 1 # \u{1b}[2J\u{9b}2J\u{1b}]0;t\u{7}\u{8}";
    let half = SENT.len() / 2;
    assert!(half * 3 < SHOWN);
    let plot =
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)); plt.plot([1, 2]); plt.show()";
    let mut turns: Vec<serde_json::Value> = [
        code(0..half, ""),
        code(half..SENT.len(), ""),
        code(0..SENT.len(), "")
            .split("def sent")
            .next()
            .unwrap()
            .to_owned()
            + "bad = ''.join(text for _, text in ALL)\n"
            + REST,
        hidden.to_owned(),
        plot.to_owned(),
    ]
    .iter()
    .enumerate()
    .map(|(turn, code)| json!({"match": {"turnIndex": turn}, "response": {"blocks": [call(code)]}}))
    .collect();
    turns.push(json!({"match": {"turnIndex": turns.len()}, "response": {"content": WORDS}}));
    Aimock::start_in_pieces(&json!(turns), "1", size).await
}

const ASK: [&str; 6] = [
    "ask",
    "--yes",
    "--model",
    "gpt-4o",
    "--notebook",
    "out.ipynb",
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_colours_and_our_own_movements_reaches_a_terminal() {
    let mock = model("7").await;
    for size in ["24x200", "50x300"] {
        let sponde = Sponde::new().with_model(&mock);
        let steps = json!([["size", size]]);
        let arguments = [&ASK[..], &["go"]].concat();
        let screen =
            tokio::task::block_in_place(|| play_on("xterm-256color", &sponde, &arguments, &steps));
        assert_eq!(screen.code, 0, "{}", screen.all);
        assert_eq!(
            foreign(&screen.all),
            Vec::<String>::new(),
            "{:?}",
            screen.all
        );
        exact(&screen.all);
        let text = without_colours(&screen.all);
        // All of it came by: the output's end, the code with what it hides, the model's words.
        assert!(text.contains("ValueError"), "{text:?}");
        assert!(text.contains("\\u{1b}[2J\\u{9b}2J"), "{:?}", screen.all);
        assert!(screen.all.contains("\\u{202e}o."), "{:?}", screen.all);
        assert!(screen.all.contains("files: + "), "{:?}", screen.all);
    }
    mock.stop().await;
}

/// What kitty gets besides: links to files that are there, and pictures.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_with_links_and_pictures_gets_ours_alone() {
    let mock = model("7").await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("[terminal]\nnotify-after = 0\n");
    let steps = json!([["size", "24x200"]]);
    let arguments = [&ASK[..], &["go"]].concat();
    let screen =
        tokio::task::block_in_place(|| play_on("xterm-kitty", &sponde, &arguments, &steps));
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    let (rest, ours) = without_ours(&screen.all);
    assert_eq!(foreign(&rest), Vec::<String>::new(), "{rest:?}");
    exact(&rest);
    let url = |name: &str| format!("8;;file://{}", sponde.path(name).display());
    let links: Vec<&String> = ours.iter().filter(|it| it.starts_with("8;;f")).collect();
    assert_eq!(
        links,
        [
            &url("out_files/plot-1.html"),
            &url("out_files/plot-2.png"),
            &url("out.ipynb")
        ]
    );
    let ends = ours.iter().filter(|it| *it == "8;;").count();
    let pictures = ours.iter().filter(|it| it.starts_with('G')).count();
    assert!(pictures > 0, "{ours:?}");
    assert_eq!(ends + links.len() + pictures, ours.len(), "{ours:?}");
    for picture in ours.iter().filter(|it| it.starts_with('G')) {
        let (control, data) = picture.split_once(';').unwrap();
        let allowed = ["Ga=T,f=100,q=2,m=0", "Ga=T,f=100,q=2,m=1", "Gm=0", "Gm=1"];
        assert!(allowed.contains(&control), "{control}");
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        assert!(data.chars().all(is_base64), "{data}");
    }
}

/// The screen without the strings (OSC and APC) that kitty gets, and these.
fn without_ours(screen: &str) -> (String, Vec<String>) {
    let (mut rest, mut found) = (String::new(), Vec::new());
    let mut text = screen;
    while let Some(at) = text
        .find("\u{1b}]8;")
        .into_iter()
        .chain(text.find("\u{1b}_G"))
        .min()
    {
        rest.push_str(&text[..at]);
        let (string, after) = text[at + 2..].split_once("\u{1b}\\").unwrap();
        found.push(string.to_owned());
        text = after;
    }
    rest.push_str(text);
    (rest, found)
}

/// However the words are cut.
#[tokio::test(flavor = "multi_thread")]
async fn words_in_small_pieces_are_the_same() {
    let mut shown = Vec::new();
    for size in ["1", "2", "3", "4", "100"] {
        let words = json!([{"match": {"turnIndex": 0}, "response": {"content": WORDS}}]);
        let mock = Aimock::start_in_pieces(&words, "1", size).await;
        let sponde = Sponde::new().with_model(&mock);
        let ask = ["ask", "--model", "gpt-4o", "-k", "misbehave", "go"];
        let screen = tokio::task::block_in_place(|| {
            play_on("xterm-256color", &sponde, &ask, &json!([["size", "24x80"]]))
        });
        mock.stop().await;
        assert_eq!(screen.code, 0, "{}", screen.all);
        assert_eq!(
            foreign(&screen.all),
            Vec::<String>::new(),
            "{:?}",
            screen.all
        );
        let lines = Drawn::of(&screen).lines();
        let begin = lines.iter().position(|line| line == "ab").unwrap();
        let end = lines.iter().position(|line| line.ends_with("o.")).unwrap();
        shown.push(lines[begin..=end].join("\n"));
    }
    let whole = shown.pop().unwrap();
    assert!(whole.contains("m = \""), "{whole}");
    for words in shown {
        assert_eq!(words, whole);
    }
}

/// What names hold: of variables, columns, values, files, sessions and questions.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J";

/// Nothing of [`HOSTILE`] is on the screen.
fn harmless(screen: &Screen) {
    for bad in ["\u{1b}[2J", "\u{1b}]0;", "\u{9b}"] {
        assert!(!screen.all.contains(bad), "{bad:?} in {:?}", screen.all);
    }
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
}

#[test]
fn names_are_as_harmless_as_outputs() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("PAGER", "cat");
    let bad = r"\x1b[2J\x1b]0;owned\x07\x9b2J";
    let begin = format!(
        "!import pandas as pd; df = pd.DataFrame({{'col{bad}umn': ['val{bad}ue']}}); globals()['vari{bad}able'] = 'te{bad}xt'; \
         class_ = type('na{bad}me', (), {{}}); n = open('fi{bad}le.csv', 'w').write('1'); df"
    );
    let prompt = ">\u{1b}[0m ";
    let mut steps = vec![json!(["size", "30x200"])];
    for (line, answer) in [
        (&*begin, "value"),
        ("/vars", "pandas.DataFrame"),
        ("/table df", "rows 1 to 1 of 1"),
        ("/table df profile column", "there is no column"),
        ("/files", "le.csv"),
        ("/show", "value"),
        ("/show 1", "value"),
        ("/open 1", "and no code"),
        ("/save x.html", "saved"),
        ("/status", "notebook"),
    ] {
        steps.extend([
            json!(["wait", prompt]),
            json!(["type", format!("{line}\r")]),
            json!(["wait", answer]),
        ]);
    }
    for (typed, answer, leaves) in [
        ("@fi\t", "Which file?", "\u{1b}"),
        ("!vari\t", "variable", ""),
        ("/resume \t", "", ""),
    ] {
        steps.extend([
            json!(["wait", prompt]),
            json!(["type", typed]),
            json!(["wait", answer]),
            json!(["pause", "1"]),
            json!(["type", leaves]),
            json!(["pause", "0.6"]),
            json!(["type", "\u{3}"]),
            json!(["wait", "/exit ends"]),
        ]);
    }
    steps.extend([json!(["wait", prompt]), json!(["type", "\u{4}"])]);
    let chat = ["--model", "m"];
    harmless(&play_on("xterm-256color", &sponde, &chat, &json!(steps)));
    // What a script prints goes to the terminal, too.
    let print = format!("print('be{bad}gun'); x = 'e{bad}nd'; x");
    harmless(&play_on(
        "xterm-256color",
        &sponde,
        &["run", "-c", &print],
        &json!([["wait", "begun"], ["wait", "nd'"]]),
    ));
}

/// Questions name sessions and windows, and code that is proposed anew is compared.
#[tokio::test(flavor = "multi_thread")]
async fn questions_and_revisions_are_harmless() {
    let code = |end: &str| format!("echo one\necho 2\necho 3\necho {HOSTILE}{end}");
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [call(&code("four"))]}},
        {"match": {"turnIndex": 1}, "response": {"blocks": [call(&code("five"))]}},
        {"match": {"turnIndex": 2}, "response": {"content": "That was it."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let question = format!("why {HOSTILE}not?");
    let run = "or say what to do instead:";
    tokio::task::block_in_place(|| {
        for _ in 0..2 {
            let asked = play_on(
                "xterm-256color",
                &sponde,
                &["--model", "gpt-4o", "-k", "misbehave", &question],
                &json!([
                    ["wait", run],
                    ["type", "?"],
                    ["wait", "different from before:"],
                    ["wait", run],
                    ["type", "q"],
                    ["wait", "you declined"],
                    ["wait", ">\u{1b}[0m "],
                    ["type", "\u{4}"],
                ]),
            );
            harmless(&asked);
            assert!(asked.all.contains("sponde: why not?"), "{:?}", asked.all);
        }
        let picked = play_on(
            "xterm-256color",
            &sponde,
            &["resume", "--model", "gpt-4o"],
            &json!([
                ["wait", "Which session?"],
                ["wait", "not?"],
                ["pause", "0.3"],
                ["type", "\r"],
                ["wait", "resuming "],
                ["wait", "why not?"],
                ["wait", ">\u{1b}[0m "],
                ["type", "\u{4}"],
            ]),
        );
        harmless(&picked);
    });
    mock.stop().await;
}
