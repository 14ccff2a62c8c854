//! A table of the Python kernel as a file: CSV, Parquet or Excel, written by the kernel and saved here.

use std::io::Write as _;
use std::path::Path;

use super::asides::Asides;
use super::query::{QueryError, QueryReason, Rows};
use crate::kernel::FramePiece;
use crate::kernel::folder::Folder;

/// Names of formats, which are also file extensions.
pub const FORMATS: [&str; 3] = ["csv", "parquet", "xlsx"];

/// The format with this name.
pub fn format(name: &str) -> Option<&'static str> {
    FORMATS.into_iter().find(|it| it.eq_ignore_ascii_case(name))
}

/// Saves the table `name` as `file`, in the format of its extension, and returns its size in bytes. Never overwrites an
/// existing file.
///
/// # Errors
/// [`QueryError`]; a partial file is removed.
pub async fn save(
    asides: &Asides,
    name: &str,
    rows: &Rows,
    file: &Path,
) -> Result<u64, QueryError> {
    let failed = |reason, words: &str| {
        let shown = file.display();
        QueryError::new(reason, format!("could not save `{shown}`: {words}"))
    };
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    let format = format(&ending).ok_or_else(|| {
        failed(QueryReason::BadRequest, "its name does not say as what")
            .hint("end it in .csv, .parquet or .xlsx")
    })?;
    let path = Folder::of(file).map_err(|error| failed(QueryReason::Failed, &error.to_string()))?;
    let new = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path.file());
    let mut new = new.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => failed(QueryReason::Forbidden, "it is there already"),
        _ => failed(QueryReason::Failed, &error.to_string()),
    })?;
    let written = write(asides, name, rows, format, &mut new).await;
    if written.is_err() {
        let _ = std::fs::remove_file(path.file());
    }
    written.map_err(|error| match error {
        Unsaved::Query(error) => error,
        Unsaved::Io(error) => failed(QueryReason::Failed, &error.to_string()),
        Unsaved::Cut => failed(QueryReason::NoAnswer, "the kernel sent less than it said"),
    })
}

enum Unsaved {
    Query(QueryError),
    Io(std::io::Error),
    Cut,
}

async fn write(
    asides: &Asides,
    name: &str,
    rows: &Rows,
    format: &'static str,
    file: &mut std::fs::File,
) -> Result<u64, Unsaved> {
    let (length, mut pieces) = asides
        .export(name, rows, format)
        .await
        .map_err(Unsaved::Query)?;
    let mut written = 0;
    while let Some(piece) = pieces.recv().await {
        if let FramePiece::Bytes(bytes) = piece {
            // Pieces are small, so writing to the page cache does not block for long.
            file.write_all(&bytes).map_err(Unsaved::Io)?;
            written += bytes.len() as u64;
        }
    }
    if written != length {
        return Err(Unsaved::Cut);
    }
    Ok(written)
}
