//! Arrow and Feather: columns, types, rows and missing values, read off the metadata (Arrow Columnar Format, "IPC").

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::input::Broken;
use super::names::{shown_name, shown_path};
use super::sketch::Part;
use super::target::{Found, Target};
use super::{COLUMNS, size};

/// Bytes of a piece of metadata.
const METADATA: u64 = 16 << 20;
/// Batches whose rows are counted.
const BATCHES: usize = 2_000;
/// Columns that are counted.
const FIELDS: usize = 50_000;

const BAD: &str = "its metadata is damaged";

/// A table of a flatbuffer: where it begins in its bytes. Every offset is hostile, and looked up with its bound.
#[derive(Clone, Copy)]
struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

struct Field {
    name: String,
    kind: &'static str,
    is_nested: bool,
    missing: i64,
}

#[derive(Default)]
struct Seen {
    fields: Vec<Field>,
    rows: i64,
    batches: usize,
    is_whole: bool,
}

/// Describes a file or a stream.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    let mut head = [0; 8];
    file.read_exact_at(&mut head, 0)?;
    let is_file = head.starts_with(b"ARROW1");
    let seen = if is_file {
        from_footer(file, bytes)?
    } else {
        from_stream(file, bytes, 0)?
    };
    let more = if seen.is_whole { "" } else { "more than " };
    let mut words = format!(
        "File {}: Arrow, {}, {more}{} rows in {more}{} batches, {} columns. ",
        shown_path(target.inner),
        size(bytes),
        seen.rows,
        seen.batches,
        seen.fields.len()
    );
    let python = |path: &str| {
        if is_file {
            format!("df = pd.read_feather({path})")
        } else {
            format!("import pyarrow as pa; df = pa.ipc.open_stream({path}).read_pandas()")
        }
    };
    words.push_str(
        &target
            .language
            .recipe(target.inner, python, "df <- arrow::read_feather({})"),
    );
    let among = if seen.is_whole {
        ""
    } else {
        " (first batches)"
    };
    let (mut lines, mut key) = (Vec::new(), String::new());
    for field in &seen.fields {
        if lines.len() < COLUMNS {
            let missing = match field.missing {
                0 => String::new(),
                missing => format!("; {missing} missing{among}"),
            };
            lines.push(format!(
                "- {}: {}{missing}",
                shown_name(&field.name),
                field.kind
            ));
        }
        let _ = write!(key, "{}\0{}\0", field.name, field.kind);
    }
    Ok(vec![Part {
        head: words,
        lines,
        total: seen.fields.len(),
        noun: "columns",
        key,
        ..Part::default()
    }])
}

fn from_footer(file: &File, bytes: u64) -> Result<Seen, Broken> {
    let mut tail = [0; 10];
    let end = bytes.checked_sub(10).ok_or("it ends too early")?;
    file.read_exact_at(&mut tail, end)?;
    let length = match (
        tail.get(..4).and_then(|it| it.try_into().ok()),
        tail.get(4..),
    ) {
        (Some(length), Some(b"ARROW1")) => u64::from(u32::from_le_bytes(length)),
        _ => return Err("its footer is missing: it was not written to its end".into()),
    };
    let start = end.checked_sub(length).ok_or(BAD)?;
    let footer = read(file, start, length)?;
    let footer = Table::root(&footer).ok_or(BAD)?;
    let mut seen = Seen {
        fields: fields(footer.table(1).ok_or(BAD)?),
        is_whole: true,
        ..Seen::default()
    };
    // `Block`: offset, length of the metadata, length of the body.
    let (at, count) = footer.vector(3).unwrap_or((0, 0));
    for block in 0..count {
        if block >= BATCHES {
            seen.is_whole = false;
            break;
        }
        let block = at + block * 24;
        let offset = number(footer.bytes, block, 8).ok_or(BAD)?;
        let length = number(footer.bytes, block + 8, 4).ok_or(BAD)?;
        let message = read(file, offset, length)?;
        // Since 0.15 a mark stands before the length.
        let skip = if message.starts_with(b"\xff\xff\xff\xff") {
            8
        } else {
            4
        };
        let message = message.get(skip..).unwrap_or_default();
        batch(Table::root(message).ok_or(BAD)?, &mut seen);
    }
    Ok(seen)
}

fn from_stream(file: &File, bytes: u64, start: u64) -> Result<Seen, Broken> {
    let mut seen = Seen::default();
    let mut at = start;
    while seen.batches < BATCHES {
        let mut head = [0; 8];
        if at + 8 > bytes {
            seen.is_whole = true;
            break;
        }
        file.read_exact_at(&mut head, at)?;
        let length = number(&head, 4, 4).unwrap_or(0);
        if !head.starts_with(b"\xff\xff\xff\xff") || length == 0 {
            seen.is_whole = true;
            break;
        }
        let message = read(file, at + 8, length)?;
        let message = Table::root(&message).ok_or(BAD)?;
        match message.byte(1) {
            1 => seen.fields = fields(message.table(2).ok_or(BAD)?),
            3 => batch(message, &mut seen),
            _ => {}
        }
        let body = message.scalar(3, 8).unwrap_or(0);
        at = at
            .saturating_add(8)
            .saturating_add(length)
            .saturating_add(body);
    }
    if seen.fields.is_empty() && seen.batches == 0 {
        return Err(BAD.into());
    }
    Ok(seen)
}

