//! Workbooks of Excel 97 to 2003 ([MS-XLS], "BIFF8").

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};

use super::cfb::{self, long, short};
use super::{Cell, SHEETS, Sheet, is_date_format, is_date_number, workbook};
use crate::agent::facts::input::Broken;
use crate::agent::facts::target::{Found, Target};

/// Bytes of a file that are read.
const FILE: u64 = 32 << 20;
/// Texts that are kept, and characters of one.
const TEXTS: usize = 200_000;
const TEXT: usize = 200;

/// Records that are read.
const BOUNDSHEET: u16 = 0x85;
const SST: u16 = 0xfc;
const CONTINUE: u16 = 0x3c;
const EOF: u16 = 0x0a;

#[derive(Default)]
struct Book {
    /// Name, whether it is hidden, and where it begins.
    sheets: Vec<(String, bool, usize)>,
    texts: Vec<String>,
    formats: HashMap<u16, bool>,
    /// The number format of each style.
    styles: Vec<u16>,
    from_1904: bool,
}

/// Describes a workbook.
pub(in crate::agent::facts) fn describe(target: &Target<'_>, mut file: File, bytes: u64) -> Found {
    if bytes > FILE {
        return Err("it is too large to be looked into".into());
    }
    file.rewind()?;
    let mut data = Vec::new();
    file.take(FILE).read_to_end(&mut data)?;
    let stream = cfb::stream(&data, &["Workbook", "Book"])?;
    drop(data);
    let book = book(&stream)?;
    let (mut sheets, mut others) = (Vec::new(), Vec::new());
    for (name, hidden, start) in &book.sheets {
        if sheets.len() < SHEETS {
            let mut sheet = Sheet::new(name.clone(), *hidden);
            cells(&stream, *start, &book, &mut sheet);
            sheets.push(sheet);
        } else {
            others.push(name.clone());
        }
    }
    Ok(workbook(
        target,
        "an old Excel workbook",
        bytes,
        sheets,
        &others,
        "calamine",
    ))
}

/// Type and content of the records from `at` on.
fn records(stream: &[u8], mut at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let kind = short(stream, at)?;
        let length = usize::from(short(stream, at + 2)?);
        let body = stream.get(at + 4..at + 4 + length)?;
        at += 4 + length;
        Some((kind, body))
    })
}

fn book(stream: &[u8]) -> Result<Book, Broken> {
    let mut book = Book::default();
    let mut all = records(stream, 0).peekable();
    // `BOF`, and of which version.
    match all.next() {
        Some((0x0809, body)) if short(body, 0) == Some(0x0600) => {}
        _ => return Err("it is of a version before Excel 97".into()),
    }
    while let Some((kind, body)) = all.next() {
        match kind {
            EOF => break,
            0x2f => return Err("it is encrypted".into()),
            0x22 => book.from_1904 = short(body, 0) == Some(1),
            0x041e => {
                let id = short(body, 0).unwrap_or(0);
                let format = text(body.get(2..).unwrap_or_default(), 2).0;
                book.formats.insert(id, is_date_format(&format));
            }
            0xe0 if book.styles.len() < 70_000 => book.styles.push(short(body, 2).unwrap_or(0)),
            BOUNDSHEET if book.sheets.len() < 1_000 => {
                let start = long(body, 0)
                    .and_then(|it| usize::try_from(it).ok())
                    .unwrap_or(0);
                let hidden = body.get(4).is_some_and(|it| it & 3 != 0);
                // Only those with cells: others are charts and macros.
                if body.get(5) == Some(&0) {
                    book.sheets
                        .push((text(body.get(6..).unwrap_or_default(), 1).0, hidden, start));
                }
            }
            SST => {
                let mut parts = vec![body.get(8..).unwrap_or_default()];
                while let Some((_, more)) = all.next_if(|(kind, _)| *kind == CONTINUE) {
                    parts.push(more);
                }
                book.texts = texts(&parts);
            }
            _ => {}
        }
    }
    if book.sheets.is_empty() {
        return Err("it has no sheets".into());
    }
    Ok(book)
}

