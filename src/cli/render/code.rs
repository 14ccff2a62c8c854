//! The code of a reply: each cell is shown once, whole, before anybody is asked about it and before it runs. The first is
//! shown while the model writes it, the others when it is their turn.

use super::super::tint::{Tinted, tinted};
use super::{DIM, EventKind, Renderer, Section, filter};
use crate::session::CellStatus;

/// Stands above code that is not what was shown while it was written.
const CHANGED: &str = "the code, as it will run";

/// The cells of one reply.
#[derive(Default)]
pub(super) struct ReplyCode {
    /// The cell that is shown while it is written, and what was shown of it.
    written: Option<(String, String)>,
    /// Its colours.
    tinted: Option<Tinted>,
    proposals: Vec<Proposal>,
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

    /// `cell`, or `cell 2 of 3` where there are several.
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
        let at = self.code.at(cell)?;
        let proposal = self.code.proposals.get(at)?;
        Some((proposal.clone(), at + 1, self.code.proposals.len()))
    }

    /// The code before that of `cell`, which did not run or failed, and this.
    pub(in crate::cli) fn revision(&self, cell: &str) -> Option<(String, String)> {
        let proposal = self.code.proposals.get(self.code.at(cell)?)?;
        let (language, before) = self.failed.clone()?;
        (language == proposal.language).then(|| (before, proposal.source.clone()))
    }

    /// A cell has ended so. Code that did not do what it was to do may be revised.
    pub(super) fn code_ended(&mut self, cell: &str, status: CellStatus) {
        let proposal = self.code.at(cell);
        let proposal = proposal.and_then(|at| self.code.proposals.get(at));
        if let Some(proposal) = proposal {
            let failed = (proposal.language.clone(), proposal.source.clone());
            self.failed = (status != CellStatus::Ok).then_some(failed);
        }
    }

    /// The person changed a cell.
    pub(in crate::cli) fn changed(&mut self, cell: &str, source: &str) {
        let at = self.code.at(cell);
        if let Some(proposal) = at.and_then(|at| self.code.proposals.get_mut(at)) {
            source.clone_into(&mut proposal.source);
        }
    }

    /// Something about the code of a reply.
    pub(super) fn code_event(&mut self, event: &EventKind) {
        match event {
            EventKind::CodeDelta { cell, text } => self.code_written(cell, text),
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
            }
            _ => {}
        }
    }

    /// More code, while the model writes it.
    fn code_written(&mut self, cell: &str, text: &str) {
        let (first, shown) = self
            .code
            .written
            .get_or_insert_with(|| (cell.to_owned(), String::new()));
        if first == cell {
            shown.push_str(text);
            let title = match &*self.language {
                "" => "code".to_owned(),
                language => filter::plain(language),
            };
            self.open(Section::Code(cell.to_owned()), &title);
            let (language, colours) = (&self.language, self.colours);
            let tinted = self
                .code
                .tinted
                .get_or_insert_with(|| Tinted::new(language, colours));
            let text = tinted.push(text);
            self.err(&text);
        } else {
            self.end_line();
            self.status("writing the next cell");
        }
    }

    /// No more comes of the code that is being written.
    pub(super) fn end_code(&mut self) {
        if let Some(mut tinted) = self.code.tinted.take() {
            let rest = tinted.finish();
            self.err(&rest);
        }
    }

    /// A cell is complete.
    fn code_proposed(&mut self, cell: &str, language: &str, source: &str) {
        let is_first = self.code.proposals.is_empty();
        let written = self.code.written.take_if(|(first, _)| first == cell);
        let shown = match &written {
            Some((_, shown)) if shown == source => Some(None),
            Some(_) => Some(Some(CHANGED)),
            None if is_first => Some(Some(language)),
            // It is shown when it is its turn.
            None => None,
        };
        if let Some(Some(title)) = shown {
            self.whole_code(title, language, source);
        }
        if shown.is_some() {
            self.code_shown(language);
        }
        self.code.proposals.push(Proposal {
            cell: cell.to_owned(),
            language: language.to_owned(),
            source: source.to_owned(),
            is_shown: shown.is_some(),
        });
    }

    /// It is this cell's turn.
    fn code_due(&mut self, cell: &str) {
        let of = self.code.proposals.len();
        let Some(at) = self.code.at(cell) else { return };
        let Some(proposal) = self.code.proposals.get_mut(at) else {
            return;
        };
        if std::mem::replace(&mut proposal.is_shown, true) {
            return;
        }
        let Proposal {
            language, source, ..
        } = proposal.clone();
        let title = format!("{language}, {} of {of}", at + 1);
        self.whole_code(&title, &language, &source);
        self.code_shown(&language);
    }

    fn whole_code(&mut self, title: &str, language: &str, source: &str) {
        self.open(Section::None, "");
        self.open(Section::Code(String::new()), title);
        let code = tinted(source, language, self.colours);
        self.err(&code);
    }

    fn code_shown(&mut self, language: &str) {
        self.end_line();
        if language != self.language {
            self.note(DIM, &filter::plain(&format!("(for the {language} kernel)")));
        }
    }
}
