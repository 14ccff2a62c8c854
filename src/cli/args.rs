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

/// Ask in plain words; a model writes code, a real Jupyter kernel on this machine runs it, and the conversation is a
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
    /// What to do; without it: chat.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A question, in quotes: the first one of a chat, or the only one where nobody is at the terminal.
    pub question: Option<String>,
    /// How to do it, for a chat.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Lay this profile over the configuration: profiles/NAME.toml beside config.toml (see `sponde profiles`).
    #[arg(long, global = true, env = "SPONDE_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,
    /// Say more about what happens inside (again: even more); the log goes to stderr.
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
    /// An overview of a table with plots, as a notebook, without a model.
    Profile(ProfileArgs),
    /// The kernels there are, and how to get one.
    Kernels(KernelsArgs),
    /// The models there are, and how to get one.
    Models(ModelsArgs),
    /// The profiles there are, and which one is in use.
    Profiles,
    /// Each setting, its value, and where that comes from.
    Config(Box<ConfigArgs>),
    /// The sessions that are kept: list, show, search, rename, remove.
    Sessions(SessionsArgs),
    /// Go on with a session.
    Resume(Box<ResumeArgs>),
    /// Follow a session that runs in another terminal, and take part in it.
    Attach(AttachArgs),
    /// Begin a session as another one began.
    Fork(ForkArgs),
    /// Completions for a shell, of commands, options and sessions.
    Completions(CompletionsArgs),
    /// Who decided what on which code, what ran, and whether the record of it is whole (docs/audit.md).
    Audit(AuditArgs),
    /// Turn a notebook into a web page, Markdown, a script or a clean notebook.
    Export(ExportArgs),
    /// Stand in for a kernel: Jupyter front ends talk to us, we talk to the real kernel (docs/proxy.md).
    KernelProxy(ProxyArgs),
    /// Serve sessions over HTTP: a page for the browser and an API for programs (docs/server.md).
    Serve(Box<ServeArgs>),
    /// The keys of a server's tenants (docs/server.md).
    Keys(KeysArgs),
    /// Serve sessions to a program that speaks the Model Context Protocol, over stdin and stdout (docs/mcp.md).
    Mcp(Box<McpArgs>),
    /// Be the agent of an editor that speaks the Agent Client Protocol, over stdin and stdout (docs/acp.md).
    Acp(Box<AcpArgs>),
    /// Check what this machine has and say what is missing.
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
    /// How the model asks to run code; default is what suits it (docs/modes.md).
    #[arg(long, env = "SPONDE_CODE_MODE", value_name = "MODE")]
    pub code_mode: Option<CodeMode>,
    /// The kernel: a name from `sponde kernels`, or the path of a virtual environment or interpreter. Given several
    /// times, the first is the main one and each other is for another language; without it, the main kernel is
    /// python3 and every other language that has a kernel can be used too.
    #[arg(short, long, env = "SPONDE_KERNEL", value_name = "KERNEL", add = completers::kernels())]
    pub kernel: Vec<String>,
    /// Who answers when code asks for input; default is you, or nobody where nobody is at the terminal. A model gets
    /// at most 5 questions of a cell, and never one for a password.
    #[arg(long, value_enum, value_name = "WHO")]
    pub stdin: Option<StdinArg>,
    /// Use a kernel that runs already and leave it running: its connection file, a part of its name, or without a value
    /// the newest one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with = "gateway")]
    pub existing: Option<String>,
    /// Leave the kernel running at the end, with its variables, for `sponde resume`; it ends with
    /// `sponde kernels reap --kept`.
    #[arg(long, conflicts_with_all = ["existing", "gateway"])]
    pub keep_kernel: bool,
    /// Where it runs.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// What it may do.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// Run the model's code without asking; what a rule of config.toml forbids does not run.
    #[arg(short, long)]
    pub yes: bool,
    /// When to ask before the model's code runs (docs/approvals.md). Default is `on-risk` for code in a sandbox, which asks
    /// about what the sandbox does not stop, and else `always`.
    #[arg(long, value_name = "always|on-risk|never", conflicts_with = "yes")]
    pub approval: Option<Approval>,
    /// When a Python package is installed that the code needs and its environment lacks: if you say so when asked; `allow`,
    /// without asking, if it is a well-known one and the environment is Sponde's own; or never.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub install: Option<InstallArg>,
    /// Follow the instructions in the project's SPONDE.md without asking.
    #[arg(long)]
    pub trust_project: bool,
    /// A file the model is told about; can be given several times.
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A database of config.toml that SQL in this session can use (docs/sql.md); can be given several times.
    #[arg(long = "database", value_name = "NAME")]
    pub databases: Vec<String>,
    /// Keep the notebook here instead of with the other sessions; one that is there goes on.
    #[arg(long, value_name = "NOTEBOOK.ipynb")]
    pub notebook: Option<PathBuf>,
    /// Of a session or a notebook that goes on: run its code again first, in order, so that its variables are there, and
    /// say what comes out differently.
    #[arg(long, conflicts_with = "existing")]
    pub replay: bool,
    /// How often the model may be asked for one question.
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u32>,
    /// Show three questions that could follow each answer; the model is asked for them, which costs a request.
    #[arg(long)]
    pub follow_ups: bool,
    /// How many US dollars the session may cost; what the next request would cost is estimated before it is sent.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub max_cost: Option<f64>,
    /// How many tokens the session may take, sent and received.
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// How many seconds a cell of the model may run.
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
    /// The person at the terminal.
    Ask,
    /// Nobody: the code gets an error.
    Refuse,
    /// The model.
    Model,
}

/// When a missing package is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InstallArg {
    /// Well-known ones without asking, into Sponde's own environment.
    Allow,
    /// If the person says so.
    Ask,
    /// Never.
    Never,
}

/// Where kernels run.
#[derive(Debug, Clone, Default, Args)]
pub struct GatewayArgs {
    /// A Jupyter server that runs the kernels instead of this machine (docs/gateway.md); its token comes from
    /// SPONDE_GATEWAY_TOKEN.
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
    /// What to do; default is `list`.
    #[command(subcommand)]
    pub command: Option<ModelsCommand>,
}

/// What can be done with models.
#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// What can be used here and now: every provider that has a key or answers, its window, what it can, its price.
    List(ModelListArgs),
    /// Ask a model a few small questions and say what works: streaming, a tool call, pictures, counted tokens.
    Test(ModelTestArgs),
    /// Get a small model that runs on this machine.
    Pull {
        /// Which one.
        #[arg(default_value = crate::llm::local::DEFAULT_MODEL)]
        name: String,
    },
}

/// `sponde models list`.
#[derive(Debug, Default, Args)]
pub struct ModelListArgs {
    /// All models of these providers; without it, one of each provider and all that run on this machine.
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
    /// Only settings with one of these words in their name.
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// Settings that a session would be started with.
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
    /// Into what; default is what the ending of --output says, else script.
    #[arg(long, value_enum)]
    pub to: Option<ExportFormat>,
    /// Where to; default is stdout, as `-` is.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only answers and code: without questions, notes to the model, and code that was declined or failed.
    #[arg(long)]
    pub clean: bool,
}

/// What a notebook can be turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The notebook itself, normalised to nbformat 4.5.
    Ipynb,
    /// A page for a browser, in one file that needs no other.
    Html,
    /// Text, code and outputs in Markdown; images go beside the file.
    Md,
    /// The code, in percent format (`# %%`).
    Script,
}
