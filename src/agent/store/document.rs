//! The notebook's file, updated at a cost proportional to what changed.
//!
//! Keys are sorted, so `cells` comes first and a continuing session changes only the end of the file: the last cells
//! and what follows them. That part is overwritten in place, and the journal, which is complete by then, is the safety
//! net if the process is killed meanwhile. If an earlier cell changed, the file is rewritten and renamed.
//!
//! Invariant: another program's changes are never overwritten. A file that is not as we left it is set aside first.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::agent::save::write_beside_code;
use crate::jupyter::nbformat::{Cell, Notebook};
use crate::kernel::folder::{Folder, open_file};
use crate::session::journal::Saved;

/// Links, which code may have put in place of the notebook, are not followed.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// Up to this many bytes of cells, always overwrite in place; beyond it rewriting may be cheaper.
const SMALL: u64 = 1 << 20;

/// The file, and its known state.
#[derive(Debug)]
pub(super) struct Document {
    path: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    /// We have not written a file there.
    Absent,
    /// The file is as we left it.
    Known(Known),
    /// We may have written it in part; it has no changes by others.
    Torn,
}

/// Offsets within the file.
#[derive(Debug, Clone)]
struct Known {
    saved: Saved,
    /// Offsets where cells begin, including the comma before them, from the cell with index `first` on.
    starts: Vec<u64>,
    first: usize,
}

/// The result of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// The file as it is now.
    pub(super) saved: Saved,
    /// The new path of another program's version of it.
    pub(super) set_aside: Option<PathBuf>,
}

/// The file on disk, compared to the known state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// No file exists.
    Nothing,
    /// As we left it.
    Ours,
    /// Something else.
    Other,
}

