//! The sessions kept in a directory: listing, finding, naming and removing them.
//!
//! Nothing here opens a session: one that another process is writing can be inspected but not removed. For a properly
//! closed session, the last line of its journal is enough, however long the journal is.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::store::{Holder, JournalFile, Lock, OpenError, journal_path};
use crate::agent::audit::AuditFiles;
use crate::jupyter::nbformat::{CellType, Notebook, random_cell_id};
use crate::kernel::remove_tree;
use crate::session::journal::{self, Begin, Entry, Summary};

/// Bytes read first from a journal's end.
const TAIL: u64 = 16 << 10;
/// Bytes per read.
const BUFFER: usize = 1 << 20;

/// A session as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its id, which is the base name of its files.
    pub id: String,
    /// What is in it.
    pub summary: Summary,
    /// The session's `Begin` entry; `None` if only a notebook exists.
    pub begin: Option<Begin>,
    /// Where its notebook is.
    pub notebook: PathBuf,
    /// Total bytes of its files.
    pub bytes: u64,
    /// Bytes of its journal alone.
    pub journal_bytes: u64,
    /// The process that has it open, if any.
    pub open: Option<Holder>,
    /// Whether it was closed properly.
    pub closed: bool,
    /// When its files last changed. Precise enough to order sessions of the same second.
    pub modified: jiff::Timestamp,
}

/// Why a name does not identify a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No session has that name.
    #[error("there is no session `{0}`")]
    None(String),
    /// Several sessions have it.
    #[error("`{wanted}` can mean {}", .ids.join(", "))]
    Several {
        /// What was asked for.
        wanted: String,
        /// Their ids.
        ids: Vec<String>,
    },
}

/// The sessions in `dir`, latest first. Unreadable ones are left out.
pub fn list(dir: &Path) -> Vec<Found> {
    let mut ids: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let ending = path.extension()?;
            let is_one = ending == "journal" || ending == "ipynb";
            let id = path.file_stem()?.to_str()?;
            // A version that was set aside is not a session.
            (is_one && !id.contains(".changed-")).then(|| id.to_owned())
        })
        .collect();
    ids.sort();
    ids.dedup();
    let mut found: Vec<Found> = ids.iter().filter_map(|id| look(dir, id)).collect();
    found.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
    found
}

/// One session in `dir`.
pub fn look(dir: &Path, id: &str) -> Option<Found> {
    let path = journal_path(dir, id);
    let beside = dir.join(format!("{id}.ipynb"));
    let mut found = match File::open(&path) {
        Ok(file) => journalled(file, id, &beside).ok()?,
        Err(_) => bare(id, &beside)?,
    };
    found.open = Lock::holder(&path.with_extension("lock"));
    found.journal_bytes = size_of(&path);
    found.bytes = found.journal_bytes + size_of(&found.notebook);
    for folder in folders(&found.notebook) {
        found.bytes += size_of(&folder);
    }
    for file in [&path, &found.notebook] {
        if let Ok(modified) = std::fs::metadata(file).and_then(|it| it.modified())
            && let Ok(time) = jiff::Timestamp::try_from(modified)
        {
            found.modified = found.modified.max(time);
        }
    }
    Some(found)
}

/// The session in `found` that `wanted` identifies: by its id, a prefix of the id or of its last part, its notebook, or
/// a part of its title.
///
/// # Errors
/// [`FindError`].
pub fn find<'a>(found: &'a [Found], wanted: &str) -> Result<&'a Found, FindError> {
    let path = std::path::absolute(wanted).ok();
    let exact = |it: &&Found| it.id == wanted || Some(&it.notebook) == path.as_ref();
    if let Some(found) = found.iter().find(exact) {
        return Ok(found);
    }
    let by_id = |it: &&Found| it.id.starts_with(wanted) || last_part(&it.id).starts_with(wanted);
    let lower = wanted.to_lowercase();
    let by_title = |it: &&Found| {
        let title = it.summary.title.as_ref();
        title.is_some_and(|title| title.to_lowercase().contains(&lower))
    };
    let mut fits: Vec<&Found> = found.iter().filter(by_id).collect();
    if fits.is_empty() && !wanted.is_empty() {
        fits = found.iter().filter(by_title).collect();
    }
    match fits.as_slice() {
        [] => Err(FindError::None(wanted.to_owned())),
        [one] => Ok(one),
        several => Err(FindError::Several {
            wanted: wanted.to_owned(),
            ids: several.iter().map(|it| it.id.clone()).collect(),
        }),
    }
}

