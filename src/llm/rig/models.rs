//! What the library's catalog knows of a model.

use rig_core::catalog::Catalog;

/// Facts about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Facts {
    /// Context window in tokens.
    pub(in super::super) context_window: Option<u64>,
    /// Whether it reads images.
    pub(in super::super) vision: bool,
}

/// Where the makers of models stand in the catalog, for servers that only host them.
const MAKERS: [&str; 6] = [
    "openai",
    "anthropic",
    "gcp.gemini",
    "mistral",
    "deepseek",
    "openrouter",
];

/// What is known of `model` as served by `vendor` (the catalog's name for it), or else of a model of
/// that name by whoever makes it. The first call reads the catalog, some milliseconds.
pub(in super::super) fn facts(vendor: &str, model: &str) -> Option<Facts> {
    let catalog = Catalog::builtin();
    let exact = catalog.resolve(&format!("{vendor}/{model}"));
    let by_maker = || {
        let name = model.rsplit('/').next().unwrap_or(model);
        MAKERS.iter().find_map(|maker| {
            catalog
                .resolve(&format!("{maker}/{model}"))
                .or_else(|| catalog.resolve(&format!("{maker}/{name}")))
        })
    };
    let spec = exact.or_else(by_maker)?;
    Some(Facts {
        context_window: spec.context_window.map(u64::from),
        vision: spec.input.image,
    })
}
