//! The command line, as clap parses it. Nothing is decided here.

mod acp;
mod ask;
mod audit;
mod kernels;
mod keys;
mod mcp;
mod profile;
mod run;
mod sandbox;
mod serve;
mod sessions;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::agent::StdinPolicy;
use crate::agent::approval::Approval;
use crate::agent::install::InstallPolicy;
use crate::app::{Lifetime, ModelAt, SessionSettings};
use crate::cli::completers;
use crate::error::Failure;
use crate::llm::mode::CodeMode;

pub use acp::{AcpArgs, AcpCommand};
pub use ask::{AnswerArgs, AskArgs};
pub use audit::{AuditArgs, AuditCommand, AuditFormat};
pub use kernels::{InstallArgs, KernelsArgs, KernelsCommand, ProbeArgs};
pub use keys::{KeysArgs, KeysCommand};
pub use mcp::{McpArgs, McpCommand};
pub use profile::ProfileArgs;
pub use run::{ProgressArg, RunArgs};
pub use sandbox::SandboxArgs;
pub use serve::ServeArgs;
pub use sessions::{
    AttachArgs, CompletionsArgs, ForkArgs, ResumeArgs, SessionListArgs, SessionsArgs,
    SessionsCommand,
};

/// Ask in plain words: a model writes code, a real Jupyter kernel on this machine runs it, and the conversation is a
/// notebook.
#[derive(Debug, Parser)]
#[command(
    name = "sponde",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  sponde                                        chat, with a kernel that remembers
  sponde 'what is in rain.csv?'                 the same, with a first question
  sponde ask 'plot the monthly rain' -f rain.csv --yes
  sponde ask 'why is revenue falling?' -f sales.csv --notebook report.ipynb
  sponde run analysis.ipynb -o executed.ipynb   execute a notebook, no model
  sponde run -c '1+1'

Models:
  Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, run Ollama or another local server,
  or get a small model for this machine with `sponde models pull`.
  `sponde doctor` says what is missing.

Exit codes:
  0 done                  3 approval needed or denied
  1 turn or cell failed   4 kernel could not start or died
  2 usage                 5 model could not be asked        130 interrupted"
)]
pub struct Cli {
    /// What to do [default: chat].
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A question in quotes. It starts a chat, or is the only question if stdin is not a terminal.
    pub question: Option<String>,
    /// How to do it, for a chat.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Apply this profile on top of the configuration: profiles/NAME.toml beside config.toml (see `sponde profiles`).
    #[arg(long, global = true, env = "SPONDE_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,
    /// Log more to stderr; repeat for still more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// A question, unless it is a word that was meant as a command.
pub(super) fn question(text: String) -> Result<String, Failure> {
    if text.contains(char::is_whitespace) || text.ends_with('?') {
        return Ok(text);
    }
    let failure = Failure::usage(format!("there is no command `{text}`"));
    let command = <Cli as clap::CommandFactory>::command();
    let alike = |name: &&str| strsim::jaro_winkler(name, &text) > ALIKE;
    let mut names = command.get_subcommands().map(clap::Command::get_name);
    let meant = names.find(alike);
    Err(failure.hint(match meant {
        Some(name) => format!("did you mean `{name}`? A question has more than one word"),
        None => "a question has more than one word; `sponde --help` lists the commands".to_owned(),
    }))
}

/// How like a command's name a word is that was meant as it.
const ALIKE: f64 = 0.8;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one question and exit.
    Ask(AskArgs),
    /// Execute notebooks, scripts or a line of code, without a model (docs/run.md).
    Run(RunArgs),
    /// Write a notebook with an overview and plots of a table, without a model.
    Profile(ProfileArgs),
    /// List, install and test kernels.
    Kernels(KernelsArgs),
    /// List and test models, and download a local one.
    Models(ModelsArgs),
    /// List profiles and the one in use.
    Profiles,
    /// Show each setting, its value and where the value comes from.
    Config(Box<ConfigArgs>),
    /// List, show, search, rename and remove saved sessions.
    Sessions(SessionsArgs),
    /// Continue a session.
    Resume(Box<ResumeArgs>),
    /// Join a session that runs in another terminal.
    Attach(AttachArgs),
    /// Start a session from a cell of another one.
    Fork(ForkArgs),
    /// Print shell completions or a manual page.
    Completions(CompletionsArgs),
    /// Show who approved which code and what ran, and verify that record (docs/audit.md).
    Audit(AuditArgs),
    /// Convert a notebook into a web page, Markdown, a script or a clean notebook.
    Export(ExportArgs),
    /// Relay a Jupyter front end to a real kernel, local or on a server (docs/proxy.md).
    KernelProxy(ProxyArgs),
    /// Serve sessions over HTTP, as a page for the browser and an API for programs (docs/server.md).
    Serve(Box<ServeArgs>),
    /// Manage the keys of a server's tenants (docs/server.md).
    Keys(KeysArgs),
    /// Serve a client of the Model Context Protocol over stdin and stdout (docs/mcp.md).
    Mcp(Box<McpArgs>),
    /// Serve an editor that speaks the Agent Client Protocol over stdin and stdout (docs/acp.md).
    Acp(Box<AcpArgs>),
    /// Check this machine and say what is missing.
    Doctor(DoctorArgs),
}

