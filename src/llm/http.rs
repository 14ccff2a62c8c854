//! The HTTP client every provider of a session shares.
//!
//! TLS is rustls with ring, chosen only here. Root certificates come from the system and are read only when a base URL
//! is `https`: a machine without any can still use a local server. Not here: timeouts of whole replies (a model may
//! think for minutes; see [`super::rig::RigOptions::idle_timeout`]) and retries ([`super::retry`]).

use std::time::Duration;

use reqwest::{Client, Url, redirect};

/// Limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Our user agent.
const USER_AGENT: &str = concat!("sponde/", env!("CARGO_PKG_VERSION"));

/// Builds the client for a base URL. Costs a few milliseconds for `https` (root certificates are
/// read), next to nothing for `http`.
pub fn client(base_url: &str) -> Result<Client, HttpError> {
    let url = Url::parse(base_url).map_err(|error| HttpError::BadUrl {
        message: error.to_string(),
    })?;

    // An error only means that a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirected POST would arrive as a GET; showing the server's answer is better.
        .redirect(redirect::Policy::none());
    if url.scheme() != "https" {
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| HttpError::NotBuilt {
        message: root_cause(&error),
    })
}

/// Builds the client for large files: it follows redirects, and detects a blocked network quickly.
pub fn downloads() -> Result<Client, HttpError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(super::local::pull::CONNECT_TIMEOUT)
        .build()
        .map_err(|error| HttpError::NotBuilt {
            message: root_cause(&error),
        })
}

/// Why no client could be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The base URL is invalid.
    #[error("the base URL cannot be read: {message}")]
    BadUrl {
        /// What is wrong with it.
        message: String,
    },
    /// Usually the system has no root certificates.
    #[error("TLS could not be set up: {message}")]
    NotBuilt {
        /// What the TLS layer said.
        message: String,
    },
}

/// The innermost cause of an error: the message of the operating system or of the TLS layer. The layers above repeat
/// the URL, which may contain a key.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_the_rest() {
        let cases = [
            ("http://localhost:11434", true),
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]:8080/v1", true),
            ("https://api.example.com/v1", false),
            ("http://10.0.0.7:8000/v1", false),
            ("http://localhost.example.com/v1", false),
        ];
        for (url, expected) in cases {
            let parsed = Url::parse(url).unwrap();
            assert_eq!(is_loopback(&parsed), expected, "{url}");
        }
    }

    #[test]
    fn a_bad_base_url_is_an_error_and_not_a_panic() {
        assert_eq!(
            client("not a url").unwrap_err(),
            HttpError::BadUrl {
                message: "relative URL without a base".to_owned()
            }
        );
    }

    #[test]
    fn clients_are_built_for_both_schemes() {
        client("http://127.0.0.1:1/v1").unwrap();
        match client("https://api.example.com/v1") {
            // A machine without root certificates gives the second result.
            Ok(_) | Err(HttpError::NotBuilt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
