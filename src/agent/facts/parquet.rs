//! Parquet: rows, columns, types, and what the statistics in its footer say of the values.
//!
//! Only the footer is read, with a reader of our own: the crate `parquet` brings Arrow, decoders of every encoding and 40 more
//! crates for what are 300 lines (parquet-format, `parquet.thrift`). Statistics are what the writer says, and are told so.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use super::column::number;
use super::names::{shown, shown_name, shown_path};
use super::sketch::Part;
use super::target::{Found, Target};
use super::thrift::{BINARY, Bad, Compact, LIST, STRUCT};
use super::{COLUMNS, is_secret, size};

/// Bytes of a footer that are read.
const FOOTER: u64 = 16 << 20;
/// Elements of a schema.
const ELEMENTS: usize = 50_000;
/// Files above this size are better not read whole.
const LARGE: u64 = 1 << 30;

/// A column or a group of them.
#[derive(Debug, Default, Clone)]
struct Element {
    name: String,
    physical: Option<i64>,
    children: usize,
    converted: Option<i64>,
    logical: Option<i64>,
    /// Digits behind the point.
    scale: i64,
    /// Of a time: how many are a second.
    unit: i64,
}

/// What the statistics of all row groups say of a column.
#[derive(Debug, Default, Clone)]
struct Statistics {
    least: Option<Bound>,
    greatest: Option<Bound>,
    nulls: i64,
    /// Row groups that say nothing.
    silent: bool,
}

#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Bound {
    Number(f64),
    Text(String),
}

#[derive(Default)]
struct Footer {
    elements: Vec<Element>,
    rows: i64,
    groups: u64,
    /// By path, of columns that are not nested.
    statistics: std::collections::HashMap<String, Statistics>,
}

/// Describes a file.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    let end = file.seek(SeekFrom::End(-8_i64.min(i64::try_from(bytes).unwrap_or(8))))?;
    let mut tail = Vec::new();
    file.take(8).read_to_end(&mut tail)?;
    let length = match (
        tail.get(..4).and_then(|it| it.try_into().ok()),
        tail.get(4..),
    ) {
        (Some(length), Some(b"PAR1")) => u64::from(u32::from_le_bytes(length)),
        (_, Some(b"PARE")) => return Err("its footer is encrypted".into()),
        _ => return Err("its footer is missing: it was not written to its end".into()),
    };
    let start = end.checked_sub(length).ok_or("its footer is damaged")?;
    file.seek(SeekFrom::Start(start))?;
    let mut footer = Vec::new();
    file.take(length.min(FOOTER)).read_to_end(&mut footer)?;
    let (footer, is_whole) = read(&footer, length <= FOOTER)?;
    Ok(vec![part(target, &footer, bytes, is_whole)])
}

fn part(target: &Target<'_>, footer: &Footer, bytes: u64, is_whole: bool) -> Part {
    let tops = tops(&footer.elements);
    let mut words = format!(
        "File {}: Parquet, {}, {} rows in {}{} row groups, {} columns. ",
        shown_path(target.inner),
        size(bytes),
        footer.rows,
        if is_whole { "" } else { "at least " },
        footer.groups,
        tops.len(),
    );
    if bytes > LARGE {
        words.push_str(
            "Too large to be read whole: name columns=[...], or ask duckdb or pl.scan_parquet. ",
        );
    }
    words.push_str(&target.language.recipe(
        target.inner,
        |path| format!("df = pd.read_parquet({path})"),
        "df <- arrow::read_parquet({})",
    ));
    let among = if is_whole { "" } else { " (first row groups)" };
    let mut key = String::new();
    let mut lines = Vec::new();
    for element in &tops {
        let kind = kind(element);
        if lines.len() < COLUMNS {
            let said = footer.statistics.get(&element.name);
            let values = said.map_or_else(String::new, |it| values(element, it));
            let values = if is_secret(&element.name) {
                String::new()
            } else {
                values
            };
            let told = if values.is_empty() { "" } else { among };
            lines.push(format!(
                "- {}: {kind}{values}{told}",
                shown_name(&element.name)
            ));
        }
        let _ = write!(key, "{}\0{kind}\0", element.name);
    }
    Part {
        head: words,
        lines,
        total: tops.len(),
        noun: "columns",
        key,
        ..Part::default()
    }
}

/// The elements right below the root.
fn tops(elements: &[Element]) -> Vec<&Element> {
    let mut tops = Vec::new();
    let mut left = 0_usize;
    for element in elements.iter().skip(1) {
        if left == 0 {
            tops.push(element);
            left = element.children;
        } else {
            left = left.saturating_sub(1).saturating_add(element.children);
        }
    }
    tops
}

