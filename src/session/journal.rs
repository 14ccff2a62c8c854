//! The journal of a session: what happened to it, one entry a line, only ever appended to.
//!
//! A line is the CRC-32 of its JSON as eight hexadecimal digits, a space, the JSON, a newline. JSON has no newline in
//! it, so a line is whole or it is the last one. Most entries are an [`Edit`]; the others say where the session is
//! kept, what its notebook has of it, and which kernels run for it. The first is [`Entry::Begin`].
//!
//! Reading never fails for what is in the file: a line that is torn or damaged is left out and counted, and so is one
//! that this version does not know. Everything else is kept.
//!
//! Deliberately not here: files, locks, when something is written (`agent::store`). What changes in [`Edit`] may and may
//! not do is said in [`super::transcript`].

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

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Bytes in front of the JSON of a line.
const HEAD: usize = 9;

/// What a line says.
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
    /// What a person calls the session.
    Title(String),
    /// The notebook is here from now on.
    Notebook(PathBuf),
    /// A kernel runs for this session, and may go on when we end.
    Kernel(RunningKernel),
    /// From now on such code of the model runs without a question in this session.
    Permitted(Permit),
    /// That kernel, by its connection file, is gone or not ours any more.
    KernelGone(PathBuf),
    /// The notebook's file is about to be changed in place, from this byte on.
    Extending {
        /// The first byte that may change.
        from: u64,
    },
    /// The notebook's file has all edits before this line.
    Saved(Saved),
    /// The session was closed in good order; the last line then.
    Closed(Summary),
}

/// What a session is and where it happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Of this journal.
    pub version: u32,
    /// The session's id.
    pub id: String,
    /// When it began, ISO 8601.
    pub at: String,
    /// Where its kernels work.
    pub cwd: PathBuf,
    /// Where its notebook is.
    pub notebook: PathBuf,
    /// The main kernel.
    pub kernel: KernelChoice,
    /// The session that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
    /// How its kernels were confined at first, if they were ours to confine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Extent>,
    /// The databases that it was started with, by their names in the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<String>,
}

/// Which kernel a session was started with, so that it gets the same one again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelChoice {
    /// The kernelspec's name.
    pub name: String,
    /// The environment that it was found in.
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
    /// How it is confined; not known of those that earlier versions kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Extent>,
}

/// Code that a person lets run in this session, by what is found in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// What is found, by its stable name (`agent::approval`).
    pub finding: String,
    /// The language that it is in.
    pub language: String,
}

/// The notebook's file as we left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// How many cells it has.
    pub cells: usize,
    /// Where its last cell ends.
    pub tail: u64,
    /// Its length.
    pub length: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub modified: u64,
}

/// What a list of sessions shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// When the last line before this one was written, ISO 8601.
    pub at: String,
    /// What a person calls it.
    pub title: Option<String>,
    /// The first question.
    pub question: Option<String>,
    /// How many questions were asked.
    pub questions: usize,
    /// How many cells of code there are.
    pub code_cells: usize,
    /// Who answered last.
    pub model: Option<String>,
    /// What it took.
    pub usage: Usage,
    /// Kernels that go on without us.
    pub kernels: Vec<RunningKernel>,
    /// Code that a person lets run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<Permit>,
    /// Where the notebook is, if not where it was at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<PathBuf>,
}

/// What reading a journal gave besides its entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Where the last whole line ends: what is behind it is torn.
    pub good: u64,
    /// Where the file ends.
    pub end: u64,
    /// Lines that are damaged, with whole ones behind them.
    pub damaged: usize,
    /// Lines of a newer version.
    pub unknown: usize,
}

/// Appends `entry` as a line to `to`.
pub fn write(entry: &Entry, to: &mut Vec<u8>) {
    write_line(entry, to);
}

/// The same for an edit that is still needed.
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
    // Maps with string keys into memory: nothing in it can fail.
    let written = serde_json::to_writer(&mut *to, entry);
    debug_assert!(written.is_ok());
    let json = to.get(start + HEAD..).unwrap_or_default();
    let sum = format!("{:08x}", crc32fast::hash(json));
    if let Some(head) = to.get_mut(start..start + 8) {
        head.copy_from_slice(sum.as_bytes());
    }
    to.push(b'\n');
}

/// Reads all entries; `take` gets each with the byte behind it.
///
/// # Errors
/// Those of `from`.
pub fn read(mut from: impl BufRead, mut take: impl FnMut(Entry, u64)) -> io::Result<Read> {
    let mut read = Read::default();
    let mut line = Vec::new();
    // Damaged lines that nothing whole came after: the end is torn.
    let mut torn = 0;
    loop {
        line.clear();
        let length = from.read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(read);
        }
        read.end += length as u64;
        let Some(text) = line.strip_suffix(b"\n") else {
            // The last one, torn.
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
    /// Whole, but nothing that we know.
    Unknown,
    Damaged,
}

fn parse(line: &[u8]) -> Parsed {
    let Some(json) = checked(line) else {
        return Parsed::Damaged;
    };
    serde_json::from_slice(json).map_or(Parsed::Unknown, |entry| Parsed::Entry(Box::new(entry)))
}

/// The JSON of a line whose sum is right.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (head, json) = line.split_at_checked(HEAD)?;
    let sum = std::str::from_utf8(head).ok()?.strip_suffix(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (crc32fast::hash(json) == sum).then_some(json)
}

/// The entry of the last line of `tail`, the end of a journal, if that is whole and says that the session was closed.
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

/// Whether [`join`] makes one of `last` and `next`.
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

/// Joins `next` to `last` if both together are one edit: more text of the same stream or of the same reply. Gives `next`
/// back if not.
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

/// The lines of a journal that says in one piece what another said in many. Before its cells it says how the notebook
/// was left: that the file is ours, and that all of them may have changed since.
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
