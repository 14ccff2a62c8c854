//! SPSS's data files (`.sav`, `.zsav`): columns with their long names, labels, and the labels of their values, read off the
//! dictionary (PSPP, "System File Format"). Data are packed and stay unread.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};

use super::input::Broken;
use super::names::{shown, shown_name, shown_path};
use super::sketch::Part;
use super::target::{Found, Target};
use super::{COLUMNS, size};

/// Columns that are counted.
const MOST: usize = 200_000;
/// Labels of values of a column that are named, and that are kept.
const NAMED: usize = 8;
const KEPT: usize = 100;
/// Bytes of a long text that one column holds.
const PIECE: usize = 252;
/// Bytes of an extension that are read.
const EXTENSION: u64 = 16 << 20;

#[derive(Default)]
struct Variable {
    /// Place in the dictionary, in which long text takes several.
    place: usize,
    /// Of at most 8 characters; others refer to it by that.
    short: String,
    name: String,
    label: String,
    is_text: bool,
    /// What a number is shown as: SPSS's code of the format.
    format: u8,
    values: Vec<(f64, String)>,
}

#[derive(Default)]
struct Dictionary {
    variables: Vec<Variable>,
    rows: Option<u32>,
    label: String,
}

/// Describes a file.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader {
        file: BufReader::new(file),
        big_endian: false,
    };
    let dictionary = read(&mut reader)?;
    let recipe = target.language.recipe(
        target.inner,
        |path| format!("df = pd.read_spss({path})  # needs pyreadstat"),
        "df <- haven::read_sav({})",
    );
    let rows = match dictionary.rows {
        Some(rows) => format!("{rows} rows"),
        None => "an unknown number of rows".to_owned(),
    };
    let title = match dictionary.label.as_str() {
        "" => String::new(),
        label => format!(", called {}", shown(label)),
    };
    let head = format!(
        "File {}: SPSS data{title}, {}, {rows}, {} columns. {recipe}",
        shown_path(target.inner),
        size(bytes),
        dictionary.variables.len(),
    );
    let lines = dictionary.variables.iter().take(COLUMNS).map(line);
    Ok(vec![Part {
        head,
        lines: lines.collect(),
        total: dictionary.variables.len(),
        noun: "columns",
        ..Part::default()
    }])
}

