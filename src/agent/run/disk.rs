//! The notebook's file in the hands of others: seen before each save and each question, and never overwritten.
//!
//! What a person did to it in Jupyter is taken over ([`Edit::Reload`]), and both sides are told. A file that is no
//! notebook any more, or not this one, is left alone: the session goes on in a file beside it.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Edit, Session, random_cell_id};
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

/// What the file has become.
enum Found {
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
        if now.is_none() || now == self.stamp {
            return;
        }
        self.stamp = now;
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        match read {
            Ok(Found::Changed(notebook)) => self.take_over(notebook),
            Ok(Found::Other(what)) => self.go_on_beside(&what),
            Err(error) => self.go_on_beside(&error.to_string()),
        }
    }

    fn take_over(&mut self, notebook: Box<Notebook>) {
        let changes = open::changes(&notebook);
        self.edit(Edit::Reload(notebook));
        if let Some(store) = &mut self.store {
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
            "`{}` was replaced by another program and {what}: it is left alone, and the notebook goes on in `{}`",
            old.display(),
            new.display()
        );
        if let Some(store) = &mut self.store {
            store.move_notebook(new.clone());
        }
        self.options.notebook = new;
        self.stamp = None;
        self.notice(&message);
    }
}

fn read(path: &Path) -> Found {
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
            Found::Changed(Box::new(loaded.notebook))
        }
        Ok(_) => Found::Other("is not this session's notebook any more".to_owned()),
        Err(error) => Found::Other(format!("is no notebook any more ({error})")),
    }
}

/// `NAME-2.ipynb`, or the next number that is free.
fn free_name(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    (2..1000)
        .map(|number| path.with_file_name(format!("{stem}-{number}.ipynb")))
        .find(|path| !path.exists())
}
