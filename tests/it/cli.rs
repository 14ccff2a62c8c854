//! The program as a person meets it: what it prints where, and how it ends, when things go well and when they do not.
//!
//! A snapshot is the exit code, stdout and stderr. Every run also checks that no process, socket or connection file
//! outlives the program ([`crate::support::Sponde`]).

use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{NOBODY, Sponde, python_prefix};

/// The most memory that the program may take, whatever a kernel sends.
const MEMORY: u64 = 200 << 20;

/// How long the program may take to end when it is told to; a kernel gets 7 s to do so by itself.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn version() {
    assert_snapshot!(Sponde::new().run(&["--version"]), @"
    exit: 0
    --- stdout
    sponde 0.1.0
    ");
}

#[test]
fn nothing_to_run() {
    assert_snapshot!(Sponde::new().run(&["run"]), @"
    exit: 2
    --- stderr
    error: the following required arguments were not provided:
      <PATH>...

    Usage: sponde run <PATH>...

    For more information, try '--help'.
    ");
}

#[test]
fn the_value_of_an_expression_is_printed() {
    assert_snapshot!(Sponde::new().run(&["run", "-c", "1+1"]), @"
    exit: 0
    --- stdout
    2
    ");
}

#[test]
fn a_script_from_stdin() {
    assert_snapshot!(Sponde::new().run_with_stdin(&["run", "-"], "x = 2\nprint(x * 21)\n"), @"
    exit: 0
    --- stdout
    42
    ");
}

#[test]
fn a_script_from_a_file_runs_where_it_lies() {
    let sponde = Sponde::new();
    std::fs::create_dir(sponde.path("sub")).unwrap();
    sponde.write("sub/script.py", "import os\nprint(os.listdir())\n");
    assert_snapshot!(sponde.run(&["run", "sub/script.py"]), @"
    exit: 0
    --- stdout
    ['script.py']
    ");
}

#[test]
fn stdout_and_stderr_stay_apart() {
    let code = "echo to stdout\nstderr to stderr\nresult a value";
    assert_snapshot!(Sponde::new().run(&["run", "-k", "misbehave", "-c", code]), @"
    exit: 0
    --- stdout
    to stdout
    a value
    --- stderr
    to stderr
    ");
}

#[test]
fn events_as_json() {
    let ended = Sponde::new().run(&[
        "run",
        "--json",
        "-k",
        "misbehave",
        "-c",
        "echo hi\nerror Oops it failed",
    ]);
    let mut events = ended.events();
    let cell = events[0]["cell"].clone();
    for (n, event) in events.iter_mut().enumerate() {
        let event = event.as_object_mut().unwrap();
        assert_eq!(event.remove("sequence"), Some(json!(n + 1)));
        let named = (event["event"] != "run_finished").then(|| cell.clone());
        assert_eq!(event.remove("cell"), named);
    }
    assert_eq!(
        Value::Array(events),
        json!([
            {"event": "code_started"},
            {"event": "output", "change": "append",
                "output": {"output_type": "stream", "name": "stdout", "text": "hi\n"}},
            {"event": "output", "change": "append",
                "output": {"output_type": "error", "ename": "Oops", "evalue": "it failed",
                    "traceback": ["Oops: it failed"]}},
            {"event": "code_finished", "status": "error", "count": 1},
            {"event": "run_finished", "cells": 1, "failed_cell": 1, "status": "error"},
        ])
    );
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(1), "error: cell 1 failed: Oops: it failed\n")
    );
}

#[test]
fn an_exception() {
    assert_snapshot!(Sponde::new().run(&["run", "-c", "1/0"]), @"
    exit: 1
    --- stderr
    ---------------------------------------------------------------------------
    ZeroDivisionError                         Traceback (most recent call last)
    Cell In[1], line 1
    ----> 1 1/0

    ZeroDivisionError: division by zero
    error: cell 1 failed: ZeroDivisionError: division by zero
    ");
}

#[test]
fn a_file_that_is_not_there() {
    assert_snapshot!(Sponde::new().run(&["run", "nothing.ipynb"]), @"
    exit: 2
    --- stderr
    error: could not read `nothing.ipynb`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_notebook_that_is_not_json() {
    let sponde = Sponde::new();
    sponde.write("broken.ipynb", "{\"cells\": [");
    assert_snapshot!(sponde.run(&["run", "broken.ipynb"]), @"
    exit: 2
    --- stderr
    error: could not read the notebook `broken.ipynb`: not JSON: the file ends in the middle of it, in line 1

    hint: a notebook is a JSON file of nbformat 2 to 4; `sponde run` takes scripts too, by any other ending
    ");
}

#[test]
fn json_that_is_not_a_notebook() {
    let sponde = Sponde::new();
    sponde.write("list.ipynb", "[1, 2]");
    assert_snapshot!(sponde.run(&["run", "list.ipynb"]), @"
    exit: 2
    --- stderr
    error: could not read the notebook `list.ipynb`: JSON, but not a notebook: an array

    hint: a notebook is a JSON file of nbformat 2 to 4; `sponde run` takes scripts too, by any other ending
    ");
    sponde.write("object.ipynb", "{\"name\": \"package\"}");
    assert_snapshot!(sponde.run(&["run", "object.ipynb"]), @"
    exit: 2
    --- stderr
    error: could not read the notebook `object.ipynb`: JSON, but not a notebook: an object without `nbformat`, with `name`

    hint: a notebook is a JSON file of nbformat 2 to 4; `sponde run` takes scripts too, by any other ending
    ");
}

#[test]
fn a_script_that_is_not_text() {
    let sponde = Sponde::new();
    sponde.write("picture.py", b"\xff\xd8\xff");
    assert_snapshot!(sponde.run(&["run", "picture.py"]), @"
    exit: 2
    --- stderr
    error: `picture.py` is neither a notebook (.ipynb) nor a script in UTF-8
    ");
}

#[test]
fn a_kernel_that_is_not_there() {
    let shown = Sponde::new()
        .run(&["run", "-k", "julia", "-c", "1"])
        .to_string();
    // Anyone who runs the tests may have more kernels.
    let (start, names) = shown.split_once("there are: ").unwrap();
    let (names, end) = names.split_once(';').unwrap();
    let names: Vec<&str> = names.split(", ").collect();
    assert!(
        names.contains(&"misbehave") && names.contains(&"python3"),
        "{names:?}"
    );
    assert_snapshot!(format!("{start}there are: [NAMES];{end}"), @"
    exit: 4
    --- stderr
    error: there is no kernel `julia`

    hint: there are: [NAMES]; see `sponde kernels`
    ");
}

#[test]
fn a_kernel_that_is_not_there_named_by_a_notebook() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "nb.ipynb",
        "my-old-env",
        &[("", "print('python all the same')")],
    );
    assert_snapshot!(sponde.run(&["run", "nb.ipynb"]), @"
    exit: 0
    --- stdout
    python all the same
    --- stderr
    note: there is no kernel `my-old-env`; using `python3`
    ");
}

#[test]
fn a_broken_kernelspec() {
    let sponde = Sponde::new();
    sponde.add_kernelspec("broken", "{\"argv\": [");
    assert_snapshot!(sponde.run(&["run", "-k", "broken", "-c", "1"]), @"
    exit: 4
    --- stderr
    error: kernel `broken` in `[HOME]/data/jupyter/kernels/broken` cannot be used: not a kernelspec: EOF while parsing a list at line 1 column 10

    hint: see `sponde kernels`
    ");
    sponde.add_kernelspec(
        "empty",
        "{\"argv\": [], \"display_name\": \"Empty\", \"language\": \"none\"}",
    );
    assert_snapshot!(sponde.run(&["run", "-k", "empty", "-c", "1"]), @"
    exit: 4
    --- stderr
    error: kernel `empty` in `[HOME]/data/jupyter/kernels/empty` cannot be used: its `argv` is empty

    hint: see `sponde kernels`
    ");
}

#[test]
fn a_kernel_whose_program_is_not_there() {
    let sponde = Sponde::new();
    sponde.add_kernel(
        "gone",
        &[
            "/no/such/program".to_owned(),
            "{connection_file}".to_owned(),
        ],
    );
    assert_snapshot!(sponde.run(&["run", "-k", "gone", "-c", "1"]), @"
    exit: 4
    --- stderr
    error: kernel `gone` in `[HOME]/data/jupyter/kernels/gone` cannot be used: its program `/no/such/program` is not there

    hint: see `sponde kernels`
    ");
}

#[test]
fn a_kernel_that_dies_at_its_start() {
    let sponde = Sponde::new();
    let python = python_prefix()
        .join("bin/python")
        .to_string_lossy()
        .into_owned();
    // -S: no site-packages, as in an environment without ipykernel.
    let argv = [
        &python,
        "-S",
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ];
    sponde.add_kernel("bare", &argv.map(str::to_owned));
    assert_snapshot!(sponde.run(&["run", "-k", "bare", "-c", "1"]), @"
    exit: 4
    --- stderr
    error: kernel `bare` exited before it was ready (exit status 1)
      [PYTHON]/bin/python: No module named 'ipykernel'

    hint: install it with `sponde kernels install python3`, or choose another from `sponde kernels`
    ");
}

#[test]
fn a_killed_kernel() {
    let sponde = Sponde::new();
    assert_snapshot!(sponde.run(&["run", "-c", "import os; os._exit(1)"]), @"
    exit: 4
    --- stderr
    error: kernel `python3` died while it ran cell 1 (exit status 1)
    ");
    assert_snapshot!(sponde.run(&["run", "-k", "misbehave", "-c", "echo last words\ndie-by-signal 9"]), @"
    exit: 4
    --- stdout
    last words
    --- stderr
    error: kernel `misbehave` died while it ran cell 1 (signal 9, killed: perhaps out of memory)
    ");
}

#[test]
fn a_question_that_nobody_can_answer() {
    let ended = Sponde::new().run(&["run", "-c", "input('name? ')"]);
    // The traceback goes through ipykernel's own files.
    assert_eq!(
        (
            ended.code,
            ended.stdout.as_str(),
            ended.stderr.lines().next_back().unwrap()
        ),
        (
            Some(1),
            "",
            "error: cell 1 failed: StdinNotImplementedError: raw_input was called, but this frontend does not \
             support input requests."
        )
    );
}

#[test]
fn a_cell_that_takes_too_long() {
    assert_snapshot!(Sponde::new().run(&["run", "--timeout", "1", "-c", "while True: pass"]), @"
    exit: 1
    --- stderr
    note: the cell's time is up; interrupted it (1)
    ---------------------------------------------------------------------------
    KeyboardInterrupt                         Traceback (most recent call last)
    Cell In[1], line 1
    ----> 1 while True: pass

    KeyboardInterrupt: 
    error: cell 1 ran too long and was stopped

    hint: give it more time with --timeout
    ");
}

#[test]
fn a_cell_that_takes_too_long_and_ignores_interrupts() {
    let ended = Sponde::new().run(&["run", "-k", "misbehave", "--timeout", "1", "-c", "hang"]);
    assert_snapshot!(ended, @"
    exit: 4
    --- stderr
    note: the cell's time is up; interrupted it (1)
    note: the cell's time is up; interrupted it (2)
    error: kernel `misbehave` died while it ran cell 1 (it was killed because it did not stop when its time was up)
    ");
}

#[test]
fn ctrl_c_on_an_infinite_loop() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "-c", "print('go', flush=True)\nwhile True: pass"]);
    assert_eq!(started.line(), "go\n");
    started.interrupt();
    let ended = started.end();
    assert!(ended.stderr.contains("KeyboardInterrupt"), "{ended}");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(130), "go\n"));
}

#[test]
fn ctrl_c_again_on_a_kernel_that_ignores_it() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "-k", "misbehave", "-c", "echo go\nhang"]);
    assert_eq!(started.line(), "go\n");
    started.interrupt_until_it_ends();
    assert_snapshot!(started.end_within(SOON), @"
    exit: 130
    --- stdout
    go
    ");
}

#[test]
fn ctrl_c_again_on_a_cell_that_goes_on_printing() {
    let sponde = Sponde::new();
    let code = "\
import time
while True:
    try:
        while True:
            print('go', flush=True)
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
";
    let mut started = sponde.start(&["run", "-c", code]);
    assert_eq!(started.line(), "go\n");
    started.interrupt_until_it_ends();
    assert_eq!(started.end_within(SOON).code, Some(130));
}

#[test]
fn a_request_to_end_takes_the_kernel_along() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "-c", "print('go', flush=True)\nwhile True: pass"]);
    assert_eq!(started.line(), "go\n");
    started.signal(Signal::TERM);
    let ended = started.end_within(SOON);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(130), "go\n"));
}

#[test]
fn a_request_to_end_does_not_wait_for_a_kernel_that_hangs() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "-k", "misbehave", "-c", "echo go\nhang"]);
    assert_eq!(started.line(), "go\n");
    started.signal(Signal::TERM);
    assert_eq!(started.end_within(SOON).code, Some(130));
}

#[test]
fn a_program_that_is_killed_takes_the_kernel_along() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "-c", "print('go', flush=True)\nwhile True: pass"]);
    assert_eq!(started.line(), "go\n");
    started.signal(Signal::KILL);
    started.end_killed();
}

