//! The settings of a session as plain values. A front end fills them in; a `None` field uses the configuration or the
//! default.

use std::path::PathBuf;

use super::answer::AnswerSchema;
use super::piped::Piped;
use super::sandbox::SandboxSettings;
use super::trust::TrustQuestion;
use crate::agent::StdinPolicy;
use crate::agent::approval::Approval;
use crate::agent::install::InstallPolicy;
use crate::config::tools::ToolServers;
use crate::llm::mode::CodeMode;

/// The settings of a session.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct SessionSettings {
    /// The model, as `provider/name` or a bare name.
    pub model: Option<String>,
    /// How the model asks to run code.
    pub code_mode: Option<CodeMode>,
    /// Kernels by name, language or path, the main one first; if empty, those that the session had, or the default.
    pub kernels: Vec<String>,
    /// Who answers input requests of code.
    pub stdin: Option<StdinPolicy>,
    /// A kernel that is already running: its connection file, a part of its name, or empty for the newest.
    pub existing: Option<String>,
    /// Whether the kernels keep running when the session ends.
    pub keep_kernels: bool,
    /// URL of a Jupyter server that runs the kernels.
    pub gateway: Option<String>,
    /// What code may do.
    pub sandbox: SandboxSettings,
    /// When to install packages that code needs.
    pub install: Option<InstallPolicy>,
    /// When a person is asked before the model's code runs.
    pub approval: Option<Approval>,
    /// Whether the project's instructions are used although nobody has trusted them.
    pub trust_project: bool,
    /// The project's files that a person has just trusted.
    pub agreed: Vec<TrustQuestion>,
    /// Text that a client adds to the system prompt.
    pub instructions: Option<String>,
    /// The required form of the answer.
    pub answer: Option<AnswerSchema>,
    /// Files that the model is told about, relative to the working directory.
    pub files: Vec<PathBuf>,
    /// Databases of the configuration for SQL, in addition to those that every session has.
    pub databases: Vec<String>,
    /// MCP servers whose tools code can call, in addition to the configured ones.
    pub tool_servers: ToolServers,
    /// Piped input: a file of the session that the model is told about.
    pub piped: Option<Piped>,
    /// The notebook file; an existing one is continued.
    pub notebook: Option<PathBuf>,
    /// Whether the code of a continued notebook runs again first.
    pub replay: bool,
    /// Limit of model requests per question.
    pub max_steps: Option<u32>,
    /// Whether the model suggests follow-up questions.
    pub follow_ups: bool,
    /// Limit of the session's cost in US dollars.
    pub max_cost: Option<f64>,
    /// Limit of the session's tokens, sent and received.
    pub max_tokens: Option<u64>,
    /// Time limit of the model's cells in seconds.
    pub cell_timeout: Option<u64>,
    /// Whether someone can answer questions.
    pub attended: bool,
    /// Whether the session ends with its first answer.
    pub lifetime: Lifetime,
    /// When its model is opened.
    pub model_at: ModelAt,
    /// Whether the `forbid` rules of config.toml also apply to the clients' own code, because they are programs.
    pub judges_clients: bool,
}

/// When a session's model is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelAt {
    /// At the start. Without a model the session fails to start.
    #[default]
    Start,
    /// At the start, if one is configured. Otherwise the session only runs the person's own code, until someone sets a
    /// model.
    IfAny,
    /// When someone sets one: a program runs its own code, and no spare kernel is started.
    Wish,
}

/// The expected length of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Several questions: turns can be undone, and a spare kernel is ready.
    #[default]
    Conversation,
    /// It ends with its first answer.
    OneQuestion,
}
