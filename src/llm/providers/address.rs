//! Normalises base URLs to the form that each wire expects.

use reqwest::Url;

use super::super::endpoint::ProviderKind;

/// The base URL in the form the wire expects, or why it is invalid.
pub(super) fn clean(kind: ProviderKind, text: &str) -> Result<String, String> {
    let text = match kind {
        ProviderKind::Ollama => ollama_host(text),
        _ => text.to_owned(),
    };
    let url = Url::parse(&text).map_err(|error| format!("cannot be read: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("is not an `http` or `https` address".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password, which would end up in messages".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("holds a `?` or a `#`: only what comes before is the address".to_owned());
    }
    let mut clean = url.as_str().trim_end_matches('/').to_owned();
    let path = url.path().trim_end_matches('/');
    let strip = |clean: &mut String, endings: &[&str]| {
        for ending in endings {
            if let Some(rest) = clean.strip_suffix(ending) {
                clean.truncate(rest.len());
            }
        }
    };
    match kind {
        // For these the library adds the version itself.
        ProviderKind::Anthropic => strip(&mut clean, &["/v1/messages", "/v1"]),
        ProviderKind::Gemini => strip(&mut clean, &["/v1beta", "/v1"]),
        ProviderKind::Ollama => {}
        ProviderKind::Mistral => strip(&mut clean, &["/v1"]),
        // The deployment's path is added per model.
        ProviderKind::Azure => {
            if let Some((root, _)) = clean.split_once("/openai/deployments") {
                clean.truncate(root.len());
            }
            if !clean.ends_with("/openai/v1") {
                strip(&mut clean, &["/openai"]);
            }
        }
        // Several wires, each with its own path.
        ProviderKind::Bedrock => {
            strip(
                &mut clean,
                &["/anthropic/v1/messages", "/anthropic", "/openai/v1", "/v1"],
            );
        }
        // The address of the server rather than of its API.
        ProviderKind::OpenAi
        | ProviderKind::OpenAiResponses
        | ProviderKind::OpenAiChat
        | ProviderKind::OpenRouter
        | ProviderKind::Groq
        | ProviderKind::DeepSeek
        | ProviderKind::LmStudio
        | ProviderKind::LlamaServer
        | ProviderKind::Vllm
        | ProviderKind::OpenAiCompatible => {
            if path.is_empty() {
                clean.push_str("/v1");
            }
            strip(&mut clean, &["/chat/completions", "/responses"]);
        }
    }
    Ok(clean)
}

/// Bedrock's address for a model: Claude uses Anthropic's wire, the others OpenAI's. AWS has two hosts for that, with
/// different paths (docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html).
pub(super) fn bedrock(root: &str, model: &str) -> String {
    if is_claude(model) {
        format!("{root}/anthropic")
    } else if root.contains("bedrock-mantle") {
        format!("{root}/v1")
    } else {
        format!("{root}/openai/v1")
    }
}

/// Whether a model of Bedrock is one of Anthropic's: `anthropic.claude-..`, `eu.anthropic.claude-..`.
pub(in super::super) fn is_claude(model: &str) -> bool {
    model.contains("anthropic.") || model.starts_with("claude")
}

/// Whether `base_url` is `home`, or one of its regions.
pub(super) fn is_at(base_url: &str, home: &str) -> bool {
    let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
    match (host(base_url), host(home)) {
        (Some(there), Some(home)) => there == home || there.ends_with(&format!(".{home}")),
        _ => false,
    }
}

/// `OLLAMA_HOST` as Ollama reads it: scheme and port are optional, and the wildcard listen address becomes a local one.
fn ollama_host(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ if scheme == "https" => (rest, "443"),
        _ => (rest, "11434"),
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" => "127.0.0.1",
        host => host,
    };
    format!("{scheme}://{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_known_by_their_addresses() {
        let home = "https://api.openai.com/v1";
        assert!(is_at("https://api.openai.com/v1", home));
        assert!(is_at("https://eu.api.openai.com/v1", home));
        assert!(!is_at("https://api.openai.com.example/v1", home));
        assert!(!is_at("http://127.0.0.1:4010/v1", home));
        assert!(!is_at("http://127.0.0.1:4010/v1", ""));
    }

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        let cases = [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0:8000", "http://127.0.0.1:8000"),
            (":8000", "http://127.0.0.1:8000"),
            ("box.lan", "http://box.lan:11434"),
            ("https://box.lan/", "https://box.lan:443"),
            ("http://[::1]:11434", "http://[::1]:11434"),
        ];
        for (host, expected) in cases {
            assert_eq!(ollama_host(host), expected, "{host}");
        }
    }

    #[test]
    fn addresses_are_those_of_an_api() {
        use ProviderKind as Kind;
        let cases = [
            (Kind::Vllm, "http://gpu:8000", "http://gpu:8000/v1"),
            (
                Kind::Vllm,
                "http://gpu/api/chat/completions",
                "http://gpu/api",
            ),
            (
                Kind::OpenAiResponses,
                "http://gpu/v1/responses",
                "http://gpu/v1",
            ),
            (Kind::Anthropic, "http://gpu/v1/", "http://gpu"),
            (Kind::Gemini, "http://gpu/v1beta", "http://gpu"),
            (
                Kind::Azure,
                "https://r.openai.azure.com/",
                "https://r.openai.azure.com",
            ),
            (
                Kind::Azure,
                "https://r.openai.azure.com/openai/deployments/d/chat/completions",
                "https://r.openai.azure.com",
            ),
            (
                Kind::Azure,
                "https://r.openai.azure.com/openai/v1/",
                "https://r.openai.azure.com/openai/v1",
            ),
            (
                Kind::Bedrock,
                "https://bedrock-mantle.eu-west-1.api.aws/v1",
                "https://bedrock-mantle.eu-west-1.api.aws",
            ),
        ];
        for (kind, url, expected) in cases {
            assert_eq!(clean(kind, url), Ok(expected.to_owned()), "{url}");
        }
        assert!(clean(Kind::Vllm, "http://gpu/v1?key=secret").is_err());
    }

    #[test]
    fn bedrock_has_a_path_for_each_wire() {
        let runtime = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        let mantle = "https://bedrock-mantle.eu-west-1.api.aws";
        let cases = [
            (runtime, "eu.anthropic.claude-sonnet-5", "/anthropic"),
            (runtime, "openai.gpt-oss-120b-1:0", "/openai/v1"),
            (mantle, "anthropic.claude-sonnet-5", "/anthropic"),
            (mantle, "openai.gpt-oss-120b", "/v1"),
        ];
        for (root, model, path) in cases {
            assert_eq!(bedrock(root, model), format!("{root}{path}"));
        }
    }
}
