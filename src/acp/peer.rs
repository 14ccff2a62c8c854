//! The client: messages and requests to it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::rpc::{Questions, Unanswered, notification};

/// How long a person may take to answer a question.
const ANSWER_WITHIN: Duration = Duration::from_hours(24);
/// Maximum characters of a client's name.
const NAME: usize = 40;

/// The client of a connection; clones share it.
#[derive(Clone)]
pub(super) struct Peer {
    outlet: mpsc::Sender<Value>,
    pub(super) questions: Arc<Questions>,
    client: Arc<OnceLock<ClientAbilities>>,
}

/// A client's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClientAbilities {
    /// Its name for sessions.
    pub(super) name: String,
    /// Whether it can show its person a form.
    pub(super) has_forms: bool,
}

impl ClientAbilities {
    /// From the parameters of `initialize`.
    pub(super) fn of(params: &Map<String, Value>) -> Self {
        let info = params.get("clientInfo");
        let named = |key: &str| info.and_then(|info| info.get(key)).and_then(Value::as_str);
        let name = named("title").or_else(|| named("name")).unwrap_or_default();
        let plain: String = name
            .chars()
            .filter(|c| !c.is_control())
            .take(NAME)
            .collect();
        let name = match plain.trim() {
            "" => "acp".to_owned(),
            name => format!("{name} (acp)"),
        };
        // An empty object supports no modes.
        let forms = params
            .get("clientCapabilities")
            .and_then(|it| it.get("elicitation"));
        let has_forms = forms
            .and_then(|it| it.get("form"))
            .is_some_and(Value::is_object);
        Self { name, has_forms }
    }
}

impl Peer {
    pub(super) fn new(outlet: mpsc::Sender<Value>) -> Self {
        Self {
            outlet,
            questions: Arc::default(),
            client: Arc::default(),
        }
    }

    /// Only the first `initialize` counts.
    pub(super) fn introduce(&self, client: ClientAbilities) {
        let _ = self.client.set(client);
    }

    /// The client, once it has introduced itself.
    pub(super) fn client(&self) -> Option<&ClientAbilities> {
        self.client.get()
    }

    /// Sends a message, which is dropped if the client is gone.
    pub(super) async fn send(&self, message: Value) {
        let _ = self.outlet.send(message).await;
    }

    /// Sends an update about a session.
    pub(super) async fn update(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.send(notification("session/update", &params)).await;
    }

    /// Sends a request. If `settled` is cancelled first, the answer is no longer needed, and the client is told.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Value,
        settled: &CancellationToken,
    ) -> Option<Result<Value, Unanswered>> {
        let mut question = match self.questions.ask(&self.outlet, method, params).await {
            Ok(question) => question,
            Err(error) => return Some(Err(error)),
        };
        tokio::select! {
            answered = question.answered(ANSWER_WITHIN) => Some(answered),
            () = settled.cancelled() => {
                let params = json!({ "requestId": question.id() });
                self.send(notification("$/cancel_request", &params)).await;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_forms_only_if_it_says_so() {
        let client = |params: Value| ClientAbilities::of(params.as_object().unwrap());
        let forms =
            |modes: Value| client(json!({"clientCapabilities": {"elicitation": modes}})).has_forms;
        assert!(forms(json!({"form": {}, "url": {}})));
        for none in [
            json!({}),
            json!(null),
            json!({"form": null}),
            json!({"url": {}}),
        ] {
            assert!(!forms(none.clone()), "{none}");
        }
        assert_eq!(client(json!({})).name, "acp");
        let info = json!({"clientInfo": {"name": "zed", "title": "Z\u{7}ed", "version": "1"}});
        assert_eq!(client(info).name, "Zed (acp)");
    }
}
