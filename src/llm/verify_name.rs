//! Decides whether `antropic/claude`, with `OPENAI_BASE_URL` set, is a model of that server or a misspelt provider.
//!
//! Model names may contain a slash (`qwen/qwen3` at OpenRouter, `Qwen/Qwen3-8B` at vLLM), so the server is asked: the
//! models it lists are its own. A typo must not send a conversation elsewhere, so a name that the server does not list
//! is an error. A server that lists nothing is trusted, unless the first part of the name is a slightly misspelt
//! provider. `openai-compatible/NAME` always means that server.

use std::time::Duration;

use reqwest::Client;

use super::catalog::{CatalogError, Setup, near};
use super::endpoint::{Endpoint, ProviderKind};
use super::listing;
use super::providers::{PROVIDERS, ProviderChoice};

/// How long a server may take to list its models.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks that `name`, which resolved to `endpoint`, is meant for that server.
///
/// # Errors
/// [`CatalogError::NotListed`], [`CatalogError::Misspelt`].
pub async fn check(
    name: &str,
    endpoint: &Endpoint,
    client: &Client,
    setup: Setup<'_>,
) -> Result<(), CatalogError> {
    let Some(prefix) = doubtful(name, setup) else {
        return Ok(());
    };
    if endpoint.kind != ProviderKind::OpenAiCompatible {
        return Ok(());
    }
    let key = endpoint.key.as_ref();
    let listed = listing::list(client, endpoint.kind, &endpoint.base_url, key);
    let listed = tokio::time::timeout(PATIENCE, listed).await;
    let listed: Vec<String> = listed
        .ok()
        .and_then(Result::ok)
        .unwrap_or_default()
        .into_iter()
        .map(|listed| listed.name)
        .collect();
    judge(name.trim(), prefix, &endpoint.base_url, &listed, setup)
}

/// The first part of a name with several, if it is not a provider.
fn doubtful<'a>(name: &'a str, setup: Setup<'_>) -> Option<&'a str> {
    let (prefix, _) = name.trim().split_once('/')?;
    let is_known = prefix == "local" || !matches!(ProviderChoice::named(prefix, setup), Ok(None));
    (!is_known).then_some(prefix)
}

fn judge(
    name: &str,
    prefix: &str,
    server: &str,
    listed: &[String],
    setup: Setup<'_>,
) -> Result<(), CatalogError> {
    let table = PROVIDERS.iter().map(|provider| provider.name);
    let own = setup.providers.keys().map(String::as_str);
    let known: Vec<&str> = table.chain(own).chain(["local"]).collect();
    if listed.is_empty() {
        return match known.iter().find(|known| is_slip(prefix, known)) {
            Some(meant) => Err(CatalogError::Misspelt {
                name: name.to_owned(),
                prefix: prefix.to_owned(),
                meant: (*meant).to_owned(),
            }),
            None => Ok(()),
        };
    }
    // `qwen/qwen3:free`: the suffix selects a variant, which few lists include.
    let plain = name.rsplit_once(':').map_or(name, |(plain, _)| plain);
    if listed
        .iter()
        .any(|listed| listed == name || listed == plain)
    {
        return Ok(());
    }
    let mut alike = near(prefix, known.into_iter());
    if alike.is_empty() {
        alike = near(name, listed.iter().map(String::as_str));
    }
    Err(CatalogError::NotListed {
        name: name.to_owned(),
        server: server.to_owned(),
        near: alike,
    })
}

/// Whether `word` is `known` with a letter or two wrong. A longer name with the same beginning is different:
/// `mistralai` and `deepseek-ai` are makers of models.
fn is_slip(word: &str, known: &str) -> bool {
    let word = word.to_ascii_lowercase();
    match strsim::damerau_levenshtein(&word, known) {
        0 | 1 => true,
        2 => known.len() > 4 && !word.starts_with(known),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::providers::{AllSettings, Settings};

    fn outcome(name: &str, listed: &[&str]) -> String {
        let providers = AllSettings::from([("box".to_owned(), Settings::default())]);
        let setup = Setup {
            environment: &|_| None,
            providers: &providers,
        };
        let Some(prefix) = doubtful(name, setup) else {
            return "no doubt".to_owned();
        };
        let listed: Vec<String> = listed.iter().map(|&name| name.to_owned()).collect();
        match judge(name, prefix, "http://s/v1", &listed, setup) {
            Ok(()) => "its own".to_owned(),
            Err(CatalogError::Misspelt { meant, .. }) => format!("means {meant}"),
            Err(CatalogError::NotListed { near, .. }) => format!("near {}", near.join(", ")),
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn names_with_a_slash() {
        let router = ["qwen/qwen3-coder", "mistralai/mistral-small", "plain"];
        for (name, listed, expected) in [
            ("plain", &router[..], "no doubt"),
            ("anthropic/x", &router, "no doubt"),
            ("local/x", &router, "no doubt"),
            ("box/x", &router, "no doubt"),
            ("openai-compatible/nosuch/x", &router, "no doubt"),
            ("qwen/qwen3-coder", &router, "its own"),
            ("mistralai/mistral-small:free", &router, "its own"),
            ("antropic/claude", &router, "near anthropic"),
            ("qwen/qwen3-codr", &router, "near qwen/qwen3-coder"),
            ("zzz/yyy", &router, "near "),
            ("Qwen/Qwen3-8B", &[], "its own"),
            ("mistralai/Mistral-7B", &[], "its own"),
            ("deepseek-ai/DeepSeek-V3", &[], "its own"),
            ("meta-llama/Llama-3", &[], "its own"),
            ("google/gemma-3", &[], "its own"),
            ("antropic/claude", &[], "means anthropic"),
            ("Antrhopic/claude", &[], "means anthropic"),
            ("opnai/gpt-5", &[], "means openai"),
            ("locl/qwen", &[], "means local"),
        ] {
            assert_eq!(outcome(name, listed), expected, "{name} of {listed:?}");
        }
    }
}
