//! A running request: sends messages to its client meanwhile, and asks its person.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::caller::Caller;
use crate::rpc::{Questions, notification};

/// How long a person may take to answer a question.
const ANSWER_WITHIN: Duration = Duration::from_mins(10);
/// Minimum time between progress messages.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// Maximum characters of a progress line.
const LINE: usize = 200;

/// The connection from a request back to its client.
#[derive(Clone)]
pub struct Call {
    /// Who calls.
    pub caller: Caller,
    /// Receives messages that come before the answer.
    pub outlet: mpsc::Sender<Value>,
    /// Questions to a client with a handshake.
    pub questions: Arc<Questions>,
}

/// A person's response to a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// The filled-in form.
    Value(Value),
    /// No value, for this reason.
    None(String),
}

impl Call {
    /// Asks the person of a client with a handshake to fill in `form`, and waits.
    pub(super) async fn elicit(&self, form: &Value) -> Reply {
        let asked = self.questions.ask(&self.outlet, "elicitation/create", form);
        let answered = match asked.await {
            Ok(mut question) => question.answered(ANSWER_WITHIN).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(result) => reply_of(&result),
            Err(error) => Reply::None(error.to_string()),
        }
    }
}

/// The response in an `ElicitResult`.
pub(super) fn reply_of(result: &Value) -> Reply {
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => Reply::Value(result.get("content").cloned().unwrap_or_default()),
        Some("decline") => Reply::None("the user declined to answer".to_owned()),
        _ => Reply::None("the user did not answer".to_owned()),
    }
}

/// Reports the progress of a request, if its client asked for that.
pub(super) struct Progress {
    token: Option<Value>,
    outlet: mpsc::Sender<Value>,
    began: Instant,
    told: Option<Instant>,
    last: f64,
}

impl Progress {
    /// For the request with these parameters.
    pub(super) fn of(params: &Map<String, Value>, call: &Call) -> Self {
        let meta = params.get("_meta");
        let token = meta.and_then(|meta| meta.get("progressToken")).cloned();
        Self {
            token: token.filter(|token| token.is_string() || token.is_number()),
            outlet: call.outlet.clone(),
            began: Instant::now(),
            told: None,
            last: 0.0,
        }
    }

    /// Sends the seconds so far and the last line of `text`, unless the last message was too recent. A client that
    /// reads nothing gets no progress, which never makes code wait.
    pub(super) fn tell(&mut self, text: &str) {
        let Some(token) = &self.token else { return };
        if self
            .told
            .is_some_and(|told| told.elapsed() < PROGRESS_EVERY)
        {
            return;
        }
        let mut lines = text.lines().rev().map(str::trim);
        let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let line: String = line
            .chars()
            .filter(|c| !c.is_control())
            .take(LINE)
            .collect();
        let seconds = self.began.elapsed().as_secs_f64();
        // The value must increase.
        let seconds = seconds.max(self.last + 0.001);
        let mut params = json!({ "progressToken": token, "progress": seconds });
        if !line.is_empty() {
            params["message"] = line.into();
        }
        if self
            .outlet
            .try_send(notification("notifications/progress", &params))
            .is_ok()
        {
            self.told = Some(Instant::now());
            self.last = seconds;
        }
    }

    /// The duration of the request so far, in seconds.
    pub(super) fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }
}
