//! Access control: one layer around every route, so that no route can forget it.
//!
//! 1. `Host` must be one of our names, even if everything else is right: this stops a foreign page whose name was
//!    pointed at this machine (DNS rebinding).
//! 2. `Origin`, if a browser sends it, must be the page's own; `null` is the origin of a sandboxed frame.
//! 3. The token, as `Authorization: Bearer` or as the cookie that it was exchanged for. A request that uses the cookie
//!    and changes something must send its origin.
//!
//! LibreChat and Dify send the token as `X-Api-Key`, below their own paths.
//!
//! `Sec-Fetch-*` never grants permission. The page's token is in no URL that is sent, and no token is logged.
//! Jupyter's clients may send it in the query, as usual for them, but only below `/jupyter`.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};

use super::counters::Counters;
use super::listen::Peer;
use super::problem::Problem;
use super::token::{Secret, is_same};

/// How many wrong tokens, from all clients within [`WINDOW`], are answered normally; more are rejected without a
/// check.
const WRONG: usize = 10;
/// See [`WRONG`].
const WINDOW: Duration = Duration::from_mins(1);

/// The access rules.
pub(super) struct Access {
    secret: Secret,
    /// Cookies belong to a host regardless of the port, so each server needs its own name.
    cookie_name: String,
    /// Our host names besides those of this machine.
    hosts: Vec<String>,
    /// Times of wrong tokens, latest last.
    wrong: Mutex<VecDeque<Instant>>,
}

impl Access {
    pub(super) fn new(secret: Secret, port: Option<u16>, hosts: Vec<String>) -> Self {
        Self {
            cookie_name: port.map_or_else(|| "sponde".to_owned(), |port| format!("sponde-{port}")),
            secret,
            hosts,
            wrong: Mutex::default(),
        }
    }

    /// Steps 1 and 2.
    pub(super) fn check_source(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Peer,
    ) -> Result<(), Problem> {
        let host = host_of(uri, headers);
        if !self.is_reached_as(&host, peer) {
            return Err(
                Problem::forbidden("this server is not reached under that name")
                    .hint("name the host of a proxy with --allow-host"),
            );
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = only(headers, ORIGIN.as_str()).map(str::to_ascii_lowercase);
        let origin = origin.unwrap_or_default();
        // The frames of outputs have no origin, and draw charts with our libraries.
        if origin == "null" && uri.path().starts_with("/assets/") {
            return Ok(());
        }
        let from = ["http://", "https://"]
            .iter()
            .find_map(|scheme| origin.strip_prefix(scheme));
        if from == Some(host.as_str()) {
            Ok(())
        } else {
            Err(Problem::forbidden(
                "requests of other pages are not answered",
            ))
        }
    }

    /// Whether `host` is a name of ours.
    pub(super) fn is_reached_as(&self, host: &str, peer: Peer) -> bool {
        let name = name_of(host);
        is_own(name, peer) || self.hosts.iter().any(|own| own == name || own == host)
    }

    /// Step 3.
    pub(super) fn check_token(
        &self,
        method: &Method,
        headers: &HeaderMap,
        counters: &Counters,
    ) -> Result<(), Problem> {
        if let Some(given) = bearer(headers) {
            return self.check(given, counters);
        }
        if !self.knows_cookie(headers) {
            return Err(unauthorised("this needs the server's token"));
        }
        // Browsers send it with all requests except plain GET.
        if !matches!(*method, Method::GET | Method::HEAD) && !headers.contains_key(ORIGIN) {
            return Err(Problem::forbidden(
                "a request with a cookie must say its origin",
            ));
        }
        Ok(())
    }

    /// Whether the headers contain the token or its cookie.
    pub(super) fn knows(&self, headers: &HeaderMap) -> bool {
        let keys = [bearer(headers), only(headers, "x-api-key")];
        keys.into_iter().flatten().any(|key| self.is(key)) || self.knows_cookie(headers)
    }

    fn knows_cookie(&self, headers: &HeaderMap) -> bool {
        cookies(headers)
            .filter(|(name, _)| *name == self.cookie_name)
            .any(|(_, value)| is_same(value, self.secret.cookie()))
    }

    /// The cookie for the token, as `NAME=VALUE`.
    pub(super) fn cookie(&self) -> String {
        format!("{}={}", self.cookie_name, self.secret.cookie())
    }

    /// Whether `given` is the token; does not count wrong ones.
    pub(super) fn is(&self, given: &str) -> bool {
        self.secret.is(given)
            // Some of E2B's SDKs only accept keys of `e2b_` and hexadecimal digits.
            || given.strip_prefix("e2b_").is_some_and(|digits| {
                self.secret.is(digits) || self.secret.is(&format!("sponde-{digits}"))
            })
    }

    /// Checks that `given` is the token. Wrong tokens are counted; the right one is always accepted, so nobody can
    /// lock the owner out: it is too long to be guessed at any rate.
    pub(super) fn check(&self, given: &str, counters: &Counters) -> Result<(), Problem> {
        if self.is(given) {
            return Ok(());
        }
        counters.wrong_token();
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while wrong.front().is_some_and(|at| now - *at > WINDOW) {
            wrong.pop_front();
        }
        if wrong.len() >= WRONG {
            return Err(Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_wrong_tokens",
                "too many wrong tokens",
            )
            .hint(
                "wait a minute; the token is in the URL that the server printed, and in its file",
            ));
        }
        wrong.push_back(now);
        tracing::warn!(of = wrong.len(), "a request had a wrong token");
        Err(unauthorised("this is not the server's token"))
    }
}

