//! Runs the code cells of a notebook in order, without a model: `sponde run` (nbclient's semantics).
//!
//! Stops at the first cell that fails, unless errors are allowed for the run (`allow_errors`) or for the cell (tag
//! `raises-exception`). Skips cells tagged `skip-execution`, except those of another language, which run in their own
//! kernel. Results so far are always stored in the notebook, even if the kernel dies, so the caller can always write
//! it.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::cell_run::CellRun;
use super::event::{self, Command, EventKind, OutputChange};
use super::output_folder::OutputFolder;
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::kernel::{
    ExecuteOptions, ExecutionEvent, Kernel, KernelError, Late, Outcome, OutputEvent, Verdict,
    late_outputs,
};
use crate::session::notebook::foreign;
use crate::session::parameters::has_tag;
use crate::session::sql::is_setup;
use crate::session::{OutputLimits, Outputs};
pub use job::Job;
use others::KernelForCell;
pub use others::OtherKernels;
use results::Results;
pub use saver::Saver;

mod exit;
mod job;
mod others;
mod papermill;
mod results;
mod saver;

/// How to run a notebook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Time limit for a cell.
    pub cell_timeout: Option<Duration>,
    /// Deadline of the whole run.
    pub deadline: Option<Instant>,
    /// Continue after a cell failed.
    pub allow_errors: bool,
    /// Whether a person can answer `input()`.
    pub allow_stdin: bool,
    /// Limits on kept outputs.
    pub limits: OutputLimits,
    /// How to treat `sys.exit`.
    pub exits: Exits,
}

/// How code that ends itself is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exits {
    /// As in a notebook: an error, unless it exits successfully.
    AsJupyter,
    /// As in a script: the run ends with that status.
    AsPython,
}

impl ReplayOptions {
    /// Time limit for a cell that begins now.
    fn time_of_a_cell(&self) -> Option<Duration> {
        let left = self
            .deadline
            .map(|end| end.saturating_duration_since(Instant::now()));
        self.cell_timeout.into_iter().chain(left).min()
    }
}

/// Files written during the run.
#[derive(Debug)]
pub struct Files {
    /// Receives outputs that do not fit into the notebook.
    pub folder: OutputFolder,
    /// The notebook itself, if it has a file.
    pub saver: Option<Saver>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of cells run.
    pub ran: usize,
    /// The first failure that stopped the run: the cell's index (from 0), and its verdict.
    pub failed: Option<(usize, Verdict)>,
    /// Whether [`ReplayOptions::deadline`] stopped it.
    pub out_of_time: bool,
    /// The status a script exited with, if not success.
    pub exited: Option<u8>,
}

/// See [`Job::run`].
async fn replay(
    job: &mut Job,
    options: ReplayOptions,
    files: Files,
    control: &mut mpsc::Receiver<Command>,
    events: mpsc::Sender<EventKind>,
) -> Result<Report, KernelError> {
    let Job {
        notebook,
        kernel,
        others,
        sql,
    } = job;
    if let Some(sql) = sql {
        sql.teach(kernel).await;
    }
    note_language(notebook, kernel).await?;
    clear(notebook);
    papermill::begin(notebook);
    let late = late_outputs();
    kernel.send_late(&late.0).await?;
    let mut results = Results::new(notebook.cells.len(), options.limits, files, late);
    let mut report = Report {
        ran: 0,
        failed: None,
        out_of_time: false,
        exited: None,
    };
    let mut passed = notebook.cells.len();
    for index in 0..notebook.cells.len() {
        let Some(cell) = notebook.cells.get_mut(index) else {
            break;
        };
        // The notebook's own SQL set-up cell would replace this kernel's SQL support.
        if !is_runnable(cell) || (sql.is_some() && is_setup(&cell.source)) {
            continue;
        }
        if options.deadline.is_some_and(|end| end <= Instant::now()) {
            report.failed = Some((index, Verdict::TimedOut));
            report.out_of_time = true;
            break;
        }
        report.ran += 1;
        let other = match others.of(cell, control).await {
            KernelForCell::Main => None,
            KernelForCell::Other(kernel) => {
                let kernel = kernel?;
                kernel.send_late(&results.late.0).await?;
                Some(kernel)
            }
            KernelForCell::Stopped => {
                report.failed = Some((index, Verdict::Interrupted));
                break;
            }
        };
        papermill::cell_begins(cell);
        let kernel = other.as_ref().unwrap_or(kernel);
        let outcome = run_cell(
            notebook,
            index,
            kernel,
            options,
            control,
            &events,
            &mut results,
        )
        .await?;
        let Some(cell) = notebook.cells.get_mut(index) else {
            break;
        };
        if let CellType::Code {
            execution_count, ..
        } = &mut cell.kind
        {
            *execution_count = outcome.count;
        }
        let failed = stops_the_run(&outcome.verdict, cell, options.allow_errors);
        papermill::cell_ends(cell, failed && exit::status(&outcome.verdict) != Some(0));
        results.changed();
        if failed && exit::status(&outcome.verdict) == Some(0) {
            passed = index + 1;
            break;
        }
        if failed {
            report.out_of_time = outcome.verdict == Verdict::TimedOut
                && options.deadline.is_some_and(|end| end <= Instant::now());
            if options.exits == Exits::AsPython {
                report.exited = exit::status(&outcome.verdict);
            }
            report.failed = Some((index, outcome.verdict));
            break;
        }
    }
    while let Ok(late) = results.late.1.try_recv() {
        tell_late(&mut results, late, &events).await;
    }
    if let Some((index, _)) = &report.failed {
        passed = *index;
    }
    papermill::end(notebook, passed, report.failed.is_some());
    emit(&events, finished(&report)).await;
    results.into_notebook(notebook);
    Ok(report)
}

