//! Errors that only exist in MCP.

use serde_json::json;

use crate::rpc::RpcError;

impl RpcError {
    /// The required metadata of a request is missing.
    pub fn meta(message: impl Into<String>) -> Self {
        Self::new(-32602, 400, message)
    }

    /// The headers of an HTTP request contradict its body.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(-32020, 400, message)
    }

    /// The client asks for an unsupported version.
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

    /// There is no resource at this URI. The error code depends on the client's version.
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
