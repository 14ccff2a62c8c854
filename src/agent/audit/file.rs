//! An audit log on disk: `ID.audit` beside the journal; in the state directory the key of this machine, and `ID.head`,
//! which says how far the log goes, so that lines missing at its end are missed.
//!
//! Lines are appended and the head is written in its place after them. A process that is killed in between leaves lines
//! behind the head, which are sealed like all others, or a part of a line, which is cut off and named when the session
//! is opened again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::chain::{Head, Key, Verified, verify};
use super::record::Record;
use crate::agent::undo::make_private_dir;

/// Bytes of a head's file, whatever it says: it is written in its place in one piece.
const HEAD_BYTES: usize = 512;

/// Where a session's log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFiles {
    /// The session's id.
    pub session: String,
    /// The log.
    pub log: PathBuf,
    /// How far it goes.
    pub head: PathBuf,
    /// The key of this machine.
    pub key: PathBuf,
}

/// A log that is written.
#[derive(Debug)]
pub(super) struct AuditFile {
    files: AuditFiles,
    key: Key,
    log: Option<File>,
    head: Option<File>,
    /// Where the last whole line ends.
    length: u64,
    /// Number and hash of the last line.
    last: (u64, String),
}

/// A log as it was found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FoundLog {
    /// Whether there was one.
    pub(super) is_old: bool,
    /// What has to be written down about it.
    pub(super) notes: Vec<Record>,
}

/// What could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum AppendError {
    /// No line was written.
    #[error("could not write `{}`: {error}", .path.display())]
    Log { path: PathBuf, error: io::Error },
    /// All lines were, but not how far they go.
    #[error("could not write `{}`: {error}", .path.display())]
    Head { path: PathBuf, error: io::Error },
}

impl AuditFiles {
    /// Those of session `id`: its log in `sessions`, the rest in `state`.
    pub fn of(id: &str, sessions: &Path, state: &Path) -> Self {
        let dir = state.join("audit");
        Self {
            session: id.to_owned(),
            log: super::log_path(sessions, id),
            head: dir.join(format!("{id}.head")),
            key: dir.join("key"),
        }
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<Key> {
        Key::parse(&std::fs::read_to_string(&self.key).ok()?)
    }

    fn key_or_new(&self) -> io::Result<Key> {
        if let Some(dir) = self.key.parent() {
            make_private_dir(dir)?;
        }
        let key = Key::random();
        // Written under another name first, so that a reader finds all of it or nothing.
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
            // Another session was first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self
                .key()
                .ok_or_else(|| io::Error::other("it is not a key")),
            Err(error) => Err(error),
        }
    }

    /// The head, if there is one that can be read.
    pub fn head(&self) -> Option<Head> {
        serde_json::from_str(std::fs::read_to_string(&self.head).ok()?.trim_end()).ok()
    }

    /// Checks the log; a log that is not there is an empty one.
    ///
    /// # Errors
    /// Those of reading.
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

    /// Removes log and head. Returns the bytes that are free now.
    ///
    /// # Errors
    /// What the operating system said.
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
    /// The log at `files`, new or as it is there. Blocks.
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
            // What comes next does not follow what is there, so that nobody can say later that all is well.
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

    /// Appends records, each with its time; with `sync` they are on the disk then. Blocks.
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
            // Its numbers go on, which says that lines are missing.
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
            // A part of a line would be taken for one that was torn.
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

/// A new file that only we can read, in a directory that is made.
fn create(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        make_private_dir(dir)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(0o600).open(path)?;
    if let Some(dir) = path.parent() {
        // Where directories cannot be synced the name survives by itself.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(file)
}

/// Where the last line ends that has an end.
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

/// Cuts off what is behind the last line, and says what it was.
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