impl Document {
    /// A document at `path`, where we have not written yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: State::Absent,
        }
    }

    /// A document at `path`, in the state that the journal recorded.
    pub(super) fn saved(path: PathBuf, saved: Saved) -> Self {
        let known = Known {
            saved,
            starts: Vec::new(),
            first: saved.cells,
        };
        Self {
            path,
            state: State::Known(known),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's state as we left it, if known.
    pub(super) fn as_saved(&self) -> Option<Saved> {
        match &self.state {
            State::Known(known) => Some(known.saved),
            State::Absent | State::Torn => None,
        }
    }

    /// Forces a full rewrite, whatever is there.
    pub(super) fn is_torn(&mut self) {
        self.state = State::Torn;
    }

    /// Compares the file at the path with the known state.
    pub(super) fn look(&self) -> io::Result<OnDisk> {
        // A link counts as another file, wherever it leads.
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) => Ok(match &self.state {
                State::Known(known) if stamp(&found) == stamp_of(&known.saved) => OnDisk::Ours,
                State::Torn => OnDisk::Ours,
                State::Known(_) | State::Absent => OnDisk::Other,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(OnDisk::Nothing),
            Err(error) => Err(error),
        }
    }

    /// The first cell that has to be written if `changed` is the first that changed; 0 for all of them.
    pub(super) fn first_to_write(&self, changed: usize) -> usize {
        let State::Known(known) = &self.state else {
            return 0;
        };
        let Some(start) = known.start_of(changed) else {
            return 0;
        };
        let old = known.saved.tail - start;
        if old <= SMALL.max(known.saved.tail / 2) {
            changed
        } else {
            0
        }
    }

    /// The first byte that [`Document::extend`] may change.
    pub(super) fn start_of(&self, first: usize) -> Option<u64> {
        match &self.state {
            State::Known(known) => known.start_of(first),
            State::Absent | State::Torn => None,
        }
    }

    /// Overwrites everything from the cell at index `first` on with the cells of `notebook`. The file must be as we
    /// left it ([`Document::look`]). On failure its old content is restored, if possible.
    pub(super) fn extend(
        &mut self,
        notebook: &Notebook,
        first: usize,
        sync: bool,
    ) -> io::Result<Written> {
        let State::Known(known) = &self.state else {
            return Err(io::Error::other("it was not written before"));
        };
        let start = known
            .start_of(first)
            .ok_or_else(|| io::Error::other("it is not known where its cells are"))?;
        let mut known = known.clone();
        known.starts.truncate(first - known.first);
        let before = known.saved.length;
        let mut text = Vec::new();
        known.take(&notebook.cells, start, &mut text)?;
        text.extend_from_slice(notebook.frame().1.as_bytes());
        let folder = Folder::of(&self.path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(NO_FOLLOW)
            .open(folder.file())?;
        let metadata = file.metadata()?;
        let mut old = vec![0; usize::try_from(before - start).unwrap_or(0)];
        file.read_exact_at(&mut old, start)?;
        let length = start + text.len() as u64;
        let written = (|| {
            file.write_all_at(&text, start)?;
            if length < before {
                file.set_len(length)?;
            }
            if sync { file.sync_data() } else { Ok(()) }
        })();
        if let Err(error) = written {
            // The old content fitted before.
            let restored = file
                .write_all_at(&old, start)
                .and_then(|()| file.set_len(before))
                .and_then(|()| file.set_modified(metadata.modified()?));
            if restored.is_err() {
                self.state = State::Torn;
            }
            return Err(error);
        }
        let metadata = file.metadata()?;
        Ok(self.keep(known, &metadata, None))
    }

    /// Writes the whole file atomically.
    pub(super) fn write(&mut self, notebook: &Notebook) -> io::Result<Written> {
        let set_aside = match self.look()? {
            OnDisk::Other => Some(set_aside(&self.path)?),
            OnDisk::Ours | OnDisk::Nothing => None,
        };
        let mut known = Known {
            saved: Saved {
                cells: 0,
                tail: 0,
                length: 0,
                modified: 0,
            },
            starts: Vec::new(),
            first: 0,
        };
        let (before, after) = notebook.frame();
        write_beside_code(&self.path, |file| {
            if notebook.cells.is_empty() {
                return notebook.write_to(file);
            }
            file.write_all(before.as_bytes())?;
            known.take(&notebook.cells, before.len() as u64, file)?;
            file.write_all(after.as_bytes())
        })?;
        let metadata = std::fs::metadata(&self.path)?;
        Ok(self.keep(known, &metadata, set_aside))
    }

    fn keep(
        &mut self,
        mut known: Known,
        metadata: &std::fs::Metadata,
        set_aside: Option<PathBuf>,
    ) -> Written {
        (known.saved.length, known.saved.modified) = stamp(metadata);
        known.saved.cells = known.first + known.starts.len();
        let saved = known.saved;
        self.state = State::Known(known);
        Written { saved, set_aside }
    }
}

impl Known {
    /// Offset where the cell at this index begins, or where the next one would.
    fn start_of(&self, number: usize) -> Option<u64> {
        // The first cell has no comma before it, and a file without cells has other text there.
        if number == 0 {
            None
        } else if number == self.saved.cells {
            Some(self.saved.tail)
        } else {
            let at = number.checked_sub(self.first)?;
            self.starts.get(at).copied()
        }
    }

    /// Writes cells from byte `start` on and records their offsets.
    fn take(&mut self, cells: &[Cell], start: u64, to: &mut dyn Write) -> io::Result<()> {
        let mut counting = Counting { to, at: start };
        for cell in cells {
            self.starts.push(counting.at);
            cell.write_piece(self.first + self.starts.len() == 1, &mut counting)?;
        }
        self.saved.tail = counting.at;
        Ok(())
    }
}

/// Renames the file at `path` to a free name beside it.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = Folder::of(path)?;
    for number in 1..1000 {
        let name = format!("{stem}.changed-{number}.ipynb");
        let aside = folder.beside(&name);
        match File::create_new(&aside) {
            Ok(_) => {
                std::fs::rename(folder.file(), &aside)?;
                return Ok(path.with_file_name(name));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "there are too many changed versions of it",
    ))
}

/// Detects whether a file was written since: its length and modification time.
fn stamp(metadata: &std::fs::Metadata) -> (u64, u64) {
    let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
    let nanoseconds = u64::try_from(metadata.mtime_nsec()).unwrap_or(0);
    let modified = seconds.saturating_mul(1_000_000_000) + nanoseconds;
    (metadata.len(), modified)
}

fn stamp_of(saved: &Saved) -> (u64, u64) {
    (saved.length, saved.modified)
}

/// A writer that counts bytes.
struct Counting<'w> {
    to: &'w mut dyn Write,
    at: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether the file at `path` is byte for byte the text of `notebook`.
pub(super) fn is_the_same(path: &Path, notebook: &Notebook) -> io::Result<bool> {
    struct Compare<R> {
        with: R,
        buffer: Vec<u8>,
    }
    impl<R: io::Read> Write for Compare<R> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.buffer.resize(bytes.len(), 0);
            self.with.read_exact(&mut self.buffer)?;
            if self.buffer == bytes {
                Ok(bytes.len())
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // A link or a pipe in its place counts as another file.
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut compare = Compare {
        with: io::BufReader::with_capacity(1 << 20, open_file(path)?),
        buffer: Vec::new(),
    };
    match notebook.write_to(&mut compare) {
        Ok(()) => {
            let mut more = [0];
            Ok(io::Read::read(&mut compare.with, &mut more)? == 0)
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