fn read(file: &File, at: u64, length: u64) -> Result<Vec<u8>, Broken> {
    if length > METADATA {
        return Err("its metadata is too large to be read".into());
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| BAD)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn batch(message: Table<'_>, seen: &mut Seen) {
    let Some(batch) = message.table(2).filter(|_| message.byte(1) == 3) else {
        return;
    };
    seen.batches += 1;
    let rows = batch.scalar(0, 8).unwrap_or(0).cast_signed();
    seen.rows = seen.rows.saturating_add(rows.max(0));
    // A node for each field and each below it; of columns that are not nested the order is that of the columns.
    if seen.fields.iter().any(|field| field.is_nested) {
        return;
    }
    let (at, count) = batch.vector(1).unwrap_or((0, 0));
    for (node, field) in seen.fields.iter_mut().enumerate().take(count) {
        let missing = number(batch.bytes, at + node * 16 + 8, 8)
            .unwrap_or(0)
            .cast_signed();
        field.missing = field.missing.saturating_add(missing.max(0));
    }
}

/// `Schema.fields`
fn fields(schema: Table<'_>) -> Vec<Field> {
    let (at, count) = schema.vector(1).unwrap_or((0, 0));
    let mut fields = Vec::new();
    for field in 0..count.min(FIELDS) {
        let place = at + field * 4;
        let Some(field) = schema.follow(place) else {
            break;
        };
        let kind = field.byte(2);
        let is_category = field.table(4).is_some();
        fields.push(Field {
            name: field.text(0),
            kind: if is_category {
                "text (category)"
            } else {
                kind_of(kind, field.table(3))
            },
            is_nested: matches!(kind, 12..=14 | 16 | 17 | 21 | 22 | 25 | 26),
            missing: 0,
        });
    }
    fields
}

/// `Type`, in the order of Schema.fbs.
fn kind_of(kind: u8, details: Option<Table<'_>>) -> &'static str {
    match kind {
        1 => "empty",
        2 if details.is_some_and(|it| it.byte(1) == 0) => "int, not negative",
        2 => "int",
        3 => "float",
        4 | 15 | 19 | 23 => "bytes",
        5 | 20 | 24 => "text",
        6 => "bool",
        7 => "decimal",
        8 => "date",
        9 => "time of day",
        10 => "date and time",
        11 | 18 => "duration",
        12 | 16 | 21 | 25 | 26 => "list",
        13 => "struct",
        14 => "union",
        17 => "map",
        _ => "of an unknown type",
    }
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    )
}

fn index(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number(bytes, at, 4)?).ok()
}

impl<'a> Table<'a> {
    fn root(bytes: &'a [u8]) -> Option<Self> {
        let at = index(bytes, 0)?;
        (at < bytes.len()).then_some(Self { bytes, at })
    }

    /// Where a field is, if the table has it.
    fn field(self, id: usize) -> Option<usize> {
        let back = i32::from_le_bytes(
            self.bytes
                .get(self.at..self.at.checked_add(4)?)?
                .try_into()
                .ok()?,
        );
        let table = isize::try_from(self.at)
            .ok()?
            .checked_sub(isize::try_from(back).ok()?)?;
        let table = usize::try_from(table).ok()?;
        let size = number(self.bytes, table, 2)?;
        let slot = 4 + 2 * id;
        if u64::try_from(slot + 2).ok()? > size {
            return None;
        }
        match number(self.bytes, table.checked_add(slot)?, 2)? {
            0 => None,
            offset => self.at.checked_add(usize::try_from(offset).ok()?),
        }
    }

    fn scalar(self, id: usize, width: usize) -> Option<u64> {
        number(self.bytes, self.field(id)?, width)
    }

    fn byte(self, id: usize) -> u8 {
        self.scalar(id, 1)
            .and_then(|it| u8::try_from(it).ok())
            .unwrap_or(0)
    }

    fn follow(self, place: usize) -> Option<Self> {
        let at = place.checked_add(index(self.bytes, place)?)?;
        (at < self.bytes.len()).then_some(Self { at, ..self })
    }

    fn table(self, id: usize) -> Option<Self> {
        self.follow(self.field(id)?)
    }

    /// Where a vector's items begin, and how many there are; never more than there are bytes.
    fn vector(self, id: usize) -> Option<(usize, usize)> {
        let vector = self.table(id)?;
        let count = index(self.bytes, vector.at)?;
        (count <= self.bytes.len()).then_some((vector.at + 4, count))
    }

    fn text(self, id: usize) -> String {
        let Some((at, length)) = self.vector(id) else {
            return String::new();
        };
        let bytes = at
            .checked_add(length)
            .and_then(|end| self.bytes.get(at..end));
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }
}
