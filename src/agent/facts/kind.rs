//! What kind of file it is: by its first bytes, and by its name where these are text or say nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::formats::{self, Format};

/// Kinds of files that are looked into, each in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FileKind {
    /// Text with columns, which this byte probably parts.
    Table(u8),
    Json,
    JsonLines,
    Notebook,
    Text,
    Gzip,
    /// Also workbooks, which are archives.
    Zip,
    /// A workbook as Excel wrote it until 2003.
    OldExcel,
    Parquet,
    Arrow,
    Sqlite,
    Stata,
    Spss,
    Pdf,
    Picture,
    /// NetCDF as it was before it was HDF5.
    NetCdf,
    Shapefile,
    /// The table of a shapefile, and of programs of the eighties.
    DBase,
    /// One of which we know the name and how it is loaded.
    Known(&'static Format),
    Unknown,
}

/// Bytes that tell the kind.
const FIRST: u64 = 8 << 10;

/// The kind of a file.
///
/// # Errors
/// It cannot be read.
pub(super) fn of_file(path: &Path) -> io::Result<FileKind> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut first = Vec::new();
    File::open(path)?.take(FIRST).read_to_end(&mut first)?;
    let name = path.file_name().unwrap_or_default();
    Ok(of(&first, &name.to_string_lossy()))
}

/// The kind of a file with this name that begins with `first`.
pub(super) fn of(first: &[u8], name: &str) -> FileKind {
    let name = name.to_ascii_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, it)| it);
    let starts = |magic: &[u8]| first.starts_with(magic);
    if starts(b"\x1f\x8b") {
        FileKind::Gzip
    } else if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        FileKind::Zip
    } else if starts(b"PAR1") || starts(b"PARE") {
        FileKind::Parquet
    } else if starts(b"ARROW1\0\0") || starts(b"\xff\xff\xff\xff") && is_stream(first) {
        FileKind::Arrow
    } else if starts(b"SQLite format 3\0") {
        FileKind::Sqlite
    } else if starts(b"<stata_dta>") || extension == "dta" && is_old_stata(first) {
        FileKind::Stata
    } else if starts(b"$FL2") || starts(b"$FL3") {
        FileKind::Spss
    } else if starts(b"%PDF-") {
        FileKind::Pdf
    } else if starts(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") && matches!(extension, "xls" | "xlt" | "")
    {
        FileKind::OldExcel
    } else if is_picture(first) {
        FileKind::Picture
    } else if matches!(first, [b'C', b'D', b'F', 1 | 2 | 5, ..]) {
        FileKind::NetCdf
    } else if starts(b"\x00\x00\x27\x0a") && extension != "shx" {
        FileKind::Shapefile
    } else if extension == "dbf" && is_dbase(first) {
        FileKind::DBase
    } else if let Some(format) = formats::find(first, extension) {
        FileKind::Known(format)
    } else {
        by_name(first, extension)
    }
}

fn by_name(first: &[u8], extension: &str) -> FileKind {
    match extension {
        "csv" => FileKind::Table(b','),
        "tsv" | "tab" => FileKind::Table(b'\t'),
        "psv" => FileKind::Table(b'|'),
        "json" | "geojson" | "topojson" => FileKind::Json,
        "jsonl" | "ndjson" | "jsonlines" => FileKind::JsonLines,
        "ipynb" => FileKind::Notebook,
        _ if !is_text(first) => FileKind::Unknown,
        _ => FileKind::Text,
    }
}

impl FileKind {
    /// As a noun.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Table(_) => "a table of text",
            Self::Json => "JSON",
            Self::JsonLines => "JSON lines",
            Self::Notebook => "a notebook",
            Self::Text => "text",
            Self::Gzip => "gzip",
            Self::Zip => "a zip archive",
            Self::OldExcel => "an Excel workbook",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
            Self::Sqlite => "an SQLite database",
            Self::Stata => "Stata data",
            Self::Spss => "SPSS data",
            Self::Pdf => "PDF",
            Self::Picture => "a picture",
            Self::NetCdf => "NetCDF",
            Self::Shapefile => "a shapefile",
            Self::DBase => "a table of dBASE",
            Self::Known(format) => format.name,
            Self::Unknown => "something unknown",
        }
    }

    /// What it seems to be.
    pub(super) fn in_words(self) -> String {
        format!("begins like {}", self.what())
    }
}

/// Stata 8 to 12: release, byte order, and what is always 1.
fn is_old_stata(first: &[u8]) -> bool {
    matches!(first, [113..=115, 1 | 2, 1, 0, ..])
}

/// Its version, a month and a day.
fn is_dbase(first: &[u8]) -> bool {
    matches!(
        first,
        [
            0x02 | 0x03 | 0x30 | 0x31 | 0x83 | 0x8b | 0xf5,
            _,
            0..=12,
            0..=31,
            ..
        ]
    )
}

/// Arrow's stream: a mark, the length of the schema's message, and that begins with an offset into itself.
fn is_stream(first: &[u8]) -> bool {
    let length = first.get(4..8).and_then(|it| it.try_into().ok());
    length
        .map(u32::from_le_bytes)
        .is_some_and(|it| it % 8 == 0 && it > 0)
}

fn is_picture(first: &[u8]) -> bool {
    let starts = |magic: &[u8]| first.starts_with(magic);
    starts(b"\x89PNG\r\n\x1a\n")
        || starts(b"\xff\xd8\xff")
        || starts(b"GIF87a")
        || starts(b"GIF89a")
        || starts(b"RIFF") && first.get(8..12) == Some(b"WEBP")
}

/// Whether it is text in some encoding: nothing that controls anything, but the zeros of UTF-16.
pub(super) fn is_text(first: &[u8]) -> bool {
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return true;
    }
    let odd = first.iter().filter(|&&byte| {
        byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x0c | 0x1b) || byte == 0x7f
    });
    odd.count() == 0
}
