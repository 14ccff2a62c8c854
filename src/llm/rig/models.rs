//! What the library's catalog knows of a model.

use rig_core::catalog::{Catalog, ModelSpec};

use super::super::types::Price;

/// Facts about a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Facts {
    /// Context window in tokens.
    pub(in super::super) context_window: Option<u64>,
    /// The most tokens of a reply.
    pub(in super::super) max_output: Option<u64>,
    /// Whether it reads images.
    pub(in super::super) vision: bool,
    /// Whether it calls tools.
    pub(in super::super) tools: bool,
    /// What it costs.
    pub(in super::super) price: Option<Price>,
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
/// that name by its maker. The first call reads the catalog, some milliseconds.
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
    // Anyone who serves it elsewhere sets their own price.
    Some(Facts {
        price: None,
        ..facts_of(by_maker()?)
    })
}

/// The models of `vendor` that are not on their way out, by name.
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
