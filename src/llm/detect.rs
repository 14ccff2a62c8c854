//! Finds a model when none is configured: keys in the environment, else servers running on this machine.
//!
//! Keys are not tested. All servers are asked for their models at once, each with a limit of a third of a second; a
//! server that does not answer in time, or not like a model server, counts as absent.

use std::time::Duration;

use futures_util::future::join_all;

use super::catalog::Setup;
use super::endpoint::{Endpoint, KeySource, ProviderKind};
use super::http;
use super::listing::{self, Listed};
use super::providers::{PROVIDERS, Provider, ProviderChoice, set};

/// How long a server on this machine may take to list its models.
const PATIENCE: Duration = Duration::from_millis(300);

/// The limit for a server named in `OPENAI_BASE_URL`, which may be far away.
const LONG_PATIENCE: Duration = Duration::from_secs(5);

/// Servers that may be running here, in order of preference.
const SERVERS: [ProviderKind; 4] = [
    ProviderKind::Ollama,
    ProviderKind::LmStudio,
    ProviderKind::LlamaServer,
    ProviderKind::Vllm,
];

/// A usable source of models.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelSource {
    /// A key, with the model its provider would be asked for by default.
    Key {
        /// Where the key comes from.
        source: KeySource,
        /// The full name of the provider's default model.
        model: String,
    },
    /// A server that answered.
    Server(Server),
}

/// A model server that answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Which server it appears to be.
    pub kind: ProviderKind,
    /// Where it is.
    pub base_url: String,
    /// The models it lists, without embedding-only models. May be empty.
    pub models: Vec<Listed>,
}

impl Server {
    /// The endpoint of one of its models.
    pub fn endpoint(&self, model: &Listed, setup: Setup<'_>) -> Endpoint {
        let place = ProviderChoice::of(Provider::of(self.kind), setup);
        let mut endpoint = place.endpoint(&model.name, &self.base_url, setup.environment);
        model.facts.fill(&mut endpoint.info);
        endpoint
    }
}

/// Finds sources: keys first, best first; servers only if there is no key. A server named in `OPENAI_BASE_URL` is the
/// person's choice and precedes everything.
pub async fn detect(setup: Setup<'_>) -> Vec<ModelSource> {
    if set(setup.environment, "OPENAI_BASE_URL").is_some() {
        let named = server(ProviderKind::OpenAiCompatible, setup, LONG_PATIENCE).await;
        if let Some(named) = named.filter(|named| !named.models.is_empty()) {
            return vec![ModelSource::Server(named)];
        }
    }
    let keys = keys(setup);
    if keys.is_empty() {
        let running = servers(setup).await;
        running.into_iter().map(ModelSource::Server).collect()
    } else {
        keys
    }
}

/// The available keys, best first: those in the environment, and commands that print one.
pub fn keys(setup: Setup<'_>) -> Vec<ModelSource> {
    PROVIDERS
        .iter()
        .filter_map(|provider| {
            let place = ProviderChoice::of(provider, setup);
            let model = place.usual_model()?;
            let command = place.key_command();
            let key = place.key(setup.environment).map(|key| key.source);
            let source = key.or_else(|| command.map(|_| KeySource::Command(place.name.clone())))?;
            Some(ModelSource::Key {
                source,
                model: format!("{}/{model}", place.name),
            })
        })
        .collect()
}

/// The model servers running on this machine, best first.
pub async fn servers(setup: Setup<'_>) -> Vec<Server> {
    let asked = SERVERS.map(|kind| server(kind, setup, PATIENCE));
    join_all(asked).await.into_iter().flatten().collect()
}

async fn server(kind: ProviderKind, setup: Setup<'_>, patience: Duration) -> Option<Server> {
    let place = ProviderChoice::of(Provider::of(kind), setup);
    let base_url = place.base_url(None, setup.environment).ok()?;
    let key = place.key(setup.environment);
    let client = http::client(&base_url).ok()?;
    let listed = listing::list(&client, kind, &base_url, key.as_ref());
    let listed = tokio::time::timeout(patience, listed).await;
    Some(Server {
        kind,
        models: listed.ok()?.ok()?,
        base_url,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::llm::listing::ModelFacts;
    use crate::llm::providers::{AllSettings, KeyCommand, Settings};

    /// A server that answers every request with `body`; without a body it never answers.
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

    fn plain(name: &str) -> Listed {
        Listed {
            name: name.to_owned(),
            facts: ModelFacts::default(),
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
        let providers = AllSettings::new();
        let setup = Setup {
            environment: &environment,
            providers: &providers,
        };
        let found = detect(setup).await;

        assert!(began.elapsed() < Duration::from_secs(2));
        assert_eq!(
            found,
            vec![
                ModelSource::Server(Server {
                    kind: ProviderKind::Ollama,
                    base_url: ollama,
                    models: vec![plain("qwen3:4b")],
                }),
                ModelSource::Server(Server {
                    kind: ProviderKind::LlamaServer,
                    base_url: format!("{llama}/v1"),
                    models: vec![plain("local")],
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
        let key = |source, model: &str| ModelSource::Key {
            source,
            model: model.to_owned(),
        };
        let variable = |name: &str| KeySource::Variable(name.to_owned());
        let mistral = Settings {
            api_key_command: Some(KeyCommand::Shell("never run here".to_owned())),
            ..Settings::default()
        };
        let providers = AllSettings::from([("mistral".to_owned(), mistral)]);
        let setup = Setup {
            environment: &environment,
            providers: &providers,
        };
        assert_eq!(
            detect(setup).await,
            vec![
                key(variable("ANTHROPIC_API_KEY"), "anthropic/claude-sonnet-5-5"),
                key(variable("GROQ_API_KEY"), "groq/openai/gpt-oss-120b"),
                key(
                    KeySource::Command("mistral".to_owned()),
                    "mistral/mistral-large-latest"
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
        let providers = AllSettings::new();
        let setup = Setup {
            environment: &environment,
            providers: &providers,
        };
        assert_eq!(
            detect(setup).await,
            vec![ModelSource::Server(Server {
                kind: ProviderKind::OpenAiCompatible,
                base_url: format!("{named}/v1"),
                models: vec![plain("gpt-4o")],
            })]
        );
    }
}
