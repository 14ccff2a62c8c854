//! Runs several notebooks, some at a time: prints a line for each one when it has ended, and what went wrong in it.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::signals;
use super::super::stop::Ask;
use super::super::style::{self, BAD, GOOD, HINT, paint};
use super::super::{eprint, filter, print};
use super::Settings;
use super::finish;
use super::progress::{Line, Mode, TICK, bar, clock, seconds};
use super::watch::Stops;
use super::{check_settings, conclude};
use crate::agent::replay;
use crate::agent::{Command, EventKind, OutputChange};
use crate::app::run::{Check, Job, Ran, prepare};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::Output;
use crate::session::summarize::{head_and_tail, plain};

/// How many bytes of a traceback are shown.
const TRACEBACK: usize = 4000;

/// Runs all of them.
pub(super) async fn run(jobs: &[Job], settings: &Settings<'_>) -> Result<Exit, Failure> {
    if settings.args.json {
        return Err(Failure::usage("--json is for one notebook at a time"));
    }
    let options = if settings.args.check {
        Some(check_settings(settings.args).options()?)
    } else {
        None
    };
    let (mut signals, _listening) = signals::listen();
    let board = Board::default();
    let board = &board;
    let at_once = usize::from(settings.args.jobs);
    let mut ends = stream::iter(jobs)
        .map(|job| {
            let check = options.clone();
            async move { (job, one(job, settings, check, board).await) }
        })
        .buffer_unordered(at_once);
    let mode = Mode::of(settings.args.progress, true);
    let mut line = Line::new();
    let mut clock = tokio::time::interval(TICK);
    let begun = Instant::now();
    let (mut done, mut failures) = (0, Vec::new());
    loop {
        tokio::select! {
            end = ends.next() => {
                let Some((job, end)) = end else { break };
                line.hide();
                done += 1;
                print(&end.text(job))?;
                failures.extend(end.failure.map(|failure| failure.kind));
            }
            _ = clock.tick(), if mode == Mode::Bar => {
                line.draw(&board.shown(done, jobs.len(), begun));
            }
            Some(ask) = signals.recv() => board.stop(ask),
        }
    }
    line.hide();
    if board.stop.is_cancelled() {
        return Ok(Exit::Interrupted);
    }
    let Some(first) = failures.first() else {
        return Ok(Exit::Done);
    };
    // The common kind of all failures, otherwise a plain failure.
    let kind = if failures.iter().all(|kind| kind == first) {
        *first
    } else {
        FailureKind::Failed
    };
    Err(Failure::new(
        kind,
        format!("{} of {} notebooks failed", failures.len(), jobs.len()),
    ))
}

/// How a notebook ended.
struct End {
    /// Further text about it.
    report: String,
    words: String,
    failure: Option<Failure>,
}

impl End {
    fn failed(failure: Failure) -> Self {
        Self {
            report: String::new(),
            words: String::new(),
            failure: Some(failure),
        }
    }

    fn text(&self, job: &Job) -> String {
        let colours = style::stdout_colours();
        let Some(failure) = &self.failure else {
            let ok = paint(GOOD, "ok    ", colours);
            return format!("{ok}  {}  {}\n{}", job.shown, self.words, self.report);
        };
        let failed = paint(BAD, "failed", colours);
        let mut text = format!(
            "{failed}  {}  {}\n",
            job.shown,
            filter::plain(&failure.message)
        );
        text.push_str(&self.report);
        for line in failure.details.iter().flat_map(|details| details.lines()) {
            let _ = writeln!(text, "        {}", filter::plain(line));
        }
        if let Some(hint) = &failure.hint {
            let word = paint(HINT, "hint:", colours);
            let _ = writeln!(text, "        {word} {}", filter::plain(hint));
        }
        text
    }
}

/// Runs one notebook.
async fn one(
    job: &Job,
    settings: &Settings<'_>,
    check: Option<crate::session::check::CheckOptions>,
    board: &Board,
) -> End {
    if board.stop.is_cancelled() {
        return End::failed(Failure::new(FailureKind::Interrupted, "not run"));
    }
    let begun = Instant::now();
    let mut prepared = match prepare(job, &settings.run).await {
        Ok(prepared) => prepared,
        Err(failure) => return End::failed(failure),
    };
    let check = check.map(|options| Check::new(&mut prepared.notebook, options));
    let kernel = tokio::select! {
        kernel = prepared.start(job, &settings.run) => match kernel {
            Ok(kernel) => kernel,
            Err(failure) => return End::failed(failure),
        },
        () = board.stop.cancelled() => {
            return End::failed(Failure::new(FailureKind::Interrupted, "not run"));
        }
    };
    let cells = replay::runnable(&prepared.notebook).count();
    let ran = prepared
        .run(job, kernel, &settings.run, async |events, control| {
            board.follow(job, cells, events, control).await
        })
        .await;
    match ran {
        Ok(ran) => ended(job, settings, check, &ran, begun),
        Err(failure) => End::failed(failure),
    }
}

