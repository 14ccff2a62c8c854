//! The table `parent msg_id -> execution`, and when an execution is over. Pure: time is passed in.
//!
//! An execution is finished when the reply **and** `idle` have been seen. Both can be lost (a kernel's send queue
//! overflows, JavaScript kernels never answer an interrupted cell), so each wait is bounded: with the reply but without
//! `idle` we send a fence after a second; with `idle` but no reply we wait five. A message whose parent is not in the
//! table never reaches a cell.

mod entry;
mod gap;
mod remark;
mod unnamed;

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::ExecuteOptions;
use super::aside::Aside;
use super::comm::Comm;
use super::execution::{Events, ExecutionEvent, OutputEvent, Verdict};
use super::host::ExitReason;
use super::late::LateOutputs;
use super::quirks::{AfterInterrupt, Quirks};
use crate::jupyter::content::{Content, ExecuteReply, ExecutionState, InputRequest, ReplyStatus};
use crate::jupyter::message::{Channel, Header, Message};
use entry::{Begin, Settling, Stdin, Stop};

/// How long the fence's answer may take: it comes after all outputs, and large ones take time.
const FENCE_WAIT: Duration = Duration::from_secs(15);
/// Time between two interrupts, when a cell's time is up or its input was refused.
const INTERRUPT_WAIT: Duration = Duration::from_millis(2500);
/// Interrupts that a timed-out cell may ignore before the kernel is killed.
const INTERRUPTS: u32 = 2;

/// The exception of code that asked for input and got none; ipykernel's own name for it.
const NO_INPUT: &str = "StdinNotImplementedError";

/// Most losses reported to one cell.
const LOSSES: u32 = 100;

/// How long a kernel that does not answer interrupted cells may still send outputs after an interrupt.
const UNANSWERED: Duration = Duration::from_secs(1);

/// A message that belongs to no execution, and the bytes it holds.
pub(super) type Stray = (Box<Message>, Option<OwnedSemaphorePermit>);

/// Running and queued executions, in the order they were sent.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    quirks: Quirks,
    started_anew: bool,
    pub(super) late: LateOutputs,
}

#[derive(Debug)]
struct Entry {
    id: String,
    events: Events,
    tell_start: bool,
    aside: Option<Aside>,
    timeout: Option<Duration>,
    started: bool,
    begin: Begin,
    count: Option<i64>,
    reply: Option<ExecuteReply>,
    /// Name and text of the last `error` output.
    error: Option<(String, String)>,
    idle: bool,
    /// Header of the input request to answer.
    input: Option<Header>,
    /// The input request and when it came, until it is reported.
    asking: Option<(InputRequest, Instant)>,
    stdin: Stdin,
    interrupts: u32,
    /// Number of losses reported.
    losses: u32,
    /// Our own remarks about it.
    remarks: Vec<String>,
    asked: u32,
    stop: Stop,
    /// Whether outputs may still come after reply and `idle`.
    settling: Settling,
    outputs: u32,
    wake: Option<(Instant, Wake)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    TimeUp,
    Asks,
    Refused,
    Quiet,
    FenceLost,
    NoReply,
    Settled,
    Unanswered,
    InterruptAgain,
}

/// What the actor must do after a wake-up.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Send a fence (a `kernel_info_request` whose id goes to [`Table::fence_passed`]).
    Fence,
    /// Interrupt the kernel.
    Interrupt,
    /// Answer this input request with an empty line.
    EmptyLine(Header),
    /// Kill it: it ignores interrupts.
    Kill,
}

impl Table {
    /// An empty table, for a kernel with these quirks.
    pub(super) fn new(quirks: Quirks) -> Self {
        Self {
            quirks,
            ..Self::default()
        }
    }

