//! A table of values in a terminal: fitted to its width, numbers aligned right, and the names of omitted columns.

use std::fmt::Write as _;

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::human::shortened;

/// Maximum width of a table column.
const WIDEST: usize = 40;
/// Minimum width of a column before others are omitted.
const NARROWEST: usize = 8;
/// Terminal columns between two table columns.
const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct GridColumn {
    pub(in crate::cli) name: String,
    pub(in crate::cli) cells: Vec<String>,
    /// Whether its values are aligned right.
    pub(in crate::cli) is_number: bool,
}

impl GridColumn {
    /// From values that a kernel reported.
    pub(in crate::cli) fn of(name: &str, values: &[&Value]) -> Self {
        let is_number = values
            .iter()
            .all(|value| value.is_number() || value.is_null());
        let is_number = is_number && values.iter().any(|value| value.is_number());
        let decimals = is_number.then(|| decimals(values)).flatten();
        Self {
            name: one_line(name),
            cells: values.iter().map(|value| cell(value, decimals)).collect(),
            is_number,
        }
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.width());
        cells.chain([self.name.width()]).max().unwrap_or(0)
    }
}

/// The lines of a table in a terminal of this width. Shows the first columns, and the last if there is room for it;
/// the omitted ones are named below.
pub(in crate::cli) fn grid(columns: &[GridColumn], width: usize) -> String {
    let wanted: Vec<usize> = columns
        .iter()
        .map(|column| column.width().min(WIDEST))
        .collect();
    let shown = fitting(&wanted, width);
    let room: Vec<(&GridColumn, usize)> = columns
        .iter()
        .zip(narrowed(&wanted, shown, width))
        .take(shown)
        .collect();
    let mut text = String::new();
    let mut line = |cells: Vec<(&str, &GridColumn, usize)>| {
        let mut line = String::new();
        for (at, (cell, column, width)) in cells.into_iter().enumerate() {
            let cell = shortened(cell, width);
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            let gap = " ".repeat(if at == 0 { 0 } else { GAP });
            if column.is_number {
                let _ = write!(line, "{gap}{pad}{cell}");
            } else {
                let _ = write!(line, "{gap}{cell}{pad}");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(
        room.iter()
            .map(|(column, width)| (&*column.name, *column, *width))
            .collect(),
    );
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        let cell =
            |column: &&GridColumn| column.cells.get(row).map_or("", String::as_str).to_owned();
        let cells: Vec<String> = room.iter().map(|(column, _)| cell(column)).collect();
        line(
            cells
                .iter()
                .zip(&room)
                .map(|(cell, (column, width))| (&**cell, *column, *width))
                .collect(),
        );
    }
    let hidden: Vec<&str> = columns
        .iter()
        .skip(shown)
        .map(|column| &*column.name)
        .collect();
    if !hidden.is_empty() {
        let names = shortened(&hidden.join(", "), 4 * width);
        let _ = writeln!(text, "and {} more columns: {names}", hidden.len());
    }
    text
}

/// How many columns fit at minimum width.
fn fitting(wanted: &[usize], width: usize) -> usize {
    let mut used = 0;
    let fits = wanted.iter().enumerate().take_while(|(at, wanted)| {
        used += (**wanted).min(NARROWEST) + if *at == 0 { 0 } else { GAP };
        used <= width
    });
    fits.count().max(1)
}

/// The widths of the first `shown` columns: what they need, or with the widest cut until all fit.
fn narrowed(wanted: &[usize], shown: usize, width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = wanted.iter().take(shown).copied().collect();
    let gaps = GAP * shown.saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= NARROWEST {
            break;
        }
        *widest -= 1;
    }
    widths
}

/// The number of decimal places of a column: as many as its numbers need, at most 4. `None` for whole numbers, and for
/// numbers so large or small that they are written with an exponent.
fn decimals(values: &[&Value]) -> Option<usize> {
    let numbers: Vec<f64> = values
        .iter()
        .filter(|value| value.is_f64())
        .filter_map(|value| value.as_f64())
        .collect();
    let is_usual = |number: &f64| *number == 0.0 || (1e-4..1e15).contains(&number.abs());
    if numbers.is_empty() || !numbers.iter().all(is_usual) {
        return None;
    }
    let needs = |number: &f64| {
        (1..4)
            .find(|digits| format!("{number:.digits$}").parse() == Ok(*number))
            .unwrap_or(4)
    };
    numbers.iter().map(needs).max()
}

fn cell(value: &Value, decimals: Option<usize>) -> String {
    match (value, decimals) {
        (Value::Null, _) => "-".to_owned(),
        (Value::String(text), _) => one_line(text),
        (Value::Number(number), Some(digits)) => number
            .as_f64()
            .map_or_else(|| number.to_string(), |it| format!("{it:.digits$}")),
        (other, _) => one_line(&other.to_string()),
    }
}

/// Values from a file are put on one line, without terminal escapes.
fn one_line(text: &str) -> String {
    text.chars()
        .take(500)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn columns(all: &[(&str, Value)]) -> Vec<GridColumn> {
        let column = |(name, values): &(&str, Value)| {
            GridColumn::of(name, &values.as_array().unwrap().iter().collect::<Vec<_>>())
        };
        all.iter().map(column).collect()
    }

    #[test]
    fn numbers_are_aligned_and_hidden_columns_named() {
        let table = columns(&[
            ("city", json!(["Oslo", "Ålesund", "a\n\u{1b}[2Jb"])),
            ("rain", json!([1.5, 20.25, null])),
            ("n", json!([7, 123, 45])),
            ("note", json!(["a long text that has no room", "x", null])),
        ]);
        assert_eq!(
            grid(&table, 80),
            "city      rain    n  note\n\
             Oslo      1.50    7  a long text that has no room\n\
             Ålesund  20.25  123  x\n\
             a  [2Jb      -   45  -\n"
        );
        assert_eq!(
            grid(&table, 30),
            "city      rain    n  note\n\
             Oslo      1.50    7  a long t…\n\
             Ålesund  20.25  123  x\n\
             a  [2Jb      -   45  -\n"
                .replace("a long t…", &shortened("a long text that has no room", 9))
        );
        assert_eq!(
            grid(&table, 20),
            "city      rain    n\n\
             Oslo      1.50    7\n\
             Ålesund  20.25  123\n\
             a  [2Jb      -   45\n\
             and 1 more columns: note\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let many: Vec<(String, Value)> = (0..200)
            .map(|at| (format!("column_{at}"), json!([at, 1e-9])))
            .collect();
        let many: Vec<(&str, Value)> = many
            .iter()
            .map(|(name, values)| (&**name, values.clone()))
            .collect();
        for width in [10, 40, 80, 200] {
            let text = grid(&columns(&many), width);
            let table = text.lines().take(3);
            assert!(
                table.clone().all(|line| line.width() <= width),
                "{width}: {text}"
            );
            assert!(text.contains("more columns: column_"), "{text}");
        }
    }
}