#[test]
fn a_hundred_megabytes_in_one_print() {
    let sponde = Sponde::new();
    let (ended, memory) = sponde
        .start(&["run", "-c", "print('x' * 100_000_000)"])
        .end_measured();
    assert_eq!(
        (ended.code, ended.stdout.len(), ended.stderr.as_str()),
        (Some(0), 100_000_001, "")
    );
    assert!(memory < MEMORY, "{} MB", memory >> 20);
}

#[test]
fn a_hundred_megabytes_in_one_message() {
    let sponde = Sponde::new();
    let code = "display({'text/plain': 'x' * 100_000_000}, raw=True)\nprint('alive')";
    let (ended, memory) = sponde.start(&["run", "-c", code]).end_measured();
    assert_snapshot!(ended, @"
    exit: 0
    --- stdout
    alive
    --- stderr
    [sponde: an output of 100 MB was too large and is not kept; print less at a time]
    ");
    assert!(memory < MEMORY, "{} MB", memory >> 20);
}

#[test]
fn a_hundred_megabytes_in_many_lines() {
    let sponde = Sponde::new();
    let code = "for _ in range(1_000_000): print('x' * 99)";
    let (ended, memory) = sponde.start(&["run", "-c", code]).end_measured();
    assert_eq!(
        (ended.code, ended.stdout.len(), ended.stderr.as_str()),
        (Some(0), 100_000_000, "")
    );
    assert!(memory < MEMORY, "{} MB", memory >> 20);
}

#[test]
fn a_reader_slower_than_the_kernel() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "-k", "misbehave", "-c", "flood 100000000"]);
    for _ in 0..1000 {
        assert_eq!(started.line().len(), 64);
    }
    let (ended, memory) = started.end_measured();
    assert_eq!(
        (ended.code, ended.stdout.len(), ended.stderr.as_str()),
        (Some(0), 100_000_000, "")
    );
    assert!(memory < MEMORY, "{} MB", memory >> 20);
}

