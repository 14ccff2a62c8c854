//! The settings with which known clients start `sponde acp`.

use serde_json::json;

pub use crate::mcp::clients::ClientLines;

/// The settings of all known clients for starting `program` with `arguments`.
pub fn known(program: &str, arguments: &[String]) -> Vec<ClientLines> {
    let client = |name, place, lines| ClientLines { name, place, lines };
    // Plain data: serialization cannot fail.
    let pretty = |value| serde_json::to_string_pretty(&value).unwrap_or_default();
    let words: Vec<String> = arguments.iter().map(|it| lua(it)).collect();
    let (lua_program, lua_arguments) = (lua(program), words.join(", "));
    let whole: Vec<String> = std::iter::once(program.to_owned())
        .chain(arguments.iter().cloned())
        .collect();
    vec![
        client(
            "zed",
            "in settings.json",
            pretty(
                json!({ "agent_servers": { "Sponde": { "type": "custom", "command": program, "args": arguments, "env": {} } } }),
            ),
        ),
        client(
            "jetbrains",
            "in ~/.jetbrains/acp.json (AI Chat, Configure ACP Agents)",
            pretty(
                json!({ "agent_servers": { "Sponde": { "command": program, "args": arguments, "env": {} } } }),
            ),
        ),
        client(
            "codecompanion",
            "neovim with codecompanion.nvim, in init.lua",
            format!(
                "require(\"codecompanion\").setup({{\n  adapters = {{ acp = {{\n    sponde = function()\n      \
                 return require(\"codecompanion.adapters\").extend(\"opencode\", {{\n        \
                 name = \"sponde\",\n        formatted_name = \"Sponde\",\n        \
                 commands = {{ default = {{ {lua_program}, {lua_arguments} }} }},\n      }})\n    end,\n  }} }},\n  \
                 interactions = {{ chat = {{ adapter = \"sponde\" }} }},\n}})"
            ),
        ),
        client(
            "avante",
            "neovim with avante.nvim, in init.lua",
            format!(
                "require(\"avante\").setup({{\n  provider = \"sponde\",\n  acp_providers = {{\n    \
                 sponde = {{ command = {lua_program}, args = {{ {lua_arguments} }} }},\n  }},\n}})"
            ),
        ),
        client(
            "others",
            "emacs, marimo, jupyter-ai and whatever else takes a command",
            pretty(json!({ "command": whole })),
        ),
    ]
}

/// A Lua string.
fn lua(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_client_has_its_own_lines() {
        let arguments = ["acp", "--model", "a\"b"].map(str::to_owned);
        let known = known("/usr/bin/sponde", &arguments);
        let of = |name: &str| &known.iter().find(|it| it.name == name).unwrap().lines;
        let zed: Value = serde_json::from_str(of("zed")).unwrap();
        let server =
            json!({"type": "custom", "command": "/usr/bin/sponde", "args": arguments, "env": {}});
        assert_eq!(zed, json!({"agent_servers": {"Sponde": server}}));
        assert!(of("avante").contains(
            "command = \"/usr/bin/sponde\", args = { \"acp\", \"--model\", \"a\\\"b\" }"
        ));
        assert!(
            of("codecompanion")
                .contains("default = { \"/usr/bin/sponde\", \"acp\", \"--model\", \"a\\\"b\" }")
        );
    }
}
