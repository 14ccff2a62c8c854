//! Files beside the notebook for outputs that are too large for it: `NAME.outputs/<cell>/`.
//!
//! A cell under its limits writes nothing. Once it exceeds one, all of its output from the first byte goes to files:
//! text to `stdout.txt` and `stderr.txt` as a terminal would finally show it, errors to `error.txt`, displays of plain
//! text to `displays.txt`, other displays to a numbered file each. `clear_output` removes the files.
//!
//! Invariants: a file that cannot be written is reported once and never ends the session; the number of files and bytes
//! is bounded; links, which the kernel's code may have created, are not followed.
//!
//! Not here: when a limit is exceeded and what stays in the notebook (`session::outputs`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::jupyter::mime::{self, MimeBundle, joined};
use crate::jupyter::nbformat::Output;
use crate::kernel::folder::{self, Folder as OpenFolder, make_dir};
use crate::kernel::{OutputEvent, Oversize};
use crate::session::OutputLimits;
use crate::session::limits::{OutputFolderPath, Whole};
use crate::session::outputs::{Outputs, Piece, Text};

/// Maximum files per cell.
const FILES: usize = 10_000;
/// Maximum displays of a cell whose updates are followed, and maximum length of their names.
const NAMED: usize = 10_000;
const NAME: usize = 256;
/// Maximum bytes of a line that `\r` can still change.
const LINE: usize = 64 << 10;

/// The folder for a notebook's large outputs. Created for the first one.
#[derive(Debug)]
pub struct OutputFolder {
    folder: Option<Folder>,
    left: u64,
    cells: BTreeMap<String, CellFiles>,
    trouble: Option<String>,
    told: bool,
}

#[derive(Debug)]
struct Folder {
    dir: PathBuf,
    beside_notebook: String,
    for_code: String,
}

/// The files of one cell.
#[derive(Debug)]
struct CellFiles {
    dir: PathBuf,
    place: OutputFolderPath,
    stdout: Stream,
    stderr: Stream,
    displays: HashMap<String, usize>,
    written: BTreeMap<PathBuf, u64>,
    /// Number of numbered outputs so far.
    count: usize,
    /// Why the rest was not written.
    failed: Option<String>,
}

#[derive(Debug)]
struct Stream {
    text: Text,
    file: Option<File>,
}

/// Where a notebook's kernel writes outputs that are too large to pass through us.
pub fn oversize(notebook: &Path, limits: &OutputLimits) -> Option<Oversize> {
    let dir = notebook.with_extension("outputs");
    (limits.files > 0).then(|| Oversize::new(dir, limits.files))
}

impl OutputFolder {
    /// A folder for the notebook at `notebook` and a kernel that runs in `cwd`, with at most `bytes` in files.
    pub fn beside(notebook: &Path, cwd: &Path, bytes: u64) -> Self {
        let dir = notebook.with_extension("outputs");
        let name = dir
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let absolute = std::path::absolute(&dir).unwrap_or_else(|_| dir.clone());
        let for_code = absolute.strip_prefix(cwd).unwrap_or(&absolute);
        let folder = Folder {
            beside_notebook: name.unwrap_or_default(),
            for_code: for_code.display().to_string(),
            dir,
        };
        Self {
            folder: Some(folder).filter(|_| bytes > 0),
            ..Self::nowhere(bytes)
        }
    }

    /// A folder that writes nothing, for a session without a notebook.
    pub fn none() -> Self {
        Self::nowhere(0)
    }

    /// Whether this folder writes nothing.
    pub(super) fn is_none(&self) -> bool {
        self.folder.is_none()
    }

    fn nowhere(left: u64) -> Self {
        Self {
            folder: None,
            left,
            cells: BTreeMap::new(),
            trouble: None,
            told: false,
        }
    }

    /// Takes an output of `cell`. The cell's outputs have applied the event but were not cut since; `is_cut` says
    /// whether they were cut before. If they will be cut, `over` is all of them, which is needed if there are no files
    /// yet. Returns where the complete output is, if the cell has files now.
    pub fn take(
        &mut self,
        cell: &str,
        is_cut: bool,
        over: Option<&Outputs>,
        event: &OutputEvent,
    ) -> Option<Whole> {
        if let OutputEvent::Update { .. } = event {
            self.update(event);
        }
        if let Some(mut files) = self.cells.remove(cell) {
            if is_cut {
                files.add(event, &mut self.left);
                return Some(self.keep(cell, files));
            }
            // The output was cleared.
            files.remove(&mut self.left);
        }
        let outputs = over?;
        let Some(folder) = &self.folder else {
            return Some(Whole::Nowhere(None));
        };
        let mut files = CellFiles::new(folder, cell);
        files.begin(folder, outputs, &mut self.left);
        Some(self.keep(cell, files))
    }