    pub(super) fn insert(
        &mut self,
        id: String,
        events: Events,
        options: &ExecuteOptions,
        now: Instant,
    ) {
        self.entries.push(Entry {
            id,
            events,
            tell_start: options.tell_start,
            aside: options.aside.then(Aside::default),
            timeout: options.timeout,
            started: false,
            begin: Begin::Waits,
            count: None,
            reply: None,
            error: None,
            idle: false,
            input: None,
            asking: None,
            stdin: if options.allow_stdin {
                Stdin::Asked
            } else {
                Stdin::Closed
            },
            interrupts: 0,
            losses: 0,
            remarks: Vec::new(),
            asked: 0,
            stop: Stop::None,
            settling: Settling::of(&self.quirks),
            outputs: 0,
            wake: None,
        });
        self.watch_first(now);
    }

    /// Starts the timeout of the first in the queue: a kernel whose loop is blocked would never start it.
    fn watch_first(&mut self, now: Instant) {
        if let Some(first) = self.entries.first_mut()
            && !first.started
            && first.wake.is_none()
        {
            first.wake = first.time_up(now);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether messages with this parent belong to a cell, and not to a request of ours beside the cells.
    pub(super) fn is_cell(&self, parent: Option<&str>) -> bool {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| Some(entry.id.as_str()) == parent);
        entry.is_none_or(|entry| entry.tell_start)
    }

    /// When to call [`Table::wake`] next.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.entries
            .iter()
            .filter_map(|entry| Some(entry.wake?.0))
            .min()
    }

    /// Routes a message of the kernel; gives it back if its parent is not in the table.
    pub(super) fn route(
        &mut self,
        channel: Channel,
        mut message: Message,
        mut permit: Option<OwnedSemaphorePermit>,
        now: Instant,
    ) -> Result<(), Stray> {
        if channel == Channel::IoPub {
            self.give_back(&mut message, permit.as_mut());
        }
        let Some(entry) = message
            .parent_id()
            .and_then(|id| self.entries.iter_mut().find(|entry| entry.id == id))
        else {
            return self.late(channel, message, permit);
        };
        match (channel, message.content) {
            // Only the first reply counts.
            (Channel::Shell, Content::ExecuteReply(_)) if entry.reply.is_some() => {}
            (Channel::Shell, Content::ExecuteReply(reply)) => {
                entry.count = reply.execution_count.or(entry.count);
                entry.reply = Some(reply);
            }
            (Channel::Stdin, Content::InputRequest(request)) => {
                entry.ask(request, message.header, now);
            }
            (Channel::IoPub, Content::Status(ExecutionState::Busy)) => entry.start(now),
            (Channel::IoPub, Content::Status(ExecutionState::Idle)) => entry.idle = true,
            (Channel::IoPub, Content::ExecuteInput { execution_count }) => {
                entry.begin(now);
                entry.count = execution_count.or(entry.count);
                if entry.tell_start {
                    // Holds the bytes of its message: a kernel can repeat it without end.
                    let event = ExecutionEvent::Started { count: entry.count };
                    let _ = entry.events.send((event, permit));
                }
            }
            (Channel::IoPub, mut content) => {
                entry.start(now);
                if let Some(comm) = Comm::from_content(&mut content, message.buffers) {
                    let _ = entry.events.send((ExecutionEvent::Comm(comm), permit));
                    entry.after_message(now, self.quirks.late_outputs);
                    return Ok(());
                }
                entry.settling.seen(entry.idle);
                entry.outputs = entry.outputs.saturating_add(1);
                if let Content::Error(error) = &mut content {
                    if let Some(name) = self.quirks.nameless_error
                        && error.ename.is_empty()
                    {
                        name.clone_into(&mut error.ename);
                    }
                    entry.error = Some((error.ename.clone(), error.evalue.clone()));
                }
                if self.quirks.has_started_anew(&content) {
                    self.started_anew = true;
                    entry.send(ExecutionEvent::Output(OutputEvent::Lost(
                        "the kernel restarted its interpreter: all variables are lost".to_owned(),
                    )));
                }
                if let Some(mut output) = OutputEvent::from_content(content) {
                    if self.quirks.ansi_in_plain {
                        output.strip_plain();
                    }
                    // Do not wait for a consumer that has gone.
                    let _ = entry.events.send((ExecutionEvent::Output(output), permit));
                }
            }
            // A reply of another kind with our parent: not part of a cell.
            (Channel::Shell | Channel::Control | Channel::Stdin, _) => {}
        }
        entry.after_message(now, self.quirks.late_outputs);
        self.sweep();
        self.watch_first(now);
        Ok(())
    }

