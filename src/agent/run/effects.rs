//! Performs the effects of a turn one by one, and handles the results from kernel and model.

use super::kernel_slot::KernelSlot;
use super::running::next_execution_event;
use super::{
    Coaching, Edit, EventKind, ExecuteOptions, ExitReason, Input, KernelError, KernelIdentity,
    Late, MAIN, OutputEvent, Running, Sampling, Session, ToolChoice, Verdict, guidance, now,
    random_cell_id,
};
use crate::agent::cell_run::CellRun;
use crate::agent::event::Command;
use crate::agent::stdin::StdinPolicy;
use crate::agent::turn::{self, Drive, Effect};
use crate::kernel::{ExecutionEvent, Outcome};
use crate::session::{CellKind, CodeStatus};

/// How many finished cells may still receive outputs.
const RECENT: usize = 256;

impl Drive for Session {
    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.turn.step(input)
    }

    async fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Sample => return self.sample(),
            Effect::Compact => return self.compact(),
            Effect::CancelSampling => {
                self.asking.budget.cancel();
                self.break_off("interrupted");
            }
            Effect::Hint(text) => self.hint(text),
            Effect::Tell(text) => self.edit(Edit::Note {
                cell: random_cell_id(),
                text,
            }),
            Effect::Ask { cell } => self.ask_about(cell),
            Effect::Forbid { cell, ruling } => self.forbid(cell, *ruling),
            Effect::Remember(permit) => self.remember(permit),
            Effect::AskToGoOn(end) => self.publish(EventKind::ContinueRequested { end }),
            Effect::RaiseBudget => self.raise_budget(),
            Effect::Execute { cell } => {
                self.approve_for_turn(&cell);
                return self.execute(cell).await;
            }
            Effect::Change { cell, source } => self.edit_by(Edit::Change { cell, source }),
            Effect::Decline { cell, reason } => {
                self.end_cell(&cell, CodeStatus::Declined(reason));
            }
            Effect::Skip { cell, reason } => {
                self.end_cell(&cell, CodeStatus::NotRun(reason));
            }
            Effect::InterruptKernel => {
                self.cells.answering = None;
                self.cells.installing = None;
                if self
                    .cells
                    .running
                    .as_ref()
                    .is_some_and(|running| running.execution.is_none())
                {
                    // The cell waits for a starting kernel, or for its point.
                    return self.abandon(&Verdict::Interrupted);
                } else if let Some(run) = self.cells.execution() {
                    run.command(Command::Interrupt).await;
                }
            }
            Effect::RestartKernel => {
                self.cells.answering = None;
                if self.cells.installing.take().is_some() {
                    self.variables_are_gone();
                    self.kernels.restart(self.cells.current);
                    return self.abandon(&Verdict::Interrupted);
                }
                if self.kernels.ready(self.cells.current).is_some() {
                    if self.cells.running.is_some() {
                        self.tell_died("it is restarted on request");
                    }
                    self.variables_are_gone();
                    self.kernels.restart(self.cells.current);
                }
            }
            Effect::End(end) => self.end_turn(end).await,
        }
        None
    }
}

impl Session {
    /// Feeds `input` to the turn, performs the effects, and handles the inputs that they cause at once.
    pub(super) async fn drive(&mut self, input: Input) {
        turn::drive(self, input).await;
    }

    /// Asks the model, after a compaction if necessary.
    pub(super) fn sample(&mut self) -> Option<Input> {
        let Some(provider) = self.options.provider.clone() else {
            return Some(Input::ModelFailed {
                message: "there is no model to ask: choose one, or run code of your own".to_owned(),
                key_variable: None,
            });
        };
        let prompt = self.make_room()?;
        if let Some(input) = self.over_budget(&prompt) {
            return Some(input);
        }
        self.asking.steps += 1;
        let step = self.asking.steps;
        self.between_cells();
        self.publish(EventKind::StepStarted { step });
        self.tell_asked("reply");
        self.asking.budget.asking(&prompt);
        self.asking.sampling = Some(Sampling::new(provider.stream(prompt), step));
        None
    }

