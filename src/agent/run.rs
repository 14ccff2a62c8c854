//! Performs what [`super::turn`] decides: asks the model, runs cells, updates the transcript and its notebook.
//!
//! One task owns the session as plain locals. Commands arrive on a channel; events go to a queue that never blocks the
//! task; outputs are merged into at most 20 events per second. The notebook is written after every cell and at the end
//! of every turn.

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::event::{Command, EventKind, KernelOffer, TurnEnd};
use super::guidance::{self, Coaching, Novelty};
use super::reading as read_output;
use super::redacted::redacted;
use super::sampling::Sampling;
use super::store::Opened;
use super::stream::handle::{Joining, Request, Wanted};
use super::stream::log::Log;
use super::tools;
use super::turn::{Input, State, Turn};
use crate::jupyter::content::InputRequest;
use crate::jupyter::nbformat::random_cell_id;
use crate::jupyter::raw::RawMessage;
use crate::kernel::{
    ExecuteOptions, ExitReason, KernelError, Late, OutputEvent, Verdict, late_outputs,
};
use crate::llm::types::{Prompt, ToolChoice};
use crate::session::transcript::{Author, KernelIdentity};
use crate::session::{CodeStatus, Edit, Transcript, context};

mod agent;
mod answering;
mod asking;
mod auditing;
mod busy;
mod cells;
mod charts;
mod checkpoints;
mod compacting;
mod discretion;
mod disk;
mod effects;
mod ending;
mod following;
mod guards;
mod hinting;
mod inside;
mod installing;
mod judging;
mod keeping;
mod kernel_slot;
mod mentions;
mod models;
mod options;
mod output_files;
mod questions;
mod reading;
mod redacting;
mod reply;
mod requests;
mod rerun;
mod restoring;
mod running;
mod sampled;
mod showing;
mod sql;
mod status;
mod subscribers;
mod telling;
mod undo;
mod user_cell;
mod waiting;
mod watching;

pub use agent::Agent;
use answering::next_answer;
use asking::Asking;
use auditing::{Auditing, next_audited};
use cells::Cells;
use checkpoints::next_point;
use compacting::next_draft;
use disk::{Disk, Stamp};
use installing::next_installed;
use kernel_slot::{MAIN, Slots};
use models::next_opened;
pub use options::AgentOptions;
use restoring::{Resuming, next_replayed};
use running::{Running, next_execution_event};
use sampled::next_delta;
use subscribers::Subscribers;

/// The state of a session's task; each part of it has its own owner.
struct Session {
    options: AgentOptions,
    transcript: Transcript,
    turn: Turn,
    kernels: Slots,
    asking: Asking,
    cells: Cells,
    disk: Disk,
    subscribers: Subscribers,
    resuming: Resuming,
    undo_history: Option<checkpoints::UndoHistory>,
    /// How the turn ends that is waiting for its last point.
    ending: Option<TurnEnd>,
    auditing: Option<Box<Auditing>>,
}