/// The id of the session that the notebook at `path` says it belongs to.
pub fn named_in(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let notebook = Notebook::read(&bytes, &mut random_cell_id).ok()?.notebook;
    let id = notebook.metadata.get("sponde")?.get("session")?.as_str()?;
    Some(id.to_owned())
}

/// The shortest unambiguous name of session `id` among `all`, of at least four characters.
pub fn short<'a>(id: &'a str, all: &[Found]) -> &'a str {
    let part = last_part(id);
    for length in 4..=part.len() {
        let Some(name) = part.get(..length) else {
            continue;
        };
        if find(all, name).is_ok_and(|found| found.id == id) {
            return name;
        }
    }
    id
}

/// A new unique id in `dir`: the day, and four characters that are not easily confused. `day` is `YYYYMMDD`.
pub fn new_id(dir: &Path, day: &str) -> String {
    const LETTERS: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";
    loop {
        let random = uuid::Uuid::new_v4();
        let letters = random.as_bytes().iter().take(4);
        let part: String = letters
            .filter_map(|byte| LETTERS.get(usize::from(byte % 32)))
            .map(|&letter| char::from(letter))
            .collect();
        let id = format!("{day}-{part}");
        if !journal_path(dir, &id).exists() && !dir.join(format!("{id}.ipynb")).exists() {
            return id;
        }
    }
}

/// Sets the title of session `id`; an empty one removes it. Its position in the list does not change, because renaming
/// is not activity.
///
/// # Errors
/// [`OpenError`].
pub fn rename(dir: &Path, id: &str, title: &str) -> Result<(), OpenError> {
    let path = journal_path(dir, id);
    let failed = |error| OpenError::Io {
        path: path.clone(),
        error,
    };
    if !path.exists() {
        return Err(OpenError::NoJournal(path));
    }
    let _lock = Lock::take_for(&path, id)?;
    let mut summary = Summary::default();
    let from = BufReader::with_capacity(BUFFER, File::open(&path).map_err(failed)?);
    let read = journal::read(from, |entry, _| summary.take(&entry)).map_err(failed)?;
    let title = Entry::Title(title.to_owned());
    summary.take(&title);
    let mut lines = Vec::new();
    journal::write(&title, &mut lines);
    journal::write(&Entry::Closed(summary), &mut lines);
    let before = std::fs::metadata(&path).and_then(|it| it.modified());
    let mut file = JournalFile::open(path.clone(), read.good).map_err(failed)?;
    file.append(&lines)
        .and_then(|()| file.sync())
        .map_err(failed)?;
    if let Ok(before) = before {
        // A failure to restore the timestamp does not undo the new title.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(before));
    }
    Ok(())
}

/// Whether the notebook of session `id` was ever written, according to its journal.
pub fn was_saved(dir: &Path, id: &str) -> bool {
    let mut saved = false;
    let Ok(file) = File::open(journal_path(dir, id)) else {
        return false;
    };
    let from = BufReader::with_capacity(BUFFER, file);
    let read = journal::read(from, |entry, _| {
        saved |= matches!(entry, Entry::Saved(_) | Entry::Extending { .. });
    });
    read.is_ok() && saved
}

/// Removes a session from `dir`, and its audit log, whose head is in `state`. A notebook that the person keeps
/// elsewhere stays, with the folders beside it. Returns the bytes freed.
///
/// # Errors
/// [`OpenError::Taken`] if it is open, [`OpenError::Io`].
pub fn remove(dir: &Path, state: &Path, found: &Found) -> Result<u64, OpenError> {
    let path = journal_path(dir, &found.id);
    let _lock = Lock::take_for(&path, &found.id)?;
    let mut freed = 0;
    let gone = |path: &Path| {
        let bytes = size_of(path);
        let removed = if path.is_dir() {
            remove_tree(path)
        } else {
            std::fs::remove_file(path)
        };
        match removed {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(OpenError::Io {
                path: path.to_owned(),
                error,
            }),
        }
    };
    if found.is_ours(dir) {
        for folder in folders(&found.notebook) {
            freed += gone(&folder)?;
        }
        freed += gone(&found.notebook)?;
    }
    let audit = AuditFiles::of(&found.id, dir, state);
    freed += audit.remove().map_err(|error| OpenError::Io {
        path: audit.log,
        error,
    })?;
    // The journal goes last: the session exists as long as it does.
    freed += gone(&path)?;
    Ok(freed)
}

