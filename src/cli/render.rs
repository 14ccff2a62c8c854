//! Renders events as a scrolling transcript that copies and pipes well. The model's words go to stdout, the rest to
//! stderr.

mod abilities;
mod busy;
mod cell;
mod code;
mod cursor;
mod frame;
pub(super) mod grid;
mod line;
pub mod measure;
mod notes;
mod output;
mod traceback;
mod words;

use super::attention::Attention;
use super::compaction;
use super::filter;
use super::hints::{KERNEL_HINT, model_hint};
use super::link::Links;
use super::style::{self, BAD, DIM, GOOD, NAME, WARN, paint};
use super::totals;
use crate::agent::{EventKind, TurnEnd};
use crate::error::Failure;
use abilities::Abilities;
use busy::{Activity, Busy};
use cell::{Cells, rule};
pub(super) use code::Proposal;
use cursor::Cursor;
pub(super) use line::clipped;
use line::write_now;
use words::Words;

/// Renders a session.
pub(super) struct Renderer {
    can: Abilities,
    section: Section,
    cursor: Cursor,
    busy: Busy,
    words: Words,
    cells: Cells,
    /// One of several turns: errors are shown here, and the notebook only once.
    chat: bool,
    notebook_named: bool,
    /// The limit was already shown when the person was asked whether to continue.
    limit_told: bool,
    /// Other signals to the terminal.
    attention: Option<Attention>,
    /// The questions that the model last suggested.
    follow_ups: Vec<String>,
    /// stdout accepts no more output, for this reason: nothing more can be shown.
    pub unread: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Section {
    None,
    Text,
    Reasoning,
    Code(String),
    Output(String),
}

impl Renderer {
    /// `chat`: more turns follow.
    pub(super) fn new(chat: bool) -> Self {
        let can = Abilities::of_stderr();
        Self {
            section: Section::None,
            cursor: Cursor::default(),
            busy: Busy::default(),
            words: Words::to_stdout(can.moves_cursor),
            cells: Cells::default(),
            chat,
            notebook_named: false,
            limit_told: false,
            attention: None,
            follow_ups: Vec::new(),
            unread: None,
            can,
        }
    }

    /// Adds the signals of `attention`.
    pub(super) fn attending(mut self, attention: Attention) -> Self {
        self.can.links = Links::of(attention.links);
        self.attention = Some(attention);
        self
    }

    /// Sets the main kernel's language, the default for cells.
    pub(super) fn speaks(&mut self, language: &str) {
        language.clone_into(&mut self.cells.main_language);
    }

