//! The settings with which known clients start `sponde mcp`.

use serde_json::{Value, json};

/// A client and its settings.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientLines {
    /// Its name on our command line.
    pub name: &'static str,
    /// Where the settings belong, as text.
    pub place: &'static str,
    /// The settings.
    pub lines: String,
}

/// The settings of all known clients for starting `program` with `arguments`.
pub fn known(program: &str, arguments: &[String]) -> Vec<ClientLines> {
    let plain = json!({ "command": program, "args": arguments });
    let servers = |key: &str, server: Value| pretty(&json!({ key: { "sponde": server } }));
    let typed = json!({ "type": "stdio", "command": program, "args": arguments });
    let whole: Vec<&str> = std::iter::once(program)
        .chain(arguments.iter().map(String::as_str))
        .collect();
    let quoted: Vec<String> = whole.iter().map(|word| shell(word)).collect();
    let line = quoted.join(" ");
    let client = |name, place, lines| ClientLines { name, place, lines };
    vec![
        client(
            "claude-code",
            "in a shell",
            format!("claude mcp add sponde -- {line}"),
        ),
        client(
            "claude-desktop",
            "in claude_desktop_config.json (Settings, Developer, Edit Config)",
            servers("mcpServers", plain.clone()),
        ),
        client(
            "codex",
            "in ~/.codex/config.toml",
            format!(
                "[mcp_servers.sponde]\ncommand = {}\nargs = {}",
                json!(program),
                json!(arguments)
            ),
        ),
        client(
            "cursor",
            "in ~/.cursor/mcp.json, or .cursor/mcp.json of a project",
            servers("mcpServers", plain.clone()),
        ),
        client(
            "gemini",
            "in ~/.gemini/settings.json",
            servers("mcpServers", plain.clone()),
        ),
        client(
            "opencode",
            "in opencode.json",
            pretty(&json!({ "mcp": { "sponde": { "type": "local", "command": whole } } })),
        ),
        client("vscode", "in .vscode/mcp.json", servers("servers", typed)),
        client(
            "windsurf",
            "in ~/.codeium/windsurf/mcp_config.json",
            servers("mcpServers", plain.clone()),
        ),
        client("zed", "in settings.json", servers("context_servers", plain)),
    ]
}

fn pretty(value: &Value) -> String {
    // Plain data: serialization cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A word quoted for a shell.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_lines() {
        let arguments = ["mcp", "--root", "/home/ada/it's here"].map(str::to_owned);
        let known = known("/usr/bin/sponde", &arguments);
        let of = |name: &str| &known.iter().find(|it| it.name == name).unwrap().lines;
        assert_eq!(
            of("claude-code"),
            r"claude mcp add sponde -- /usr/bin/sponde mcp --root '/home/ada/it'\''s here'"
        );
        assert_eq!(
            of("codex"),
            "[mcp_servers.sponde]\ncommand = \"/usr/bin/sponde\"\nargs = [\"mcp\",\"--root\",\"/home/ada/it's here\"]"
        );
        let desktop: Value = serde_json::from_str(of("claude-desktop")).unwrap();
        assert_eq!(
            desktop,
            json!({"mcpServers": {"sponde": {"command": "/usr/bin/sponde", "args": arguments}}})
        );
    }
}
