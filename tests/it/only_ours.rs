//! What reaches a terminal is text, colours, our own movements of the cursor, and nothing else: every control character, and every
//! sequence cut at every byte, through outputs of code, words of a model, code, and names of files.

use serde_json::json;

use crate::aimock::Aimock;
use crate::support::Sponde;
use crate::terminal::play_on;

/// Prints them whole and in pieces, shows them as a result and as an error, and calls a file so.
const CODE: &str = r"
import sys, os, time
bad = ['\x1b]52;c;aGFjaw==\x07', '\x1b]0;title\x1b\\', '\x1b[2J', '\x1b[1;1H', '\x1b[3A', '\x1b[?25l', '\x1b[>4;2m', '\x1bP1$r\x1b\\',
       '\x1b_Gf=100;AAAA\x1b\\', '\x1bc', '\x1b(0', '\x1b#8', '\x9b2J', '\x9d0;t\x9c', '\x90q\x9c', '\x1b[6n', '\x1b]8;;http://x\x07y\x1b]8;;\x07']
bad += [chr(c) for c in range(32) if c not in (9, 10, 13)] + [chr(c) for c in range(127, 160)] + ['\u202e', '\u2066']
out = sys.stdout
for text in bad:
    print('<' + text + '>')
for text in bad[:17]:
    for at in range(1, len(text)):
        out.write('(' + text[:at]); out.flush(); out.write(text[at:] + ')\n'); out.flush()
        sys.stderr.write('(' + text[:at]); sys.stderr.flush(); sys.stderr.write(text[at:] + ')\n'); sys.stderr.flush()
for text in bad[:17]:
    name = 'f' + text.replace('/', '').replace('\x00', '')
    try: open(name, 'w').close()
    except OSError: pass
from IPython.display import display
display({'text/plain': ''.join(bad)}, raw=True)
for mime in ('text/markdown', 'text/latex', 'text/html'):
    display({mime: '# a **' + '** `x` '.join(bad)}, raw=True)
class Odd:
    def __repr__(self): return ''.join(bad)
display(Odd())
raise ValueError(''.join(bad))
";

/// What is there besides text and what is ours.
fn foreign(screen: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = screen;
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

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_colours_and_our_own_movements_reaches_a_terminal() {
    let arguments = json!({ "code": CODE }).to_string();
    let hidden = json!({ "code": "x = 1 # \u{1b}[2J\u{9b}2J\u{1b}]0;t\u{7}\u{8}" }).to_string();
    let words = "# a\u{1b}[2Jb\n- **c\u{9b}2Jd** `e\u{1b}]0;t\u{7}f` [g](http://\u{1b}[2Jh)\n\n| i\u{1b}[2J | j |\n|-|-|\n| \u{8}k | \u{7}l |\n\n\
                 ```python\nm = \"\u{1b}]52;c;aGFjaw==\u{7}\"\n```\n\u{1b}P1$r\u{1b}\\n\u{202e}o\u{0}.";
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
        {"match": {"turnIndex": 1}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": hidden}]}},
        {"match": {"turnIndex": 2}, "response": {"content": words}},
    ]))
    .await;
    let ask = ["ask", "--yes", "--model", "gpt-4o", "go"];
    for size in ["24x80", "50x200"] {
        let sponde = Sponde::new().with_model(&mock);
        let steps = json!([["size", size]]);
        let screen =
            tokio::task::block_in_place(|| play_on("xterm-256color", &sponde, &ask, &steps));
        assert_eq!(screen.code, 0, "{}", screen.all);
        assert_eq!(
            foreign(&screen.all),
            Vec::<String>::new(),
            "{:?}",
            screen.all
        );
        let text = without_colours(&screen.all);
        // All of it came by: the output's end, the code with what it hides, the model's words.
        assert!(text.contains("ValueError"), "{text:?}");
        assert!(text.contains("\\u{1b}[2J\\u{9b}2J"), "{:?}", screen.all);
        assert!(screen.all.contains("\\u{202e}o."), "{:?}", screen.all);
        assert!(screen.all.contains("files: + "), "{:?}", screen.all);
    }
    mock.stop().await;
}
