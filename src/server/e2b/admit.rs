//! Who may use E2B's API. The server's token opens all of it; a sandbox's own token, which its program got when it made it, opens
//! that sandbox; a signature made with that token opens one file. In debug mode there is no token: where the server was
//! started for that, programs of this machine reach the one sandbox that all of them share, and nothing else.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::failure::E2bFailure;
use super::state::DEBUG;
use crate::app::sandboxes::{ProgramSandbox, SandboxError, Sandboxes};
use crate::server::listen::Peer;
use crate::server::state::Shared;
use crate::server::token::is_same;

/// Whether a path is E2B's.
pub(in crate::server) fn is_at(path: &str) -> bool {
    path == "/e2b" || path.starts_with("/e2b/") || path == "/files"
}

/// What is reached: the control plane, or a sandbox.
fn is_control(path: &str) -> bool {
    let path = path.strip_prefix("/e2b").unwrap_or(path);
    let path = path.strip_prefix("/v2").unwrap_or(path);
    ["/sandboxes", "/snapshots", "/templates"]
        .iter()
        .any(|control| path.starts_with(control))
}

/// Lets a request in, and notes in it which sandbox it is for.
pub(in crate::server) async fn admit(
    shared: &Shared,
    request: &mut Request,
) -> Result<(), E2bFailure> {
    let (path, headers) = (request.uri().path(), request.headers());
    let is_owner = match key(headers) {
        Some(key) => {
            // In debug mode clients send the key that they have, whatever it is.
            let checked = shared.access.check(key, &shared.counters);
            match checked {
                Ok(()) => true,
                Err(_) if is_debug(shared, request) => false,
                Err(problem) => return Err(problem.into()),
            }
        }
        None => false,
    };
    if is_control(path) {
        return if is_owner { Ok(()) } else { Err(no_key()) };
    }
    let sandboxes = &shared.e2b.sandboxes;
    if let Some(signed) = Signed::of(request) {
        let found = signed.check(sandboxes, header(headers, "e2b-sandbox-id"))?;
        request.extensions_mut().insert(found);
        return Ok(());
    }
    let found = match header(headers, "e2b-sandbox-id") {
        Some(id) if id == DEBUG && is_debug(shared, request) => {
            Some(shared.e2b.debug_sandbox().await?)
        }
        Some(id) => {
            let found = sandboxes.get(id).map_err(|error| gone(&error))?;
            if !is_owner && !shows_token(headers, &found) {
                return Err(wrong_token());
            }
            Some(found)
        }
        None if is_owner => None,
        None if is_debug(shared, request) => Some(shared.e2b.debug_sandbox().await?),
        None => return Err(no_key()),
    };
    if let Some(found) = found {
        request.extensions_mut().insert(found);
    }
    Ok(())
}

/// Whether a request without a key is for a sandbox of this server: one that it names, or whose token signed it.
pub(in crate::server) fn knows(shared: &Shared, request: &Request) -> bool {
    if !is_at(request.uri().path()) {
        return false;
    }
    let sandboxes = &shared.e2b.sandboxes;
    let named = header(request.headers(), "e2b-sandbox-id");
    match Signed::of(request) {
        Some(signed) => signed.check(sandboxes, named).is_ok(),
        None => named.is_some_and(|id| sandboxes.get(id).is_ok()),
    }
}

fn is_debug(shared: &Shared, request: &Request) -> bool {
    let peer = request.extensions().get::<Peer>();
    let is_here = peer.is_some_and(|peer| peer.own.is_none_or(|own| own.is_loopback()));
    let named = header(request.headers(), "e2b-sandbox-id");
    shared.e2b.debug && is_here && named.is_none_or(|id| id == DEBUG)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The server's token. What `Authorization: Basic` says is the user's name in the sandbox.
fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = header(headers, AUTHORIZATION.as_str())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    header(headers, "x-api-key").or(bearer)
}

