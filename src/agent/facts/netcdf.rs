//! NetCDF of the classic formats (CDF-1, CDF-2, CDF-5): dimensions, variables, their attributes, ranges of what has one dimension
//! (NetCDF User's Guide, "NetCDF Classic Format Specification").
//!
//! Everything is big-endian, and counts come before what they count. Whatever the header says, memory is bounded.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};

use super::column::number;
use super::input::Broken;
use super::names::{shown, shown_name, shown_path};
use super::sketch::Part;
use super::target::{Found, Target};
use super::{COLUMNS, is_secret, size};

/// Bytes of a header.
const HEADER: u64 = 4 << 20;
/// Dimensions, attributes or variables of one list.
const LISTED: u64 = 20_000;
/// Bytes of a name, and of an attribute that is told.
const NAME: usize = 256;
const ATTRIBUTE: u64 = 200;
/// Values that a range comes from.
const VALUES: u64 = 10_000;
const FAR_APART: u64 = 400;

struct Dimension {
    name: String,
    length: u64,
    is_unlimited: bool,
}

struct Variable {
    name: String,
    dimensions: Vec<usize>,
    attributes: Vec<(String, String)>,
    kind: Kind,
    /// Bytes of it, of one record where it has records.
    bytes: u64,
    begin: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Byte,
    Char,
    Short,
    Int,
    Float,
    Double,
    UnsignedByte,
    UnsignedShort,
    UnsignedInt,
    Int64,
    UnsignedInt64,
}

/// Describes a file.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::new(file);
    let magic = reader.bytes(4)?;
    let version = *magic.get(3).unwrap_or(&0);
    reader.is_wide = version == 5;
    let records = reader.count()?;
    let mut dimensions = reader.dimensions()?;
    // All ones: somebody was still writing.
    let is_streaming = records
        == if reader.is_wide {
            u64::MAX
        } else {
            0xffff_ffff
        };
    for dimension in dimensions.iter_mut().filter(|it| it.is_unlimited) {
        dimension.length = if is_streaming { 0 } else { records };
    }
    let attributes = reader.attributes()?;
    let variables = reader.variables(version, dimensions.len())?;
    let record = record_bytes(&variables, &dimensions);
    let mut head = format!(
        "File {}: {}, NetCDF (classic), {} variables",
        shown_path(target.inner),
        size(bytes),
        variables.len()
    );
    let sizes = dimensions.iter().take(12).map(|it| {
        let unlimited = if it.is_unlimited { " (unlimited)" } else { "" };
        format!("{} {}{unlimited}", shown_name(&it.name), it.length)
    });
    let _ = write!(
        head,
        ", dimensions {}",
        sizes.collect::<Vec<_>>().join(", ")
    );
    for (name, value) in attributes.iter().take(6) {
        let _ = write!(head, ", {} {}", shown_name(name), told(name, value));
    }
    let recipe = target.language.recipe(
        target.inner,
        |path| format!("import scipy, xarray as xr; ds = xr.open_dataset({path}, engine='scipy')"),
        "nc <- ncdf4::nc_open({})",
    );
    let _ = write!(head, ". {recipe}");
    let mut lines = Vec::new();
    for variable in variables.iter().take(COLUMNS) {
        let over = variable.dimensions.iter();
        let over: Vec<String> = over
            .filter_map(|at| Some(shown_name(&dimensions.get(*at)?.name)))
            .collect();
        let mut line = format!(
            "- {} ({}): {}",
            shown_name(&variable.name),
            over.join(", "),
            variable.kind.name()
        );
        for (name, value) in variable.attributes.iter().take(5) {
            let _ = write!(line, ", {} {}", shown_name(name), told(name, value));
        }
        // What cannot be read any more has no range.
        if let Ok(Some((low, high))) = reader.range(variable, &dimensions, record)
            && !is_secret(&variable.name)
        {
            let _ = write!(line, ", {} to {}", number(low), number(high));
        }
        lines.push(line);
    }
    Ok(vec![Part {
        head,
        lines,
        total: variables.len(),
        noun: "variables",
        ..Part::default()
    }])
}

fn told(name: &str, value: &str) -> String {
    if is_secret(name) {
        return "(not shown)".to_owned();
    }
    shown(value)
}

