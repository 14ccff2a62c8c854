//! Events -> a scrolling terminal that copies and pipes well. The model's words go to stdout, the rest to stderr.

mod busy;
mod cell;
mod code;
mod frame;
pub(super) mod grid;
pub mod measure;
mod notes;
mod output;
mod traceback;

use std::io::{self, IsTerminal as _};

use super::attention::Attention;
use super::compaction;
use super::filter;
use super::hints::{KERNEL_HINT, model_hint};
use super::link::Links;
use super::markdown::Markdown;
use super::picture::Protocol;
use super::style::{self, BAD, DIM, GOOD, NAME, WARN, paint};
use super::totals;
use crate::agent::{EventKind, TurnEnd};
use crate::error::Failure;
use crate::session::CellStatus;
use busy::Busy;
pub(super) use cell::clipped;
use cell::{Live, OpenCell, write_now};
pub(super) use code::Proposal;

/// Shows a session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a terminal can, and where its cursor is"
)]
pub(super) struct Renderer {
    colours: bool,
    /// That of the main kernel.
    language: String,
    /// Whether a person reads stderr.
    terminal: bool,
    /// Whether what stands on the screen can be replaced.
    moves_cursor: bool,
    /// Whether the model's words go to a terminal that can show more than characters.
    renders: bool,
    protocol: Protocol,
    section: Section,
    /// Whether the cursor is at the start of a line.
    fresh: bool,
    busy: Busy,
    /// Code of the latest reply.
    code: code::ReplyCode,
    /// The words that are being written, by the id of their cell, where they are made readable for a terminal.
    words: Option<(String, Markdown)>,
    /// The last code that did not run or failed, and its language.
    failed: Option<(String, String)>,
    /// The model's words go to stderr, too: something else is the answer.
    words_aside: bool,
    /// The model's words have not ended their line.
    text_open: bool,
    /// The model has said something in this session.
    said_before: bool,
    cell: Option<OpenCell>,
    /// The number of the cell that runs.
    number: Option<usize>,
    live: Live,
    /// One of several turns: errors are told here, and the notebook only once.
    chat: bool,
    notebook_named: bool,
    /// Why the turn stops was said when the person was asked whether to go on.
    limit_told: bool,
    /// Whether names of files are links.
    links: Links,
    /// What the terminal is told besides.
    attention: Option<Attention>,
    /// Questions that the model has suggested last.
    follow_ups: Vec<String>,
    /// stdout takes no more, for this reason: nothing more can be said.
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
    /// `chat` says whether more turns will follow.
    pub(super) fn new(chat: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            colours: style::stderr_colours(),
            language: String::new(),
            terminal,
            moves_cursor: style::moves_cursor(),
            renders: style::moves_cursor() && io::stdout().is_terminal(),
            protocol: Protocol::detect(terminal, &|name| std::env::var(name).ok()),
            section: Section::None,
            fresh: true,
            busy: Busy::default(),
            words: None,
            failed: None,
            words_aside: false,
            code: code::ReplyCode::default(),
            text_open: false,
            said_before: false,
            cell: None,
            number: None,
            live: Live::default(),
            chat,
            notebook_named: false,
            limit_told: false,
            links: Links::default(),
            attention: None,
            follow_ups: Vec::new(),
            unread: None,
        }
    }

    /// Tells the terminal besides what `attention` says.
    pub(super) fn attending(mut self, attention: Attention) -> Self {
        self.links = Links::of(attention.links);
        self.attention = Some(attention);
        self
    }

    /// The language of the main kernel, which cells are in unless they say another.
    pub(super) fn speaks(&mut self, language: &str) {
        language.clone_into(&mut self.language);
    }

    /// What goes on, for the title of the window.
    pub(super) fn name(&mut self, what: &str) {
        if let Some(attention) = &mut self.attention {
            attention.name(what);
        }
    }

    /// Leaves stdout alone from now on.
    pub(super) fn words_aside(&mut self) {
        self.words_aside = true;
        self.renders = self.moves_cursor;
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &EventKind) {
        if !Self::leaves_open(event) {
            self.settle();
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
            EventKind::CompactionStarted { .. } => self.status("compacting the conversation"),
            EventKind::Compacted { .. } => {
                if let Some(words) = compaction::words(event) {
                    self.note(DIM, &words);
                }
            }
            EventKind::StepStarted { .. } => {
                self.code.clear();
            }
            EventKind::Text { cell, text } => self.text(cell, text),
            EventKind::Reasoning { text } => {
                self.open(Section::Reasoning, "");
                self.err(&paint(DIM, &filter::plain(text), self.colours));
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
                // Of an only turn in which nothing came of the model, nothing is kept.
                let is_empty = !self.chat && session.requests == 0;
                let is_kept = !(is_empty && matches!(end, TurnEnd::ModelFailed { .. }));
                let notebook = notebook.as_deref().filter(|_| is_kept);
                self.turn_finished(end, totals, notebook);
            }
        }
    }

    /// Ends the line that was begun, so that something else can be printed.
    pub(super) fn end_line(&mut self) {
        self.clear_status();
        self.end_text();
        self.end_code();
        if !self.fresh {
            self.err("\n");
        }
    }

    fn text(&mut self, cell: &str, text: &str) {
        if self.section != Section::Text {
            self.end_line();
            if self.section != Section::None {
                self.err("\n");
            }
            if self.said_before {
                // To a file, the words of two steps are two paragraphs; the terminal has what lies between.
                if !self.words_aside && !io::stdout().is_terminal() {
                    self.out("\n");
                }
            }
            self.said_before = true;
            self.section = Section::Text;
        }
        let text = if self.renders {
            self.rendered(cell, text)
        } else {
            filter::plain(text)
        };
        if let Some(last) = text.chars().next_back() {
            self.out(&text);
            self.text_open = last != '\n';
            self.fresh = !self.text_open;
        }
    }

    /// The words as a terminal shows them, as far as they are certain.
    fn rendered(&mut self, cell: &str, text: &str) -> String {
        let colours = self.colours;
        let words = match &mut self.words {
            Some((id, words)) if id == cell => words,
            words => {
                let new = (cell.to_owned(), Markdown::new(colours));
                &mut words.insert(new).1
            }
        };
        words.set_width(usize::try_from(style::columns()).unwrap_or(80));
        words.push(text)
    }

    /// Writes to stdout; the first failure is kept.
    fn out(&mut self, text: &str) {
        self.erase();
        if self.words_aside {
            write_now(text);
        } else if let Err(failure) = super::print(text) {
            self.unread.get_or_insert(failure);
        }
        self.busy.printed();
    }

    /// The model's words end with a line, wherever they go.
    fn end_text(&mut self) {
        if self.section != Section::Text {
            return;
        }
        if let Some((_, words)) = &mut self.words {
            let rest = words.finish();
            if let Some(last) = rest.chars().next_back() {
                self.out(&rest);
                self.text_open = last != '\n';
            }
        }
        if self.text_open {
            self.out("\n");
            self.text_open = false;
        }
        self.fresh = true;
    }

    fn open(&mut self, section: Section, title: &str) {
        if self.section == section {
            return;
        }
        self.end_line();
        if !title.is_empty() {
            let width = usize::try_from(style::columns().min(72)).unwrap_or(72);
            let rule = format!(
                "── {title} {}",
                "─".repeat(width.saturating_sub(title.chars().count() + 4))
            );
            let rule = paint(DIM, &rule, self.colours);
            self.err(&format!("{rule}\n"));
        }
        self.section = section;
    }

    fn cell_finished(&mut self, cell: &str, status: CellStatus) {
        self.code_ended(cell, status);
        if !matches!(
            status,
            CellStatus::Ok | CellStatus::Error | CellStatus::Interrupted
        ) {
            self.note(WARN, &format!("{}: {status}", self.code.name(cell)));
        }
        if let Some(words) = self.ended_silently(status) {
            self.note(DIM, &words);
        } else if let Some(time) = self.ran_for() {
            self.note(DIM, &format!("({time})"));
        }
        self.end_line();
    }

    /// What is said of a cell without output, which has a number that a person can name.
    fn ended_silently(&self, status: CellStatus) -> Option<String> {
        let number = self.number.filter(|_| self.chat)?;
        let is_silent = status == CellStatus::Ok && !matches!(self.section, Section::Output(_));
        let time = self
            .ran_for()
            .map_or_else(String::new, |it| format!(", {it}"));
        is_silent.then(|| format!("(cell {number}: no output{time})"))
    }

    /// A limit is reached.
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
        self.code.clear();
        self.section = Section::None;
        match end {
            TurnEnd::Done | TurnEnd::CellFailed | TurnEnd::Declined => {}
            TurnEnd::Planned => self.note(DIM, "the plan is not carried out"),
            TurnEnd::Interrupted => self.note(WARN, "interrupted"),
            // In a chat the person was told when they were asked.
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
            let name = paint(NAME, &filter::plain(notebook), self.colours);
            let name = self.links.file(notebook, &name);
            let label = paint(DIM, "notebook:", self.colours);
            self.err(&format!("{blank}{label} {name}\n"));
        }
    }

    /// A line of ours that leads to a file. Where it is a link it is not wrapped, which would cut the link.
    fn linked(&mut self, style: anstyle::Style, text: &str, file: &str) {
        let link = self.links.file(file, text);
        if link == text {
            return self.note(style, text);
        }
        self.end_line();
        self.err(&format!("{}\n", paint(style, &link, self.colours)));
        self.draw();
    }

    /// A line of ours.
    pub(super) fn note(&mut self, style: anstyle::Style, text: &str) {
        self.end_line();
        let text = style::wrapped_for_stderr(text);
        self.err(&format!("{}\n", paint(style, &text, self.colours)));
        self.draw();
    }

    fn err(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let erased = self.erasure();
        write_now(&(erased + text));
        self.fresh = text.ends_with('\n');
        self.busy.printed();
    }
}

impl Drop for Renderer {
    /// What came of a cell that nobody waited for is shown too.
    fn drop(&mut self) {
        self.settle();
    }
}
