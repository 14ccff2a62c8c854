//! Takes one notebook from its file to its executed copy.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use tokio::sync::mpsc;

use super::plan::Job;
use super::{RunSettings, kernels, params, source};
use crate::agent::replay::{self, Exits, Files, OtherKernels, ReplayOptions, Report, Saver};
use crate::agent::sql::SqlOptions;
use crate::agent::{
    Command, EventKind, OutputFolder, output_folder, write_atomically_with, write_beside_code,
};
use crate::app::databases::{self, Databases};
use crate::app::existing::{self, Existing};
use crate::app::kernels::{kernel_failure, launch_options};
use crate::app::remote_kernels::RemoteKernels;
use crate::app::sandbox::{self, CodeOf};
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::Notebook;
use crate::kernel::folder::resolved;
use crate::kernel::{Kernel, KernelError, KernelSource, LaunchOptions, Sandbox};
use crate::session::parameters::hide_code;
use crate::session::sql;

/// A notebook that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    /// The notebook with its parameters.
    pub notebook: Notebook,
    exits: Exits,
    kernel: KernelSource,
    existing: Option<Existing>,
    workdir: PathBuf,
    sandbox: Sandbox,
    databases: Option<Databases>,
    sql: Option<SqlOptions>,
}

/// A notebook after its run.
#[derive(Debug)]
pub struct Ran<W> {
    /// Its current state.
    pub notebook: Notebook,
    /// The name of its kernel.
    pub kernel: String,
    /// The result; an error if the kernel was gone before a cell could be sent.
    pub result: Result<Report, KernelError>,
    /// The result of its watcher.
    pub watched: W,
}

/// Reads `job`, finds its kernel and inserts the parameters.
///
/// # Errors
/// It cannot be read, its kernel does not exist, or it cannot be confined as wanted.
pub async fn prepare(job: &Job, settings: &RunSettings<'_>) -> Result<Prepared, Failure> {
    let (remote, context) = (&settings.gateway, settings.context);
    let mut source = source::read(job, &settings.cwd, remote.as_ref(), context)?;
    let wanted = settings.kernel.as_deref();
    let existing = existing::find(settings.existing.as_deref(), wanted, context)?;
    let named = existing
        .as_ref()
        .map(|existing| existing.kernel.name.as_str())
        .or(wanted);
    let kernel = kernels::choose(&source, named, remote.as_ref(), context)?;
    let metadata = &mut source.notebook.metadata;
    let names_one = metadata
        .get("kernelspec")
        .is_some_and(|spec| spec.get("name").is_some() && spec.get("display_name").is_some());
    if !(source.is_notebook && kernel.name == "python3" && names_one) {
        let spec = &kernel.spec;
        metadata.extend(
            replay::notebook_for(&kernel.name, &spec.display_name, &spec.language).metadata,
        );
    }
    params::apply(
        &mut source.notebook,
        &kernel,
        &settings.parameters,
        &job.shown,
        context,
    )?;
    if let Some(serde_json::Value::Object(papermill)) =
        source.notebook.metadata.get_mut("papermill")
    {
        papermill.insert("input_path".to_owned(), json!(job.shown));
        let output = job.output.file().map(|path| path.display().to_string());
        papermill.insert("output_path".to_owned(), json!(output));
    }
    if settings.hide_code {
        hide_code(&mut source.notebook);
    }
    let workdir = match &settings.workdir {
        Some(dir) => settings.cwd.join(dir),
        None => source.dir,
    };
    let is_ours = existing.is_none() && remote.is_none();
    let sandbox = if is_ours {
        sandbox::sandbox(&settings.sandbox, CodeOf::Person, &workdir, &[], context).await?
    } else {
        Sandbox::Full
    };
    let mut cells = source.notebook.cells.iter();
    let wants_sql = is_ours && cells.any(|cell| sql::is_cell(&cell.source));
    let databases = if wants_sql || !settings.databases.is_empty() {
        Box::pin(databases::open(&settings.databases, &[&kernel], context)).await?
    } else {
        None
    };
    let sandbox = databases::visible(databases.as_ref(), sandbox);
    let sql = databases
        .as_ref()
        .and_then(|it| databases::sql(Some(it), &[&kernel], &sandbox, context));
    Ok(Prepared {
        databases,
        sql,
        notebook: source.notebook,
        exits: if source.is_notebook {
            Exits::AsJupyter
        } else {
            Exits::AsPython
        },
        kernel,
        existing,
        workdir,
        sandbox,
    })
}

