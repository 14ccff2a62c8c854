//! Restores the kernels of a resumed session: they have everything if they were kept, otherwise nothing, or what
//! running the code again produces.
//!
//! A replay runs the session's code in order, in the original kernels, without changing the transcript. Each cell's
//! outputs are compared with the recorded ones. Then a note tells the model which variables exist.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::{
    AgentOptions, Edit, EventKind, ExecuteOptions, Instant, MAIN, Session, Verdict, random_cell_id,
};
use crate::agent::approval::Grounds;
use crate::agent::cell_run::CellRun;
use crate::agent::store::Opened;
use crate::agent::stream::handle::Wanted;
use crate::agent::{KernelMemory, RestoredBy};
use crate::kernel::{ExecutionEvent, Extent, Variable};
use crate::session::check::{self, CheckOptions, Difference};
use crate::session::{CellKind, CellStatus, CodeStatus, Outputs};

/// The key of the question whether code runs again, which is not about a cell.
pub(super) const RESTORE: &str = "restore";
/// How many commands may wait until the session is restored.
pub(super) const HELD: usize = 16;
/// How many bytes of a text show a difference.
const SHOWN: usize = 60;
/// How many variables the model is told by name.
const TOLD: usize = 60;

/// The progress of a resumed session.
pub(super) enum Restoring {
    /// Whether the kernel still has everything is not known yet.
    Waiting,
    /// It has nothing: someone must decide whether the code runs again.
    Asked,
    /// The code is running again.
    Replaying(Box<Replay>),
}

/// How a session is resumed, and what waits for it.
pub(super) struct Resuming {
    /// `None` once the session is restored.
    pub(super) restoring: Option<Restoring>,
    /// When to report that its kernel is busy.
    pub(super) busy_at: Option<Instant>,
    pub(super) held: VecDeque<Wanted>,
    /// Whether code has more permissions than when the session began: earlier code is judged again before a replay.
    pub(super) is_widened: bool,
}

impl Resuming {
    pub(super) fn new(options: &AgentOptions, opened: &Opened) -> Self {
        let restoring = opened.is_resumed().then_some(Restoring::Waiting);
        let now = Extent::of(&options.kernel.sandbox);
        let before = opened.begin.sandbox.as_ref();
        Self {
            busy_at: restoring.as_ref().and(Session::busy_at(options)),
            restoring,
            held: VecDeque::new(),
            is_widened: before.is_some_and(|before| now.is_wider_than(before)),
        }
    }
}

/// A running replay.
pub(super) struct Replay {
    left: VecDeque<Step>,
    running: Option<(Step, CellRun, Outputs)>,
    ran: usize,
    of: usize,
    differing: usize,
    stopped: bool,
    /// The client that requested it.
    by: String,
}

/// One cell.
struct Step {
    cell: String,
    /// The index of its kernel.
    kernel: usize,
    source: String,
    /// Whether its repeated run was logged as approved.
    approved: bool,
}

/// The next event of the cell that runs again.
pub(super) async fn next_replayed(restoring: Option<&mut Restoring>) -> Option<ExecutionEvent> {
    match restoring {
        Some(Restoring::Replaying(replay)) => match &mut replay.running {
            Some((_, execution, _)) => execution.next().await,
            None => std::future::pending().await,
        },
        Some(Restoring::Waiting | Restoring::Asked) | None => std::future::pending().await,
    }
}

impl Session {
    /// Holds a question or code that must wait, and returns anything else.
    pub(super) async fn hold(&mut self, wanted: Wanted) -> Option<Wanted> {
        match &self.resuming.restoring {
            None => Some(wanted),
            Some(Restoring::Asked) => {
                // A client that continues without an answer wants no replay.
                self.begin_fresh().await;
                Some(wanted)
            }
            Some(Restoring::Waiting | Restoring::Replaying(_)) => {
                self.resuming.held.push_back(wanted);
                None
            }
        }
    }

    /// How many cells a replay would run.
    pub(super) fn cells_to_replay(&self) -> usize {
        self.steps_to_replay().len()
    }

