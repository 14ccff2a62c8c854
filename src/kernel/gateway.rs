//! Kernels of a Jupyter server, local or remote: jupyter_server, Kernel Gateway, Enterprise Gateway, JupyterHub's user
//! servers.
//!
//! [`rest`] starts, interrupts, restarts and ends them; `socket` turns a websocket into the same `Link` that `link`
//! makes from a local kernel's sockets, so that the actor does not know the difference.
//!
//! Invariants:
//! - The token is sent in request headers only: never in URLs, logs, errors, or the kernel's environment.
//! - Every request and every wait has a timeout, and everything a server sends is read with a size limit.
//! - A broken connection is re-established with the same session id, so that the server sends what was missed.
//!
//! Deliberately not here: HTTP proxies (a gateway is reached directly, as its websocket must be), and files: the
//! kernel's working directory is on the server.

mod dial;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod remote;
pub mod rest;
mod socket;

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use thiserror::Error;

pub use frame::{Dialect, Frame};
pub(super) use remote::Remote;
pub use rest::{Gateway, RemoteSpec, RemoteSpecs};
use socket::connect;

/// The `Authorization` scheme for a token, unless the gateway was configured otherwise (`auth_scheme`).
pub const AUTH_SCHEME: &str = "token";

/// Where a gateway is and how to authenticate.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayOptions {
    /// Base URL with a slash at the end and without credentials: `http://host:8888/`, `https://hub/user/me/`.
    pub url: Url,
    /// The token, if the server requires one.
    pub token: Option<Token>,
    /// Mostly [`AUTH_SCHEME`]; some Enterprise Gateways want `Bearer`.
    pub auth_scheme: String,
}

/// Secret text: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the token masked: servers may quote it back.
    fn redact(&self, text: &str) -> String {
        // A very short token is no secret, and masking it would garble ordinary words.
        if self.0.len() < 6 {
            return text.to_owned();
        }
        text.replace(&self.0, "***")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

impl GatewayOptions {
    /// Parses a URL as copied from a browser: removes `?token=`, which takes precedence over `token`, and the page that
    /// Jupyter opens (`/lab`, `/tree`).
    ///
    /// # Errors
    /// [`GatewayError::BadUrl`], which does not repeat the URL.
    pub fn parse(url: &str, token: Option<String>) -> Result<Self, GatewayError> {
        let bad = |reason: &str| GatewayError::BadUrl {
            reason: reason.to_owned(),
        };
        let mut url = Url::parse(url.trim()).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it must begin with http:// or https://"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad("it names no host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it must not hold a name or a password"));
        }
        let own = url
            .query_pairs()
            .find(|(name, _)| name == "token")
            .map(|(_, value)| value.into_owned());
        url.set_query(None);
        url.set_fragment(None);
        let mut path = url.path().trim_end_matches('/');
        for page in ["/lab", "/tree", "/notebooks", "/api"] {
            path = path.strip_suffix(page).unwrap_or(path);
        }
        let path = format!("{path}/");
        url.set_path(&path);
        Ok(Self {
            url,
            token: own
                .or(token)
                .map(|token| token.trim().to_owned())
                .filter(|token| !token.is_empty())
                .map(Token::new),
            auth_scheme: AUTH_SCHEME.to_owned(),
        })
    }
}

/// Why a gateway request failed. Texts from servers are truncated, and free of the token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GatewayError {
    /// The URL cannot be that of a gateway.
    #[error("the gateway's URL cannot be used: {reason}")]
    BadUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// Usually: the system has no root certificates.
    #[error("TLS could not be set up: {reason}")]
    Tls {
        /// What the TLS layer said.
        reason: String,
    },
    /// The gateway could not be reached.
    #[error("could not {doing}: gateway {url} cannot be reached ({reason})")]
    Unreachable {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
        /// The operating system's or TLS layer's error.
        reason: String,
    },
    /// The answer did not come in time.
    #[error("could not {doing}: gateway {url} did not answer within {} s", .after.as_secs())]
    TimedOut {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
        /// How long we waited.
        after: Duration,
    },
    /// 401 or 403.
    #[error("could not {doing}: gateway {url} {} (status {status})", if *.with_token { "does not accept the token" } else { "wants a token" })]
    Unauthorized {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
        /// 401 or 403.
        status: u16,
        /// Whether we sent a token.
        with_token: bool,
    },
    /// Enterprise Gateway starts kernels for named users only, and never for root.
    #[error("could not {doing}: gateway {url} does not start kernels for this user: {reason}")]
    UserRefused {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
        /// The server's text.
        reason: String,
    },
    /// 404 for a kernel: it was culled or deleted, or the server was restarted.
    #[error("could not {doing}: gateway {url} no longer has the kernel (it was culled or deleted)")]
    NoSuchKernel {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
    },
    /// The gateway has no kernelspec of that name.
    #[error("gateway {url} has no kernel `{name}`")]
    NoSuchSpec {
        /// The gateway.
        url: String,
        /// The name that was requested.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Any other status.
    #[error("could not {doing}: gateway {url} answered with status {status}: {reason}")]
    Refused {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
        /// The status.
        status: u16,
        /// The server's text.
        reason: String,
    },
    /// The answer is not that of a Jupyter server.
    #[error("could not {doing}: {url} is not a Jupyter server: {reason}")]
    NotJupyter {
        /// What was tried.
        doing: &'static str,
        /// The gateway.
        url: String,
        /// What is unexpected about it.
        reason: String,
    },
}

