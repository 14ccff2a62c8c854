//! `config.toml`: what a person does not want to type each time. Flags and environment come before it, a profile lies
//! over it.

pub mod databases;
pub mod profile;
pub mod tools;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::agent::StdinPolicy;
use crate::agent::approval;
use crate::agent::budget::Cap;
use crate::agent::install::InstallPolicy;
use crate::kernel::{LevelChoice, Network};
use crate::llm::mode::CodeMode;
use crate::llm::providers::AllSettings;
use crate::session::OutputLimits;

/// The file's content; every key is optional.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The profile that lies over this file, unless another one is named.
    pub profile: Option<String>,
    /// What a profile is for, in its list.
    pub description: Option<String>,
    /// Words that are added to the system prompt.
    pub prompt: Option<String>,
    /// `provider/name`.
    pub model: Option<String>,
    /// How the model asks to run code: `tools`, `json` or `fenced`.
    pub code_mode: Option<CodeMode>,
    /// Sampling temperature of the model.
    pub temperature: Option<f64>,
    /// Seed of the sampling, for servers that take one (OpenAI's chat wire).
    pub seed: Option<u64>,
    /// Who answers when code asks for input: `ask`, `refuse` or `model`.
    pub stdin: Option<StdinPolicy>,
    /// When Python packages are installed that code needs.
    pub install: Option<InstallPolicy>,
    /// Name or path of a kernel.
    pub kernel: Option<String>,
    /// URL of a Jupyter server that runs the kernels.
    pub gateway: Option<String>,
    /// When a person is asked before code runs: `always`, `on-risk` or `never`; and rules.
    pub approval: approval::Settings,
    /// What a model's code may do: `read-only`, `workspace`, `full`, `gvisor` or `gvisor-read-only`.
    pub sandbox: Option<LevelChoice>,
    /// What it reaches over the network: `off`, `on`, or `{ allow = ["HOST", ..] }`.
    pub network: Option<Network>,
    /// Directories that it can write besides the working directory.
    pub add_dirs: Vec<PathBuf>,
    /// Requests to the model in one turn.
    pub max_steps: Option<u32>,
    /// Whether the model suggests questions that could follow each answer.
    pub follow_ups: Option<bool>,
    /// What a session and each of its turns may cost.
    pub budget: Budget,
    /// Seconds that a cell of the model may run.
    pub cell_timeout: Option<u64>,
    /// Seconds that a SQL cell may run over files and data frames.
    pub sql_timeout: Option<u64>,
    /// What is kept of outputs.
    pub limits: Limits,
    /// What a confined kernel may take of the machine.
    pub kernel_limits: KernelLimits,
    /// Servers of models: those of one's own, and what is different about the known ones.
    pub providers: AllSettings,
    /// What is kept so that turns can be taken back.
    pub undo: Undo,
    /// Databases that SQL can use.
    pub databases: databases::Databases,
    /// MCP servers whose tools code can call.
    pub mcp: tools::ToolServers,
    /// What a terminal is told besides what it shows.
    pub terminal: Terminal,
}

/// `[terminal]`: what a terminal is told besides what it shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Terminal {
    /// Whether a chat names itself in the title of the window; yes if nothing is said.
    pub title: Option<bool>,
    /// After how many seconds of work a person who may have gone is called, by a bell or a notification; 0 for never.
    pub notify_after: Option<u32>,
    /// Whether names of files are links that the terminal opens; yes if nothing is said.
    pub links: Option<bool>,
}

/// `[undo]`: what is kept so that turns can be taken back. Sizes are in MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Undo {
    /// Copies of the kernel; 0 for none.
    pub checkpoints: Option<usize>,
    /// Memory that they may hold together.
    pub memory: Option<u32>,
    /// Copies of files of the working directory; 0 for none.
    pub files: Option<u32>,
}

/// `[budget]`: what may be spent on a model. `cost` is in US dollars, `tokens` are sent and received ones.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Budget {
    /// `cost` and `tokens` of a session.
    pub session: Cap,
    /// The same for one question with all that it leads to.
    pub turn: Cap,
}

