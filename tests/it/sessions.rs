//! `sponde sessions`, `resume` and `fork`, as a person uses them. Code is the person's own, so no model is asked.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::support::{Ended, NOBODY, Sponde, eventually};
use crate::terminal::play;

fn sponde() -> Sponde {
    Sponde::new().with("OPENAI_BASE_URL", &format!("{NOBODY}/v1"))
}

fn chat(sponde: &Sponde, arguments: &[&str], lines: &str) -> Ended {
    let arguments = [arguments, &["--model", "m"]].concat();
    sponde.run_with_stdin(&arguments, lines)
}

/// The same when a kernel may stay.
fn chat_and_leave(sponde: &Sponde, arguments: &[&str], lines: &str) -> Output {
    let mut command = sponde.command(&[arguments, &["--model", "m"]].concat());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    let both = [&*output.stdout, b"\n", &*output.stderr].concat();
    String::from_utf8(both).unwrap()
}

fn list(sponde: &Sponde) -> Vec<Value> {
    let listed = sponde.run(&["sessions", "list", "--json"]);
    assert_eq!(listed.code, Some(0), "{listed}");
    serde_json::from_str(&listed.stdout).unwrap()
}

#[test]
fn a_session_is_found_again_and_goes_on() {
    let sponde = sponde();
    let first = chat(
        &sponde,
        &[],
        "!x = 41\n!print(x)\n!import time; print(time.time_ns())\n",
    );
    assert_eq!(first.code, Some(0), "{first}");
    let all = list(&sponde);
    assert_eq!(all.len(), 1);
    assert_eq!(
        (
            &all[0]["question"],
            &all[0]["code_cells"],
            &all[0]["closed"]
        ),
        (&"!x = 41".into(), &3.into(), &true.into())
    );
    // Its kernel is gone. In a pipe it goes on without, unless a replay is asked for.
    let fresh = chat(&sponde, &["resume"], "!print(x)\n");
    assert!(fresh.stderr.contains("NameError"), "{fresh}");
    let replayed = chat(
        &sponde,
        &["resume", "--last", "--replay"],
        "!print(x + 1)\n",
    );
    let shown = format!("{}{}", replayed.stdout, replayed.stderr);
    assert!(shown.contains("42"), "{replayed}");
    for part in [
        "cell 1 of 4: as before",
        "cell 3 of 4: other output",
        "ran 4 cells again, 2 with other outputs; variables: ",
    ] {
        assert!(replayed.stderr.contains(part), "{part} in {replayed}");
    }
    // The recorded outputs stay, and what came is behind them.
    let id = all[0]["id"].as_str().unwrap();
    let shown = sponde.run(&["sessions", "show", id]);
    for part in ["] you\n    x = 41", "  | 41", "  | 42"] {
        assert!(shown.stdout.contains(part), "{part} in {shown}");
    }
    let notebook = all[0]["notebook"].as_str().unwrap();
    crate::support::assert_is_valid_notebook(notebook.as_ref());

    // Moved, it is still that session.
    let moved = sponde.path("mine.ipynb");
    std::fs::rename(notebook, &moved).unwrap();
    let again = chat(
        &sponde,
        &["resume", "mine.ipynb", "--fresh"],
        "!print('here')\n",
    );
    assert_eq!(again.code, Some(0), "{again}");
    assert!(sponde.read("mine.ipynb").contains("here"));
    assert!(!std::path::Path::new(notebook).exists());
    assert_eq!(list(&sponde)[0]["notebook"], moved.to_str().unwrap());
}

