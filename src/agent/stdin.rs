//! Who answers when code requests a line (`input()`, R's `readline`, Deno's `prompt`). Models never answer password
//! prompts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum lines that a model answers for one cell.
pub const ANSWERS: u32 = 5;
/// Maximum bytes of an answer.
const LONGEST: usize = 1000;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StdinPolicy {
    /// The person.
    Ask,
    /// Nobody: the code gets an error at once.
    Refuse,
    /// The model, at most [`ANSWERS`] times a cell, and never a password.
    Model,
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnsweredBy {
    /// The person.
    Person,
    /// The model.
    Model,
}

/// The prompt that asks a model for the line.
pub(super) fn question(prompt: &str) -> String {
    let prompt: String = prompt.chars().take(LONGEST).collect();
    format!(
        "The code still runs and waits for one line of input. Its prompt is: {prompt:?}\n\
         Reply with exactly the line to type, and nothing else."
    )
}

/// The line in a model's reply: the first non-empty one, without code marks around it.
pub(super) fn line_of(reply: &str) -> String {
    let line = reply
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("```"))
        .unwrap_or_default();
    let bare = line
        .strip_prefix('`')
        .and_then(|line| line.strip_suffix('`'))
        .unwrap_or(line);
    let end = crate::session::outputs::floor_boundary(bare, LONGEST);
    bare.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_becomes_one_line() {
        for (reply, line) in [
            ("42", "42"),
            ("  yes \n\nbecause", "yes"),
            ("```\nAda Lovelace\n```", "Ada Lovelace"),
            ("`y`", "y"),
            ("`", "`"),
            ("", ""),
        ] {
            assert_eq!(line_of(reply), line, "{reply:?}");
        }
        assert_eq!(line_of(&"é".repeat(2000)).len(), LONGEST);
        assert!(question("name\u{1b}[2J? ").contains(r#""name\u{1b}[2J? ""#));
    }
}