#[test]
fn a_picture_of_twenty_megabytes() {
    let sponde = Sponde::new();
    let (ended, memory) = sponde
        .start(&[
            "run",
            "-k",
            "misbehave",
            "-c",
            "png 20000000",
            "-o",
            "out.ipynb",
        ])
        .end_measured();
    assert!(memory < MEMORY, "{} MB", memory >> 20);
    assert_eq!(
        std::fs::metadata(sponde.path("out_files/plot-1.png"))
            .unwrap()
            .len(),
        20_000_000
    );
    let notebook: Value = serde_json::from_str(&sponde.read("out.ipynb")).unwrap();
    let png = notebook["cells"][0]["outputs"][0]["data"]["image/png"]
        .as_str()
        .unwrap();
    assert_eq!(png.trim_end().len(), 20_000_000_usize.div_ceil(3) * 4);
    assert_snapshot!(ended, @"
    exit: 0
    --- stderr
    plot: out_files/plot-1.png
    ");
}

#[test]
fn frames_that_announce_more_than_there_is() {
    let sponde = Sponde::new();
    for (exponent, bytes) in [
        ("40", "1099511627776"),
        ("63", "9223372036854775808"),
        ("64", "18446744073709551615"),
    ] {
        let code = format!("echo before\nforge-frame {exponent}\nhang-until-interrupt");
        let (ended, memory) = sponde
            .start(&["run", "-k", "misbehave", "-c", &code])
            .end_measured();
        assert!(memory < MEMORY, "{exponent}: {} MB", memory >> 20);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(4), "before\n"),
            "{ended}"
        );
        // Which socket comes first is chance.
        let expected =
            format!("socket it announced a frame of {bytes} bytes (limit 2147483648))\n");
        assert!(ended.stderr.ends_with(&expected), "{ended}");
    }
}