/// What every session needs.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub struct SessionArgs {
    /// The model, as provider/name (openai/gpt-5.2, anthropic/claude-sonnet-5, ollama/qwen3, local/qwen2.5-coder-1.5b)
    /// or a bare name at OPENAI_BASE_URL.
    #[arg(short, long, env = "SPONDE_MODEL", value_name = "MODEL", add = completers::models())]
    pub model: Option<String>,
    /// How the model asks to run code [default: what suits the model] (docs/modes.md).
    #[arg(long, env = "SPONDE_CODE_MODE", value_name = "MODE")]
    pub code_mode: Option<CodeMode>,
    /// The kernel: a name from `sponde kernels`, or the path of a virtual environment or interpreter. The first is
    /// the main one; repeat it for other languages. Without it, python3 is the main kernel and each other installed
    /// language is available.
    #[arg(short, long, env = "SPONDE_KERNEL", value_name = "KERNEL", add = completers::kernels())]
    pub kernel: Vec<String>,
    /// Who answers when code asks for input [default: `ask` at a terminal, else `refuse`]. A model answers at most 5
    /// questions of a cell, and never a password prompt.
    #[arg(long, value_enum, value_name = "WHO")]
    pub stdin: Option<StdinArg>,
    /// Use a running kernel and leave it running: its connection file, a part of its name, or without a value the
    /// newest one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with = "gateway")]
    pub existing: Option<String>,
    /// Keep the kernel and its variables running at the end, for `sponde resume`; `sponde kernels reap --kept` ends
    /// it.
    #[arg(long, conflicts_with_all = ["existing", "gateway"])]
    pub keep_kernel: bool,
    /// Where it runs.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// What it may do.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// Run the model's code without asking. A rule of config.toml can still forbid code.
    #[arg(short, long)]
    pub yes: bool,
    /// When to ask before the model's code runs (docs/approvals.md). `on-risk`, the default in a sandbox, asks about
    /// code that the sandbox does not stop; without a sandbox the default is `always`.
    #[arg(long, value_name = "always|on-risk|never", conflicts_with = "yes")]
    pub approval: Option<Approval>,
    /// Whether to install a Python package that the code needs and its environment lacks.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub install: Option<InstallArg>,
    /// Follow the instructions in the project's SPONDE.md without asking.
    #[arg(long)]
    pub trust_project: bool,
    /// Describe this file to the model; can be repeated.
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Let SQL in this session use this database of config.toml (docs/sql.md); can be repeated.
    #[arg(long = "database", value_name = "NAME")]
    pub databases: Vec<String>,
    /// Keep the notebook here instead of with the other sessions; an existing one is continued.
    #[arg(long, value_name = "NOTEBOOK.ipynb")]
    pub notebook: Option<PathBuf>,
    /// First rerun the code of the continued session or notebook, so that its variables exist, and report outputs
    /// that differ.
    #[arg(long, conflicts_with = "existing")]
    pub replay: bool,
    /// Most requests to the model for one question.
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u32>,
    /// Suggest three questions after each answer; this costs a request to the model.
    #[arg(long)]
    pub follow_ups: bool,
    /// Most US dollars that the session may cost; each request is estimated before it is sent.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub max_cost: Option<f64>,
    /// Most tokens that the session may send and receive.
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Most seconds that a cell of the model may run.
    #[arg(long, value_name = "SECONDS")]
    pub cell_timeout: Option<u64>,
}

impl SessionArgs {
    /// Refuses what says something of one session, where there are many: `who` has them, and `instead` says what to do.
    pub(super) fn of_many(&self, who: &str, instead: &str) -> Result<(), Failure> {
        let refused = if self.notebook.is_some() || self.existing.is_some() || self.replay {
            "--notebook, --existing and --replay are"
        } else if !self.files.is_empty() {
            "--file is"
        } else {
            return Ok(());
        };
        Err(Failure::usage(format!("{refused} for one session, and {who}")).hint(instead))
    }

