//! Limits on pictures for models: size, and number per request. Sorted by provider, from their documentation as of
//! November 2026.
//!
//! A server scales down a picture that is too large, or refuses the whole request; too many pictures are always
//! refused. So we send less than is allowed, which also costs fewer tokens. Where a picture is billed by tiles, one
//! slightly too large for them is shrunk to fit, which applies to most plots.

use super::types::PictureRules;

/// For unknown providers: what every server with picture support accepts.
const CAREFUL: PictureRules = PictureRules {
    longest_side: 1024,
    bytes: 1 << 20,
    most: 8,
    tile: Some(512),
};

/// Keyed by the provider in a model's name, `provider/model`.
const PROVIDERS: [(&str, PictureRules); 8] = [
    // 1568 pixels, 5 MB in base64; above 20 pictures each may have only 2000 pixels.
    ("anthropic", rules(1568, 3 << 20, 20)),
    // Through Converse: 3.75 MB and 20 pictures.
    ("bedrock", rules(1568, 3 << 20, 20)),
    // Tiles of 512 pixels within 2048 x 768; many pictures, 50 MB in total.
    ("openai", tiled(rules(1536, 2 << 20, 20))),
    // The same models, but only 10 pictures.
    ("azure", tiled(rules(1536, 2 << 20, 10))),
    // Tiles of 768 pixels; 20 MB for the whole request.
    ("gemini", rules(1536, 700 << 10, 20)),
    // 4 MB in base64, 5 pictures.
    ("groq", rules(1024, 1 << 20, 5)),
    // 1540 pixels, 8 pictures.
    ("mistral", rules(1536, 2 << 20, 8)),
    // The server behind it is unknown.
    ("openrouter", tiled(rules(1024, 1 << 20, 8))),
];

/// Local servers: a picture is hundreds of tokens for a CPU to process.
const AT_HOME: [&str; 5] = ["ollama", "lmstudio", "llama-server", "vllm", "local"];

const fn rules(longest_side: u32, bytes: usize, most: usize) -> PictureRules {
    PictureRules {
        longest_side,
        bytes,
        most,
        tile: None,
    }
}

/// With OpenAI's tiles.
const fn tiled(rules: PictureRules) -> PictureRules {
    PictureRules {
        tile: Some(512),
        ..rules
    }
}

/// The rules for a model, by its name.
pub fn rules_for(model: &str) -> PictureRules {
    let provider = model.split_once('/').map_or("", |(provider, _)| provider);
    let known = PROVIDERS.iter().find(|(name, _)| *name == provider);
    match known {
        Some((_, rules)) => *rules,
        None if AT_HOME.contains(&provider) => rules(1024, 1 << 20, 4),
        None => CAREFUL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_by_the_provider() {
        assert_eq!(rules_for("anthropic/claude-sonnet-5").longest_side, 1568);
        assert_eq!(rules_for("groq/x/y").most, 5);
        assert_eq!(rules_for("ollama/llava").most, 4);
        assert_eq!(rules_for("somewhere/else"), CAREFUL);
        assert_eq!(rules_for("gpt-4o"), CAREFUL);
    }
}