/// A text with its length before it, of so many bytes; and how many bytes that was.
fn text(bytes: &[u8], width: usize) -> (String, usize) {
    let length = match width {
        1 => bytes.first().copied().map_or(0, usize::from),
        _ => short(bytes, 0).map_or(0, usize::from),
    };
    let flags = bytes.get(width).copied().unwrap_or(0);
    let body = bytes.get(width + 1..).unwrap_or_default();
    let size = if flags & 1 == 1 { 2 * length } else { length };
    let body = body.get(..size.min(body.len())).unwrap_or_default();
    (characters(body, flags & 1 == 1), width + 1 + body.len())
}

/// Characters of two bytes, or of one.
fn characters(bytes: &[u8], wide: bool) -> String {
    if wide {
        let units: Vec<u16> = bytes
            .chunks_exact(2)
            .map(|it| u16::from_le_bytes([it[0], it[1]]))
            .collect();
        return String::from_utf16_lossy(&units);
    }
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The table of texts, which goes on over several records; each of them says anew how wide its characters are.
fn texts(parts: &[&[u8]]) -> Vec<String> {
    let mut reader = Parts { parts, at: 0 };
    let mut texts = Vec::new();
    while texts.len() < TEXTS {
        let Some(text) = reader.text() else { break };
        texts.push(text);
    }
    texts
}

struct Parts<'a> {
    parts: &'a [&'a [u8]],
    at: usize,
}

impl<'a> Parts<'a> {
    fn rest(&self) -> &'a [u8] {
        self.parts
            .first()
            .and_then(|it| it.get(self.at..))
            .unwrap_or_default()
    }

    fn next_part(&mut self) -> Option<()> {
        self.parts = self.parts.get(1..)?;
        self.at = 0;
        (!self.parts.is_empty()).then_some(())
    }

    fn take(&mut self, mut count: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while count > 0 {
            let rest = self.rest();
            if rest.is_empty() {
                self.next_part()?;
                continue;
            }
            let here = rest.get(..count.min(rest.len()))?;
            bytes.extend_from_slice(here);
            self.at += here.len();
            count -= here.len();
        }
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        let head = self.take(3)?;
        let mut left = usize::from(short(&head, 0)?);
        let flags = *head.get(2)?;
        let runs = if flags & 8 == 8 {
            usize::from(short(&self.take(2)?, 0)?)
        } else {
            0
        };
        let more = if flags & 4 == 4 {
            usize::try_from(long(&self.take(4)?, 0)?).ok()?
        } else {
            0
        };
        let mut wide = flags & 1 == 1;
        let mut text = String::new();
        while left > 0 {
            let rest = self.rest();
            if rest.is_empty() {
                self.next_part()?;
                wide = self.take(1)?.first()? & 1 == 1;
                continue;
            }
            let width = if wide { 2 } else { 1 };
            let count = left.min(rest.len() / width).max(1);
            let bytes = self.take(count * width)?;
            if text.len() < TEXT {
                text.extend(characters(&bytes, wide).chars().take(TEXT));
            }
            left -= count;
        }
        self.skip((4 * runs).checked_add(more)?)?;
        Some(text)
    }

    fn skip(&mut self, mut count: usize) -> Option<()> {
        while count > 0 {
            let here = self.rest().len().min(count);
            if here == 0 {
                self.next_part()?;
            }
            self.at += here;
            count -= here;
        }
        Some(())
    }
}

