//! Workbooks of Excel since 2007 (ECMA-376, part 1, "SpreadsheetML").

use std::collections::HashMap;

use super::xml::{Node, Xml};
use super::{Cell, PART, SHEETS, Sheet, is_date_format, is_date_number, workbook};
use crate::agent::facts::archive::{Archive, part};
use crate::agent::facts::input::Broken;
use crate::agent::facts::target::{Found, Target};

/// Texts that are kept, and characters of one.
const TEXTS: usize = 200_000;
const TEXT: usize = 200;
/// Sheets that are named.
const NAMES: usize = 1_000;

struct Book {
    sheets: Vec<(String, bool, String)>,
    from_1904: bool,
    texts: Vec<String>,
    /// Whether numbers of a style are dates.
    dates: Vec<bool>,
}

/// Describes a workbook.
pub(in crate::agent::facts) fn describe(
    target: &Target<'_>,
    archive: &mut Archive,
    bytes: u64,
) -> Found {
    let targets = relations(archive)?;
    let mut book = book(archive)?;
    book.texts = texts(archive).unwrap_or_default();
    book.dates = styles(archive).unwrap_or_default();
    let mut sheets = Vec::new();
    let mut others = Vec::new();
    for (name, hidden, id) in &book.sheets {
        let path = targets.get(id);
        match path.filter(|_| sheets.len() < SHEETS) {
            Some(path) => {
                let mut sheet = Sheet::new(name.clone(), *hidden);
                // What was read before an error counts.
                if read(archive, path, &book, &mut sheet).is_err() {
                    sheet.is_cut = true;
                }
                sheets.push(sheet);
            }
            None => others.push(name.clone()),
        }
    }
    Ok(workbook(
        target,
        "an Excel workbook",
        bytes,
        sheets,
        &others,
        "openpyxl",
    ))
}

fn book(archive: &mut Archive) -> Result<Book, Broken> {
    let mut xml = Xml::new(part(archive, "xl/workbook.xml", PART)?);
    let mut book = Book {
        sheets: Vec::new(),
        from_1904: false,
        texts: Vec::new(),
        dates: Vec::new(),
    };
    while let Some(node) = xml.next()? {
        let Node::Open(element) = node else { continue };
        match element.name.as_str() {
            "sheet" if book.sheets.len() < NAMES => {
                let hidden = element.get("state").is_some_and(|it| it != "visible");
                let name = element.get("name").unwrap_or_default();
                book.sheets
                    .push((name, hidden, element.get("id").unwrap_or_default()));
            }
            "workbookPr" => {
                book.from_1904 = element
                    .get("date1904")
                    .is_some_and(|it| it == "1" || it == "true");
            }
            _ => {}
        }
    }
    Ok(book)
}

/// The parts that the workbook names.
fn relations(archive: &mut Archive) -> Result<HashMap<String, String>, Broken> {
    let mut xml = Xml::new(part(archive, "xl/_rels/workbook.xml.rels", PART)?);
    let mut targets = HashMap::new();
    while let Some(node) = xml.next()? {
        if let Node::Open(element) = node
            && element.name == "Relationship"
            && targets.len() < NAMES * 2
            && let (Some(id), Some(path)) = (element.get("Id"), element.get("Target"))
            && element
                .get("Type")
                .is_some_and(|it| it.ends_with("/worksheet"))
        {
            let path = match path.strip_prefix('/') {
                Some(whole) => whole.to_owned(),
                None => format!("xl/{path}"),
            };
            targets.insert(id, path);
        }
    }
    Ok(targets)
}

fn texts(archive: &mut Archive) -> Result<Vec<String>, Broken> {
    let mut xml = Xml::new(part(archive, "xl/sharedStrings.xml", PART)?);
    let (mut texts, mut text) = (Vec::new(), String::new());
    let (mut within, mut phonetic) = (false, false);
    while let Ok(Some(node)) = xml.next() {
        match node {
            Node::Open(element) => match element.name.as_str() {
                "si" if element.is_empty => texts.push(String::new()),
                "si" => text.clear(),
                "t" => within = !element.is_empty,
                "rPh" => phonetic = !element.is_empty,
                _ => {}
            },
            Node::Text(more) if within && !phonetic => append(&mut text, &more),
            Node::Text(_) => {}
            Node::Close(name) => match name.as_str() {
                "t" => within = false,
                "rPh" => phonetic = false,
                "si" => texts.push(std::mem::take(&mut text)),
                _ => {}
            },
        }
        if texts.len() >= TEXTS {
            break;
        }
    }
    Ok(texts)
}

fn append(text: &mut String, more: &str) {
    let room = TEXT.saturating_sub(text.chars().count());
    text.extend(more.chars().take(room));
}

