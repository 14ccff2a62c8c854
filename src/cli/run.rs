//! `sponde run`: execute notebooks, scripts or a line of code. stdout is what the code printed (docs/run.md).
//!
//! [`plan`] says what runs and where it goes, [`source`] reads it, [`kernels`] finds who runs it, [`job`] takes one from
//! its file to its executed copy; [`watch`] shows one while it runs, [`many`] several; [`check`] compares outputs.

mod check;
mod finish;
mod job;
mod kernel_failure;
mod kernels;
mod many;
mod params;
mod plan;
mod progress;
mod source;
mod watch;

use std::path::Path;

use super::args::RunArgs;
use super::picture::PictureFiles;
use super::{Context, eprint, print, signals, style};
use crate::app::{place, remote_kernels};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
pub(super) use finish::bad;
use job::{Ran, Settings, prepare, write};
pub(super) use kernel_failure::kernel_failure;
use plan::{Job, Target, plan};
use progress::Progress;
use watch::{Shown, Watched};

/// Runs it.
pub(super) async fn run(args: RunArgs, context: &Context) -> Result<Exit, Failure> {
    let parameters = params::read(&args)?;
    let jobs = plan(&args, &parameters)?;
    let cwd = place::current_dir(context)?;
    if let Some(dir) = args.cwd.as_deref().filter(|dir| !dir.is_dir()) {
        return Err(Failure::usage(format!(
            "`{}` is not a directory",
            dir.display()
        )));
    }
    if args.list_parameters {
        for job in &jobs {
            let source = source::read(job, &cwd, None, context)?;
            print(&params::list(&source.notebook, &job.shown)?)?;
        }
        return Ok(Exit::Done);
    }
    let reads_stdin = args.paths.iter().any(|path| path == Path::new("-"));
    let settings = Settings {
        far: remote_kernels::open(args.gateway.gateway.as_deref(), context).await?,
        allow_stdin: style::is_interactive()
            && jobs.len() == 1
            && !(reads_stdin || args.json || args.check),
        parameters,
        cwd,
        context,
        args: &args,
    };
    if args.prepare_only {
        for job in &jobs {
            let prepared = prepare(job, &settings).await?;
            let output = match &job.output {
                Target::Nowhere => &Target::Stdout,
                output => output,
            };
            write(&prepared.notebook, output)?;
        }
        return Ok(Exit::Done);
    }
    match jobs.as_slice() {
        [job] => one(job, &settings).await,
        jobs => many::run(jobs, &settings).await,
    }
}

/// Runs one notebook while a person watches.
async fn one(job: &Job, settings: &Settings<'_>) -> Result<Exit, Failure> {
    let args = settings.args;
    let mut prepared = prepare(job, settings).await?;
    let check = if args.check {
        let options = check::options(args)?;
        Some(check::Check::new(&mut prepared.notebook, options))
    } else {
        None
    };
    if let Some(line) = prepared.sandbox_line(settings) {
        let line = style::paint(style::DIM, &line, style::stderr_colours());
        eprint(&format!("{line}\n"));
    }
    let (mut signals, _listening) = signals::listen();
    let kernel = tokio::select! {
        kernel = prepared.start(job, settings) => kernel?,
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
        .run(job, kernel, settings, async |events, control| {
            let signals = &mut signals;
            watch::watch(
                events,
                control,
                signals,
                progress,
                shown,
                output,
                settings.context,
            )
            .await
        })
        .await?;
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

/// What a check came to.
struct Concluded {
    /// Every difference, for a person.
    report: String,
    /// The sum of it.
    words: String,
    failure: Option<Failure>,
}

/// Compares what was stored with what is there now, and takes it over if that is wanted.
fn conclude<W>(
    check: check::Check,
    ran: &Ran<W>,
    job: &Job,
    settings: &Settings<'_>,
) -> Result<Concluded, Failure> {
    let stopped = match &ran.result {
        Ok(report) => report.failed.as_ref().map(|(index, _)| *index),
        // The verdict tells.
        Err(_) => Some(0),
    };
    let checked = check.compare(&ran.notebook, stopped);
    let dir = settings.context.paths.cache.join("check");
    let report = check.report(&job.shown, &checked, &mut PictureFiles::new(dir));
    let words = checked.summary();
    let differs = !checked.differing.is_empty();
    if let plan::Input::File(path) = &job.input
        && settings.args.update
        && differs
        && stopped.is_none()
    {
        let updated = check.updated(&ran.notebook, &checked);
        write(&updated, &Target::File(path.clone()))?;
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
