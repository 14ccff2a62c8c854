//! Looks into a file by its first bytes, and by its name where these say nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::calls::Language;
use super::input::{self, Broken, Packing};
use super::kind::{self, Kind};
use super::names::shown_path;
use super::sketch::Part;
use super::{
    archive, arrow, folder, formats, json, notebook, parquet, pdf, picture, sheet, size, sqlite,
    table, text,
};

/// Bytes that tell the kind.
const FIRST: u64 = 8 << 10;

/// A file that was named.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// Where it is.
    pub(super) path: &'a Path,
    /// The same as code names it.
    pub(super) inner: &'a Path,
    pub(super) language: Language,
}

/// What a reader found: the parts of a file, or why it cannot tell.
pub(super) type Found = Result<Vec<Part>, Broken>;

/// Name and size.
pub(super) fn at(target: &Target<'_>) -> io::Result<Part> {
    let metadata = std::fs::metadata(target.path)?;
    let shown = shown_path(target.inner);
    Ok(Part::line(if metadata.is_dir() {
        format!("Directory {shown}")
    } else {
        format!("File {shown}: {}", size(metadata.len()))
    }))
}

/// What is in a file or a directory.
///
/// # Errors
/// It is not there, cannot be opened, or is no file: better known now than in the model's first cell.
pub(super) fn into(target: &Target<'_>) -> io::Result<Vec<Part>> {
    let metadata = std::fs::metadata(target.path)?;
    if metadata.is_dir() {
        return folder::describe(target);
    }
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut file = File::open(target.path)?;
    let mut first = Vec::new();
    (&mut file).take(FIRST).read_to_end(&mut first)?;
    let bytes = metadata.len();
    let name = target.path.file_name().unwrap_or_default();
    let kind = kind::of(&first, &name.to_string_lossy());
    let found = match kind {
        _ if first.is_empty() => Ok(vec![Part::line(format!(
            "File {}: empty",
            shown_path(target.inner)
        ))]),
        Kind::Table(_) | Kind::Json | Kind::JsonLines | Kind::Notebook | Kind::Text => {
            from_text(target, kind, &mut file, bytes, Packing::Plain)
        }
        Kind::Gzip => packed(target, &mut file, bytes),
        Kind::Zip => archive::describe(target, file, bytes),
        Kind::OldExcel => sheet::xls::describe(target, file, bytes),
        Kind::Parquet => parquet::describe(target, &mut file, bytes),
        Kind::Arrow => arrow::describe(target, &mut file, bytes),
        Kind::Sqlite => sqlite::describe(target, &mut file, bytes),
        Kind::Pdf => pdf::describe(target, &mut file, bytes),
        Kind::Picture => picture::describe(target, file, bytes, &first),
        Kind::Known(format) => Ok(vec![formats::describe(target, format, bytes, &first)]),
        Kind::Unknown => Ok(vec![formats::unknown(target, bytes, &first)]),
    };
    Ok(found.unwrap_or_else(|broken| {
        vec![Part::line(format!(
            "File {}: {}, {}, but {}",
            shown_path(target.inner),
            size(bytes),
            kind.in_words(),
            broken.0
        ))]
    }))
}

/// A text of some kind.
fn from_text(
    target: &Target<'_>,
    kind: Kind,
    file: &mut File,
    bytes: u64,
    packing: Packing,
) -> Found {
    let text = input::read(file, bytes, packing)?;
    let is_named = |ending: &str| {
        let name = target.path.to_string_lossy().to_ascii_lowercase();
        name.ends_with(ending)
    };
    // pandas knows by the name.
    let packed = (packing == Packing::Gzip && !is_named(".gz")).then_some("gzip");
    let source = Source {
        target: *target,
        bytes,
        packing,
        packed,
        open: None,
    };
    Ok(of_text(&source, kind, &text))
}

/// Where a text comes from.
pub(super) struct Source<'a> {
    pub(super) target: Target<'a>,
    /// The size of the file.
    pub(super) bytes: u64,
    pub(super) packing: Packing,
    /// What pandas must be told of the compression.
    pub(super) packed: Option<&'static str>,
    /// Python that opens it as bytes, if that is not the path.
    pub(super) open: Option<String>,
}

/// Describes a text of this kind.
pub(super) fn of_text(source: &Source<'_>, kind: Kind, text: &input::Text) -> Vec<Part> {
    let target = &source.target;
    let as_table = |hint: u8| {
        table::describe(
            text,
            &table::File {
                path: target.inner,
                source: source.open.clone(),
                hint,
                packed: source.packed,
                language: target.language,
            },
        )
    };
    match kind {
        Kind::Table(hint) => {
            let described = as_table(hint).unwrap_or_else(|| {
                Part::line(format!(
                    "File {}: {}, not a table with a header",
                    shown_path(target.inner),
                    size(source.bytes)
                ))
            });
            vec![described]
        }
        Kind::Json => json::document(source, text),
        Kind::JsonLines => vec![json::lines(source, text)],
        Kind::Notebook => vec![notebook::describe(source, text)],
        _ => match text::looks_like_a_table(&text.head) {
            Some(hint) => {
                as_table(hint).map_or_else(|| text::describe(source, text), |it| vec![it])
            }
            None => text::describe(source, text),
        },
    }
}

/// What gzip holds, by the name without its ending and by its bytes.
fn packed(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    use std::io::{Seek as _, SeekFrom};
    file.seek(SeekFrom::Start(0))?;
    let mut first = Vec::new();
    let mut unpacked = flate2::read::MultiGzDecoder::new(&mut *file);
    let ended = (&mut unpacked).take(FIRST).read_to_end(&mut first);
    if first.is_empty() {
        ended?;
    }
    let name = target.path.file_stem().unwrap_or_default();
    let inner = kind::of(&first, &name.to_string_lossy());
    let parts = match inner {
        Kind::Table(_) | Kind::Json | Kind::JsonLines | Kind::Notebook | Kind::Text => {
            from_text(target, inner, file, bytes, Packing::Gzip)?
        }
        inner => vec![Part::line(format!(
            "File {}: {}, gzip of {}; what is in it was not read",
            shown_path(target.inner),
            size(bytes),
            inner.what()
        ))],
    };
    Ok(parts)
}
