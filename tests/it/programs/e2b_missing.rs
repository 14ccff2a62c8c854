//! What E2B has and Sponde does not: the unmodified Python SDK gets an error that says what to do instead.

use std::process::Command;

use serde_json::json;

use super::e2b::Server;
use super::{fixture, python, seen};
use crate::support::Sponde;

#[test]
fn ports_templates_and_volumes_are_clear_errors() {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &[]);
    let target = json!({ "url": server.url, "token": server.token });
    let mut client = Command::new(python());
    client
        .arg(fixture("e2b_missing.py"))
        .arg(target.to_string());
    let volume = "501: Sponde has no volumes: a sandbox sees only its own files. Write the files into each sandbox, or create \
                  sandboxes from a snapshot that has them (docs/e2b.md)";
    let expected = json!({
        "host": true,
        "port": [501, { "code": 501, "message": "port 3000 of a sandbox cannot be reached from outside the sandbox: Sponde does \
            not forward ports. Send the request to http://localhost:3000 in the same kernel or command that listens there \
            (docs/e2b.md)" }],
        "port_with_key": true,
        "guessed": true,
        "daemon": [501, { "code": 501, "message": "Sponde does not answer under names of sandboxes: set E2B_SANDBOX_URL to the \
            URL of this server with the path /e2b (docs/e2b.md)" }],
        "foreign": 403,
        "same_kernel": "200",
        "same_command": "up\n",
        "template": [
            ["BuildException", "501: Sponde has no virtual machines, so it cannot build or list templates. Install packages \
                where the server runs, or prepare a sandbox and keep its files with `create_snapshot` (docs/e2b.md)"],
            "TemplateException",
        ],
        "volume": [
            ["VolumeException", volume],
            "VolumeException",
            "VolumeException",
            ["SandboxException", volume],
        ],
        "mcp": ["SandboxException", "501: Sponde does not run E2B's MCP gateway. Create the sandbox without `mcp` (docs/e2b.md)"],
    });
    let seen = seen(&mut client);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
    assert_eq!(seen, expected);
    server.end(&sponde);
}