fn shows_token(headers: &HeaderMap, sandbox: &ProgramSandbox) -> bool {
    ["x-access-token", "e2b-traffic-access-token"]
        .iter()
        .filter_map(|name| header(headers, name))
        .any(|given| is_same(given, sandbox.token()))
}

fn no_key() -> E2bFailure {
    E2bFailure::new(
        StatusCode::UNAUTHORIZED,
        "this needs the server's token: set E2B_API_KEY to it (it is in the URL that `sponde serve` printed, and in its file)",
    )
}

fn wrong_token() -> E2bFailure {
    E2bFailure::new(
        StatusCode::UNAUTHORIZED,
        "this is not the access token of that sandbox",
    )
}

/// As their proxy says it: clients take these words for a sandbox that has ended.
fn gone(error: &SandboxError) -> E2bFailure {
    let message = format!("the sandbox was not found: {error}");
    E2bFailure::new(StatusCode::BAD_GATEWAY, message)
}

/// A URL that opens one file.
struct Signed {
    signature: String,
    path: String,
    operation: &'static str,
    user: String,
    expiration: Option<String>,
}

impl Signed {
    fn of(request: &Request) -> Option<Self> {
        let is_files = matches!(request.uri().path(), "/files" | "/e2b/files");
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(request.uri());
        let pairs = pairs.ok().filter(|_| is_files)?.0;
        let get = |name: &str| {
            let found = pairs.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.clone())
        };
        Some(Self {
            signature: get("signature")?,
            path: get("path").unwrap_or_default(),
            operation: match *request.method() {
                Method::GET | Method::HEAD => "read",
                _ => "write",
            },
            user: get("username").unwrap_or_default(),
            expiration: get("signature_expiration"),
        })
    }

    /// The sandbox whose token made it: the one that is named, or any.
    fn check(
        &self,
        sandboxes: &Sandboxes,
        named: Option<&str>,
    ) -> Result<Arc<ProgramSandbox>, E2bFailure> {
        let all = match named {
            Some(id) => vec![sandboxes.get(id).map_err(|error| gone(&error))?],
            None => sandboxes.list(),
        };
        let mut all = all.into_iter();
        let found = all.find(|it| is_same(&self.signature, &self.made_with(it.token())));
        let refused = |message: &str| E2bFailure::new(StatusCode::UNAUTHORIZED, message);
        let found = found.ok_or_else(|| refused("invalid signature"))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(u64::MAX, |it| it.as_secs());
        match &self.expiration {
            Some(at) if at.parse::<u64>().is_ok_and(|at| at >= now) => Ok(found),
            Some(_) => Err(refused("signature is already expired")),
            None => Ok(found),
        }
    }

    fn made_with(&self, token: &str) -> String {
        let Self {
            path,
            operation,
            user,
            ..
        } = self;
        let mut text = format!("{path}:{operation}:{user}:{token}");
        if let Some(at) = &self.expiration {
            text.push(':');
            text.push_str(at);
        }
        format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `e2b.sandbox.signature.get_signature` makes it (Python SDK 2.63).
    #[test]
    fn a_signature_is_as_the_sdk_makes_it() {
        let signed = Signed {
            signature: String::new(),
            path: "a.txt".to_owned(),
            operation: "read",
            user: "user".to_owned(),
            expiration: Some("1700000000".to_owned()),
        };
        assert_eq!(
            signed.made_with("token"),
            "v1_0xxe1e58b/pGLiy5s2pEl7f1zz436QllzWkhHL0tMMg"
        );
    }

    #[test]
    fn only_sandboxes_are_the_control_plane() {
        for path in [
            "/e2b/sandboxes",
            "/e2b/v2/sandboxes",
            "/e2b/sandboxes/x/pause",
            "/e2b/snapshots",
            "/e2b/templates/x",
        ] {
            assert!(is_at(path) && is_control(path), "{path}");
        }
        for path in ["/e2b/execute", "/e2b/files", "/files", "/e2b/health"] {
            assert!(is_at(path) && !is_control(path), "{path}");
        }
        assert!(!is_at("/e2bx") && !is_at("/filesx"));
    }
}
