//! Opens a session from disk, recovering everything whole in its journal.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::document::{Document, OnDisk, is_the_same};
use super::journal_file::JournalFile;
use super::{Journal, Lock, OpenError, Store, journal_path, mark};
use crate::jupyter::nbformat::{Notebook, random_cell_id};
use crate::kernel::Verdict;
use crate::kernel::folder::open_file;
use crate::session::journal::{self, Begin, Entry, KernelChoice, Saved, Summary, VERSION};
use crate::session::notebook::render;
use crate::session::{CellKind, CodeStatus, Edit, OutputLimits, Transcript};

/// Bytes per read.
const BUFFER: usize = 1 << 20;

/// An opened session.
#[derive(Debug)]
pub struct Opened {
    /// Its files.
    pub store: Store,
    /// The conversation.
    pub transcript: Transcript,
    /// Its first journal entry.
    pub begin: Begin,
    /// Repairs and irregularities.
    pub mended: Mended,
    from: Origin,
    /// Whether the code of a notebook can be offered for a replay.
    may_replay: bool,
}

/// Where a transcript comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Nothing,
    Notebook,
    Journal,
}

/// Irregularities of a session that was not closed properly.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a finding of its own, and all can come together"
)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mended {
    /// The session was not closed: the process was killed.
    pub was_killed: bool,
    /// The last line of the journal was torn.
    pub torn: bool,
    /// Number of damaged journal lines.
    pub damaged: usize,
    /// Number of lines only a newer version knows.
    pub unknown: usize,
    /// The notebook's file is missing.
    pub notebook_missing: bool,
    /// Another program changed the notebook's file.
    pub notebook_changed: bool,
    /// The cell that was running when the process was killed.
    pub running: Option<String>,
}

impl Mended {
    /// Notices for a person, a sentence each.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.damaged > 0 {
            words.push(format!(
                "{} lines of the journal are damaged and were left out",
                self.damaged
            ));
        }
        if self.unknown > 0 {
            words.push(format!(
                "{} lines of the journal are of a newer sponde and were left out",
                self.unknown
            ));
        }
        if self.notebook_missing {
            words.push(
                "the notebook is not where it was; it is written again from the journal".to_owned(),
            );
        }
        if self.running.is_some() {
            words.push("a cell was running when the session was killed".to_owned());
        }
        words
    }
}

impl Opened {
    /// A new session.
    pub fn new(dir: &Path, begin: Begin, limits: OutputLimits) -> Self {
        Self {
            store: Store::create(dir, begin.clone()),
            transcript: Transcript::new(limits),
            begin,
            mended: Mended::default(),
            from: Origin::Nothing,
            may_replay: false,
        }
    }

    /// A new session that continues the notebook named in `begin`, from which `transcript` was read.
    pub fn continuing(dir: &Path, begin: Begin, transcript: Transcript) -> Self {
        let mut store = Store::create(dir, begin.clone());
        store.seed(&transcript);
        store.accept_notebook();
        Self {
            store,
            transcript,
            begin,
            mended: Mended::default(),
            from: Origin::Notebook,
            may_replay: false,
        }
    }

    /// A session without a journal: only the notebook at `path` is kept, from which `transcript` was read if it exists.
    pub fn without_journal(
        path: PathBuf,
        transcript: Option<Transcript>,
        limits: OutputLimits,
    ) -> Self {
        let mut store = Store::without_journal(path);
        let from = match &transcript {
            Some(_) => Origin::Notebook,
            None => Origin::Nothing,
        };
        if from == Origin::Notebook {
            store.accept_notebook();
        }
        Self {
            store,
            transcript: transcript.unwrap_or_else(|| Transcript::new(limits)),
            begin: Entries::new(Path::new(""), "", limits).begin,
            mended: Mended::default(),
            from,
            may_replay: false,
        }
    }

    /// Allows replaying the notebook's code, as for a resumed session.
    #[must_use]
    pub fn with_replay(mut self) -> Self {
        self.may_replay = true;
        self
    }

    /// Whether the session is resumed: its kernel may still be running, or may get its variables back.
    pub fn is_resumed(&self) -> bool {
        (self.from == Origin::Journal || self.may_replay) && !self.transcript.cells().is_empty()
    }

    /// Whether the transcript contains everything in the notebook's file.
    pub fn knows_notebook(&self) -> bool {
        match self.from {
            Origin::Nothing => false,
            Origin::Notebook => true,
            Origin::Journal => !self.mended.notebook_changed,
        }
    }

