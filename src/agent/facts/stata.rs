//! Stata's data files (`.dta`) of Stata 8 to 18: columns with their labels, types, ranges, missing values
//! (Stata's help, "file formats .dta", releases 113 to 119).
//!
//! Rows are of one length, so the first of them are read as they lie. Whatever the header says, memory is bounded.

use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};

use super::column::{Column, Numerals, Value};
use super::input::Broken;
use super::names::{shown, shown_name, shown_path};
use super::parquet::day;
use super::sketch::Part;
use super::target::{Found, Target};
use super::{COLUMNS, is_secret, size};

/// Columns that are counted; more than Stata has.
const MOST: usize = 120_000;
/// Bytes of data that are looked at.
const DATA: u64 = 32 << 20;
/// Days between 1960, where Stata's dates begin, and 1970.
const EPOCH: f64 = 3653.0;

/// A column, and where it is in a row.
struct Variable {
    name: String,
    label: String,
    format: String,
    kind: Type,
}

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Byte,
    Int,
    Long,
    Float,
    Double,
    /// Text of so many bytes.
    Text(usize),
    /// Text that is stored elsewhere.
    LongText,
}

struct Header {
    big_endian: bool,
    variables: Vec<Variable>,
    rows: u64,
    label: String,
    data: u64,
}

/// Describes a file.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::new(file);
    let header = if reader.peek_tag()? {
        tagged(&mut reader)?
    } else {
        old(&mut reader)?
    };
    let (columns, seen) = look(&header, &mut reader)?;
    let among = if seen < header.rows {
        " (first rows)"
    } else {
        ""
    };
    let recipe = target.language.recipe(
        target.inner,
        |path| format!("df = pd.read_stata({path})"),
        "df <- haven::read_dta({})",
    );
    let title = match header.label.as_str() {
        "" => String::new(),
        label => format!(", called {}", shown(label)),
    };
    let head = format!(
        "File {}: Stata data{title}, {}, {} rows, {} columns. {recipe}",
        shown_path(target.inner),
        size(bytes),
        header.rows,
        header.variables.len(),
    );
    let described = header.variables.iter().zip(&columns).take(COLUMNS);
    let lines = described.map(|(variable, column)| {
        let label = match variable.label.as_str() {
            "" => String::new(),
            label => format!(" [{}]", shown(label)),
        };
        let values = match variable.kind {
            Type::LongText => "text".to_owned(),
            _ => column.describe(is_secret(&variable.name), among),
        };
        format!("- {}{label}: {values}", shown_name(&variable.name))
    });
    Ok(vec![Part {
        head,
        lines: lines.collect(),
        total: header.variables.len(),
        noun: "columns",
        ..Part::default()
    }])
}

/// What the first rows hold, and how many those are.
fn look(header: &Header, reader: &mut Reader<'_>) -> Result<(Vec<Column>, u64), Broken> {
    let mut columns: Vec<Column> = header
        .variables
        .iter()
        .map(|_| Column::new(Numerals::Point))
        .collect();
    let length: usize = header.variables.iter().map(|it| it.kind.bytes()).sum();
    if length as u64 > DATA {
        return Err("a row of it is too long".into());
    }
    let rows = header.rows.min(DATA / (length as u64).max(1));
    reader.seek(header.data)?;
    let mut row = vec![0; length];
    for _ in 0..rows {
        reader.fill(&mut row)?;
        let mut rest = row.as_slice();
        for (variable, column) in header.variables.iter().zip(&mut columns) {
            let Some((value, after)) = rest.split_at_checked(variable.kind.bytes()) else {
                break;
            };
            rest = after;
            take(column, variable, value, header.big_endian);
        }
    }
    Ok((columns, rows))
}

fn take(column: &mut Column, variable: &Variable, value: &[u8], big_endian: bool) {
    let number = match variable.kind {
        Type::LongText => return,
        Type::Text(_) => {
            let text = text(value);
            return match text.as_str() {
                "" => column.take_typed(Value::Missing),
                text => column.take_typed(Value::Text(text)),
            };
        }
        kind => kind.number(value, big_endian),
    };
    let is_whole = matches!(variable.kind, Type::Byte | Type::Int | Type::Long);
    match (number, variable.format.as_str()) {
        (None, _) => column.take_typed(Value::Missing),
        (Some(days), format) if format.starts_with("%td") || format.starts_with("%d") => {
            column.take_typed(Value::Text(&day(days - EPOCH)));
        }
        // Milliseconds.
        (Some(time), format) if format.starts_with("%tc") || format.starts_with("%tC") => {
            column.take_typed(Value::Text(&day((time / 86_400_000.0).floor() - EPOCH)));
        }
        (Some(number), _) if is_whole => column.take_typed(Value::Integer(number)),
        (Some(number), _) => column.take_typed(Value::Float(number)),
    }
}

