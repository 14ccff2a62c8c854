//! The methods of the protocol, for all transports.

use serde_json::{Map, Value, json};

use super::call::Call;
use super::caller::{self, Caller, Keeps, VERSIONS, finished};
use super::state::McpServer;
use super::{resources, subscriptions, tools};
use crate::rpc::{Request, RpcError};

/// Instructions for a client's model about the whole server.
const INSTRUCTIONS: &str = "Runs code in a live Jupyter kernel (Python, and other languages that are installed) and keeps every run in a \
     notebook. State stays between calls of `run_code` with the same `session`: load data once, then work on it in small steps, \
     and look at results before you go on. Plots come back as images: call plt.show(). Files are in the workspace, which is the \
     kernel's working directory. Code is confined: it writes only there, and has no network unless the person gave it one. \
     `list_variables` and `read_variable` look at the state without running code.";

impl McpServer {
    /// Answers a request. The transport handles `initialize`, which describes the client.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn answer(&self, request: &Request, call: &Call) -> Result<Value, RpcError> {
        let (params, caller) = (&request.params, &call.caller);
        let done = |result, keeps| Ok(finished(result, caller, keeps));
        match request.method.as_str() {
            "server/discover" => done(discovered(), Keeps::Long),
            "ping" if !caller.is_modern() => Ok(json!({})),
            "tools/list" => {
                let tools = tools::list(self.has_model().await);
                done(json!({ "tools": tools }), Keeps::Long)
            }
            "tools/call" => done(tools::call(self, params, call).await?, Keeps::No),
            "resources/list" => done(resources::list(self).await, Keeps::Fresh),
            "resources/templates/list" => done(resources::templates(), Keeps::Long),
            "resources/read" => {
                let uri = params.get("uri").and_then(Value::as_str);
                let uri = uri.ok_or_else(|| RpcError::params("`uri` is missing"))?;
                let read = resources::read(self, uri).await?;
                let read = read.ok_or_else(|| RpcError::no_resource(uri, caller.is_modern()))?;
                done(read, Keeps::Fresh)
            }
            "subscriptions/listen" if caller.is_modern() => {
                subscriptions::listen(self, request, &call.outlet).await;
                let result = json!({ "_meta": { caller::SUBSCRIPTION_KEY: request.id } });
                done(result, Keeps::No)
            }
            other => Err(RpcError::no_method(other)),
        }
    }

    /// The answer to `initialize`, and the client that it introduces.
    pub fn introduced(params: &Map<String, Value>) -> (Caller, Value) {
        let requested = params.get("protocolVersion").and_then(Value::as_str);
        let result = json!({
            "protocolVersion": caller::agreed(requested.unwrap_or_default()),
            "capabilities": capabilities(),
            "serverInfo": caller::server_info(),
            "instructions": INSTRUCTIONS,
        });
        (Caller::of_handshake(params), result)
    }
}

fn discovered() -> Value {
    json!({
        "supportedVersions": VERSIONS,
        "capabilities": capabilities(),
        "instructions": INSTRUCTIONS,
    })
}

fn capabilities() -> Value {
    json!({
        "tools": {},
        "resources": { "subscribe": true, "listChanged": true },
    })
}
