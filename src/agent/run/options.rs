//! What a session is started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::approval::{Approval, AtLimit, Rule};
use crate::agent::audit::AuditOptions;
use crate::agent::budget::Budgets;
use crate::agent::facts::inside::UnreadFile;
use crate::agent::facts::picture::GivenPicture;
use crate::agent::guidance::Coaching;
use crate::agent::install::Installs;
use crate::agent::models::Models;
use crate::agent::sql::SqlOptions;
use crate::agent::stdin::StdinPolicy;
use crate::agent::store::Opened;
use crate::agent::tool_calls::ToolCalls;
use crate::agent::undo::UndoOptions;
use crate::kernel::{LaunchOptions, Redactor};
use crate::llm::types::Provider;
use crate::session::{OutputLimits, Transcript};

/// What a session needs.
pub struct AgentOptions {
    /// The model; `None` if only the person runs code.
    pub provider: Option<Arc<dyn Provider>>,
    /// Who knows other models; `None` if this one stays.
    pub models: Option<Arc<dyn Models>>,
    /// The system prompt; changes only with the model.
    pub system: String,
    /// What of it is the person's or the project's, by name.
    pub instructions: Vec<String>,
    /// Facts about the workspace, said to the model before the first question.
    pub facts: Option<String>,
    /// Files of which the kernel is asked once it is there, before the first question.
    pub unread: Vec<UnreadFile>,
    /// Pictures that a model which sees is shown before the first question.
    pub pictures: Vec<GivenPicture>,
    /// What it is told before that: what was done in an earlier session.
    pub before: Option<String>,
    /// Whether the model is helped where it forgets.
    pub coaching: Coaching,
    /// The main kernel.
    pub kernel: LaunchOptions,
    /// Kernels for other languages, each of its own.
    pub others: Vec<LaunchOptions>,
    /// Where the notebook is kept; its directory exists.
    pub notebook: PathBuf,
    /// Directories that are not the workspace's even where they lie in it: other sessions are in them.
    pub own_dirs: Vec<PathBuf>,
    /// The conversation that goes on, as `notebook` has it; `None` for a new one, and where `opened` has it.
    pub transcript: Option<Transcript>,
    /// The session on disk, new or as it was; without it only the notebook is kept.
    pub opened: Option<Opened>,
    /// What code may do, in words for a person.
    pub confinement: String,
    /// When to ask, where no rule says.
    pub approval: Approval,
    /// What is allowed, asked about or forbidden, whatever is asked otherwise.
    pub rules: Vec<Rule>,
    /// Whether code that a client runs is judged by the rules that forbid: it comes from a program, not from the person.
    pub judges_clients: bool,
    /// Requests to the model in one turn.
    pub max_steps: u32,
    /// Whether the model is asked for questions that could follow, when a turn has ended.
    pub follow_ups: bool,
    /// What may be spent.
    pub budgets: Budgets,
    /// What happens when one of these limits is reached.
    pub at_limit: AtLimit,
    /// How long a cell may run.
    pub cell_timeout: Option<Duration>,
    /// Who answers `input()`.
    pub stdin: StdinPolicy,
    /// What SQL has in the Python kernel; `None` where the model is offered none.
    pub sql: Option<SqlOptions>,
    /// What is done where code lacks a module; nothing without.
    pub installs: Option<Installs>,
    /// Bytes of a cell's text outputs that the model gets.
    pub output_budget: usize,
    /// What is kept of outputs.
    pub limits: OutputLimits,
    /// Sampling temperature, if it is to be set.
    pub temperature: Option<f64>,
    /// What is remembered so that turns can be taken back; `None` is nothing.
    pub undo: Option<UndoOptions>,
    /// Whether a spare kernel stands ready, so that a restart costs nothing but the memory.
    pub spare: bool,
    /// Takes secrets out of outputs, and out of what a model is told.
    pub redactor: Redactor,
    /// What calls of tools from code go by; `None` where there are no tools.
    pub tool_calls: Option<ToolCalls>,
    /// Where it is written down who decided what, and what ran; `None` is nowhere.
    pub audit: Option<AuditOptions>,
}