/// Bytes from one record to the next: all variables with records, each to a multiple of four, unless there is only one.
fn record_bytes(variables: &[Variable], dimensions: &[Dimension]) -> u64 {
    let of_records: Vec<&Variable> = (variables.iter())
        .filter(|it| it.has_records(dimensions))
        .collect();
    match of_records.as_slice() {
        [only] => only.width(dimensions),
        all => all.iter().fold(0, |sum, it| sum.saturating_add(it.bytes)),
    }
}

impl Variable {
    fn has_records(&self, dimensions: &[Dimension]) -> bool {
        let first = self.dimensions.first().and_then(|at| dimensions.get(*at));
        first.is_some_and(|it| it.is_unlimited)
    }

    /// Bytes of its values in one record.
    fn width(&self, dimensions: &[Dimension]) -> u64 {
        let rest = self.dimensions.iter().skip(1);
        let rest = rest.filter_map(|at| dimensions.get(*at));
        rest.fold(self.kind.bytes(), |all, it| all.saturating_mul(it.length))
    }
}

impl Kind {
    fn of(code: u64) -> Result<Self, Broken> {
        Ok(match code {
            1 => Self::Byte,
            2 => Self::Char,
            3 => Self::Short,
            4 => Self::Int,
            5 => Self::Float,
            6 => Self::Double,
            7 => Self::UnsignedByte,
            8 => Self::UnsignedShort,
            9 => Self::UnsignedInt,
            10 => Self::Int64,
            11 => Self::UnsignedInt64,
            _ => return Err("it has a type that is not known".into()),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Byte | Self::UnsignedByte => "byte",
            Self::Char => "text",
            Self::Short | Self::UnsignedShort => "int16",
            Self::Int | Self::UnsignedInt => "int32",
            Self::Float => "float32",
            Self::Double => "float64",
            Self::Int64 | Self::UnsignedInt64 => "int64",
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Self::Byte | Self::Char | Self::UnsignedByte => 1,
            Self::Short | Self::UnsignedShort => 2,
            Self::Int | Self::Float | Self::UnsignedInt => 4,
            Self::Double | Self::Int64 | Self::UnsignedInt64 => 8,
        }
    }

    /// The value in so many bytes.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn number(self, bytes: &[u8]) -> Option<f64> {
        Some(match self {
            Self::Byte => f64::from(i8::from_be_bytes(bytes.try_into().ok()?)),
            Self::UnsignedByte => f64::from(u8::from_be_bytes(bytes.try_into().ok()?)),
            Self::Char => return None,
            Self::Short => f64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
            Self::UnsignedShort => f64::from(u16::from_be_bytes(bytes.try_into().ok()?)),
            Self::Int => f64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
            Self::UnsignedInt => f64::from(u32::from_be_bytes(bytes.try_into().ok()?)),
            Self::Float => f64::from(f32::from_be_bytes(bytes.try_into().ok()?)),
            Self::Double => f64::from_be_bytes(bytes.try_into().ok()?),
            Self::Int64 => i64::from_be_bytes(bytes.try_into().ok()?) as f64,
            Self::UnsignedInt64 => u64::from_be_bytes(bytes.try_into().ok()?) as f64,
        })
    }
}

struct Reader<'a> {
    file: BufReader<&'a mut File>,
    /// Bytes of the header that may still be read.
    left: u64,
    /// CDF-5, where counts have eight bytes.
    is_wide: bool,
}

