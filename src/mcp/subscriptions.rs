//! Notifies clients of changes: the list of resources changed, or a followed resource did.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::caller::SUBSCRIPTION_KEY;
use super::change::{Change, Followed};
use super::state::McpServer;
use crate::rpc::{Request, notification};

/// Maximum resources of one subscription.
const MOST: usize = 100;

impl McpServer {
    /// Notifies a client with a handshake of changes until it accepts no more.
    pub async fn tell_changes(&self, followed: Followed, outbox: mpsc::Sender<Value>) {
        let mut changes = self.changes();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = outbox.closed() => return,
            };
            let change = match change {
                Ok(change) => change,
                Err(RecvError::Lagged(_)) => Change::List,
                Err(RecvError::Closed) => return,
            };
            if followed.wants(&change) && outbox.send(change.message(None)).await.is_err() {
                return;
            }
        }
    }
}

/// The changes that a client asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    list: bool,
    uris: BTreeSet<String>,
}

impl Filter {
    fn of(request: &Request) -> Self {
        let wanted = request.params.get("notifications");
        let field = |name: &str| wanted.and_then(|wanted| wanted.get(name));
        let uris = field("resourceSubscriptions").and_then(Value::as_array);
        let uris = uris.into_iter().flatten().filter_map(Value::as_str);
        Self {
            list: field("resourcesListChanged").and_then(Value::as_bool) == Some(true),
            uris: uris.take(MOST).map(str::to_owned).collect(),
        }
    }

    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::List => self.list,
            Change::Updated(uri) => self.uris.contains(uri),
        }
    }

    /// The granted part of the filter: tools and prompts do not change here.
    fn granted(&self) -> Value {
        let mut granted = json!({});
        if self.list {
            granted["resourcesListChanged"] = true.into();
        }
        if !self.uris.is_empty() {
            granted["resourceSubscriptions"] = json!(self.uris);
        }
        granted
    }
}

/// Notifies a client of changes until it cancels or accepts no more.
pub(super) async fn listen(server: &McpServer, request: &Request, outlet: &mpsc::Sender<Value>) {
    let filter = Filter::of(request);
    let mut changes = server.changes();
    let meta = json!({ SUBSCRIPTION_KEY: request.id });
    let granted = json!({ "_meta": meta, "notifications": filter.granted() });
    let acknowledged = notification("notifications/subscriptions/acknowledged", &granted);
    if outlet.send(acknowledged).await.is_err() {
        return;
    }
    loop {
        let change = tokio::select! {
            change = changes.recv() => change,
            () = outlet.closed() => return,
        };
        let messages: Vec<Value> = match change {
            Ok(change) if filter.wants(&change) => vec![change.message(Some(meta.clone()))],
            Ok(_) => continue,
            // Some changes were lost: everything that it follows may have changed.
            Err(RecvError::Lagged(_)) => {
                let all = filter.uris.iter().cloned().map(Change::Updated);
                let list = filter.list.then_some(Change::List);
                let all = list.into_iter().chain(all);
                all.map(|change| change.message(Some(meta.clone())))
                    .collect()
            }
            Err(RecvError::Closed) => return,
        };
        for message in messages {
            if outlet.send(message).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_told() {
        let request = Request {
            id: json!(4),
            method: "subscriptions/listen".to_owned(),
            params: json!({"notifications": {
                "toolsListChanged": true,
                "resourceSubscriptions": ["sponde://a"],
            }})
            .as_object()
            .cloned()
            .unwrap(),
        };
        let filter = Filter::of(&request);
        assert_eq!(
            filter.granted(),
            json!({"resourceSubscriptions": ["sponde://a"]})
        );
        assert!(filter.wants(&Change::Updated("sponde://a".to_owned())));
        assert!(!filter.wants(&Change::Updated("sponde://b".to_owned())));
        assert!(!filter.wants(&Change::List));
    }
}
