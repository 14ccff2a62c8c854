//! Runs the code cells of a notebook in order, without a model: `sponde run` (nbclient's semantics).
//!
//! Stops at the first cell that fails, unless errors are allowed for the run (`allow_errors`) or for the cell (tag
//! `raises-exception`); cells tagged `skip-execution` are left out, but for those of another language, which run in a
//! kernel of their own. Whatever happened is in the notebook afterwards,
//! also when the kernel dies: the caller can always write it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::event::{self, EventKind, OutputChange};
use super::spill::Spill;
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::kernel::{
    ExecuteOptions, Execution, ExecutionEvent, Kernel, KernelError, Late, Outcome, OutputEvent,
    Verdict, late_outputs,
};
use crate::session::notebook::{foreign, verdict_name};
use crate::session::{OutputLimits, Outputs};
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
    /// What is kept of outputs.
    pub limits: OutputLimits,
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

/// Runs all code cells of `notebook` in `kernel`; events name cells by their id. What does not fit into the notebook
/// goes to `spill`.
///
/// # Errors
/// Only when the kernel is gone before a cell could be sent.
pub async fn replay(
    notebook: &mut Notebook,
    kernel: &Kernel,
    others: &mut OtherKernels<'_>,
    options: ReplayOptions,
    spill: Spill,
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
    let mut results = Results {
        executions: Vec::new(),
        late: late_outputs(),
        cells: vec![None; notebook.cells.len()],
        limits: options.limits,
        spill,
    };
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
        if let Some(CellType::Code {
            execution_count, ..
        }) = notebook.cells.get_mut(index).map(|cell| &mut cell.kind)
        {
            *execution_count = outcome.count;
        }
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
    while let Ok(late) = results.late.1.try_recv() {
        tell_late(&mut results, late, &events).await;
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
    // Only now, for displays may have been updated by later cells.
    for (cell, outputs) in notebook.cells.iter_mut().zip(results.cells) {
        if let (
            CellType::Code {
                outputs: stored, ..
            },
            Some(outputs),
        ) = (&mut cell.kind, outputs)
        {
            *stored = outputs.into_notebook();
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
    results: &mut Results,
) -> Result<Outcome, KernelError> {
    kernel.send_late(&results.late.0).await?;
    let execution = kernel
        .execute(ExecuteOptions {
            allow_stdin: options.allow_stdin,
            timeout: options.cell_timeout,
            ..ExecuteOptions::cell(cell.source.clone())
        })
        .await?;
    if let Some(slot) = results.cells.get_mut(index) {
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
        let event = match running.next(control, &mut results.late.1).await {
            Next::Late(late) => {
                tell_late(results, late, events).await;
                continue;
            }
            Next::Event(event) => event,
        };
        let event = match event {
            ExecutionEvent::Started { .. } => continue,
            ExecutionEvent::Output(output) => {
                for message in results.apply(index, &cell.id, &output) {
                    tell(events, EventKind::Notice { message }).await;
                }
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
    results.spill.close(&cell.id);
    results
        .executions
        .push((running.execution.id.clone(), index, cell.id.clone()));
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
    let bytes = event.bytes();
    event::send(events, event, bytes).await;
}

/// An output of a cell that has finished goes to that cell.
async fn tell_late(results: &mut Results, late: Late, events: &mpsc::Sender<EventKind>) {
    let mut executions = results.executions.iter().rev();
    let Some((_, index, id)) = executions.find(|(execution, ..)| *execution == late.execution)
    else {
        return;
    };
    let (index, id) = (*index, id.clone());
    for message in results.apply(index, &id, &late.output) {
        tell(events, EventKind::Notice { message }).await;
    }
    let change = OutputChange::from(late.output);
    tell(events, EventKind::Output { cell: id, change }).await;
}

/// What a running cell waits for.
enum Next {
    Event(ExecutionEvent),
    Late(Late),
}

/// The cell in the kernel.
struct Running<'a> {
    execution: Execution,
    kernel: &'a Kernel,
    interrupts: u32,
}

impl Running<'_> {
    /// What comes next, while the person's wishes are carried out.
    async fn next(
        &mut self,
        control: &mut mpsc::Receiver<Control>,
        late: &mut mpsc::Receiver<Late>,
    ) -> Next {
        loop {
            tokio::select! {
                event = self.execution.next() => match event {
                    Some(event) => return Next::Event(event),
                    // `Finished` ends the caller's loop, so this is not reached.
                    None => std::future::pending::<()>().await,
                },
                Some(late) = late.recv() => return Next::Late(late),
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

/// What the cells put out, within the limits.
struct Results {
    /// Those that have finished, with index and id of their cell.
    executions: Vec<(String, usize, String)>,
    late: (mpsc::Sender<Late>, mpsc::Receiver<Late>),
    cells: Vec<Option<Outputs>>,
    limits: OutputLimits,
    spill: Spill,
}

impl Results {
    /// Takes an output of the cell at `index`. Returns what a person should know.
    fn apply(&mut self, index: usize, id: &str, output: &OutputEvent) -> Vec<String> {
        if let OutputEvent::Update {
            data,
            metadata,
            display_id,
        } = output
        {
            for outputs in self.cells.iter_mut().flatten() {
                outputs.update(display_id, data, metadata);
            }
            // One that grew is cut; its own cell's files are not open any more.
            for at in (0..self.cells.len()).filter(|&at| at != index) {
                self.fit(at, "", output);
            }
        } else if let Some(Some(outputs)) = self.cells.get_mut(index) {
            outputs.apply(output);
        }
        self.fit(index, id, output)
    }

    /// Brings one cell under its limits, after its files have all of it.
    fn fit(&mut self, index: usize, id: &str, output: &OutputEvent) -> Vec<String> {
        let kept = |outputs: &Outputs| outputs.bytes();
        let all: usize = self.cells.iter().flatten().map(kept).sum();
        let Some(Some(outputs)) = self.cells.get_mut(index) else {
            return Vec::new();
        };
        let limits = self.limits.of_cell(all - outputs.bytes());
        let over = outputs.is_over(&limits);
        let whole = if id.is_empty() {
            over.then(|| outputs.whole().clone())
        } else {
            self.spill.take(id, outputs, over, output)
        };
        let Some(whole) = whole else {
            return Vec::new();
        };
        let said = outputs.is_cut();
        outputs.cut(&limits, whole);
        let place = outputs.whole().notice().filter(|_| !said);
        place.into_iter().chain(self.spill.trouble()).collect()
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
