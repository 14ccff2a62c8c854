//! Bodies, queries and paths, with errors in our form.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// How long a body of JSON may take to arrive.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

/// A body of JSON, which says that it is one: a form of another page cannot.
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

/// What stands behind the question mark.
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

/// What stands in the path. What does not fit is not there.
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let parsed = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let parsed = parsed.map_err(|rejection| Problem::not_found(rejection.body_text()))?;
        Ok(Self(parsed.0))
    }
}