impl GatewayError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::BadUrl { .. } => {
                "use the URL from the browser's address bar, for example http://gpu-box:8888/ or https://hub.example.org/user/me/"
                    .to_owned()
            }
            Self::Tls { .. } => "install the system's root certificates (`ca-certificates`)".to_owned(),
            Self::Unreachable { .. } | Self::TimedOut { .. } => {
                "is it running, and can this machine reach it? A certificate of your own is trusted with SSL_CERT_FILE"
                    .to_owned()
            }
            Self::Unauthorized { .. } => {
                "set SPONDE_GATEWAY_TOKEN (or JUPYTER_GATEWAY_AUTH_TOKEN) to the server's token".to_owned()
            }
            Self::UserRefused { .. } => {
                "set KERNEL_USERNAME to a name that Enterprise Gateway accepts; it refuses root".to_owned()
            }
            Self::NoSuchKernel { .. } => "its variables are lost; start it again".to_owned(),
            Self::NoSuchSpec { known, .. } => format!("there are: {}", known.join(", ")),
            Self::NotJupyter { .. } => {
                "is the path right? A JupyterHub user's server is at /user/NAME/, and must be running".to_owned()
            }
            Self::Refused { .. } => return None,
        })
    }

    /// Whether retrying may help: the network or the server had a temporary problem.
    fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::BadUrl { .. }
            | Self::Tls { .. }
            | Self::Unauthorized { .. }
            | Self::UserRefused { .. }
            | Self::NoSuchKernel { .. }
            | Self::NoSuchSpec { .. }
            | Self::NotJupyter { .. } => false,
        }
    }
}

/// The innermost cause of an error: the text of the operating system or of the TLS layer.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_as_a_person_copies_it() {
        let cases = [
            ("http://127.0.0.1:8888", "http://127.0.0.1:8888/", None),
            (
                "http://h:8888/lab?token=abcdef",
                "http://h:8888/",
                Some("abcdef"),
            ),
            ("http://h/tree/?token=", "http://h/", None),
            ("https://hub/user/me", "https://hub/user/me/", None),
            (
                "https://hub/user/me/lab?x=1&token=t#top",
                "https://hub/user/me/",
                Some("t"),
            ),
            (" https://h/api/ ", "https://h/", None),
        ];
        for (text, url, token) in cases {
            let options = GatewayOptions::parse(text, None).unwrap();
            assert_eq!(options.url.as_str(), url, "{text}");
            assert_eq!(options.token, token.map(Token::new), "{text}");
        }
        let both = GatewayOptions::parse("http://h/?token=own", Some("other".to_owned())).unwrap();
        assert_eq!(both.token, Some(Token::new("own")));
        let given = GatewayOptions::parse("http://h/", Some(" other\n".to_owned())).unwrap();
        assert_eq!(given.token, Some(Token::new("other")));
        assert!(!format!("{both:?}").contains("own"));
        for bad in [
            "ftp://h/",
            "h:8888",
            "127.0.0.1",
            "http://me:secret@h/",
            "http://",
        ] {
            let error = GatewayOptions::parse(bad, None).unwrap_err();
            assert!(matches!(error, GatewayError::BadUrl { .. }), "{bad}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_token_shows_itself_nowhere() {
        let token = Token::new("sekret-9");
        assert_eq!(format!("{token:?}"), "Token(***)");
        assert_eq!(token.redact("bad token sekret-9"), "bad token ***");
        assert_eq!(Token::new("x").redact("xylophone"), "xylophone");
    }
}
