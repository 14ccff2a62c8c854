//! What there is to use when nobody chose a model: keys in the environment, else servers running on
//! this machine.
//!
//! Keys are only looked at. Servers are asked for their models, all at once, each within
//! a third of a second; what does not answer in time, or does not answer like a model server, is not there.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::StreamExt;
use serde::Deserialize;
use serde_json::Value;

use super::catalog::{self, Environment};
use super::endpoint::{Endpoint, Key, ProviderKind};
use super::http;
use super::providers::{PROVIDERS, Provider, set};

/// How long a server on this machine may take to list its models.
const PATIENCE: Duration = Duration::from_millis(300);

/// The same for a server the person named in `OPENAI_BASE_URL`, which may be far away.
const LONG_PATIENCE: Duration = Duration::from_secs(5);

/// No list of models is longer than this, in bytes.
const LIST_LIMIT: usize = 1 << 20;

/// Servers that may be running here, in order of preference.
const SERVERS: [ProviderKind; 4] = [
    ProviderKind::Ollama,
    ProviderKind::LmStudio,
    ProviderKind::LlamaServer,
    ProviderKind::Vllm,
];

/// Something that could be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A key, with the model its provider would be asked for by default.
    Key {
        /// Whose key it is.
        kind: ProviderKind,
        /// The variable it is in.
        variable: String,
        /// The full name of a sensible model.
        model: String,
    },
    /// A server that answered.
    Server(Server),
}

/// A model server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What it seems to be.
    pub kind: ProviderKind,
    /// Where it is.
    pub base_url: String,
    /// The models it lists, those that only embed left out. May be empty.
    pub models: Vec<String>,
}

impl Server {
    /// The endpoint of one of its models.
    pub fn endpoint(&self, model: &str, environment: Environment<'_>) -> Endpoint {
        catalog::served(self.kind, &self.base_url, model, environment)
    }
}

/// Looks around: keys first, best first; servers only if there is no key. A server named in
/// `OPENAI_BASE_URL` counts as chosen by the person and comes before everything.
pub async fn detect(environment: Environment<'_>) -> Vec<Found> {
    if set(environment, "OPENAI_BASE_URL").is_some() {
        let named = server(ProviderKind::OpenAiCompatible, environment, LONG_PATIENCE).await;
        if let Some(named) = named.filter(|named| !named.models.is_empty()) {
            return vec![Found::Server(named)];
        }
    }
    let keys = keys(environment);
    if keys.is_empty() {
        let running = servers(environment).await;
        running.into_iter().map(Found::Server).collect()
    } else {
        keys
    }
}

/// The keys in the environment, best first.
pub fn keys(environment: Environment<'_>) -> Vec<Found> {
    PROVIDERS
        .iter()
        .filter_map(|provider| {
            let model = provider.default_model?;
            let Key { variable, .. } = provider.key(environment)?;
            Some(Found::Key {
                kind: provider.kind,
                variable: variable?,
                model: format!("{}/{model}", provider.name),
            })
        })
        .collect()
}

/// The model servers running on this machine, best first.
pub async fn servers(environment: Environment<'_>) -> Vec<Server> {
    let asked = SERVERS.map(|kind| server(kind, environment, PATIENCE));
    join_all(asked).await.into_iter().flatten().collect()
}

async fn server(
    kind: ProviderKind,
    environment: Environment<'_>,
    patience: Duration,
) -> Option<Server> {
    let provider = Provider::of(kind);
    let base_url = provider.base_url(None, environment).ok()?;
    let key = provider.key(environment);
    let listed = tokio::time::timeout(patience, list(kind, &base_url, key.as_ref())).await;
    Some(Server {
        kind,
        models: listed.ok()??,
        base_url,
    })
}

/// The models a server lists, or `None` if it is no model server.
async fn list(kind: ProviderKind, base_url: &str, key: Option<&Key>) -> Option<Vec<String>> {
    let client = http::client(base_url).ok()?;
    let url = match kind {
        ProviderKind::Ollama => format!("{base_url}/api/tags"),
        _ => format!("{base_url}/models"),
    };
    let mut request = client.get(url);
    if let Some(key) = key {
        request = request.bearer_auth(key.secret.expose());
    }
    let response = request.send().await.ok()?.error_for_status().ok()?;
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.ok()?);
        if body.len() > LIST_LIMIT {
            return None;
        }
    }
    let listing: Listing = serde_json::from_slice(&body).ok()?;
    Some(listing.names())
}

