//! Hides a small model's own failures from it.
//!
//! With failing cells in view it copies them for ever, whatever it is told. So only the latest of consecutive failures
//! stays in the prompt; once a cell succeeds, the failed ones before it are removed; and when the model repeats a
//! failing cell, all of them are removed and only their errors stay, as text. The notebook keeps everything; this
//! affects only the prompt.

use super::types::{Message, Part};

/// The conversation as a small model gets it.
#[derive(Debug, PartialEq)]
pub(super) struct Remembered {
    pub(super) messages: Vec<Message>,
    /// How much to raise the temperature.
    pub(super) restlessness: f64,
}

/// One call, its result, and the messages about it.
struct Attempt {
    messages: Vec<Message>,
    arguments: String,
    error: String,
}

/// Removes failures that are resolved.
pub(super) fn failures(messages: &[Message]) -> Remembered {
    let mut kept: Vec<Message> = Vec::new();
    let mut failed: Vec<Attempt> = Vec::new();
    let mut rest = messages;
    while let [first, later @ ..] = rest {
        let (attempt, length) = match (first, later.first()) {
            (
                Message::Assistant { calls, .. },
                Some(Message::ToolResult {
                    parts, is_error, ..
                }),
            ) if calls.len() == 1 => {
                let arguments = calls
                    .first()
                    .map(|call| squeezed(&call.arguments))
                    .unwrap_or_default();
                (is_error.then(|| (arguments, error_of(parts))), 2)
            }
            _ => (None, 1),
        };
        let (taken, remaining) = rest.split_at(length.min(rest.len()));
        if let Some((arguments, error)) = attempt {
            failed.push(Attempt {
                messages: taken.to_vec(),
                arguments,
                error,
            });
        } else {
            failed.clear();
            kept.extend_from_slice(taken);
        }
        rest = remaining;
    }
    let restlessness = f64::from(u32::try_from(failed.len().saturating_sub(1)).unwrap_or(3)) * 0.3;
    let repeated = failed.split_last().is_some_and(|(last, before)| {
        before
            .iter()
            .any(|attempt| attempt.arguments == last.arguments)
    });
    if repeated {
        let mut errors: Vec<String> = Vec::new();
        for attempt in failed {
            let line = format!("- {}", attempt.error);
            if !attempt.error.is_empty() && !errors.contains(&line) {
                errors.push(line);
            }
        }
        let words = format!(
            "Earlier attempts failed with:\n{}\nWrite a simpler cell that does it another way.",
            errors.join("\n")
        );
        kept.push(Message::User(vec![Part::Text(words)]));
    } else if let Some(last) = failed.pop() {
        kept.extend(last.messages);
    }
    Remembered {
        messages: kept,
        restlessness,
    }
}

fn squeezed(text: &str) -> String {
    // JSON escapes a line break as two characters.
    text.replace("\\n", " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The error in a failed result: the last line of the cell's output. Hints follow it as separate parts.
fn error_of(parts: &[Part]) -> String {
    let Some(Part::Text(text)) = parts.first() else {
        return String::new();
    };
    if text.starts_with("Not run") {
        return String::new();
    }
    text.lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::types::ToolCall;

    fn user(text: &str) -> Message {
        Message::User(vec![Part::Text(text.to_owned())])
    }

    fn attempt(code: &str, output: &str, is_error: bool) -> [Message; 2] {
        let call = ToolCall {
            after: 0,
            id: code.to_owned(),
            name: "t".to_owned(),
            arguments: code.to_owned(),
        };
        [
            Message::Assistant {
                text: String::new(),
                calls: vec![call],
                native: None,
            },
            Message::ToolResult {
                call_id: code.to_owned(),
                parts: vec![Part::Text(output.to_owned())],
                is_error,
            },
        ]
    }

    fn conversation(parts: &[&[Message]]) -> Vec<Message> {
        parts.concat()
    }

    #[test]
    fn only_the_latest_failure_stays() {
        let (a, b) = (
            attempt("a", "KeyError: 'x'", true),
            attempt("b", "NameError: y", true),
        );
        let all = conversation(&[&[user("q")], &a, &b]);
        let expected = conversation(&[&[user("q")], &b]);
        assert_eq!(
            failures(&all),
            Remembered {
                messages: expected,
                restlessness: 0.3
            }
        );
    }

    #[test]
    fn a_success_clears_the_failures_before_it() {
        let (bad, good) = (
            attempt("a", "KeyError: 'x'", true),
            attempt("b", "42", false),
        );
        let all = conversation(&[&[user("q")], &bad, &good, &[user("next")]]);
        let expected = conversation(&[&[user("q")], &good, &[user("next")]]);
        assert_eq!(
            failures(&all),
            Remembered {
                messages: expected,
                restlessness: 0.0
            }
        );
    }

    #[test]
    fn a_repeated_failure_becomes_words() {
        let first = attempt(r#"{"code": "a\nb"}"#, "line: b\nKeyError: 'x'", true);
        let again = attempt(r#"{"code": "a b"}"#, "Not run: it is the same", true);
        let all = conversation(&[&[user("q")], &first, &again]);
        let words = "Earlier attempts failed with:\n- KeyError: 'x'\nWrite a simpler cell that does it another way.";
        assert_eq!(
            failures(&all),
            Remembered {
                messages: vec![user("q"), user(words)],
                restlessness: 0.3
            }
        );
    }
}
