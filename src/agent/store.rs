//! A session on disk: its journal, its notebook, and the lock that makes this process the only writer.
//!
//! `DIR/ID.journal` contains every edit. It is appended to when a cell ends and at most [`EVERY`] after an output
//! arrived, and rewritten when most of it is obsolete, even while a cell runs. `DIR/ID.ipynb`, or the file that the
//! person named, is rendered from it and updated when a cell or a turn ends ([`document`]). The cost of both depends on
//! what changed, not on the size of the session (`docs/adr/0013`).
//!
//! If the disk cannot be written, the session continues in memory: the person is told once, existing data is not
//! damaged, and each later save tries again.
//!
//! A store does not hold the transcript. [`Store::log`] gets each edit before it is applied, [`Store::save`] the
//! content for the notebook.

mod document;
mod fork;
mod journal_file;
mod lock;
mod open_error;
mod recover;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::jupyter::nbformat::Notebook;
use crate::session::journal::{self, Begin, Entry, Permit, RunningKernel, Summary};
use crate::session::notebook::render_from;
use crate::session::{Edit, Transcript};
use document::{Document, OnDisk};
pub use fork::Fork;
pub(super) use journal_file::JournalFile;
pub use lock::Holder;
pub(super) use lock::Lock;
pub use open_error::OpenError;
pub use recover::{Mended, Opened};

/// Maximum delay until an output is in the journal.
pub const EVERY: Duration = Duration::from_millis(100);
/// Maximum bytes queued while the disk cannot be written; beyond it, the whole session must be rewritten.
const MOST_WAITING: usize = if cfg!(test) { 1 << 20 } else { 128 << 20 };
/// Slack before a journal is rewritten: it may reach twice the size of its live content plus this.
const SPARE: u64 = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// A session's files.
#[derive(Debug)]
pub struct Store {
    id: String,
    /// `None` if only the notebook is kept.
    journal: Option<Journal>,
    document: Document,
    summary: Summary,
    /// The last save's error, until one succeeds.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Journal {
    file: JournalFile,
    begin: Begin,
    /// Held while the session is open; `None` until the first line is written.
    lock: Option<Lock>,
    /// An edit that may be merged with the next.
    last: Option<Edit>,
    /// Lines not written yet.
    waiting: Vec<u8>,
    /// The journal's length when it last contained each cell only once.
    least: u64,
    /// Whether there is anything worth a file: a question or a code cell.
    is_worth_it: bool,
    /// Lines were dropped: the whole session must be rewritten, and nothing more is queued until then.
    incomplete: bool,
}

/// What one save writes.
#[derive(Debug)]
pub struct Change {
    /// The cells from index `first` on, and the notebook's metadata.
    notebook: Notebook,
    first: usize,
    /// All lines of the new journal, if it is to be rewritten.
    journal: Option<Vec<u8>>,
    /// Whether to sync the notebook to disk, too.
    sync: bool,
}

/// The result of a save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was written. May carry a notice for the person.
    Saved(Option<String>),
    /// Try again with the whole notebook.
    WantsAll,
    /// Writing failed. Carries a notice, unless the person was already told.
    Failed(Option<String>),
}

impl Store {
    /// A new session in `dir`. Its files are created once there is something to keep.
    pub fn create(dir: &Path, begin: Begin) -> Self {
        let entry = Entry::Begin(begin.clone());
        let mut waiting = Vec::new();
        journal::write(&entry, &mut waiting);
        let mut summary = Summary::default();
        summary.take(&entry);
        Self {
            id: begin.id.clone(),
            document: Document::new(begin.notebook.clone()),
            journal: Some(Journal {
                file: JournalFile::new(journal_path(dir, &begin.id)),
                begin,
                lock: None,
                last: None,
                waiting,
                least: 0,
                is_worth_it: false,
                incomplete: false,
            }),
            summary,
            trouble: None,
        }
    }

    /// A store without a journal: only the notebook at `path`.
    pub fn without_journal(path: PathBuf) -> Self {
        Self {
            id: String::new(),
            journal: None,
            document: Document::new(path),
            summary: Summary::default(),
            trouble: None,
        }
    }

    /// The session's id; empty if it has none.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the notebook is.
    pub fn notebook(&self) -> &Path {
        self.document.path()
    }

    /// Allows overwriting the notebook's file: its content is now in the transcript.
    pub fn accept_notebook(&mut self) {
        self.document.is_torn();
    }

    /// Moves the notebook to `path`, where no file exists.
    pub fn move_notebook(&mut self, path: PathBuf) {
        self.note(&Entry::Notebook(path.clone()));
        self.document = Document::new(path);
    }

    /// Queues an existing transcript. It is written with the next change.
    pub fn seed(&mut self, transcript: &Transcript) {
        for edit in transcript.snapshot() {
            self.summary.take_edit(&edit);
            if let Some(journal) = &mut self.journal {
                journal.wait_for(&edit);
            }
        }
        self.measure();
    }

