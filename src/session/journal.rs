//! The journal of a session: an append-only log with one entry per line.
//!
//! A line is the CRC-32 of its JSON as eight hexadecimal digits, a space, the JSON, a newline. The JSON contains no
//! newline, so only the last line can be incomplete. Most entries are an [`Edit`]; the others record where the session
//! is kept, how far its notebook is saved, and which kernels run for it. The first is [`Entry::Begin`].
//!
//! Reading never fails because of the file's content: lines that are torn, damaged or unknown to this version are
//! skipped and counted.
//!
//! Not here: files, locks and when to write (`agent::store`). [`super::transcript`] says how [`Edit`] may evolve.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod summary;

use std::io::{self, BufRead};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::transcript::{Edit, Transcript};
use crate::kernel::Extent;
use crate::llm::types::Usage;
pub use summary::{begin, gather};

/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;

/// Bytes before the JSON of a line.
const HEAD: usize = 9;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The first line.
    Begin(Begin),
    /// The transcript changed.
    Edit(Edit),
    /// A process opened the session.
    Opened {
        /// When, ISO 8601.
        at: String,
        /// Its process id.
        pid: u32,
    },
    /// The person named the session.
    Title(String),
    /// The notebook is at this path from now on.
    Notebook(PathBuf),
    /// A kernel runs for this session and may outlive this process.
    Kernel(RunningKernel),
    /// The model's code of this kind runs without asking in this session from now on.
    Permitted(Permit),
    /// The kernel with this connection file is gone or no longer ours.
    KernelGone(PathBuf),
    /// The notebook's file is about to be changed in place, starting at this byte.
    Extending {
        /// The first byte that may change.
        from: u64,
    },
    /// The notebook's file contains all edits before this line.
    Saved(Saved),
    /// The session was closed properly; this is then the last line.
    Closed(Summary),
}

/// A session's identity and location.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The version of this journal.
    pub version: u32,
    /// The session's id.
    pub id: String,
    /// When it began, ISO 8601.
    pub at: String,
    /// The kernels' working directory.
    pub cwd: PathBuf,
    /// The notebook's path.
    pub notebook: PathBuf,
    /// The main kernel.
    pub kernel: KernelChoice,
    /// The session this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
    /// The initial confinement of its kernels, if we started them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Extent>,
    /// The databases it was started with, by their configuration names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<String>,
}

/// The kernel a session was started with, so that resuming uses the same one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelChoice {
    /// The kernelspec's name.
    pub name: String,
    /// The environment it was found in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<PathBuf>,
}

/// A kernel that may live longer than the process that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningKernel {
    /// The kernelspec's name.
    pub name: String,
    /// Its language.
    pub language: String,
    /// How it is reached.
    pub connection_file: PathBuf,
    /// The kernel's confinement; `None` in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Extent>,
}

/// A kind of code that a person allows in this session without asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// The risk finding it covers, by its stable name (`agent::approval`).
    pub finding: String,
    /// The code's language.
    pub language: String,
}

/// The state of the notebook's file when we last wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Number of cells.
    pub cells: usize,
    /// Byte offset where the last cell ends.
    pub tail: u64,
    /// File length in bytes.
    pub length: u64,
    /// Modification time, in nanoseconds since 1970.
    pub modified: u64,
}

/// The facts that a list of sessions shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Time of the line before this one, ISO 8601.
    pub at: String,
    /// The name a person gave it.
    pub title: Option<String>,
    /// The first question.
    pub question: Option<String>,
    /// Number of questions.
    pub questions: usize,
    /// Number of code cells.
    pub code_cells: usize,
    /// The model that answered last.
    pub model: Option<String>,
    /// Tokens and cost.
    pub usage: Usage,
    /// Kernels that keep running.
    pub kernels: Vec<RunningKernel>,
    /// Kinds of code that a person allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<Permit>,
    /// The notebook's path, if it moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<PathBuf>,
}

/// The outcome of reading a journal, besides its entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Byte offset after the last whole line; anything after it is torn.
    pub good: u64,
    /// File length in bytes.
    pub end: u64,
    /// Number of damaged lines that are followed by whole ones.
    pub damaged: usize,
    /// Number of lines from a newer version.
    pub unknown: usize,
}

/// Appends `entry` as a line to `to`.
pub fn write(entry: &Entry, to: &mut Vec<u8>) {
    write_line(entry, to);
}

/// Appends an edit as a line to `to`, without taking the edit.
pub fn write_edit(edit: &Edit, to: &mut Vec<u8>) {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Borrowed<'a> {
        Edit(&'a Edit),
    }
    write_line(&Borrowed::Edit(edit), to);
}

