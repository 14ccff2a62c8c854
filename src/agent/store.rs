//! A session on disk: its journal, its notebook, and the lock that makes us its only writer.
//!
//! `DIR/ID.journal` has every edit, appended when a cell ends and at most [`EVERY`] after an output came, and is written
//! anew when most of it is about what is gone, also while a cell runs; `DIR/ID.ipynb`,
//! or the file that the person named, is a rendering of it and brought up to date when a cell or a turn ends
//! ([`document`]). Both cost what changed, not what the session is (`docs/adr/0013`).
//!
//! When the disk takes no more the session goes on in memory: it is told once, nothing that was written is harmed, and
//! each later save tries again.
//!
//! A store does not hold the transcript. [`Store::log`] is given each edit before it is applied, [`Store::save`] what is
//! to be in the notebook.

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

/// How long an output may wait until it is in the journal.
pub const EVERY: Duration = Duration::from_millis(100);
/// Bytes that wait for a disk that takes no more; then only the whole session will do.
const MOST_WAITING: usize = if cfg!(test) { 1 << 20 } else { 128 << 20 };
/// A journal may be this much longer than what it says, and twice as long.
const SPARE: u64 = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// A session's files.
#[derive(Debug)]
pub struct Store {
    id: String,
    /// `None` if only the notebook is kept.
    journal: Option<Journal>,
    document: Document,
    summary: Summary,
    /// Why the last save failed, until one succeeds.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Journal {
    file: JournalFile,
    begin: Begin,
    /// Held while the session is open; a directory that cannot be written has no lock either.
    lock: Option<Lock>,
    /// An edit that the next may be joined to.
    last: Option<Edit>,
    /// Lines that are not written yet.
    waiting: Vec<u8>,
    /// How long it was when it last said each cell once.
    least: u64,
    /// Whether there is anything worth a file: a question or a cell of code.
    is_worth_it: bool,
    /// Lines are missing: the whole session has to be written, and until then no more of it waits.
    incomplete: bool,
}

/// What is written at once.
#[derive(Debug)]
pub struct Change {
    /// The cells from number `first` on, and the notebook's metadata.
    notebook: Notebook,
    first: usize,
    /// All lines of a new journal, if it is to be written anew.
    journal: Option<Vec<u8>>,
    /// Whether the notebook must be on the disk, too.
    sync: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is written. These are words for the person, if there are any.
    Saved(Option<String>),
    /// Try again with all of the notebook.
    WantsAll,
    /// It could not be written. These are words for the person, unless they have had them.
    Failed(Option<String>),
}

impl Store {
    /// A new session, kept in `dir`. Its files are made when there is something to keep.
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

    /// Keeps nothing but the notebook at `path`.
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

    /// What is in the notebook's file has been taken over into the transcript: it can be overwritten.
    pub fn accept_notebook(&mut self) {
        self.document.is_torn();
    }

    /// The notebook is kept at `path` from now on, where there is none.
    pub fn move_notebook(&mut self, path: PathBuf) {
        self.note(&Entry::Notebook(path.clone()));
        self.document = Document::new(path);
    }

    /// Takes a transcript that is there already. It is written when something happens.
    pub fn seed(&mut self, transcript: &Transcript) {
        for edit in transcript.snapshot() {
            self.summary.take_edit(&edit);
            if let Some(journal) = &mut self.journal {
                journal.wait_for(&edit);
            }
        }
        self.measure();
    }

    /// What waits says each cell once: the journal's growth counts from here.
    fn measure(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.least = journal.waiting.len() as u64;
        }
    }

    /// Takes an edit that is about to be applied.
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

    /// Takes a fact about the session.
    pub fn note(&mut self, entry: &Entry) {
        self.summary.take(entry);
        if let Some(journal) = self.journal.as_mut().filter(|it| !it.incomplete) {
            journal.settle();
            journal::write(entry, &mut journal.waiting);
        }
    }

    /// Whether something waits to be written.
    pub fn is_waiting(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| {
            journal.is_worth_it && (journal.last.is_some() || !journal.waiting.is_empty())
        })
    }

    /// Kernels that may go on without us.
    pub fn kernels(&self) -> &[RunningKernel] {
        &self.summary.kernels
    }

    /// Code that a person lets run in this session.
    pub fn permits(&self) -> &[Permit] {
        &self.summary.permits
    }

    /// Appends what waits to the journal. Blocks.
    pub fn flush(&mut self) -> Outcome {
        let flushed = self.journal.as_mut().map_or(Ok(()), Journal::flush);
        match flushed {
            Ok(()) => Outcome::Saved(None),
            Err(error) => self.failed(&error, true),
        }
    }

    /// All lines of a shorter journal, if this one says too much about what is gone.
    pub fn outgrown(&self, transcript: &Transcript) -> Option<Vec<u8>> {
        let journal = self.journal.as_ref()?;
        let is_too_long = !journal.incomplete && journal.is_too_long(transcript);
        is_too_long.then(|| self.anew(transcript)).flatten()
    }

    /// Puts `lines` in the place of the journal; they say what waits, too. Blocks.
    pub fn rewrite(&mut self, lines: &[u8]) -> Outcome {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.replace(lines)
        {
            tracing::warn!(%error, "the journal could not be made shorter");
            // Not again ten times a second.
            journal.least = journal.file.length();
        }
        self.flush()
    }

    /// What [`Store::save`] is to write of `transcript`, or nothing but the notebook's metadata if nothing changed.
    pub fn change(&self, transcript: &Transcript, all: bool, sync: bool) -> Change {
        let changed = transcript.changed_from();
        // Without a journal nothing is changed in place.
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

    /// Brings journal and notebook up to date. Blocks.
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
            // The notebook may be in a place that has room; without the journal it is not changed in place.
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

    /// The session is closed in good order at `at`. Blocks.
    pub fn close(&mut self, at: String) {
        let summary = Summary {
            at,
            ..self.summary.clone()
        };
        self.note(&Entry::Closed(summary));
        if let Some(journal) = &mut self.journal {
            // Who cannot be told any more was told before.
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

    /// The lines of a journal that says what this one does.
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
            "could not write `{}`: {error}; the session goes on in memory, and saving is tried again after each cell",
            path.display()
        );
        let is_new = self.trouble.is_none();
        self.trouble = Some(words.clone());
        Outcome::Failed(is_new.then_some(words))
    }
}

impl Journal {
    /// Whether most of it is about what is gone. What a person's notebook brought is not in the transcript's bytes.
    fn is_too_long(&self, transcript: &Transcript) -> bool {
        let says = self.least.max(transcript.bytes() as u64);
        self.file.length() > 2 * (says + SPARE)
    }

    /// The edit that waits for others like it becomes a line.
    fn settle(&mut self) {
        if let Some(edit) = self.last.take() {
            self.wait_for(&edit);
        }
    }

    /// The edit is written with the next lines. What the whole session will say need not wait.
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
            return Err(io::Error::other("it has to be written anew"));
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

    /// A new session's lock is taken with its first line.
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

/// Text that comes in small pieces is written in larger ones.
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

/// Where the journal of session `id` is.
pub(super) fn journal_path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.journal"))
}

/// Names the session in its notebook, so that it is found again wherever a person moves the file.
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
