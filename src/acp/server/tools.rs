//! The MCP servers that an editor brings along: those that are programs become functions of the kernel.

use serde_json::{Map, Value};

use crate::config::tools::{ToolServer, ToolServerName, ToolServers, Variable};

/// Servers of one session.
const MOST: usize = 50;

/// The servers in the parameters of `session/new` and its like, and what a person should know of those that are left out.
pub(super) fn servers(params: &Map<String, Value>) -> (ToolServers, Vec<String>) {
    let (mut servers, mut notes) = (ToolServers::new(), Vec::new());
    let given = params.get("mcpServers").and_then(Value::as_array);
    for server in given.into_iter().flatten().take(MOST) {
        let text = |name: &str| server.get(name).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        match (ToolServerName::like(name), text("command")) {
            (Some(name), Some(command)) => {
                servers.insert(name, program(command, server));
            }
            (_, None) => notes.push(format!(
                "The MCP server `{name}` of the editor is left out: only programs are supported, no addresses."
            )),
            (None, Some(_)) => notes.push(format!(
                "The MCP server `{name}` of the editor is left out: its name has no letters."
            )),
        }
    }
    (servers, notes)
}

fn program(command: &str, server: &Value) -> ToolServer {
    let list = |name: &str| {
        server
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let variable = |it: &Value| {
        let text = |name: &str| it.get(name)?.as_str().map(str::to_owned);
        Some((text("name")?, Variable::Plain(text("value")?)))
    };
    ToolServer {
        command: command.to_owned(),
        args: list("args")
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        env: list("env").filter_map(variable).collect(),
        seconds: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_become_servers_by_names_of_python() {
        let params = json!({"mcpServers": [
            {"name": "Git Hub-2", "command": "/bin/x", "args": ["a"], "env": [{"name": "K", "value": "v"}]},
            {"name": "far", "type": "http", "url": "https://example.org", "headers": []},
            {"name": "7", "command": "/bin/x"},
        ]});
        let (servers, notes) = servers(params.as_object().unwrap());
        let named: Vec<(&str, &ToolServer)> = servers
            .iter()
            .map(|(name, it)| (name.as_str(), it))
            .collect();
        let expected = ToolServer {
            command: "/bin/x".to_owned(),
            args: vec!["a".to_owned()],
            env: [("K".to_owned(), Variable::Plain("v".to_owned()))].into(),
            seconds: None,
        };
        assert_eq!(named, [("git_hub_2", &expected)]);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}
