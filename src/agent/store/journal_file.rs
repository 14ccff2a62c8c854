//! The journal's file: bytes are appended whole or not at all.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::agent::save::write_atomically;

/// A journal's file. This process is its only writer.
#[derive(Debug)]
pub(in crate::agent) struct JournalFile {
    path: PathBuf,
    file: Option<File>,
    /// Offset after the last whole line. Anything after it is overwritten.
    length: u64,
    synced: bool,
}

impl JournalFile {
    /// A file that is created with the first line.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            length: 0,
            synced: true,
        }
    }

    /// Opens an existing file and cuts off everything after `good`.
    pub(in crate::agent) fn open(path: PathBuf, good: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if file.metadata()?.len() > good {
            file.set_len(good)?;
        }
        Ok(Self {
            path,
            file: Some(file),
            length: good,
            synced: true,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Redirects writes to another file.
    #[cfg(test)]
    pub(super) fn stand_in(&mut self, other: File) {
        self.file = Some(other);
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether it existed and was removed by somebody else.
    pub(super) fn is_gone(&self) -> bool {
        let links = self.file.as_ref().map(File::metadata);
        links.is_some_and(|metadata| metadata.is_ok_and(|metadata| metadata.nlink() == 0))
    }

    /// Appends whole lines.
    pub(in crate::agent) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(create(&self.path)?),
        };
        if let Err(error) = file.write_all_at(lines, self.length) {
            // A partial line would count as torn, but a full disk can use the space.
            let _ = file.set_len(self.length);
            return Err(error);
        }
        self.length += lines.len() as u64;
        self.synced = false;
        Ok(())
    }

    /// Replaces the whole content with `lines`.
    pub(super) fn replace(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        if !self.path.exists() {
            // Private from the first byte on: replacing a file keeps its permissions.
            drop(create(&self.path)?);
        }
        write_atomically(&self.path, lines)?;
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        self.length = lines.len() as u64;
        self.file = Some(file);
        self.synced = true;
        Ok(())
    }

    /// Syncs the file to disk.
    pub(in crate::agent) fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file
            && !self.synced
        {
            file.sync_data()?;
            self.synced = true;
        }
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(0o600).open(path)?;
    if let Some(dir) = path.parent() {
        // The name must survive a power failure too; where directories cannot be synced it does so anyway.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(file)
}
