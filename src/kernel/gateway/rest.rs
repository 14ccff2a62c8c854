//! The kernels API of a Jupyter server over HTTP (jupyter_server docs, "REST API").
//!
//! Every request has a timeout, every answer a size limit. Answers are untrusted: a kernel's id is put into URLs only
//! if it looks like one.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use serde_json::{Map, Value, json};

use super::{GatewayError, GatewayOptions, dial, root_cause};
use crate::jupyter::kernelspec::{InterruptMode, KernelSpec};

/// Timeout of every request except a start.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Most bytes read of an answer. A list of kernelspecs is the largest, with a few kB each.
const MAX_ANSWER: usize = 8 << 20;

/// Most characters of a server's own text in an error.
const MAX_WORDS: usize = 300;

/// Our `User-Agent`.
const USER_AGENT: &str = concat!("sponde/", env!("CARGO_PKG_VERSION"));

/// A client for one gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway {
    options: Arc<GatewayOptions>,
    client: Client,
    /// For https: shared with the websocket.
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// A kernelspec on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteSpec {
    /// Its name.
    pub name: String,
    /// Its kernel.json; fields that the server leaves out are empty.
    pub spec: KernelSpec,
}

/// A server's kernelspecs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteSpecs {
    /// The server's default.
    pub default: Option<String>,
    /// All, by name.
    pub specs: Vec<RemoteSpec>,
}

/// What a server reports about a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteKernel {
    /// Its kernelspec's name.
    pub name: String,
    /// `starting`, `idle`, `busy`, `restarting`, `dead`, or something else.
    pub execution_state: String,
}

impl Gateway {
    /// Creates a client; sends nothing yet.
    ///
    /// # Errors
    /// [`GatewayError::Tls`], for https only.
    pub fn new(options: GatewayOptions) -> Result<Self, GatewayError> {
        let builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(dial::CONNECT_TIMEOUT)
            // A redirect leads to a login page, which is of no use to us.
            .redirect(redirect::Policy::none())
            .no_proxy();
        let tls = |error: &dyn std::error::Error| GatewayError::Tls {
            reason: root_cause(error),
        };
        let (builder, config) = if options.url.scheme() == "https" {
            let config = dial::tls_config().map_err(|error| tls(&error))?;
            (
                builder.tls_backend_preconfigured(config.clone()),
                Some(Arc::new(config)),
            )
        } else {
            // reqwest takes its TLS provider from the process even where it is not used.
            let _ = rustls::crypto::ring::default_provider().install_default();
            (builder.tls_certs_only([]), None)
        };
        Ok(Self {
            client: builder.build().map_err(|error| tls(&error))?,
            options: Arc::new(options),
            tls: config,
        })
    }

    /// Base URL for messages; it contains no credentials.
    pub fn url(&self) -> &str {
        self.options.url.as_str()
    }

    pub(super) fn base(&self) -> &Url {
        &self.options.url
    }

    pub(super) fn tls(&self) -> Option<&Arc<rustls::ClientConfig>> {
        self.tls.as_ref()
    }

    /// Authentication headers, for requests and for the websocket.
    pub(super) fn auth_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.options.token {
            let value = format!("{} {}", self.options.auth_scheme, token.expose());
            // A token that is not a valid header value is left out; the server will report it as missing.
            if let Ok(mut value) = HeaderValue::try_from(value) {
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        headers
    }

    /// The kernels that it can start.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn kernelspecs(&self) -> Result<RemoteSpecs, GatewayError> {
        let doing = "list the kernels";
        let answer = self
            .ask(Method::GET, "api/kernelspecs", None, doing, REQUEST_TIMEOUT)
            .await?;
        let Some(specs) = answer.get("kernelspecs").and_then(Value::as_object) else {
            return Err(self.not_jupyter(doing, "there is no `kernelspecs` in its answer"));
        };
        let mut specs: Vec<RemoteSpec> = specs
            .iter()
            .map(|(name, entry)| RemoteSpec {
                name: name.clone(),
                spec: read_spec(name, entry.get("spec").and_then(Value::as_object)),
            })
            .collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(RemoteSpecs {
            default: text(&answer, "default"),
            specs,
        })
    }