#[test]
fn sessions_are_forked_named_searched_and_removed() {
    let sponde = sponde();
    chat(&sponde, &[], "!print('apples')\n!print('pears')\n");
    let id = list(&sponde)[0]["id"].as_str().unwrap().to_owned();
    let forked = sponde.run(&["fork", &id, "--at", "2"]);
    assert_eq!(forked.code, Some(0), "{forked}");
    let fork = forked.stdout.trim();
    let shown = sponde.run(&["sessions", "show", fork]);
    assert!(
        shown.stdout.contains("apples") && !shown.stdout.contains("pears"),
        "{shown}"
    );
    let wrong = sponde.run(&["fork", &id, "--at", "9"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");

    assert_eq!(
        sponde
            .run(&["sessions", "rename", fork, "Only apples"])
            .code,
        Some(0)
    );
    let found = sponde.run(&["sessions", "search", "PEARS", "apples"]);
    assert!(
        found.stdout.contains("!print('apples')") && !found.stdout.contains("Only"),
        "{found}"
    );
    let nothing = sponde.run(&["sessions", "search", "plums"]);
    insta::assert_snapshot!(nothing, @"
    exit: 1
    --- stderr
    no session has `plums` in it
    ");
    // What only the model is told is nothing that anybody looks for.
    sponde.write("kiwis.csv", "a,b\n1,2\n");
    chat(&sponde, &["--notebook", "note.ipynb"], "!print('figs')\n");
    assert!(sponde.read("note.ipynb").contains("kiwis.csv"));
    assert_eq!(sponde.run(&["sessions", "search", "kiwis"]).code, Some(1));
    let noted = list(&sponde)[0]["id"].as_str().unwrap().to_owned();
    // By the id; and what has no notebook.
    let exported = sponde.run(&["export", &noted]);
    assert!(exported.stdout.contains("print('figs')"), "{exported}");
    let unknown = sponde.run(&["export", "nosuch"]);
    insta::assert_snapshot!(unknown, @"
    exit: 2
    --- stderr
    error: there is no file `nosuch`, and there is no session `nosuch`

    hint: `sponde sessions` lists them
    ");
    assert_eq!(sponde.run(&["sessions", "rm", &noted]).code, Some(0));
    // The list without its name.
    let one = sponde.run(&["sessions", "-n", "1"]);
    assert!(one.stderr.contains("and 1 more"), "{one}");
    let all: Value = serde_json::from_str(&sponde.run(&["sessions", "--json"]).stdout).unwrap();
    assert_eq!(all, Value::Array(list(&sponde)));
    // By its title, and by a name that nothing has.
    let shown = sponde.run(&["sessions", "show", "only apples", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["id"], &shown["forked_from"]),
        (&fork.into(), &id.as_str().into())
    );
    let unknown = sponde.run(&["resume", "nosuch"]);
    insta::assert_snapshot!(unknown.error().1, @r"
    exit: 2
    error: there is no session `nosuch`

    hint: `sponde sessions` lists them
    ");

    let dry = sponde.run(&["sessions", "gc", "--max-size", "0", "--dry-run"]);
    assert!(
        dry.stdout.contains("2 of 2 sessions would be removed"),
        "{dry}"
    );
    assert_eq!(sponde.run(&["sessions", "rm", "Only"]).code, Some(0));
    assert_eq!(list(&sponde).len(), 1);
    let collected = sponde.run(&["sessions", "gc", "--max-size", "0"]);
    assert!(
        collected
            .stdout
            .contains("1 of 1 sessions removed; the others take 0 B"),
        "{collected}"
    );
    assert!(list(&sponde).is_empty());
    let left = std::fs::read_dir(sponde.sessions()).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_kernel_that_is_kept_has_everything() {
    let sponde = sponde();
    let first = chat_and_leave(&sponde, &["--keep-kernel"], "!x = 41\n");
    assert!(first.status.success(), "{}", text(&first));
    assert!(
        text(&first).contains("`sponde kernels reap --kept` ends it"),
        "{}",
        text(&first)
    );
    let reaped = sponde.command(&["kernels", "reap"]).output().unwrap();
    let id = "of session ";
    assert!(
        text(&reaped).contains("kept: process") && text(&reaped).contains(id),
        "{}",
        text(&reaped)
    );
    // It is kept again without being asked.
    let second = chat_and_leave(&sponde, &["resume"], "!print(x + 1); x = 5\n");
    assert!(text(&second).contains("42"), "{}", text(&second));
    assert!(
        text(&second).contains("its kernel is still there; variables: x"),
        "{}",
        text(&second)
    );

    // Killed while a cell runs: that cell goes on, and its end is waited for.
    let mut command = sponde.command(&["resume", "--model", "m"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"!print('begun', flush=True); import time; time.sleep(0.5); print('on', flush=True); time.sleep(1); x += 2\n")
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    // What was printed before this is in the journal.
    assert!(lines.any(|line| line.trim() == "on"));
    child.kill().unwrap();
    child.wait().unwrap();
    let third = chat_and_leave(&sponde, &["resume"], "!print('x is', x)\n");
    assert!(
        text(&third).contains("a cell was running when the session was killed"),
        "{}",
        text(&third)
    );
    assert!(text(&third).contains("x is 7"), "{}", text(&third));
    let shown = sponde.command(&["sessions", "show"]).output().unwrap();
    assert!(text(&shown).contains("(interrupted)"), "{}", text(&shown));
    let list = || text(&sponde.command(&["sessions", "list"]).output().unwrap());
    assert!(list().contains("[kernel kept]"), "{}", list());

    let ended = sponde
        .command(&["kernels", "reap", "--kept"])
        .output()
        .unwrap();
    assert!(
        text(&ended).contains("killed the kernel"),
        "{}",
        text(&ended)
    );
    assert!(!list().contains("[kernel kept]"), "{}", list());
    sponde.assert_nothing_is_left();
}

#[test]
fn a_file_that_was_named_can_be_read_when_the_session_goes_on() {
    let sponde = sponde();
    sponde.write("../secret", "hunter2");
    let read = "!print(open('../secret').read())\n";
    let begun = chat_and_leave(&sponde, &["--file", "../secret"], read);
    assert!(text(&begun).contains("hunter2"), "{}", text(&begun));
    let resumed = chat_and_leave(&sponde, &["resume"], read);
    assert!(text(&resumed).contains("hunter2"), "{}", text(&resumed));
    // What code has put in the place of a file names nothing outside.
    std::os::unix::fs::symlink("../secret", sponde.path("data.csv")).unwrap();
    let linked = chat_and_leave(&sponde, &["--file", "data.csv"], read);
    let words = text(&linked);
    assert!(
        words.contains("is a link that leads out of the working directory"),
        "{words}"
    );
    assert!(!words.contains("hunter2"), "{words}");
}

#[test]
fn a_session_that_goes_on_is_confined_as_before_and_takes_no_looser_kernel() {
    let sponde = sponde();
    let first = |output: &Output| text(output).trim_start().to_owned();
    let begun = chat_and_leave(&sponde, &["--sandbox", "read-only"], "!x = 1\n");
    assert!(
        first(&begun).contains("sandbox: read-only"),
        "{}",
        text(&begun)
    );
    let resumed = chat_and_leave(&sponde, &["resume"], "!open('made', 'w').close()\n");
    assert!(
        first(&resumed).contains("sandbox: read-only"),
        "{}",
        text(&resumed)
    );
    assert!(!sponde.path("made").exists());

    sponde.write("../secret", "hunter2");
    let full = ["--sandbox", "full", "--keep-kernel"];
    let kept = chat_and_leave(&sponde, &full, "!x = 41\n");
    assert!(text(&kept).contains("sandbox: full"), "{}", text(&kept));
    let lines = "!print('x' in globals()); print(open('../secret').read())\n";
    let workspace = ["resume", "--sandbox", "workspace"];
    let confined = chat_and_leave(&sponde, &workspace, lines);
    let words = text(&confined);
    assert!(words.contains("sandbox: workspace"), "{words}");
    assert!(
        words.contains("may do more than the sandbox permits now"),
        "{words}"
    );
    assert!(
        words.contains("False") && !words.contains("hunter2"),
        "{words}"
    );
    // The confined one, which was kept in its place, is strict enough for all.
    let again = chat_and_leave(&sponde, &workspace, "!print('y' in globals())\n");
    assert!(
        !text(&again).contains("may do more than"),
        "{}",
        text(&again)
    );
    sponde
        .command(&["kernels", "reap", "--kept"])
        .output()
        .unwrap();
    sponde.assert_nothing_is_left();
}

#[test]
fn a_session_that_goes_on_has_the_allow_list_that_it_began_with() {
    let sponde = sponde();
    let words = "network only to example.org, *.example.com:8443";
    let begun = ["--network", "allow:example.org,*.example.com:8443"];
    let show = "!import os; print('HTTPS_PROXY' in os.environ)\n";
    let first = chat_and_leave(&sponde, &begun, show);
    assert!(text(&first).contains(words), "{}", text(&first));
    let id = list(&sponde)[0]["id"].as_str().unwrap().to_owned();
    let forked = sponde.run(&["fork", &id]);
    let fork = forked.stdout.trim();
    for arguments in [["resume", &id], ["resume", fork]] {
        let output = chat_and_leave(&sponde, &arguments, show);
        let said = text(&output);
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(said.contains("True"), "{arguments:?}: {said}");
    }
    let off = chat_and_leave(&sponde, &["resume", "--network", "off"], show);
    let said = text(&off);
    assert!(
        said.contains("no network") && said.contains("False"),
        "{said}"
    );
}

const PROMPT: &str = "\r\n> ";

/// A kernel that was kept may still run what it was given: the person is told at once, can interrupt it, and is not held by
/// one that ignores that.
#[test]
fn a_kept_kernel_that_is_busy_is_waited_for_interrupted_or_left() {
    let sponde = sponde();
    let on_terminal = |arguments: &[&str], steps: Value| {
        play(&sponde, &[arguments, &["--model", "m"]].concat(), &steps)
    };
    let begun = on_terminal(
        &["--keep-kernel"],
        json!([
            ["wait", PROMPT],
            [
                "type",
                "!import time; x = 7; print('be' + 'gun', flush=True); time.sleep(600)\n"
            ],
            ["wait", "begun"],
            ["signal", "KILL"],
        ]),
    );
    assert_eq!(begun.code, -9, "{}", begun.all);
    let stubborn = "!print('be' + 'gun', flush=True)\\\nwhile True:\\\n try: time.sleep(600)\\\n \
                    except KeyboardInterrupt: pass\n";
    let interrupted = on_terminal(
        &["resume"],
        json!([
            ["wait", "is still busy with `import time; x = 7;"],
            ["wait", "Ctrl-C interrupts it"],
            ["type", "\u{3}"],
            ["wait", "its kernel is still there; variables: x"],
            ["wait", PROMPT],
            ["type", stubborn],
            ["wait", "begun"],
            ["signal", "KILL"],
        ]),
    );
    assert_eq!(interrupted.code, -9, "{}", interrupted.all);
    let question = "or continue with a [n]ew kernel?";
    let left = on_terminal(
        &["resume"],
        json!([
            [
                "wait",
                "is still busy with `print('be' + 'gun', flush=True)`"
            ],
            ["type", "\u{3}"],
            ["wait", question],
            ["type", "i\n"],
            ["wait", question],
            ["type", "n\n"],
            ["wait", "it continues in a new kernel"],
            ["wait", PROMPT],
            ["type", "!print('al' + 'ive', 'x' in globals())\n"],
            ["wait", "alive False"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!(left.code, 0, "{}", left.all);
    let ended = sponde.command(&["kernels", "reap", "--kept"]).output();
    // The one that was left is gone already.
    let killed = text(&ended.unwrap()).matches("killed the kernel").count();
    assert_eq!(killed, 1);
    sponde.assert_nothing_is_left();
}

/// Without a name the latest session is meant that can be had.
#[test]
fn resume_passes_over_a_session_that_is_open() {
    let sponde = sponde();
    chat(&sponde, &[], "!print('older')\n");
    chat(&sponde, &[], "!print('newer')\n");
    let mut command = sponde.command(&["resume", "--fresh", "--model", "m"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_open = || {
        let listed = sponde.command(&["sessions", "list", "--json"]).output();
        let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
        listed[0]["process"] == child.id()
    };
    eventually(is_open);
    let second = chat_and_leave(&sponde, &["resume", "--fresh"], "!print('here')\n");
    let said = text(&second);
    let words = format!(
        "is open in another process ({}), so the one before it",
        child.id()
    );
    assert!(second.status.success() && said.contains(&words), "{said}");
    assert!(said.contains("!print('older')"), "{said}");
    drop(child.stdin.take());
    child.wait().unwrap();
    sponde.assert_nothing_is_left();
}

#[test]
fn a_session_has_one_writer() {
    let sponde = sponde();
    chat(&sponde, &[], "!x = 1\n");
    let mut command = sponde.command(&["resume", "--fresh", "--model", "m"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_open = || {
        let listed = sponde.command(&["sessions", "list", "--json"]).output();
        let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
        listed[0]["process"] == child.id()
    };
    eventually(is_open);
    let second = sponde
        .command(&["resume", "--model", "m"])
        .output()
        .unwrap();
    let words = format!("is open in another process ({})", child.id());
    assert!(text(&second).contains(&words), "{}", text(&second));
    assert_eq!(second.status.code(), Some(1));
    // It can be looked at, and forked.
    let shown = sponde.command(&["sessions", "list"]).output().unwrap();
    assert!(text(&shown).contains("[open]"), "{}", text(&shown));
    let forked = sponde.command(&["fork", "!x"]).output().unwrap();
    assert_eq!(forked.status.code(), Some(2));
    drop(child.stdin.take());
    child.wait().unwrap();
    sponde.assert_nothing_is_left();
}

#[test]
fn shells_can_complete_sessions() {
    let sponde = sponde();
    chat(&sponde, &[], "!x = 1\n");
    for shell in ["bash", "zsh", "fish"] {
        let script = sponde.run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{script}");
        assert!(script.stdout.contains("COMPLETE"), "{script}");
    }
    let all = list(&sponde);
    let short = all[0]["short"].as_str().unwrap();
    // As the script asks.
    let asked = sponde
        .command(&["--", "sponde", "resume", &short[..2]])
        .env("COMPLETE", "fish")
        .output()
        .unwrap();
    assert!(text(&asked).contains(short), "{}", text(&asked));
}

/// What a kernel may do is fixed when it starts: one that was kept is not taken where more is wanted, and stays.
#[test]
fn a_kept_kernel_that_may_do_less_is_left_where_more_is_wanted() {
    let sponde = sponde();
    let kept = chat_and_leave(&sponde, &["--keep-kernel"], "!x = 41\n");
    assert!(
        text(&kept).contains("sandbox: workspace"),
        "{}",
        text(&kept)
    );
    sponde.write("../secret", "hunter2");
    let full = ["resume", "--sandbox", "full"];
    let lines = "!print('x' in globals(), open('../secret').read())\n";
    let wide = chat_and_leave(&sponde, &full, lines);
    let words = text(&wide);
    assert!(words.contains("sandbox: full"), "{words}");
    assert!(words.contains("may do less than is wanted now"), "{words}");
    assert!(words.contains("False hunter2"), "{words}");
    sponde
        .command(&["kernels", "reap", "--kept"])
        .output()
        .unwrap();
}
