//! How results reach a model that has no tool messages: as words of the person, neighbours of one role joined, for chat
//! templates may insist on turns.

use super::tuning::Tuning;
use super::types::{Message, Part, Prompt, ToolCall};

/// The words around a cell's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wording {
    /// Before a cell's output.
    pub output_heading: String,
    /// In place of an output that is empty.
    pub empty_output: String,
    /// After the output of a cell that ran. Empty says nothing.
    pub after_output: String,
    /// After the output of a cell that failed. Empty says nothing.
    pub after_error: String,
}

impl Wording {
    /// A conversation for a model that is offered no tools: what it called as the `reply` it would write today, results
    /// as words of the person.
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
                // It belongs to calls that the model never made.
                native: None,
            },
            Message::ToolResult {
                parts, is_error, ..
            } => Message::User(self.output(parts, *is_error)),
        });
        rendered.collect()
    }

    /// The prompt for a reply in free text, or after the prompt's own schema.
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

    /// A cell's output as words of the person. Every output carries its hint, not only the last: a prompt that only
    /// ever grows at its end is one the server has mostly read before.
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

/// Messages of the person that follow each other made one.
pub(super) fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match (joined.last_mut(), message) {
            (Some(Message::User(before)), Message::User(mut parts)) => {
                // One text, so that servers without content arrays see it whole.
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

/// `words` after the system prompt, if there are any.
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