    /// Starts a kernel and returns its id. On a cluster that may take as long as a machine takes to boot: `limit`.
    /// Gateways use `KERNEL_*` from `env`, and what else they are configured to; jupyter_server ignores it.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn start(
        &self,
        kernelspec: &str,
        env: &[(String, String)],
        limit: Duration,
    ) -> Result<String, GatewayError> {
        let doing = "start a kernel";
        let env: Map<String, Value> = env
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let body = json!({"name": kernelspec, "env": env});
        let answer = self
            .ask(Method::POST, "api/kernels", Some(&body), doing, limit)
            .await?;
        text(&answer, "id")
            .filter(|id| is_id(id))
            .ok_or_else(|| self.not_jupyter(doing, "its answer names no kernel"))
    }

    /// The state of the kernel `id`.
    ///
    /// # Errors
    /// [`GatewayError::NoSuchKernel`] when it is gone.
    pub async fn kernel(&self, id: &str) -> Result<RemoteKernel, GatewayError> {
        let doing = "ask for the kernel";
        let path = format!("api/kernels/{id}");
        let answer = self
            .ask(Method::GET, &path, None, doing, REQUEST_TIMEOUT)
            .await?;
        Ok(RemoteKernel {
            name: text(&answer, "name").unwrap_or_default(),
            execution_state: text(&answer, "execution_state").unwrap_or_default(),
        })
    }

    /// Interrupts it as its kernelspec says.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn interrupt(&self, id: &str) -> Result<(), GatewayError> {
        let path = format!("api/kernels/{id}/interrupt");
        self.ask(
            Method::POST,
            &path,
            Some(&json!({})),
            "interrupt the kernel",
            REQUEST_TIMEOUT,
        )
        .await?;
        Ok(())
    }

    /// Restarts it under the same id.
    ///
    /// # Errors
    /// [`GatewayError`]; a kernel that is gone is [`GatewayError::Refused`] with status 500 on most servers.
    pub async fn restart(&self, id: &str, limit: Duration) -> Result<(), GatewayError> {
        let path = format!("api/kernels/{id}/restart");
        self.ask(
            Method::POST,
            &path,
            Some(&json!({})),
            "restart the kernel",
            limit,
        )
        .await?;
        Ok(())
    }

    /// Ends it. Succeeds if it is already gone.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn delete(&self, id: &str) -> Result<(), GatewayError> {
        let path = format!("api/kernels/{id}");
        match self
            .ask(
                Method::DELETE,
                &path,
                None,
                "end the kernel",
                REQUEST_TIMEOUT,
            )
            .await
        {
            Ok(_) | Err(GatewayError::NoSuchKernel { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and returns the answer; an empty one is `null`.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        doing: &'static str,
        limit: Duration,
    ) -> Result<Value, GatewayError> {
        let url = self
            .options
            .url
            .join(path)
            .map_err(|error| GatewayError::BadUrl {
                reason: error.to_string(),
            })?;
        let mut request = self
            .client
            .request(method, url)
            .headers(self.auth_headers())
            .timeout(limit);
        if let Some(body) = body {
            request = request.json(body);
        }
        let failed = |error: &reqwest::Error| {
            let url = self.url().to_owned();
            if error.is_timeout() {
                GatewayError::TimedOut {
                    doing,
                    url,
                    after: limit,
                }
            } else {
                GatewayError::Unreachable {
                    doing,
                    url,
                    reason: root_cause(error),
                }
            }
        };
        let mut response = request.send().await.map_err(|error| failed(&error))?;
        let status = response.status();
        let bytes = self
            .read(&mut response)
            .await
            .map_err(|error| failed(&error))?;
        if !status.is_success() {
            return Err(self.refusal(doing, status, &bytes));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|_| self.not_jupyter(doing, "its answer is not JSON, or too long"))
    }

    async fn read(&self, response: &mut Response) -> Result<Vec<u8>, reqwest::Error> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            let room = MAX_ANSWER - bytes.len();
            bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if bytes.len() >= MAX_ANSWER {
                break;
            }
        }
        Ok(bytes)
    }

    /// The error for a status that is not a success.
    pub(super) fn refusal(
        &self,
        doing: &'static str,
        status: StatusCode,
        body: &[u8],
    ) -> GatewayError {
        let url = self.url().to_owned();
        let words = self.words(status, body);
        match status.as_u16() {
            403 if words.contains("KERNEL_USERNAME")
                || words.contains("not authorized to start") =>
            {
                GatewayError::UserRefused {
                    doing,
                    url,
                    reason: words,
                }
            }
            status @ (401 | 403) => GatewayError::Unauthorized {
                doing,
                url,
                status,
                with_token: self.options.token.is_some(),
            },
            404 if words.to_lowercase().contains("kernel") => {
                GatewayError::NoSuchKernel { doing, url }
            }
            301 | 302 | 303 | 307 | 308 => {
                self.not_jupyter(doing, "it redirects, perhaps to a login page")
            }
            404 | 405 => self.not_jupyter(doing, &format!("status {status}")),
            status => GatewayError::Refused {
                doing,
                url,
                status,
                reason: words,
            },
        }
    }

    /// The server's own text: `reason` and `message` of its JSON, without tracebacks.
    fn words(&self, status: StatusCode, body: &[u8]) -> String {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut words: Vec<String> = ["message", "reason"]
            .into_iter()
            .filter_map(|key| text(&answer, key))
            .filter(|words| !words.trim().is_empty())
            .collect();
        words.dedup();
        if words.is_empty() {
            words.push(status.canonical_reason().unwrap_or("no reason").to_owned());
        }
        let words: String = words
            .join("; ")
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(MAX_WORDS)
            .collect();
        match &self.options.token {
            Some(token) => token.redact(&words),
            None => words,
        }
    }

    pub(super) fn not_jupyter(&self, doing: &'static str, reason: &str) -> GatewayError {
        GatewayError::NotJupyter {
            doing,
            url: self.url().to_owned(),
            reason: reason.to_owned(),
        }
    }
}

