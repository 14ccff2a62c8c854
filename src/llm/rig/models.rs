//! Model facts from the library's catalog.

use rig_core::catalog::{Catalog, ModelSpec};

use super::super::types::Price;

/// Facts about a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Facts {
    /// Context window in tokens.
    pub(in super::super) context_window: Option<u64>,
    /// Maximum tokens of a reply.
    pub(in super::super) max_output: Option<u64>,
    /// Whether it reads images.
    pub(in super::super) vision: bool,
    /// Whether it calls tools.
    pub(in super::super) tools: bool,
    /// What it costs.
    pub(in super::super) price: Option<Price>,
}

/// Makers of models in the catalog, for servers that only host them.
const MAKERS: [&str; 6] = [
    "openai",
    "anthropic",
    "gcp.gemini",
    "mistral",
    "deepseek",
    "openrouter",
];

/// Facts about `model` as served by `vendor` (the catalog's name for it), or else about the maker's model of that name.
/// The first call loads the catalog, which takes some milliseconds.
pub(in super::super) fn facts(vendor: &str, model: &str) -> Option<Facts> {
    let catalog = Catalog::builtin();
    if let Some(spec) = catalog.resolve(&format!("{vendor}/{model}")) {
        return Some(facts_of(spec));
    }
    let by_maker = || {
        let name = model.rsplit('/').next().unwrap_or(model);
        MAKERS.iter().find_map(|maker| {
            catalog
                .resolve(&format!("{maker}/{model}"))
                .or_else(|| catalog.resolve(&format!("{maker}/{name}")))
        })
    };
    // Other hosts set their own price.
    Some(Facts {
        price: None,
        ..facts_of(by_maker()?)
    })
}

/// The models of `vendor` by name, without deprecated ones.
pub(in super::super) fn of_vendor(vendor: &str) -> Vec<&'static str> {
    let all = Catalog::builtin().iter();
    all.filter(|spec| spec.provider.vendor() == vendor && !spec.deprecated)
        .map(|spec| spec.id.as_str())
        .collect()
}

fn facts_of(spec: &ModelSpec) -> Facts {
    Facts {
        context_window: spec.context_window.map(u64::from),
        max_output: spec.max_output_tokens.map(u64::from),
        vision: spec.input.image,
        tools: spec.tools,
        price: spec.pricing.map(|pricing| Price {
            input: pricing.input,
            cached: pricing.cache_read.unwrap_or(pricing.input),
            written: pricing.cache_write.unwrap_or(pricing.input),
            output: pricing.output,
        }),
    }
}