    /// Reports to the running executions that some of their output is missing. If none has started, reports to the
    /// first: a broken message can precede the first sign of its start.
    pub(super) fn lost_output(&mut self, what: &str) {
        let any_started = self.entries.iter().any(|entry| entry.started);
        for (n, entry) in self.entries.iter_mut().enumerate() {
            if entry.started || (n == 0 && !any_started) {
                entry.losses += 1;
                // These hold no bytes, and a kernel can send broken messages without end.
                if entry.losses > LOSSES {
                    continue;
                }
                entry.send(ExecutionEvent::Output(OutputEvent::Lost(what.to_owned())));
            }
        }
    }

    /// The fence's `idle` was seen, so executions that have a reply by now will get no more output.
    pub(super) fn fence_passed(&mut self) {
        for entry in &mut self.entries {
            if entry.reply.is_some() && !entry.idle {
                entry.mark_lost();
            }
        }
        self.sweep();
    }

    /// The code to run silently now, if the kernel restarted its interpreter and no cell runs.
    pub(super) fn take_set_up(&mut self) -> Option<&'static str> {
        let due = self.started_anew && self.entries.is_empty();
        self.started_anew &= !due;
        self.quirks.set_up.filter(|_| due)
    }

    /// Marks the running execution as interrupted by the user. Returns whether there is one.
    pub(super) fn interrupt(&mut self, now: Instant) -> bool {
        self.stop(now, Stop::Requested)
    }

    /// The same for a limit of the kernel: the cell counts as failed, not as stopped by the user.
    pub(super) fn interrupt_at_limit(&mut self, now: Instant) -> bool {
        self.stop(now, Stop::Limit)
    }

    fn stop(&mut self, now: Instant, stop: Stop) -> bool {
        let unanswered = self.quirks.after_interrupt == AfterInterrupt::Unanswered;
        let Some(entry) = self.entries.first_mut() else {
            return false;
        };
        if entry.stop == Stop::None {
            entry.stop = stop;
        }
        entry.interrupts += 1;
        entry.begin.interrupted();
        if unanswered {
            entry.wake = Some((now + UNANSWERED, Wake::Unanswered));
        }
        true
    }

    /// The header that an input reply must answer.
    pub(super) fn take_input(&mut self, id: &str, now: Instant) -> Option<Header> {
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.id == id && entry.stdin == Stdin::Asked)?;
        let header = entry.input.take()?;
        // The user's thinking time does not count against the cell.
        entry.wake = entry.time_up(now);
        Some(header)
    }

    /// Refuses the input request of `id`.
    pub(super) fn refuse_input(&mut self, id: &str, why: &str, now: Instant) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id)
            && entry.input.is_some()
        {
            entry.refuse(why, now);
        }
    }

    /// Handles the waits that are over at `now`; `more_waits` says whether unrouted messages are queued.
    pub(super) fn wake(&mut self, now: Instant, more_waits: bool) -> Vec<Action> {
        let unanswered = self.quirks.after_interrupt == AfterInterrupt::Unanswered;
        let mut actions = Vec::new();
        for entry in &mut self.entries {
            let Some((at, wake)) = entry.wake else {
                continue;
            };
            if at > now {
                continue;
            }
            match wake {
                Wake::TimeUp => {
                    entry.stop = Stop::TimeUp;
                    if entry.interrupts >= INTERRUPTS {
                        entry.wake = None;
                        actions.push(Action::Kill);
                        continue;
                    }
                    entry.interrupts += 1;
                    entry.wake = Some(match self.quirks.after_interrupt {
                        AfterInterrupt::Kept | AfterInterrupt::Lost => {
                            (now + INTERRUPT_WAIT, Wake::TimeUp)
                        }
                        AfterInterrupt::Unanswered => (now + UNANSWERED, Wake::Unanswered),
                    });
                    let interrupts = entry.interrupts;
                    entry.send(ExecutionEvent::StillRunning { interrupts });
                    actions.push(Action::Interrupt);
                }
                Wake::Asks if more_waits && entry.puts_off_question(now) => {}
                Wake::Asks => {
                    entry.tell_question();
                    entry.after_message(now, self.quirks.late_outputs);
                }
                Wake::Refused => {
                    entry.wake = Some((now + INTERRUPT_WAIT, Wake::Refused));
                    if unanswered {
                        entry.wake = Some((now + UNANSWERED, Wake::Unanswered));
                    }
                    let mut told = 0;
                    if let Stdin::Refused { times, .. } = &mut entry.stdin {
                        *times += 1;
                        told = *times;
                    }
                    match (told, entry.input.take()) {
                        // Some kernels react only to a line of input.
                        (2, Some(asked)) => actions.push(Action::EmptyLine(asked)),
                        (0..=3, asked) => {
                            entry.input = asked;
                            actions.push(Action::Interrupt);
                        }
                        _ => {
                            entry.wake = None;
                            actions.push(Action::Kill);
                        }
                    }
                }
                Wake::Quiet => {
                    entry.wake = Some((now + FENCE_WAIT, Wake::FenceLost));
                    actions.push(Action::Fence);
                }
                Wake::FenceLost => entry.mark_lost(),
                Wake::NoReply => entry.give_up_reply(),
                Wake::InterruptAgain => {
                    entry.wake = entry.time_up(now);
                    actions.push(Action::Interrupt);
                }
                Wake::Settled => {
                    entry.settling = Settling::Done;
                    entry.wake = None;
                }
                Wake::Unanswered => {
                    entry.reply = Some(ExecuteReply {
                        status: ReplyStatus::Aborted,
                        ..ExecuteReply::default()
                    });
                    entry.idle = true;
                    entry.settling = Settling::Done;
                    entry.wake = None;
                }
            }
        }
        self.sweep();
        actions
    }

    /// Finishes all executions: the kernel is gone.
    pub(super) fn kernel_died(&mut self, reason: &ExitReason) {
        for mut entry in self.entries.drain(..) {
            let verdict = if *reason == ExitReason::KilledAfterTimeout && !entry.started {
                Verdict::Aborted
            } else {
                Verdict::KernelDied(reason.clone())
            };
            entry.finish(verdict);
        }
    }

    fn sweep(&mut self) {
        let loses_state = self.quirks.after_interrupt != AfterInterrupt::Kept;
        let drops_beyond = self.quirks.drops_beyond;
        self.entries.retain_mut(|entry| {
            let (Some(reply), true, Settling::Done) = (&entry.reply, entry.idle, entry.settling)
            else {
                return true;
            };
            let verdict = entry.verdict(reply);
            if loses_state && entry.was_interrupted(&verdict) {
                entry.send(ExecutionEvent::Output(OutputEvent::Lost(
                    "the interrupt restarted the kernel: all its variables are lost".to_owned(),
                )));
            }
            if drops_beyond.is_some_and(|queue| entry.outputs > queue) {
                let outputs = entry.outputs;
                entry.send(ExecutionEvent::Output(OutputEvent::Lost(format!(
                    "this kernel sends each line by itself and drops some when it is too fast: {outputs} outputs came, \
                     more may be missing; print fewer lines, or write them to a file"
                ))));
            }
            entry.finish(verdict);
            self.late
                .remember(std::mem::take(&mut entry.id), entry.aside.is_some());
            false
        });
    }
}
