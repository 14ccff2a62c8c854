//! Messages of JSON-RPC 2.0 as MCP and ACP use it: no batches, ids that are strings or integers.

use serde_json::{Map, Value, json};

/// What came in.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification {
        /// Its name.
        method: String,
        /// What it says.
        params: Map<String, Value>,
    },
    /// Answers a request of ours.
    Response {
        /// The request's id.
        id: Value,
        /// Its result, or the error.
        outcome: Result<Value, Value>,
    },
}

/// A request.
#[derive(Debug, PartialEq)]
pub struct Request {
    /// A string or an integer.
    pub id: Value,
    /// What is wanted.
    pub method: String,
    /// With what.
    pub params: Map<String, Value>,
}

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// JSON-RPC's code, or one of the protocol that stands on it.
    pub code: i64,
    /// What was wrong, and what to do.
    pub message: String,
    /// More of it for programs.
    pub data: Option<Value>,
    /// The status over HTTP.
    pub http: u16,
}

impl RpcError {
    /// An error with JSON-RPC's `code`, which is the status `http` over HTTP.
    pub fn new(code: i64, http: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
            http,
        }
    }

    /// The message is not JSON.
    pub fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, 400, message)
    }

    /// It is no message of JSON-RPC's.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, 400, message)
    }

    /// There is no such method.
    pub fn no_method(method: &str) -> Self {
        Self::new(-32601, 404, format!("there is no method `{method}` here"))
    }

    /// The parameters do not fit.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, 200, message)
    }

    /// Something went wrong here.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, 200, message)
    }

    /// It as an answer.
    pub fn answer(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

/// Reads a message.
///
/// # Errors
/// The bytes are not a JSON-RPC message. The error comes with the message's id if the id is readable.
pub fn parse(bytes: &[u8]) -> Result<Incoming, Box<(Value, RpcError)>> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("the message is not JSON: {error}");
        Box::new((Value::Null, RpcError::parse(message)))
    })?;
    let Value::Object(mut fields) = value else {
        let message = "a message is one JSON object: send the messages of a batch one by one";
        return Err(Box::new((Value::Null, RpcError::invalid_request(message))));
    };
    let id = fields.remove("id");
    let refused = |message: &str| {
        let known = id.clone().filter(is_id).unwrap_or(Value::Null);
        Err(Box::new((known, RpcError::invalid_request(message))))
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refused("a message says `\"jsonrpc\": \"2.0\"`");
    }
    let params = match fields.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return refused("`params` is an object"),
    };
    let method = match fields.remove("method") {
        Some(Value::String(method)) => Some(method),
        None => None,
        Some(_) => return refused("`method` is a string"),
    };
    match (method, id) {
        (Some(method), None) => Ok(Incoming::Notification { method, params }),
        (Some(method), Some(id)) if is_id(&id) => {
            Ok(Incoming::Request(Request { id, method, params }))
        }
        (None, Some(id)) => {
            let outcome = match (fields.remove("result"), fields.remove("error")) {
                (Some(result), None) => Ok(result),
                (_, error) => Err(error.unwrap_or_default()),
            };
            Ok(Incoming::Response { id, outcome })
        }
        (Some(_), Some(_)) => Err(Box::new((
            Value::Null,
            RpcError::invalid_request("an id is a string or an integer"),
        ))),
        (None, None) => Err(Box::new((
            Value::Null,
            RpcError::invalid_request("a message has a `method` or an `id`"),
        ))),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// A request of ours.
pub fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The answer to a request.
pub fn answer(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => error.answer(id),
    }
}

/// A message that wants no answer.
pub fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let text = |text: &str| parse(text.as_bytes());
        assert_eq!(
            text(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            Ok(Incoming::Request(Request {
                id: json!(1),
                method: "ping".to_owned(),
                params: Map::new(),
            }))
        );
        assert_eq!(
            text(r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#),
            Ok(Incoming::Notification {
                method: "n".to_owned(),
                params: json!({"a": 1}).as_object().cloned().unwrap(),
            })
        );
        assert_eq!(
            text(r#"{"jsonrpc":"2.0","id":"x","result":{"action":"accept"}}"#),
            Ok(Incoming::Response {
                id: json!("x"),
                outcome: Ok(json!({"action": "accept"})),
            })
        );
        assert_eq!(
            text(r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#),
            Ok(Incoming::Response {
                id: json!(7),
                outcome: Err(json!({"code": 1})),
            })
        );
    }

    #[test]
    fn what_is_no_message_is_answered_with_its_id() {
        for (text, id, code) in [
            ("{", json!(null), -32700),
            ("[]", json!(null), -32600),
            (r#"{"id":1,"method":"m"}"#, json!(1), -32600),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
                json!(null),
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
                json!(null),
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"m","params":[]}"#,
                json!(2),
                -32600,
            ),
            (r#"{"jsonrpc":"2.0"}"#, json!(null), -32600),
        ] {
            let (found, error) = *parse(text.as_bytes()).unwrap_err();
            assert_eq!((found, error.code), (id, code), "{text}");
        }
    }
}