    /// Shows the current activity in the window's title.
    pub(super) fn name(&mut self, what: &str) {
        if let Some(attention) = &mut self.attention {
            attention.name(what);
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &EventKind) {
        if !Self::leaves_open(event) {
            // The cell's files are listed between its last output and its end.
            let is_over = matches!(
                event,
                EventKind::PicturesSaved { .. }
                    | EventKind::FilesChanged { .. }
                    | EventKind::CodeFinished { .. }
            );
            self.settle(is_over);
        }
        self.tell(event);
        self.follow(event);
        self.draw();
        if let Some(attention) = &mut self.attention {
            attention.follow(event);
        }
    }

    fn tell(&mut self, event: &EventKind) {
        match event {
            EventKind::SessionStarted { .. } => self.began(event),
            EventKind::UserMessage { .. }
            | EventKind::ApprovalResolved { .. }
            | EventKind::ApprovalChanged { .. }
            | EventKind::ContinueResolved { .. } => {
                if let Some(words) = notes::of_others(event) {
                    self.note(DIM, &filter::plain(&words));
                }
            }
            EventKind::CodeForbidden { ruling, .. } => self.forbidden(ruling),
            EventKind::KernelReady { .. }
            | EventKind::SessionResumed { .. }
            | EventKind::InputAnswered { .. }
            | EventKind::RunFinished { .. }
            | EventKind::CodeApproved { .. }
            | EventKind::ModelAsked { .. }
            // The caller that asked for them shows them.
            | EventKind::Undone(_)
            | EventKind::UndoAsks { .. }
            | EventKind::UndoRefused { .. }
            | EventKind::Checkpoints { .. } => {}
            EventKind::CellReplayed { .. }
            | EventKind::SessionRestored { .. }
            | EventKind::KernelBusy { .. } => {
                for (style, line) in super::restored::lines(event) {
                    self.note(style, &filter::plain(&line));
                }
            }
            EventKind::KernelDied { kernel, reason } => {
                let text = format!("kernel {kernel}: {reason}; it is started again");
                self.note(BAD, &filter::plain(&text));
            }
            EventKind::KernelFailed { message, log, .. } => {
                self.kernel_failed(message, log.as_deref());
            }
            EventKind::Retrying {
                message,
                wait_ms,
                attempt,
                of,
                ..
            } => self.asked_again(message, *wait_ms, *attempt, *of),
            EventKind::ModelChanged { .. } | EventKind::ModelUnchanged { .. } => {
                self.model_event(event);
            }
            EventKind::CompactionStarted { .. } => self.status(Activity::Compacting),
            EventKind::Compacted { .. } => {
                if let Some(words) = compaction::words(event) {
                    self.note(DIM, &words);
                }
            }
            EventKind::StepStarted { .. } => {
                self.cells.reply.clear();
            }
            EventKind::Text { cell, text } => self.text(cell, text),
            EventKind::Reasoning { text } => {
                self.open(Section::Reasoning, "");
                self.err(&paint(DIM, &filter::plain(text), self.can.colours));
            }
            EventKind::CodeDelta { .. }
            | EventKind::CodeProposed { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::CodeStarted { .. } => self.code_event(event),
            EventKind::InputRequested { .. } => self.end_line(),
            EventKind::Output { cell, change } => self.output(cell, change),
            EventKind::StillRunning { .. }
            | EventKind::PicturesSaved { .. }
            | EventKind::FilesChanged { .. }
            | EventKind::OutputRead { .. } => self.cell_event(event),
            EventKind::CodeFinished { cell, status, .. } => self.cell_finished(cell, *status),
            EventKind::Notice { message } => {
                self.note(WARN, &format!("note: {}", filter::plain(message)));
            }
            EventKind::FollowUps { questions } => self.suggested(questions),
            EventKind::ContinueRequested { end } => {
                self.end_line();
                self.limit(end);
                self.limit_told = *end != TurnEnd::Planned;
            }
            EventKind::TurnFinished {
                end,
                notebook,
                turn,
                session,
                ..
            } => {
                let totals = (turn.requests > 0).then(|| totals::line(turn, session));
                // For a single turn in which the model produced nothing, nothing is stored.
                let is_empty = !self.chat && session.requests == 0;
                let is_kept = !(is_empty && matches!(end, TurnEnd::ModelFailed { .. }));
                let notebook = notebook.as_deref().filter(|_| is_kept);
                self.turn_finished(end, totals, notebook);
            }
        }
    }

    /// Ends an open line, so that other output can follow.
    pub(super) fn end_line(&mut self) {
        self.clear_status();
        self.end_text();
        self.end_code();
        if !self.cursor.is_at_start() {
            self.err("\n");
        }
    }

    fn open(&mut self, section: Section, title: &str) {
        if self.section == section {
            return;
        }
        self.end_line();
        if !title.is_empty() {
            let rule = rule(title, self.can.colours);
            self.err(&format!("{rule}\n"));
        }
        self.section = section;
    }

    /// Reports that a limit was reached.
    fn limit(&mut self, end: &TurnEnd) {
        let text = match end {
            TurnEnd::StepLimit { steps } => {
                format!("stopped after {steps} steps; ask again to go on, or raise --max-steps")
            }
            TurnEnd::Repeating => {
                "stopped: the same code failed three times in the same way".to_owned()
            }
            TurnEnd::Budget { message } => format!("stopped: {message}"),
            TurnEnd::Done
            | TurnEnd::Planned
            | TurnEnd::CellFailed
            | TurnEnd::Interrupted
            | TurnEnd::Declined
            | TurnEnd::ModelFailed { .. }
            | TurnEnd::KernelFailed { .. } => return,
        };
        self.note(WARN, &filter::plain(&text));
    }

    fn turn_finished(&mut self, end: &TurnEnd, totals: Option<String>, notebook: Option<&str>) {
        self.end_line();
        self.cells.reply.clear();
        self.section = Section::None;
        match end {
            TurnEnd::Done | TurnEnd::CellFailed | TurnEnd::Declined => {}
            TurnEnd::Planned => self.note(DIM, "the plan is not carried out"),
            TurnEnd::Interrupted => self.note(WARN, "interrupted"),
            // In a chat, the person saw this when they were asked.
            TurnEnd::StepLimit { .. } | TurnEnd::Repeating | TurnEnd::Budget { .. } => {
                if !std::mem::take(&mut self.limit_told) {
                    self.limit(end);
                }
            }
            TurnEnd::ModelFailed {
                message,
                key_variable,
            } => self.turn_failed(message, &model_hint(key_variable.as_deref())),
            TurnEnd::KernelFailed { message } => self.turn_failed(message, KERNEL_HINT),
        }
        let mut blank = "\n";
        if let Some(totals) = totals {
            self.err(blank);
            self.note(DIM, &totals);
            blank = "";
        }
        if let Some(notebook) = notebook
            && !self.notebook_named
        {
            self.notebook_named = self.chat;
            let name = paint(NAME, &filter::plain(notebook), self.can.colours);
            let name = self.can.links.file(notebook, &name);
            let label = paint(DIM, "notebook:", self.can.colours);
            self.err(&format!("{blank}{label} {name}\n"));
        }
    }

    /// Prints a line of ours that links to a file. A linked line is not wrapped, because that would cut the link.
    fn linked(&mut self, style: anstyle::Style, text: &str, file: &str) {
        let link = self.can.links.file(file, text);
        if link == text {
            return self.note(style, text);
        }
        self.end_line();
        self.err(&format!("{}\n", paint(style, &link, self.can.colours)));
        self.draw();
    }

    /// A line of ours.
    pub(super) fn note(&mut self, style: anstyle::Style, text: &str) {
        self.end_line();
        let text = style::wrapped_for_stderr(text);
        self.err(&format!("{}\n", paint(style, &text, self.can.colours)));
        self.draw();
    }

    fn err(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let erased = self.erasure();
        write_now(&(erased + text));
        self.printed(text);
    }

    /// Records that this was printed.
    fn printed(&mut self, text: &str) {
        self.cursor.after(text, style::columns());
        self.busy.printed();
    }
}

impl Drop for Renderer {
    /// Also shows the rest of a cell that nobody waited for.
    fn drop(&mut self) {
        self.settle(false);
    }
}