impl Type {
    /// By its code in the releases since 117.
    fn of(code: u16) -> Result<Self, Broken> {
        Ok(match code {
            65530 => Self::Byte,
            65529 => Self::Int,
            65528 => Self::Long,
            65527 => Self::Float,
            65526 => Self::Double,
            32768 => Self::LongText,
            1..=2045 => Self::Text(usize::from(code)),
            _ => return Err("it has a type that is not known".into()),
        })
    }

    /// And in those before.
    fn of_old(code: u8) -> Result<Self, Broken> {
        Ok(match code {
            251 => Self::Byte,
            252 => Self::Int,
            253 => Self::Long,
            254 => Self::Float,
            255 => Self::Double,
            1..=244 => Self::Text(usize::from(code)),
            _ => return Err("it has a type that is not known".into()),
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Int => 2,
            Self::Long | Self::Float => 4,
            Self::Double | Self::LongText => 8,
            Self::Text(bytes) => bytes,
        }
    }

    /// The number; `None` for the missing values, which are the largest of each type.
    fn number(self, value: &[u8], big_endian: bool) -> Option<f64> {
        let mut bytes = [0_u8; 8];
        let width = value.len().min(8);
        bytes.get_mut(..width)?.copy_from_slice(value.get(..width)?);
        if big_endian {
            bytes.get_mut(..width)?.reverse();
        }
        let [a, b, c, d, ..] = bytes;
        let number = match self {
            Self::Byte => f64::from(i8::from_le_bytes([a])),
            Self::Int => f64::from(i16::from_le_bytes([a, b])),
            Self::Long => f64::from(i32::from_le_bytes([a, b, c, d])),
            Self::Float => f64::from(f32::from_le_bytes([a, b, c, d])),
            Self::Double => f64::from_le_bytes(bytes),
            Self::Text(_) | Self::LongText => return None,
        };
        let greatest = match self {
            Self::Byte => 100.0,
            Self::Int => 32_740.0,
            Self::Long => 2_147_483_620.0,
            Self::Float => 1.701_411_733_192_644e38,
            _ => 8.988_465_674_311_579e307,
        };
        (number <= greatest).then_some(number)
    }
}

/// Releases 117 to 119: parts within tags, and a map of where they are.
fn tagged(reader: &mut Reader<'_>) -> Result<Header, Broken> {
    reader.tag("<stata_dta><header><release>")?;
    let release = match reader.bytes(3)?.as_slice() {
        b"117" => 117,
        b"118" => 118,
        b"119" => 119,
        _ => return Err("it is of a release that is not known".into()),
    };
    reader.tag("</release><byteorder>")?;
    reader.big_endian = reader.bytes(3)? == b"MSF";
    reader.tag("</byteorder><K>")?;
    let count = if release == 119 {
        reader.unsigned(4)?
    } else {
        reader.unsigned(2)?
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MOST {
        return Err("its header is damaged".into());
    }
    reader.tag("</K><N>")?;
    let rows = reader.unsigned(if release == 117 { 4 } else { 8 })?;
    reader.tag("</N><label>")?;
    let length = reader.unsigned(if release == 117 { 1 } else { 2 })?;
    let label = text(&reader.bytes(length)?);
    reader.tag("</label><timestamp>")?;
    let length = reader.unsigned(1)?;
    reader.bytes(length)?;
    reader.tag("</timestamp></header><map>")?;
    let mut map = [0_u64; 14];
    for place in &mut map {
        *place = reader.unsigned(8)?;
    }
    let [_, _, types, names, _, formats, _, labels, _, data, ..] = map;
    let (name, format, long) = if release == 117 {
        (33, 49, 81)
    } else {
        (129, 57, 321)
    };
    reader.part(types, "<variable_types>")?;
    let mut kinds = Vec::new();
    for _ in 0..count {
        let code = reader.unsigned(2)?;
        kinds.push(Type::of(u16::try_from(code).unwrap_or_default())?);
    }
    reader.part(names, "<varnames>")?;
    let names = reader.texts(count, name)?;
    reader.part(formats, "<formats>")?;
    let formats = reader.texts(count, format)?;
    reader.part(labels, "<variable_labels>")?;
    let labels = reader.texts(count, long)?;
    Ok(Header {
        big_endian: reader.big_endian,
        variables: variables(kinds, names, formats, labels),
        rows,
        label,
        data: data + "<data>".len() as u64,
    })
}

/// Releases 113 to 115: fields of fixed lengths in a row.
fn old(reader: &mut Reader<'_>) -> Result<Header, Broken> {
    let release = reader.unsigned(1)?;
    if !(113..=115).contains(&release) {
        return Err("it is of a release that is not known".into());
    }
    reader.big_endian = reader.unsigned(1)? == 1;
    reader.bytes(2)?;
    let count = usize::try_from(reader.unsigned(2)?).unwrap_or_default();
    let rows = reader.unsigned(4)?;
    let label = text(&reader.bytes(81)?);
    reader.bytes(18)?;
    let mut kinds = Vec::new();
    for code in reader.bytes(count as u64)? {
        kinds.push(Type::of_old(code)?);
    }
    let names = reader.texts(count, 33)?;
    reader.bytes(2 * (count as u64 + 1))?;
    let formats = reader.texts(count, if release == 113 { 12 } else { 49 })?;
    reader.texts(count, 33)?;
    let labels = reader.texts(count, 81)?;
    // Characteristics: type, length, content, until both are nothing.
    loop {
        let kind = reader.unsigned(1)?;
        let length = reader.unsigned(4)?;
        if kind == 0 && length == 0 {
            break;
        }
        reader.skip(length)?;
    }
    Ok(Header {
        big_endian: reader.big_endian,
        variables: variables(kinds, names, formats, labels),
        rows,
        label,
        data: reader.at,
    })
}

fn variables(
    kinds: Vec<Type>,
    names: Vec<String>,
    formats: Vec<String>,
    labels: Vec<String>,
) -> Vec<Variable> {
    kinds
        .into_iter()
        .zip(names)
        .zip(formats)
        .zip(labels)
        .map(|(((kind, name), format), label)| Variable {
            name,
            label,
            format,
            kind,
        })
        .collect()
}

/// Text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // Before release 118 there was no encoding.
        Err(_) => encoding_rs::WINDOWS_1252.decode(bytes).0.into_owned(),
    }
}

