//! Workbooks of LibreOffice and others (OpenDocument 1.3, part 3, "Table").

use super::xml::{Element, Node, Xml};
use super::{Cell, PART, SHEETS, Sheet, workbook};
use crate::agent::facts::archive::{Archive, part};
use crate::agent::facts::input::Broken;
use crate::agent::facts::target::{Found, Target};

/// Characters of a text that are kept.
const TEXT: usize = 200;
/// Sheets that are named.
const NAMES: usize = 1_000;
/// Columns: a file may say that a cell is repeated a thousand million times.
const WIDTH: usize = 16_384;

/// Describes a workbook.
pub(in crate::agent::facts) fn describe(
    target: &Target<'_>,
    archive: &mut Archive,
    bytes: u64,
) -> Found {
    let mut xml = Xml::new(part(archive, "content.xml", 2 * PART)?);
    let (mut sheets, mut others) = (Vec::new(), Vec::new());
    let mut ended = Ok(());
    loop {
        let node = match xml.next() {
            Ok(Some(node)) => node,
            Ok(None) => break,
            Err(broken) => {
                ended = Err(broken);
                break;
            }
        };
        let Node::Open(element) = node else { continue };
        if element.name != "table" || element.is_empty {
            continue;
        }
        let name = element.get("name").unwrap_or_default();
        if sheets.len() >= SHEETS {
            if others.len() < NAMES {
                others.push(name);
            }
            continue;
        }
        let mut sheet = Sheet::new(name, false);
        if read(&mut xml, &mut sheet).is_err() {
            sheet.is_cut = true;
        }
        sheets.push(sheet);
    }
    if sheets.is_empty() {
        ended?;
        return Err("it has no sheets".into());
    }
    Ok(workbook(
        target,
        "an OpenDocument spreadsheet",
        bytes,
        sheets,
        &others,
        "calamine",
    ))
}

fn read<R: std::io::Read>(xml: &mut Xml<R>, sheet: &mut Sheet) -> Result<(), Broken> {
    let (mut row, mut rows) = (0_usize, 1_usize);
    let mut column = 0_usize;
    let mut cells: Vec<(usize, Cell)> = Vec::new();
    let mut open: Option<(Element, String)> = None;
    while let Some(node) = xml.next()? {
        match node {
            Node::Open(element) => match element.name.as_str() {
                "table-row" => {
                    rows = repeated(&element, "number-rows-repeated");
                    column = 0;
                    cells.clear();
                    if element.is_empty {
                        row = row.saturating_add(rows);
                    }
                }
                "table-cell" | "covered-table-cell" => {
                    sheet.formulas += usize::from(element.get("formula").is_some());
                    if element.is_empty {
                        put(&element, String::new(), &mut column, &mut cells);
                    } else {
                        open = Some((element, String::new()));
                    }
                }
                _ => {}
            },
            Node::Text(more) => {
                if let Some((_, text)) = &mut open {
                    let room = TEXT.saturating_sub(text.chars().count());
                    text.extend(more.chars().take(room));
                }
            }
            Node::Close(name) => match name.as_str() {
                "table-cell" | "covered-table-cell" => {
                    if let Some((element, text)) = open.take() {
                        put(&element, text, &mut column, &mut cells);
                    }
                }
                "table-row" => {
                    // Rows that are alike are rarely more than two, or empty.
                    let alike = if cells.is_empty() { 0 } else { rows.min(1_000) };
                    for more in 0..alike {
                        if !sheet.is_full() {
                            sheet.push(row.saturating_add(more), cells.clone());
                        }
                    }
                    sheet.is_cut |= sheet.is_full();
                    row = row.saturating_add(rows);
                    cells.clear();
                }
                "table" => return Ok(()),
                _ => {}
            },
        }
    }
    sheet.is_cut = true;
    Ok(())
}

fn repeated(element: &Element, name: &str) -> usize {
    element
        .get(name)
        .and_then(|it| it.parse().ok())
        .unwrap_or(1)
        .max(1)
}

fn put(element: &Element, text: String, column: &mut usize, cells: &mut Vec<(usize, Cell)>) {
    let times = repeated(element, "number-columns-repeated");
    let number = || element.get("value").and_then(|it| it.parse().ok());
    let cell = match element.get("value-type").as_deref() {
        Some("float" | "percentage" | "currency") => number().map(Cell::Number),
        Some("date") => element
            .get("date-value")
            .map(|it| Cell::Date(it.replace('T', " "))),
        Some("boolean") => element
            .get("boolean-value")
            .map(|it| Cell::Bool(it == "true")),
        Some(_) => Some(Cell::Text(text)),
        None => None,
    };
    if let Some(cell) = cell {
        let end = column.saturating_add(times).min(WIDTH);
        cells.extend((*column..end).map(|at| (at, cell.clone())));
    }
    *column = column.saturating_add(times);
}
