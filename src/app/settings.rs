//! What a session is to be, as plain values. A front end fills it in; what is `None` is the configuration's, or usual.

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

/// How a session is to be.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct SessionSettings {
    /// The model, as `provider/name` or a bare name.
    pub model: Option<String>,
    /// How the model asks to run code.
    pub code_mode: Option<CodeMode>,
    /// Kernels by name, language or path, the main one first; empty for what the session had or what is usual.
    pub kernels: Vec<String>,
    /// Who answers code that asks for input.
    pub stdin: Option<StdinPolicy>,
    /// A kernel that runs already: its connection file, a part of its name, or empty for the newest.
    pub existing: Option<String>,
    /// Whether the kernels go on when the session ends.
    pub keep_kernels: bool,
    /// URL of a Jupyter server that runs the kernels.
    pub gateway: Option<String>,
    /// What code may do.
    pub sandbox: SandboxSettings,
    /// When packages are installed that code needs.
    pub install: Option<InstallPolicy>,
    /// When a person is asked before the model's code runs.
    pub approval: Option<Approval>,
    /// Whether the project's instructions are followed although nobody has trusted them.
    pub trust_project: bool,
    /// The project's files that a person has just agreed to.
    pub agreed: Vec<TrustQuestion>,
    /// What a client adds to the system prompt.
    pub instructions: Option<String>,
    /// What the answer has to be.
    pub answer: Option<AnswerSchema>,
    /// Files that the model is told about, relative to the working directory.
    pub files: Vec<PathBuf>,
    /// Databases of the configuration that SQL can use, besides those that every session has.
    pub databases: Vec<String>,
    /// MCP servers whose tools code can call, besides those of the configuration.
    pub tool_servers: ToolServers,
    /// What was piped in: a file of the session that the model is told about.
    pub piped: Option<Piped>,
    /// Where the notebook is kept; one that is there goes on.
    pub notebook: Option<PathBuf>,
    /// Whether the code of a notebook that goes on runs again first.
    pub replay: bool,
    /// How often the model may be asked for one question.
    pub max_steps: Option<u32>,
    /// Whether the model suggests questions that could follow an answer.
    pub follow_ups: bool,
    /// US dollars that the session may cost.
    pub max_cost: Option<f64>,
    /// Tokens that the session may take, sent and received.
    pub max_tokens: Option<u64>,
    /// Seconds that a cell of the model may run.
    pub cell_timeout: Option<u64>,
    /// Whether somebody is there who can answer questions.
    pub attended: bool,
    /// Whether the session is over with its first answer, or goes on.
    pub lifetime: Lifetime,
    /// When its model is opened.
    pub model_at: ModelAt,
    /// Whether clients are programs, whose own code the `forbid` rules of config.toml hold for as for a model's.
    pub judges_clients: bool,
}

/// When a session's model is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelAt {
    /// At the start. Without a model the session does not start.
    #[default]
    Start,
    /// At the start, if any is set up. Without one the session runs the person's own code, until somebody sets a model.
    IfAny,
    /// When somebody sets one: a program runs its own code, and no spare kernel waits for it.
    Wish,
}

/// How long a session is going to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Questions follow each other: turns can be taken back, and a spare kernel stands ready.
    #[default]
    Conversation,
    /// It is over with its first answer.
    OneQuestion,
}
