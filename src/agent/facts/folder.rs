//! A folder: what is in it by kinds, with one file of each looked into.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::kind::{self, FileKind};
use super::names::{shown, shown_path};
use super::sketch::Part;
use super::target::Target;
use super::{LISTED, size};

/// Entries that are counted.
const ENTRIES: usize = 5_000;
/// Folders below.
const DEPTH: usize = 4;
/// Kinds of which one file is looked into.
const KINDS: usize = 4;

/// Files whose names end alike.
#[derive(Default)]
struct Alike {
    count: usize,
    bytes: u64,
    /// The first by name.
    first: Option<PathBuf>,
}

/// Looks into one file. The caller passes it in, because it calls us for folders.
type Look<'a> = &'a dyn Fn(&Target<'_>) -> io::Result<Vec<Part>>;

/// Describes a folder. Links in it are not followed: one may lead to what code in the kernel cannot read.
pub(super) fn describe(target: &Target<'_>, look: Look<'_>) -> io::Result<Vec<Part>> {
    let (mut kinds, mut names) = (BTreeMap::<String, Alike>::new(), Vec::new());
    let (mut left, mut folders) = (ENTRIES, 0);
    walk(
        target.path,
        target.path,
        DEPTH,
        &mut left,
        &mut |path, metadata| {
            if metadata.is_dir() {
                folders += 1;
                return;
            }
            let extension = path.extension().unwrap_or_default().to_string_lossy();
            let alike = kinds.entry(extension.to_ascii_lowercase()).or_default();
            alike.count += 1;
            alike.bytes = alike.bytes.saturating_add(metadata.len());
            if alike
                .first
                .as_ref()
                .is_none_or(|first| path < first.as_path())
            {
                alike.first = Some(path.to_owned());
            }
            if names.len() < LISTED * 4 {
                names.push((path.to_owned(), metadata.len()));
            }
        },
    )?;
    let files: usize = kinds.values().map(|alike| alike.count).sum();
    let bytes = kinds
        .values()
        .fold(0_u64, |sum, it| sum.saturating_add(it.bytes));
    let more = if left == 0 { "more than " } else { "" };
    let mut head = format!(
        "Directory {}: {more}{files} files, {more}{}",
        shown_path(target.inner),
        size(bytes)
    );
    if folders > 0 {
        let _ = write!(head, ", {folders} folders below");
    }
    if left == 0 {
        let _ = write!(head, "; only {ENTRIES} entries were looked at");
    }
    let mut kinds: Vec<(String, Alike)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, alike)| std::cmp::Reverse(alike.bytes));
    names.sort();
    let mut all = Part {
        total: files,
        noun: "files",
        ..Part::default()
    };
    if files <= LISTED {
        all.lines.extend(names.iter().map(|(path, bytes)| {
            let inner = path.strip_prefix(target.path).unwrap_or(path);
            format!("- {} ({})", shown_path(inner), size(*bytes))
        }));
    } else {
        all.total = kinds.len();
        all.noun = "kinds";
        all.lines
            .extend(kinds.iter().take(LISTED).map(|(extension, alike)| {
                let name = if extension.is_empty() {
                    "without an ending".to_owned()
                } else {
                    shown(&format!("*.{extension}"))
                };
                let first = alike.first.as_deref().unwrap_or(Path::new(""));
                let first = first.strip_prefix(target.path).unwrap_or(first);
                format!(
                    "- {name}: {} files, {}, e.g. {}",
                    alike.count,
                    size(alike.bytes),
                    shown_path(first)
                )
            }));
    }
    all.head = head;
    let mut parts = vec![all];
    parts.extend(examples(target, &kinds, look));
    Ok(parts)
}

/// One file of each kind that holds data.
fn examples(target: &Target<'_>, kinds: &[(String, Alike)], look: Look<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut looked = 0;
    for (extension, alike) in kinds {
        let Some(first) = &alike.first else { continue };
        if looked == KINDS || !is_data(first) {
            continue;
        }
        looked += 1;
        let inner = target
            .inner
            .join(first.strip_prefix(target.path).unwrap_or(first));
        let inner_target = Target {
            path: first,
            inner: &inner,
            language: target.language,
        };
        // One that cannot be read was not named.
        let Ok(mut described) = look(&inner_target) else {
            continue;
        };
        if alike.count > 1
            && let Some(part) = described.first_mut()
        {
            part.head = format!(
                "(the first of {} files {}) {}",
                alike.count,
                shown(&format!("*.{extension}")),
                part.head
            );
        }
        parts.extend(described);
    }
    parts
}

/// Whether a file's name says that it holds data.
fn is_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lower = name.to_ascii_lowercase();
    let known = [
        "parquet", "arrow", "feather", "xlsx", "ods", "xls", "db", "sqlite", "sqlite3", "gz",
    ];
    known.iter().any(|it| lower.rsplit('.').next() == Some(it))
        || matches!(
            kind::of(b"", &name),
            FileKind::Table(_) | FileKind::Json | FileKind::JsonLines
        )
}

/// Tells each entry below `dir` but hidden ones, until `left` are told.
fn walk(
    top: &Path,
    dir: &Path,
    depth: usize,
    left: &mut usize,
    tell: &mut impl FnMut(&Path, &std::fs::Metadata),
) -> io::Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if dir == top => return Err(error),
        entries => entries.into_iter().flatten().flatten(),
    };
    let mut below = Vec::new();
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if !metadata.is_dir() && !metadata.is_file() {
            continue;
        }
        let Some(rest) = left.checked_sub(1) else {
            break;
        };
        *left = rest;
        tell(&entry.path(), &metadata);
        if metadata.is_dir() && depth > 0 {
            below.push(entry.path());
        }
    }
    below.sort();
    for dir in below {
        walk(top, &dir, depth - 1, left, tell)?;
    }
    Ok(())
}