/// The type, as its user calls it.
fn kind(element: &Element) -> String {
    let name = match (element.logical, element.converted) {
        (Some(3), _) | (_, Some(3)) => "list",
        (Some(2), _) | (_, Some(1 | 2)) => "map",
        _ if element.children > 0 => "struct",
        (Some(1), _) | (_, Some(0)) => "text",
        (Some(4), _) | (_, Some(4)) => "text (category)",
        (Some(5), _) | (_, Some(5)) => return format!("decimal, {} places", element.scale),
        (Some(6), _) | (_, Some(6)) => "date",
        (Some(7), _) | (_, Some(7 | 8)) => "time of day",
        (Some(8), _) | (_, Some(9 | 10)) => "date and time",
        (Some(12), _) | (_, Some(19)) => "JSON text",
        (Some(14), _) => "uuid",
        _ => match element.physical {
            Some(0) => "bool",
            Some(1 | 2) => "int",
            Some(3) => "date and time",
            Some(4 | 5) => "float",
            _ => "bytes",
        },
    };
    name.to_owned()
}

/// What the statistics say.
fn values(element: &Element, said: &Statistics) -> String {
    let mut words = String::new();
    if !said.silent
        && element.physical != Some(0)
        && let (Some(least), Some(greatest)) = (&said.least, &said.greatest)
    {
        let _ = write!(
            words,
            ", {} to {}",
            bound(element, least),
            bound(element, greatest)
        );
    }
    if said.nulls > 0 {
        let _ = write!(words, "; {} missing", said.nulls);
    }
    words
}

fn bound(element: &Element, bound: &Bound) -> String {
    match bound {
        Bound::Text(text) => shown(&text.chars().take(40).collect::<String>()),
        Bound::Number(value) => match kind(element).as_str() {
            "date" => day(*value),
            "date and time" if element.unit > 0 => {
                #[expect(clippy::cast_precision_loss, reason = "days do not need it")]
                let days = value / element.unit as f64 / 86_400.0;
                day(days.floor())
            }
            _ => number(*value),
        },
    }
}