/// Describes the result of one notebook.
fn ended(
    job: &Job,
    settings: &Settings<'_>,
    check: Option<Check>,
    ran: &Ran<String>,
    begun: Instant,
) -> End {
    let output = job.output.file().map(|path| path.display().to_string());
    let mut report = String::new();
    let mut words = match &ran.result {
        Ok(report) if report.ran == 1 => "1 cell".to_owned(),
        Ok(report) => format!("{} cells", report.ran),
        Err(_) => String::new(),
    };
    let mut failure = None;
    if let Some(check) = check {
        match conclude(check, ran, job, settings) {
            Ok(concluded) => {
                report = concluded.report;
                words = concluded.words;
                failure = concluded.failure;
            }
            Err(error) => failure = Some(error),
        }
    }
    if let Err(error) = finish::verdict(ran, output.as_deref()) {
        report.push_str(&ran.watched);
        failure = Some(error);
    }
    End {
        report,
        words: format!("{words}, {}", seconds(begun.elapsed())),
        failure,
    }
}

/// The notebooks that are running, and how to stop them.
#[derive(Default)]
struct Board {
    running: Mutex<Vec<Entry>>,
    stop: CancellationToken,
}

struct Entry {
    shown: String,
    done: usize,
    cells: usize,
    control: mpsc::Sender<Command>,
    stops: Stops,
}

impl Board {
    /// Follows one notebook to its end. Returns the last traceback.
    async fn follow(
        &self,
        job: &Job,
        cells: usize,
        mut events: mpsc::Receiver<EventKind>,
        control: mpsc::Sender<Command>,
    ) -> String {
        self.with(|running| {
            running.push(Entry {
                shown: job.shown.clone(),
                done: 0,
                cells,
                control,
                stops: Stops::default(),
            });
        });
        let mut traceback = String::new();
        while let Some(event) = events.recv().await {
            if matches!(event, EventKind::CodeStarted { .. }) {
                self.with(|running| {
                    if let Some(entry) = running.iter_mut().find(|entry| entry.shown == job.shown) {
                        entry.stops.event(&event);
                    }
                });
            }
            match event {
                EventKind::CodeFinished { .. } => self.with(|running| {
                    if let Some(entry) = running.iter_mut().find(|entry| entry.shown == job.shown) {
                        entry.done += 1;
                    }
                }),
                EventKind::Output {
                    change:
                        OutputChange::Append {
                            output:
                                Output::Error {
                                    traceback: lines, ..
                                },
                            ..
                        },
                    ..
                } => {
                    let text = head_and_tail(&plain(&lines.join("\n")), TRACEBACK);
                    traceback = text.lines().fold(String::new(), |mut all, line| {
                        let _ = writeln!(all, "        {line}");
                        all
                    });
                }
                EventKind::Notice { message } => {
                    eprint(&filter::plain(&format!("note: {}: {message}\n", job.shown)));
                }
                _ => {}
            }
        }
        self.with(|running| running.retain(|entry| entry.shown != job.shown));
        traceback
    }

    fn stop(&self, ask: Ask) {
        self.stop.cancel();
        // A run that accepts no more signals already has enough of them.
        self.with(|running| {
            for entry in running {
                let command = entry.stops.command(ask);
                let _ = entry.control.try_send(command);
            }
        });
    }

    /// The status line for the terminal.
    fn shown(&self, done: usize, all: usize, begun: Instant) -> String {
        let mut text = format!(
            "{} {done}/{all} notebooks  {}",
            bar(done, all),
            clock(begun.elapsed())
        );
        self.with(|running| {
            for entry in running {
                let name = entry.shown.rsplit('/').next().unwrap_or_default();
                let _ = write!(text, "  {name} {}/{}", entry.done, entry.cells);
            }
        });
        text
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Entry>) -> T) -> T {
        work(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
