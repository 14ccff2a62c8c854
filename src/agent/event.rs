//! The protocol between the agent and its front ends (`docs/events.md`): commands in, events out.
//!
//! Everything a front end can do is a [`Command`], everything it can see is an [`Event`]. Both are plain data with a
//! stable JSON form; `sponde ask --json` prints the events, one a line.

mod command;
mod end;
mod output;
mod questions;
mod size;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::{Approval, Finding, Grounds, Ruling};
use super::restored::{KernelMemory, RestoredBy};
use super::stdin::AnsweredBy;
use super::totals::Totals;
use crate::session::CellStatus;
use crate::session::changes::FilesChanged;
pub use command::{Command, Decision};
pub use end::TurnEnd;
pub use output::OutputChange;
pub(super) use size::send;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Counts the events of a session from 1.
    pub sequence: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A kernel that code can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelOffer {
    /// Name of its kernelspec.
    pub kernel: String,
    /// Its language.
    pub language: String,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The session is there.
    SessionStarted {
        /// `provider/name` of the model, if there is one.
        model: Option<String>,
        /// Name of the main kernel's kernelspec.
        kernel: String,
        /// All kernels that code can be sent to, the main one first; the others start when their first cell comes.
        kernels: Vec<KernelOffer>,
        /// Where the notebook is kept.
        notebook: String,
        /// What was added to the model's system prompt: `profile NAME`, `SPONDE.md`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        instructions: Vec<String>,
    },
    /// A kernel answers.
    KernelReady {
        /// Name of the kernelspec.
        kernel: String,
        /// Connection file, for `jupyter console --existing`.
        connection_file: String,
    },
    /// The kernel that a resumed session left running does not answer because it is busy. It is waited for.
    KernelBusy {
        /// Name of the kernelspec.
        kernel: String,
        /// The code it was given last, if that was never seen to end.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// A session that was there before goes on, and its main kernel answers.
    SessionResumed {
        /// How many cells it has.
        cells: usize,
        /// How many of them are code that can run again.
        code_cells: usize,
        /// What the kernel has of it.
        memory: KernelMemory,
    },
    /// A cell of a resumed session has run again.
    CellReplayed {
        /// Which cell.
        cell: String,
        /// How many have run again, with this one.
        number: usize,
        /// How many there are.
        of: usize,
        /// How it ended this time.
        status: CellStatus,
        /// In what its outputs are not those that are recorded; none if they are the same.
        differences: Vec<String>,
    },
    /// A resumed session is as it will be: questions can be asked.
    SessionRestored {
        /// Where its variables come from.
        by: RestoredBy,
        /// Cells that were run again.
        ran: usize,
        /// Cells of those whose outputs are different.
        differing: usize,
        /// Names of the variables in the main kernel; `None` if it cannot say.
        #[serde(skip_serializing_if = "Option::is_none")]
        variables: Option<Vec<String>>,
    },
    /// A kernel is gone, and all its variables with it; a new one starts.
    KernelDied {
        /// Name of the kernelspec.
        kernel: String,
        /// How.
        reason: String,
    },
    /// A kernel could not be started.
    KernelFailed {
        /// Name of the kernelspec.
        kernel: String,
        /// What happened.
        message: String,
        /// What the kernel's process wrote about it.
        log: Option<String>,
    },
    /// From now on another model answers.
    ModelChanged {
        /// `provider/name`.
        model: String,
        /// Whether it sees pictures.
        vision: bool,
        /// Its context window in tokens, if known.
        context_window: Option<u64>,
    },
    /// Another model was asked for and cannot be had; the old one goes on.
    ModelUnchanged {
        /// What was asked for.
        model: String,
        /// What is in the way, and perhaps what to do.
        message: String,
    },
    /// The conversation is being compacted for the model.
    CompactionStarted {
        /// Tokens of the prompt, as estimated.
        tokens: u64,
        /// The model's context window in tokens, if it is known.
        window: Option<u64>,
        /// Why.
        reason: CompactionReason,
    },
    /// It was: from now on the model reads less of what was said before. The notebook keeps all of it.
    Compacted {
        /// Tokens of the prompt before, as estimated.
        tokens_before: u64,
        /// Tokens of the prompt after.
        tokens_after: u64,
        /// The model's context window in tokens, if it is known.
        window: Option<u64>,
        /// Who wrote the summary that stands for the cells, `model` or `rules`; `None` if only outputs and pictures
        /// were left out.
        summary_by: Option<String>,
        /// How many cells it is about.
        cells: usize,
        /// How many pictures the model no longer sees.
        pictures: usize,
        /// How many of the person's own messages the summary has, word for word.
        words: usize,
        /// How many of them it has shortened, because they are long.
        shortened: usize,
        /// How many files it names.
        files: usize,
        /// How many variables of the kernels the model was told of.
        variables: usize,
    },
    /// A request to the model begins.
    StepStarted {
        /// Number of the request within the session, from 1.
        step: u32,
    },
    /// A person asks something.
    UserMessage {
        /// Which cell.
        cell: String,
        /// The question.
        text: String,
    },
    /// The model could not be asked, or its reply broke off, for a reason that passes: it is asked again. What came of
    /// the reply so far is void (text in `cell`, and code that was not proposed).
    Retrying {
        /// What happened.
        message: String,
        /// How long until it is asked again, in milliseconds.
        wait_ms: u64,
        /// Which request that will be, from 1.
        attempt: u32,
        /// How many there will be at most.
        of: u32,
        /// The cell with the words that were shown, if any: kept, and marked as cut off.
        cell: Option<String>,
    },
    /// More words of the model.
    Text {
        /// Which cell.
        cell: String,
        /// The words.
        text: String,
    },
    /// More of the model's reasoning, which is no part of the conversation.
    Reasoning {
        /// The words.
        text: String,
    },
    /// More code, while the model writes it.
    CodeDelta {
        /// Which cell it will be.
        cell: String,
        /// The code.
        text: String,
        /// Its language, where the model has named one before the code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// A cell of code is complete.
    CodeProposed {
        /// Which cell.
        cell: String,
        /// The language.
        language: String,
        /// All of the code.
        source: String,
    },
    /// The code waits for a [`Command::Decide`].
    ApprovalRequested {
        /// Which cell.
        cell: String,
        /// What was found in the code, by line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
        /// Why a person is asked, in words.
        #[serde(default)]
        reason: String,
    },
    /// A rule forbids the code: it does not run under any policy or answer.
    CodeForbidden {
        /// Which cell.
        cell: String,
        /// The rule, and what was found.
        ruling: Ruling,
    },
    /// A limit of the turn is reached, or the plan that was asked for is there; whether it goes on is said by
    /// [`Command::Continue`].
    ContinueRequested {
        /// How the turn ends if it does not go on.
        #[serde(flatten)]
        end: TurnEnd,
    },
    /// The kernel took the code.
    CodeStarted {
        /// Which cell.
        cell: String,
    },
    /// The code waits for a [`Command::Reply`].
    InputRequested {
        /// Which cell.
        cell: String,
        /// What to show before the cursor.
        prompt: String,
        /// Whether the answer must be hidden.
        password: bool,
    },
    /// The code got its line.
    InputAnswered {
        /// Which cell.
        cell: String,
        /// The line; `None` if it is a password.
        value: Option<String>,
        /// Who gave it.
        by: AnsweredBy,
        /// The client that sent it, if a person gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
    /// The question of [`EventKind::ApprovalRequested`] is answered.
    ApprovalResolved {
        /// Which cell.
        cell: String,
        /// How.
        #[serde(flatten)]
        decision: Decision,
        /// The client that decided.
        by: String,
    },
    /// Code is about to be given to a kernel: no further question is asked. Not shown on screens.
    CodeApproved {
        /// Which cell.
        cell: String,
        /// SHA-256 of the code.
        sha256: String,
        /// Why it may run.
        grounds: Grounds,
        /// The client that wants it so, if a person does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The rule or policy that it went by, and what was found in the code; of a model's only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Ruling>,
    },
    /// A model is asked. Not shown on screens.
    ModelAsked {
        /// What for: `reply`, `summary` of the conversation, `input` that code asked for.
        purpose: String,
        /// `provider/name`.
        model: String,
        /// The host that it is asked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// From now on a person is asked before code of the model runs, or not.
    ApprovalChanged {
        /// When.
        approval: Approval,
        /// The client that wants it so.
        by: String,
    },
    /// The question of [`EventKind::ContinueRequested`] is answered.
    ContinueResolved {
        /// Whether the turn goes on.
        go_on: bool,
        /// The client that decided.
        by: String,
    },
    /// Output of the code.
    Output {
        /// Which cell.
        cell: String,
        /// The change.
        #[serde(flatten)]
        change: OutputChange,
    },
    /// The code was stopped with this many interrupts and still runs.
    StillRunning {
        /// Which cell.
        cell: String,
        /// How many interrupts it got.
        interrupts: u32,
    },
    /// The pictures, charts and HTML of a cell are files now, in the order of its outputs.
    PicturesSaved {
        /// Which cell.
        cell: String,
        /// The files.
        files: Vec<String>,
    },
    /// Files of the workspace are not what they were before the cell.
    FilesChanged {
        /// Which cell.
        cell: String,
        /// Which files.
        #[serde(flatten)]
        files: FilesChanged,
    },
    /// The model read more of an output than it was shown.
    OutputRead {
        /// Id of this reading.
        cell: String,
        /// What it asked for, as it wrote it.
        arguments: String,
        /// What it got.
        answer: String,
    },
    /// The end of the code.
    CodeFinished {
        /// Which cell.
        cell: String,
        /// How.
        status: CellStatus,
        /// The `In [n]` number.
        count: Option<i64>,
    },
    /// A run without a model is over (`sponde run --json`).
    RunFinished {
        /// How many cells were run.
        cells: usize,
        /// The cell that stopped the run, counted from 1.
        failed_cell: Option<usize>,
        /// `ok`, or how that cell ended.
        status: CellStatus,
    },
    /// Turns were taken back.
    Undone(Undone),
    /// Nothing was undone yet, because undo would be incomplete. The same command with `anyway` undoes it anyway.
    UndoAsks {
        /// What would not, in words.
        inexact: Vec<String>,
    },
    /// Nothing can be taken back.
    UndoRefused {
        /// Why.
        message: String,
    },
    /// What can be gone back to.
    Checkpoints {
        /// Latest first.
        checkpoints: Vec<CheckpointInfo>,
    },
    /// Something a person should know.
    Notice {
        /// The words.
        message: String,
    },
    /// Questions that could follow, as the model suggests them.
    FollowUps {
        /// At most three, a line each.
        questions: Vec<String>,
    },
    /// The agent is idle again.
    TurnFinished {
        /// How the turn ended.
        #[serde(flatten)]
        end: TurnEnd,
        /// Tokens of the session so far.
        input_tokens: u64,
        /// Tokens of the session so far.
        output_tokens: u64,
        /// What this turn has cost; nothing if no model was asked.
        turn: Totals,
        /// What the session has cost so far.
        session: Totals,
        /// Where the notebook is, if it could be written.
        notebook: Option<String>,
    },
}

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Undone {
    /// How many cells went.
    pub cells: usize,
    /// Where the variables came from: `copy` of the kernel, `file`, `cells` that ran again, `new kernel`; or they are
    /// `unchanged`.
    pub variables: String,
    /// Files that are as they were, by relative path.
    pub restored: Vec<String>,
    /// Files and directories that were not there before.
    pub removed: Vec<String>,
    /// What is not as it was, in words.
    pub notes: Vec<String>,
    /// The directory that has it all: the cells as a notebook, and the files that were replaced or removed.
    pub kept_in: Option<String>,
}

/// A moment that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointInfo {
    /// Its name.
    pub number: u64,
    /// When, ISO 8601.
    pub at: String,
    /// Whether it is before a question or a cell of the person's own, and not in the middle of a turn.
    pub starts_turn: bool,
    /// The first line of the cell that follows.
    pub before: String,
    /// Where variables would come from, in the words of [`Undone::variables`].
    pub kind: String,
    /// Memory that only its copy of the kernel has, or the size of its file.
    pub bytes: Option<u64>,
}

/// Why the conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionReason {
    /// The next prompt would leave too little room for the reply.
    NearLimit,
    /// The model refused the prompt as too long.
    Refused,
    /// The person wants it.
    Requested,
}
