//! Follow-up questions: the model is asked for three outside the conversation, at the end of a turn if the person
//! wants that, or on request.

use std::time::Duration;

use super::answering::{Answer, Answering};
use super::{EventKind, Session};
use crate::agent::event::TurnEnd;
use crate::llm::types::{Delta, Message, Part, ToolChoice};

/// Number of questions.
const QUESTIONS: usize = 3;
/// Maximum characters of a question.
const LONGEST: usize = 200;
/// How long the model may take.
const WITHIN: Duration = Duration::from_secs(30);

/// The request to the model.
const ASK: &str = "Suggest three short questions that the user could ask next about this data, each of which code can \
answer. Reply with the three questions in the user's language, one a line, and nothing else.";

impl Session {
    /// Asks the model for questions if possible. Returns whether it was asked.
    pub(super) fn ask_follow_ups(&mut self) -> bool {
        if self.asking.following.is_some() {
            return true;
        }
        let Some(provider) = self.options.provider.clone() else {
            return false;
        };
        let mut prompt = self.prompt();
        prompt.tool_choice = ToolChoice::None;
        let words = Part::Text(ASK.to_owned());
        match prompt.messages.last_mut() {
            Some(Message::User(parts)) => parts.push(words),
            _ => prompt.messages.push(Message::User(vec![words])),
        }
        if let Some(why) = self.too_dear_aside(&prompt) {
            tracing::debug!(why, "no questions are suggested");
            return false;
        }
        self.tell_asked("follow_ups");
        self.asking.following = Some(Answering::new(provider.stream(prompt), WITHIN));
        true
    }

    /// The person requests questions.
    pub(super) async fn suggest(&mut self) {
        if self.ask_follow_ups() {
            self.ending = Some(TurnEnd::Done);
            return;
        }
        self.notice("there is no model that could suggest questions, or no budget for it");
        self.conclude_turn(TurnEnd::Done).await;
    }

    /// Handles a piece of the model's questions.
    pub(super) async fn followed(&mut self, answer: Answer) {
        match answer {
            Answer::Delta(Delta::Text(text)) => {
                if let Some(following) = &mut self.asking.following {
                    following.take(&text);
                }
                return;
            }
            Answer::Delta(Delta::Retrying(_)) => {
                if let Some(following) = &mut self.asking.following {
                    following.forget();
                }
                return;
            }
            Answer::Delta(
                Delta::Reasoning(_)
                | Delta::CallStart { .. }
                | Delta::CallArguments { .. }
                | Delta::Native(_),
            ) => return,
            Answer::Delta(Delta::Finished { usage, .. }) => {
                self.spend_aside(usage);
                let text = self.asking.following.take();
                let questions = questions(text.as_ref().map_or("", Answering::text));
                if !questions.is_empty() {
                    self.publish(EventKind::FollowUps { questions });
                }
            }
            // The turn's answer is complete without them.
            Answer::None(why) => tracing::debug!(why, "no questions are suggested"),
        }
        self.asking.following = None;
        if let Some(end) = self.ending.take() {
            self.conclude_turn(end).await;
        }
    }
}

/// The questions in a reply, without numbering and quotes.
fn questions(reply: &str) -> Vec<String> {
    let lines = reply.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches(['-', '*', '•', '#']);
        let digits = line.trim_start();
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        let line = match rest.strip_prefix(['.', ')', ':']) {
            Some(rest) if rest.len() < digits.len() - 1 => rest,
            _ => digits,
        };
        let line = line.trim().trim_matches(['"', '`', '*']).trim();
        let plain: String = line.chars().filter(|c| !c.is_control()).collect();
        let plain: String = plain.chars().take(LONGEST).collect();
        (plain.chars().count() > 3 && !plain.ends_with(':')).then_some(plain)
    });
    lines.take(QUESTIONS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_lines() {
        for (reply, expected) in [
            (
                "1. Which city?\n2) How much?\n3. When?\n4. Why?",
                vec!["Which city?", "How much?", "When?"],
            ),
            (
                "Here are three:\n\n- \"Which city?\"\n* **How much?**\n",
                vec!["Which city?", "How much?"],
            ),
            (
                "2024 against 2023?\n\u{1b}[2Jx y z",
                vec!["2024 against 2023?", "[2Jx y z"],
            ),
            ("", vec![]),
        ] {
            assert_eq!(questions(reply), expected, "{reply}");
        }
    }
}
