//! Runs the code cells of a notebook in order, without a model: `sponde run` (nbclient's semantics).
//!
//! Stops at the first cell that fails, unless errors are allowed for the run (`allow_errors`) or for the cell (tag
//! `raises-exception`); cells tagged `skip-execution` are left out, but for those of another language, which run in a
//! kernel of their own. Whatever happened is in the notebook afterwards,
//! also when the kernel dies: the caller can always write it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::event::{EventKind, OutputChange};
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::kernel::{
    ExecuteOptions, Execution, ExecutionEvent, Kernel, KernelError, Outcome, OutputEvent, Verdict,
};
use crate::session::Outputs;
use crate::session::notebook::{foreign, verdict_name};
use others::Found;
pub use others::OtherKernels;

mod others;

/// How to run a notebook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// How long a cell may run.
    pub cell_timeout: Option<Duration>,
    /// Go on after a cell that failed.
    pub allow_errors: bool,
    /// Whether somebody can answer `input()`.
    pub allow_stdin: bool,
}

/// What a person can do meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Stop the running cell; a second time kills the kernel.
    Interrupt,
    /// End the kernel, whatever it does: nobody wants the rest.
    End,
    /// The line a cell waits for.
    Reply(String),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Cells that were run.
    pub ran: usize,
    /// The first failure that stopped the run: index of the cell (from 0), and how it failed.
    pub failed: Option<(usize, Verdict)>,
}

/// Runs all code cells of `notebook` in `kernel`; events name cells by their id.
///
/// # Errors
/// Only when the kernel is gone before a cell could be sent.
pub async fn replay(
    notebook: &mut Notebook,
    kernel: &Kernel,
    others: &mut OtherKernels<'_>,
    options: ReplayOptions,
    control: &mut mpsc::Receiver<Control>,
    events: mpsc::Sender<EventKind>,
) -> Result<Report, KernelError> {
    let info = kernel.info().await?;
    if !info.language_info.is_empty() {
        notebook.metadata.insert(
            "language_info".to_owned(),
            Value::Object(info.language_info),
        );
    }
    let mut results: Vec<Option<Outputs>> = vec![None; notebook.cells.len()];
    let mut report = Report {
        ran: 0,
        failed: None,
    };
    for index in 0..notebook.cells.len() {
        let Some(cell) = notebook.cells.get_mut(index) else {
            break;
        };
        if !is_runnable(cell) {
            continue;
        }
        report.ran += 1;
        let other = match others.of(cell, control).await {
            Found::Main => None,
            Found::Other(kernel) => Some(kernel?),
            Found::Stopped => {
                report.failed = Some((index, Verdict::Interrupted));
                break;
            }
        };
        let kernel = other.as_ref().unwrap_or(kernel);
        let outcome =
            run_cell(cell, index, kernel, options, control, &events, &mut results).await?;
        store(notebook, index, &outcome, &results);
        let tolerated = options.allow_errors
            || notebook
                .cells
                .get(index)
                .is_some_and(|cell| has_tag(cell, "raises-exception"));
        let failed = match &outcome.verdict {
            Verdict::Ok => false,
            Verdict::Error { .. } => !tolerated,
            Verdict::Interrupted
            | Verdict::TimedOut
            | Verdict::Aborted
            | Verdict::KernelDied(_) => true,
        };
        if failed {
            report.failed = Some((index, outcome.verdict));
            break;
        }
    }
    let verdict = report
        .failed
        .as_ref()
        .map_or(&Verdict::Ok, |(_, verdict)| verdict);
    let event = EventKind::RunFinished {
        cells: report.ran,
        failed_cell: report.failed.as_ref().map(|(index, _)| index + 1),
        status: verdict_name(verdict).to_owned(),
    };
    tell(&events, event).await;
    // Displays may have been updated by later cells.
    for (cell, outputs) in notebook.cells.iter_mut().zip(&results) {
        if let (
            CellType::Code {
                outputs: stored, ..
            },
            Some(outputs),
        ) = (&mut cell.kind, outputs)
        {
            *stored = outputs.to_notebook();
        }
    }
    Ok(report)
}

fn is_runnable(cell: &Cell) -> bool {
    matches!(cell.kind, CellType::Code { .. })
        && !cell.source.trim().is_empty()
        && (!has_tag(cell, "skip-execution") || foreign(cell).is_some())
}

fn has_tag(cell: &Cell, tag: &str) -> bool {
    cell.metadata
        .get("tags")
        .and_then(Value::as_array)
        .is_some_and(|tags| tags.iter().any(|t| t == tag))
}