fn cells(stream: &[u8], start: usize, book: &Book, sheet: &mut Sheet) {
    let (mut row, mut all): (usize, Vec<(usize, Cell)>) = (0, Vec::new());
    let mut depth = 0;
    let mut waits: Option<(usize, usize)> = None;
    let mut ended = false;
    for (kind, body) in records(stream, start) {
        let place = (
            short(body, 0).map_or(0, usize::from),
            short(body, 2).map_or(0, usize::from),
        );
        let style = short(body, 4).unwrap_or(0);
        let mut found: Vec<(usize, Cell)> = Vec::new();
        let mut at = place.0;
        match kind {
            // A chart within a sheet has an end of its own.
            0x0809 => depth += 1,
            EOF => {
                depth -= 1;
                if depth <= 0 {
                    ended = true;
                    break;
                }
            }
            0x0203 => found.extend(double(body, 6).map(|it| (place.1, book.number(it, style)))),
            0x027e => {
                found.extend(long(body, 6).map(|it| (place.1, book.number(packed(it), style))));
            }
            0xbd => {
                let values = body
                    .get(4..body.len().saturating_sub(2))
                    .unwrap_or_default();
                for (more, value) in values.chunks_exact(6).enumerate() {
                    let number = packed(long(value, 2).unwrap_or(0));
                    found.push((
                        place.1 + more,
                        book.number(number, short(value, 0).unwrap_or(0)),
                    ));
                }
            }
            0xfd => {
                let text = long(body, 6).and_then(|it| book.texts.get(usize::try_from(it).ok()?));
                found.push((
                    place.1,
                    Cell::Text(text.cloned().unwrap_or_else(|| "…".to_owned())),
                ));
            }
            0x0204 => {
                let text = text(body.get(6..).unwrap_or_default(), 2).0;
                found.push((place.1, Cell::Text(text.chars().take(TEXT).collect())));
            }
            0x0205 => {
                let value = body.get(6).copied().unwrap_or(0);
                let is_error = body.get(7) == Some(&1);
                found.push((
                    place.1,
                    if is_error {
                        Cell::Error
                    } else {
                        Cell::Bool(value == 1)
                    },
                ));
            }
            0x06 => {
                sheet.formulas += 1;
                match (short(body, 12), body.get(6)) {
                    // The text follows.
                    (Some(0xffff), Some(0)) => waits = Some(place),
                    (Some(0xffff), Some(1)) => {
                        found.push((place.1, Cell::Bool(body.get(8) == Some(&1))));
                    }
                    (Some(0xffff), Some(2)) => found.push((place.1, Cell::Error)),
                    (Some(0xffff), _) => {}
                    _ => found.extend(double(body, 6).map(|it| (place.1, book.number(it, style)))),
                }
            }
            0x0207 => {
                if let Some((to, column)) = waits.take() {
                    at = to;
                    found.push((
                        column,
                        Cell::Text(text(body, 2).0.chars().take(TEXT).collect()),
                    ));
                }
            }
            _ => {}
        }
        for (column, cell) in found {
            if at != row {
                sheet.push(row, std::mem::take(&mut all));
                row = at;
            }
            if all.last().is_none_or(|(last, _)| *last < column) {
                all.push((column, cell));
            }
        }
        if sheet.is_full() {
            break;
        }
    }
    sheet.push(row, all);
    sheet.is_cut = !ended;
}

impl Book {
    fn number(&self, number: f64, style: u16) -> Cell {
        let format = self.styles.get(usize::from(style)).copied().unwrap_or(0);
        let known = self.formats.get(&format).copied();
        if known.unwrap_or_else(|| is_date_number(u32::from(format))) {
            Cell::date(number, self.from_1904)
        } else {
            Cell::Number(number)
        }
    }
}

fn double(bytes: &[u8], at: usize) -> Option<f64> {
    let number = f64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?);
    number.is_finite().then_some(number)
}

/// A number of 30 bits ([MS-XLS] 2.5.217, "RkNumber").
fn packed(bits: u32) -> f64 {
    let value = if bits & 2 == 2 {
        f64::from(bits.cast_signed() >> 2)
    } else {
        f64::from_bits(u64::from(bits & 0xffff_fffc) << 32)
    };
    if bits & 1 == 1 { value / 100.0 } else { value }
}
