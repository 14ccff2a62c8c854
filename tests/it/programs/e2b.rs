//! E2B's API: the unmodified Python and JavaScript SDKs on real kernels in the sandbox.

use std::process::Command;

use serde_json::{Value, json};

use super::{fixture, python, seen};
use crate::support::{Sponde, Started, tools};

/// A server, and where its API is.
pub(super) struct Server<'a> {
    program: Started<'a>,
    pub(super) url: String,
    pub(super) token: String,
}

impl<'a> Server<'a> {
    pub(super) fn start(sponde: &'a Sponde, arguments: &[&str]) -> Self {
        let mut all = vec!["serve"];
        all.extend(arguments);
        let mut program = sponde.start(&all);
        let url = program.line();
        let (base, token) = url.trim().split_once("/#token=").expect("a URL");
        Self {
            url: format!("{base}/e2b"),
            token: token.to_owned(),
            program,
        }
    }

    pub(super) fn end(self, sponde: &Sponde) {
        self.program.signal(rustix::process::Signal::TERM);
        assert_eq!(self.program.end().code, Some(0));
        sponde.assert_no_process_is_left();
        let left = std::fs::read_dir(sponde.path("../data/sponde/sandboxes"));
        assert_eq!(
            left.map_or(0, Iterator::count),
            0,
            "directories of sandboxes"
        );
    }
}

/// With kernels of other languages, as `sponde kernels install` made them.
fn with_languages() -> Sponde {
    let sponde = Sponde::new();
    let prefix = tools().join("kernels/python");
    for name in ["bash", "deno", "r"] {
        let dir = prefix.join("share/jupyter/kernels").join(name);
        let text = std::fs::read_to_string(dir.join("kernel.json")).unwrap();
        sponde.add_kernelspec(name, &text.replace("{prefix}", prefix.to_str().unwrap()));
    }
    sponde
}

/// What the Python SDK sees with a key and without.
fn expected() -> Value {
    json!({
        "code": {
            "state": "42",
            "count": true,
            "streamed": ["h\u{e9}llo \u{2028} \u{1f600}\n", "two\n", "three"],
            "logs": [["h\u{e9}llo \u{2028} \u{1f600}\n"], ["two\n"]],
            "error": ["ZeroDivisionError", "division by zero", "ZeroDivisionError: division by zero", false],
            "plot": [true, "bar", "mm (h)", "h"],
            "bars": [["a", "rain", 1], ["b", "rain", 2]],
            "frame": [{"a": [1.0, null], "b": ["x", "y"]}, true],
            "json": [1, {"a": null}],
            "input": "StdinNotImplementedError",
            "own_type": {"application/vnd.x+json": {"k": 1}},
        },
        "contexts": {
            "defaults": ["python", "javascript"],
            "apart": "NameError",
            "last": true,
            "restarted": "NameError",
            "died": ["ContextRestarting", "Context was restarted", ""],
            "after": ["2", "NameError"],
            "removed": "NotFoundException",
            "no_language": "SandboxException",
            "no_directory": "SandboxException",
            "wrong_name": "SandboxException",
        },
        "commands": {
            "run": ["out\n/home/user\n", "err\n", 0],
            "envs": "set 1\n",
            "exit": 3,
            "late": "TimeoutException",
            "listed": true,
            "cat": "one\n",
            "killed": [true, false],
            "after_kill": -1,
            "no_cwd": "InvalidArgumentException",
            "shared": ["3", "xxx"],
        },
        "files": {
            "read": ["one", "one"],
            "by_code": "one",
            "packed": "packed",
            "info": ["a.txt", "/home/user/dir/a.txt", "file", 3, "-rw-r--r--", "user"],
            "list": [["a.txt", "file"]],
            "make_dir": [true, false],
            "exists": [true, false],
            "renamed": "/home/user/new/b.txt",
            "removed": false,
            "missing": "FileNotFoundException",
            "outside": ["SandboxException", "SandboxException", "SandboxException", "SandboxException", "SandboxException",
                "FileNotFoundException"],
            "written_outside": ["SandboxException", "SandboxException"],
            "links": ["SandboxException", "SandboxException", "SandboxException", "InvalidArgumentException",
                "SandboxException", "SandboxException"],
            "link_replaced": "ours",
        },
        "terminals": terminals(),
        // Where code is, its home, the server's port, its variables, its files.
        "confined": ["/home/user", "/home/user", false, false, false],
        "interrupted": {"late": "TimeoutException", "after": "2"},
    })
}

fn terminals() -> Value {
    json!({
        "shown": [true, true],
        "resized": true,
        "interrupted": true,
        "exit": ["CommandExitException", "Command exited with code 3 and error:\n"],
        "listed": true,
        "killed": [true, "CommandExitException", false],
        "left": 0,
        "no_terminal": "InvalidArgumentException",
    })
}

/// Without namespaces a shell's jobs are in groups of their own, which nothing but their session holds together.
#[test]
fn terminals_without_namespaces_leave_nothing_behind() {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &["--sandbox", "full"]);
    let target = json!({ "url": server.url, "token": server.token, "terminals": true });
    let mut client = Command::new(python());
    client.arg(fixture("e2b_client.py")).arg(target.to_string());
    assert_eq!(seen(&mut client), terminals());
    server.end(&sponde);
}

