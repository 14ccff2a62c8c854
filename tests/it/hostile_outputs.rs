//! What a confined kernel sends to the screen of a person: it reaches no clipboard, takes no memory, and the next cell runs.

use serde_json::json;

use crate::support::Sponde;
use crate::terminal::play;

const PROMPT: &str = "\r\n> ";

#[test]
fn escapes_and_bombs_of_a_confined_kernel_are_survived() {
    let sponde = || Sponde::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    survives(&sponde(), "(bubblewrap)");
    survives(&sponde().with("PATH", "/nowhere"), "(Landlock)");
}

fn survives(sponde: &Sponde, tier: &str) {
    // 50,000 by 50,000 pixels, in some bytes.
    let bomb = "!import struct, zlib, base64; c = lambda k, d: struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d)); \
                png = b'\\x89PNG\\r\\n\\x1a\\n' + c(b'IHDR', struct.pack('>IIBBBBB', 50000, 50000, 8, 2, 0, 0, 0)) + c(b'IDAT', zlib.compress(bytes(10**7))) + c(b'IEND', b''); \
                display({'image/png': base64.b64encode(png).decode()}, raw=True); print('sent', 'it')\n";
    let clipboard = "!print('\\x1b]52;c;aGFjaw==\\x07\\x1b]0;owned\\x07' + 'after' * 2)\n";
    let screen = play(
        sponde,
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            ["type", clipboard],
            ["wait", "afterafter"],
            ["wait", PROMPT],
            ["type", bomb],
            ["wait", "sent it"],
            ["wait", PROMPT],
            ["type", "!print('still', 6 * 7)\n"],
            ["wait", "still 42"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert!(screen.all.contains("sandbox: workspace"), "{}", screen.all);
    assert!(screen.all.contains(tier), "{}", screen.all);
    assert!(!screen.all.contains("\u{1b}]52"), "{}", screen.all);
    assert!(!screen.all.contains("\u{1b}]0;owned"), "{}", screen.all);
    assert_eq!(screen.code, 0);
}

#[test]
fn a_notebook_says_on_a_terminal_how_it_is_confined() {
    let sponde = Sponde::new();
    sponde.write_notebook("own.ipynb", "python3", &[("", "print('cell', 1)")]);
    let wait = json!([["wait", "cell 1"]]);
    let own = play(&sponde, &["run", "own.ipynb"], &wait);
    let line = "sandbox: full, because it is your own code; `--sandbox workspace` confines it";
    assert!(own.all.starts_with(line), "{}", own.all);
    let confined = play(
        &sponde,
        &["run", "--sandbox", "workspace", "own.ipynb"],
        &wait,
    );
    assert!(
        confined.all.starts_with("sandbox: workspace"),
        "{}",
        confined.all
    );
    assert_eq!((own.code, confined.code), (0, 0));
}
