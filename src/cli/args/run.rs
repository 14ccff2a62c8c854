//! The command line of `sponde run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{GatewayArgs, SandboxArgs};

/// Seconds that a kernel may take to start.
const START_TIMEOUT: u64 = 60;

/// `sponde run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sponde run analysis.ipynb -o executed.ipynb
  sponde run report.ipynb -p region=north -p year=2024 -o 'report-{region}.ipynb'
  sponde run *.ipynb -j 4 -o out/
  sponde run *.ipynb --check                    are the stored outputs still right?
  sponde run steps.py                           a script, with cells if it has `# %%`")]
#[expect(clippy::struct_excessive_bools, reason = "flags")]
pub struct RunArgs {
    /// Notebooks (.ipynb) and scripts; `-` reads one from stdin.
    #[arg(
        required_unless_present = "code",
        conflicts_with = "code",
        value_name = "PATH"
    )]
    pub paths: Vec<PathBuf>,
    /// Run this code instead.
    #[arg(short, long)]
    pub code: Option<String>,
    /// Write the executed notebook here while it runs; `-` is stdout. For several notebooks, a directory.
    #[arg(short, long, value_name = "OUT.ipynb")]
    pub output: Option<PathBuf>,
    /// Write the outputs into the notebooks themselves.
    #[arg(long, conflicts_with = "output")]
    pub inplace: bool,
    /// Most notebooks that run at a time.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// Work in this directory instead of the notebook's own.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Continue after a cell that failed.
    #[arg(long)]
    pub allow_errors: bool,
    /// The kernel [default: the notebook's own, else one for the script's language, else python3].
    #[arg(short, long, env = "SPONDE_KERNEL", value_name = "KERNEL", add = crate::cli::completers::kernels())]
    pub kernel: Option<String>,
    /// Use a running kernel and leave it running: its connection file, a part of its name, or without a value the
    /// newest one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with = "gateway")]
    pub existing: Option<String>,
    /// Where it runs.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// What it may do.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// Let SQL cells use this database of config.toml (docs/sql.md); can be repeated.
    #[arg(long = "database", value_name = "NAME")]
    pub databases: Vec<String>,
    /// How to show progress on stderr.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub progress: ProgressArg,
    /// Print events as JSON, one a line.
    #[arg(long, conflicts_with = "check")]
    pub json: bool,

    /// Set a parameter: True, False, None and numbers as Python reads them, else text. It goes into a cell after the
    /// one tagged `parameters`, and replaces {NAME} in the path of -o.
    #[arg(
        short = 'p',
        long = "parameter",
        value_name = "NAME=VALUE",
        help_heading = "Parameters"
    )]
    pub parameters: Vec<String>,
    /// Set a parameter that is always text.
    #[arg(
        short = 'r',
        long = "raw",
        value_name = "NAME=TEXT",
        help_heading = "Parameters"
    )]
    pub raw: Vec<String>,
    /// Read parameters from a file: YAML, or JSON or TOML by its ending.
    #[arg(
        short = 'f',
        long = "parameters-file",
        value_name = "FILE",
        help_heading = "Parameters"
    )]
    pub parameters_files: Vec<PathBuf>,
    /// Set parameters as YAML.
    #[arg(
        short = 'y',
        long = "parameters-yaml",
        value_name = "YAML",
        help_heading = "Parameters"
    )]
    pub parameters_yaml: Vec<String>,
    /// List the parameters that the notebook declares, without running it.
    #[arg(long, help_heading = "Parameters", conflicts_with_all = ["check", "output", "inplace"])]
    pub list_parameters: bool,
    /// Write the parameters into the notebook without running it.
    #[arg(long, help_heading = "Parameters", conflicts_with = "check")]
    pub prepare_only: bool,
    /// Hide the code in the executed notebook.
    #[arg(long, help_heading = "Parameters", conflicts_with = "check")]
    pub report_mode: bool,

    /// Most seconds that a cell may run.
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub timeout: Option<u64>,
    /// Most seconds that a notebook may run.
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub total_timeout: Option<u64>,
    /// Most seconds that the kernel may take to start.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = START_TIMEOUT,
        help_heading = "Limits"
    )]
    pub start_timeout: u64,

    /// Run and compare with the stored outputs; show each difference and exit with 1 if there is one.
    #[arg(long, conflicts_with = "code", help_heading = "Check")]
    pub check: bool,
    /// Write the outputs of cells that differ into the notebook.
    #[arg(long, requires = "check", help_heading = "Check")]
    pub update: bool,
    /// Relative difference that numbers in text may have (absolute for numbers below 1).
    #[arg(long, requires = "check", value_name = "X", help_heading = "Check")]
    pub tolerance: Option<f64>,
    /// Difference allowed in the worst part of a picture, from 0 to 1 [default: 0.25].
    #[arg(long, requires = "check", value_name = "X", help_heading = "Check")]
    pub picture_tolerance: Option<f64>,
    /// Replace text by the regular expressions in this file before comparing (nbval's format).
    #[arg(long, requires = "check", value_name = "FILE", help_heading = "Check")]
    pub sanitize_with: Option<PathBuf>,
}

impl RunArgs {
    /// Runs `notebook` as it is, and writes the outputs into it.
    pub(in crate::cli) fn in_place(notebook: PathBuf) -> Self {
        Self {
            paths: vec![notebook],
            code: None,
            output: None,
            inplace: true,
            jobs: 1,
            cwd: None,
            allow_errors: false,
            kernel: None,
            existing: None,
            gateway: GatewayArgs::default(),
            sandbox: SandboxArgs::default(),
            databases: Vec::new(),
            progress: ProgressArg::Auto,
            json: false,
            parameters: Vec::new(),
            raw: Vec::new(),
            parameters_files: Vec::new(),
            parameters_yaml: Vec::new(),
            list_parameters: false,
            prepare_only: false,
            report_mode: false,
            timeout: None,
            total_timeout: None,
            start_timeout: START_TIMEOUT,
            check: false,
            update: false,
            tolerance: None,
            picture_tolerance: None,
            sanitize_with: None,
        }
    }
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressArg {
    /// A bar in a terminal, elsewhere an occasional line.
    Auto,
    /// A bar.
    Bar,
    /// A line for each cell.
    Lines,
    /// Nothing.
    None,
}
