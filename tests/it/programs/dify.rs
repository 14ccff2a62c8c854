//! Dify's sandbox with the requests that Dify sends, on real kernels in the sandbox.

use std::process::Command;

use serde_json::json;

use super::{fixture, python, seen};
use crate::support::{Sponde, tools};

#[test]
fn the_requests_of_dify() {
    let kernels = tools().join("kernels/python/share/jupyter");
    let sponde = Sponde::new().with("JUPYTER_PATH", &kernels.display().to_string());
    let mut server = sponde.start(&["serve"]);
    let url = server.line();
    let (base, token) = url.trim().split_once("/#token=").expect("a URL");
    let mut client = Command::new(python());
    client
        .arg(fixture("dify_client.py"))
        .args([&format!("{base}/dify"), token])
        .env("NO_PROXY", "*");
    let seen = seen(&mut client);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    let success = |stdout: &str| {
        json!({
            "code": 0,
            "message": "success",
            "data": {"stdout": stdout, "error": "", "exit_code": 0},
        })
    };
    let expected = json!({
        "python": {"result": "néné"},
        "javascript": {"result": 3},
        "preload": success("5\n"),
        // Dify takes any text in `error` for a failure.
        "warns": success("out\n"),
        "failed": [0, true, 1],
        "exit": {"stdout": "", "error": "the code ended with exit code 4", "exit_code": 4},
        "language": "this server has no kernel for `cobol`",
        "stateless": true,
        "network": 1,
        "wrong_key": 401,
        "dependencies": {"code": 0, "message": "success", "data": {"dependencies": []}},
        "health": 200,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(seen.get(key), Some(value), "{key}");
    }
    assert_eq!(seen, expected);
    sponde.assert_no_process_is_left();
}
