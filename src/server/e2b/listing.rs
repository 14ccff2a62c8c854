//! The sandboxes in pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::control::listed;
use super::failure::E2bFailure;
use crate::app::sandboxes::{ProgramSandbox, SandboxState};
use crate::server::extract::Query;
use crate::server::state::Shared;

/// Sandboxes of a page at most.
const PAGE: usize = 100;

/// What is listed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    metadata: BTreeMap<String, String>,
    running: bool,
    paused: bool,
    template: Option<String>,
    /// Microseconds since 1970.
    started_after: Option<u128>,
    is_ascending: bool,
    limit: usize,
    /// The last one of the page before.
    after: Option<(u128, String)>,
}

/// The sandboxes, a page at a time; `x-next-token` says how it goes on.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, E2bFailure> {
    let wanted = Wanted::of(pairs)?;
    let mut all = shared.e2b.sandboxes.list();
    if wanted.is_ascending {
        all.reverse();
    }
    all.retain(|it| wanted.has(it));
    let more = all.len() > wanted.limit;
    all.truncate(wanted.limit);
    let shown: Vec<Value> = all.iter().map(|it| listed(it)).collect();
    let mut response = Json(shown).into_response();
    if let Some(last) = all.last().filter(|_| more) {
        let token = format!("{}:{}", micros(last.started()), last.id());
        if let Ok(token) = token.parse() {
            response.headers_mut().insert("x-next-token", token);
        }
    }
    Ok(response)
}

fn micros(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |it| it.as_micros())
}

impl Wanted {
    fn of(pairs: Vec<(String, String)>) -> Result<Self, E2bFailure> {
        let refused = |name: &str, value: &str| {
            let message = format!("`{value}` is no value for `{name}`");
            E2bFailure::new(StatusCode::BAD_REQUEST, message)
        };
        let mut wanted = Self {
            limit: PAGE,
            ..Self::default()
        };
        let mut states = Vec::new();
        for (name, value) in pairs {
            match name.as_str() {
                "metadata" => wanted.metadata = metadata(&value),
                "state" => states.extend(value.split(',').map(str::to_owned)),
                "template" => wanted.template = Some(value),
                "startedAfter" => {
                    let time = value.parse::<jiff::Timestamp>();
                    let time = time.map_err(|_| refused(&name, &value))?;
                    wanted.started_after = Some(micros(time.into()));
                }
                "order" => wanted.is_ascending = value == "asc",
                "limit" => {
                    let limit = value.parse::<usize>().map_err(|_| refused(&name, &value))?;
                    wanted.limit = limit.clamp(1, PAGE);
                }
                "nextToken" => {
                    let parts = value.split_once(':');
                    let parts = parts.and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
                    wanted.after = Some(parts.ok_or_else(|| refused(&name, &value))?);
                }
                _ => {}
            }
        }
        let is = |state: &str| states.is_empty() || states.iter().any(|it| it == state);
        (wanted.running, wanted.paused) = (is("running"), is("paused"));
        Ok(wanted)
    }

    fn has(&self, sandbox: &ProgramSandbox) -> bool {
        let started = micros(sandbox.started());
        let own = (started, sandbox.id().to_owned());
        let is_later = |after: &(u128, String)| {
            if self.is_ascending {
                own > *after
            } else {
                own < *after
            }
        };
        let metadata = sandbox.metadata();
        let is_wanted = match sandbox.state() {
            SandboxState::Running => self.running,
            SandboxState::Paused => self.paused,
        };
        is_wanted
            && self.after.as_ref().is_none_or(is_later)
            && self.started_after.is_none_or(|after| started >= after)
            && self
                .template
                .as_ref()
                .is_none_or(|it| it == sandbox.template())
            && self
                .metadata
                .iter()
                .all(|(name, value)| metadata.get(name) == Some(value))
    }
}

/// `name=value` pairs, in which both are encoded once more by themselves.
fn metadata(text: &str) -> BTreeMap<String, String> {
    decoded(text)
        .into_iter()
        .map(|(name, value)| (plain(&name), plain(&value)))
        .collect()
}

fn plain(text: &str) -> String {
    // A plus is one by now.
    let pairs = decoded(&format!("x={}", text.replace('+', "%2B")));
    pairs
        .into_iter()
        .next()
        .map_or_else(|| text.to_owned(), |(_, value)| value)
}

fn decoded(query: &str) -> Vec<(String, String)> {
    let uri = format!("/?{query}").parse::<Uri>().ok();
    let pairs = uri.and_then(|uri| axum::extract::Query::try_from_uri(&uri).ok());
    pairs.map(|it| it.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_encoded_more_than_once() {
        let pairs = [("a b", "c&d=e"), ("plus", "1+1")];
        let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        // `urlencode({quote(name): quote(value)})`, as the Python SDK has it.
        let found = metadata("a%2520b=c%2526d%253De&plus=1%252B1");
        assert_eq!(found, expected.into());
    }

    #[test]
    fn a_page_is_wanted() {
        let pairs = |all: &[(&str, &str)]| {
            let all = all
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Wanted::of(all.collect())
        };
        assert_eq!(
            pairs(&[
                ("state", "paused"),
                ("limit", "5"),
                ("nextToken", "12:ix"),
                ("order", "asc")
            ])
            .unwrap(),
            Wanted {
                paused: true,
                limit: 5,
                after: Some((12, "ix".to_owned())),
                is_ascending: true,
                ..Wanted::default()
            }
        );
        assert!(pairs(&[("nextToken", "x")]).is_err());
        assert!(pairs(&[("limit", "-1")]).is_err());
    }
}
