//! A server with several tenants: one complete server per tenant, and the dispatch to the right one.
//!
//! The credentials of a request (a key, a cookie, a ticket) determine its tenant. A request without known credentials
//! goes to the owner's server, which rejects it. Nothing of one tenant's server can be reached through another's.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use tower_service::Service as _;

use super::state::Shared;
use super::{e2b, jupyter};

/// Maximum bytes of a login's body.
const LOGIN: usize = 4096;
/// How long it may take to arrive.
const LOGIN_WITHIN: Duration = Duration::from_secs(10);

/// One server.
pub(super) struct Door {
    pub(super) shared: Arc<Shared>,
    pub(super) router: Router,
}

/// All servers; the owner's is separate.
struct Doors {
    owner: Door,
    tenants: Vec<Door>,
}

/// The router in front of all servers.
pub(super) fn router(owner: Door, tenants: Vec<Door>) -> Router {
    if tenants.is_empty() {
        return owner.router;
    }
    let doors = Arc::new(Doors { owner, tenants });
    Router::new().fallback(lead).with_state(doors)
}

async fn lead(State(doors): State<Arc<Doors>>, request: Request) -> Response {
    let (request, key) = with_login(request).await;
    let door = doors.tenants.iter().find(|door| match &key {
        Some(key) => door.shared.access.is(key),
        None => knows(&door.shared, &request),
    });
    let mut router = door.unwrap_or(&doors.owner).router.clone();
    match router.call(request).await {
        Ok(response) => response,
    }
}

/// Whether a request is for this server, from its credentials: the token, its cookie, or a ticket.
fn knows(shared: &Shared, request: &Request) -> bool {
    let (access, uri) = (&shared.access, request.uri());
    access.knows(request.headers())
        || jupyter::token_of(uri).is_some_and(|given| access.is(&given))
        || shared.tickets.knows(uri.path())
        || e2b::knows(shared, request)
}

/// The request, and the key in its body if it is a login.
async fn with_login(request: Request) -> (Request, Option<String>) {
    #[derive(Deserialize)]
    struct Login {
        token: String,
    }
    if request.method() != Method::POST || request.uri().path() != "/api/login" {
        return (request, None);
    }
    let (parts, body) = request.into_parts();
    // A body that is too large or does not arrive has no key.
    let body = tokio::time::timeout(LOGIN_WITHIN, axum::body::to_bytes(body, LOGIN)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or(Bytes::new());
    let key = serde_json::from_slice::<Login>(&body)
        .ok()
        .map(|it| it.token);
    (Request::from_parts(parts, Body::from(body)), key)
}
