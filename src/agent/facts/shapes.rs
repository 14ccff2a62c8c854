//! Shapefiles and their tables (`.shp` with `.dbf`, `.shx`, `.prj` beside it): kind and number of shapes, where they lie, columns
//! (ESRI, "Shapefile Technical Description"; dBASE III and its successors).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::column::{Column, Numerals, Value, number};
use super::input::Broken;
use super::names::{shown, shown_path};
use super::size;
use super::sketch::Part;
use super::target::{Found, Target};

/// Bytes of a table that are looked at.
const DATA: u64 = 32 << 20;
/// Bytes of a coordinate system's name.
const NAME: u64 = 4096;

/// Describes a shapefile that begins with `first`.
pub(super) fn describe(target: &Target<'_>, bytes: u64, first: &[u8]) -> Found {
    let kind = match little(first, 32) {
        0 => "no shapes",
        1 | 11 | 21 => "points",
        3 | 13 | 23 => "lines",
        5 | 15 | 25 => "polygons",
        8 | 18 | 28 => "groups of points",
        31 => "surfaces",
        _ => return Err("its header is damaged".into()),
    };
    let mut head = format!(
        "File {}: {}, a shapefile of ",
        shown_path(target.inner),
        size(bytes)
    );
    let index = beside(target.path, "shx");
    let count = index.and_then(|path| Some(path.metadata().ok()?.len().checked_sub(100)? / 8));
    if let Some(count) = count {
        let _ = write!(head, "{count} ");
    }
    head.push_str(kind);
    let corner = |at: usize| {
        let bytes = first.get(at..at + 8)?;
        Some(number(f64::from_le_bytes(bytes.try_into().ok()?)))
    };
    if let (Some(left), Some(low), Some(right), Some(high)) =
        (corner(36), corner(44), corner(52), corner(60))
    {
        let _ = write!(head, ", x {left} to {right}, y {low} to {high}");
    }
    match beside(target.path, "prj").and_then(|path| system(&path)) {
        Some(name) => {
            let _ = write!(head, ", coordinates {}", shown(&name));
        }
        None => head.push_str(", coordinate system not told"),
    }
    let recipe = recipe(target, "gdf", "gdf <- sf::st_read({})");
    let columns = beside(target.path, "dbf").map(|path| columns(target, &path));
    let (lines, total) = match columns {
        Some(Ok(table)) => (table.lines, table.total),
        Some(Err(broken)) => {
            let _ = write!(head, ". Its table: {}", broken.0);
            (Vec::new(), 0)
        }
        None => {
            head.push_str(". Its table (.dbf) is not there");
            (Vec::new(), 0)
        }
    };
    let _ = write!(head, ". {recipe}");
    Ok(vec![Part {
        head,
        lines,
        total,
        noun: "columns",
        ..Part::default()
    }])
}

/// Describes a table of dBASE.
pub(super) fn table(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    let read = read(file, encoding(target.path))?;
    let head = format!(
        "File {}: {}, a table of dBASE, {} rows. {}",
        shown_path(target.inner),
        size(bytes),
        read.rows,
        recipe(target, "df", "df <- foreign::read.dbf({})")
    );
    Ok(vec![read.part(head)])
}

fn recipe(target: &Target<'_>, name: &str, r: &str) -> String {
    target.language.recipe(
        target.inner,
        |path| format!("import geopandas as gpd; {name} = gpd.read_file({path})"),
        r,
    )
}

/// A file of the same name with another ending, if it is one: a link may lead to what code cannot read.
fn beside(path: &Path, extension: &str) -> Option<PathBuf> {
    [extension.to_owned(), extension.to_ascii_uppercase()]
        .into_iter()
        .map(|extension| path.with_extension(extension))
        .find(|path| path.symlink_metadata().is_ok_and(|it| it.is_file()))
}

/// The name of the coordinate system: what the first quotes hold.
fn system(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path)
        .ok()?
        .take(NAME)
        .read_to_end(&mut text)
        .ok()?;
    let text = String::from_utf8_lossy(&text);
    let name = text.split('"').nth(1)?;
    Some(name.chars().take(80).collect())
}

