//! Marks that let the next reader of a notebook detect changes by others.
//!
//! A Sponde cell stores its id, the id of the cell before it, and a digest of its content (`sponde.saved`). A person's
//! cells are not touched: their digests are in the notebook's metadata. So saving one more cell costs the same in a
//! notebook of ten cells and of thousands. A cell that names a missing neighbour reveals a deletion; one whose stored
//! id differs from its own is a copy.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::jupyter::mime::joined;
use crate::jupyter::nbformat::{Cell, Notebook, Output};

/// Key of the mark in Sponde's cell metadata.
const KEY: &str = "saved";
/// Longer output values are hashed in part.
const LONG: usize = 64 << 10;

/// One change that others made to a notebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A cell was edited.
    Edited {
        /// The cell's id.
        id: String,
        /// Whether its text or code changed.
        source: bool,
        /// Whether its outputs changed.
        outputs: bool,
    },
    /// A cell was added.
    Added {
        /// The cell's id.
        id: String,
    },
    /// A cell was deleted.
    Deleted {
        /// The cell's id.
        id: String,
    },
}

/// Marks a Sponde cell; `ours` is its metadata, `after` the id of the cell before it.
pub(super) fn mark(cell: &Cell, after: Option<&str>, ours: &mut Map<String, Value>) {
    let mark = json!({ "id": cell.id, "after": after, "digest": digest(cell) });
    ours.insert(KEY.to_owned(), mark);
}

/// The notebook's marks: the id of its last cell, and the digests of the person's cells.
pub(super) fn of_notebook<'a>(
    last: Option<&str>,
    foreign: impl Iterator<Item = &'a Cell>,
    ours: &mut Map<String, Value>,
) {
    let cells: Map<String, Value> = foreign
        .map(|cell| (cell.id.clone(), digest(cell).into()))
        .collect();
    let mut mark = json!({ "last": last });
    if let (false, Value::Object(mark)) = (cells.is_empty(), &mut mark) {
        mark.insert("cells".to_owned(), Value::Object(cells));
    }
    ours.insert(KEY.to_owned(), mark);
}

/// Whether a cell with the mark in `ours` is a copy of the marked cell.
pub(super) fn is_copy(cell: &Cell, ours: &Value) -> bool {
    ours.get(KEY)
        .and_then(|mark| mark.get("id")?.as_str())
        .is_some_and(|id| id != cell.id)
}

/// Whether a session wrote the notebook.
pub fn is_marked(notebook: &Notebook) -> bool {
    notebook
        .metadata
        .get("sponde")
        .is_some_and(|ours| ours.get(KEY).is_some())
}

/// Changes by others since a session wrote the notebook, in cell order; empty if no session wrote it.
pub fn changes(notebook: &Notebook) -> Vec<Change> {
    let Some(saved) = notebook
        .metadata
        .get("sponde")
        .and_then(|ours| ours.get(KEY))
    else {
        return Vec::new();
    };
    let foreign = saved.get("cells").and_then(Value::as_object);
    let has = |id: &str| notebook.cells.iter().any(|cell| cell.id == id);
    let mut changes = Vec::new();
    let gone = |id: &str, changes: &mut Vec<Change>| {
        let change = Change::Deleted { id: id.to_owned() };
        if !has(id) && !changes.contains(&change) {
            changes.push(change);
        }
    };
    for cell in &notebook.cells {
        let ours = cell.metadata.get("sponde");
        let mark = ours.and_then(|ours| ours.get(KEY));
        let mark = mark.filter(|_| !ours.is_some_and(|ours| is_copy(cell, ours)));
        if let Some(before) = mark.and_then(|mark| mark.get("after")?.as_str()) {
            gone(before, &mut changes);
        }
        let known = match mark {
            Some(mark) => mark.get("digest"),
            None => foreign.and_then(|cells| cells.get(&cell.id)),
        };
        match known.and_then(Value::as_str) {
            Some(known) => changes.extend(edited(cell, known)),
            None => changes.push(Change::Added {
                id: cell.id.clone(),
            }),
        }
    }
    for id in foreign.into_iter().flat_map(Map::keys) {
        gone(id, &mut changes);
    }
    if let Some(last) = saved.get("last").and_then(Value::as_str) {
        gone(last, &mut changes);
    }
    changes
}

