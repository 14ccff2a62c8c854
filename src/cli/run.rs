//! `sponde run`: executes notebooks, scripts or a line of code. stdout carries what the code printed (docs/run.md).
//!
//! [`crate::app::run`] decides what runs, where and how; [`watch`] shows one notebook while it runs, [`many`] several;
//! [`check`] shows the differences.

mod check;
mod finish;
mod many;
mod params;
mod progress;
mod watch;

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use super::args::RunArgs;
use super::picture::PictureFiles;
use super::{Context, eprint, print, signals, style};
use crate::app::run::{
    Check, CheckSettings, Input, Job, Outputs, ParameterSettings, Ran, RunSettings, Target,
    declared_in, parameters, plan, prepare, write,
};
use crate::app::{place, remote_kernels};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
pub(super) use finish::bad;
use progress::Progress;
use watch::{Shown, Watched};

/// Settings that all notebooks of a run share.
struct Settings<'a> {
    args: &'a RunArgs,
    run: RunSettings<'a>,
}

/// Runs it.
pub(super) async fn run(args: RunArgs, context: &Context) -> Result<Exit, Failure> {
    let parameters = parameters(&ParameterSettings {
        files: args.parameters_files.clone(),
        yaml: args.parameters_yaml.clone(),
        typed: args.parameters.clone(),
        raw: args.raw.clone(),
    })?;
    let outputs = Outputs {
        output: args.output.clone(),
        inplace: args.inplace,
        is_check: args.check,
        is_stdout_taken: args.json,
    };
    let jobs = plan(inputs(&args)?, &outputs, &parameters)?;
    let cwd = place::current_dir(context)?;
    if let Some(dir) = args.cwd.as_deref().filter(|dir| !dir.is_dir()) {
        return Err(Failure::usage(format!(
            "`{}` is not a directory",
            dir.display()
        )));
    }
    if args.list_parameters {
        for job in &jobs {
            print(&params::list(declared_in(job, &cwd, context)?))?;
        }
        return Ok(Exit::Done);
    }
    let reads_stdin = args.paths.iter().any(|path| path == Path::new("-"));
    let settings = Settings {
        run: RunSettings {
            parameters,
            workdir: args.cwd.clone(),
            cwd,
            kernel: args.kernel.clone(),
            existing: args.existing.clone(),
            gateway: remote_kernels::open(args.gateway.gateway.as_deref(), context).await?,
            sandbox: args.sandbox.settings(),
            databases: args.databases.clone(),
            // The comparison reports which errors are new.
            allow_errors: args.allow_errors || args.check,
            allow_stdin: style::is_interactive()
                && jobs.len() == 1
                && !(reads_stdin || args.json || args.check),
            hide_code: args.report_mode,
            cell_timeout: args.timeout.map(Duration::from_secs),
            total_timeout: args.total_timeout.map(Duration::from_secs),
            start_timeout: Duration::from_secs(args.start_timeout),
            context,
        },
        args: &args,
    };
    if args.prepare_only {
        for job in &jobs {
            let prepared = prepare(job, &settings.run).await?;
            match &job.output {
                Target::Nowhere | Target::Stdout => print(&prepared.notebook.to_json())?,
                Target::File(path) => write(&prepared.notebook, path)?,
            }
        }
        return Ok(Exit::Done);
    }
    match jobs.as_slice() {
        [job] => one(job, &settings).await,
        jobs => many::run(jobs, &settings).await,
    }
}

/// The inputs named on the command line. Reads stdin to its end.
fn inputs(args: &RunArgs) -> Result<Vec<Input>, Failure> {
    if let Some(code) = &args.code {
        return Ok(vec![Input::Code(code.clone())]);
    }
    let of = |path: &std::path::PathBuf| {
        if path.as_os_str() != "-" {
            return Ok(Input::File(path.clone()));
        }
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::usage(format!("could not read `stdin`: {error}")))?;
        Ok(Input::Piped(bytes))
    };
    args.paths.iter().map(of).collect()
}