impl RemoteSpecs {
    /// The spec of that name, or the default one.
    ///
    /// # Errors
    /// [`GatewayError::NoSuchSpec`].
    pub fn find(self, name: Option<&str>, gateway: &Gateway) -> Result<RemoteSpec, GatewayError> {
        let known: Vec<String> = self.specs.iter().map(|spec| spec.name.clone()).collect();
        let wanted = name
            .map(str::to_owned)
            .or(self.default)
            .unwrap_or_else(|| "python3".to_owned());
        self.specs
            .into_iter()
            .find(|spec| spec.name == wanted)
            .ok_or_else(|| GatewayError::NoSuchSpec {
                url: gateway.url().to_owned(),
                name: wanted,
                known,
            })
    }
}

fn read_spec(name: &str, spec: Option<&Map<String, Value>>) -> KernelSpec {
    let empty = Map::new();
    let spec = spec.unwrap_or(&empty);
    let string = |key: &str| spec.get(key).and_then(Value::as_str).map(str::to_owned);
    let argv = spec.get("argv").and_then(Value::as_array);
    KernelSpec {
        argv: argv
            .into_iter()
            .flatten()
            .filter_map(|arg| arg.as_str().map(str::to_owned))
            .collect(),
        display_name: string("display_name").unwrap_or_else(|| name.to_owned()),
        language: string("language").unwrap_or_default(),
        interrupt_mode: match string("interrupt_mode").as_deref() {
            Some("message") => InterruptMode::Message,
            _ => InterruptMode::Signal,
        },
        env: std::collections::BTreeMap::new(),
        metadata: spec
            .get("metadata")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
    }
}

