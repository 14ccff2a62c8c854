//! A compaction as a transcript cell and as notebook metadata.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What was done so that a conversation fits its model's window again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compaction {
    /// Id of the last cell it stands for.
    pub through: String,
    /// What became of these cells.
    pub measure: Measure,
    /// Tokens of the prompt before, as estimated.
    pub before: u64,
    /// Tokens of the prompt after, as estimated.
    pub after: u64,
}

/// What becomes of old cells in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Their outputs are short notes, their pictures are gone.
    Outputs,
    /// One summary stands for all of them.
    Summary {
        /// Who wrote what was done.
        by: Writer,
        /// What was done: the part of the summary that is not put together from the transcript and the kernel.
        work: String,
    },
}

impl Compaction {
    /// The title, for people.
    pub(in crate::session) fn title(&self) -> String {
        format!(
            "Compacted for the model: {} to {} tokens",
            self.before, self.after
        )
    }
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The model that the summary is for.
    Model,
    /// We, by rules ([`work_so_far`]).
    Rules,
}

impl Writer {
    /// Its name in notebooks and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Rules => "rules",
        }
    }
}

/// The notebook metadata of a compaction.
pub(in crate::session) fn metadata(compaction: &Compaction) -> Map<String, Value> {
    let mut ours = Map::new();
    let mut put = |key: &str, value: Value| ours.insert(key.to_owned(), value);
    put("role", "compaction".into());
    put("through", compaction.through.clone().into());
    put("tokens_before", compaction.before.into());
    put("tokens_after", compaction.after.into());
    match &compaction.measure {
        Measure::Outputs => {
            put("measure", "outputs".into());
        }
        Measure::Summary { by, work } => {
            put("measure", "summary".into());
            put("by", by.name().into());
            put("work", work.clone().into());
        }
    }
    ours
}

/// Reads a compaction back from [`metadata`].
pub(in crate::session) fn of_metadata(ours: &Value) -> Option<Compaction> {
    let text = |key: &str| ours.get(key)?.as_str();
    let number = |key: &str| ours.get(key).and_then(Value::as_u64).unwrap_or_default();
    let measure = match text("measure")? {
        "outputs" => Measure::Outputs,
        "summary" => Measure::Summary {
            by: match text("by")? {
                "model" => Writer::Model,
                _ => Writer::Rules,
            },
            work: text("work")?.to_owned(),
        },
        _ => return None,
    };
    Some(Compaction {
        through: text("through")?.to_owned(),
        measure,
        before: number("tokens_before"),
        after: number("tokens_after"),
    })
}