impl<'a> Reader<'a> {
    fn new(file: &'a mut File) -> Self {
        Self {
            file: BufReader::new(file),
            left: HEADER,
            is_wide: false,
        }
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Broken> {
        if count > self.left {
            return Err("its header is too long".into());
        }
        self.left -= count;
        let mut bytes = Vec::new();
        (&mut self.file).take(count).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < count {
            return Err("it ends too early".into());
        }
        Ok(bytes)
    }

    fn unsigned(&mut self, width: u64) -> Result<u64, Broken> {
        let bytes = self.bytes(width)?;
        Ok(bytes
            .iter()
            .fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    /// A number that is never negative.
    fn count(&mut self) -> Result<u64, Broken> {
        self.unsigned(if self.is_wide { 8 } else { 4 })
    }

    fn name(&mut self) -> Result<String, Broken> {
        let length = self.count()?;
        let bytes = self.padded(length)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.chars().take(NAME).collect())
    }

    /// So many bytes, and what fills them up to a multiple of four.
    fn padded(&mut self, length: u64) -> Result<Vec<u8>, Broken> {
        let mut bytes = self.bytes(length)?;
        self.bytes(length.wrapping_neg() % 4)?;
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    /// How many there are of what has this tag.
    fn list(&mut self, tag: u64) -> Result<u64, Broken> {
        let found = self.unsigned(4)?;
        let count = self.count()?;
        match (found, count) {
            (0, 0) => Ok(0),
            (found, count) if found == tag && count <= LISTED => Ok(count),
            _ => Err("its header is damaged".into()),
        }
    }

    fn dimensions(&mut self) -> Result<Vec<Dimension>, Broken> {
        let count = self.list(0x0a)?;
        let all = (0..count).map(|_| {
            let name = self.name()?;
            let length = self.count()?;
            Ok(Dimension {
                name,
                length,
                is_unlimited: length == 0,
            })
        });
        all.collect()
    }

    fn attributes(&mut self) -> Result<Vec<(String, String)>, Broken> {
        let count = self.list(0x0c)?;
        let mut all = Vec::new();
        for _ in 0..count {
            let name = self.name()?;
            let kind = Kind::of(self.unsigned(4)?)?;
            let length = self.count()?;
            let bytes = self.padded(length.saturating_mul(kind.bytes()))?;
            let value: String = match kind {
                Kind::Char => String::from_utf8_lossy(&bytes)
                    .trim_end_matches('\0')
                    .to_owned(),
                kind => {
                    let width = usize::try_from(kind.bytes()).unwrap_or(1);
                    let values = bytes.chunks_exact(width).take(4);
                    let values = values.filter_map(|it| Some(kind.number(it)?.to_string()));
                    values.collect::<Vec<_>>().join(" ")
                }
            };
            let end = value.floor_char_boundary(usize::try_from(ATTRIBUTE).unwrap_or(usize::MAX));
            all.push((name, value.get(..end).unwrap_or_default().to_owned()));
        }
        Ok(all)
    }

    fn variables(&mut self, version: u8, dimensions: usize) -> Result<Vec<Variable>, Broken> {
        let count = self.list(0x0b)?;
        let mut all = Vec::new();
        for _ in 0..count {
            let name = self.name()?;
            let rank = self.count()?;
            if rank > 1024 {
                return Err("its header is damaged".into());
            }
            let mut over = Vec::new();
            for _ in 0..rank {
                let at = usize::try_from(self.count()?).unwrap_or(usize::MAX);
                if at >= dimensions {
                    return Err("its header is damaged".into());
                }
                over.push(at);
            }
            let attributes = self.attributes()?;
            let kind = Kind::of(self.unsigned(4)?)?;
            let bytes = self.count()?;
            let begin = self.unsigned(if version == 1 { 4 } else { 8 })?;
            all.push(Variable {
                name,
                dimensions: over,
                attributes,
                kind,
                bytes,
                begin,
            });
        }
        Ok(all)
    }

    /// Goes there, without reading again what is read already.
    fn go_to(&mut self, place: u64) -> Result<(), Broken> {
        let here = self.file.stream_position()?;
        match i64::try_from(i128::from(place) - i128::from(here)) {
            Ok(offset) => self.file.seek_relative(offset)?,
            Err(_) => return Err("it ends too early".into()),
        }
        Ok(())
    }

    /// The least and the greatest value of what has one dimension that is not long.
    fn range(
        &mut self,
        variable: &Variable,
        dimensions: &[Dimension],
        record: u64,
    ) -> Result<Option<(f64, f64)>, Broken> {
        let [only] = variable.dimensions.as_slice() else {
            return Ok(None);
        };
        let length = dimensions.get(*only).map_or(0, |it| it.length);
        if length == 0 || variable.kind == Kind::Char {
            return Ok(None);
        }
        let width = variable.kind.bytes();
        let step = if variable.has_records(dimensions) {
            record
        } else {
            width
        };
        // Far apart each costs a read of its own.
        if length > if step > 1024 { FAR_APART } else { VALUES } {
            return Ok(None);
        }
        let mut found: Option<(f64, f64)> = None;
        let mut value = vec![0; usize::try_from(width).unwrap_or(8)];
        for at in 0..length {
            let place = variable.begin.saturating_add(at.saturating_mul(step));
            self.go_to(place)?;
            self.file.read_exact(&mut value)?;
            let Some(number) = variable.kind.number(&value).filter(|it| it.is_finite()) else {
                continue;
            };
            let (low, high) = found.unwrap_or((number, number));
            found = Some((low.min(number), high.max(number)));
        }
        Ok(found)
    }
}
