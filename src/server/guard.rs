//! The layer around every route, and the login.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{host_of, key_of};
use super::e2b;
use super::extract::Json;
use super::jupyter;
use super::listen::Peer;
use super::problem::Problem;
use super::state::Shared;
use crate::app::tenants::Scope;

/// The layer.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &shared.access;
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.unwrap_or(Peer { own: None });
    // No route is behind a name that is not ours; this only says more than that.
    let host = host_of(uri, headers);
    if !access.is_reached_as(&host, peer)
        && let Some(failure) = e2b::refuse_port(&host)
    {
        return hardened(&shared, failure.into_response());
    }
    let mut checked = access.check_source(uri, headers, peer);
    let is_barred = shared.scope == Scope::Read && changes(method, headers);
    let barred = || {
        Problem::forbidden("this key is for reading only")
            .hint("the server's person can give it the scope `run`")
    };
    if e2b::is_at(uri.path()) && checked.is_ok() {
        let admitted = e2b::admit(&shared, &mut request).await;
        let admitted = match admitted {
            Ok(()) if is_barred => Err(barred().into()),
            other => other,
        };
        let response = match admitted {
            Ok(()) => next.run(request).await,
            Err(failure) => failure.into_response(),
        };
        return hardened(&shared, response);
    }
    if checked.is_ok() && !is_public(method, uri.path()) {
        checked = match jupyter::token_of(uri) {
            Some(given) => access.check(&given, &shared.counters),
            None => match key_of(uri, headers) {
                Some(given) => access.check(given, &shared.counters),
                None => access.check_token(method, headers, &shared.counters),
            },
        };
        if checked.is_ok() && is_barred {
            checked = Err(barred());
        }
    }
    let response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) if jupyter::is_at(uri.path()) => problem.into_jupyter(),
        Err(problem) => problem.into_response(),
    };
    hardened(&shared, response)
}

/// Adds the security headers of every answer.
fn hardened(shared: &Shared, mut response: Response) -> Response {
    shared.counters.answered(response.status());
    let is_limited = response.status() == StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    if is_limited {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("60"));
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        // Nothing may run in an answer that is not one of our pages.
        (
            "content-security-policy",
            "default-src 'none'; frame-ancestors 'none'; sandbox",
        ),
    ] {
        if !headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

/// What `POST /api/login` takes.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Login {
    token: String,
}

/// Exchanges the token for a cookie.
pub(super) async fn login(
    State(shared): State<Arc<Shared>>,
    Json(login): Json<Login>,
) -> Result<Response, Problem> {
    let access = &shared.access;
    access.check(&login.token, &shared.counters)?;
    let cookie = access.cookie();
    let cookie = format!("{cookie}; HttpOnly; SameSite=Strict; Path=/");
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

/// Whether a request can change something or run code.
fn changes(method: &Method, headers: &HeaderMap) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
        || headers.contains_key(UPGRADE)
}

/// Paths that need no token: they reveal no secret, or the path itself is a ticket.
fn is_public(method: &Method, path: &str) -> bool {
    match *method {
        Method::GET | Method::HEAD => {
            path == "/"
                || path == "/health"
                || path.starts_with("/assets/")
                || path.starts_with("/out/")
        }
        Method::POST => path == "/api/login",
        _ => false,
    }
}