/// Fields of the file, in its byte order.
struct Reader<'a> {
    file: BufReader<&'a mut File>,
    at: u64,
    big_endian: bool,
}

impl<'a> Reader<'a> {
    fn new(file: &'a mut File) -> Self {
        Self {
            file: BufReader::new(file),
            at: 0,
            big_endian: false,
        }
    }

    /// Whether the file begins with a tag.
    fn peek_tag(&mut self) -> Result<bool, Broken> {
        let first = self.bytes(1)?;
        self.seek(0)?;
        Ok(first == b"<")
    }

    fn seek(&mut self, to: u64) -> Result<(), Broken> {
        self.file.seek(SeekFrom::Start(to))?;
        self.at = to;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Broken> {
        self.seek(self.at.saturating_add(bytes))
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), Broken> {
        self.file.read_exact(into)?;
        self.at += into.len() as u64;
        Ok(())
    }

    /// What is there of so many bytes is read, all of them are needed.
    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::new();
        (&mut self.file).take(count).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        if (bytes.len() as u64) < count {
            return Err("it ends too early".into());
        }
        Ok(bytes)
    }

    fn unsigned(&mut self, width: u64) -> Result<u64, Broken> {
        let bytes = self.bytes(width)?;
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if self.big_endian {
            bytes.iter().fold(0, fold)
        } else {
            bytes.iter().rev().fold(0, fold)
        })
    }

    fn texts(&mut self, count: usize, width: u64) -> Result<Vec<String>, Broken> {
        (0..count).map(|_| Ok(text(&self.bytes(width)?))).collect()
    }

    fn tag(&mut self, tag: &str) -> Result<(), Broken> {
        if self.bytes(tag.len() as u64)? != tag.as_bytes() {
            return Err("its header is damaged".into());
        }
        Ok(())
    }

    fn part(&mut self, at: u64, tag: &str) -> Result<(), Broken> {
        self.seek(at)?;
        self.tag(tag)
    }
}
