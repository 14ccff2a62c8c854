//! Asks the person, through the client, for decisions: whether code runs, its input, whether a turn continues.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Follower;
use crate::acp::tool_call::{block, text_block};
use crate::acp::updates;
use crate::agent::approval::Finding;
use crate::agent::{Command, Decision, TurnEnd};
use crate::rpc::Unanswered;

/// The key of the question whether a turn continues, which is not about a cell.
pub(super) const GO_ON: &str = "go on";
/// What the model is told when a person rejects code once.
const REJECTED: &str = "I do not want this code to run. Do it another way, or ask me.";

/// Ids of the options.
const ALLOW: &str = "allow";
const ALWAYS: &str = "always";
const REJECT: &str = "reject";
const NEVER: &str = "never";

impl Follower {
    /// Asks whether a cell may run.
    pub(super) async fn ask_approval(&mut self, cell: &str, findings: &[Finding], reason: &str) {
        let Some(shown) = self.cells.look(cell).await else {
            return;
        };
        let mut tool_call = shown.fields(&self.live.notebook, &self.live.directory, &mut 0);
        if let Some(content) = tool_call["content"].as_array_mut() {
            content.push(block(&text_block(&updates::question(reason, findings))));
        }
        let params = json!({
            "sessionId": self.live.id,
            "toolCall": tool_call,
            "options": [
                option(ALLOW, "Run it", "allow_once"),
                option(ALWAYS, "Run it, and code like it in this session", "allow_always"),
                option(REJECT, "Do not run it", "reject_once"),
                option(NEVER, "Do not run it, nor code like it in this session", "reject_always"),
            ],
        });
        let cell = cell.to_owned();
        let decide = {
            let cell = cell.clone();
            move |answer| Command::Decide {
                cell,
                decision: decision(&answer),
            }
        };
        self.ask(cell, "session/request_permission", params, decide);
    }

    /// Asks for a line of input for code.
    pub(super) fn ask_input(&mut self, cell: &str, prompt: &str, password: bool) {
        let cell = cell.to_owned();
        let has_forms = self.peer.client().is_some_and(|client| client.has_forms);
        let refused = if password {
            Some(
                "passwords are not asked for in a form of the editor: take them from the environment",
            )
        } else if has_forms {
            None
        } else {
            Some(
                "the editor cannot ask for a line (it has no elicitation forms): put the value into the code",
            )
        };
        if let Some(reason) = refused {
            let reason = reason.to_owned();
            self.questions
                .push(async move { Some(Command::RefuseInput { cell, reason }) }.boxed());
            return;
        }
        let message = match prompt.trim() {
            "" => "The code asks for a line of input".to_owned(),
            prompt => format!("The code asks: {prompt}"),
        };
        let params = json!({
            "sessionId": self.live.id,
            "toolCallId": cell,
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": { "value": { "type": "string", "title": "Answer" } },
                "required": ["value"],
            },
        });
        let reply = {
            let cell = cell.clone();
            move |answer| match line(answer) {
                Ok(value) => Command::Reply { cell, value },
                Err(reason) => Command::RefuseInput { cell, reason },
            }
        };
        self.ask(cell, "elicitation/create", params, reply);
    }

    /// Asks whether the turn continues, or the plan is carried out.
    pub(super) async fn ask_to_go_on(&mut self, end: &TurnEnd) {
        let (question, yes, no) = updates::go_on(end);
        self.asked += 1;
        let tool = format!("go-on-{}", self.asked);
        let fields =
            json!({ "toolCallId": tool, "title": question, "kind": "other", "status": "pending" });
        self.tell(updates::tool_call(fields.clone())).await;
        let params = json!({
            "sessionId": self.live.id,
            "toolCall": fields,
            "options": [option(ALLOW, yes, "allow_once"), option(REJECT, no, "reject_once")],
        });
        let (peer, session) = (self.peer.clone(), self.live.id.clone());
        let settled = self.settles(GO_ON.to_owned());
        let asking = async move {
            let answer = peer
                .ask("session/request_permission", &params, &settled)
                .await;
            let go_on = answer.map(|answer| selected(&answer).as_deref() == Some(ALLOW));
            let status = if go_on == Some(true) {
                "completed"
            } else {
                "failed"
            };
            peer.update(
                &session,
                updates::tool_update(&tool, json!({ "status": status })),
            )
            .await;
            go_on.map(|go_on| Command::Continue { go_on, words: None })
        };
        self.questions.push(asking.boxed());
    }

    /// Asks the client; `command` converts the answer into a command for the session.
    fn ask(
        &mut self,
        key: String,
        method: &'static str,
        params: Value,
        command: impl FnOnce(Result<Value, Unanswered>) -> Command + Send + 'static,
    ) {
        let peer = self.peer.clone();
        let settled = self.settles(key);
        let asking = async move {
            let answer = peer.ask(method, &params, &settled).await?;
            Some(command(answer))
        };
        self.questions.push(asking.boxed());
    }

    /// The token that cancels a new question about `key`; an earlier question about it is cancelled.
    fn settles(&mut self, key: String) -> CancellationToken {
        let settled = CancellationToken::new();
        if let Some(before) = self.settled.insert(key, settled.clone()) {
            before.cancel();
        }
        settled
    }

    /// Cancels the question about `key`, which needs no answer any more.
    pub(super) fn settle(&mut self, key: &str) {
        if let Some(settled) = self.settled.remove(key) {
            settled.cancel();
        }
    }
}