    /// Whether its notebook needs an update before anything else happens.
    pub fn wants_saving(&self) -> bool {
        self.from == Origin::Nothing
            || (self.mended != Mended::default() && !self.mended.notebook_changed)
    }

    /// Opens the session `id` in `dir` at `now`, as its only writer.
    ///
    /// # Errors
    /// [`OpenError`]; its files are then unchanged.
    pub fn open(dir: &Path, id: &str, limits: OutputLimits, now: &str) -> Result<Self, OpenError> {
        let path = journal_path(dir, id);
        let failed = |error| OpenError::Io {
            path: path.clone(),
            error,
        };
        if !path.exists() {
            return Err(OpenError::NoJournal(path));
        }
        let lock = Lock::take_for(&path, id)?;
        let file = File::open(&path).map_err(failed)?;
        let mut found = Entries::new(dir, id, limits);
        let from = BufReader::with_capacity(BUFFER, file);
        let read = journal::read(from, |entry, _| found.take(entry)).map_err(failed)?;
        if found.begin.version > VERSION {
            return Err(OpenError::Newer {
                id: id.to_owned(),
                version: found.begin.version,
            });
        }
        let file = JournalFile::open(path.clone(), read.good).map_err(failed)?;
        let Entries {
            begin,
            mut transcript,
            summary,
            saved,
            extending,
            is_closed,
            is_speaking,
            notebook,
        } = found;
        let mut document = match saved {
            Some(saved) => Document::saved(notebook, saved),
            None => Document::new(notebook),
        };
        let (notebook_missing, notebook_changed) = look(&mut document, &transcript, id, extending)
            .map_err(|error| OpenError::Io {
                path: document.path().to_owned(),
                error,
            })?;
        let mut store = Store {
            id: id.to_owned(),
            journal: Some(Journal {
                file,
                begin: begin.clone(),
                lock: Some(lock),
                last: None,
                waiting: Vec::new(),
                least: 0,
                is_worth_it: true,
                incomplete: false,
            }),
            document,
            summary,
            trouble: None,
        };
        store.note(&Entry::Opened {
            at: now.to_owned(),
            pid: std::process::id(),
        });
        let running = end_what_was_cut_off(&mut store, &mut transcript, is_speaking, now);
        let torn = read.good < read.end;
        let mended = Mended {
            was_killed: !is_closed,
            torn,
            damaged: read.damaged,
            unknown: read.unknown,
            notebook_missing,
            notebook_changed,
            running,
        };
        if mended != Mended::default() {
            tracing::info!(id, ?mended, "opened a session that was not closed in order");
        }
        Ok(Self {
            store,
            transcript,
            begin,
            mended,
            from: Origin::Journal,
            may_replay: false,
        })
    }

    /// Follows the notebook to `path`, where a person moved it.
    ///
    /// # Errors
    /// [`OpenError::Io`] if it cannot be read.
    pub fn move_to(&mut self, path: PathBuf) -> Result<(), OpenError> {
        self.store.note(&Entry::Notebook(path.clone()));
        self.store.document = Document::new(path);
        let Self {
            store, transcript, ..
        } = self;
        let found = look(&mut store.document, transcript, &store.id, false);
        let (missing, changed) = found.map_err(|error| OpenError::Io {
            path: store.document.path().to_owned(),
            error,
        })?;
        self.mended.notebook_missing = missing;
        self.mended.notebook_changed = changed;
        Ok(())
    }

    /// Reads the session `id` in `dir` without opening it, even if another process has it open.
    ///
    /// # Errors
    /// As [`Opened::open`], but for [`OpenError::Taken`].
    pub fn read(
        dir: &Path,
        id: &str,
        limits: OutputLimits,
    ) -> Result<(Begin, Transcript), OpenError> {
        let path = journal_path(dir, id);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => OpenError::NoJournal(path.clone()),
            _ => OpenError::Io {
                path: path.clone(),
                error,
            },
        };
        let file = File::open(&path).map_err(failed)?;
        let mut found = Entries::new(dir, id, limits);
        let from = BufReader::with_capacity(BUFFER, file);
        journal::read(from, |entry, _| found.take(entry)).map_err(failed)?;
        let begin = Begin {
            notebook: found.notebook,
            ..found.begin
        };
        Ok((begin, found.transcript))
    }
}

/// The state accumulated from a journal's lines.
struct Entries {
    begin: Begin,
    transcript: Transcript,
    summary: Summary,
    saved: Option<Saved>,
    extending: bool,
    is_closed: bool,
    /// The model has said something since the notebook was saved.
    is_speaking: bool,
    notebook: PathBuf,
}

