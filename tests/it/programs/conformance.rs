//! The official conformance suite of MCP, unmodified, on our server and on our client. It needs a newer Node than some systems have:
//! Deno, which is there for its kernel, runs it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::fixture;
use crate::support::{NOBODY, Sponde, tools};

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdac\xfc\xcf\xc0P\x0f\0\x04\x85\x01\x80\x84\xa9\x8c!\0\0\0\0IEND\xaeB`\x82";

/// Scenarios that pass on our server: all of the pinned suite but those that `mcp_conformance.yml` lists. A suite that could not
/// be reached, or that skips some, passes fewer.
const PASSING: usize = 17;

/// Runs the suite in the home of `sponde`.
fn suite(sponde: &Sponde, arguments: &[&str]) -> Output {
    let dir = tools().join("node_modules/@modelcontextprotocol/conformance");
    let deno: PathBuf = tools().join("kernels/python/bin/deno");
    let home = sponde.command(&[]);
    let variables = home.get_envs().filter_map(|(name, it)| Some((name, it?)));
    Command::new(deno)
        .args(["run", "--quiet", "-A"])
        .arg(dir.join("dist/index.js"))
        .args(arguments)
        .env_clear()
        .envs(variables)
        .env("SPONDE", home.get_program())
        .current_dir(sponde.path(""))
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The scenarios that need more than we offer stand in a list, each for its reason; the suite fails if one of these passes.
#[test]
fn the_suite_passes_on_our_server() {
    let sponde = Sponde::new();
    sponde.write("static.txt", "This is the content of the static text.");
    sponde.write("static.png", PICTURE);
    sponde.write("123.json", r#"{"id": "123"}"#);
    let mut server = sponde.start(&["serve"]);
    let url = server.line();
    let (base, token) = url.trim().split_once("/#token=").expect("a URL");
    let mut proxy = Command::new("node")
        .arg(fixture("mcp_conformance.mjs"))
        .args([base, token])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let stdout = proxy.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut url).unwrap();
    let url = format!("{}/mcp", url.trim());
    let expected = fixture("mcp_conformance.yml").display().to_string();
    let output = suite(
        &sponde,
        &[
            "server",
            "--url",
            &url,
            "--suite",
            "all",
            "--expected-failures",
            &expected,
        ],
    );
    // It ends with its stdin.
    drop(proxy.stdin.take());
    proxy.wait().unwrap();
    let shown = text(&output);
    assert!(output.status.success(), "{shown}");
    assert_eq!(shown.matches("\n✓ ").count(), PASSING, "{shown}");
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    sponde.assert_no_process_is_left();
}

/// Those for clients without OAuth: the handshake, calls, and a stream that goes on after its end.
#[test]
fn the_suite_passes_on_our_client() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", &format!("{NOBODY}/v1"));
    sponde.configure("");
    let command = format!("sh {}", fixture("mcp_conformance_client.sh").display());
    for scenario in ["initialize", "tools_call", "sse-retry"] {
        let arguments = ["client", "--command", &command, "--scenario", scenario];
        let output = suite(&sponde, &arguments);
        assert!(output.status.success(), "{scenario}: {}", text(&output));
    }
}
