//! The code of a reply. Each cell is shown once and in full, before anyone is asked about it and before it runs. The
//! first cell is shown while the model writes it, the others when it is their turn.

use super::super::tint::{Tinted, tinted};
use super::busy::Activity;
use super::{EventKind, Renderer, Section, filter};
use crate::session::CellStatus;

/// The title of code that differs from the version shown while it was written.
const CHANGED: &str = "as it will run";

/// The cells of one reply.
#[derive(Default)]
pub(super) struct ReplyCode {
    /// The cell that is shown while it is being written.
    written: Option<Written>,
    /// Its colours.
    tinted: Option<Tinted>,
    proposals: Vec<Proposal>,
}

/// The part of a cell that was shown while it was being written.
struct Written {
    cell: String,
    /// The language in which it was shown: named by the model before the code, or the main kernel's.
    language: String,
    code: String,
}

/// A cell that the model wants to run.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Proposal {
    cell: String,
    /// Its language, as in the kernelspec.
    pub(in crate::cli) language: String,
    /// The code.
    pub(in crate::cli) source: String,
    is_shown: bool,
}

impl ReplyCode {
    /// Another reply begins, or the same one again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn at(&self, cell: &str) -> Option<usize> {
        self.proposals.iter().position(|it| it.cell == cell)
    }

    /// `cell`, or `cell 2 of 3` if there are several.
    pub(super) fn name(&self, cell: &str) -> String {
        match (self.at(cell), self.proposals.len()) {
            (Some(at), of @ 2..) => format!("cell {} of {of}", at + 1),
            _ => "cell".to_owned(),
        }
    }
}

impl Renderer {
    /// A cell of the reply, its number in it from 1, and how many there are.
    pub(in crate::cli) fn proposal(&self, cell: &str) -> Option<(Proposal, usize, usize)> {
        let at = self.cells.reply.at(cell)?;
        let proposal = self.cells.reply.proposals.get(at)?;
        Some((proposal.clone(), at + 1, self.cells.reply.proposals.len()))
    }

    /// The code before `cell` that did not run or failed, and the cell's own code.
    pub(in crate::cli) fn revision(&self, cell: &str) -> Option<(String, String)> {
        let proposal = self.cells.reply.proposals.get(self.cells.reply.at(cell)?)?;
        let (language, before) = self.cells.failed.clone()?;
        (language == proposal.language).then(|| (before, proposal.source.clone()))
    }

    /// Records a cell's end. Code that failed may be revised.
    pub(super) fn code_ended(&mut self, cell: &str, status: CellStatus) {
        let proposal = self.cells.reply.at(cell);
        let proposal = proposal.and_then(|at| self.cells.reply.proposals.get(at));
        if let Some(proposal) = proposal {
            let failed = (proposal.language.clone(), proposal.source.clone());
            self.cells.failed = (status != CellStatus::Ok).then_some(failed);
        }
    }

    /// The person edited a cell.
    pub(in crate::cli) fn changed(&mut self, cell: &str, source: &str) {
        let at = self.cells.reply.at(cell);
        if let Some(proposal) = at.and_then(|at| self.cells.reply.proposals.get_mut(at)) {
            source.clone_into(&mut proposal.source);
        }
    }

    /// Handles an event about a reply's code.
    pub(super) fn code_event(&mut self, event: &EventKind) {
        match event {
            EventKind::CodeDelta {
                cell,
                text,
                language,
            } => self.code_written(cell, text, language.as_deref()),
            EventKind::CodeProposed {
                cell,
                language,
                source,
            } => self.code_proposed(cell, language, source),
            EventKind::ApprovalRequested { cell, .. } => {
                self.code_due(cell);
                self.end_line();
            }
            EventKind::CodeStarted { cell } => {
                self.code_due(cell);
                self.cell_begins();
            }
            _ => {}
        }
    }

    /// More code from the model.
    fn code_written(&mut self, cell: &str, text: &str, language: Option<&str>) {
        let main = &self.cells.main_language;
        let written = self.cells.reply.written.get_or_insert_with(|| Written {
            cell: cell.to_owned(),
            language: language.unwrap_or(main).to_owned(),
            code: String::new(),
        });
        if written.cell != cell {
            self.end_line();
            self.status(Activity::WritingNextCell);
            return;
        }
        written.code.push_str(text);
        let language = written.language.clone();
        let title = match &*language {
            "" => "code".to_owned(),
            language => filter::plain(language),
        };
        self.open(Section::Code(cell.to_owned()), &title);
        let colours = self.can.colours;
        let tinted = &mut self.cells.reply.tinted;
        let tinted = tinted.get_or_insert_with(|| Tinted::new(&language, colours));
        let text = tinted.push(text);
        self.err(&text);
    }

    /// The code being written is complete.
    pub(super) fn end_code(&mut self) {
        if let Some(mut tinted) = self.cells.reply.tinted.take() {
            let rest = tinted.finish();
            self.err(&rest);
        }
    }

    /// A cell is complete.
    fn code_proposed(&mut self, cell: &str, language: &str, source: &str) {
        let is_first = self.cells.reply.proposals.is_empty();
        let written = self.cells.reply.written.take_if(|it| it.cell == cell);
        let shown = match &written {
            Some(it) if it.code == source && [language, ""].contains(&&*it.language) => Some(None),
            Some(_) => Some(Some(format!("{language} · {CHANGED}"))),
            None if is_first => Some(Some(language.to_owned())),
            // It is shown when it is its turn.
            None => None,
        };
        if let Some(Some(title)) = &shown {
            self.whole_code(title, language, source);
        }
        if shown.is_some() {
            self.end_line();
        }
        self.cells.reply.proposals.push(Proposal {
            cell: cell.to_owned(),
            language: language.to_owned(),
            source: source.to_owned(),
            is_shown: shown.is_some(),
        });
    }

    /// It is this cell's turn.
    fn code_due(&mut self, cell: &str) {
        let of = self.cells.reply.proposals.len();
        let Some(at) = self.cells.reply.at(cell) else {
            return;
        };
        let Some(proposal) = self.cells.reply.proposals.get_mut(at) else {
            return;
        };
        if std::mem::replace(&mut proposal.is_shown, true) {
            return;
        }
        let Proposal {
            language, source, ..
        } = proposal.clone();
        let title = format!("{language} · {} of {of}", at + 1);
        self.whole_code(&title, &language, &source);
        self.end_line();
    }

    fn whole_code(&mut self, title: &str, language: &str, source: &str) {
        self.open(Section::None, "");
        self.open(Section::Code(String::new()), &filter::plain(title));
        let code = tinted(source, language, self.can.colours);
        self.err(&code);
    }
}
