//! The state that a subscriber needs to start in the middle of a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ItemId;
use crate::agent::approval::{Approval, Finding};
use crate::agent::event::{EventKind, KernelOffer, TurnEnd};
use crate::session::{Edit, OutputLimits, Transcript};

/// A session at one item of its stream: what comes next is the item behind [`Snapshot::at`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The version of the protocol ([`super::VERSION`]).
    pub version: u32,
    /// The newest item that is part of it.
    pub at: ItemId,
    /// The transcript's revision.
    pub revision: u64,
    /// What the session keeps of outputs: edits that cut them go by this.
    pub limits: OutputLimits,
    /// Edits that make the transcript from an empty one.
    pub transcript: Vec<Edit>,
    /// What is no transcript.
    pub state: SessionState,
}

/// What a session is doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionState {
    /// `provider/name` of the model, if there is one.
    pub model: Option<String>,
    /// All kernels that code can be sent to, the main one first.
    pub kernels: Vec<KernelOffer>,
    /// Where the notebook is kept.
    pub notebook: String,
    /// What was added to the model's system prompt, by name.
    pub instructions: Vec<String>,
    /// Whether a person is asked before code of the model runs.
    pub approval: Approval,
    /// What the turn is doing.
    pub turn: TurnPhase,
    /// The `turn_finished` of the latest turn that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<Box<EventKind>>,
    /// Code that the model is writing.
    pub writing: Vec<Writing>,
    /// Questions that wait for a person, oldest first.
    pub pending: Vec<PendingRequest>,
}

/// What a turn is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnPhase {
    /// Nothing: a question can be asked.
    #[default]
    Idle,
    /// The model replies.
    Sampling,
    /// The conversation is being compacted.
    Compacting,
    /// A cell waits for a person's decision.
    Deciding,
    /// A cell of the model or of a person runs.
    Executing,
    /// A limit is reached or a plan is there, and a person says whether it goes on.
    Paused,
}

/// Code of a cell that is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Writing {
    /// The cell that it will be.
    pub cell: String,
    /// The code so far.
    pub code: String,
}

/// A question that any subscriber can answer, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum PendingRequest {
    /// May this cell run? Answered by `decide`.
    Approval {
        /// The cell.
        cell: String,
        /// What was found in its code, by line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
        /// Why a person is asked, in words.
        #[serde(default)]
        reason: String,
    },
    /// Code asks for a line. Answered by `reply`.
    Input {
        /// The cell that runs.
        cell: String,
        /// What to show before the cursor.
        prompt: String,
        /// Whether the answer must be hidden.
        password: bool,
    },
    /// A limit of the turn is reached, or the plan that was asked for is there. Answered by `continue`.
    Continue {
        /// How the turn ends without it.
        #[serde(flatten)]
        end: TurnEnd,
    },
    /// The kernel of a resumed session is gone. Answered by `restore`, or by a question, which goes on without.
    Restore {
        /// Cells of code that can run again.
        code_cells: usize,
    },
}

/// A snapshot as a line among items: `{"type":"snapshot","snapshot":{..}}`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SnapshotLine<'a> {
    /// The only kind of line that is not an item.
    Snapshot {
        /// The snapshot.
        snapshot: &'a Snapshot,
    },
}

impl Snapshot {
    /// The snapshot as a line among items.
    pub fn line(&self) -> SnapshotLine<'_> {
        SnapshotLine::Snapshot { snapshot: self }
    }

    /// The session's transcript. Edits that do not apply are skipped.
    pub fn transcript(&self) -> Transcript {
        let mut transcript = Transcript::new(self.limits);
        for edit in &self.transcript {
            // A session's own snapshot always applies; from other programs we take what does.
            let _ = transcript.apply(edit.clone());
        }
        transcript
    }
}