#[test]
fn messages_that_are_not_what_they_seem() {
    // What comes on the shell's socket must not overtake the start of the cell on iopub: then it is nobody's.
    let code = "sleep 200\nforeign-parent\nno-parent\nunknown-message-type\nstdin-forge\nwrong-signature\nwrong-signature shell\n\
        short-frames\nshort-frames shell\nbad-json\nbad-utf8\nbad-header\necho fine";
    let ended = Sponde::new().run(&["run", "-k", "misbehave", "-c", code]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "fine\n"));
    // They come from two sockets, in any order.
    let mut lines: Vec<&str> = ended.stderr.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_snapshot!(lines.join("\n"), @"
    [sponde: dropped a kernel message that is unreadable or has a bad signature: message is cut short: 0 of 5 frames after the delimiter]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: message is cut short: 2 of 5 frames after the delimiter]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: message signature does not match the connection file's key]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: no <IDS|MSG> delimiter in a message of 1 frames]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: no <IDS|MSG> delimiter in a message of 2 frames]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: the content frame is not JSON: EOF while parsing a value at line 1 column 27]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: the content frame is not JSON: invalid unicode code point at line 1 column 29]
    [sponde: dropped a kernel message that is unreadable or has a bad signature: the header frame is not JSON: it is not an object]
    ");
}

