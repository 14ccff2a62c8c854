//! Looks into a file by its first bytes, and by its name where these say nothing.

use std::fs::File;
use std::io::{self, Read as _};

use super::content::of_text;
use super::input::{self, Packing};
use super::kind::{self, FileKind};
use super::names::shown_path;
use super::sketch::Part;
use super::target::{Found, Source, Target};
use super::{
    archive, arrow, folder, formats, netcdf, parquet, pdf, picture, shapes, sheet, size, spss,
    sqlite, stata,
};

/// Bytes that tell the kind.
const FIRST: u64 = 8 << 10;

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
        return folder::describe(target, &into);
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
        FileKind::Table(_)
        | FileKind::Json
        | FileKind::JsonLines
        | FileKind::Notebook
        | FileKind::Text => from_text(target, kind, &mut file, bytes, Packing::Plain),
        FileKind::Gzip => packed(target, &mut file, bytes),
        FileKind::Zip => archive::describe(target, file, bytes),
        FileKind::OldExcel => sheet::xls::describe(target, file, bytes),
        FileKind::Parquet => parquet::describe(target, &mut file, bytes),
        FileKind::Arrow => arrow::describe(target, &mut file, bytes),
        FileKind::Sqlite => sqlite::describe(target, &mut file, bytes),
        FileKind::Stata => stata::describe(target, &mut file, bytes),
        FileKind::Spss => spss::describe(target, &mut file, bytes),
        FileKind::Pdf => pdf::describe(target, &mut file, bytes),
        FileKind::Picture => picture::describe(target, file, bytes, &first),
        FileKind::NetCdf => netcdf::describe(target, &mut file, bytes),
        FileKind::Shapefile => shapes::describe(target, bytes, &first),
        FileKind::DBase => shapes::table(target, &mut file, bytes),
        FileKind::Known(format) => Ok(vec![formats::describe(target, format, bytes, &first)]),
        FileKind::Unknown => Ok(vec![formats::unknown(target, bytes, &first)]),
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
    kind: FileKind,
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
        FileKind::Table(_)
        | FileKind::Json
        | FileKind::JsonLines
        | FileKind::Notebook
        | FileKind::Text => from_text(target, inner, file, bytes, Packing::Gzip)?,
        inner => vec![Part::line(format!(
            "File {}: {}, gzip of {}; what is in it was not read",
            shown_path(target.inner),
            size(bytes),
            inner.what()
        ))],
    };
    Ok(parts)
}
