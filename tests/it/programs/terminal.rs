//! Open WebUI's terminal server with Open WebUI's own modules that read its document and call its tools, on real kernels in the
//! sandbox.

use std::process::Command;

use serde_json::Value;

use super::{fixture, python_of, seen};
use crate::support::{Sponde, tools};

#[test]
fn the_client_of_open_webui() {
    let modules = tools().join("open-webui");
    assert!(
        modules.join("tools.py").exists(),
        "`{}` is not there: run scripts/test once, it installs what the tests need",
        modules.join("tools.py").display()
    );
    let sponde = Sponde::new();
    let mut server = sponde.start(&["serve"]);
    let url = server.line();
    let (base, token) = url.trim().split_once("/#token=").expect("a URL");
    let mut client = Command::new(python_of("jupyter-clients"));
    client
        .arg(fixture("open_webui_terminal.py"))
        .arg(modules)
        .args([&format!("{base}/terminal"), token])
        .env("NO_PROXY", "*");
    let seen = seen(&mut client);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    let expected: Value = serde_json::from_str(EXPECTED).unwrap();
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(seen.get(key), Some(value), "{key}");
    }
    assert_eq!(seen, expected);
    sponde.assert_no_process_is_left();
}

/// What is refused: `..`, other places, links, and what code may not write either.
const EXPECTED: &str = r#"{
    "tools": {"run_code": ["code", "language", "timeout_s"], "list_variables": ["language"], "read_variable": ["descending", "filter", "limit", "name", "offset", "sort"], "list_files": ["directory"], "read_file": ["end_line", "path", "start_line"], "write_file": ["content", "path"], "display_file": ["inline", "page", "path"]},
    "required": {"run_code": ["code"], "list_variables": [], "read_variable": ["name"], "list_files": [], "read_file": ["path"], "write_file": ["path", "content"], "display_file": ["path"]},
    "described": true,
    "prompt": true,
    "verified": [404, 200, 200, 200],
    "features": {"terminal": false, "notebooks": true, "system": true},
    "no_key": [401, 401, 401],
    "first": ["ok", "set", [], 1],
    "second": "23",
    "no_variables": true,
    "other_chat": ["error", {"name": "NameError", "value": "name 'x' is not defined"}, true],
    "other_user": "NameError",
    "variables": ["int", ["pandas.DataFrame", "4 x 2"]],
    "rows": [[["a", 4], ["c", 3]], 4],
    "value": "20",
    "no_variable": true,
    "plot": ["ok", "image/png", true],
    "plot_told": true,
    "plot_shown": [true, true],
    "plot_read": ["data:image/png;base64", "PNG", true],
    "plot_viewed": [200, "image/png"],
    "written": [true, 14],
    "part": ["two\n", 3, true],
    "whole": "one\ntwo\nthree\n",
    "by_code": "['one', 'two', 'three']",
    "listed": [["a.txt", "file", 14, true]],
    "top": [true, [["notes", "directory"], ["plots", "directory"]]],
    "binary": true,
    "none": [false, true],
    "cwd": true,
    "hostile_read_file": ["HTTP error 403", "HTTP error 403", "HTTP error 403", "HTTP error 400", "HTTP error 403", "HTTP error 403", "HTTP error 404", "HTTP error 403"],
    "hostile_write_file": ["HTTP error 403", "HTTP error 403", "HTTP error 403", "HTTP error 400", "HTTP error 403", "HTTP error 403", "HTTP error 403", "HTTP error 403"],
    "hostile_display_file": ["HTTP error 403", "HTTP error 403", "HTTP error 403", false, "HTTP error 403", "HTTP error 403", false, "HTTP error 403"],
    "hostile_list": [true, true, true],
    "notebook": {
        "opened": ["python3", "ready"],
        "ran": [["ok", 1, []], ["ok", 2, ["execute_result"]], ["error", 3, ["error"]], ["ok", null, []]],
        "value": "42", "changed": "7", "status": "ready",
        "refused": [400, 404, 404, 403, 400, 401],
        "closed": [{"status": "stopped"}, 404],
        "file": [["x = 6", 1], ["x + 1", 4], ["1 / 0", 3], ["The end", null]]
    },
    "failed": ["error", {"name": "ZeroDivisionError", "value": "division by zero"}],
    "asks": true,
    "late": ["timed out", "20"],
    "shell": "42",
    "language": ["not run", true],
    "wrong_key": "Terminal server 'sponde' is unavailable",
    "wrong_key_calls": "HTTP error 401",
    "forwarded": ["ok", null],
    "bare": ["error", "NameError"]
}"#;
