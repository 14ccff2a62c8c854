//! Fuzzes untrusted notebooks: what was read is written so that it reads the same, whole and in pieces.
#![expect(
    clippy::unwrap_used,
    reason = "a property that does not hold is a panic"
)]

use super::{Loaded, NbformatError, Notebook};

/// The bytes are a file.
pub(crate) fn notebook(data: &[u8]) {
    let Ok(loaded) = read(data) else {
        return;
    };
    let text = loaded.notebook.to_json();
    let again = read(text.as_bytes()).unwrap();
    assert_eq!(again.notebook.to_json(), text, "written twice");
    let (before, after) = loaded.notebook.frame();
    if !loaded.notebook.cells.is_empty() {
        let mut pieces = before.into_bytes();
        for (index, cell) in loaded.notebook.cells.iter().enumerate() {
            cell.write_piece(index == 0, &mut pieces).unwrap();
        }
        pieces.extend_from_slice(after.as_bytes());
        assert_eq!(String::from_utf8(pieces).unwrap(), text, "cell by cell");
    }
    let mut ids: Vec<&str> = again
        .notebook
        .cells
        .iter()
        .map(|cell| cell.id.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), again.notebook.cells.len(), "ids are unique");
}

fn read(data: &[u8]) -> Result<Loaded, NbformatError> {
    let mut made = 0;
    let mut new_id = || {
        made += 1;
        format!("fuzz-{made}")
    };
    Notebook::read(data, &mut new_id)
}
