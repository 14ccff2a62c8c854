//! The servers in a project's `.mcp.json`, which other programs read too. They are used once a person trusts the file,
//! like its `SPONDE.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::pipes::USUAL;
use crate::app::project::{self, Purpose};
use crate::app::{Context, SessionSettings};
use crate::config::tools::{Reached, ToolServer, ToolServerName, ToolServers, Variable};
use crate::paths::Environment;

/// The servers of a project.
#[derive(Default)]
pub(super) struct ProjectServers {
    pub(super) servers: ToolServers,
    /// The variables that the file uses.
    variables: BTreeSet<String>,
}

impl ProjectServers {
    /// The variables that no kernel gets, because they may contain keys.
    pub(super) fn secrets(self) -> impl Iterator<Item = String> {
        let mut variables = self.variables;
        variables.retain(|name| !USUAL.contains(&name.as_str()));
        variables.into_iter()
    }
}

/// The file. Other keys in it are for other programs.
#[derive(Deserialize)]
struct Written {
    #[serde(default, rename = "mcpServers")]
    servers: BTreeMap<String, WrittenServer>,
}

#[derive(Deserialize)]
struct WrittenServer {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// The servers for work in the current directory. Unusable ones are skipped with a notice.
pub(super) fn servers(settings: &SessionSettings, context: &Context) -> ProjectServers {
    let environment = &context.paths.environment;
    let mut found = ProjectServers::default();
    let Some(cwd) = environment.cwd() else {
        return found;
    };
    let Some(file) = project::trusted(Purpose::Servers, cwd, settings, context) else {
        return found;
    };
    let path = file.path.display();
    let written: Written = match serde_json::from_str(&file.text) {
        Ok(written) => written,
        Err(error) => {
            context
                .notify
                .warning(format!("`{path}` is left out: {error}"));
            return found;
        }
    };
    for (name, server) in written.servers {
        match read(&name, server, environment, &mut found.variables) {
            Ok((name, server)) => {
                found.servers.insert(name, server);
            }
            Err(why) => context.notify.warning(format!(
                "the MCP server `{name}` in `{path}` is left out: {why}"
            )),
        }
    }
    found
}

/// One server, with its variables replaced. An error says what is wrong.
fn read(
    name: &str,
    server: WrittenServer,
    environment: &Environment,
    used: &mut BTreeSet<String>,
) -> Result<(ToolServerName, ToolServer), String> {
    let name = ToolServerName::like(name).ok_or("its name has no letters")?;
    let mut filled = |text: &str| filled(text, environment, used);
    let mut all = |map: BTreeMap<String, String>| -> Result<_, String> {
        map.into_iter()
            .map(|(name, value)| Ok((name, Variable::Plain(filled(&value)?))))
            .collect::<Result<BTreeMap<_, _>, String>>()
    };
    let (env, headers) = (all(server.env)?, all(server.headers)?);
    let reached = match (server.kind.as_deref(), server.command, server.url) {
        (None | Some("stdio"), Some(command), None) => Reached::Program {
            command: filled(&command)?,
            args: server
                .args
                .iter()
                .map(|it| filled(it))
                .collect::<Result<_, _>>()?,
            env,
        },
        (None | Some("http" | "streamable-http"), None, Some(url)) => {
            Reached::at(filled(&url)?, headers)?
        }
        (Some("sse"), ..) => {
            return Err("its transport `sse` is an old one: it has to be `http`".to_owned());
        }
        (Some(_) | None, ..) => {
            return Err("it has neither a `command` nor a `url` of the type `http`".to_owned());
        }
    };
    let server = ToolServer {
        reached,
        seconds: None,
    };
    Ok((name, server))
}

/// `text` with its variables replaced: `${NAME}`, or `${NAME:-default}`.
fn filled(
    text: &str,
    environment: &Environment,
    used: &mut BTreeSet<String>,
) -> Result<String, String> {
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after
            .split_once('}')
            .ok_or_else(|| format!("a `${{` has no end in `{text}`"))?;
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let value = environment.get(name).or(otherwise);
        let value = value.ok_or_else(|| format!("the variable `{name}` is not set"))?;
        used.insert(name.to_owned());
        all.push_str(before);
        all.push_str(value);
        rest = behind;
    }
    all.push_str(rest);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = vec![variable("TOKEN", "t0"), variable("EMPTY", "")];
        Environment::new(variables, None)
    }

    #[test]
    fn variables_are_filled_in() {
        let mut used = BTreeSet::new();
        let mut fill = |text: &str| filled(text, &environment(), &mut used);
        assert_eq!(fill("Bearer ${TOKEN}!"), Ok("Bearer t0!".to_owned()));
        assert_eq!(fill("${EMPTY:-a:-b}${TOKEN:-c}"), Ok("a:-bt0".to_owned()));
        assert_eq!(fill("$TOKEN {}"), Ok("$TOKEN {}".to_owned()));
        let missing = "the variable `NO` is not set".to_owned();
        assert_eq!(fill("${NO}"), Err(missing));
        assert!(fill("${TOKEN").is_err());
        assert!(used.contains("TOKEN"));
    }

    #[test]
    fn servers_are_programs_or_addresses() {
        let read_one = |json: &str| {
            let server = serde_json::from_str(json).unwrap();
            read("My-Shop", server, &environment(), &mut BTreeSet::new())
                .map(|(name, server)| (name.as_str().to_owned(), server.reached))
        };
        let (name, reached) =
            read_one(r#"{"command": "npx", "args": ["${TOKEN}"], "other": 1}"#).unwrap();
        assert_eq!(name, "my_shop");
        let Reached::Program { args, .. } = reached else {
            panic!("{reached:?}");
        };
        assert_eq!(args, ["t0"]);
        let text = r#"{"type": "http", "url": "https://x", "headers": {"A": "${TOKEN}"}}"#;
        let (_, reached) = read_one(text).unwrap();
        let header = Variable::Plain("t0".to_owned());
        assert_eq!(
            reached.variables(),
            &BTreeMap::from([("A".to_owned(), header)])
        );
        for (text, words) in [
            (r#"{"type": "sse", "url": "https://x"}"#, "old one"),
            ("{}", "neither"),
            (r#"{"url": "file:///x"}"#, "begins with"),
            (r#"{"command": "${NO}"}"#, "`NO` is not set"),
        ] {
            let error = read_one(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