fn edited(cell: &Cell, known: &str) -> Option<Change> {
    let now = digest(cell);
    let (source, outputs) = now.split_once('-')?;
    let (old_source, old_outputs) = known.split_once('-')?;
    (now != known).then(|| Change::Edited {
        id: cell.id.clone(),
        source: source != old_source,
        outputs: outputs != old_outputs,
    })
}

/// A cell's content in 17 characters: separate digests of source and outputs. Counts, times and metadata are ignored.
fn digest(cell: &Cell) -> String {
    let mut source = Sha256::new();
    source.update(cell.kind.as_str());
    source.update([0]);
    source.update(&cell.source);
    let mut outputs = Sha256::new();
    for output in cell.outputs() {
        hash_output(&mut outputs, output);
    }
    let short = |hash: Sha256| {
        let bytes = hash.finalize();
        let first = bytes.iter().take(4);
        first.fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte))
    };
    format!("{:08x}-{:08x}", short(source), short(outputs))
}

fn hash_output(hash: &mut Sha256, output: &Output) {
    match output {
        Output::Stream { name, text, .. } => {
            hash_text(hash, name);
            hash_text(hash, text);
        }
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            hash_object(hash, data.as_map());
        }
        Output::Error {
            ename,
            evalue,
            traceback,
            ..
        } => {
            hash_text(hash, ename);
            hash_text(hash, evalue);
            for line in traceback {
                hash_text(hash, line);
            }
        }
        Output::Other(value) => hash_value(hash, value),
    }
}

/// Keys are sorted in a file.
fn hash_object(hash: &mut Sha256, object: &Map<String, Value>) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in entries {
        hash_text(hash, name);
        hash_value(hash, value);
    }
}

fn hash_value(hash: &mut Sha256, value: &Value) {
    // Text can be stored as an array of lines.
    if let Some(text) = joined(value) {
        return hash_text(hash, &text);
    }
    match value {
        Value::Object(object) => hash_object(hash, object),
        Value::Array(values) => {
            for value in values {
                hash_value(hash, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            hash_text(hash, &value.to_string());
        }
    }
}

fn hash_text(hash: &mut Sha256, text: &str) {
    let bytes = text.as_bytes();
    hash.update((bytes.len() as u64).to_le_bytes());
    if bytes.len() <= LONG {
        return hash.update(bytes);
    }
    // Mostly pictures: two of them differ in length or in the sampled parts.
    let middle = bytes.len() / 2;
    let part = LONG / 4;
    for start in [0, middle, bytes.len() - part] {
        hash.update(bytes.get(start..start + part).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::mime::MimeBundle;
    use crate::jupyter::nbformat::CellType;

    #[test]
    fn a_digest_is_the_same_for_what_a_file_gives_back() {
        let mut cell = Cell::code("a", "plot()");
        let data = MimeBundle::new()
            .with("text/plain", json!(["a\n", "b"]))
            .with(
                "application/x+json",
                json!({"b": [1.5, null], "a": ["x", "y"]}),
            )
            .with("image/png", "A".repeat(LONG * 2));
        cell.kind = CellType::Code {
            execution_count: Some(1),
            outputs: vec![
                Output::stream("stdout", "x"),
                Output::display(data, Map::new()),
            ],
        };
        let mut notebook = Notebook::new();
        notebook.cells.push(cell.clone());
        let again = Notebook::read(notebook.to_json().as_bytes(), &mut String::new).unwrap();
        assert_eq!(digest(&again.notebook.cells[0]), digest(&cell));
        assert_eq!(digest(&cell).len(), 17);
        let (before, _) = digest(&cell)
            .split_once('-')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        cell.kind = CellType::Code {
            execution_count: Some(2),
            outputs: Vec::new(),
        };
        assert!(digest(&cell).starts_with(&before));
    }
}
