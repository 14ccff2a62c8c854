//! The few messages to front ends that come from us, not from the kernel.

use serde_json::{Value, json};

use crate::jupyter::content::Content;
use crate::jupyter::message::Message;
use crate::jupyter::raw::RawMessage;
use crate::kernel::ready::now;

/// Common header fields of our own messages.
#[derive(Debug, Clone)]
pub(super) struct Own {
    session: String,
    username: String,
}

impl Own {
    /// `username` is for the headers.
    pub(super) fn new(username: &str) -> Self {
        Self {
            session: uuid::Uuid::new_v4().to_string(),
            username: username.to_owned(),
        }
    }

    /// A message whose parent is `request`, if any.
    pub(super) fn message(
        &self,
        msg_type: &str,
        content: Value,
        request: Option<&RawMessage>,
    ) -> RawMessage {
        let content = Content::Other {
            msg_type: msg_type.to_owned(),
            content,
        };
        let message = Message::request(content, &self.session, &self.username, now());
        let mut raw = RawMessage::from(&message);
        if let Some(request) = request {
            raw.parent = request.header.clone();
        }
        raw
    }

    /// A status for iopub.
    pub(super) fn status(&self, state: &str, request: Option<&RawMessage>) -> RawMessage {
        let content = json!({"execution_state": state});
        let mut status = self.message("status", content, request);
        status.prefix = vec![format!("kernel.{}.status", self.session).into()];
        status
    }
}
