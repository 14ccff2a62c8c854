//! The calling client: its protocol version and its abilities.
//!
//! Two kinds of versions are supported side by side. Since 2026-07-28, each request states its version and its
//! client's abilities; before that, a handshake stated them for all later requests.

use serde_json::{Map, Value, json};

use crate::rpc::RpcError;

/// The version without a handshake.
pub const MODERN: &str = "2026-07-28";
/// Versions with a handshake, latest first.
pub const LEGACY: [&str; 2] = ["2025-11-25", "2025-06-18"];
/// All of them, latest first.
pub(super) const VERSIONS: [&str; 3] = [MODERN, LEGACY[0], LEGACY[1]];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// Marks messages of a subscription.
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// Maximum characters of a client's name.
const NAME: usize = 40;

/// The kind of a client's protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Each request is independent.
    Modern,
    /// A handshake comes first.
    Legacy,
}

/// A client, as far as its requests need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The kind of its version.
    pub era: Era,
    /// Its name, as other clients see it.
    pub name: String,
    /// Whether it can show its person a form.
    pub elicits: bool,
}

impl Caller {
    /// The client that a request describes; `None` for a request without a version, as after a handshake.
    ///
    /// # Errors
    /// A field is missing, or the version is not supported.
    pub fn of_request(params: &Map<String, Value>) -> Result<Option<Self>, RpcError> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let version = meta.and_then(|meta| meta.get(VERSION_KEY));
        let (Some(meta), Some(version)) = (meta, version) else {
            return Ok(None);
        };
        let version = version
            .as_str()
            .ok_or_else(|| RpcError::meta(format!("`_meta[\"{VERSION_KEY}\"]` is a string")))?;
        if version != MODERN {
            return Err(RpcError::version(version, &VERSIONS));
        }
        let capabilities = meta.get(CAPABILITIES_KEY).and_then(Value::as_object);
        let capabilities = capabilities.ok_or_else(|| {
            RpcError::meta(format!(
                "a request of version {MODERN} has the object `_meta[\"{CAPABILITIES_KEY}\"]`"
            ))
        })?;
        Ok(Some(Self {
            era: Era::Modern,
            name: name_of(meta.get(CLIENT_KEY)),
            elicits: elicits(capabilities),
        }))
    }

    /// A client that starts with `initialize`.
    pub fn of_handshake(params: &Map<String, Value>) -> Self {
        let capabilities = params.get("capabilities").and_then(Value::as_object);
        Self {
            era: Era::Legacy,
            name: name_of(params.get("clientInfo")),
            elicits: capabilities.is_some_and(elicits),
        }
    }

    /// Whether each of its requests is independent.
    pub fn is_modern(&self) -> bool {
        self.era == Era::Modern
    }
}

/// The version that is used after a handshake that asks for `requested`.
pub fn agreed(requested: &str) -> &'static str {
    let known = LEGACY.iter().find(|known| **known == requested);
    known.copied().unwrap_or(LEGACY[0])
}

/// The error for a request without a version.
pub fn unintroduced() -> RpcError {
    RpcError::meta(format!(
        "a request says its version in `_meta[\"{VERSION_KEY}\"]`, which is {MODERN} here, or follows an `initialize` \
         (versions {})",
        LEGACY.join(" and ")
    ))
}

/// The server's name and version.
pub(super) fn server_info() -> Value {
    json!({
        "name": "sponde",
        "title": "Sponde",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// A result in the form for this kind of client. A cacheable result says for how long.
pub(super) fn finished(mut result: Value, caller: &Caller, keeps: Keeps) -> Value {
    if caller.is_modern()
        && let Value::Object(fields) = &mut result
    {
        let kind = || Value::from("complete");
        fields.entry("resultType").or_insert_with(kind);
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        meta[SERVER_KEY] = server_info();
        if let Some((milliseconds, scope)) = keeps.hints() {
            fields.insert("ttlMs".to_owned(), milliseconds.into());
            fields.insert("cacheScope".to_owned(), scope.into());
        }
    }
    result
}

/// How long a client may keep a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// The client must not keep the result.
    No,
    /// It changes at any time.
    Fresh,
    /// As long as the server runs, for all clients.
    Long,
}

impl Keeps {
    fn hints(self) -> Option<(u64, &'static str)> {
        match self {
            Self::No => None,
            Self::Fresh => Some((0, "private")),
            Self::Long => Some((300_000, "public")),
        }
    }
}

/// An empty capability means forms (2025-11-25, "Elicitation", "Capabilities").
fn elicits(capabilities: &Map<String, Value>) -> bool {
    match capabilities.get("elicitation") {
        Some(Value::Object(modes)) => modes.is_empty() || modes.contains_key("form"),
        _ => false,
    }
}

fn name_of(info: Option<&Value>) -> String {
    let name = info.and_then(|info| info.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    let plain: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME)
        .collect();
    match plain.trim() {
        "" => "mcp".to_owned(),
        name => format!("{name} (mcp)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(meta: &Value) -> Map<String, Value> {
        json!({ "_meta": meta }).as_object().cloned().unwrap()
    }

    #[test]
    fn a_request_says_who_sends_it() {
        let meta = json!({
            VERSION_KEY: MODERN,
            CAPABILITIES_KEY: {"elicitation": {}},
            CLIENT_KEY: {"name": "desk\u{7}"},
        });
        let caller = Caller::of_request(&params(&meta)).unwrap().unwrap();
        assert_eq!(
            caller,
            Caller {
                era: Era::Modern,
                name: "desk (mcp)".to_owned(),
                elicits: true,
            }
        );
        assert_eq!(Caller::of_request(&Map::new()), Ok(None));
        let code = |meta: Value| Caller::of_request(&params(&meta)).unwrap_err().code;
        assert_eq!(code(json!({ VERSION_KEY: MODERN })), -32602);
        assert_eq!(code(json!({ VERSION_KEY: "1900-01-01" })), -32022);
        assert_eq!(code(json!({ VERSION_KEY: 1 })), -32602);
    }

    #[test]
    fn only_forms_count() {
        let elicits = |modes: Value| {
            let all = json!({ "elicitation": modes });
            elicits(all.as_object().unwrap())
        };
        assert!(elicits(json!({})));
        assert!(elicits(json!({"form": {}, "url": {}})));
        assert!(!elicits(json!({"url": {}})));
        assert!(!super::elicits(&Map::new()));
        assert_eq!(agreed("2025-06-18"), "2025-06-18");
        assert_eq!(agreed("2024-11-05"), "2025-11-25");
    }
}