impl Prepared {
    /// The line about the sandbox, if its level was named, or if a person watches a notebook.
    pub fn sandbox_line(&self, is_watched: bool, settings: &RunSettings<'_>) -> Option<String> {
        let is_ours = self.existing.is_none() && settings.gateway.is_none();
        let is_named = settings.sandbox.level.is_some();
        let is_watched = is_watched && matches!(self.exits, Exits::AsJupyter);
        (is_ours && (is_named || is_watched)).then(|| sandbox::of_own_code(&self.sandbox))
    }

    /// Starts the kernel.
    pub async fn start(&self, job: &Job, settings: &RunSettings<'_>) -> Result<Kernel, Failure> {
        let main = LaunchOptions {
            existing: self.existing.as_ref().map(|existing| existing.file.clone()),
            ..self.launch_options(self.kernel.clone(), job.output.file(), settings)
        };
        Kernel::launch(main)
            .await
            .map_err(|error| kernel_failure(&error))
    }

    fn launch_options(
        &self,
        mut kernel: KernelSource,
        output: Option<&Path>,
        settings: &RunSettings<'_>,
    ) -> LaunchOptions {
        forget_history(&mut kernel);
        let limits = settings.context.config.limits.resolve();
        let options = LaunchOptions {
            oversize: output.and_then(|output| output_folder::oversize(output, &limits)),
            gateway: settings.gateway.as_ref().map(RemoteKernels::options),
            ready_timeout: settings.start_timeout,
            sandbox: self.sandbox.clone(),
            ..launch_options(kernel, self.workdir.clone(), settings.context)
        };
        databases::unseen(self.databases.as_ref(), options)
    }

    /// Runs the notebook in `kernel`, then shuts that down; `watch` follows the events.
    pub async fn run<W>(
        mut self,
        job: &Job,
        kernel: Kernel,
        settings: &RunSettings<'_>,
        watch: impl AsyncFnOnce(mpsc::Receiver<EventKind>, mpsc::Sender<Command>) -> W,
    ) -> Result<Ran<W>, Failure> {
        let limits = settings.context.config.limits.resolve();
        // Resolved before any code runs, so that a link made later is not followed.
        let output = job.output.file().map(resolved);
        let output = output.as_deref();
        let options = ReplayOptions {
            cell_timeout: settings.cell_timeout,
            deadline: settings
                .total_timeout
                .and_then(|time| Instant::now().checked_add(time)),
            allow_errors: settings.allow_errors,
            allow_stdin: settings.allow_stdin,
            limits,
            exits: self.exits,
        };
        let files = Files {
            folder: output.map_or_else(OutputFolder::none, |output| {
                OutputFolder::beside(output, &self.workdir, limits.files)
            }),
            saver: output.map(Saver::new),
        };
        let notebook = std::mem::take(&mut self.notebook);
        let others = OtherKernels::new(&notebook, |cell| {
            let source = match &settings.gateway {
                Some(remote) => remote.for_cell(cell.kernel, cell.language)?,
                None => kernels::for_cell(cell, settings.context)?,
            };
            Ok(self.launch_options(source, output, settings))
        });
        let (control_tx, control) = mpsc::channel(8);
        let (events_tx, events) = mpsc::channel(16);
        let run = replay::Job {
            notebook,
            kernel,
            others,
            sql: self.sql.take(),
        };
        let (ran, watched) = tokio::join!(
            run.run(options, files, control, events_tx),
            watch(events, control_tx),
        );
        let (
            replay::Job {
                notebook,
                kernel,
                others,
                ..
            },
            result,
        ) = ran;
        // The results are written in any case; only then are errors reported.
        let written = match output {
            Some(path) => write_beside_code(path, |file| notebook.write_to(file))
                .map_err(|error| unwritten(path, &error)),
            None => Ok(()),
        };
        tokio::join!(kernel.shutdown(), others.shutdown());
        written?;
        Ok(Ran {
            notebook,
            kernel: self.kernel.name,
            result,
            watched,
        })
    }
}

/// Writes a notebook.
///
/// # Errors
/// It cannot be written.
pub fn write(notebook: &Notebook, path: &Path) -> Result<(), Failure> {
    write_atomically_with(path, |file| notebook.write_to(file))
        .map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("could not write `{}`: {error}", path.display());
    Failure::new(FailureKind::Failed, message)
}

/// Like nbclient: cells that nobody typed do not belong in a person's IPython history.
fn forget_history(kernel: &mut KernelSource) {
    let argv = &mut kernel.spec.argv;
    if argv
        .iter()
        .any(|word| word == "ipykernel_launcher" || word == "ipykernel")
    {
        argv.push("--HistoryManager.hist_file=:memory:".to_owned());
    }
}
