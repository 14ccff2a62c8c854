//! An audit log on disk: `ID.audit` beside the journal; in the state directory the key of this machine and `ID.head`,
//! which records the log's length, so that missing lines at its end are detected.
//!
//! Lines are appended, then the head is overwritten in place. A process killed in between leaves lines after the head,
//! sealed like all others, or a partial line, which is cut off and recorded when the session is reopened.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::chain::{Head, Key, Verified, verify};
use super::record::Record;
use crate::agent::undo::make_private_dir;

/// Fixed size of the head's file, so that it is overwritten in one piece.
const HEAD_BYTES: usize = 512;

/// The files of a session's audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFiles {
    /// The session's id.
    pub session: String,
    /// The log.
    pub log: PathBuf,
    /// The head.
    pub head: PathBuf,
    /// The key of this machine.
    pub key: PathBuf,
}

/// A log open for writing.
#[derive(Debug)]
pub(super) struct AuditFile {
    files: AuditFiles,
    key: Key,
    log: Option<File>,
    head: Option<File>,
    /// Offset after the last whole line.
    length: u64,
    /// Number and hash of the last line.
    last: (u64, String),
}

/// The log as it was found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FoundLog {
    /// Whether it existed.
    pub(super) is_old: bool,
    /// Records to write about its state.
    pub(super) notes: Vec<Record>,
}

/// Why records could not be appended.
#[derive(Debug, thiserror::Error)]
pub(super) enum AppendError {
    /// Writing the lines failed, so none was added.
    #[error("could not write `{}`: {error}", .path.display())]
    Log { path: PathBuf, error: io::Error },
    /// The lines were written, but not the head.
    #[error("could not write `{}`: {error}", .path.display())]
    Head { path: PathBuf, error: io::Error },
}

impl AuditFiles {
    /// The files of session `id`: its log in `sessions`, the rest in `state`.
    pub fn of(id: &str, sessions: &Path, state: &Path) -> Self {
        let dir = state.join("audit");
        Self {
            session: id.to_owned(),
            log: super::log_path(sessions, id),
            head: dir.join(format!("{id}.head")),
            key: dir.join("key"),
        }
    }

    /// The key, if it exists.
    pub fn key(&self) -> Option<Key> {
        Key::parse(&std::fs::read_to_string(&self.key).ok()?)
    }