    /// Sends the cell to its kernel, or makes it wait for one that is starting.
    pub(super) async fn execute(&mut self, cell: String) -> Option<Input> {
        let source = self.transcript.cell(&cell)?.source.clone();
        let language = self.transcript.code(&cell)?.language.clone();
        let mut running = Running {
            cell,
            execution: None,
            input: None,
            answers: 0,
        };
        let Some(index) = self.kernels.find(language.as_deref()) else {
            let language = language.unwrap_or_default();
            let message = format!("there is no kernel for {language}");
            return Some(self.not_run(&running.cell, message));
        };
        self.cells.current = index;
        self.kernels.need(index);
        match self.kernels.get(index).map(|slot| &slot.state) {
            Some(KernelSlot::Starting { .. } | KernelSlot::Asleep) | None => {}
            Some(KernelSlot::Failed(error)) => {
                let message = error.to_string();
                return Some(self.not_run(&running.cell, message));
            }
            Some(KernelSlot::Ready(kernel)) => {
                let kernel = kernel.clone();
                if !self.is_audited() || !self.before_cell(&running.cell, index) {
                    self.cells.running = Some(running);
                    return None;
                }
                self.look_before().await;
                let sent = self.cells.sent.take_if(|(cell, _)| *cell == running.cell);
                let options = ExecuteOptions {
                    sent: sent.map(|(_, sent)| sent),
                    allow_stdin: self.options.stdin != StdinPolicy::Refuse,
                    timeout: self.options.cell_timeout,
                    ..ExecuteOptions::cell(source)
                };
                self.teach_sql(&kernel, &options.code).await;
                self.teach_charts(&kernel, &options.code).await;
                let permit = self.tool_permit(&running.cell);
                match CellRun::start(&kernel, options).await {
                    Ok(execution) => {
                        running.execution = Some(execution.with(permit));
                        let cell = running.cell.clone();
                        self.edit(Edit::Start { cell, at: now() });
                        // After a crash, the journal must show that the kernel has the cell.
                        self.keep().await;
                    }
                    // The kernel died between two cells: restart it; the cell waits.
                    Err(KernelError::Dead { reason, .. }) => {
                        self.kernels.restart(index);
                        self.tell_died(&reason.to_string());
                    }
                    Err(error) => return Some(self.not_run(&running.cell, error.to_string())),
                }
            }
        }
        self.cells.running = Some(running);
        None
    }

    /// No kernel is available for the cell. Without the main kernel the turn ends; without another one, the model
    /// tries something else.
    fn not_run(&mut self, cell: &str, message: String) -> Input {
        self.end_cell(cell, CodeStatus::NotRun(message.clone()));
        if self.cells.current == MAIN {
            return Input::KernelFailed { message };
        }
        Input::Ran {
            verdict: Verdict::Aborted,
            nudge: None,
        }
    }

    fn tell_died(&mut self, reason: &str) {
        self.variables_are_gone();
        let kernel = self.kernels.name(self.cells.current);
        let reason = format!("{reason}; all variables are lost");
        self.publish(EventKind::KernelDied { kernel, reason });
    }

