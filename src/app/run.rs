//! Runs notebooks, scripts and pieces of code without a model: takes settings as plain values, and returns executed
//! notebooks (docs/run.md). A front end reads arguments, shows events and prints the result.
//!
//! [`plan()`] decides what runs and where the output goes, `source` reads the input, `kernels` finds its kernel,
//! [`Prepared`] takes a notebook from its file to its executed copy, [`Check`] compares outputs.

mod check;
mod job;
mod kernels;
mod params;
mod plan;
mod source;

use std::path::PathBuf;
use std::time::Duration;

pub use check::{Check, CheckSettings, Checked};
pub use job::{Prepared, Ran, prepare, write};
pub use params::{ParameterSettings, declared_in, parameters};
pub use plan::{Input, Job, Outputs, Target, plan};

use super::Context;
use super::remote_kernels::RemoteKernels;
use super::sandbox::SandboxSettings;
use crate::session::parameters::Parameters;

/// Settings that all notebooks of a run share.
#[derive(Debug)]
pub struct RunSettings<'a> {
    /// Values for declared parameters.
    pub parameters: Parameters,
    /// The directory to run in, instead of the notebook's own; relative to `cwd`.
    pub workdir: Option<PathBuf>,
    /// The person's working directory.
    pub cwd: PathBuf,
    /// The kernel; `None`: the notebook's own.
    pub kernel: Option<String>,
    /// A kernel that is already running.
    pub existing: Option<String>,
    /// Kernels of a gateway.
    pub gateway: Option<RemoteKernels>,
    /// What code may do.
    pub sandbox: SandboxSettings,
    /// Databases of the configuration that SQL cells can use.
    pub databases: Vec<String>,
    /// Continue after a cell that failed.
    pub allow_errors: bool,
    /// Whether `input()` can be answered.
    pub allow_stdin: bool,
    /// Hide the code in the executed notebook.
    pub hide_code: bool,
    /// Time limit of a cell.
    pub cell_timeout: Option<Duration>,
    /// Time limit of a notebook.
    pub total_timeout: Option<Duration>,
    /// Time limit of a kernel's start.
    pub start_timeout: Duration,
    /// Provides kernels, configuration and directories.
    pub context: &'a Context,
}