    /// As the app takes it. `attended` if a person is at the terminal.
    pub(super) fn settings(self, attended: bool, lifetime: Lifetime) -> SessionSettings {
        SessionSettings {
            instructions: None,
            model: self.model,
            code_mode: self.code_mode,
            kernels: self.kernel,
            stdin: self.stdin.map(|stdin| match stdin {
                StdinArg::Ask => StdinPolicy::Ask,
                StdinArg::Refuse => StdinPolicy::Refuse,
                StdinArg::Model => StdinPolicy::Model,
            }),
            existing: self.existing,
            keep_kernels: self.keep_kernel,
            gateway: self.gateway.gateway,
            sandbox: self.sandbox.settings(),
            install: self.install.map(|install| match install {
                InstallArg::Allow => InstallPolicy::Allow,
                InstallArg::Ask => InstallPolicy::Ask,
                InstallArg::Never => InstallPolicy::Never,
            }),
            approval: self.yes.then_some(Approval::Never).or(self.approval),
            trust_project: self.trust_project,
            agreed: Vec::new(),
            answer: None,
            tool_servers: crate::config::tools::ToolServers::new(),
            piped: None,
            files: self.files,
            databases: self.databases,
            notebook: self.notebook,
            replay: self.replay,
            max_steps: self.max_steps,
            follow_ups: self.follow_ups,
            max_cost: self.max_cost,
            max_tokens: self.max_tokens,
            cell_timeout: self.cell_timeout,
            attended,
            lifetime,
            model_at: ModelAt::Start,
            judges_clients: false,
        }
    }
}

/// An amount of money.
fn dollars(text: &str) -> Result<f64, String> {
    let amount: f64 = text
        .trim_start_matches('$')
        .parse()
        .map_err(|_| "not an amount in US dollars, such as 0.50".to_owned())?;
    if amount.is_finite() && amount >= 0.0 {
        Ok(amount)
    } else {
        Err("not an amount in US dollars, such as 0.50".to_owned())
    }
}

/// Who answers when code asks for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StdinArg {
    /// Ask the person at the terminal.
    Ask,
    /// Raise an error in the code.
    Refuse,
    /// Let the model answer.
    Model,
}

/// When a missing package is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InstallArg {
    /// Install well-known packages into Sponde's own environment without asking.
    Allow,
    /// Ask first.
    Ask,
    /// Never install.
    Never,
}

/// Where kernels run.
#[derive(Debug, Clone, Default, Args)]
pub struct GatewayArgs {
    /// Run the kernels on this Jupyter server (docs/gateway.md); SPONDE_GATEWAY_TOKEN holds its token.
    #[arg(
        long,
        env = "SPONDE_GATEWAY",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub gateway: Option<String>,
}

/// `sponde kernel-proxy`.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// The real kernel: a name from `sponde kernels`, or the path of a virtual environment or interpreter.
    #[arg(short, long, value_name = "KERNEL", default_value = "python3", add = completers::kernels())]
    pub kernel: String,
    /// Where the real kernel is, if not here.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// The connection file that the front end wrote.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub connection_file: PathBuf,
    /// Arguments for the real kernel, as front ends append them.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub arguments: Vec<String>,
}

/// `sponde models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// What to do [default: list].
    #[command(subcommand)]
    pub command: Option<ModelsCommand>,
}

/// What can be done with models.
#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List usable models: providers with a key or a running server, context window, abilities, price.
    List(ModelListArgs),
    /// Ask a model a few small questions and report what works: streaming, tool calls, pictures, token counts.
    Test(ModelTestArgs),
    /// Download a small model that runs on this machine.
    Pull {
        /// The model's name.
        #[arg(default_value = crate::llm::local::DEFAULT_MODEL)]
        name: String,
    },
}

/// `sponde models list`.
#[derive(Debug, Default, Args)]
pub struct ModelListArgs {
    /// All models of these providers [default: one of each provider, and all on this machine].
    #[arg(value_name = "PROVIDER")]
    pub providers: Vec<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `sponde models test`.
#[derive(Debug, Args)]
pub struct ModelTestArgs {
    /// As for --model.
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `sponde config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Show only settings with one of these words in their name.
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// Options of a session, to see their effect.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `sponde doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `sponde export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The notebook, or the id of a session.
    pub notebook: PathBuf,
    /// The format [default: by the ending of --output, else script].
    #[arg(long, value_enum)]
    pub to: Option<ExportFormat>,
    /// The file to write; `-` is stdout [default: -].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep only answers and code: leave out questions, notes to the model, and code that was declined or failed.
    #[arg(long)]
    pub clean: bool,
}

/// What a notebook can be turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The notebook itself, normalised to nbformat 4.5.
    Ipynb,
    /// A web page in one self-contained file.
    Html,
    /// Text, code and outputs in Markdown; images go beside the file.
    Md,
    /// The code, in percent format (`# %%`).
    Script,
}