/// `[limits]`: what is kept of outputs. Sizes are in MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Text of a cell: one half from its beginning, one from its end.
    pub cell_text: Option<u32>,
    /// Displays and results of a cell.
    pub cell_rich: Option<u32>,
    /// How many outputs a cell has.
    pub cell_outputs: Option<u32>,
    /// How many of them are pictures.
    pub cell_images: Option<u32>,
    /// All outputs of a notebook.
    pub session: Option<u32>,
    /// Files beside a notebook with what does not fit into it; 0 for none.
    pub files: Option<u32>,
}

/// `[kernel-limits]`: what a confined kernel may take of the machine. Sizes are in MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct KernelLimits {
    /// Memory of all its processes together, or of each where there are no control groups.
    pub memory: Option<u32>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// Seconds of processor time of a process.
    pub cpu_seconds: Option<u32>,
    /// Size of one file.
    pub file: Option<u32>,
    /// Files that a process has open.
    pub open_files: Option<u32>,
    /// What it may take of the disk that the working directory is on.
    pub disk: Option<u32>,
    /// Each of `/tmp`, `/dev/shm` and its home directory.
    pub temporary: Option<u32>,
    /// How long it may have nothing to do, in minutes.
    pub idle: Option<u32>,
}

impl Limits {
    /// With the defaults for what is not said.
    pub fn resolve(&self) -> OutputLimits {
        let default = OutputLimits::default();
        let count = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let bytes = |value: Option<u32>, default| {
            value.map_or(default, |value| count(value).saturating_mul(1 << 20))
        };
        OutputLimits {
            cell_text: bytes(self.cell_text, default.cell_text),
            cell_rich: bytes(self.cell_rich, default.cell_rich),
            cell_outputs: self.cell_outputs.map_or(default.cell_outputs, count),
            cell_images: self.cell_images.map_or(default.cell_images, count),
            session: bytes(self.session, default.session),
            files: self
                .files
                .map_or(default.files, |files| u64::from(files) << 20),
        }
    }
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is there and cannot be read.
    #[error("could not read `{path}`: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// No profile of that name.
    #[error("there is no profile `{name}` in `{folder}`")]
    NoProfile {
        /// What was asked for.
        name: String,
        /// Where profiles are.
        folder: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It does not say what it should.
    #[error("`{path}` is not a configuration of sponde\n{reason}")]
    Invalid {
        /// The file.
        path: String,
        /// The parser's words, with the line.
        reason: String,
    },
}

impl Config {
    /// Reads `dir/config.toml`, with the profile that is `named` or that it names laid over it; no file is an empty one.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(dir: &Path, named: Option<&str>) -> Result<Self, ConfigError> {
        profile::layered(dir, named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_says_what_is_wrong_with_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Config::load(dir.path(), None).unwrap(), Config::default());
        let write = |text: &str| std::fs::write(dir.path().join("config.toml"), text).unwrap();
        write(
            "model = \"openai/x\"\napproval = \"never\"\nmax-steps = 5\n[limits]\nsession = 100\n",
        );
        assert_eq!(
            Config::load(dir.path(), None).unwrap(),
            Config {
                model: Some("openai/x".to_owned()),
                approval: approval::Settings {
                    policy: Some(approval::Approval::Never),
                    rules: Vec::new(),
                },
                max_steps: Some(5),
                limits: Limits {
                    session: Some(100),
                    ..Limits::default()
                },
                ..Config::default()
            }
        );
        write(
            "[approval]\npolicy = \"ask\"\n[[approval.rules]]\naction = \"forbid\"\nfinding = \"write_outside\"\n",
        );
        let approval = Config::load(dir.path(), None).unwrap().approval;
        assert_eq!(approval.policy, Some(approval::Approval::Always));
        assert_eq!(
            approval
                .rules
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["forbid finding write_outside"]
        );
        for (text, says) in [
            (
                "approval = \"sometimes\"\n",
                "`always`, `on-risk` or `never`",
            ),
            (
                "[[approval.rules]]\naction = \"deny\"\n",
                "docs/approvals.md",
            ),
            (
                "[[approval.rules]]\naction = \"ask\"\nfinding = \"rm\"\n",
                "docs/approvals.md",
            ),
        ] {
            write(text);
            let error = Config::load(dir.path(), None).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        write("modle = 1\n");
        let error = Config::load(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("unknown field `modle`"), "{error}");
    }
}