/// A list of models, OpenAI's (`data`) or Ollama's (`models`). A server may send both.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Listing {
    OpenAi { data: Vec<Value> },
    Ollama { models: Vec<Value> },
}

impl Listing {
    fn names(&self) -> Vec<String> {
        let (entries, field) = match self {
            Self::OpenAi { data } => (data, "id"),
            Self::Ollama { models } => (models, "name"),
        };
        entries
            .iter()
            .filter_map(|entry| entry.get(field)?.as_str())
            .filter(|name| !name.contains("embed"))
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers every request with `body`, or never if there is none.
    async fn listen(body: Option<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(body) = body else {
                    held.push(stream);
                    continue;
                };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let start = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
                let response = format!("{start}content-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(response.as_bytes()).await;
            }
        });
        format!("http://{address}")
    }

    fn environment(pairs: Vec<(&'static str, String)>) -> impl Fn(&str) -> Option<String> {
        let pairs = Arc::new(pairs);
        move |name| {
            pairs
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| value.clone())
        }
    }

    #[tokio::test]
    async fn running_servers_are_found_and_silent_ones_passed_over() {
        let ollama = listen(Some(
            r#"{"models":[{"name":"nomic-embed-text:latest"},{"name":"qwen3:4b"}]}"#,
        ))
        .await;
        let llama = listen(Some(
            r#"{"object":"list","data":[{"id":"local"}],"models":[]}"#,
        ))
        .await;
        let silent = listen(None).await;
        let web_page = listen(Some("<html>hello</html>")).await;
        let environment = environment(vec![
            ("OLLAMA_HOST", ollama.clone()),
            ("LLAMA_SERVER_BASE_URL", llama.clone()),
            ("LMSTUDIO_BASE_URL", silent),
            ("VLLM_BASE_URL", web_page),
        ]);

        let began = Instant::now();
        let found = detect(&environment).await;

        assert!(began.elapsed() < Duration::from_secs(2));
        assert_eq!(
            found,
            vec![
                Found::Server(Server {
                    kind: ProviderKind::Ollama,
                    base_url: ollama,
                    models: vec!["qwen3:4b".to_owned()],
                }),
                Found::Server(Server {
                    kind: ProviderKind::LlamaServer,
                    base_url: format!("{llama}/v1"),
                    models: vec!["local".to_owned()],
                }),
            ]
        );
    }

    #[tokio::test]
    async fn a_key_spares_the_search() {
        let environment = environment(vec![
            ("ANTHROPIC_API_KEY", "sk-a".to_owned()),
            ("OPENAI_API_KEY", " ".to_owned()),
            ("GROQ_API_KEY", "g".to_owned()),
        ]);
        let key = |kind, variable: &str, model: &str| Found::Key {
            kind,
            variable: variable.to_owned(),
            model: model.to_owned(),
        };
        assert_eq!(
            detect(&environment).await,
            vec![
                key(
                    ProviderKind::Anthropic,
                    "ANTHROPIC_API_KEY",
                    "anthropic/claude-sonnet-5-5"
                ),
                key(
                    ProviderKind::Groq,
                    "GROQ_API_KEY",
                    "groq/openai/gpt-oss-120b"
                ),
            ]
        );
    }

    #[tokio::test]
    async fn a_server_the_person_named_comes_first() {
        let named = listen(Some(
            r#"{"data":[{"id":"gpt-4o"},{"id":"text-embedding-3"}]}"#,
        ))
        .await;
        let environment = environment(vec![
            ("OPENAI_BASE_URL", named.clone()),
            ("ANTHROPIC_API_KEY", "sk-a".to_owned()),
        ]);
        assert_eq!(
            detect(&environment).await,
            vec![Found::Server(Server {
                kind: ProviderKind::OpenAiCompatible,
                base_url: format!("{named}/v1"),
                models: vec!["gpt-4o".to_owned()],
            })]
        );
    }
}
