//! What pictures a model takes: how large, and how many in one request. By who serves it, as their documentation said
//! in November 2026.
//!
//! A picture that is too large is scaled down by its server, or the whole request is refused; one too many is always
//! refused. So what is sent is smaller than what is allowed, which also costs fewer tokens. Where a picture is paid by tiles,
//! one that is a little too large for them is made to fit: most plots are.

use super::types::PictureRules;

/// Where nothing is known: what every server takes that takes pictures.
const CAREFUL: PictureRules = PictureRules {
    longest_side: 1024,
    bytes: 1 << 20,
    most: 8,
    tile: Some(512),
};

/// By the provider in the name of a model, `provider/model`.
const PROVIDERS: [(&str, PictureRules); 8] = [
    // 1568 pixels, 5 MB in base64; above 20 pictures each may have only 2000 pixels.
    ("anthropic", rules(1568, 3 << 20, 20)),
    // Through Converse 3.75 MB and 20 pictures.
    ("bedrock", rules(1568, 3 << 20, 20)),
    // Tiles of 512 pixels within 2048 x 768; many pictures, 50 MB together.
    ("openai", tiled(rules(1536, 2 << 20, 20))),
    // The same models, but 10 pictures.
    ("azure", tiled(rules(1536, 2 << 20, 10))),
    // Tiles of 768 pixels; 20 MB for the whole request.
    ("gemini", rules(1536, 700 << 10, 20)),
    // 4 MB in base64, 5 pictures.
    ("groq", rules(1024, 1 << 20, 5)),
    // 1540 pixels, 8 pictures.
    ("mistral", rules(1536, 2 << 20, 8)),
    // Whatever is behind it.
    ("openrouter", tiled(rules(1024, 1 << 20, 8))),
];

/// Servers at home: a picture is hundreds of tokens that a processor reads.
const AT_HOME: [&str; 5] = ["ollama", "lmstudio", "llama-server", "vllm", "local"];

const fn rules(longest_side: u32, bytes: usize, most: usize) -> PictureRules {
    PictureRules {
        longest_side,
        bytes,
        most,
        tile: None,
    }
}

/// In OpenAI's tiles.
const fn tiled(rules: PictureRules) -> PictureRules {
    PictureRules {
        tile: Some(512),
        ..rules
    }
}

/// The rules for the model of this name.
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