/// Records the language that the kernel reports.
async fn note_language(notebook: &mut Notebook, kernel: &Kernel) -> Result<(), KernelError> {
    let info = kernel.info().await?;
    if !info.language_info.is_empty() {
        notebook.metadata.insert(
            "language_info".to_owned(),
            Value::Object(info.language_info),
        );
    }
    Ok(())
}

fn finished(report: &Report) -> EventKind {
    let verdict = report
        .failed
        .as_ref()
        .map_or(&Verdict::Ok, |(_, verdict)| verdict);
    EventKind::RunFinished {
        cells: report.ran,
        failed_cell: report.failed.as_ref().map(|(index, _)| index + 1),
        status: verdict.into(),
    }
}

/// The indices of the cells that a run executes.
pub fn runnable(notebook: &Notebook) -> impl Iterator<Item = usize> {
    let cells = notebook.cells.iter().enumerate();
    cells.filter_map(|(index, cell)| is_runnable(cell).then_some(index))
}

fn is_runnable(cell: &Cell) -> bool {
    matches!(cell.kind, CellType::Code { .. })
        && !cell.source.trim().is_empty()
        && (!has_tag(cell, "skip-execution") || foreign(cell).is_some())
}

/// Removes results of an earlier run, which would look like those of this one.
fn clear(notebook: &mut Notebook) {
    for cell in &mut notebook.cells {
        if !is_runnable(cell) {
            continue;
        }
        cell.metadata.remove("execution");
        if let CellType::Code {
            execution_count,
            outputs,
        } = &mut cell.kind
        {
            *execution_count = None;
            outputs.clear();
        }
    }
}

fn stops_the_run(verdict: &Verdict, cell: &Cell, allow_errors: bool) -> bool {
    match verdict {
        Verdict::Ok => false,
        Verdict::Error { .. } => !(allow_errors || has_tag(cell, "raises-exception")),
        Verdict::Interrupted | Verdict::TimedOut | Verdict::Aborted | Verdict::KernelDied(_) => {
            true
        }
    }
}

