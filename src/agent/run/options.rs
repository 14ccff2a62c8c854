//! The options of a session.

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

/// The options of a session.
pub struct AgentOptions {
    /// The model; `None` if only the person runs code.
    pub provider: Option<Arc<dyn Provider>>,
    /// Opens other models; `None` if this one is fixed.
    pub models: Option<Arc<dyn Models>>,
    /// The system prompt; it only changes with the model.
    pub system: String,
    /// The names of the parts of it that come from the person or the project.
    pub instructions: Vec<String>,
    /// Facts about the workspace, for the model before the first question.
    pub facts: Option<String>,
    /// Files that the kernel is asked about once it is ready, before the first question.
    pub unread: Vec<UnreadFile>,
    /// Pictures that a model that sees gets before the first question.
    pub pictures: Vec<GivenPicture>,
    /// Text for the model before these facts: what was done in an earlier session.
    pub before: Option<String>,
    /// Whether the model is reminded of what it forgets.
    pub coaching: Coaching,
    /// The main kernel.
    pub kernel: LaunchOptions,
    /// Kernels for other languages, one each.
    pub others: Vec<LaunchOptions>,
    /// The path of the notebook; its directory exists.
    pub notebook: PathBuf,
    /// Directories that do not count as workspace even inside it: they contain other sessions.
    pub own_dirs: Vec<PathBuf>,
    /// The conversation to continue, from `notebook`; `None` for a new one, and if `opened` contains it.
    pub transcript: Option<Transcript>,
    /// The session on disk, new or resumed; without it only the notebook is stored.
    pub opened: Option<Opened>,
    /// What code may do, as text for a person.
    pub confinement: String,
    /// When to ask, unless a rule applies.
    pub approval: Approval,
    /// Rules that allow, ask about or forbid code, overriding the approval mode.
    pub rules: Vec<Rule>,
    /// Whether `forbid` rules also apply to clients' code: it comes from a program, not from the person.
    pub judges_clients: bool,
    /// Limit of model requests per turn.
    pub max_steps: u32,
    /// Whether the model is asked for follow-up questions at the end of a turn.
    pub follow_ups: bool,
    /// The spending limits.
    pub budgets: Budgets,
    /// What happens when such a limit is reached.
    pub at_limit: AtLimit,
    /// Time limit of a cell.
    pub cell_timeout: Option<Duration>,
    /// Who answers `input()`.
    pub stdin: StdinPolicy,
    /// The SQL settings of the Python kernel; `None` if the model is not offered SQL.
    pub sql: Option<SqlOptions>,
    /// How missing modules are installed; `None`: not at all.
    pub installs: Option<Installs>,
    /// How many bytes of a cell's text outputs the model gets.
    pub output_budget: usize,
    /// How much of outputs is stored.
    pub limits: OutputLimits,
    /// Sampling temperature, if set.
    pub temperature: Option<f64>,
    /// What is stored so that turns can be undone; `None`: nothing.
    pub undo: Option<UndoOptions>,
    /// Whether a spare kernel is ready, so that a restart costs only memory.
    pub spare: bool,
    /// Redacts secrets from outputs, and from what a model is told.
    pub redactor: Redactor,
    /// The state for tool calls from code; `None` if there are no tools.
    pub tool_calls: Option<ToolCalls>,
    /// Where decisions and executed code are logged; `None`: nowhere.
    pub audit: Option<AuditOptions>,
}
