//! The MCP servers that an editor provides: their tools become functions of the kernel.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::config::tools::{Reached, ToolServer, ToolServerName, ToolServers, Variable};

/// Maximum servers of a session.
const MOST: usize = 50;

/// The servers in the parameters of `session/new` and similar methods, and notes for the person about skipped ones.
pub(super) fn servers(params: &Map<String, Value>) -> (ToolServers, Vec<String>) {
    let (mut servers, mut notes) = (ToolServers::new(), Vec::new());
    let given = params.get("mcpServers").and_then(Value::as_array);
    for server in given.into_iter().flatten().take(MOST) {
        match read(server) {
            Ok((name, server)) => {
                servers.insert(name, server);
            }
            Err(why) => {
                let name = text(server, "name").unwrap_or_default();
                notes.push(format!(
                    "The MCP server `{name}` of the editor is left out: {why}."
                ));
            }
        }
    }
    (servers, notes)
}

fn read(server: &Value) -> Result<(ToolServerName, ToolServer), String> {
    let name = text(server, "name").unwrap_or_default();
    let name = ToolServerName::like(name).ok_or("its name has no letters")?;
    let kind = text(server, "type").unwrap_or("stdio");
    let reached = match (kind, text(server, "command"), text(server, "url")) {
        ("stdio", Some(command), _) => Reached::Program {
            command: command.to_owned(),
            args: list(server, "args")
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            env: variables(server, "env"),
        },
        ("http", _, Some(url)) => Reached::at(url.to_owned(), variables(server, "headers"))?,
        _ => {
            return Err(format!(
                "`{kind}` is not supported, only `stdio` and `http` are"
            ));
        }
    };
    let server = ToolServer {
        reached,
        seconds: None,
    };
    Ok((name, server))
}

fn text<'a>(server: &'a Value, name: &str) -> Option<&'a str> {
    server.get(name).and_then(Value::as_str)
}

fn list<'a>(server: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let list = server.get(name).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// A list of names and values.
fn variables(server: &Value, name: &str) -> BTreeMap<String, Variable> {
    let variable = |it: &Value| {
        let value = text(it, "value")?.to_owned();
        Some((text(it, "name")?.to_owned(), Variable::Plain(value)))
    };
    list(server, name).filter_map(variable).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_get_names_of_python() {
        let params = json!({"mcpServers": [
            {"name": "Git Hub-2", "command": "/bin/x", "args": ["a"], "env": [{"name": "K", "value": "v"}]},
            {"name": "far", "type": "http", "url": "https://example.org", "headers": [{"name": "K", "value": "v"}]},
            {"name": "old", "type": "sse", "url": "https://example.org", "headers": []},
            {"name": "7", "command": "/bin/x"},
        ]});
        let (servers, notes) = servers(params.as_object().unwrap());
        let named: Vec<(&str, &Reached)> = servers
            .iter()
            .map(|(name, it)| (name.as_str(), &it.reached))
            .collect();
        let variables: BTreeMap<_, _> = [("K".to_owned(), Variable::Plain("v".to_owned()))].into();
        let far = Reached::Address {
            url: "https://example.org".to_owned(),
            headers: variables.clone(),
        };
        let github = Reached::Program {
            command: "/bin/x".to_owned(),
            args: vec!["a".to_owned()],
            env: variables,
        };
        assert_eq!(named, [("far", &far), ("git_hub_2", &github)]);
        assert_eq!(
            notes,
            [
                "The MCP server `old` of the editor is left out: `sse` is not supported, only `stdio` and `http` are.",
                "The MCP server `7` of the editor is left out: its name has no letters."
            ]
        );
    }
}