/// The encoding that a file beside the table names, else that of old programs.
fn encoding(path: &Path) -> &'static encoding_rs::Encoding {
    let named = beside(path, "cpg").and_then(|path| {
        let mut text = Vec::new();
        File::open(path)
            .ok()?
            .take(40)
            .read_to_end(&mut text)
            .ok()?;
        encoding_rs::Encoding::for_label(&text)
    });
    named.unwrap_or(encoding_rs::WINDOWS_1252)
}

fn columns(target: &Target<'_>, path: &Path) -> Result<Part, Broken> {
    let mut file = File::open(path)?;
    Ok(read(&mut file, encoding(target.path))?.part(String::new()))
}

struct Field {
    name: String,
    kind: u8,
    length: usize,
    decimals: u8,
}

struct Table {
    fields: Vec<Field>,
    columns: Vec<Column>,
    rows: u64,
    seen: u64,
}

impl Table {
    fn part(&self, head: String) -> Part {
        let among = if self.seen < self.rows {
            " (first rows)"
        } else {
            ""
        };
        let names = self.fields.iter().map(|it| it.name.as_str());
        Part::table(head, names.zip(&self.columns), self.fields.len(), among)
    }
}

/// Rows are of one length, so the first of them are read as they lie.
fn read(file: &mut File, encoding: &'static encoding_rs::Encoding) -> Result<Table, Broken> {
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::new(file);
    let mut start = [0; 32];
    file.read_exact(&mut start)?;
    let rows = u64::from(little(&start, 4));
    let short = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 2).and_then(|it| it.try_into().ok());
        usize::from(bytes.map_or(0, u16::from_le_bytes))
    };
    let (header, length) = (short(&start, 8), short(&start, 10));
    let mut fields = Vec::new();
    let mut descriptor = [0; 32];
    for _ in 0..header.saturating_sub(33) / 32 {
        file.read_exact(&mut descriptor)?;
        let name = descriptor.get(..11).unwrap_or_default();
        if name.first() == Some(&0x0d) {
            break;
        }
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(name.len());
        fields.push(Field {
            name: encoding
                .decode(name.get(..end).unwrap_or_default())
                .0
                .into_owned(),
            kind: *descriptor.get(11).unwrap_or(&0),
            length: usize::from(*descriptor.get(16).unwrap_or(&0)),
            decimals: *descriptor.get(17).unwrap_or(&0),
        });
    }
    if fields.is_empty() || fields.iter().map(|it| it.length).sum::<usize>() >= length {
        return Err("its header is damaged".into());
    }
    let mut columns: Vec<Column> = fields
        .iter()
        .map(|_| Column::new(Numerals::Point))
        .collect();
    file.seek(SeekFrom::Start(header as u64))?;
    let (mut seen, mut row) = (0, vec![0; length]);
    for _ in 0..rows.min(DATA / length as u64) {
        file.read_exact(&mut row)?;
        seen += 1;
        let [mark, rest @ ..] = row.as_slice() else {
            break;
        };
        // Deleted.
        if *mark == b'*' {
            continue;
        }
        let mut rest = rest;
        for (field, column) in fields.iter().zip(&mut columns) {
            let Some((value, after)) = rest.split_at_checked(field.length) else {
                break;
            };
            rest = after;
            let text = encoding.decode(value).0;
            take(column, field, text.trim_matches([' ', '\0']));
        }
    }
    Ok(Table {
        fields,
        columns,
        rows,
        seen,
    })
}

fn take(column: &mut Column, field: &Field, text: &str) {
    let day = || Some([text.get(..4)?, text.get(4..6)?, text.get(6..8)?].join("-"));
    match field.kind {
        _ if text.is_empty() || text.starts_with('*') => column.take_typed(Value::Missing),
        b'N' | b'F' => match text.parse() {
            Ok(number) if field.decimals == 0 && field.kind == b'N' => {
                column.take_typed(Value::Integer(number));
            }
            Ok(number) => column.take_typed(Value::Float(number)),
            Err(_) => column.take_typed(Value::Text(text)),
        },
        b'D' => match day() {
            Some(day) => column.take_typed(Value::Text(&day)),
            None => column.take_typed(Value::Text(text)),
        },
        b'L' => match text {
            "?" => column.take_typed(Value::Missing),
            text => column.take_typed(Value::Named("bool", text)),
        },
        b'C' => column.take_typed(Value::Text(text)),
        // What stands in other files or is binary.
        _ => column.take_typed(Value::Named("another type", "")),
    }
}

fn little(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}