    /// The main kernel of a resumed session is ready. `adopted`: it is the session's previous kernel.
    pub(super) async fn kernel_is_back(&mut self, adopted: bool) {
        if !matches!(self.resuming.restoring, Some(Restoring::Waiting)) {
            return;
        }
        let cells = self.steps_to_replay().len();
        self.publish(EventKind::SessionResumed {
            cells: self.transcript.cells().len(),
            code_cells: cells,
            memory: if adopted {
                KernelMemory::Alive
            } else {
                KernelMemory::Gone
            },
        });
        if adopted {
            let words = "The session continues in the same kernel, with its memory.";
            self.restored(RestoredBy::Kernel, words, (0, 0)).await;
        } else if cells == 0 || !self.resuming.held.is_empty() {
            // Nothing to run again, or the client continues without being asked.
            self.begin_fresh().await;
        } else {
            self.resuming.restoring = Some(Restoring::Asked);
        }
    }

    /// The main kernel of a resumed session could not be started.
    pub(super) fn kernel_is_not_back(&mut self) {
        if matches!(self.resuming.restoring, Some(Restoring::Waiting)) {
            self.resuming.restoring = None;
        }
    }

    /// Applies the decision whether to replay.
    pub(super) async fn restore(&mut self, replay: bool) {
        let by = self.subscribers.resolved_by(RESTORE);
        if !replay {
            return self.begin_fresh().await;
        }
        let left = self.steps_to_replay();
        self.resuming.restoring = Some(Restoring::Replaying(Box::new(Replay {
            of: left.len(),
            left,
            running: None,
            ran: 0,
            differing: 0,
            stopped: false,
            by,
        })));
        self.replay_next().await;
    }

    /// Stops a replay. Returns whether there was one.
    pub(super) async fn stop_replay(&mut self) -> bool {
        let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring else {
            return false;
        };
        replay.stopped = true;
        replay.left.clear();
        let kernel = replay.running.as_ref().map(|(step, ..)| step.kernel);
        match kernel.and_then(|kernel| self.kernels.ready(kernel)) {
            // A kernel that is gone ends its execution, which reports it.
            Some(kernel) => {
                let _ = kernel.interrupt().await;
            }
            None => self.replayed_all().await,
        }
        true
    }

    /// A kernel is ready or has failed: continues the cell that waits for it.
    pub(super) async fn replay_goes_on(&mut self) {
        if let Some(Restoring::Replaying(replay)) = &self.resuming.restoring
            && replay.running.is_none()
        {
            self.replay_next().await;
        }
    }

    /// The cells that ran to their own end. An interrupted cell would only have to be interrupted again.
    fn steps_to_replay(&self) -> VecDeque<Step> {
        let ran = |status: &CodeStatus| {
            matches!(
                status,
                CodeStatus::Finished(Verdict::Ok | Verdict::Error { .. })
            )
        };
        let cells = self.transcript.cells().iter();
        cells
            .filter_map(|cell| match &cell.kind {
                CellKind::Code(code) if ran(&code.status) => Some(Step {
                    cell: cell.id.clone(),
                    kernel: self.kernels.find(code.language.as_deref())?,
                    source: cell.source.clone(),
                    approved: false,
                }),
                _ => None,
            })
            .collect()
    }