    /// Measures the queued lines, which contain each cell once; the journal's growth is counted from here.
    fn measure(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.least = journal.waiting.len() as u64;
        }
    }

    /// Queues an edit that is about to be applied.
    pub fn log(&mut self, edit: &Edit) {
        self.summary.take_edit(edit);
        let Some(journal) = &mut self.journal else {
            return;
        };
        journal.is_worth_it |= matches!(
            edit,
            Edit::Say { .. } | Edit::Propose { .. } | Edit::Restore(_)
        );
        if journal.incomplete {
            return;
        }
        if !can_be_joined(edit) {
            journal.settle();
            journal.wait_for(edit);
            return;
        }
        let rest = match &mut journal.last {
            Some(last) => journal::join(last, edit.clone()),
            None => Some(edit.clone()),
        };
        if rest.is_some() {
            journal.settle();
            journal.last = rest;
        }
    }

    /// Queues a fact about the session.
    pub fn note(&mut self, entry: &Entry) {
        self.summary.take(entry);
        if let Some(journal) = self.journal.as_mut().filter(|it| !it.incomplete) {
            journal.settle();
            journal::write(entry, &mut journal.waiting);
        }
    }

    /// Whether anything is queued.
    pub fn is_waiting(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| {
            journal.is_worth_it && (journal.last.is_some() || !journal.waiting.is_empty())
        })
    }

    /// Kernels that may keep running.
    pub fn kernels(&self) -> &[RunningKernel] {
        &self.summary.kernels
    }

    /// Code that a person allowed in this session.
    pub fn permits(&self) -> &[Permit] {
        &self.summary.permits
    }

    /// Appends the queued lines to the journal. Blocks.
    pub fn flush(&mut self) -> Outcome {
        let flushed = self.journal.as_mut().map_or(Ok(()), Journal::flush);
        match flushed {
            Ok(()) => Outcome::Saved(None),
            Err(error) => self.failed(&error, true),
        }
    }

    /// All lines of a shorter journal, if most of this one is obsolete.
    pub fn outgrown(&self, transcript: &Transcript) -> Option<Vec<u8>> {
        let journal = self.journal.as_ref()?;
        let is_too_long = !journal.incomplete && journal.is_too_long(transcript);
        is_too_long.then(|| self.anew(transcript)).flatten()
    }

    /// Replaces the journal with `lines`, which include the queued edits. Blocks.
    pub fn rewrite(&mut self, lines: &[u8]) -> Outcome {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.replace(lines)
        {
            tracing::warn!(%error, "the journal could not be made shorter");
            // Do not try again ten times a second.
            journal.least = journal.file.length();
        }
        self.flush()
    }

    /// What [`Store::save`] should write of `transcript`: the changed cells, or only the notebook's metadata.
    pub fn change(&self, transcript: &Transcript, all: bool, sync: bool) -> Change {
        let changed = transcript.changed_from();
        // Without a journal, nothing is overwritten in place.
        let first = if all || self.journal.is_none() {
            0
        } else {
            self.document.first_to_write(changed)
        };
        let anew = self.journal.as_ref().is_some_and(|journal| {
            journal.incomplete || journal.file.is_gone() || journal.is_too_long(transcript)
        });
        let mut notebook = render_from(transcript, first);
        if !self.id.is_empty() {
            mark(&mut notebook, &self.id);
        }
        Change {
            notebook,
            first,
            journal: anew.then(|| self.anew(transcript)).flatten(),
            sync,
        }
    }

    /// Updates journal and notebook. Blocks.
    pub fn save(&mut self, change: &Change) -> Outcome {
        if self.journal.as_ref().is_some_and(|it| !it.is_worth_it) {
            return Outcome::Saved(None);
        }
        let journalled = match (&mut self.journal, &change.journal) {
            (Some(journal), Some(lines)) => journal.replace(lines),
            (Some(journal), None) => journal.flush().and_then(|()| journal.file.sync()),
            (None, _) => Ok(()),
        };
        let first = change.first;
        if let Err(error) = journalled {
            // The notebook may be on a disk with space; but without the journal it is not overwritten in place.
            if first > 0 {
                return Outcome::WantsAll;
            }
            let failed = self.failed(&error, true);
            return match (self.document.write(&change.notebook), failed) {
                (Ok(_), Outcome::Failed(words)) => Outcome::Saved(words),
                (_, failed) => failed,
            };
        }
        let written = match self.document.look() {
            Ok(found) if first > 0 && found != OnDisk::Ours => return Outcome::WantsAll,
            Ok(_) if first > 0 => self.extend(change),
            Ok(_) => self.document.write(&change.notebook),
            Err(error) => Err(error),
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => return self.failed(&error, false),
        };
        if let Some(journal) = &mut self.journal {
            journal::write(&Entry::Saved(written.saved), &mut journal.waiting);
            if let Err(error) = journal.flush() {
                return self.failed(&error, true);
            }
        }
        let path = self.document.path().display();
        let aside = written.set_aside.map(|aside| {
            format!(
                "`{path}` was changed by another program; that version is kept as `{}`",
                aside.display()
            )
        });
        let again = self
            .trouble
            .take()
            .map(|_| "the session is saved again".to_owned());
        Outcome::Saved(aside.or(again))
    }

    /// Closes the session properly at `at`. Blocks.
    pub fn close(&mut self, at: String) {
        let summary = Summary {
            at,
            ..self.summary.clone()
        };
        self.note(&Entry::Closed(summary));
        if let Some(journal) = &mut self.journal {
            // Failures were reported before; nobody is listening now.
            let _ = journal.flush().and_then(|()| journal.file.sync());
        }
    }

    fn extend(&mut self, change: &Change) -> io::Result<document::Written> {
        if let (Some(journal), Some(from)) =
            (&mut self.journal, self.document.start_of(change.first))
        {
            journal::write(&Entry::Extending { from }, &mut journal.waiting);
            journal.flush()?;
        }
        self.document
            .extend(&change.notebook, change.first, change.sync)
    }

    /// The lines of a compacted journal.
    fn anew(&self, transcript: &Transcript) -> Option<Vec<u8>> {
        let journal = self.journal.as_ref()?;
        let title = self.summary.title.clone().map(Entry::Title);
        let kernels = self.summary.kernels.iter().cloned().map(Entry::Kernel);
        let begin = Begin {
            notebook: self.document.path().to_owned(),
            ..journal.begin.clone()
        };
        let permits = self.summary.permits.iter().cloned().map(Entry::Permitted);
        let others: Vec<Entry> = title.into_iter().chain(kernels).chain(permits).collect();
        let mut lines = Vec::new();
        let saved = self.document.as_saved();
        for entry in journal::shortened(&begin, saved, &others, transcript) {
            journal::write(&entry, &mut lines);
        }
        Some(lines)
    }

    fn failed(&mut self, error: &io::Error, is_journal: bool) -> Outcome {
        let path = match &self.journal {
            Some(journal) if is_journal => journal.file.path(),
            _ => self.document.path(),
        };
        let words = format!(
            "could not write `{}`: {error}; the session continues in memory; saving is retried after each cell",
            path.display()
        );
        let is_new = self.trouble.is_none();
        self.trouble = Some(words.clone());
        Outcome::Failed(is_new.then_some(words))
    }
}

