//! LibreChat's Code API with LibreChat's own client, on real kernels in the sandbox.

use std::process::Command;

use serde_json::json;

use super::{fixture, seen};
use crate::support::{Sponde, tools};

#[test]
fn the_client_of_librechat() {
    let modules = tools().join("librechat/node_modules");
    assert!(
        modules.exists(),
        "`{}` is not there: run scripts/test once, it installs what the tests need",
        modules.display()
    );
    let sponde = Sponde::new();
    let mut server = sponde.start(&["serve"]);
    let url = server.line();
    let (base, token) = url.trim().split_once("/#token=").expect("a URL");
    let mut client = Command::new("node");
    client
        .arg(fixture("librechat_client.mjs"))
        .arg(modules)
        .args([base, token])
        .env("NO_PROXY", "*");
    let seen = seen(&mut client);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    let nothing = "stdout: Empty. Ensure you're writing output explicitly.";
    let generated = "Generated files:\nSession files: 1 persisted file(s) are available in /mnt/data, including 1 image(s). Use known \
        /mnt/data paths directly in later code-tool calls. The app displays files/images automatically; do not invent \
        download links or wrap generated images in Markdown.";
    let expected = json!({
        "plot": ["success", format!("stdout:\nsaved\n\n{generated}"), [["chart.png", false]], true, 200, "PNG"],
        "shown": [[["plot-1.png", false]], "PNG"],
        "files": ["success", "data/numbers.csv", "['n', '1', '2'] ['chart.png', 'data'] True",
            [["data/numbers.csv", false], ["made.txt", false]], ["chart.png"]],
        "bash": "stdout:\nmaden\n1\n2\n3data\nmade.txt\n\nstderr:\nPython",
        "stateless": format!("{nothing}true"),
        "failed": true,
        "exit": ["stdout:\nbye", "stdout:\nout\n\nstderr:\nerr"],
        "args": "stdout:\n['a b', '\"']",
        "input": true,
        "language": format!("{nothing}\nstderr:\nthis server has no kernel for `rs`"),
        "read": "stdout:\n[]\nend",
        "stateful": ["new", "reused", "kept", [["kept.txt", true]]],
        "elsewhere": nothing,
        "batch": [200, "partial_success", 2, ["success", "error", "error", "success"]],
        "no_file": 400,
        "listed": [["a.txt", 1, true], ["b/c.txt", 1, true]],
        "object": ["a.txt", 1, true],
        "removed": ["File deleted successfully", 404],
        "hostile": [401, 404, 404, 404, 401, 401, 401],
        "wrong_key": ["error", true],
        "gone": format!("{nothing}\nstderr:\n`a.txt` is no longer there: it has to be uploaded again"),
        "confined": "stdout:\ndata\nhidden",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(seen.get(key), Some(value), "{key}");
    }
    assert_eq!(seen, expected);
    sponde.assert_no_process_is_left();
}