/// Whether it is safe in a URL path. Servers use UUIDs.
fn is_id(id: &str) -> bool {
    (1..=128).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(token: Option<&str>) -> Gateway {
        let options =
            GatewayOptions::parse("http://127.0.0.1:1/", token.map(str::to_owned)).unwrap();
        Gateway::new(options).unwrap()
    }

    /// Answers recorded from jupyter_server 2.21, Kernel Gateway 3.0 and Enterprise Gateway 3.3.
    #[test]
    fn a_refusal_says_what_to_do() {
        let url = "http://127.0.0.1:1/".to_owned();
        let doing = "start a kernel";
        let unauthorized = |status, with_token| GatewayError::Unauthorized {
            doing,
            url: url.clone(),
            status,
            with_token,
        };
        let cases = [
            (
                403,
                r#"{"message": "Forbidden", "reason": null}"#,
                unauthorized(403, true),
            ),
            (
                401,
                r#"{"reason": "Unauthorized", "message": ""}"#,
                unauthorized(401, true),
            ),
            (
                403,
                r#"{"reason": "User 'root' is not authorized to start kernel 'Python 3 (ipykernel)'. Ensure KERNEL_USERNAME is set to an appropriate value and retry the request.", "message": ""}"#,
                GatewayError::UserRefused {
                    doing,
                    url: url.clone(),
                    reason: "User 'root' is not authorized to start kernel 'Python 3 (ipykernel)'. Ensure KERNEL_USERNAME is set to an appropriate value and retry the request.".to_owned(),
                },
            ),
            (
                404,
                r#"{"message": "Kernel does not exist: 0", "reason": null}"#,
                GatewayError::NoSuchKernel {
                    doing,
                    url: url.clone(),
                },
            ),
            (
                404,
                "<html>nginx</html>",
                GatewayError::NotJupyter {
                    doing,
                    url: url.clone(),
                    reason: "status 404 Not Found".to_owned(),
                },
            ),
            (
                500,
                r#"{"reason": "Internal Server Error", "message": "Unknown\nserver error sekret-9", "traceback": "..."}"#,
                GatewayError::Refused {
                    doing,
                    url: url.clone(),
                    status: 500,
                    reason: "Unknown server error ***; Internal Server Error".to_owned(),
                },
            ),
        ];
        for (status, body, expected) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            let error = gateway(Some("sekret-9")).refusal(doing, status, body.as_bytes());
            assert_eq!(error, expected);
        }
        let error = gateway(None).refusal(doing, StatusCode::FORBIDDEN, b"");
        assert_eq!(error, unauthorized(403, false));
        assert_eq!(
            error.to_string(),
            "could not start a kernel: gateway http://127.0.0.1:1/ wants a token (status 403)"
        );
    }

    #[test]
    fn specs_are_read_whatever_is_left_out() {
        let spec = json!({"argv": ["python", 3], "display_name": "Python 3", "language": "python",
            "interrupt_mode": "message", "metadata": {"debugger": true}});
        assert_eq!(
            read_spec("python3", spec.as_object()),
            KernelSpec {
                argv: vec!["python".to_owned()],
                display_name: "Python 3".to_owned(),
                language: "python".to_owned(),
                interrupt_mode: InterruptMode::Message,
                env: std::collections::BTreeMap::new(),
                metadata: json!({"debugger": true}).as_object().unwrap().clone(),
            }
        );
        assert_eq!(read_spec("x", None).display_name, "x");
        let error = RemoteSpecs::default()
            .find(None, &gateway(None))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "gateway http://127.0.0.1:1/ has no kernel `python3`"
        );
    }

    #[test]
    fn only_an_id_goes_into_a_path() {
        assert!(is_id("78a150ca-d1cc-4fc3-909c-335a33ea53ae"));
        for bad in ["", "../../x", "a/b", "a?b", "a b", "%2e", &"a".repeat(129)] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_that_says_so() {
        let error = gateway(None).kernelspecs().await.unwrap_err();
        assert_eq!(
            error,
            GatewayError::Unreachable {
                doing: "list the kernels",
                url: "http://127.0.0.1:1/".to_owned(),
                reason: "Connection refused (os error 111)".to_owned(),
            }
        );
    }
}