    pub(super) async fn kernel_changed(&mut self, index: usize, ready: Result<(), KernelError>) {
        let waiting = |running: &mut Running| running.execution.is_none();
        match (ready, self.kernels.ready(index).cloned()) {
            (Ok(()), Some(kernel)) => {
                // A kernel that is gone has no late outputs.
                let _ = kernel.send_late(&self.cells.late.0).await;
                if let Ok(info) = kernel.info().await
                    && let Some(slot) = self.kernels.get(index)
                {
                    let source = &slot.options.kernel;
                    let identity = KernelIdentity {
                        name: source.name.clone(),
                        display_name: source.spec.display_name.clone(),
                        language: source.spec.language.clone(),
                        language_info: info.language_info,
                    };
                    self.edit(if index == MAIN {
                        Edit::SetKernel(identity)
                    } else {
                        Edit::AddKernel(identity)
                    });
                }
                if let Ok(file) = kernel.connection_file().await {
                    self.note_kept(index, &file);
                    let kernel = self.kernels.name(index);
                    let connection_file = file.display().to_string();
                    self.publish(EventKind::KernelReady {
                        kernel,
                        connection_file,
                    });
                }
                if index == MAIN {
                    let adopted = kernel.was_adopted().await.unwrap_or(false);
                    self.kernel_is_back(adopted).await;
                }
                self.replay_goes_on().await;
                // A cell that waits for a package runs once that is installed.
                if index == self.cells.current
                    && self.cells.installing.is_none()
                    && let Some(running) = self.cells.running.take_if(waiting)
                    && let Some(input) = self.execute(running.cell).await
                {
                    self.drive(input).await;
                }
            }
            (Err(error), _) => {
                self.publish(EventKind::KernelFailed {
                    kernel: self.kernels.name(index),
                    message: error.to_string(),
                    log: error.log().map(str::to_owned),
                });
                if index == MAIN {
                    self.kernel_is_not_back();
                }
                self.replay_goes_on().await;
                if index == self.cells.current
                    && let Some(running) = self.cells.running.take()
                {
                    let input = self.not_run(&running.cell, error.to_string());
                    self.drive(input).await;
                }
            }
            (Ok(()), None) => {}
        }
    }

    pub(super) async fn executed(&mut self, event: Option<ExecutionEvent>) {
        let Some(running) = &mut self.cells.running else {
            return;
        };
        let cell = running.cell.clone();
        match event {
            Some(ExecutionEvent::Started { count }) => {
                if let Some(count) = count {
                    self.edit(Edit::Number { cell, count });
                }
            }
            // Widgets belong to notebooks that are run as a whole.
            Some(ExecutionEvent::Comm(_)) => {}
            Some(ExecutionEvent::Output(output)) => {
                self.emit(cell, output).await;
            }
            Some(ExecutionEvent::InputRequested(request)) => {
                self.input_requested(request).await;
            }
            Some(ExecutionEvent::StillRunning { interrupts }) => {
                self.publish(EventKind::StillRunning { cell, interrupts });
            }
            Some(ExecutionEvent::Finished(outcome)) => {
                let execution = running.execution.as_ref().map(|it| it.id().to_owned());
                self.cells.answering = None;
                if self.cells.recent.len() >= RECENT {
                    self.cells.recent.pop_front();
                }
                self.cells
                    .recent
                    .extend(execution.map(|execution| (execution, cell.clone())));
                if self.lacks_module(&outcome) {
                    return;
                }
                self.cells.running = None;
                self.cell_over(cell, outcome).await;
            }
            None => self.cells.running = None,
        }
    }

    /// An output of a finished cell is added to that cell, whatever is running now.
    pub(super) async fn came_late(&mut self, late: Late) {
        // The end of its cell was sent earlier, on another channel.
        let is_of = |running: &Running| {
            let execution = running.execution.as_ref();
            execution.is_some_and(|execution| execution.id() == late.execution)
        };
        while self.cells.running.as_ref().is_some_and(is_of) {
            let event = next_execution_event(self.cells.running.as_mut()).await;
            self.executed(event).await;
        }
        let of = |(execution, _): &&(String, String)| *execution == late.execution;
        let Some((_, cell)) = self.cells.recent.iter().rfind(of) else {
            return;
        };
        let cell = cell.clone();
        self.heard_late(&cell, &late.output);
        self.emit(cell, late.output).await;
    }

    /// Adds an output to a cell, without a copy. Excess output is written to files first.
    pub(super) async fn emit(&mut self, cell: String, output: OutputEvent) {
        if let Some(output) = self.redacted(&cell, output) {
            self.emit_as_it_is(cell, output).await;
        }
    }

