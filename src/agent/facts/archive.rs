//! Zip archives: workbooks, arrays, and files that are packed together.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use zip::ZipArchive;

use super::content::of_text;
use super::input::{self, Broken, Packing};
use super::kind::{self, FileKind};
use super::names::{python_path, python_string, shown, shown_path};
use super::sheet;
use super::size;
use super::sketch::Part;
use super::target::{Found, Source, Target};

/// Bytes of an archive's directory that are read: it is kept in memory.
const DIRECTORY: u64 = 4 << 20;
/// Entries that are listed.
const LISTED: usize = 30;
/// Entries that are looked into.
const LOOKED_INTO: usize = 3;
/// Bytes of an entry's beginning that tell its kind.
const FIRST: u64 = 8 << 10;

/// An archive that is open.
pub(super) type Archive = ZipArchive<BufReader<File>>;

/// Describes an archive.
pub(super) fn describe(target: &Target<'_>, file: File, bytes: u64) -> Found {
    let mut archive = open(file, bytes)?;
    let has = |archive: &Archive, name: &str| archive.index_for_name(name).is_some();
    if has(&archive, "xl/workbook.xml") {
        return sheet::xlsx::describe(target, &mut archive, bytes);
    }
    if has(&archive, "content.xml") && has(&archive, "mimetype") {
        let mut kind = String::new();
        let _ = part(&mut archive, "mimetype", 200)?.read_to_string(&mut kind);
        if kind.contains("spreadsheet") {
            return sheet::ods::describe(target, &mut archive, bytes);
        }
    }
    for (name, what, python) in [
        (
            "xl/workbook.bin",
            "an Excel workbook (xlsb)",
            "df = pd.read_excel({}, engine='calamine')",
        ),
        ("word/document.xml", "a Word document", ""),
        ("ppt/presentation.xml", "a PowerPoint presentation", ""),
    ] {
        if has(&archive, name) {
            let recipe =
                (target.language).recipe(target.inner, |path| python.replace("{}", path), "");
            let shown = shown_path(target.inner);
            return Ok(vec![Part::line(format!(
                "File {shown}: {}, {what}. {recipe}",
                size(bytes)
            ))]);
        }
    }
    Ok(packed(target, &mut archive, bytes))
}

/// Opens an archive whose directory is not too large.
fn open(mut file: File, bytes: u64) -> Result<Archive, Broken> {
    // The end of the directory is behind all, before a comment of at most 64 KiB (APPNOTE.TXT, 4.3.16).
    let tail = bytes.min((64 << 10) + 22);
    file.seek(SeekFrom::Start(bytes - tail))?;
    let mut end = Vec::new();
    (&mut file).take(tail).read_to_end(&mut end)?;
    let at = (end.windows(4))
        .rposition(|it| it == b"PK\x05\x06")
        .ok_or("it has no directory at its end")?;
    let length = end.get(at + 12..at + 16).and_then(|it| it.try_into().ok());
    let length = length.map(u32::from_le_bytes).map_or(u64::MAX, u64::from);
    if length > DIRECTORY {
        return Err(Broken::from("it has too many entries to be listed"));
    }
    file.rewind()?;
    ZipArchive::new(BufReader::new(file)).map_err(|_| Broken::from("its directory is damaged"))
}

/// The first bytes of an entry, at most so many of them: what an entry says of its size may be wrong.
pub(super) fn part<'a>(
    archive: &'a mut Archive,
    name: &str,
    most: u64,
) -> Result<impl Read + 'a, Broken> {
    let entry = archive
        .by_name(name)
        .map_err(|_| Broken::from("a part of it cannot be read"))?;
    Ok(entry.take(most))
}

struct Entry {
    name: String,
    bytes: u64,
    is_encrypted: bool,
}

/// An archive of files.
fn packed(target: &Target<'_>, archive: &mut Archive, bytes: u64) -> Vec<Part> {
    let mut entries = Vec::new();
    for at in 0..archive.len() {
        let Ok(entry) = archive.by_index_raw(at) else {
            continue;
        };
        let name = entry.name().to_owned();
        if entry.is_dir() || name.starts_with("__MACOSX/") {
            continue;
        }
        entries.push(Entry {
            name,
            bytes: entry.size(),
            is_encrypted: entry.encrypted(),
        });
    }
    let unpacked = entries
        .iter()
        .fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes));
    let noun = if entries.len() == 1 { "file" } else { "files" };
    let mut head = format!(
        "File {}: {}, a zip archive of {} {noun}, unpacked {} as it says",
        shown_path(target.inner),
        size(bytes),
        entries.len(),
        size(unpacked)
    );
    if unpacked / 200 > bytes && unpacked > 100 << 20 {
        head.push_str("; this is suspiciously much for its size: do not unpack it whole");
    }
    let is_npy = |entry: &Entry| {
        Path::new(&entry.name)
            .extension()
            .is_some_and(|it| it == "npy")
    };
    let is_array = !entries.is_empty() && entries.iter().all(is_npy);
    if is_array {
        let recipe = target.language.recipe(
            target.inner,
            |path| format!("import numpy as np; arrays = np.load({path}, allow_pickle=False)"),
            "",
        );
        let _ = write!(head, ". {recipe}");
    }
    let mut parts = vec![Part {
        head,
        lines: (entries.iter().take(LISTED))
            .map(|entry| {
                let locked = if entry.is_encrypted {
                    ", encrypted"
                } else {
                    ""
                };
                format!("- {} ({}{locked})", shown(&entry.name), size(entry.bytes))
            })
            .collect(),
        total: entries.len(),
        noun: "files",
        ..Part::default()
    }];
    let mut looked = 0;
    for entry in entries
        .iter()
        .filter(|entry| !entry.is_encrypted && !is_array)
    {
        if looked == LOOKED_INTO {
            break;
        }
        if let Ok(described) = inside(target, archive, entry, entries.len() == 1) {
            looked += usize::from(!described.is_empty());
            parts.extend(described);
        }
    }
    parts
}

/// A text in an archive; nothing if it is something else.
fn inside(target: &Target<'_>, archive: &mut Archive, entry: &Entry, alone: bool) -> Found {
    let mut first = Vec::new();
    part(archive, &entry.name, FIRST)?.read_to_end(&mut first)?;
    let kind = kind::of(&first, &entry.name);
    if !matches!(
        kind,
        FileKind::Table(_) | FileKind::Json | FileKind::JsonLines
    ) {
        return Ok(Vec::new());
    }
    let mut reader = part(archive, &entry.name, u64::MAX)?;
    let text = input::from(&mut reader, Some(entry.bytes), 16 << 20)?;
    drop(reader);
    let path = python_path(target.inner);
    let is_named = target
        .path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("zip"));
    // pandas unpacks an archive with one file by itself.
    let by_itself = alone && matches!(kind, FileKind::Table(_));
    let open = format!(
        "__import__('zipfile').ZipFile({path}).open({})",
        python_string(&entry.name)
    );
    let source = Source {
        target: *target,
        bytes: entry.bytes,
        packing: Packing::Plain,
        packed: (by_itself && !is_named).then_some("zip"),
        open: (!by_itself).then_some(open),
    };
    let mut parts = of_text(&source, kind, &text);
    if let Some(part) = parts.first_mut() {
        part.head = format!("In it {}: {}", shown(&entry.name), part.head);
    }
    Ok(parts)
}