/// Removes the session `id` from `dir` if it is empty: no code, no text from a model, no kept kernel.
///
/// # Errors
/// As [`remove`].
pub fn remove_empty(dir: &Path, state: &Path, id: &str) -> Result<(), OpenError> {
    let Some(found) = look(dir, id) else {
        return Ok(());
    };
    let Summary {
        code_cells,
        usage,
        kernels,
        ..
    } = &found.summary;
    if *code_cells == 0 && usage.output == 0 && kernels.is_empty() {
        remove(dir, state, &found)?;
    }
    Ok(())
}

impl Found {
    /// Whether its notebook is in the sessions directory `dir`, not in a place the person chose.
    pub fn is_ours(&self, dir: &Path) -> bool {
        self.notebook.parent() == Some(dir)
    }
}

fn journalled(mut file: File, id: &str, beside: &Path) -> io::Result<Found> {
    let length = file.metadata()?.len();
    let mut start = BufReader::new(&file);
    let begin = journal::begin(&mut start)?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.by_ref().take(TAIL).read_to_end(&mut tail)?;
    let closed = journal::summary(&tail);
    let is_closed = closed.is_some();
    let summary = if let Some(summary) = closed {
        summary
    } else {
        file.seek(SeekFrom::Start(0))?;
        journal::gather(BufReader::with_capacity(BUFFER, &file))?
    };
    let first = begin.as_ref().map(|begin| begin.notebook.clone());
    let notebook = summary.moved.clone().or(first);
    let notebook = notebook.unwrap_or_else(|| beside.to_owned());
    Ok(Found {
        id: id.to_owned(),
        summary,
        begin,
        notebook,
        bytes: 0,
        journal_bytes: 0,
        open: None,
        closed: is_closed,
        modified: jiff::Timestamp::UNIX_EPOCH,
    })
}

/// A session that consists only of its notebook.
fn bare(id: &str, path: &Path) -> Option<Found> {
    let bytes = std::fs::read(path).ok()?;
    let notebook = Notebook::read(&bytes, &mut random_cell_id).ok()?.notebook;
    let role = |metadata: &serde_json::Map<String, serde_json::Value>| {
        let role = metadata.get("sponde")?.get("role")?.as_str()?;
        Some(role.to_owned())
    };
    let mut summary = Summary::default();
    for cell in &notebook.cells {
        match &cell.kind {
            CellType::Code { .. } => summary.code_cells += 1,
            CellType::Markdown if role(&cell.metadata).as_deref() == Some("user") => {
                summary.asked(&cell.source);
            }
            CellType::Markdown | CellType::Raw | CellType::Other { .. } => {}
        }
    }
    summary.model = notebook
        .metadata
        .get("sponde")
        .and_then(|ours| ours.get("model")?.as_str().map(str::to_owned));
    Some(Found {
        id: id.to_owned(),
        summary,
        begin: None,
        notebook: path.to_owned(),
        bytes: 0,
        journal_bytes: 0,
        open: None,
        closed: true,
        modified: jiff::Timestamp::UNIX_EPOCH,
    })
}

/// Folders beside a notebook that belong to it: large outputs, pictures, undone files.
fn folders(notebook: &Path) -> [PathBuf; 3] {
    let stem = notebook.file_stem().unwrap_or_default().to_string_lossy();
    [
        notebook.with_extension("outputs"),
        notebook.with_file_name(format!("{stem}_files")),
        notebook.with_extension("undone"),
    ]
}

/// Bytes of a file, or of all files in a directory. Links are not followed.
fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).sum()
}

/// The part after the last hyphen.
fn last_part(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

#[cfg(test)]
mod tests;