fn styles(archive: &mut Archive) -> Result<Vec<bool>, Broken> {
    let mut xml = Xml::new(part(archive, "xl/styles.xml", PART)?);
    let (mut formats, mut dates) = (HashMap::new(), Vec::new());
    let mut within = false;
    while let Ok(Some(node)) = xml.next() {
        match node {
            Node::Open(element) => match element.name.as_str() {
                "numFmt" if formats.len() < 10_000 => {
                    let id = element
                        .get("numFmtId")
                        .and_then(|it| it.parse::<u32>().ok());
                    let code = element.get("formatCode").unwrap_or_default();
                    formats.insert(id, is_date_format(&code));
                }
                "cellXfs" => within = true,
                "xf" if within && dates.len() < 100_000 => {
                    let id = element
                        .get("numFmtId")
                        .and_then(|it| it.parse::<u32>().ok());
                    let known = formats.get(&id).copied();
                    dates.push(known.unwrap_or_else(|| id.is_some_and(is_date_number)));
                }
                _ => {}
            },
            Node::Close(name) if name == "cellXfs" => break,
            Node::Close(_) | Node::Text(_) => {}
        }
    }
    Ok(dates)
}

/// A cell while it is read.
#[derive(Default)]
struct Open {
    column: usize,
    kind: String,
    style: usize,
    text: String,
    formula: bool,
    value: bool,
}

fn read(archive: &mut Archive, path: &str, book: &Book, sheet: &mut Sheet) -> Result<(), Broken> {
    let mut xml = Xml::new(part(archive, path, PART)?);
    let (mut row, mut next) = (0_usize, 0_usize);
    let mut cells: Vec<(usize, Cell)> = Vec::new();
    let mut cell: Option<Open> = None;
    let mut within = false;
    let mut ended = false;
    while let Some(node) = xml.next()? {
        match node {
            Node::Open(element) => match element.name.as_str() {
                "row" => {
                    let number = element.get("r").and_then(|it| it.parse::<usize>().ok());
                    row = number.and_then(|it| it.checked_sub(1)).unwrap_or(next);
                    next = row.saturating_add(1);
                    cells.clear();
                }
                "c" => {
                    let place = element.get("r").and_then(|it| column(&it));
                    let follows = cells.last().map_or(0, |(at, _)| at + 1);
                    cell = Some(Open {
                        column: place.unwrap_or(follows),
                        kind: element.get("t").unwrap_or_default(),
                        style: element.get("s").and_then(|it| it.parse().ok()).unwrap_or(0),
                        ..Open::default()
                    });
                }
                "f" => cell.iter_mut().for_each(|it| it.formula = true),
                "v" | "t" => within = !element.is_empty,
                _ => {}
            },
            Node::Text(more) => {
                if let Some(cell) = cell.as_mut().filter(|_| within) {
                    cell.value = true;
                    append(&mut cell.text, &more);
                }
            }
            Node::Close(name) => match name.as_str() {
                "v" | "t" => within = false,
                "c" => {
                    let Some(open) = cell.take() else { continue };
                    sheet.formulas += usize::from(open.formula);
                    let column = open.column;
                    if cells.last().is_none_or(|(last, _)| *last < column)
                        && let Some(value) = open.value(book)
                    {
                        cells.push((column, value));
                    }
                }
                "row" => {
                    sheet.push(row, std::mem::take(&mut cells));
                    // Rows that say nothing more are only counted, and that not without end.
                    if sheet.is_full() {
                        sheet.is_cut = true;
                        return Ok(());
                    }
                }
                "sheetData" => ended = true,
                _ => {}
            },
        }
        if ended {
            return Ok(());
        }
    }
    // Its part was longer than what is read of one.
    sheet.is_cut = true;
    Ok(())
}

impl Open {
    fn value(self, book: &Book) -> Option<Cell> {
        if !self.value {
            return self.formula.then_some(Cell::Uncomputed);
        }
        Some(match self.kind.as_str() {
            "s" => {
                let at: usize = self.text.trim().parse().ok()?;
                let text = book.texts.get(at).cloned();
                Cell::Text(text.unwrap_or_else(|| "…".to_owned()))
            }
            "str" | "inlineStr" => Cell::Text(self.text),
            "d" => Cell::Date(self.text),
            "b" => Cell::Bool(self.text.trim() == "1"),
            "e" => Cell::Error,
            _ => {
                let number: f64 = self.text.trim().parse().ok()?;
                match book.dates.get(self.style) {
                    Some(true) => Cell::date(number, book.from_1904),
                    _ => Cell::Number(number),
                }
            }
        })
    }
}

/// The column of a reference like `BC17`, from 0.
fn column(reference: &str) -> Option<usize> {
    let mut column = 0_usize;
    for byte in reference
        .bytes()
        .take_while(u8::is_ascii_alphabetic)
        .take(4)
    {
        column = column * 26 + usize::from(byte.to_ascii_uppercase() - b'A') + 1;
    }
    column.checked_sub(1)
}