fn line(variable: &Variable) -> String {
    let mut line = format!("- {}", shown_name(&variable.name));
    if !variable.label.is_empty() {
        let _ = write!(line, " [{}]", shown(&variable.label));
    }
    let kind = match (variable.is_text, variable.format) {
        (true, _) => "text",
        (false, 20 | 23 | 24 | 28..=30 | 38 | 39) => "date",
        (false, 22 | 41) => "date and time",
        (false, 21 | 25 | 40) => "time",
        (false, _) => "number",
    };
    let _ = write!(line, ": {kind}");
    let mut labels = variable.values.iter().take(NAMED).peekable();
    if labels.peek().is_some() {
        let named: Vec<String> = labels
            .map(|(value, label)| format!("{value} = {}", shown(label)))
            .collect();
        let more = variable.values.len().saturating_sub(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = write!(line, ", labelled: {}{more}", named.join(", "));
    }
    line
}

fn read(reader: &mut Reader<'_>) -> Result<Dictionary, Broken> {
    reader.bytes(64)?;
    // The layout is 2 or 3, which tells the byte order.
    let layout = reader.bytes(4)?;
    reader.big_endian = layout.first() == Some(&0);
    reader.skip(12)?;
    let rows = u32::try_from(reader.int()?).ok();
    reader.skip(25)?;
    let label = text(&reader.bytes(64)?);
    reader.skip(3)?;
    let mut found = Dictionary {
        rows,
        label,
        ..Dictionary::default()
    };
    let (mut place, mut labels) = (0, Vec::new());
    loop {
        match reader.int()? {
            2 => {
                place += 1;
                let variable = variable(reader, place)?;
                found.variables.extend(variable);
            }
            3 => labels = value_labels(reader)?,
            4 => {
                let count = reader.count()?;
                for _ in 0..count {
                    let at = usize::try_from(reader.int()?).unwrap_or_default();
                    let mut all = found.variables.iter_mut();
                    if let Some(variable) = all.find(|it| it.place == at && !it.is_text) {
                        variable.values.clone_from(&labels);
                    }
                }
            }
            6 => {
                let lines = u64::from(reader.count()?);
                reader.skip(80 * lines)?;
            }
            7 => extension(reader, &mut found)?,
            999 => return Ok(found),
            _ => return Err("its dictionary is damaged".into()),
        }
        if place > MOST {
            return Err("it has too many columns".into());
        }
    }
}

/// A variable, or `None` for another piece of the text before it.
fn variable(reader: &mut Reader<'_>, place: usize) -> Result<Option<Variable>, Broken> {
    let width = reader.int()?;
    let has_label = reader.int()? == 1;
    let missing = reader.int()?;
    let format = reader.int()?;
    reader.skip(4)?;
    let name = text(&reader.bytes(8)?);
    let mut label = String::new();
    if has_label {
        let length = u64::from(reader.count()?);
        label = text(&reader.bytes(length)?);
        reader.skip(length.next_multiple_of(4) - length)?;
    }
    reader.skip(8 * u64::from(missing.unsigned_abs().min(3)))?;
    let [_, kind, ..] = format.to_be_bytes();
    Ok((width >= 0).then(|| Variable {
        place,
        short: name.to_ascii_uppercase(),
        name,
        label,
        is_text: width > 0,
        format: kind,
        values: Vec::new(),
    }))
}

fn value_labels(reader: &mut Reader<'_>) -> Result<Vec<(f64, String)>, Broken> {
    let count = reader.count()?;
    let mut labels = Vec::new();
    for _ in 0..count {
        let mut value: [u8; 8] = reader.bytes(8)?.try_into().unwrap_or_default();
        if reader.big_endian {
            value.reverse();
        }
        let length = reader.bytes(1)?.first().copied().unwrap_or_default();
        let padded = (u64::from(length) + 1).next_multiple_of(8) - 1;
        let bytes = reader.bytes(padded)?;
        if labels.len() < KEPT {
            let label = bytes.get(..usize::from(length)).unwrap_or_default();
            labels.push((f64::from_le_bytes(value), text(label)));
        }
    }
    Ok(labels)
}

/// Of the extensions the long names, and which text is so long that it has several columns.
fn extension(reader: &mut Reader<'_>, found: &mut Dictionary) -> Result<(), Broken> {
    let subtype = reader.int()?;
    let bytes = u64::from(reader.count()?) * u64::from(reader.count()?);
    if !matches!(subtype, 13 | 14) || bytes > EXTENSION {
        return reader.skip(bytes);
    }
    let text = text(&reader.bytes(bytes)?);
    let pairs: HashMap<String, &str> = text
        .split('\t')
        .filter_map(|pair| pair.trim_start_matches('\0').split_once('='))
        .map(|(short, value)| (short.to_ascii_uppercase(), value.trim_end_matches('\0')))
        .collect();
    let mut pieces = 0_usize;
    found.variables.retain_mut(|variable| {
        // The pieces of a long text follow its first one.
        if pieces > 0 {
            pieces -= 1;
            return false;
        }
        let value = pairs.get(&variable.short);
        if let Some(value) = value.filter(|_| subtype == 13) {
            (*value).clone_into(&mut variable.name);
        }
        if let Some(length) = value.filter(|_| subtype == 14) {
            let length: usize = length.parse().unwrap_or(0);
            pieces = length.div_ceil(PIECE).saturating_sub(1);
        }
        true
    });
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => encoding_rs::WINDOWS_1252.decode(bytes).0.into_owned(),
    };
    text.trim_end_matches([' ', '\0']).to_owned()
}

/// Fields of the file, in its byte order.
struct Reader<'a> {
    file: BufReader<&'a mut File>,
    big_endian: bool,
}

impl Reader<'_> {
    /// So many bytes; what is not there is not made room for.
    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::new();
        (&mut self.file).take(count).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < count {
            return Err("it ends too early".into());
        }
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Broken> {
        let bytes = i64::try_from(bytes).map_err(|_| Broken::from("its dictionary is damaged"))?;
        Ok(self.file.seek_relative(bytes)?)
    }

    fn int(&mut self) -> Result<i32, Broken> {
        let bytes: [u8; 4] = self.bytes(4)?.try_into().unwrap_or_default();
        Ok(if self.big_endian {
            i32::from_be_bytes(bytes)
        } else {
            i32::from_le_bytes(bytes)
        })
    }

    fn count(&mut self) -> Result<u32, Broken> {
        u32::try_from(self.int()?).map_err(|_| "its dictionary is damaged".into())
    }
}