    async fn replay_next(&mut self) {
        loop {
            let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring else {
                return;
            };
            let Some(mut step) = replay.left.pop_front() else {
                return self.replayed_all().await;
            };
            let by = replay.by.clone();
            self.kernels.need(step.kernel);
            let kernel = match self.kernels.get(step.kernel).map(|slot| &slot.state) {
                Some(super::kernel_slot::KernelSlot::Ready(kernel)) => kernel.clone(),
                Some(super::kernel_slot::KernelSlot::Failed(error)) => {
                    let why = format!("not run: {error}");
                    self.tell_replayed(&step, CellStatus::NotRun, vec![why]);
                    continue;
                }
                // It continues when the kernel is ready.
                Some(_) | None => {
                    replay.left.push_front(step);
                    return;
                }
            };
            if !std::mem::replace(&mut step.approved, true) {
                if let Some(why) = self.not_again(&step.cell).await {
                    self.tell_replayed(&step, CellStatus::NotRun, vec![format!("not run: {why}")]);
                    continue;
                }
                self.approve(&step.cell, Grounds::Replay, Some(by));
            }
            if !self.is_audited() {
                // It continues when that is written.
                if let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring {
                    replay.left.push_front(step);
                }
                return;
            }
            let options = ExecuteOptions {
                timeout: self.options.cell_timeout,
                ..ExecuteOptions::cell(step.source.clone())
            };
            self.teach_sql(&kernel, &options.code).await;
            let permit = self.tool_permit(&step.cell);
            match CellRun::start(&kernel, options).await {
                Ok(execution) => {
                    let execution = execution.with(permit);
                    if let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring {
                        replay.running = Some((step, execution, Outputs::default()));
                    }
                    return;
                }
                Err(error) => {
                    let why = format!("not run: {error}");
                    self.tell_replayed(&step, CellStatus::NotRun, vec![why]);
                }
            }
        }
    }

    /// Handles an event of the cell that runs again.
    pub(super) async fn replayed(&mut self, event: Option<ExecutionEvent>) {
        let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring else {
            return;
        };
        let Some((_, _, outputs)) = &mut replay.running else {
            return;
        };
        match event {
            Some(ExecutionEvent::Output(output)) => {
                outputs.apply(&output);
                let limits = self.options.limits.of_cell(0);
                if outputs.is_over(&limits) {
                    outputs.cut(&limits, crate::session::limits::Whole::Nowhere(None));
                }
            }
            Some(ExecutionEvent::Finished(outcome)) => {
                let Some((step, _, outputs)) = replay.running.take() else {
                    return;
                };
                let died = matches!(outcome.verdict, Verdict::KernelDied(_));
                let differences = self.compare(&step.cell, outputs, &outcome.verdict);
                self.tell_replayed(&step, (&outcome.verdict).into(), differences);
                if died {
                    if let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring {
                        replay.stopped = true;
                        replay.left.clear();
                    }
                    self.kernels.restart(step.kernel);
                }
                self.replay_next().await;
            }
            Some(
                ExecutionEvent::Started { .. }
                | ExecutionEvent::Comm(_)
                | ExecutionEvent::InputRequested(_)
                | ExecutionEvent::StillRunning { .. },
            ) => {}
            None => {
                replay.running = None;
                self.replay_next().await;
            }
        }
    }

    /// How the cell's outputs differ from the recorded ones, as text.
    fn compare(&self, cell: &str, outputs: Outputs, verdict: &Verdict) -> Vec<String> {
        let Some(code) = self.transcript.code(cell) else {
            return Vec::new();
        };
        let mut words = Vec::new();
        let now = CodeStatus::Finished(verdict.clone());
        if code.status != now {
            let (was, is) = (CellStatus::from(&code.status), CellStatus::from(verdict));
            if was != is {
                words.push(format!("it was `{was}` and is `{is}`"));
            }
        }
        let differences = check::compare(
            &code.outputs.to_notebook(),
            &outputs.into_notebook(),
            &CheckOptions::default(),
        );
        words.extend(differences.iter().map(in_words));
        words
    }

    fn tell_replayed(&mut self, step: &Step, status: CellStatus, differences: Vec<String>) {
        let Some(Restoring::Replaying(replay)) = &mut self.resuming.restoring else {
            return;
        };
        replay.ran += 1;
        replay.differing += usize::from(!differences.is_empty());
        let event = EventKind::CellReplayed {
            cell: step.cell.clone(),
            number: replay.ran,
            of: replay.of,
            status,
            differences,
        };
        self.publish(event);
    }

