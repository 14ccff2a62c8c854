//! Journal and notebook on disk. Other programs may change the notebook's file: this is detected before each save and
//! each question, and the change is never overwritten.
//!
//! A person's changes in Jupyter are adopted ([`Edit::Reload`]), and both sides are told. If the file is no notebook
//! any more, or another one, it is left alone, and the session continues in a file next to it.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Edit, Instant, Session, Transcript, now, random_cell_id};
use crate::agent::store::{EVERY, Outcome, Store};
use crate::jupyter::nbformat::Notebook;
use crate::kernel::folder::open_file;
use crate::session::open;

/// Identifies a state of a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Stamp {
    /// The current state of the file; `None` if there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::symlink_metadata(path).ok()?;
        Some(Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            inode: metadata.ino(),
        })
    }
}

/// A session's files, and what waits to be written.
pub(super) struct Disk {
    /// The files; `None` while they are being written.
    store: Option<Store>,
    /// When the pending journal entries are written.
    pub(super) keep_at: Option<Instant>,
    saved_revision: Option<u64>,
    /// The notebook's file when it was last read or written.
    pub(super) stamp: Option<Stamp>,
    /// An up-to-date file is not rewritten until something happens.
    pub(super) is_touched: bool,
    /// Whether events are held back until they are on disk.
    pub(super) is_saving: bool,
}

impl Disk {
    pub(super) fn new(store: Store, stamp: Option<Stamp>, is_touched: bool) -> Self {
        Self {
            store: Some(store),
            keep_at: None,
            saved_revision: None,
            stamp,
            is_touched,
            is_saving: false,
        }
    }

    pub(super) fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    /// Whether this revision is on disk, or does not have to be.
    pub(super) fn has(&self, revision: u64) -> bool {
        self.saved_revision == Some(revision) || !self.is_touched
    }

    /// Queues an edit for the journal.
    pub(super) fn note_edit(&mut self, edit: &Edit) {
        if let Some(store) = &mut self.store {
            store.log(edit);
            if store.is_waiting() {
                self.keep_soon();
            }
        }
    }

    /// Schedules the pending entries, so that they are written together with others that come soon.
    pub(super) fn keep_soon(&mut self) {
        self.keep_at.get_or_insert_with(|| Instant::now() + EVERY);
    }

    /// Writes the pending entries to the journal, and returns a notice for the person. A journal that has outgrown its
    /// transcript is rewritten, so a cell that prints for hours does not fill the disk.
    pub(super) async fn keep(&mut self, transcript: &Transcript) -> Option<String> {
        self.keep_at = None;
        let store = self.store.as_ref();
        let shorter = store.and_then(|store| store.outgrown(transcript));
        let kept = self.with_store(move |store| match shorter {
            Some(lines) => store.rewrite(&lines),
            None => store.flush(),
        });
        match kept.await {
            Some(Outcome::Failed(words)) => words,
            Some(Outcome::Saved(_) | Outcome::WantsAll) | None => None,
        }
    }

    /// Updates journal and notebook to this transcript; with `sync`, both are synced to disk. Returns whether that
    /// succeeded, and a notice for the person.
    pub(super) async fn save(
        &mut self,
        transcript: &Transcript,
        sync: bool,
    ) -> (bool, Option<String>) {
        self.keep_at = None;
        let mut outcome = self.write(transcript, false, sync).await;
        if outcome == Some(Outcome::WantsAll) {
            outcome = self.write(transcript, true, sync).await;
        }
        match outcome {
            Some(Outcome::Saved(words)) => {
                self.saved_revision = Some(transcript.revision());
                (true, words)
            }
            Some(Outcome::Failed(words)) => (false, words),
            Some(Outcome::WantsAll) | None => (false, None),
        }
    }

    async fn write(&mut self, transcript: &Transcript, all: bool, sync: bool) -> Option<Outcome> {
        let change = self.store.as_ref()?.change(transcript, all, sync);
        self.with_store(move |store| store.save(&change)).await
    }

    /// The session ends cleanly.
    pub(super) async fn close(&mut self) {
        self.with_store(|store| store.close(now())).await;
        // This also releases the lock.
        self.store = None;
    }

    /// Works with the files on a thread that may block. `None` if they were lost in a panic, which is logged.
    async fn with_store<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Store) -> T + Send + 'static,
    ) -> Option<T> {
        let mut store = self.store.take()?;
        let worked = tokio::task::spawn_blocking(move || {
            let result = work(&mut store);
            (store, result)
        });
        let (store, result) = worked.await.ok()?;
        self.store = Some(store);
        Some(result)
    }
}

/// The file's new content.
enum ChangedFile {
    /// The notebook, changed or not.
    Changed(Box<Notebook>),
    /// Something else, with a description.
    Other(String),
}

impl Session {
    /// Adopts changes of other programs to the file since it was last read or written here.
    pub(super) async fn look_at_disk(&mut self) {
        let path = self.options.notebook.clone();
        let now = Stamp::of(&path);
        if now.is_none() || now == self.disk.stamp {
            return;
        }
        self.disk.stamp = now;
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        match read {
            Ok(ChangedFile::Changed(notebook)) => self.take_over(notebook),
            Ok(ChangedFile::Other(what)) => self.go_on_beside(&what),
            Err(error) => self.go_on_beside(&error.to_string()),
        }
    }

    fn take_over(&mut self, notebook: Box<Notebook>) {
        let changes = open::changes(&notebook);
        self.edit(Edit::Reload(notebook));
        if let Some(store) = self.disk.store() {
            store.accept_notebook();
        }
        let words = open::words(&changes, &self.transcript);
        if words.is_empty() {
            return;
        }
        self.edit(Edit::Note {
            cell: random_cell_id(),
            text: words,
        });
        let message = format!(
            "the notebook was changed by another program ({}): that is kept, and the model is told",
            open::summary(&changes)
        );
        self.notice(&message);
    }

    fn go_on_beside(&mut self, what: &str) {
        let old = self.options.notebook.clone();
        let Some(new) = free_name(&old) else {
            return;
        };
        let message = format!(
            "`{}` was replaced by another program and {what}: it is left alone, and the notebook continues in `{}`",
            old.display(),
            new.display()
        );
        if let Some(store) = self.disk.store() {
            store.move_notebook(new.clone());
        }
        self.options.notebook = new;
        self.disk.stamp = None;
        self.notice(&message);
    }
}

fn read(path: &Path) -> ChangedFile {
    // A link would show the model a file that code in its kernel cannot read.
    let bytes = open_file(path).and_then(|mut file| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    let notebook = bytes
        .map_err(|error: io::Error| format!("could not be read: {error}"))
        .and_then(|bytes| {
            Notebook::read(&bytes, &mut random_cell_id).map_err(|error| error.to_string())
        });
    match notebook {
        Ok(loaded) if open::is_marked(&loaded.notebook) => {
            ChangedFile::Changed(Box::new(loaded.notebook))
        }
        Ok(_) => ChangedFile::Other("is not this session's notebook any more".to_owned()),
        Err(error) => ChangedFile::Other(format!("is no notebook any more ({error})")),
    }
}

/// `NAME-2.ipynb`, or the next free number.
fn free_name(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    (2..1000)
        .map(|number| path.with_file_name(format!("{stem}-{number}.ipynb")))
        .find(|path| !path.exists())
}
