//! Running notebooks, scripts and pieces of code without a model: settings as plain values in, executed notebooks out
//! (docs/run.md). A front end reads arguments, shows events and prints what came of it.
//!
//! [`plan()`] says what runs and where it goes, `source` reads it, `kernels` finds what runs it, [`Prepared`] takes one
//! from its file to its executed copy, [`Check`] compares outputs.

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

/// What all notebooks of a run share.
#[derive(Debug)]
pub struct RunSettings<'a> {
    /// What is put in place of declared parameters.
    pub parameters: Parameters,
    /// Work in this directory instead of the notebook's own; relative to `cwd`.
    pub workdir: Option<PathBuf>,
    /// Where the person is.
    pub cwd: PathBuf,
    /// Which kernel; `None` is the notebook's own.
    pub kernel: Option<String>,
    /// A kernel that runs already.
    pub existing: Option<String>,
    /// Kernels of a gateway.
    pub gateway: Option<RemoteKernels>,
    /// What code may do.
    pub sandbox: SandboxSettings,
    /// Databases of the configuration that SQL cells can use.
    pub databases: Vec<String>,
    /// Go on after a cell that failed.
    pub allow_errors: bool,
    /// Whether somebody can answer `input()`.
    pub allow_stdin: bool,
    /// Hide the code in the executed notebook.
    pub hide_code: bool,
    /// How long a cell may run.
    pub cell_timeout: Option<Duration>,
    /// How long a notebook may run.
    pub total_timeout: Option<Duration>,
    /// How long a kernel may take to start.
    pub start_timeout: Duration,
    /// Where kernels, configuration and directories are.
    pub context: &'a Context,
}
