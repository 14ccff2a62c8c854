//! Journal and notebook on disk. The notebook's file in the hands of others: seen before each save and each question, and never overwritten.
//!
//! What a person did to it in Jupyter is taken over ([`Edit::Reload`]), and both sides are told. A file that is no
//! notebook any more, or not this one, is left alone: the session goes on in a file beside it.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Edit, Instant, Session, Transcript, now, random_cell_id};
use crate::agent::store::{EVERY, Outcome, Store};
use crate::jupyter::nbformat::Notebook;
use crate::kernel::folder::open_file;
use crate::session::open;

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Stamp {
    /// Of the file as it is now; `None` if there is none.
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

/// What a session has on disk, and what waits for it.
pub(super) struct Disk {
    /// The files; `None` while they are written.
    store: Option<Store>,
    /// When what waits for the journal is written.
    pub(super) keep_at: Option<Instant>,
    saved_revision: Option<u64>,
    /// The notebook's file as it was read or written last.
    pub(super) stamp: Option<Stamp>,
    /// Until something happens a file that is as it should be stays as it is.
    pub(super) is_touched: bool,
    /// Whether what is told waits until it is on disk.
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

    /// Whether this revision is on disk, or is not to be there.
    pub(super) fn has(&self, revision: u64) -> bool {
        self.saved_revision == Some(revision) || !self.is_touched
    }

    /// Notes an edit for the journal.
    pub(super) fn note_edit(&mut self, edit: &Edit) {
        if let Some(store) = &mut self.store {
            store.log(edit);
            if store.is_waiting() {
                self.keep_soon();
            }
        }
    }

    /// What waits is written together with what comes in a moment.
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

    /// Brings journal and notebook up to this transcript; with `sync` both are on the disk then. Returns whether they
    /// are, and what a person is to be told.
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

    /// The session ends in good order.
    pub(super) async fn close(&mut self) {
        self.with_store(|store| store.close(now())).await;
        // With it the lock.
        self.store = None;
    }

    /// Does something with the files where it may block. `None` if they are lost to a panic, which the log has.
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

/// What the file has become.
enum ChangedFile {
    /// The notebook, with changes or without.
    Changed(Box<Notebook>),
    /// Something else, in words.
    Other(String),
}

impl Session {
    /// Takes over what others did to the file since it was read or written here.
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

/// `NAME-2.ipynb`, or the next number that is free.
fn free_name(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    (2..1000)
        .map(|number| path.with_file_name(format!("{stem}-{number}.ipynb")))
        .find(|path| !path.exists())
}