fn check_settings(args: &RunArgs) -> CheckSettings {
    CheckSettings {
        tolerance: args.tolerance,
        picture_tolerance: args.picture_tolerance,
        sanitize_with: args.sanitize_with.clone(),
    }
}

/// Runs one notebook while a person watches.
async fn one(job: &Job, settings: &Settings<'_>) -> Result<Exit, Failure> {
    let args = settings.args;
    let mut prepared = prepare(job, &settings.run).await?;
    let check = if args.check {
        let options = check_settings(args).options()?;
        Some(Check::new(&mut prepared.notebook, options))
    } else {
        None
    };
    if let Some(line) = prepared.sandbox_line(std::io::stderr().is_terminal(), &settings.run) {
        let line = style::paint(style::DIM, &line, style::stderr_colours());
        eprint(&format!("{line}\n"));
    }
    let (mut signals, _listening) = signals::listen();
    let kernel = tokio::select! {
        kernel = prepared.start(job, &settings.run) => kernel?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    let shown = match &job.output {
        _ if check.is_some() => Shown::Notices,
        _ if args.json => Shown::Json,
        Target::Stdout => Shown::Stderr,
        Target::Nowhere | Target::File(_) => Shown::All,
    };
    let progress = Progress::new(args.progress, &prepared.notebook);
    let output = job.output.file();
    let ran = prepared
        .run(job, kernel, &settings.run, async |events, control| {
            let signals = &mut signals;
            watch::watch(
                events,
                control,
                signals,
                progress,
                shown,
                output,
                settings.run.context,
            )
            .await
        })
        .await?;
    if job.output == Target::Stdout {
        print(&ran.notebook.to_json())?;
    }
    match &ran.watched {
        Watched::Whole => {}
        Watched::Stopped => return Ok(Exit::Interrupted),
        Watched::Unread(failure) => return Err(failure.clone()),
    }
    let concluded = check
        .map(|check| conclude(check, &ran, job, settings))
        .transpose()?;
    if let Some(concluded) = &concluded {
        print(&concluded.report)?;
        print(&format!("{}: {}\n", job.shown, concluded.words))?;
    }
    if let Ok(report) = &ran.result
        && let Some(status) = report.exited
    {
        return Ok(Exit::Script(status));
    }
    let place = output.map(|path| path.display().to_string());
    match finish::verdict(&ran, place.as_deref()) {
        Err(failure) if failure.kind == FailureKind::Interrupted => return Ok(Exit::Interrupted),
        verdict => verdict?,
    }
    match concluded.and_then(|concluded| concluded.failure) {
        Some(failure) => Err(failure),
        None => Ok(Exit::Done),
    }
}

/// The result of a check.
struct Concluded {
    /// Every difference, for a person.
    report: String,
    /// The summary.
    words: String,
    failure: Option<Failure>,
}

/// Compares the stored outputs with the new ones, and saves the new ones if wanted.
fn conclude<W>(
    check: Check,
    ran: &Ran<W>,
    job: &Job,
    settings: &Settings<'_>,
) -> Result<Concluded, Failure> {
    let stopped = match &ran.result {
        Ok(report) => report.failed.as_ref().map(|(index, _)| *index),
        // The verdict reports it.
        Err(_) => Some(0),
    };
    let checked = check.compare(&ran.notebook, stopped);
    let dir = settings.run.context.paths.cache.join("check");
    let report = check::report(&check, &job.shown, &checked, &mut PictureFiles::new(dir));
    let words = checked.summary();
    let differs = !checked.differing.is_empty();
    if let Input::File(path) = &job.input
        && settings.args.update
        && differs
        && stopped.is_none()
    {
        let updated = check.updated(&ran.notebook, &checked);
        write(&updated, path)?;
        return Ok(Concluded {
            report,
            words: format!("{words}, updated"),
            failure: None,
        });
    }
    Ok(Concluded {
        report,
        words,
        failure: differs.then(|| checked.failure(&job.shown)),
    })
}