    /// The same for output without secrets.
    pub(super) async fn emit_as_it_is(&mut self, cell: String, mut output: OutputEvent) {
        self.cells.plots.take_from(&mut output);
        let edit = Edit::Emit { cell, output };
        self.disk.note_edit(&edit);
        let Edit::Emit { cell, output } = edit else {
            return;
        };
        if let Err(error) = self.transcript.take_output(&cell, &output) {
            tracing::error!(%error, "an output did not fit the transcript");
            return;
        }
        let mut over = self.transcript.over(&cell, &output);
        let is_over = over.contains(&cell);
        over.retain(|id| *id != cell);
        let mut cuts = Vec::new();
        // Displays of other cells that grew: their earlier state is gone, as everywhere.
        for cell in over {
            let whole = self.transcript.code(&cell).map(|code| code.outputs.whole());
            let whole = whole.cloned().unwrap_or_default();
            cuts.push(Edit::Cut { cell, whole });
        }
        // An edit is sent before the ones that it causes.
        if self.cells.output_files.concerns(&cell, is_over, &output) {
            let edit = Edit::Emit {
                cell: cell.clone(),
                output: output.clone(),
            };
            self.tell_edit(edit, None);
            self.cut(&cell, is_over, &output).await;
        } else {
            self.tell_edit(Edit::Emit { cell, output }, None);
        }
        for cut in cuts {
            self.edit(cut);
        }
    }

    pub(super) async fn cell_over(&mut self, cell: String, outcome: Outcome) {
        self.cells.looked_for.clear();
        let Outcome { verdict, count } = outcome;
        self.let_go(&cell).await;
        self.close_files(&cell).await;
        if let Some(count) = count {
            self.edit(Edit::Number {
                cell: cell.clone(),
                count,
            });
        }
        self.save_pictures(&cell).await;
        self.look_after(&cell).await;
        // The end of a cell is only reported once it is on disk.
        self.disk.is_saving = true;
        self.end_cell(&cell, CodeStatus::Finished(verdict.clone()));
        self.save(false).await;
        self.disk.is_saving = false;
        self.announce();
        if let Verdict::KernelDied(reason) = &verdict
            && *reason != ExitReason::Requested
        {
            self.tell_died(&reason.to_string());
        }
        let nudge = self.check_cell(&cell, &verdict).await;
        let tables = self.tell_tables(&cell).await;
        // One hint per cell.
        let nudge = nudge.map(|words| match tables {
            Some(tables) => format!("{words}\n{tables}"),
            None => words,
        });
        self.drive(Input::Ran { verdict, nudge }).await;
    }

    /// The hint for a model after a cell: the kernel's facts; a small model gets more, and a required kind of reply.
    async fn check_cell(&mut self, cell: &str, verdict: &Verdict) -> Option<String> {
        let fact = self.live_hint(cell, verdict).await;
        if self.options.coaching == Coaching::Off {
            return fact;
        }
        let live = guidance::Live {
            fact,
            variables: self.frames_after(cell, verdict).await,
        };
        let nudge = guidance::after_cell(&self.asking.question, verdict, &live, &self.turn_cells());
        self.asking.choice = nudge
            .as_ref()
            .map_or(ToolChoice::Auto, |nudge| nudge.choice);
        let nudge = nudge?;
        self.asking.topics.push(nudge.topic);
        Some(nudge.words)
    }

    /// Adds a hint to the latest cell's outputs or, if there is none, as a separate message.
    pub(super) fn hint(&mut self, text: String) {
        tracing::debug!(text, "pointed out to the model");
        let latest = self
            .turn_cells()
            .iter()
            .rev()
            .find(|cell| matches!(cell.kind, CellKind::Code(_)))
            .map(|cell| cell.id.clone());
        if let Some(cell) = &latest {
            self.asking.budget.said.again(cell);
        }
        self.edit(match latest {
            Some(cell) => Edit::Hint { cell, text },
            None => Edit::Note {
                cell: random_cell_id(),
                text,
            },
        });
    }

    /// Gives up a cell that waits for a kernel or its point.
    fn abandon(&mut self, verdict: &Verdict) -> Option<Input> {
        let running = self.cells.running.take()?;
        self.give_up_point(Some(&running.cell));
        self.end_cell(&running.cell, CodeStatus::Finished(verdict.clone()));
        Some(Input::Ran {
            verdict: verdict.clone(),
            nudge: None,
        })
    }
}