    fn key_or_new(&self) -> io::Result<Key> {
        if let Some(dir) = self.key.parent() {
            make_private_dir(dir)?;
        }
        let key = Key::random();
        // Written under another name first, so that readers see all of it or nothing.
        let temporary = self.key.with_extension(uuid::Uuid::new_v4().to_string());
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        let file = file.open(&temporary)?;
        file.write_all_at(key.to_text().as_bytes(), 0)?;
        file.sync_all()?;
        let linked = std::fs::hard_link(&temporary, &self.key);
        let _ = std::fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(key),
            // Another session created the key first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self
                .key()
                .ok_or_else(|| io::Error::other("it is not a key")),
            Err(error) => Err(error),
        }
    }

    /// The head, if it exists and can be read.
    pub fn head(&self) -> Option<Head> {
        serde_json::from_str(std::fs::read_to_string(&self.head).ok()?.trim_end()).ok()
    }

    /// Verifies the log; a missing log counts as empty.
    ///
    /// # Errors
    /// Errors of reading the log.
    pub fn verify(&self, each: impl FnMut(&super::chain::Line)) -> io::Result<Verified> {
        let (key, head) = (self.key(), self.head());
        let (key, head, session) = (key.as_ref(), head.as_ref(), &*self.session);
        match File::open(&self.log) {
            Ok(log) => verify(BufReader::new(log), session, key, head, each),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                verify(io::empty(), session, key, head, each)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes log and head. Returns the bytes freed.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove(&self) -> io::Result<u64> {
        let mut freed = 0;
        for path in [&self.log, &self.head] {
            let bytes = std::fs::symlink_metadata(path).map_or(0, |it| it.len());
            match std::fs::remove_file(path) {
                Ok(()) => freed += bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }
}

impl AuditFile {
    /// Opens the log at `files`, or starts a new one. Blocks.
    pub(super) fn open(files: AuditFiles) -> io::Result<(Self, FoundLog)> {
        let key = match files.key() {
            Some(key) => key,
            None => files.key_or_new()?,
        };
        let head = files.head();
        let mut file = Self {
            key,
            log: None,
            head: None,
            length: 0,
            last: (0, super::chain::NONE.to_owned()),
            files,
        };
        let mut found = FoundLog {
            is_old: head.is_some(),
            ..FoundLog::default()
        };
        match OpenOptions::new()
            .read(true)
            .write(true)
            .open(&file.files.log)
        {
            Ok(mut log) => {
                found.is_old = true;
                file.length = whole_lines(&mut log)?;
                found.notes.extend(cut_off(&mut log, file.length)?);
                file.log = Some(log);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !found.is_old {
            return Ok((file, found));
        }
        let verified = file.files.verify(|_| {})?;
        file.last = verified.last;
        if let Some(fault) = verified.fault {
            // Continue from the head's number and hash, so that the gap stays detectable.
            if let Some(head) = head.filter(|head| head.seq > file.last.0) {
                file.last = (head.seq, head.hash);
            }
            found.notes.push(Record::Broken {
                line: fault.line,
                what: fault.what,
            });
        }
        Ok((file, found))
    }

    /// Appends records with their times; with `sync` they are on disk afterwards. Blocks.
    pub(super) fn append(
        &mut self,
        records: &[(String, Record)],
        sync: bool,
    ) -> Result<(), AppendError> {
        let (mut seq, mut hash) = self.last.clone();
        let mut lines = String::new();
        for (time, record) in records {
            seq += 1;
            let place = (seq, &*hash);
            hash = self
                .key
                .write(&self.files.session, place, time, record, &mut lines);
        }
        self.append_lines(lines.as_bytes(), sync)
            .map_err(|error| AppendError::Log {
                path: self.files.log.clone(),
                error,
            })?;
        self.last = (seq, hash);
        self.write_head(sync).map_err(|error| AppendError::Head {
            path: self.files.head.clone(),
            error,
        })
    }

    fn append_lines(&mut self, lines: &[u8], sync: bool) -> io::Result<()> {
        let is_gone = |log: &File| log.metadata().is_ok_and(|it| it.nlink() == 0);
        if self.log.as_ref().is_some_and(is_gone) {
            // The numbering continues, which shows that lines are missing.
            self.log = None;
            self.length = 0;
        }
        let log = match &mut self.log {
            Some(log) => log,
            none => none.insert(create(&self.files.log)?),
        };
        let written = log
            .write_all_at(lines, self.length)
            .and_then(|()| if sync { log.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // A partial line would look like a torn one.
            let _ = log.set_len(self.length);
            return Err(error);
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    fn write_head(&mut self, sync: bool) -> io::Result<()> {
        let head = self
            .key
            .head(&self.files.session, self.last.0, &self.last.1);
        let mut text = serde_json::to_string(&head)?;
        let padding = HEAD_BYTES.saturating_sub(text.len() + 1);
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        let file = match &mut self.head {
            Some(file) => file,
            none => none.insert(
                match OpenOptions::new().write(true).open(&self.files.head) {
                    Ok(file) => file,
                    Err(_) => create(&self.files.head)?,
                },
            ),
        };
        file.write_all_at(text.as_bytes(), 0)?;
        if sync {
            file.sync_data()?;
        }
        Ok(())
    }
}

/// Creates a file that only this user can read, and its directory.
fn create(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        make_private_dir(dir)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(0o600).open(path)?;
    if let Some(dir) = path.parent() {
        // Where directories cannot be synced, the name is durable anyway.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(file)
}

/// Offset after the last complete line.
fn whole_lines(log: &mut File) -> io::Result<u64> {
    let mut end = log.metadata()?.len();
    let mut block = [0; 4096];
    while end > 0 {
        let begin = end.saturating_sub(block.len() as u64);
        log.seek(SeekFrom::Start(begin))?;
        let length = usize::try_from(end - begin).unwrap_or(block.len());
        let part = block.get_mut(..length).unwrap_or_default();
        log.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Cuts off the partial line at the end, and returns a record of it.
fn cut_off(log: &mut File, length: u64) -> io::Result<Option<Record>> {
    let bytes = log.metadata()?.len() - length;
    if bytes == 0 {
        return Ok(None);
    }
    log.seek(SeekFrom::Start(length))?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 64 << 10];
    loop {
        let read = log.read(&mut block)?;
        let part = block.get(..read).unwrap_or_default();
        if part.is_empty() {
            break;
        }
        hasher.update(part);
    }
    log.set_len(length)?;
    Ok(Some(Record::Mended {
        bytes,
        sha256: super::digest::hex(&hasher.finalize()),
    }))
}