/// A day by its distance from 1970-01-01.
pub(super) fn day(days: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "checked below")]
    let days = if days.abs() < 1e7 {
        days as i64
    } else {
        return "?".to_owned();
    };
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Reads a footer; one that is cut gives what came before. Returns whether it was read to its end.
fn read(bytes: &[u8], is_whole: bool) -> Result<(Footer, bool), super::input::Broken> {
    let mut footer = Footer::default();
    let mut compact = Compact::new(bytes);
    let read = compact.fields(|compact, id, kind| {
        match (id, kind) {
            (2, LIST) => {
                let (_, length) = compact.list()?;
                for _ in 0..length {
                    let element = element(compact)?;
                    if footer.elements.len() < ELEMENTS {
                        footer.elements.push(element);
                    }
                }
            }
            (3, _) => footer.rows = compact.int()?,
            (4, LIST) => {
                let (_, length) = compact.list()?;
                for _ in 0..length {
                    group(compact, &mut footer)?;
                    footer.groups += 1;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    });
    if read.is_err() && is_whole || footer.elements.is_empty() || footer.rows < 0 {
        return Err("its footer is damaged".into());
    }
    Ok((footer, read.is_ok()))
}

/// `SchemaElement`
fn element(compact: &mut Compact<'_>) -> Result<Element, Bad> {
    let mut element = Element::default();
    compact.fields(|compact, id, kind| {
        match (id, kind) {
            (1, _) => element.physical = Some(compact.int()?),
            (4, BINARY) => element.name = String::from_utf8_lossy(compact.binary()?).into_owned(),
            (5, _) => element.children = usize::try_from(compact.int()?).map_err(|_| Bad)?,
            (6, _) => {
                let converted = compact.int()?;
                element.converted = Some(converted);
                match converted {
                    9 => element.unit = 1_000,
                    10 => element.unit = 1_000_000,
                    _ => {}
                }
            }
            (7, _) => element.scale = compact.int()?,
            (10, STRUCT) => logical(compact, &mut element)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(element)
}

/// `LogicalType`: a union, of which the field's number is the type.
fn logical(compact: &mut Compact<'_>, element: &mut Element) -> Result<(), Bad> {
    compact.fields(|compact, id, kind| {
        element.logical = Some(id);
        if id != 8 || kind != STRUCT {
            return Ok(false);
        }
        // `TimestampType.unit`, a union too.
        compact.fields(|compact, id, kind| {
            if id != 2 || kind != STRUCT {
                return Ok(false);
            }
            compact.fields(|_, unit, _| {
                element.unit = match unit {
                    1 => 1_000,
                    2 => 1_000_000,
                    _ => 1_000_000_000,
                };
                Ok(false)
            })?;
            Ok(true)
        })?;
        Ok(true)
    })
}

/// `RowGroup`
fn group(compact: &mut Compact<'_>, footer: &mut Footer) -> Result<(), Bad> {
    compact.fields(|compact, id, kind| {
        if (id, kind) != (1, LIST) {
            return Ok(false);
        }
        let (_, length) = compact.list()?;
        for _ in 0..length {
            // `ColumnChunk.meta_data`
            compact.fields(|compact, id, kind| {
                if (id, kind) != (3, STRUCT) {
                    return Ok(false);
                }
                chunk(compact, footer)?;
                Ok(true)
            })?;
        }
        Ok(true)
    })
}

/// `ColumnMetaData`
fn chunk(compact: &mut Compact<'_>, footer: &mut Footer) -> Result<(), Bad> {
    let (mut path, mut depth, mut physical) = (String::new(), 0, 0);
    let mut bounds: [Option<&[u8]>; 4] = [None; 4];
    let (mut nulls, mut values) = (0, -1);
    compact.fields(|compact, id, kind| {
        match (id, kind) {
            (1, _) => physical = compact.int()?,
            (3, LIST) => {
                let (_, length) = compact.list()?;
                for _ in 0..length {
                    path = String::from_utf8_lossy(compact.binary()?).into_owned();
                    depth += 1;
                }
            }
            (5, _) => values = compact.int()?,
            (12, STRUCT) => compact.fields(|compact, id, kind| {
                let slot = match (id, kind) {
                    // `min_value`, `max_value`; those before them were ordered wrongly for text.
                    (6, BINARY) => 0,
                    (5, BINARY) => 1,
                    (2, BINARY) => 2,
                    (1, BINARY) => 3,
                    (3, _) => {
                        nulls = compact.int()?;
                        return Ok(true);
                    }
                    _ => return Ok(false),
                };
                let bytes = compact.binary()?;
                if let Some(bound) = bounds.get_mut(slot) {
                    *bound = Some(bytes);
                }
                Ok(true)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if depth != 1 || footer.statistics.len() > ELEMENTS {
        return Ok(());
    }
    let [least, greatest, old_least, old_greatest] = bounds;
    let element = footer
        .elements
        .iter()
        .skip(1)
        .take(COLUMNS)
        .find(|it| it.name == path);
    let is_text = element.is_some_and(|it| kind(it).contains("text"));
    let scale = element.filter(|it| it.converted == Some(5) || it.logical == Some(5));
    let scale = scale.map_or(0, |it| it.scale);
    let old = |bytes: Option<&'_ [u8]>| {
        if is_text {
            None
        } else {
            bytes.map(<[u8]>::to_vec)
        }
    };
    let least = least.map(<[u8]>::to_vec).or_else(|| old(old_least));
    let greatest = greatest.map(<[u8]>::to_vec).or_else(|| old(old_greatest));
    let decoded = |bytes: Option<Vec<u8>>| decode(&bytes?, physical, is_text, scale);
    let (least, greatest) = (decoded(least), decoded(greatest));
    let said = footer.statistics.entry(path).or_default();
    said.nulls = said.nulls.saturating_add(nulls.max(0));
    // A group of nothing but missing values has no bounds.
    said.silent |= nulls != values && (least.is_none() || greatest.is_none());
    if let Some(least) = least
        && said.least.as_ref().is_none_or(|it| least < *it)
    {
        said.least = Some(least);
    }
    if let Some(greatest) = greatest
        && said.greatest.as_ref().is_none_or(|it| greatest > *it)
    {
        said.greatest = Some(greatest);
    }
    Ok(())
}

/// A bound, as it is stored for its physical type.
#[expect(clippy::cast_precision_loss, reason = "told in six digits")]
fn decode(bytes: &[u8], physical: i64, is_text: bool, scale: i64) -> Option<Bound> {
    let scaled = |value: f64| {
        let places = i32::try_from(scale.clamp(0, 30)).unwrap_or_default();
        Bound::Number(value / 10_f64.powi(places))
    };
    Some(match physical {
        1 => scaled(f64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        2 => scaled(i64::from_le_bytes(bytes.try_into().ok()?) as f64),
        4 => Bound::Number(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        5 => Bound::Number(f64::from_le_bytes(bytes.try_into().ok()?)),
        // A decimal, the largest byte first.
        6 | 7 if scale > 0 && (1..=16).contains(&bytes.len()) => {
            let sign = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
                -1_i128
            } else {
                0
            };
            let value = bytes
                .iter()
                .fold(sign, |value, byte| value << 8 | i128::from(*byte));
            scaled(value as f64)
        }
        6 if is_text => Bound::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_have_dates() {
        for (days, expected) in [
            (0.0, "1970-01-01"),
            (-1.0, "1969-12-31"),
            (11_016.0, "2000-02-29"),
            (1e18, "?"),
        ] {
            assert_eq!(day(days), expected);
        }
    }
}
