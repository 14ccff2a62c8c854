//! The journal's file: bytes are appended whole or not at all.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::agent::save::write_atomically;

/// The file of a journal. Nobody else writes it.
#[derive(Debug)]
pub(in crate::agent) struct JournalFile {
    path: PathBuf,
    file: Option<File>,
    /// Where the last whole line ends. What is behind it is overwritten.
    length: u64,
    synced: bool,
}

impl JournalFile {
    /// One that is not there yet: it is made with the first line.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            length: 0,
            synced: true,
        }
    }

    /// One that is there; what is behind `good` is cut off.
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

    /// Writes to another file from now on.
    #[cfg(test)]
    pub(super) fn stand_in(&mut self, other: File) {
        self.file = Some(other);
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether it was there and somebody has removed it.
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
            // A part of a line would be taken for a torn one, but a disk that is full has better use for it.
            let _ = file.set_len(self.length);
            return Err(error);
        }
        self.length += lines.len() as u64;
        self.synced = false;
        Ok(())
    }

    /// Puts `lines` in the place of everything.
    pub(super) fn replace(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        if !self.path.exists() {
            // Private from the first byte on: a file that is replaced keeps its permissions.
            drop(create(&self.path)?);
        }
        write_atomically(&self.path, lines)?;
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        self.length = lines.len() as u64;
        self.file = Some(file);
        self.synced = true;
        Ok(())
    }

    /// Returns when it is on the disk.
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
        // The name, too, has to survive a power cut; where directories cannot be synced it does so by itself.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(file)
}
