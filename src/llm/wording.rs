//! Renders results as user messages, for models without tool messages. Adjacent messages of one role are joined,
//! because chat templates may require alternation.

use super::tuning::Tuning;
use super::types::{Message, Part, Prompt, ToolCall};

/// The text around a cell's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wording {
    /// Before a cell's output.
    pub output_heading: String,
    /// Replaces an empty output.
    pub empty_output: String,
    /// Appended to the output of a successful cell. Empty appends nothing.
    pub after_output: String,
    /// Appended to the output of a failed cell. Empty appends nothing.
    pub after_error: String,
}

impl Wording {
    /// A conversation for a model without tools: its calls in the `reply` format it would write now, results as user
    /// messages.
    pub(super) fn in_words(
        &self,
        messages: &[Message],
        reply: impl Fn(&str, &[ToolCall]) -> String,
    ) -> Vec<Message> {
        let rendered = messages.iter().map(|message| match message {
            Message::User(parts) => Message::User(parts.clone()),
            Message::Assistant { text, calls, .. } => Message::Assistant {
                text: reply(text, calls),
                calls: Vec::new(),
                // The native reply belongs to calls that the model never made.
                native: None,
            },
            Message::ToolResult {
                parts, is_error, ..
            } => Message::User(self.output(parts, *is_error)),
        });
        rendered.collect()
    }

    /// The prompt for a reply in free text, or for the prompt's own schema.
    pub(super) fn plain(
        &self,
        tuning: &Tuning,
        prompt: Prompt,
        reply: impl Fn(&str, &[ToolCall]) -> String,
    ) -> Prompt {
        let prompt = tuning.bound(prompt);
        Prompt {
            messages: joined(self.in_words(&prompt.messages, reply)),
            ..prompt
        }
    }

    /// A cell's output as user text. Every output carries its hint, not only the last: the server has cached most of a
    /// prompt that only grows at its end.
    pub(super) fn output(&self, parts: &[Part], is_error: bool) -> Vec<Part> {
        let mut words = String::new();
        let mut images = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) => {
                    if !words.is_empty() {
                        words.push('\n');
                    }
                    words.push_str(text.trim_end());
                }
                Part::Image { .. } => images.push(part.clone()),
            }
        }
        if words.is_empty() {
            words.push_str(&self.empty_output);
        }
        words.insert_str(0, &self.output_heading);
        let hint = if is_error {
            &self.after_error
        } else {
            &self.after_output
        };
        if !hint.is_empty() {
            words.push_str("\n\n");
            words.push_str(hint);
        }
        let mut output = vec![Part::Text(words)];
        output.append(&mut images);
        output
    }
}

/// Joins consecutive user messages.
pub(super) fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match (joined.last_mut(), message) {
            (Some(Message::User(before)), Message::User(mut parts)) => {
                // One text, so that servers without content arrays see all of it.
                if let (Some(Part::Text(text)), Some(Part::Text(more))) =
                    (before.last_mut(), parts.first())
                {
                    text.push_str("\n\n");
                    text.push_str(more);
                    parts.remove(0);
                }
                before.append(&mut parts);
            }
            (_, message) => joined.push(message),
        }
    }
    joined
}

/// Appends `words` to the system prompt, unless empty.
pub(super) fn appended(system: String, words: &str) -> String {
    match (system.is_empty(), words.is_empty()) {
        (_, true) => system,
        (true, false) => words.to_owned(),
        (false, false) => format!("{system}\n\n{words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text(text.to_owned())]
    }

    #[test]
    fn neighbours_of_one_role_are_joined() {
        let said = Message::Assistant {
            text: "x".to_owned(),
            calls: vec![],
            native: None,
        };
        let messages = vec![
            Message::User(text("a")),
            Message::User(text("b")),
            said.clone(),
            Message::User(text("c")),
        ];
        assert_eq!(
            joined(messages),
            vec![
                Message::User(text("a\n\nb")),
                said,
                Message::User(text("c"))
            ]
        );
    }
}
