//! The answer to an unattended question: read from the transcript, and validated if there is a JSON schema for it.

mod json_schema;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::prompt::Instructions;
use crate::error::Failure;
use crate::session::{CellKind, Transcript};
use json_schema::JsonSchema;

/// Maximum bytes of a schema, which is part of the prompt.
const LARGEST: u64 = 64 << 10;
/// Maximum bytes of an answer that is parsed as JSON.
const LARGEST_ANSWER: usize = 16 << 20;

/// The schema of an answer. Clones share it.
#[derive(Clone)]
pub struct AnswerSchema(Arc<JsonSchema>);

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerSchema")
    }
}

impl AnswerSchema {
    /// Reads the schema in the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, is not JSON, or has an unsupported keyword.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let unreadable =
            |error: &dyn fmt::Display| Failure::usage(format!("could not read `{shown}`: {error}"));
        let size = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
        if !size.is_file() || size.len() > LARGEST {
            let words = format!("`{shown}` is not a schema: a file of at most 64 KiB is one");
            return Err(Failure::usage(words));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
        Self::parse(&text)
            .map_err(|words| Failure::usage(format!("`{shown}` is not a JSON schema: {words}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let root: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(JsonSchema::new(root)?)))
    }

    /// What the model is told before the conversation.
    pub(super) fn instructions(&self) -> Instructions {
        Instructions {
            source: "answer schema".to_owned(),
            text: format!(
                "When you have the answer, reply with one JSON value and nothing else: no words around it, no code \
                 fence. The value must be valid under this JSON schema:\n{}",
                self.0.source()
            ),
        }
    }

    /// The JSON in an answer, on one line.
    ///
    /// # Errors
    /// What is wrong with it, for the model and the person.
    pub fn check(&self, answer: &str) -> Result<String, String> {
        if answer.len() > LARGEST_ANSWER {
            return Err("the answer is larger than 16 MiB".to_owned());
        }
        let value: Value = serde_json::from_str(unfenced(answer))
            .map_err(|error| format!("the answer is not JSON: {error}"))?;
        let wrong = self.0.violations(&value);
        if wrong.is_empty() {
            Ok(value.to_string())
        } else {
            Err(wrong.join("; "))
        }
    }

    /// The prompt that tells the model what was `wrong` with its answer.
    pub fn correction(wrong: &str) -> String {
        format!(
            "That answer does not fit the JSON schema: {wrong}\nReply again with the whole JSON value and nothing else."
        )
    }
}

/// The content of a code fence around the whole answer; models write one although they are told not to.
fn unfenced(answer: &str) -> &str {
    let text = answer.trim();
    let inside = || {
        let rest = text.strip_prefix("```")?.strip_suffix("```")?;
        let (language, inside) = rest.split_once('\n')?;
        let is_json = matches!(language.trim(), "" | "json" | "JSON");
        is_json.then_some(inside)
    };
    inside().unwrap_or(text)
}

/// The model's last text after the last question, if any.
pub fn last_answer(transcript: &Transcript) -> Option<&str> {
    let cells = transcript.cells().iter().rev();
    let since = cells.take_while(|cell| !matches!(cell.kind, CellKind::User));
    let said = since.filter(|cell| matches!(cell.kind, CellKind::Assistant { .. }));
    let mut words = said.map(|cell| cell.source.trim());
    words.find(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_json_value() {
        let schema = AnswerSchema::parse(r#"{"type": "object", "required": ["n"]}"#).unwrap();
        for answer in [
            "{\"n\": 1}",
            " {\"n\":1}\n",
            "```json\n{\"n\": 1}\n```",
            "```\n{\"n\": 1}\n```\n",
        ] {
            assert_eq!(schema.check(answer), Ok("{\"n\":1}".to_owned()), "{answer}");
        }
        for (answer, wrong) in [
            ("It is 1.", "the answer is not JSON"),
            ("{\"n\": 1} as asked", "the answer is not JSON"),
            ("```python\n{\"n\": 1}\n```", "the answer is not JSON"),
            ("{}", "`n` is missing"),
            ("[1]", "the answer is an array"),
        ] {
            let told = schema.check(answer).unwrap_err();
            assert!(told.contains(wrong), "{answer}: {told}");
        }
    }
}
