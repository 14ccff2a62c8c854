//! Builds the summary that a list of sessions shows from a journal's entries.

use std::io::{self, BufRead};

use super::{Begin, Entry, HEAD, Parsed, Summary, parse};
use crate::session::transcript::{Author, CellKind, Edit};

/// The prefix of output lines. They make up most of a journal and are irrelevant here.
const OUTPUT: &[u8] = b"{\"edit\":{\"emit\":";
/// Maximum characters kept of a question.
const QUESTION: usize = 200;

impl Summary {
    /// Adds one entry.
    pub fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Begin(begin) => self.at.clone_from(&begin.at),
            Entry::Edit(edit) => self.take_edit(edit),
            Entry::Opened { at, .. } => self.at.clone_from(at),
            Entry::Title(title) => self.title = Some(title.clone()).filter(|it| !it.is_empty()),
            Entry::Kernel(kernel) => {
                self.forget(&kernel.connection_file);
                self.kernels.push(kernel.clone());
            }
            Entry::KernelGone(file) => self.forget(file),
            Entry::Permitted(permit) => self.permits.push(permit.clone()),
            Entry::Closed(summary) => self.at.clone_from(&summary.at),
            Entry::Notebook(path) => self.moved = Some(path.clone()),
            Entry::Extending { .. } | Entry::Saved(_) => {}
        }
    }

    /// Adds one edit.
    pub fn take_edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Say { text, .. } => self.asked(text),
            Edit::Propose { author, source, .. } => self.proposed(author, source),
            Edit::SetModel(model) => self.model = Some(model.clone()),
            Edit::Models(models) => self.model = models.last().map(|(name, _)| name.clone()),
            Edit::Spend(usage) => self.usage += *usage,
            Edit::Accounts(accounts) => self.usage = accounts.session().usage,
            Edit::Start { at, .. } | Edit::Finish { at, .. } if !at.is_empty() => {
                self.at.clone_from(at);
            }
            Edit::Restore(cell) => match &cell.kind {
                CellKind::User => self.asked(&cell.source),
                CellKind::Code(code) => self.proposed(&code.author, &cell.source),
                CellKind::Note
                | CellKind::Assistant { .. }
                | CellKind::Cut
                | CellKind::Reading(_)
                | CellKind::Compaction(_) => {}
            },
            _ => {}
        }
    }

    /// The session's name for display.
    pub fn name(&self) -> Option<&str> {
        self.title.as_deref().or(self.question.as_deref())
    }

    /// A session that begins with a person's own code is named after that code.
    fn proposed(&mut self, author: &Author, source: &str) {
        self.code_cells += 1;
        if *author == Author::Person {
            self.begins_with(&format!("!{source}"));
        }
    }

    /// Adds one question.
    pub fn asked(&mut self, text: &str) {
        self.questions += 1;
        self.begins_with(text);
    }

    fn begins_with(&mut self, text: &str) {
        self.question.get_or_insert_with(|| {
            let gaps = |c: char| c.is_whitespace() || c.is_control();
            let words: Vec<&str> = text.split(gaps).filter(|word| !word.is_empty()).collect();
            words.join(" ").chars().take(QUESTION).collect()
        });
    }

    fn forget(&mut self, connection_file: &std::path::Path) {
        self.kernels
            .retain(|kernel| kernel.connection_file != connection_file);
    }
}

/// Reads the first line of a journal; `None` if it is not a journal.
///
/// # Errors
/// Errors of reading `from`.
pub fn begin(from: &mut impl BufRead) -> io::Result<Option<Begin>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    Ok(match line.strip_suffix(b"\n").map(parse) {
        Some(Parsed::Entry(entry)) => match *entry {
            Entry::Begin(begin) => Some(begin),
            _ => None,
        },
        Some(Parsed::Unknown | Parsed::Damaged) | None => None,
    })
}

/// Summarises a whole journal, skipping outputs.
///
/// # Errors
/// Errors of reading `from`.
pub fn gather(mut from: impl BufRead) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(summary);
        }
        let Some(text) = line.strip_suffix(b"\n") else {
            return Ok(summary);
        };
        let is_output = text
            .get(HEAD..)
            .is_some_and(|json| json.starts_with(OUTPUT));
        if is_output {
            continue;
        }
        if let Parsed::Entry(entry) = parse(text) {
            summary.take(&entry);
        }
    }
}