/// Runs one cell; its outputs, and what it updates, go to `results`.
async fn run_cell(
    cell: &mut Cell,
    index: usize,
    kernel: &Kernel,
    options: ReplayOptions,
    control: &mut mpsc::Receiver<Control>,
    events: &mpsc::Sender<EventKind>,
    results: &mut [Option<Outputs>],
) -> Result<Outcome, KernelError> {
    let execution = kernel
        .execute(ExecuteOptions {
            allow_stdin: options.allow_stdin,
            timeout: options.cell_timeout,
            ..ExecuteOptions::cell(cell.source.clone())
        })
        .await?;
    if let Some(slot) = results.get_mut(index) {
        *slot = Some(Outputs::default());
    }
    let mut timing = Map::new();
    let mut stamp = |key: &str| {
        timing.insert(key.to_owned(), jiff::Timestamp::now().to_string().into());
    };
    stamp("iopub.execute_input");
    let id = || cell.id.clone();
    tell(events, EventKind::CodeStarted { cell: id() }).await;
    let mut running = Running {
        execution,
        kernel,
        interrupts: 0,
    };
    let mut outcome = loop {
        let event = match running.next(control).await {
            ExecutionEvent::Started { .. } => continue,
            ExecutionEvent::Output(output) => {
                apply(results, index, &output);
                EventKind::Output {
                    cell: id(),
                    change: OutputChange::from(output),
                }
            }
            ExecutionEvent::InputRequested(request) => EventKind::InputRequested {
                cell: id(),
                prompt: request.prompt,
                password: request.password,
            },
            ExecutionEvent::StillRunning { interrupts } => EventKind::StillRunning {
                cell: id(),
                interrupts,
            },
            ExecutionEvent::Finished(outcome) => break outcome,
        };
        tell(events, event).await;
    };
    if running.interrupts > 0 && outcome.verdict == Verdict::Ok {
        // The cell swallowed it, but the person wanted the run to stop.
        outcome.verdict = Verdict::Interrupted;
    }
    stamp("shell.execute_reply");
    let event = EventKind::CodeFinished {
        cell: id(),
        status: verdict_name(&outcome.verdict).to_owned(),
        count: outcome.count,
    };
    tell(events, event).await;
    cell.metadata
        .insert("execution".to_owned(), Value::Object(timing));
    Ok(outcome)
}

/// A front end that went away does not stop the run.
async fn tell(events: &mpsc::Sender<EventKind>, event: EventKind) {
    let _ = events.send(event).await;
}

/// The cell in the kernel.
struct Running<'a> {
    execution: Execution,
    kernel: &'a Kernel,
    interrupts: u32,
}

impl Running<'_> {
    /// The next event, while the person's wishes are carried out.
    async fn next(&mut self, control: &mut mpsc::Receiver<Control>) -> ExecutionEvent {
        loop {
            tokio::select! {
                event = self.execution.next() => match event {
                    Some(event) => return event,
                    // `Finished` ends the caller's loop, so this is not reached.
                    None => std::future::pending::<()>().await,
                },
                Some(wish) = control.recv() => {
                    // A kernel that is gone says so through the execution.
                    let _ = match wish {
                        Control::Interrupt => {
                            self.interrupts += 1;
                            if self.interrupts > 1 {
                                self.kernel.restart().await
                            } else {
                                self.kernel.interrupt().await
                            }
                        }
                        Control::End => {
                            self.kernel.shutdown().await;
                            Ok(())
                        }
                        Control::Reply(line) => self.kernel.reply(&self.execution.id, line).await,
                    };
                }
            }
        }
    }
}

fn apply(results: &mut [Option<Outputs>], index: usize, output: &OutputEvent) {
    if let OutputEvent::Update {
        data,
        metadata,
        display_id,
    } = output
    {
        for outputs in results.iter_mut().flatten() {
            outputs.update(display_id, data, metadata);
        }
    } else if let Some(Some(outputs)) = results.get_mut(index) {
        outputs.apply(output);
    }
}

fn store(notebook: &mut Notebook, index: usize, outcome: &Outcome, results: &[Option<Outputs>]) {
    if let Some(Cell {
        kind: CellType::Code {
            execution_count,
            outputs,
        },
        ..
    }) = notebook.cells.get_mut(index)
    {
        *execution_count = outcome.count;
        if let Some(Some(new)) = results.get(index) {
            *outputs = new.to_notebook();
        }
    }
}

/// A notebook for a kernel, without cells.
pub fn notebook_for(name: &str, display_name: &str, language: &str) -> Notebook {
    let mut notebook = Notebook::new();
    notebook.metadata.insert(
        "kernelspec".to_owned(),
        json!({ "name": name, "display_name": display_name, "language": language }),
    );
    notebook
}