impl Session {
    fn new(mut options: AgentOptions, log: Log, joins: mpsc::Receiver<Joining>) -> Self {
        let provider = options.provider.take();
        options.provider = provider.map(|provider| redacted(provider, &options.redactor));
        let opened = options.opened.take();
        let opened = opened.unwrap_or_else(|| {
            Opened::without_journal(
                options.notebook.clone(),
                options.transcript.take(),
                options.limits,
            )
        });
        let resuming = Resuming::new(&options, &opened);
        let stamp = Stamp::of(&options.notebook).filter(|_| opened.knows_notebook());
        // An up-to-date file is not rewritten until something happens.
        let is_touched = opened.wants_saving();
        let Opened {
            store,
            transcript,
            begin,
            ..
        } = opened;
        // A person allowed this code under the permissions of the sandbox at that time.
        let permits = if resuming.is_widened {
            &[]
        } else {
            store.permits()
        };
        Self {
            turn: Turn::new(
                judging::policy(&options, permits),
                options.max_steps,
                options.at_limit,
            ),
            kernels: Slots::starting(
                options.kernel.clone(),
                options.others.clone(),
                options.spare,
            ),
            asking: Asking::new(transcript.last_step(), Self::preparer_of(&options)),
            cells: Cells::new(&options, judging::began(&begin.at)),
            disk: Disk::new(store, stamp, is_touched),
            subscribers: Subscribers::new(log, joins),
            resuming,
            undo_history: checkpoints::UndoHistory::new(&options),
            ending: None,
            auditing: None,
            transcript,
            options,
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Request>, end: CancellationToken) {
        let model = self
            .options
            .provider
            .as_ref()
            .map(|provider| provider.info().name.clone());
        if let Some(model) = model.clone()
            && self.transcript.model() != Some(&model)
        {
            self.edit(Edit::SetModel(model));
        }
        self.publish(EventKind::SessionStarted {
            model,
            kernel: self.kernels.name(MAIN),
            kernels: self.kernels.offers(),
            notebook: self.options.notebook.display().to_string(),
            instructions: self.options.instructions.clone(),
        });
        if self.options.provider.is_some() {
            self.say_facts();
        }
        loop {
            if self.resuming.restoring.is_none()
                && self.ending.is_none()
                && let Some(command) = self.resuming.held.pop_front()
            {
                if self.take_command(command, &mut inbox).await {
                    break;
                }
                continue;
            }
            let (announce_at, keep_at, busy_at) = (
                self.subscribers.announce_at,
                self.disk.keep_at,
                self.resuming.busy_at,
            );
            tokio::select! {
                () = end.cancelled() => break,
                request = inbox.recv() => match request {
                    None => break,
                    Some(request) => {
                        if self.take_request(request, &mut inbox).await {
                            break;
                        }
                    }
                },
                Some(joining) = self.subscribers.joins.recv() => self.join(joining),
                delta = next_delta(self.asking.sampling.as_mut()) => self.sampled(delta).await,
                event = next_execution_event(self.cells.running.as_mut()) => self.executed(event).await,
                event = next_replayed(self.resuming.restoring.as_mut()) => self.replayed(event).await,
                answer = next_answer(self.cells.answering.as_mut()) => self.answered(answer).await,
                answer = next_answer(self.asking.following.as_mut()) => self.followed(answer).await,
                came = next_installed(self.cells.installing.as_mut()) => self.installed(came).await,
                opened = next_opened(self.asking.switch.as_mut()) => {
                    if self.opened(opened, &mut inbox).await {
                        break;
                    }
                }
                draft = next_draft(&mut self.asking.budget) => self.compacted(draft).await,
                (index, ready) = self.kernels.changed() => self.kernel_changed(index, ready).await,
                made = next_point(self.undo_history.as_mut()) => self.point_made(made).await,
                audited = next_audited(self.auditing.as_deref_mut()) => self.audited(audited).await,
                Some(late) = self.cells.late.1.recv() => self.came_late(late).await,
                () = sleep_until(announce_at.unwrap_or_else(Instant::now)), if announce_at.is_some() => {
                    self.announce();
                    self.write_outputs().await;
                }
                () = sleep_until(keep_at.unwrap_or_else(Instant::now)), if keep_at.is_some() => self.keep().await,
                () = sleep_until(busy_at.unwrap_or_else(Instant::now)), if busy_at.is_some() => self.kernel_is_busy(),
            }
        }
        Box::pin(self.finish()).await;
    }

    /// Returns whether the session must end.
    async fn handle(&mut self, wanted: Wanted, inbox: &mut mpsc::Receiver<Request>) -> bool {
        let starts = matches!(
            wanted.command,
            Command::Submit { .. } | Command::Plan { .. } | Command::Run { .. }
        );
        if starts && self.turn.state == State::Idle {
            self.disk.is_touched = true;
            self.look_at_disk().await;
        }
        let wanted = if starts {
            match self.hold(wanted).await {
                Some(wanted) => wanted,
                None => return false,
            }
        } else {
            wanted
        };
        let Wanted { by, command, sent } = wanted;
        self.subscribers.by = Some(by);
        match command {
            Command::Submit { text } => return self.ask(text, Input::Submit, inbox).await,
            Command::Plan { text } => return self.ask(text, Input::Plan, inbox).await,
            Command::Run { code, language } => {
                self.run_own(code, language.as_deref(), sent).await;
            }
            Command::Compact => self.drive(Input::Compact).await,
            Command::Suggest => self.suggest().await,
            Command::Decide { cell, decision } => {
                self.asking.guard.goes_on();
                self.decided(&cell, &decision);
                let before = self.turn.approval();
                let changed = self.analysed_change(&cell, &decision).await;
                self.drive(Input::Decided {
                    cell,
                    decision,
                    changed,
                })
                .await;
                if self.turn.approval() != before {
                    self.tell_approval();
                }
            }
            Command::Continue { go_on, words } => self.go_on(go_on, words).await,
            Command::Reply { cell, value } => {
                self.asking.guard.goes_on();
                self.reply(&cell, value).await;
            }
            Command::RefuseInput { cell, reason } => {
                self.asking.guard.goes_on();
                self.not_answered(&cell, &reason).await;
            }
            Command::SetModel { model } => self.set_model(model),
            Command::SetApproval { approval } => {
                self.turn.set_approval(approval);
                self.tell_approval();
            }
            Command::Restore { replay } => self.restore(replay).await,
            Command::ReplaceKernel => self.replace_kept(),
            Command::Interrupt if self.interrupt_kept() => {}
            Command::Interrupt if self.stop_replay().await => {}
            Command::Interrupt if self.give_up_model() => {}
            Command::Interrupt => self.drive(Input::Interrupt).await,
            Command::RestartKernel => self.drive(Input::Restart).await,
            Command::Undo { .. } | Command::Checkpoints | Command::Shutdown => {}
        }
        self.subscribers.by = None;
        false
    }

    /// The main kernel's language.
    fn language(&self) -> String {
        self.options.kernel.kernel.spec.language.clone()
    }

    /// The kernels that the model can choose from, the main one first; a small model gets no choice.
    fn offers(&self) -> Vec<KernelOffer> {
        let mut offers = self.kernels.offers();
        if self.options.coaching == Coaching::Small {
            offers.truncate(1);
        }
        offers
    }

    fn prompt(&self) -> Prompt {
        tracing::debug!("the prompt is built");
        let budget = self.model_budget();
        let mut tools = vec![tools::run_code(&self.offers(), self.sql_offer())];
        tools.extend(budget.reads.then(read_output::tool));
        Prompt {
            system: self.options.system.clone(),
            messages: context::messages(&self.transcript, tools::RUN_CODE, budget),
            tools,
            tool_choice: self.asking.choice,
            max_output_tokens: None,
            temperature: self.options.temperature,
            reply_schema: None,
        }
    }

    /// The code cells since the last question.
    fn turn_cells(&self) -> Vec<&crate::session::Cell> {
        let cells = self.transcript.cells();
        let start = cells
            .iter()
            .rposition(|cell| cell.kind == crate::session::CellKind::User)
            .unwrap_or(0);
        cells.get(start..).unwrap_or_default().iter().collect()
    }

    fn end_cell(&mut self, cell: &str, status: CodeStatus) {
        self.edit(Edit::Finish {
            cell: cell.to_owned(),
            status,
            at: now(),
        });
    }

    async fn finish(mut self) {
        self.asking.sampling = None;
        self.write_outputs().await;
        if let Some(running) = self.cells.running.take() {
            self.end_cell(
                &running.cell,
                CodeStatus::Finished(Verdict::KernelDied(ExitReason::Requested)),
            );
        }
        self.save(true).await;
        self.disk.close().await;
        self.kernels.shutdown().await;
        self.subscribers.log.close();
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}
