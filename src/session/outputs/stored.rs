//! Outputs as a journal stores them: without sizes that can be recomputed.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Cut, Item, Kept, Whole};

/// What is read; what is written is the same.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Outputs {
    items: Vec<Item>,
    clear_on_next: bool,
    cut: Option<Cut>,
    whole: Whole,
}

impl From<Outputs> for super::Outputs {
    fn from(stored: Outputs) -> Self {
        let mut kept = Kept::default();
        let mut items = stored.items;
        for item in &mut items {
            if let Item::Rich(rich) = item {
                rich.kept = Kept::of(&rich.output, rich.display_id.as_deref());
            }
            kept.add(item.kept());
        }
        Self {
            items,
            clear_on_next: stored.clear_on_next,
            kept,
            cut: stored.cut,
            whole: stored.whole,
        }
    }
}