    /// Ends the cell's files, including the last line. Returns where its complete output is, if it has files.
    pub fn close(&mut self, cell: &str) -> Option<Whole> {
        let mut files = self.cells.remove(cell)?;
        files.end(&mut self.left);
        Some(self.keep(cell, files))
    }

    /// A failure that has not been reported yet.
    pub fn trouble(&mut self) -> Option<String> {
        let trouble = self.trouble.take().filter(|_| !self.told)?;
        self.told = true;
        Some(trouble)
    }

    fn keep(&mut self, cell: &str, files: CellFiles) -> Whole {
        let whole = match &files.failed {
            None => Whole::Files(files.place.clone()),
            Some(reason) => {
                self.trouble = Some(format!(
                    "large outputs are not kept whole in `{}`: {reason}",
                    files.place.beside_notebook
                ));
                if files.written.is_empty() {
                    Whole::Nowhere(Some(reason.clone()))
                } else {
                    Whole::Partly(files.place.clone(), reason.clone())
                }
            }
        };
        self.cells.insert(cell.to_owned(), files);
        whole
    }

    /// The display may belong to another cell.
    fn update(&mut self, event: &OutputEvent) {
        let OutputEvent::Update {
            data, display_id, ..
        } = event
        else {
            return;
        };
        let mut left = self.left;
        for files in self.cells.values_mut() {
            if let Some(&number) = files.displays.get(display_id) {
                files.display(number, data, &mut left);
            }
        }
        self.left = left;
    }
}

impl CellFiles {
    fn new(folder: &Folder, cell: &str) -> Self {
        // Ids may come from other people's notebooks.
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name: String = cell.chars().filter(|&c| fits(c)).take(64).collect();
        let name = if name.is_empty() { "cell" } else { &name };
        Self {
            dir: folder.dir.join(name),
            place: OutputFolderPath {
                beside_notebook: format!("{}/{name}", folder.beside_notebook),
                for_code: format!("{}/{name}", folder.for_code),
            },
            stdout: Stream::new("stdout"),
            stderr: Stream::new("stderr"),
            displays: HashMap::new(),
            written: BTreeMap::new(),
            count: 0,
            failed: None,
        }
    }