impl Journal {
    /// Whether most of it is obsolete. The cells of a person's own notebook do not count in the transcript's bytes.
    fn is_too_long(&self, transcript: &Transcript) -> bool {
        let says = self.least.max(transcript.bytes() as u64);
        self.file.length() > 2 * (says + SPARE)
    }

    /// Turns the pending edit into a line.
    fn settle(&mut self) {
        if let Some(edit) = self.last.take() {
            self.wait_for(&edit);
        }
    }

    /// Queues the edit, unless the whole session will be rewritten anyway.
    fn wait_for(&mut self, edit: &Edit) {
        if !self.incomplete {
            journal::write_edit(edit, &mut self.waiting);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.is_worth_it {
            return Ok(());
        }
        self.settle();
        if self.incomplete {
            return Err(io::Error::other("it has to be rewritten"));
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.lock().and_then(|()| self.file.append(&self.waiting));
        match written {
            Ok(()) => self.waiting.clear(),
            Err(_) if self.waiting.len() > MOST_WAITING => {
                self.waiting = Vec::new();
                self.incomplete = true;
            }
            Err(_) => {}
        }
        written
    }

    fn replace(&mut self, lines: &[u8]) -> io::Result<()> {
        self.lock()?;
        self.file.replace(lines)?;
        self.last = None;
        self.waiting.clear();
        self.incomplete = false;
        self.least = self.file.length();
        Ok(())
    }

    /// Takes a new session's lock with its first line.
    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_none() {
            let path = self.file.path().with_extension("lock");
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            self.lock = Some(Lock::take(&path).map_err(|error| match error {
                lock::LockError::Io(error) => error,
                lock::LockError::Taken(_) => io::Error::other("another process has it open"),
            })?);
        }
        Ok(())
    }
}

/// Small pieces of text are merged into larger edits.
fn can_be_joined(edit: &Edit) -> bool {
    use crate::kernel::OutputEvent::Stream;
    matches!(
        edit,
        Edit::AppendText { .. }
            | Edit::Emit {
                output: Stream(_),
                ..
            }
    )
}

/// The path of the journal of session `id`.
pub(super) fn journal_path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.journal"))
}

/// Records the session's id in its notebook, so that it is found wherever a person moves the file.
fn mark(notebook: &mut Notebook, id: &str) {
    if let Some(ours) = notebook
        .metadata
        .get_mut("sponde")
        .and_then(serde_json::Value::as_object_mut)
    {
        ours.insert("session".to_owned(), id.into());
    }
}

#[cfg(test)]
mod tests;