fn write_line(entry: &impl Serialize, to: &mut Vec<u8>) {
    let start = to.len();
    to.extend_from_slice(b"00000000 ");
    // Writing maps with string keys to memory cannot fail.
    let written = serde_json::to_writer(&mut *to, entry);
    debug_assert!(written.is_ok());
    let json = to.get(start + HEAD..).unwrap_or_default();
    let sum = format!("{:08x}", crc32fast::hash(json));
    if let Some(head) = to.get_mut(start..start + 8) {
        head.copy_from_slice(sum.as_bytes());
    }
    to.push(b'\n');
}

/// Reads all entries; `take` gets each with the byte offset after it.
///
/// # Errors
/// Errors of reading `from`.
pub fn read(mut from: impl BufRead, mut take: impl FnMut(Entry, u64)) -> io::Result<Read> {
    let mut read = Read::default();
    let mut line = Vec::new();
    // Damaged lines with no whole line after them: the end is torn.
    let mut torn = 0;
    loop {
        line.clear();
        let length = from.read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(read);
        }
        read.end += length as u64;
        let Some(text) = line.strip_suffix(b"\n") else {
            // The last line, torn.
            return Ok(read);
        };
        match parse(text) {
            Parsed::Entry(entry) => {
                take(*entry, read.end);
            }
            Parsed::Unknown => read.unknown += 1,
            Parsed::Damaged => {
                torn += 1;
                continue;
            }
        }
        read.good = read.end;
        read.damaged += std::mem::take(&mut torn);
    }
}

/// One line, without its newline.
enum Parsed {
    Entry(Box<Entry>),
    /// A whole line with an entry that this version does not know.
    Unknown,
    Damaged,
}

fn parse(line: &[u8]) -> Parsed {
    let Some(json) = checked(line) else {
        return Parsed::Damaged;
    };
    serde_json::from_slice(json).map_or(Parsed::Unknown, |entry| Parsed::Entry(Box::new(entry)))
}

/// The JSON of a line whose checksum matches.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (head, json) = line.split_at_checked(HEAD)?;
    let sum = std::str::from_utf8(head).ok()?.strip_suffix(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (crc32fast::hash(json) == sum).then_some(json)
}

/// The summary in the last line of `tail`, the end of a journal, if that line is whole and closes the session.
pub fn summary(tail: &[u8]) -> Option<Summary> {
    let line = tail.strip_suffix(b"\n")?;
    let start = line.iter().rposition(|&byte| byte == b'\n')? + 1;
    match parse(line.get(start..)?) {
        Parsed::Entry(entry) => match *entry {
            Entry::Closed(summary) => Some(summary),
            _ => None,
        },
        Parsed::Unknown | Parsed::Damaged => None,
    }
}

/// Whether [`join`] can merge `next` into `last`.
pub fn joins(last: &Edit, next: &Edit) -> bool {
    use crate::kernel::OutputEvent::Stream;
    match (last, next) {
        (Edit::AppendText { cell, .. }, Edit::AppendText { cell: of, .. }) => cell == of,
        (
            Edit::Emit {
                cell,
                output: Stream(stream),
            },
            Edit::Emit {
                cell: of,
                output: Stream(more),
            },
        ) => cell == of && stream.name == more.name,
        _ => false,
    }
}

/// Merges `next` into `last` if both add text to the same stream or the same reply. Otherwise returns `next`.
pub fn join(last: &mut Edit, next: Edit) -> Option<Edit> {
    use crate::kernel::OutputEvent::Stream;
    match (last, next) {
        (
            Edit::AppendText { cell, text, .. },
            Edit::AppendText {
                cell: of,
                text: more,
                ..
            },
        ) if *cell == of => text.push_str(&more),
        (
            Edit::Emit {
                cell,
                output: Stream(stream),
            },
            Edit::Emit {
                cell: of,
                output: Stream(more),
            },
        ) if *cell == of && stream.name == more.name => stream.text.push_str(&more.text),
        (_, next) => return Some(next),
    }
    None
}

/// The lines of a compacted journal. Before the cells it records the notebook's saved state: the file is ours, and
/// every cell may have changed since.
pub fn shortened<'a>(
    begin: &'a Begin,
    saved: Option<Saved>,
    others: &'a [Entry],
    transcript: &'a Transcript,
) -> impl Iterator<Item = Entry> + 'a {
    std::iter::once(Entry::Begin(begin.clone()))
        .chain(saved.map(Entry::Saved))
        .chain(transcript.snapshot().map(Entry::Edit))
        .chain(others.iter().cloned())
}

#[cfg(test)]
mod tests;