    /// Writes everything so far.
    fn begin(&mut self, folder: &Folder, outputs: &Outputs, left: &mut u64) {
        let made = make_dir(&folder.dir, 0o755).and_then(|()| make_dir(&self.dir, 0o755));
        if let Err(error) = made {
            self.failed = Some(error.to_string());
            return;
        }
        for piece in outputs.pieces() {
            match piece {
                Piece::Text { name, text, open } => {
                    self.text(name, text, left);
                    if open {
                        self.text(name, "\r", left);
                    }
                }
                Piece::Rich { output, display_id } => match output {
                    Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                        self.next_display(data, display_id, left);
                    }
                    Output::Error { traceback, .. } => self.error(traceback, left),
                    Output::Stream { .. } | Output::Other(_) => {}
                },
            }
        }
    }

    fn add(&mut self, event: &OutputEvent, left: &mut u64) {
        match event {
            OutputEvent::Stream(stream) => self.text(&stream.name, &stream.text, left),
            OutputEvent::Lost(what) => self.text("stderr", &format!("[sponde: {what}]\n"), left),
            OutputEvent::Display {
                data, display_id, ..
            }
            | OutputEvent::Result {
                data, display_id, ..
            } => self.next_display(data, display_id.as_deref(), left),
            OutputEvent::Error(error) => self.error(&error.traceback, left),
            OutputEvent::Update { .. } | OutputEvent::Clear { .. } => {}
        }
    }

    fn text(&mut self, name: &str, text: &str, left: &mut u64) {
        let is_stderr = name == "stderr";
        let stream = if is_stderr {
            &mut self.stderr
        } else {
            &mut self.stdout
        };
        stream.text.push(text);
        let lines = stream.text.take_lines(LINE);
        self.write_text(is_stderr, &lines, left);
    }

    fn write_text(&mut self, is_stderr: bool, text: &str, left: &mut u64) {
        if text.is_empty() || self.failed.is_some() {
            return;
        }
        let (name, stream) = if is_stderr {
            ("stderr.txt", &mut self.stderr)
        } else {
            ("stdout.txt", &mut self.stdout)
        };
        let file = stream.file.take();
        self.attempt(left, |files, left| {
            let path = files.dir.join(name);
            let mut file = match file {
                Some(file) => file,
                None => files.open(&path, Mode::Append)?,
            };
            files.write(&mut file, path, text.as_bytes(), left)?;
            let stream = if is_stderr {
                &mut files.stderr
            } else {
                &mut files.stdout
            };
            stream.file = Some(file);
            Ok(())
        });
    }

    fn error(&mut self, traceback: &[String], left: &mut u64) {
        let text = format!("{}\n", traceback.join("\n"));
        self.attempt(left, |files, left| files.append("error.txt", &text, left));
    }

    fn next_display(&mut self, data: &MimeBundle, display_id: Option<&str>, left: &mut u64) {
        let plain = data.text_of(mime::TEXT_PLAIN);
        if let (Some(text), 1, None) = (plain, data.len(), display_id) {
            let text = format!("{text}\n");
            self.attempt(left, |files, left| {
                files.append("displays.txt", &text, left)
            });
            return;
        }
        self.count += 1;
        if let Some(id) = display_id
            && id.len() <= NAME
            && self.displays.len() < NAMED
        {
            self.displays.insert(id.to_owned(), self.count);
        }
        self.display(self.count, data, left);
    }

    fn display(&mut self, number: usize, data: &MimeBundle, left: &mut u64) {
        let mut taken = HashSet::new();
        for (mime, value) in data.iter() {
            let ending = ending(mime);
            let mut name = format!("{number}.{ending}");
            if !taken.insert(ending) {
                name = format!("{number}-{}.{ending}", taken.len());
            }
            let bytes = data
                .bytes(mime)
                .filter(|_| mime::is_base64_image(mime))
                .and_then(Result::ok);
            let text = joined(value);
            let other;
            let bytes = match (&bytes, &text) {
                (Some(bytes), _) => bytes.as_slice(),
                (None, Some(text)) if !mime::is_json(mime) => text.as_bytes(),
                (None, _) => {
                    other = value.to_string();
                    other.as_bytes()
                }
            };
            self.attempt(left, |files, left| {
                let path = files.dir.join(&name);
                *left += files.written.remove(&path).unwrap_or(0);
                let mut file = files.open(&path, Mode::Replace)?;
                files.write(&mut file, path, bytes, left)
            });
        }
    }

    fn append(&mut self, name: &str, text: &str, left: &mut u64) -> io::Result<()> {
        let path = self.dir.join(name);
        let mut file = self.open(&path, Mode::Append)?;
        self.write(&mut file, path, text.as_bytes(), left)
    }

    /// Runs a write; after the first failure there are no further attempts.
    fn attempt(
        &mut self,
        left: &mut u64,
        write: impl FnOnce(&mut Self, &mut u64) -> io::Result<()>,
    ) {
        if self.failed.is_none()
            && let Err(error) = write(self, left)
        {
            self.failed = Some(error.to_string());
        }
    }

    /// Opens a file; the first write discards what an earlier run left in it.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<File> {
        if self.written.len() >= FILES && !self.written.contains_key(path) {
            return Err(io::Error::other(format!(
                "a cell writes {FILES} files at most"
            )));
        }
        let goes_on = matches!(mode, Mode::Append) && self.written.contains_key(path);
        let mut options = OpenOptions::new();
        if goes_on {
            options.append(true);
        } else {
            options.write(true).create(true).truncate(true);
        }
        let folder = OpenFolder::of(path)?;
        options.custom_flags(NO_FOLLOW).open(folder.file())
    }

    fn write(
        &mut self,
        file: &mut File,
        path: PathBuf,
        bytes: &[u8],
        left: &mut u64,
    ) -> io::Result<()> {
        let room = usize::try_from(*left).unwrap_or(usize::MAX);
        let (now, rest) = bytes.split_at(bytes.len().min(room));
        let written = file.write_all(now);
        *self.written.entry(path).or_default() += now.len() as u64;
        *left -= now.len() as u64;
        written?;
        if rest.is_empty() {
            Ok(())
        } else {
            Err(io::Error::other(
                "the limit for files of a session is reached",
            ))
        }
    }

    fn end(&mut self, left: &mut u64) {
        for is_stderr in [false, true] {
            let stream = if is_stderr {
                &mut self.stderr
            } else {
                &mut self.stdout
            };
            let rest = stream.text.take_lines(0);
            self.write_text(is_stderr, &rest, left);
        }
        self.stdout.file = None;
        self.stderr.file = None;
    }

    fn remove(self, left: &mut u64) {
        // Files that cannot be removed stay and still count.
        for (path, bytes) in &self.written {
            if folder::remove_file(path).is_ok() {
                *left += bytes;
            }
        }
        let _ = folder::remove_dir(&self.dir);
        if let Some(parent) = self.dir.parent() {
            let _ = folder::remove_dir(parent);
        }
    }
}

impl Stream {
    fn new(name: &'static str) -> Self {
        Self {
            text: Text::new(name),
            file: None,
        }
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Append,
    Replace,
}

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// The file extension for a MIME type.
fn ending(mime: &str) -> &'static str {
    match mime {
        "text/html" => "html",
        "text/markdown" => "md",
        "text/latex" => "tex",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "application/javascript" => "js",
        _ if mime::is_json(mime) => "json",
        _ if mime.starts_with("text/") => "txt",
        _ => "data",
    }
}

#[cfg(test)]
mod tests;
