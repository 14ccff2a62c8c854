//! Errors that only MCP has.

use serde_json::json;

use crate::rpc::RpcError;

impl RpcError {
    /// What every request must say of itself is missing.
    pub fn meta(message: impl Into<String>) -> Self {
        Self::new(-32602, 400, message)
    }

    /// The headers of a request over HTTP are not what its body says.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(-32020, 400, message)
    }

    /// The client asks for a version that this server does not speak.
    pub fn version(requested: &str, supported: &[&str]) -> Self {
        Self {
            data: Some(json!({ "supported": supported, "requested": requested })),
            ..Self::new(
                -32022,
                400,
                format!(
                    "this server does not speak version {requested}, but {}",
                    supported.join(", ")
                ),
            )
        }
    }

    /// What a resource's address means is not there. The code is that of the client's version.
    pub fn no_resource(uri: &str, is_modern: bool) -> Self {
        Self {
            data: Some(json!({ "uri": uri })),
            ..Self::new(
                if is_modern { -32602 } else { -32002 },
                200,
                format!("there is no resource `{uri}`: `resources/list` says which there are"),
            )
        }
    }
}