#[test]
fn a_reader_that_has_seen_enough() {
    let sponde = Sponde::new();
    let code = "i = 0\nwhile True:\n    print(i)\n    i += 1";
    let mut started = sponde.start(&["run", "-c", code]);
    assert_eq!(started.line(), "0\n");
    started.close_stdout();
    // As in `sponde run ... | head -1`: no complaint.
    assert_eq!(started.end_within(SOON).stderr, "");
}

#[test]
fn a_reader_of_events_that_has_seen_enough() {
    let sponde = Sponde::new();
    let mut started = sponde.start(&["run", "--json", "-c", "while True: print(1)"]);
    assert!(
        started
            .line()
            .starts_with("{\"sequence\":1,\"event\":\"code_started\"")
    );
    started.close_stdout();
    assert_eq!(started.end_within(SOON).stderr, "");
}

#[test]
fn an_output_in_a_directory_that_is_not_there() {
    assert_snapshot!(Sponde::new().run(&["run", "-c", "1", "-o", "no/such/out.ipynb"]), @"
    exit: 2
    --- stderr
    error: `no/such/out.ipynb` cannot be written: its directory is not there
    ");
}

#[test]
fn a_failed_run_keeps_what_it_has() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[
            ("", "echo first"),
            ("", "echo partial\nerror Oops it failed"),
            ("", "echo never"),
        ],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-o", "out.ipynb"]), @"
    exit: 1
    --- stdout
    first
    partial
    --- stderr
    Oops: it failed
    error: cell 2 failed: Oops: it failed
      In [2]: echo partial ..

    hint: the cells before it, and what it printed, are in `out.ipynb`
    ");
    assert_eq!(
        outputs(&sponde, "out.ipynb"),
        json!([
            [1, [{"output_type": "stream", "name": "stdout", "text": ["first\n"]}]],
            [2, [{"output_type": "stream", "name": "stdout", "text": ["partial\n"]},
                {"output_type": "error", "ename": "Oops", "evalue": "it failed", "traceback": ["Oops: it failed"]}]],
            [null, []],
        ])
    );
}

#[test]
fn a_dead_kernel_keeps_what_it_has() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[("", "echo first"), ("", "echo last words\ndie 3")],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-o", "out.ipynb"]), @"
    exit: 4
    --- stdout
    first
    last words
    --- stderr
    error: kernel `misbehave` died while it ran cell 2 (exit status 3)
      In [2]: echo last words ..

    hint: the cells before it, and what it printed, are in `out.ipynb`
    ");
    let outputs = outputs(&sponde, "out.ipynb");
    assert_eq!(outputs[0][1][0]["text"], json!(["first\n"]));
    assert_eq!(outputs[1][1][0]["text"], json!(["last words\n"]));
}

#[test]
fn errors_can_be_allowed() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[("", "error Oops it failed"), ("", "echo and on")],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--allow-errors"]), @"
    exit: 0
    --- stdout
    and on
    --- stderr
    Oops: it failed
    ");
}

#[test]
fn tags_say_which_cells_may_fail_and_which_are_left_out() {
    let sponde = Sponde::new();
    let cells = [
        ("raises-exception", "error Oops it failed"),
        ("skip-execution", "echo never"),
        ("", "echo and on"),
    ];
    sponde.write_notebook("in.ipynb", "misbehave", &cells);
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-o", "out.ipynb"]), @"
    exit: 0
    --- stdout
    and on
    --- stderr
    Oops: it failed
    ");
    assert_eq!(outputs(&sponde, "out.ipynb")[1], json!([null, []]));
}