/// The host and port that a request names, in lower case; empty if there is none.
pub(super) fn host_of(uri: &Uri, headers: &HeaderMap) -> String {
    let host = only(headers, HOST.as_str());
    let host = uri.authority().map_or(host, |it| Some(it.as_str()));
    host.map(str::to_ascii_lowercase).unwrap_or_default()
}

/// Whether `name` can only mean this machine: a numeric address cannot be pointed elsewhere.
fn is_own(name: &str, peer: Peer) -> bool {
    if name == "localhost" {
        return true;
    }
    let inside = name.strip_prefix('[').map(|it| it.strip_suffix(']'));
    let Some(number) = inside.unwrap_or(Some(name)) else {
        return false;
    };
    let Ok(address) = number.parse::<IpAddr>() else {
        return false;
    };
    address.is_loopback() || peer.own == Some(address)
}

/// `host` without its port.
fn name_of(host: &str) -> &str {
    if host.starts_with('[') {
        let end = host.find(']').map_or(host.len(), |at| at + 1);
        return host.get(..end).unwrap_or(host);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// The value of a header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?;
    if all.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
    let is_ours = scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token");
    is_ours.then(|| token.trim())
}

/// The token from the header that script-running programs use, below their own paths.
pub(super) fn key_of<'a>(uri: &Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let path = uri.path();
    let is_theirs = path.starts_with("/codeapi/") || path.starts_with("/dify/");
    is_theirs.then(|| only(headers, "x-api-key")).flatten()
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let all = headers.get_all(COOKIE).iter();
    let all = all.filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

fn unauthorised(message: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorised", message)
        .hint("send `Authorization: Bearer TOKEN`, or open the URL that `sponde serve` printed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_and_names_of_this_machine_are_its_own() {
        let here: IpAddr = "10.1.2.3".parse().unwrap();
        let peer = Peer { own: Some(here) };
        for host in [
            "localhost",
            "localhost:80",
            "127.0.0.1:1",
            "127.0.0.2",
            "[::1]:9",
            "[::1]",
            "10.1.2.3:4",
        ] {
            assert!(is_own(name_of(host), peer), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "10.1.2.4",
            "[::2]:9",
            "x@localhost",
            "localhost@evil",
            "[::1",
            "::1]:80",
            "[[::1]]",
        ] {
            assert!(!is_own(name_of(host), peer), "{host}");
        }
    }
}
