//! What comes to the machine and what it says: plain values.

use crate::agent::approval::{Analysis, Ruling};
use crate::agent::event::{Decision, TurnEnd};
use crate::kernel::Verdict;
use crate::session::journal::Permit;

/// A cell that the model wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its cell.
    pub cell: String,
    /// The code.
    pub code: String,
    /// Its language.
    pub language: String,
    /// What was found in it.
    pub analysis: Analysis,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A question was asked.
    Submit,
    /// The same, and a plan is wanted before anything is done.
    Plan,
    /// The person runs a cell of their own.
    RunOwn {
        /// Which cell.
        cell: String,
    },
    /// The person wants the conversation compacted.
    Compact,
    /// It is.
    Compacted,
    /// The model's reply is complete.
    Replied {
        /// Calls that can run.
        calls: Vec<Call>,
        /// Whether there were calls that are answered already: they cannot run, or need not.
        broken: bool,
        /// What the reply lacks although it has no calls, for the model.
        nudge: Option<String>,
    },
    /// The model could not be asked.
    ModelFailed {
        /// What happened.
        message: String,
        /// The variable of a wrong key.
        key_variable: Option<String>,
    },
    /// A person decided.
    Decided {
        /// On which cell.
        cell: String,
        /// What.
        decision: Decision,
        /// What was found in the code that a change brings.
        changed: Option<Analysis>,
    },
    /// A cell ended.
    Ran {
        /// How.
        verdict: Verdict,
        /// What is still missing although it ran well, for the model.
        nudge: Option<String>,
    },
    /// There is no kernel to run it.
    KernelFailed {
        /// What happened.
        message: String,
    },
    /// The request would cost more than is left.
    OverBudget {
        /// How much, in words.
        message: String,
    },
    /// The person lets the turn go on.
    GoOn {
        /// Whether they have said something with it: of a plan, what is to be different.
        is_changed: bool,
    },
    /// They do not.
    GiveUp,
    /// The person wants it to stop.
    Interrupt,
    /// The person wants the kernel to start anew.
    Restart,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask the model.
    Sample,
    /// Stop asking it, or compacting.
    CancelSampling,
    /// Compact the conversation.
    Compact,
    /// Point something out to the model, with the latest cell's outputs.
    Hint(String),
    /// Tell the model something by itself.
    Tell(String),
    /// Ask the person about a cell.
    Ask {
        /// Which cell.
        cell: String,
    },
    /// Ask the person whether to go on, where the turn would end so.
    AskToGoOn(TurnEnd),
    /// What was too much is allowed once more.
    RaiseBudget,
    /// Run a cell.
    Execute {
        /// Which cell.
        cell: String,
    },
    /// The person changed a cell's code.
    Change {
        /// Which cell.
        cell: String,
        /// The new code.
        source: String,
    },
    /// The person declined a cell.
    Decline {
        /// Which cell.
        cell: String,
        /// Words for the model.
        reason: Option<String>,
    },
    /// A rule forbids a cell.
    Forbid {
        /// Which cell.
        cell: String,
        /// The rule.
        ruling: Box<Ruling>,
    },
    /// From now on such code runs without a question.
    Remember(Permit),
    /// A cell is not run.
    Skip {
        /// Which cell.
        cell: String,
        /// Why, for the model.
        reason: String,
    },
    /// Interrupt the kernel.
    InterruptKernel,
    /// Start the kernel anew.
    RestartKernel,
    /// The turn is over.
    End(TurnEnd),
}