fn option(id: &str, name: &str, kind: &str) -> Value {
    json!({ "optionId": id, "name": name, "kind": kind })
}

/// The option that a person chose.
fn selected(answer: &Result<Value, Unanswered>) -> Option<String> {
    let outcome = answer.as_ref().ok()?.get("outcome")?;
    if outcome.get("outcome")? != "selected" {
        return None;
    }
    Some(outcome.get("optionId")?.as_str()?.to_owned())
}

/// A dialog that was closed or could not be shown counts as a no that ends the turn.
fn decision(answer: &Result<Value, Unanswered>) -> Decision {
    match selected(answer).as_deref() {
        Some(ALLOW) => Decision::Run,
        Some(ALWAYS) => Decision::Always,
        Some(NEVER) => Decision::Never,
        Some(REJECT) => Decision::Decline {
            reason: Some(REJECTED.to_owned()),
        },
        _ => Decision::Decline { reason: None },
    }
}

/// The line that a person typed.
fn line(answer: Result<Value, Unanswered>) -> Result<String, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.get("action").and_then(Value::as_str) {
        Some("accept") => {
            let value = answer
                .get("content")
                .and_then(|content| content.get("value"));
            let value = value.and_then(Value::as_str);
            value
                .map(str::to_owned)
                .ok_or_else(|| "the form came back empty".to_owned())
        }
        Some("decline") => Err("the user declined to answer".to_owned()),
        _ => Err("the user did not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chosen_option_runs_code() {
        let chosen = |id: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": id}}));
        assert_eq!(decision(&chosen("allow")), Decision::Run);
        assert_eq!(decision(&chosen("always")), Decision::Always);
        assert_eq!(decision(&chosen("never")), Decision::Never);
        let reason = Some(REJECTED.to_owned());
        assert_eq!(decision(&chosen("reject")), Decision::Decline { reason });
        let no = Decision::Decline { reason: None };
        for answer in [
            chosen("other"),
            Ok(json!({"outcome": {"outcome": "cancelled", "optionId": "allow"}})),
            Ok(json!({"optionId": "allow"})),
            Ok(json!(null)),
            Err(Unanswered::Gone),
        ] {
            assert_eq!(decision(&answer), no, "{answer:?}");
        }
    }

    #[test]
    fn a_line_is_what_was_submitted() {
        let accepted = json!({"action": "accept", "content": {"value": "Ada"}});
        assert_eq!(line(Ok(accepted)), Ok("Ada".to_owned()));
        for (answer, reason) in [
            (json!({"action": "accept"}), "the form came back empty"),
            (
                json!({"action": "accept", "content": {"value": 1}}),
                "the form came back empty",
            ),
            (
                json!({"action": "decline", "content": {"value": "x"}}),
                "the user declined to answer",
            ),
            (json!({"action": "cancel"}), "the user did not answer"),
            (json!(7), "the user did not answer"),
        ] {
            assert_eq!(line(Ok(answer)), Err(reason.to_owned()));
        }
    }
}