    async fn replayed_all(&mut self) {
        let Some(Restoring::Replaying(replay)) = self.resuming.restoring.take() else {
            return;
        };
        let how_much = if replay.stopped {
            format!(
                "the first {} of {} cells were run again, then it was stopped",
                replay.ran, replay.of
            )
        } else {
            match replay.of {
                1 => "its one cell of code was run again".to_owned(),
                all => format!("all {all} cells were run again"),
            }
        };
        let differing = match replay.differing {
            0 => "Their outputs are the same as above.".to_owned(),
            1 => "One of them has another output than above.".to_owned(),
            many => format!("{many} of them have other outputs than above."),
        };
        let words = format!("The session continues in a new kernel: {how_much}. {differing}");
        self.restored(RestoredBy::Replay, &words, (replay.ran, replay.differing))
            .await;
    }

    async fn begin_fresh(&mut self) {
        let words = "The session continues in a new kernel: nothing that the code above made is in its memory. Import, \
                     load and compute again what you need.";
        self.restored(RestoredBy::Nothing, words, (0, 0)).await;
    }

    /// The session is restored: tells the model, and releases what waited.
    async fn restored(&mut self, by: RestoredBy, words: &str, counts: (usize, usize)) {
        self.resuming.restoring = None;
        if let Some(past) = &mut self.undo_history
            && by != RestoredBy::Nothing
        {
            // Everything that ran in the kernel was before the first point.
            past.now = None;
        }
        let variables = match self.kernels.ready(MAIN).cloned() {
            // A kernel that is busy or cannot answer must not delay this or make it fail.
            Some(kernel) if by != RestoredBy::Nothing => kernel.variables().await.ok(),
            _ => None,
        };
        let text = match &variables {
            Some(variables) => format!("{words}\n{}", inventory(variables)),
            None => words.to_owned(),
        };
        let last = self.transcript.cells().last();
        if last.is_some_and(|cell| cell.source != text) {
            self.edit(Edit::Note {
                cell: random_cell_id(),
                text,
            });
        }
        let (ran, differing) = counts;
        self.publish(EventKind::SessionRestored {
            by,
            ran,
            differing,
            variables: variables.map(|variables| {
                let names = variables.into_iter().map(|variable| variable.name);
                names.collect()
            }),
        });
    }
}

/// The variables of a kernel, one per line.
fn inventory(variables: &[Variable]) -> String {
    if variables.is_empty() {
        return "There are no variables in it.".to_owned();
    }
    let mut text = "Variables in it now:".to_owned();
    for variable in variables.iter().take(TOLD) {
        text.push_str("\n- ");
        text.push_str(&variable.name);
        text.push_str(": ");
        text.push_str(&variable.kind);
        if !variable.shape.is_empty() {
            text.push(' ');
            text.push_str(&variable.shape);
        }
    }
    if let more @ 1.. = variables.len().saturating_sub(TOLD) {
        let _ = write!(text, "\n- and {more} more");
    }
    text
}

fn in_words(difference: &Difference) -> String {
    match difference {
        Difference::Text {
            what,
            stored,
            fresh,
        } => {
            let (was, is) = first_difference(stored, fresh);
            format!("{what}: it was `{was}` and is `{is}`")
        }
        Difference::Picture { what, distance, .. } => {
            format!("{what}: it is another one (distance {distance:.2})")
        }
        Difference::New { what } => format!("{what}: is new"),
        Difference::Gone { what } => format!("{what}: is missing"),
    }
}

/// The first line in which two texts differ, shortened.
fn first_difference<'a>(stored: &'a str, fresh: &'a str) -> (&'a str, &'a str) {
    let mut lines = (stored.lines(), fresh.lines());
    loop {
        let (was, is) = (lines.0.next(), lines.1.next());
        if was != is || was.is_none() {
            let cut = |line: Option<&'a str>| {
                let line = line.unwrap_or_default();
                let end = crate::session::outputs::floor_boundary(line, SHOWN);
                line.get(..end).unwrap_or_default()
            };
            return (cut(was), cut(is));
        }
    }
}
