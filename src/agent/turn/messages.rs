//! The machine's inputs and effects, as plain values.

use crate::agent::approval::{Analysis, Ruling};
use crate::agent::event::{Decision, TurnEnd};
use crate::kernel::Verdict;
use crate::session::journal::Permit;

/// A cell that the model wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The cell's id.
    pub cell: String,
    /// The code.
    pub code: String,
    /// Its language.
    pub language: String,
    /// Findings in the code.
    pub analysis: Analysis,
}

/// An input to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A question was asked.
    Submit,
    /// A question was asked that needs a plan first.
    Plan,
    /// The person runs a cell of their own.
    RunOwn {
        /// The cell's id.
        cell: String,
    },
    /// The person requested compaction.
    Compact,
    /// Compaction is done.
    Compacted,
    /// The model's reply is complete.
    Replied {
        /// Calls that can run.
        calls: Vec<Call>,
        /// Whether other calls were already answered: they cannot run, or need not.
        broken: bool,
        /// A reminder for the model, if a reply without calls lacks something.
        nudge: Option<String>,
    },
    /// The request to the model failed.
    ModelFailed {
        /// What happened.
        message: String,
        /// The variable of the rejected key.
        key_variable: Option<String>,
    },
    /// A person decided.
    Decided {
        /// The cell's id.
        cell: String,
        /// The decision.
        decision: Decision,
        /// Findings in the changed code.
        changed: Option<Analysis>,
    },
    /// A cell ended.
    Ran {
        /// How it ended.
        verdict: Verdict,
        /// A reminder for the model, if something is missing although the cell succeeded.
        nudge: Option<String>,
    },
    /// No kernel is available.
    KernelFailed {
        /// What happened.
        message: String,
    },
    /// The next request would exceed the budget.
    OverBudget {
        /// A description of the amounts.
        message: String,
    },
    /// The person continues the turn.
    GoOn {
        /// Whether they added words: for a plan, what to change.
        is_changed: bool,
    },
    /// The person ends the turn.
    GiveUp,
    /// The person interrupts.
    Interrupt,
    /// The person restarts the kernel.
    Restart,
}

/// An effect to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Request a reply from the model.
    Sample,
    /// Cancel the request, or the compaction.
    CancelSampling,
    /// Compact the conversation.
    Compact,
    /// Add a hint for the model to the latest cell's outputs.
    Hint(String),
    /// Send the model a message of its own.
    Tell(String),
    /// Ask the person about a cell.
    Ask {
        /// The cell's id.
        cell: String,
    },
    /// Ask the person whether to continue; otherwise the turn ends with this.
    AskToGoOn(TurnEnd),
    /// Grant the exceeded budget once more.
    RaiseBudget,
    /// Run a cell.
    Execute {
        /// The cell's id.
        cell: String,
    },
    /// The person changed a cell's code.
    Change {
        /// The cell's id.
        cell: String,
        /// The new code.
        source: String,
    },
    /// The person declined a cell.
    Decline {
        /// The cell's id.
        cell: String,
        /// Words for the model.
        reason: Option<String>,
    },
    /// A rule forbids a cell.
    Forbid {
        /// The cell's id.
        cell: String,
        /// The ruling.
        ruling: Box<Ruling>,
    },
    /// Allow code of this kind without asking from now on.
    Remember(Permit),
    /// Do not run a cell.
    Skip {
        /// The cell's id.
        cell: String,
        /// Why, for the model.
        reason: String,
    },
    /// Interrupt the kernel.
    InterruptKernel,
    /// Restart the kernel.
    RestartKernel,
    /// The turn is over.
    End(TurnEnd),
}
