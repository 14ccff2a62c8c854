//! Events -> a scrolling terminal that copies and pipes well. The model's words go to stdout, the rest to stderr.

mod code;
mod notes;

use std::io::{self, IsTerminal as _, Write as _};

use super::ask;
use super::compaction;
use super::filter::{self, Filter};
use super::picture::Protocol;
use super::style::{self, BAD, DIM, GOOD, NAME, WARN, paint};
use super::totals;
use crate::agent::{EventKind, OutputChange, TurnEnd};
use crate::error::Failure;
use crate::jupyter::mime::{Audience, MimeBundle, joined};
use crate::jupyter::nbformat::Output;
pub(super) use code::Proposal;

/// Lines of one cell's output that are shown; the notebook has them all.
const OUTPUT_LINES: usize = 60;
/// Bytes of one line that are shown.
const LINE_BYTES: usize = 2000;

/// Shows a session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a terminal can, and where its cursor is"
)]
pub(super) struct Renderer {
    colours: bool,
    /// That of the main kernel.
    language: String,
    status_line: bool,
    protocol: Protocol,
    columns: u32,
    section: Section,
    /// Whether the cursor is at the start of a line.
    fresh: bool,
    status_shown: bool,
    /// Code of the latest reply.
    code: code::ReplyCode,
    /// The model's words have not ended their line.
    text_open: bool,
    /// The model has said something in this session.
    said_before: bool,
    filter: Filter,
    lines: usize,
    line_bytes: usize,
    hidden_lines: usize,
    /// One of several turns: errors are told here, and the notebook only once.
    chat: bool,
    notebook_named: bool,
    /// Why the turn stops was said when the person was asked whether to go on.
    limit_told: bool,
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
            status_line: terminal,
            protocol: Protocol::detect(terminal, &|name| std::env::var(name).ok()),
            columns: style::columns(),
            section: Section::None,
            fresh: true,
            status_shown: false,
            code: code::ReplyCode::default(),
            text_open: false,
            said_before: false,
            filter: Filter::default(),
            lines: 0,
            line_bytes: 0,
            hidden_lines: 0,
            chat,
            notebook_named: false,
            limit_told: false,
            unread: None,
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &EventKind) {
        self.clear_status();
        match event {
            EventKind::SessionStarted { .. } => self.began(event),
            EventKind::KernelReady { .. }
            | EventKind::SessionResumed { .. }
            | EventKind::InputAnswered { .. }
            | EventKind::RunFinished { .. }
            // Whoever asked for them shows them.
            | EventKind::Undone(_)
            | EventKind::UndoAsks { .. }
            | EventKind::UndoRefused { .. }
            | EventKind::Checkpoints { .. } => {}
            EventKind::CellReplayed { .. }
            | EventKind::SessionRestored { .. }
            | EventKind::KernelBusy { .. } => {
                for (style, line) in super::resume::lines(event) {
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
            EventKind::ModelChanged { model, .. } => {
                self.note(DIM, &filter::plain(&format!("from now on: {model}")));
            }
            EventKind::ModelUnchanged { model, message } => {
                let text = format!("could not change to {model}: {message}");
                self.note(BAD, &filter::plain(&text));
            }
            EventKind::CompactionStarted { .. } => self.status("compacting the conversation"),
            EventKind::Compacted { .. } => {
                if let Some(words) = compaction::words(event) {
                    self.note(DIM, &words);
                }
            }
            EventKind::StepStarted { .. } => {
                self.code.clear();
                self.status("thinking");
            }
            EventKind::Text { text, .. } => self.text(text),
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
            EventKind::StillRunning { interrupts, .. } => {
                self.note(
                    WARN,
                    &format!("the cell's time is up; interrupted it ({interrupts})"),
                );
            }
            EventKind::PicturesSaved { files, .. } => {
                for file in files {
                    self.note(GOOD, &filter::plain(&format!("plot: {file}")));
                }
            }
            EventKind::OutputRead { arguments, .. } => {
                let words = format!("(the model reads more of an output: {arguments})");
                self.note(DIM, &filter::plain(&words));
            }
            EventKind::CodeFinished { cell, status, .. } => self.cell_finished(cell, status),
            EventKind::Notice { message } => {
                self.note(WARN, &format!("note: {}", filter::plain(message)));
            }
            EventKind::ContinueRequested { end } => {
                self.limit(end);
                self.limit_told = true;
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
        if !self.fresh {
            self.err("\n");
        }
    }

    fn text(&mut self, text: &str) {
        if self.section != Section::Text {
            self.end_line();
            if self.section != Section::None {
                self.err("\n");
            }
            if self.said_before {
                // To a file, the words of two steps are two paragraphs; the terminal has what lies between.
                if !io::stdout().is_terminal() {
                    self.out("\n");
                }
            }
            self.said_before = true;
            self.section = Section::Text;
        }
        let text = filter::plain(text);
        self.out(&text);
        if let Some(last) = text.chars().next_back() {
            self.text_open = last != '\n';
            self.fresh = !self.text_open;
        }
    }

    /// Writes to stdout; the first failure is kept.
    fn out(&mut self, text: &str) {
        if let Err(failure) = super::print(text) {
            self.unread.get_or_insert(failure);
        }
    }

    /// The model's words end with a line, wherever they go.
    fn end_text(&mut self) {
        if self.section == Section::Text && self.text_open {
            self.out("\n");
            self.text_open = false;
            self.fresh = true;
        }
    }

    fn open(&mut self, section: Section, title: &str) {
        if self.section == section {
            return;
        }
        self.end_text();
        self.end_line();
        if !title.is_empty() {
            let width = usize::try_from(self.columns.min(72)).unwrap_or(72);
            let rule = format!(
                "── {title} {}",
                "─".repeat(width.saturating_sub(title.chars().count() + 4))
            );
            let rule = paint(DIM, &rule, self.colours);
            self.err(&format!("{rule}\n"));
        }
        if matches!(section, Section::Output(_)) {
            self.filter.begin_again();
            self.lines = 0;
            self.line_bytes = 0;
            self.hidden_lines = 0;
        }
        self.section = section;
    }

    fn output(&mut self, cell: &str, change: &OutputChange) {
        match change {
            OutputChange::Append { output, .. } => {
                self.open(Section::Output(cell.to_owned()), "output");
                match output {
                    Output::Stream { text, .. } => self.capped(text),
                    Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                        self.display(data);
                    }
                    Output::Error {
                        ename,
                        evalue,
                        traceback,
                        ..
                    } => {
                        self.end_line();
                        let text = if traceback.is_empty() {
                            format!("{ename}: {evalue}")
                        } else {
                            traceback.join("\n")
                        };
                        self.capped(&text);
                        self.end_line();
                    }
                    Output::Other(_) => self.capped("[output of an unknown type]\n"),
                }
            }
            OutputChange::Update { data, .. } => {
                self.open(Section::Output(cell.to_owned()), "output");
                self.display(data);
            }
            // What has scrolled by stays; the notebook shows the last state.
            OutputChange::Clear { .. } => {}
        }
    }

    fn display(&mut self, data: &MimeBundle) {
        self.end_line();
        if let Some(mime) = data.raster()
            && let Some(Ok(bytes)) = data.bytes(mime)
        {
            let shown = self.protocol.render(&bytes, self.columns);
            self.err(&shown);
            return;
        }
        if let Some((mime, value)) = data.richest_for(Audience::Terminal) {
            let text = match mime {
                "text/plain" | "text/markdown" | "text/latex" => {
                    joined(value).unwrap_or_default().into_owned()
                }
                _ => data
                    .text_of("text/plain")
                    .map_or_else(|| format!("[{mime}]"), std::borrow::Cow::into_owned),
            };
            self.capped(&text);
            self.end_line();
        }
    }

    /// Text of an output, up to what a person wants to scroll past.
    fn capped(&mut self, text: &str) {
        let text = self.filter.push(text);
        let mut shown = String::new();
        for piece in text.split_inclusive('\n') {
            if self.lines >= OUTPUT_LINES {
                self.hidden_lines += usize::from(piece.ends_with('\n'));
                continue;
            }
            let room = LINE_BYTES.saturating_sub(self.line_bytes);
            let cut = crate::session::outputs::floor_boundary(piece, room);
            shown.push_str(piece.get(..cut).unwrap_or_default());
            if cut < piece.len() && self.line_bytes <= LINE_BYTES {
                shown.push('…');
                self.line_bytes = LINE_BYTES + 1;
            } else {
                self.line_bytes += cut;
            }
            if piece.ends_with('\n') {
                if !shown.ends_with('\n') {
                    shown.push('\n');
                }
                self.lines += 1;
                self.line_bytes = 0;
            }
        }
        self.err(&shown);
    }

    fn cell_finished(&mut self, cell: &str, status: &str) {
        if self.hidden_lines > 0 {
            self.end_line();
            let hidden = self.hidden_lines;
            self.note(DIM, &format!("… {hidden} more lines, in the notebook"));
            self.hidden_lines = 0;
        }
        if !matches!(status, "ok" | "error" | "interrupted") {
            self.note(WARN, &format!("{}: {status}", self.code.name(cell)));
        }
        self.end_line();
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
            | TurnEnd::CellFailed
            | TurnEnd::Interrupted
            | TurnEnd::Declined
            | TurnEnd::ModelFailed { .. }
            | TurnEnd::KernelFailed { .. } => return,
        };
        self.note(WARN, &filter::plain(&text));
    }

    fn turn_finished(&mut self, end: &TurnEnd, totals: Option<String>, notebook: Option<&str>) {
        self.end_text();
        self.end_line();
        self.section = Section::None;
        match end {
            TurnEnd::Done | TurnEnd::CellFailed | TurnEnd::Declined => {}
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
            } => self.turn_failed(message, &ask::model_hint(key_variable.as_deref())),
            TurnEnd::KernelFailed { message } => self.turn_failed(message, ask::KERNEL_HINT),
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
            let name = paint(NAME, notebook, self.colours);
            let label = paint(DIM, "notebook:", self.colours);
            self.err(&format!("{blank}{label} {name}\n"));
        }
    }

    /// A line of ours.
    pub(super) fn note(&mut self, style: anstyle::Style, text: &str) {
        self.end_line();
        self.err(&format!("{}\n", paint(style, text, self.colours)));
    }

    fn status(&mut self, what: &str) {
        if self.status_line && self.fresh {
            self.err(&paint(DIM, &format!("{what} …"), self.colours));
            self.status_shown = true;
        }
    }

    fn clear_status(&mut self) {
        if self.status_shown {
            self.status_shown = false;
            self.err("\r\u{1b}[K");
            self.fresh = true;
        }
    }

    fn err(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut stderr = io::stderr().lock();
        // Nobody can be told that stderr is gone.
        let _ = stderr.write_all(text.as_bytes());
        let _ = stderr.flush();
        self.fresh = text.ends_with('\n');
    }
}
