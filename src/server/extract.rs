//! Extractors for bodies, queries and paths, with errors in our format.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// How long a JSON body may take to arrive.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

/// A JSON body with its content type: a form on another page cannot send one.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let parsed = axum::Json::<T>::from_request(request, state);
        match tokio::time::timeout(WITHIN, parsed).await {
            Ok(Ok(axum::Json(value))) => Ok(Self(value)),
            Ok(Err(rejection)) => Err(refused(&rejection)),
            Err(_) => Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout",
                "the body did not arrive in time",
            )),
        }
    }
}

fn refused(rejection: &JsonRejection) -> Problem {
    let reason = match rejection.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "content_type",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        _ => "bad_request",
    };
    Problem::new(rejection.status(), reason, rejection.body_text())
}

/// The query string.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let parsed = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let parsed = parsed
            .map_err(|rejection: QueryRejection| Problem::bad_request(rejection.body_text()))?;
        Ok(Self(parsed.0))
    }
}

/// The path's parameters. A path that does not match counts as not found.
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let parsed = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let parsed = parsed.map_err(|rejection| Problem::not_found(rejection.body_text()))?;
        Ok(Self(parsed.0))
    }
}