/// Runs one cell; its outputs and display updates go to `results`.
async fn run_cell(
    notebook: &mut Notebook,
    index: usize,
    kernel: &Kernel,
    options: ReplayOptions,
    control: &mut mpsc::Receiver<Command>,
    events: &mpsc::Sender<EventKind>,
    results: &mut Results,
) -> Result<Outcome, KernelError> {
    let (id, code) = notebook
        .cells
        .get(index)
        .map(|cell| (cell.id.clone(), cell.source.clone()))
        .unwrap_or_default();
    let request = ExecuteOptions {
        allow_stdin: options.allow_stdin,
        timeout: options.time_of_a_cell(),
        tell_start: false,
        ..ExecuteOptions::cell(code)
    };
    let mut run = CellRun::start(kernel, request).await?;
    if let Some(slot) = results.cells.get_mut(index) {
        *slot = Some(Outputs::default());
    }
    let mut timing = Map::new();
    let mut stamp = |key: &str| {
        timing.insert(key.to_owned(), jiff::Timestamp::now().to_string().into());
    };
    stamp("iopub.execute_input");
    emit(events, EventKind::CodeStarted { cell: id.clone() }).await;
    let (mut raised, mut caught) = (false, false);
    let mut outcome = loop {
        let due = results.due();
        let event = match next(&mut run, control, &mut results.late.1, due).await {
            Next::Late(late) => {
                tell_late(results, late, events).await;
                continue;
            }
            // Saves inline: nothing else may happen before it is written.
            Next::Save => {
                if let Some(message) = results.save(notebook) {
                    emit(events, EventKind::Notice { message }).await;
                }
                continue;
            }
            Next::Event(event) => event,
        };
        let event = match event {
            ExecutionEvent::Started { .. } => continue,
            ExecutionEvent::Comm(comm) => {
                results.widgets.comm(comm);
                continue;
            }
            ExecutionEvent::Output(mut output) => {
                if !exit::quiet(&mut output, options.exits) {
                    continue;
                }
                let is_error = matches!(output, OutputEvent::Error(_));
                if results.widgets.take(run.id(), &output) {
                    caught |= is_error;
                    continue;
                }
                raised |= is_error;
                for message in results.apply(index, &id, &output) {
                    emit(events, EventKind::Notice { message }).await;
                }
                let Some(output) = exit::words(output, options.exits) else {
                    continue;
                };
                EventKind::Output {
                    cell: id.clone(),
                    change: OutputChange::from(output),
                }
            }
            ExecutionEvent::InputRequested(request) => EventKind::InputRequested {
                cell: id.clone(),
                prompt: request.prompt,
                password: request.password,
            },
            ExecutionEvent::StillRunning { interrupts } => EventKind::StillRunning {
                cell: id.clone(),
                interrupts,
            },
            ExecutionEvent::Finished(outcome) => break outcome,
        };
        emit(events, event).await;
    };
    answer_widgets(kernel, results).await;
    outcome.verdict = judged(outcome.verdict, caught && !raised, run.interrupts());
    results.files.folder.close(&id);
    results
        .executions
        .push((run.id().to_owned(), index, id.clone()));
    stamp("shell.execute_reply");
    keep_timing(notebook, index, timing);
    let event = EventKind::CodeFinished {
        cell: id,
        status: (&outcome.verdict).into(),
        count: outcome.count,
    };
    emit(events, event).await;
    Ok(outcome)
}

fn keep_timing(notebook: &mut Notebook, index: usize, timing: Map<String, Value>) {
    if let Some(cell) = notebook.cells.get_mut(index) {
        let metadata = &mut cell.metadata;
        metadata.insert("execution".to_owned(), Value::Object(timing));
    }
}

/// Sends the kernel's widgets what was shown in them.
async fn answer_widgets(kernel: &Kernel, results: &mut Results) {
    for told in results.widgets.told() {
        // If the kernel is gone, the execution reports it.
        let _ = kernel.send_comm(&told.comm, told.data).await;
    }
}

/// The verdict for the notebook; `in_widget` if its only errors were shown in widgets.
fn judged(verdict: Verdict, in_widget: bool, interrupts: u32) -> Verdict {
    match verdict {
        // The widget captured the error.
        Verdict::Error { .. } if in_widget => Verdict::Ok,
        // The cell caught the interrupt, but the person wanted the run to stop.
        Verdict::Ok if interrupts > 0 => Verdict::Interrupted,
        verdict => verdict,
    }
}

/// Sends an event. A front end that disconnected does not stop the run.
async fn emit(events: &mpsc::Sender<EventKind>, event: EventKind) {
    let bytes = event.bytes();
    event::send(events, event, bytes).await;
}

/// Adds an output of a finished cell to that cell.
async fn tell_late(results: &mut Results, late: Late, events: &mpsc::Sender<EventKind>) {
    let mut executions = results.executions.iter().rev();
    let Some((_, index, id)) = executions.find(|(execution, ..)| *execution == late.execution)
    else {
        return;
    };
    let (index, id) = (*index, id.clone());
    for message in results.apply(index, &id, &late.output) {
        emit(events, EventKind::Notice { message }).await;
    }
    let change = OutputChange::from(late.output);
    emit(events, EventKind::Output { cell: id, change }).await;
}

/// What a running cell waits for.
enum Next {
    Event(ExecutionEvent),
    Late(Late),
    /// It is time to save.
    Save,
}

/// The cell's next event; commands are carried out in the meantime.
async fn next(
    run: &mut CellRun,
    control: &mut mpsc::Receiver<Command>,
    late: &mut mpsc::Receiver<Late>,
    save: Option<Instant>,
) -> Next {
    loop {
        let due = async {
            match save {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => return Next::Save,
            event = run.next() => match event {
                Some(event) => return Next::Event(event),
                // `Finished` ends the caller's loop, so this is never reached.
                None => std::future::pending::<()>().await,
            },
            Some(late) = late.recv() => return Next::Late(late),
            Some(command) = control.recv() => run.command(command).await,
        }
    }
}

/// An empty notebook for a kernel.
pub fn notebook_for(name: &str, display_name: &str, language: &str) -> Notebook {
    let mut notebook = Notebook::new();
    notebook.metadata.insert(
        "kernelspec".to_owned(),
        json!({ "name": name, "display_name": display_name, "language": language }),
    );
    notebook
}