#[test]
fn names_of_outputs_are_filled_in() {
    let sponde = Sponde::new();
    let cells = [
        ("parameters", "region = 'south'\nday = f()"),
        ("", "echo hi"),
    ];
    sponde.write_notebook("in.ipynb", "misbehave", &cells);
    let run = |output: &str| sponde.run(&["run", "in.ipynb", "--prepare-only", "-o", output]);
    assert_eq!(run("y-{region}.ipynb").code, Some(0));
    assert!(sponde.path("y-south.ipynb").exists());
    assert_snapshot!(run("y-{day}.ipynb"), @"
    exit: 2
    --- stderr
    error: `{day}` in -o cannot be filled in: its default is no plain value

    hint: give it with -p day=VALUE
    ");
    assert_snapshot!(run("y-{nosuch}.ipynb"), @"
    exit: 2
    --- stderr
    error: `{nosuch}` in -o cannot be filled in: there is no such parameter

    hint: give it with -p nosuch=VALUE
    ");
}

/// Number and outputs of each cell.
fn outputs(sponde: &Sponde, notebook: &str) -> Value {
    let notebook: Value = serde_json::from_str(&sponde.read(notebook)).unwrap();
    let cells = notebook["cells"].as_array().unwrap();
    cells
        .iter()
        .map(|cell| json!([cell["execution_count"], cell["outputs"]]))
        .collect()
}

#[test]
fn export() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[
            ("", "echo hi"),
            ("skip-execution", "echo never"),
            ("", "png 100\nresult 42"),
        ],
    );
    let ended = sponde.run(&["run", "in.ipynb", "-o", "out.ipynb"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_snapshot!(sponde.run(&["export", "out.ipynb"]), @"
    exit: 0
    --- stdout
    # %%
    echo hi

    # %% not run
    # echo never

    # %%
    png 100
    result 42
    ");
    assert_snapshot!(sponde.run(&["export", "out.ipynb", "--to", "md"]), @"
    exit: 0
    --- stdout
    ```misbehave
    echo hi
    ```

    ```text
    hi
    ```

    *Not run:*

    ```misbehave
    echo never
    ```

    ```misbehave
    png 100
    result 42
    ```

    *(plot)*

    ```text
    42
    ```
    ");
    assert_snapshot!(sponde.run(&["export", "out.ipynb", "--to", "md", "-o", "out.md"]), @"exit: 0");
    assert_snapshot!(sponde.read("out.md"), @"
    ```misbehave
    echo hi
    ```

    ```text
    hi
    ```

    *Not run:*

    ```misbehave
    echo never
    ```

    ```misbehave
    png 100
    result 42
    ```

    ![plot](<out_files/plot-1.png>)

    ```text
    42
    ```
    ");
    assert_eq!(
        std::fs::metadata(sponde.path("out_files/plot-1.png"))
            .map(|file| file.len())
            .ok(),
        Some(100)
    );
    // What sponde wrote is normal already.
    assert_eq!(
        sponde.run(&["export", "out.ipynb", "--to", "ipynb"]).stdout,
        sponde.read("out.ipynb")
    );
    assert_snapshot!(sponde.run(&["export", "nothing.ipynb"]), @"
    exit: 2
    --- stderr
    error: could not read `nothing.ipynb`: No such file or directory (os error 2)
    ");
}

#[test]
fn kernels() {
    let sponde = Sponde::new();
    sponde.add_kernelspec("broken", "{\"argv\": [");
    let ended = sponde.run(&["kernels"]);
    let shown = ended.to_string();
    // Anyone who runs the tests may have more kernels.
    let ours: Vec<&str> = shown
        .lines()
        .filter(|line| !line.contains("(system"))
        .collect();
    assert_snapshot!(ours.join("\n"), @"
    exit: 0
    --- stdout
    python3    [PYTHON]/share/jupyter/kernels/python3  (virtual environment; Python 3 (ipykernel))
    broken     [HOME]/data/jupyter/kernels/broken  cannot be used: not a kernelspec: EOF while parsing a list at line 1 column 10
    misbehave  [HOME]/data/jupyter/kernels/misbehave  (user; misbehave)
    ");

    let kernels: Value =
        serde_json::from_str(&sponde.run(&["kernels", "list", "--json"]).stdout).unwrap();
    let python = kernels
        .as_array()
        .unwrap()
        .iter()
        .find(|kernel| kernel["name"] == "python3")
        .unwrap();
    assert_eq!(
        (
            &python["origin"],
            &python["spec"]["language"],
            &python["error"]
        ),
        (
            &json!("virtual environment"),
            &json!("python"),
            &Value::Null
        )
    );
}

#[test]
fn models() {
    let sponde = Sponde::new()
        .with("ANTHROPIC_API_KEY", "sk-hunter2")
        .with("ANTHROPIC_BASE_URL", NOBODY);
    assert_snapshot!(sponde.run(&["models"]), @"
    exit: 0
    --- stdout
    model                        window  reply  sees  tools  $ in / out  where
    anthropic/claude-sonnet-5-5      1M   128k   yes    yes      2 / 10  http://127.0.0.1:1: no answer: Connection refused (os error 111)
    Tokens; list prices in US dollars for a million. From the server, else from models.dev as of October 2026; ? is not known.
    local/qwen2.5-coder-1.5b  (Qwen2.5-Coder 1.5B Instruct, Q4_K_M, 1117 MB, Apache-2.0; get it with `sponde models pull qwen2.5-coder-1.5b`)
    local/qwen2.5-coder-0.5b  (Qwen2.5-Coder 0.5B Instruct, Q4_K_M, 491 MB, Apache-2.0; get it with `sponde models pull qwen2.5-coder-0.5b`)
    local/smollm2-135m  (SmolLM2 135M Instruct, Q4_1 (for tests: too small to write code), 98 MB, Apache-2.0; get it with `sponde models pull smollm2-135m`)
    ");
    // What is coloured is coloured, and not written out.
    let sponde = sponde.with("CLICOLOR_FORCE", "1");
    let coloured = sponde.run(&["models"]).stdout;
    assert!(
        coloured.contains("\u{1b}[1manthropic/claude-sonnet-5-5\u{1b}[0m")
            && !coloured.contains("u{1b}"),
        "{coloured:?}"
    );
    let sponde = Sponde::new();
    assert_snapshot!(sponde.run(&["models", "pull", "gpt-7"]), @"
    exit: 2
    --- stderr
    error: there is no model `gpt-7` to pull

    hint: there are: qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, smollm2-135m
    ");
}

#[test]
fn a_question_without_a_model() {
    let sponde = Sponde::new();
    assert_snapshot!(sponde.run(&["ask", "why?"]), @"
    exit: 5
    --- stderr
    error: there is no model to ask

    hint: set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama or another local server, or get a small model for this machine with `sponde models pull`
    ");
    assert_snapshot!(sponde.run(&["ask", "why?", "--model", "anthropic/claude-sonnet-5"]), @"
    exit: 5
    --- stderr
    error: no key for anthropic: `ANTHROPIC_API_KEY` is not set

    hint: set `ANTHROPIC_API_KEY` to your key, or choose another model
    ");
    assert_snapshot!(sponde.run(&["ask", "why?", "--model", "something"]), @"
    exit: 2
    --- stderr
    error: model `something` names no provider

    hint: write provider/name, for example openai/gpt-5.2, ollama/qwen3 or local/qwen2.5-coder-1.5b, or set OPENAI_BASE_URL for a server of your own
    ");
    assert_snapshot!(sponde.run(&["ask", "why?", "--model", "local/qwen2.5-coder-1.5b"]), @"
    exit: 5
    --- stderr
    error: model `local/qwen2.5-coder-1.5b` is not on this machine

    hint: get it with `sponde models pull qwen2.5-coder-1.5b`
    ");
}

#[test]
fn a_provider_that_is_misspelt() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("OPENAI_API_KEY", "sk-hunter2");
    assert_snapshot!(sponde.run(&["ask", "why?", "--model", "antropic/claude"]), @"
    exit: 2
    --- stderr
    error: model `antropic/claude` names no provider: there is no `antropic`

    hint: there is `anthropic`; if the server in OPENAI_BASE_URL is meant, write openai-compatible/antropic/claude
    ");
}

#[test]
fn a_question_that_has_nothing_to_go_on_with() {
    let sponde = Sponde::new();
    assert_snapshot!(sponde.run(&["ask", "why?", "--replay"]), @"
    exit: 2
    --- stderr
    error: --replay needs the notebook whose code is to run

    hint: name it with --notebook
    ");
    assert_snapshot!(sponde.run(&["ask", "why?", "--replay", "--notebook", "new.ipynb"]), @"
    exit: 2
    --- stderr
    error: there is nothing to run again: `new.ipynb` is not there
    ");
    assert_snapshot!(sponde.run(&["ask", "why?", "--notebook", "out.txt"]), @"
    exit: 2
    --- stderr
    error: `out.txt` is not the name of a notebook

    hint: notebooks end in .ipynb; `sponde export` makes other files of one
    ");
}

#[test]
fn a_question_without_words() {
    assert_snapshot!(Sponde::new().run_with_stdin(&["ask", "-"], "\n"), @"
    exit: 2
    --- stderr
    error: the question is empty
    ");
}

#[test]
fn a_question_about_a_file_that_is_not_there() {
    let sponde = Sponde::new();
    assert_snapshot!(sponde.run(&["ask", "why?", "-f", "sales.csv"]), @"
    exit: 2
    --- stderr
    error: could not read `sales.csv`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_notebook_of_the_persons_is_never_overwritten() {
    let sponde = Sponde::new();
    sponde.write("mine.ipynb", "mine");
    assert_snapshot!(sponde.run(&["ask", "why?", "--notebook", "mine.ipynb"]), @"
    exit: 2
    --- stderr
    error: could not read the notebook `mine.ipynb`: not JSON: expected value, at line 1, column 1: `mine`

    hint: a notebook is a JSON file of nbformat 2 to 4; `sponde run` takes scripts too, by any other ending
    ");
    assert_eq!(sponde.read("mine.ipynb"), "mine");
}

#[test]
fn a_question_without_a_network() {
    let sponde = Sponde::new()
        .with("OPENAI_API_KEY", "sk-hunter2")
        .with("OPENAI_BASE_URL", NOBODY);
    let ended = sponde.run(&[
        "ask",
        "why?",
        "--model",
        "some-model",
        "-k",
        "misbehave",
        "--notebook",
        "out.ipynb",
    ]);
    let (before, error) = ended.error();
    assert_eq!(ended.stdout, "");
    // When the kernel starts, and that it was asked again, comes before in any order.
    assert!(!before.contains("error:"), "said twice: {ended}");
    assert_snapshot!(error, @"
    exit: 5
    error: could not reach `http://127.0.0.1:1/v1`: Connection refused (os error 111)

    hint: `sponde models` shows what can be reached; -v says more
    ");
}

#[test]
fn a_configuration_with_a_mistake() {
    let sponde = Sponde::new();
    sponde.configure("kernel = \"misbehave\"\nmodle = \"openai/gpt-5\"\n");
    assert_snapshot!(sponde.run(&["run", "-c", "echo hi"]), @r#"
    exit: 2
    --- stderr
    error: `[HOME]/config/sponde/config.toml` is not a configuration of sponde
    TOML parse error at line 2, column 1
      |
    2 | modle = "openai/gpt-5"
      | ^^^^^
    unknown field `modle`, expected one of `profile`, `description`, `prompt`, `model`, `code-mode`, `temperature`, `seed`, `stdin`, `install`, `kernel`, `gateway`, `approval`, `sandbox`, `network`, `add-dirs`, `max-steps`, `follow-ups`, `budget`, `cell-timeout`, `sql-timeout`, `limits`, `kernel-limits`, `providers`, `undo`, `databases`, `mcp`, `terminal`
    "#);
}

#[test]
fn a_configured_kernel() {
    let sponde = Sponde::new();
    sponde.configure("kernel = \"misbehave\"\n");
    assert_snapshot!(sponde.run(&["run", "-c", "echo hi"]), @"
    exit: 0
    --- stdout
    hi
    ");
}

#[test]
fn a_full_disk_behind_stdout_fails() {
    let sponde = Sponde::new();
    for arguments in [
        &["run", "-k", "misbehave", "-c", "echo a"][..],
        &["run", "-k", "misbehave", "-c", "echo a", "--json"],
        &["kernels"],
        &["--help"],
    ] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = sponde.command(arguments).stdout(full).output().unwrap();
        assert_eq!(
            (
                output.status.code(),
                String::from_utf8(output.stderr).unwrap().as_str()
            ),
            (
                Some(1),
                "error: could not write to stdout: No space left on device (os error 28)\n"
            ),
            "{arguments:?}"
        );
    }
}