#[test]
fn the_python_sdk_with_a_key() {
    let sponde = with_languages();
    let server = Server::start(&sponde, &[]);
    let home = sponde.path("..").canonicalize().unwrap();
    let target =
        json!({ "url": server.url, "token": server.token, "home": home, "languages": true });
    let mut client = Command::new(python());
    client.arg(fixture("e2b_client.py")).arg(target.to_string());
    let mut expected = expected();
    expected["variables"] = json!({
        "once": true,
        "before": ["set", null],
        "home": true,
        "magic": "m",
        "others": {"r": true, "js": true},
        "bash": [true, "none set\n"],
        "ts": [true, "none", "set"],
    });
    expected["watched"] = json!(true);
    expected["at_once"] = json!([["1", "2"], ["two\n"], "42\n", "one", true]);
    expected["copies"] = json!({
        "first": ["one", {"by": "me"}, "one"],
        "named": [["mine:default", ["mine:default"]]],
        "forks": ["two", "three", "two"],
        "like": [{"who": "a b&c"}, "set"],
        "with_my_token": [401, 401, 401],
        "deleted": [true, false],
        "gone": ["SandboxException", "404: snapshot \"mine:default\" doesn't exist"],
        "no_path": "SandboxException",
        "still": "one",
        "killed": "SandboxNotFoundException",
    });
    expected["lives"] = json!({
        "info": [true, {"who": "a b&c"}, "running"],
        "listed": [true],
        "metrics": true,
        "connected": "2",
        "signed": "xxx",
        "expired": ["HTTPError", "HTTP Error 401: Unauthorized"],
        "forged": ["HTTPError", "HTTP Error 401: Unauthorized"],
        "counting": true,
        "paused": [false, "TimeoutException", "paused"],
        "stands_still": true,
        "goes_on": true,
        "cpu": true,
        "timeout": [true, "paused", "6"],
        "resumed": "5",
        "others_files": [false, "False"],
        "with_my_token": 401,
        "guessed": 502,
        "bare": [401, 401, 401, 401, 401],
        "killed": ["TimeoutException", true],
        "gone": [false, false, "TimeoutException"],
        "over": false,
        "killed_command": ["SandboxNotRunningException", true],
        "volume": "SandboxException",
    });
    let seen = seen(&mut client);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
    assert_eq!(seen, expected);
    server.end(&sponde);
}

#[test]
fn the_python_sdk_in_debug_mode() {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &["--e2b-debug"]);
    let home = sponde.path("..").canonicalize().unwrap();
    let target = json!({ "url": server.url, "debug": true, "home": home });
    let mut client = Command::new(python());
    client.arg(fixture("e2b_client.py")).arg(target.to_string());
    let mut expected = expected();
    // Nobody makes that sandbox, so it has no variables.
    expected["commands"]["envs"] = json!("1\n");
    let seen = seen(&mut client);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
    server.end(&sponde);
}

/// Figures of each library as each type of chart that E2B's schema has.
#[test]
fn figures_become_charts() {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &[]);
    let mut client = Command::new(python());
    client
        .arg(fixture("e2b_charts.py"))
        .arg(fixture("charts.toml"))
        .env("E2B_API_KEY", &server.token)
        .env("E2B_API_URL", &server.url)
        .env("E2B_SANDBOX_URL", &server.url);
    assert_eq!(seen(&mut client), json!({ "cases": 24, "differ": {} }));
    server.end(&sponde);
}

/// More than there are spare ones, all alive at once; the benchmark does it with 200.
#[test]
fn many_sandboxes_live_at_once() {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &["--max-sessions", "30"]);
    let target = json!({ "url": server.url, "token": server.token, "many": 20 });
    let mut client = Command::new(python());
    client.arg(fixture("e2b_client.py")).arg(target.to_string());
    let expected = json!({ "first": true, "again": true, "killed": true });
    assert_eq!(seen(&mut client), expected);
    server.end(&sponde);
}

#[test]
fn debug_mode_is_for_this_machine() {
    let sponde = Sponde::new();
    let ended = sponde.run(&["serve", "--e2b-debug", "--listen", "0.0.0.0:0"]);
    let (_, error) = ended.error();
    assert!(error.contains("lets programs in without a key"), "{error}");
    assert!(error.contains("hint: listen at 127.0.0.1"), "{error}");
}

#[test]
fn the_javascript_sdk() {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &[]);
    let target = json!({ "url": server.url, "token": server.token });
    let mut client = Command::new("node");
    client
        .arg(fixture("e2b_client.mjs"))
        .arg(tools().join("node_modules"))
        .arg(target.to_string());
    assert_eq!(
        seen(&mut client),
        json!({
            "text": "42",
            "streamed": true,
            "error": "ZeroDivisionError",
            "plot": [true, "line", [[1, 3], [2, 4]], {}],
            "own": {"application/vnd.x+json": {"k": 1}},
            "nan": {"a": [1, null]},
            "apart": "NameError",
            "files": ["one", ["a.txt"], "SandboxError"],
            "command": "one set\n",
            "failed": "CommandExitError",
            "cat": "two",
            "late": "TimeoutError",
            "after": "2",
            "listed": [true],
            "killed": [true, false],
        })
    );
    server.end(&sponde);
}
