//! Ctrl-C at a real terminal in each thing that a person may wait for: the person sees at once that it was noticed, it stops or
//! says why it has not yet, and the next cell is right. How long it took is measured and said, and asserted nowhere: the machine may be busy.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde, tools};
use crate::terminal::{Screen, play_on};

const PROMPT: &str = ">\u{1b}[0m ";
/// What a person reads.
const STOPPED: &str = "interrupted\u{1b}[0m";

/// Types `line`, presses Ctrl-C when `running` has appeared, and types `next`, which `answer` answers.
fn stop(
    what: &str,
    sponde: &Sponde,
    arguments: &[&str],
    (line, running): (&str, &str),
    (next, answer): (&str, &str),
) -> Screen {
    let screen = play_on(
        "xterm-256color",
        sponde,
        arguments,
        &json!([
            ["wait", PROMPT],
            ["type", format!("{line}\r")],
            ["wait", running],
            ["pause", "0.3"],
            ["type", "\u{3}"],
            ["wait", STOPPED],
            ["wait", PROMPT],
            ["type", format!("{next}\r")],
            ["wait", answer],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    // What a person sees after Ctrl-C. Before it comes what was drawn until then.
    let after = screen.waited[2].as_str();
    let after = after.split_once("^C").map_or(after, |(_, after)| after);
    let frame = after.find("stopping");
    assert!(frame.is_some(), "{what}: {after:?}");
    let late = after.find("not stopped yet");
    assert!(late.is_none() || late > frame, "{what}: {after:?}");
    let milliseconds = screen.took[2] * 1000.0;
    let _ = writeln!(
        std::io::stderr(),
        "MEASURED: Ctrl-C, {what}: {milliseconds:.0} ms"
    );
    screen
}

const NEXT: (&str, &str) = ("!print('next', 6 * 7)", "next 42\u{1b}[K\r\n\u{1b}[J");

fn with_kernels() -> Sponde {
    let prefix = tools().join("kernels/python");
    Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("VIRTUAL_ENV", prefix.to_str().unwrap())
}

#[test]
fn in_python() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    for (what, code, running) in [
        ("a silent loop", "while True: pass", "running · 0 s"),
        (
            "a printing loop",
            "while True: print('ag' + 'ain')",
            "again",
        ),
        (
            "time.sleep",
            "import time; time.sleep(600)",
            "running · 0 s",
        ),
        (
            "sleep in C code",
            "import ctypes; ctypes.CDLL(None).sleep(600)",
            "running · 0 s",
        ),
        (
            "a process that was started",
            "import subprocess; subprocess.run(['sleep', '600'])",
            "running · 0 s",
        ),
    ] {
        let line = format!("!print('begun'); {code}");
        let line = if code.starts_with("while") {
            format!("!{code}")
        } else {
            line
        };
        let screen = stop(what, &sponde, &["--model", "m"], (&line, running), NEXT);
        assert!(
            screen.all.contains("KeyboardInterrupt"),
            "{what}: {}",
            screen.all
        );
    }
}

#[test]
fn in_a_download() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    // It answers, and then drips.
    std::thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        let mut drop = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        while drop.is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            drop = client.write_all(b"x");
        }
    });
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let line = format!("!import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/').read()");
    let arguments = ["--model", "m", "--sandbox", "full"];
    let screen = stop(
        "a download",
        &sponde,
        &arguments,
        (&line, "running · 0 s"),
        NEXT,
    );
    assert!(screen.all.contains("KeyboardInterrupt"), "{}", screen.all);
}

#[test]
fn in_bash_and_r() {
    for (kernel, begun, next) in [
        (
            "bash",
            "!sleep 600",
            ("!echo next $((6 * 7))", "next 42\u{1b}[K\r\n\u{1b}[J"),
        ),
        (
            "r",
            "!Sys.sleep(600)",
            ("!cat('next', 6 * 7, '\\n')", "next 42 \u{1b}[K\r\n\u{1b}[J"),
        ),
    ] {
        let sponde = with_kernels();
        let arguments = ["--model", "m", "-k", kernel];
        stop(kernel, &sponde, &arguments, (begun, "running · 0 s"), next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_model_is_waited_for_and_writes() {
    let long = "word ".repeat(400);
    let replies: Value = json!([{"match": {"turnIndex": 0}, "response": {"content": long}}]);
    for (what, pause, running) in [
        ("the model has said nothing yet", "5000", "thinking · 0 s"),
        ("the model writes", "40", "word word"),
    ] {
        let mock = Aimock::start_with_pauses(&replies, pause).await;
        let sponde = Sponde::new().with_model(&mock);
        tokio::task::block_in_place(|| {
            stop(
                what,
                &sponde,
                &["--model", "gpt-4o"],
                ("why?", running),
                NEXT,
            )
        });
        mock.stop().await;
    }
}

/// Where a cell does not listen, the person is told and can start the kernel anew.
#[test]
fn code_that_does_not_listen_is_said_so() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\\\rwhile True: time.sleep(1)";
    let screen = play_on(
        "xterm-256color",
        &sponde,
        &["--model", "m"],
        &json!([
            ["wait", PROMPT],
            ["type", format!("!{code}\r\r")],
            ["wait", "running · 0 s"],
            ["pause", "0.3"],
            ["type", "\u{3}"],
            ["wait", "stopping · 0 s · Ctrl-C again restarts the kernel"],
            [
                "wait",
                "not stopped yet: compiled code runs until it returns"
            ],
            [
                "wait",
                "still running; Ctrl-C twice in a row restarts the kernel"
            ],
            ["type", "\u{3}"],
            ["pause", "0.3"],
            ["type", "\u{3}"],
            ["wait", PROMPT],
            ["type", "!print('next', 6 * 7)\r"],
            ["wait", "next 42\u{1b}[K\r\n\u{1b}[J"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
}
