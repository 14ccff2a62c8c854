//! What a front end can ask of a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::approval::Approval;
use crate::agent::undo::UndoTo;

/// What a front end can ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// A question to the model.
    Submit {
        /// The words.
        text: String,
    },
    /// A question that the model answers with a plan first, and runs nothing. Then the turn waits
    /// ([`super::EventKind::ContinueRequested`] with [`super::TurnEnd::Planned`]) until a [`Command::Continue`] has it carry
    /// the plan out; meanwhile it asks about risky code only, also where each cell is asked about otherwise.
    Plan {
        /// The words.
        text: String,
    },
    /// The answer to [`super::EventKind::ApprovalRequested`].
    Decide {
        /// Which cell.
        cell: String,
        /// What is to happen.
        decision: Decision,
    },
    /// The answer to [`super::EventKind::InputRequested`].
    Reply {
        /// Which cell.
        cell: String,
        /// The line, without newline.
        value: String,
    },
    /// Nobody answers [`super::EventKind::InputRequested`]: the code gets an error.
    RefuseInput {
        /// Which cell.
        cell: String,
        /// Why, for the cell's output.
        reason: String,
    },
    /// Code of the person's own; also while code of the model waits for a [`Command::Decide`], which is asked for again
    /// after it.
    Run {
        /// The code.
        code: String,
        /// Its language, or the name of a kernel; `None` is the main kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// Take turns back: answered by [`super::EventKind::Undone`], [`super::EventKind::UndoAsks`] or [`super::EventKind::UndoRefused`].
    Undo {
        /// How far.
        to: UndoTo,
        /// Also if not all will be as it was: the answer to [`super::EventKind::UndoAsks`].
        #[serde(default)]
        anyway: bool,
    },
    /// What can be gone back to: answered by [`super::EventKind::Checkpoints`].
    Checkpoints,
    /// Let another model answer from the next question on; told by [`super::EventKind::ModelChanged`] or
    /// [`super::EventKind::ModelUnchanged`].
    SetModel {
        /// As for `--model`.
        model: String,
    },
    /// When to ask before code of the model runs, from the next cell on.
    SetApproval {
        /// When.
        approval: Approval,
    },
    /// The answer to [`super::EventKind::SessionResumed`] when the kernel's memory is gone. Anyone who asks a question instead
    /// goes on without a replay.
    Restore {
        /// Run the session's code again, in order.
        replay: bool,
    },
    /// An answer to [`super::EventKind::KernelBusy`]: end that kernel, and go on in a new one. An
    /// [`Command::Interrupt`] interrupts it, and without an answer it is waited for.
    ReplaceKernel,
    /// The answer to [`super::EventKind::ContinueRequested`].
    Continue {
        /// Whether to go on.
        go_on: bool,
        /// What the person says with it, for the model. A plan is written anew with it, and waits again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// Compact the conversation for the model now.
    Compact,
    /// Ask the model for three questions that could follow: told by [`super::EventKind::FollowUps`], and ends with
    /// [`super::EventKind::TurnFinished`].
    Suggest,
    /// Stop what is going on.
    Interrupt,
    /// Start the kernel of the latest cell anew, whatever it does: all its variables are lost.
    RestartKernel,
    /// End the session.
    Shutdown,
}

/// What happens with proposed code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Run it.
    Run,
    /// Run it, and do not ask again in this session about code in which the same is found.
    Always,
    /// Do not run it, and forbid code in which the same is found in this session. The model is told, and goes on.
    Never,
    /// Run this instead.
    Change {
        /// The new code.
        source: String,
    },
    /// Do not run it.
    Decline {
        /// Words for the model.
        reason: Option<String>,
    },
}