impl Entries {
    /// The state before the first line; defaults come from the journal's location.
    fn new(dir: &Path, id: &str, limits: OutputLimits) -> Self {
        let notebook = dir.join(format!("{id}.ipynb"));
        Self {
            begin: Begin {
                version: VERSION,
                id: id.to_owned(),
                at: String::new(),
                cwd: PathBuf::new(),
                notebook: notebook.clone(),
                kernel: KernelChoice::default(),
                forked_from: None,
                sandbox: None,
                databases: Vec::new(),
            },
            transcript: Transcript::new(limits),
            summary: Summary::default(),
            saved: None,
            extending: false,
            is_closed: false,
            is_speaking: false,
            notebook,
        }
    }

    fn take(&mut self, entry: Entry) {
        self.summary.take(&entry);
        self.is_closed = false;
        match entry {
            Entry::Begin(begin) => {
                self.notebook.clone_from(&begin.notebook);
                self.begin = begin;
            }
            Entry::Edit(edit) => {
                self.is_speaking |= matches!(edit, Edit::AppendText { .. });
                if let Err(error) = self.transcript.apply(edit) {
                    tracing::debug!(%error, "an edit of the journal does not fit, nor did it when it was made");
                }
            }
            Entry::Notebook(path) => {
                self.notebook = path;
                self.saved = None;
            }
            Entry::Extending { .. } => self.extending = true,
            Entry::Saved(saved) => {
                self.saved = Some(saved);
                self.extending = false;
                self.is_speaking = false;
                self.transcript.settle();
            }
            Entry::Closed(_) => self.is_closed = true,
            Entry::Opened { .. }
            | Entry::Title(_)
            | Entry::Kernel(_)
            | Entry::KernelGone(_)
            | Entry::Permitted(_) => {}
        }
    }
}

/// Compares the notebook's file with the known state. Returns whether it is missing, and whether another program
/// changed it.
fn look(
    document: &mut Document,
    transcript: &Transcript,
    id: &str,
    extending: bool,
) -> io::Result<(bool, bool)> {
    match document.look()? {
        OnDisk::Ours => return Ok((false, false)),
        OnDisk::Nothing => {
            let path = document.path().to_owned();
            *document = Document::new(path);
            return Ok((!transcript.cells().is_empty(), false)); // It may never have been written.
        }
        OnDisk::Other => {}
    }
    // We may have been killed between writing the file and recording that.
    let mut notebook = render(transcript);
    mark(&mut notebook, id);
    if is_the_same(document.path(), &notebook)? {
        document.is_torn();
        return Ok((false, false));
    }
    if extending && let Ok(mut file) = open_file(document.path()) {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if Notebook::read(&bytes, &mut random_cell_id).is_err() {
            document.is_torn();
            return Ok((false, false));
        }
    }
    Ok((false, true))
}

/// Ends everything that was interrupted: the running cell, cells awaiting a decision, the model's reply. Returns the
/// cell that was running.
pub(super) fn end_what_was_cut_off(
    store: &mut Store,
    transcript: &mut Transcript,
    is_speaking: bool,
    now: &str,
) -> Option<String> {
    let mut running = None;
    let mut edits = Vec::new();
    for cell in transcript.cells() {
        let CellKind::Code(code) = &cell.kind else {
            continue;
        };
        let status = match &code.status {
            CodeStatus::Proposed => {
                CodeStatus::NotRun("Sponde was ended before it could run".to_owned())
            }
            CodeStatus::Running => {
                running = Some(cell.id.clone());
                edits.push(Edit::Hint {
                    cell: cell.id.clone(),
                    text: "Sponde was killed while this ran: how it ended was not seen.".to_owned(),
                });
                CodeStatus::Finished(Verdict::Interrupted)
            }
            CodeStatus::Finished(_) | CodeStatus::Declined(_) | CodeStatus::NotRun(_) => continue,
        };
        edits.push(Edit::Finish {
            cell: cell.id.clone(),
            status,
            at: now.to_owned(),
        });
    }
    if let (true, Some(last)) = (is_speaking, transcript.cells().last())
        && let CellKind::Assistant { step } = last.kind
    {
        edits.push(Edit::AppendText {
            cell: last.id.clone(),
            step,
            text: "\n\n*(interrupted)*".to_owned(),
        });
    }
    for edit in edits {
        store.log(&edit);
        let _ = transcript.apply(edit); // Made for what is there.
    }
    running
}
