//! Workbooks: their sheets, where the header of each is, and its columns.
//!
//! Cells come as a stream from a reader for each format, in bounded parts, and nothing is kept of them but what the facts say.
//! That is why there are readers of our own: the crate `calamine` reads a sheet whole, and makes room for all that its corners
//! say it has, which in a hostile file is more than any machine has.

pub(super) mod cfb;
pub(super) mod ods;
pub(super) mod xls;
pub(super) mod xlsx;
mod xml;

use std::fmt::Write as _;

use super::column::{Column, ColumnKind, Numerals, Value};
use super::names::{python_path, python_string, r_string, shown, shown_path};
use super::sketch::Part;
use super::table::named;
use super::target::Target;
use super::{COLUMNS, parquet, size};

/// Sheets that are looked into.
pub(super) const SHEETS: usize = 8;
/// Bytes of a part of a workbook that are read, unpacked.
pub(super) const PART: u64 = 24 << 20;
/// Columns of a sheet that are kept.
const WIDTH: usize = 16_384;
/// Cells of all sheets that are looked at.
const CELLS: usize = 600_000;
/// Rows in which the header is looked for.
const HEAD: usize = 30;

/// What a cell holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Number(f64),
    Text(String),
    /// As `2020-01-31`, with a time behind it or without.
    Date(String),
    Bool(bool),
    Error,
    /// A formula of which the file has no value.
    Uncomputed,
}

/// A sheet while it is read.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) name: String,
    pub(super) hidden: bool,
    /// Rows of cells that hold something, with their numbers from 0, until the header is known.
    first: Vec<(usize, Vec<(usize, Cell)>)>,
    header: Option<Header>,
    columns: Vec<Column>,
    /// The last row that holds something.
    last: usize,
    /// Rows with values in columns.
    taken: usize,
    cells: usize,
    pub(super) formulas: usize,
    pub(super) uncomputed: usize,
    /// It was not read to its end.
    pub(super) is_cut: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Header {
    /// Its row; none if the first row holds values.
    row: usize,
    levels: usize,
    names: Vec<String>,
}

impl Sheet {
    pub(super) fn new(name: String, hidden: bool) -> Self {
        Self {
            name,
            hidden,
            ..Self::default()
        }
    }

    /// Whether more rows say anything.
    pub(super) fn is_full(&self) -> bool {
        self.cells > CELLS / SHEETS
    }

    /// The next row: cells with their columns from 0, both ascending.
    pub(super) fn push(&mut self, row: usize, mut cells: Vec<(usize, Cell)>) {
        cells.retain(|(column, cell)| {
            *column < WIDTH && !matches!(cell, Cell::Text(text) if text.is_empty())
        });
        self.uncomputed += cells
            .iter()
            .filter(|(_, cell)| *cell == Cell::Uncomputed)
            .count();
        if cells.is_empty() || row < self.last {
            return;
        }
        self.last = row;
        self.cells += cells.len();
        if self.header.is_none() {
            self.first.push((row, cells));
            if self.first.len() >= HEAD {
                self.find_header();
            }
        } else if !self.is_full() {
            self.take(row, &cells);
        }
    }

    /// Decides where the header is, and takes the rows below it.
    fn find_header(&mut self) {
        let first = std::mem::take(&mut self.first);
        let width = first
            .iter()
            .filter_map(|(_, cells)| cells.last())
            .map(|(at, _)| at + 1)
            .max();
        let header = Header::of(&first, width.unwrap_or(0));
        self.columns = header
            .names
            .iter()
            .map(|_| Column::new(Numerals::Point))
            .collect();
        let start = header.row + header.levels;
        self.header = Some(header);
        for (row, cells) in first.iter().filter(|(row, _)| *row >= start) {
            self.take(*row, cells);
        }
    }

    fn take(&mut self, _row: usize, cells: &[(usize, Cell)]) {
        self.taken += 1;
        let mut left = cells.iter().peekable();
        for (at, column) in self.columns.iter_mut().enumerate() {
            let cell = left.next_if(|(place, _)| *place == at);
            column.take_typed(match cell.map(|(_, cell)| cell) {
                None | Some(Cell::Uncomputed | Cell::Error) => Value::Missing,
                Some(Cell::Number(number)) if number.fract() == 0.0 => Value::Integer(*number),
                Some(Cell::Number(number)) => Value::Float(*number),
                Some(Cell::Text(text) | Cell::Date(text)) => Value::Text(text),
                Some(Cell::Bool(value)) => {
                    Value::Named("bool", if *value { "true" } else { "false" })
                }
            });
        }
    }

    /// Words about the sheet, below those about its workbook.
    fn part(mut self, target: &Target<'_>, many: bool, engine: &str) -> Part {
        if self.header.is_none() {
            self.find_header();
        }
        let shown_name = shown(&self.name);
        let hidden = if self.hidden { " (hidden)" } else { "" };
        let Some(header) = self.header.filter(|it| !it.names.is_empty()) else {
            return Part::line(format!("Sheet {shown_name}{hidden}: empty"));
        };
        let rows = (self.last + 1).saturating_sub(header.row + header.levels);
        let more = if self.is_cut { "more than " } else { "" };
        let mut head = format!(
            "Sheet {shown_name}{hidden}: {more}{rows} rows, {} columns",
            header.names.len()
        );
        let is_part = self.is_cut || self.taken < rows && self.cells > CELLS / SHEETS;
        if is_part {
            let _ = write!(head, ", here described by the first {}", self.taken);
        }
        if self.formulas > 0 {
            let _ = write!(head, "; {} cells are formulas", self.formulas);
        }
        if self.uncomputed > 0 {
            let _ = write!(
                head,
                ", {} of them without a stored value, which are read as missing until a spreadsheet program saves the file",
                self.uncomputed
            );
        }
        head.push_str(". ");
        if header.levels == 2 {
            head.push_str("The header has two rows, so a column's name is a pair. ");
        }
        let texts: Vec<String> = (header.names.iter().zip(&self.columns).take(COLUMNS))
            .filter(|(_, column)| column.kind() == ColumnKind::Text && column.needs_text())
            .map(|(name, _)| format!("{}: str", python_string(name)))
            .collect();
        let python = |path: &str| {
            let mut call = format!("df = pd.read_excel({path}");
            if many {
                let _ = write!(call, ", sheet_name={}", python_string(&self.name));
            }
            match (header.levels, header.row) {
                (0, _) => call.push_str(", header=None"),
                (1, 0) => {}
                (1, row) => drop(write!(call, ", header={row}")),
                (_, row) => drop(write!(call, ", header=[{row}, {}]", row + 1)),
            }
            if header.levels == 1 && !texts.is_empty() && texts.len() < 30 {
                let _ = write!(call, ", dtype={{{}}}", texts.join(", "));
            }
            if !engine.is_empty() {
                let _ = write!(call, ", engine='{engine}'");
            }
            call + ")"
        };
        let r = format!(
            "df <- readxl::read_excel({{}}, sheet={}, skip={})",
            r_string(&self.name),
            header.row
        );
        let r = if engine == "calamine" && target.path.extension().is_some_and(|it| it == "ods") {
            ""
        } else {
            &r
        };
        head.push_str(&target.language.recipe(target.inner, python, r));
        let load = python(&python_path(target.inner));
        let all = header.names.iter().map(String::as_str).zip(&self.columns);
        let among = if is_part { " (first rows)" } else { "" };
        let part = Part::table(head, all, header.names.len(), among);
        Part {
            load: Some(load),
            ..part
        }
    }
}

impl Header {
    /// In the first rows of a sheet: the first that fills most of the width.
    fn of(first: &[(usize, Vec<(usize, Cell)>)], width: usize) -> Self {
        let most = first
            .iter()
            .map(|(_, cells)| cells.len())
            .max()
            .unwrap_or(0);
        let is_text =
            |cells: &[(usize, Cell)]| cells.iter().all(|(_, cell)| matches!(cell, Cell::Text(_)));
        let Some(at) = first
            .iter()
            .position(|(_, cells)| cells.len() * 10 >= most * 6)
        else {
            return Self {
                row: 0,
                levels: 0,
                names: Vec::new(),
            };
        };
        let none = Vec::new();
        let cells_at = |at: usize| first.get(at).map_or(&none, |(_, cells)| cells);
        let row_at = |at: usize| first.get(at).map_or(0, |(row, _)| *row);
        let (row, cells) = (row_at(at), cells_at(at));
        let is_value = |cell: &Cell| !matches!(cell, Cell::Text(_));
        if cells.iter().all(|(_, cell)| is_value(cell)) && width > 0 && !cells.is_empty() {
            let names = (0..width).map(|at| at.to_string()).collect();
            return Self {
                row,
                levels: 0,
                names,
            };
        }
        // Above it, groups with gaps between them; or below it, the names of what it groups.
        let above = at.checked_sub(1).filter(|&above| {
            let cells = cells_at(above);
            let apart = cells
                .windows(2)
                .all(|pair| matches!(pair, [(a, _), (b, _)] if b - a > 1));
            cells.len() > 1 && apart && is_text(cells) && row_at(above) + 1 == row
        });
        let below = {
            let (next, later) = (cells_at(at + 1), cells_at(at + 2));
            let fills = next
                .iter()
                .any(|(column, _)| !cells.iter().any(|(it, _)| it == column));
            let differs = later.iter().any(|(_, cell)| is_value(cell));
            (fills && is_text(next) && differs && row_at(at + 1) == row + 1).then_some(at)
        };
        let Some(top) = above.or(below) else {
            let mut header = vec![String::new(); width];
            for (column, cell) in cells {
                if let Some(name) = header.get_mut(*column) {
                    *name = cell.in_words();
                }
            }
            return Self {
                row,
                levels: 1,
                names: named(header.iter().map(String::as_str)),
            };
        };
        let mut names = Vec::with_capacity(width);
        let mut group = String::new();
        for column in 0..width {
            let text = |at: usize| {
                let found = cells_at(at).iter().find(|(it, _)| *it == column);
                found.map(|(_, cell)| cell.in_words())
            };
            if let Some(name) = text(top) {
                group = name;
            }
            let name = text(top + 1).unwrap_or_else(|| format!("Unnamed: {column}_level_1"));
            names.push(format!(
                "({}, {})",
                python_string(&group),
                python_string(&name)
            ));
        }
        Self {
            row: row_at(top),
            levels: 2,
            names,
        }
    }
}

impl Cell {
    fn in_words(&self) -> String {
        match self {
            Self::Number(number) => super::column::number(*number),
            Self::Text(text) | Self::Date(text) => text.clone(),
            Self::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Self::Error | Self::Uncomputed => String::new(),
        }
    }

    /// A number that is shown as a date: days since the end of 1899, or since 1904.
    pub(super) fn date(number: f64, from_1904: bool) -> Self {
        let days = number.floor() + if from_1904 { 1_462.0 } else { 0.0 };
        // Days of 1900 are one off: Excel knows a 29th of February then.
        if !(0.0..2_958_466.0).contains(&days) {
            return Self::Number(number);
        }
        let days = if days < 60.0 && !from_1904 {
            days + 1.0
        } else {
            days
        };
        let mut text = parquet::day(days - 25_569.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "less than a day"
        )]
        let seconds = ((number - number.floor()) * 86_400.0).round() as u64;
        if seconds > 0 && seconds < 86_400 {
            let _ = write!(
                text,
                " {:02}:{:02}:{:02}",
                seconds / 3_600,
                seconds / 60 % 60,
                seconds % 60
            );
        }
        Self::Date(text)
    }
}

/// Whether a number format of a spreadsheet shows a date (ECMA-376, part 1, 18.8.30).
pub(super) fn is_date_format(format: &str) -> bool {
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => while rest.next().is_some_and(|c| c != '"') {},
            '[' => {
                let inner: String = rest.by_ref().take_while(|c| *c != ']').collect();
                if matches!(
                    inner.to_ascii_lowercase().as_str(),
                    "h" | "hh" | "m" | "mm" | "s" | "ss"
                ) {
                    return true;
                }
            }
            '\\' | '_' | '*' => drop(rest.next()),
            'y' | 'Y' | 'm' | 'M' | 'd' | 'D' | 'h' | 'H' | 's' | 'S' => return true,
            _ => {}
        }
    }
    false
}

/// Whether a number format that every spreadsheet program has shows a date.
pub(super) fn is_date_number(id: u32) -> bool {
    matches!(id, 14..=22 | 27..=36 | 45..=47 | 50..=58)
}

/// Words about a workbook.
pub(super) fn workbook(
    target: &Target<'_>,
    what: &str,
    bytes: u64,
    sheets: Vec<Sheet>,
    others: &[String],
    engine: &str,
) -> Vec<Part> {
    let count = sheets.len() + others.len();
    let noun = if count == 1 { "sheet" } else { "sheets" };
    let head = format!(
        "File {}: {}, {what} with {count} {noun}",
        shown_path(target.inner),
        size(bytes)
    );
    let mut parts = vec![Part::line(head)];
    parts.extend(
        sheets
            .into_iter()
            .map(|sheet| sheet.part(target, count > 1, engine)),
    );
    if !others.is_empty() {
        let names: Vec<String> = others.iter().take(60).map(|name| shown(name)).collect();
        let more = match others.len().saturating_sub(60) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(Part::line(format!(
            "Other sheets: {}{more}",
            names.join(", ")
        )));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dates_by_their_format() {
        for (format, expected) in [
            ("yyyy-mm-dd", true),
            ("[h]:mm", true),
            ("General", false),
            ("0.00", false),
            ("[Red]0.00", false),
            ("\"days\" 0", false),
            ("#,##0\\d", false),
        ] {
            assert_eq!(is_date_format(format), expected, "{format}");
        }
        assert_eq!(
            Cell::date(43_831.5, false),
            Cell::Date("2020-01-01 12:00:00".to_owned())
        );
        assert_eq!(Cell::date(1.0, false), Cell::Date("1900-01-01".to_owned()));
        assert_eq!(Cell::date(1e300, false), Cell::Number(1e300));
    }

    fn text(cells: &[&str]) -> Vec<(usize, Cell)> {
        let cells = cells
            .iter()
            .enumerate()
            .filter(|(_, text)| !text.is_empty());
        cells
            .map(|(at, text)| {
                let cell = text
                    .parse()
                    .map_or_else(|_| Cell::Text((*text).to_owned()), Cell::Number);
                (at, cell)
            })
            .collect()
    }

    #[test]
    fn a_header_is_where_most_columns_are_filled() {
        let header = |rows: &[&[&str]]| {
            let rows: Vec<_> = rows
                .iter()
                .enumerate()
                .map(|(at, row)| (at, text(row)))
                .collect();
            let width = rows
                .iter()
                .filter_map(|(_, cells)| cells.last())
                .map(|(at, _)| at + 1)
                .max();
            let header = Header::of(&rows, width.unwrap_or(0));
            (header.row, header.levels, header.names.join(" "))
        };
        assert_eq!(
            header(&[&["a", "b"], &["1", "2"]]),
            (0, 1, "a b".to_owned())
        );
        assert_eq!(
            header(&[
                &["Sales of 2020"],
                &["in euros"],
                &["city", "n", "m"],
                &["Rome", "1", "2"]
            ]),
            (2, 1, "city n m".to_owned())
        );
        assert_eq!(
            header(&[
                &["", "2020 a", "", "2021 b", ""],
                &["city", "x", "y", "x", "y"],
                &["Rome", "1", "2", "3", "4"]
            ]),
            (
                0,
                2,
                "('', 'city') ('2020 a', 'x') ('2020 a', 'y') ('2021 b', 'x') ('2021 b', 'y')"
                    .to_owned()
            )
        );
        assert_eq!(
            header(&[
                &["city", "A", "", "B", ""],
                &["", "x", "y", "x", "y"],
                &["Rome", "1", "2", "3", "4"]
            ]),
            (
                0,
                2,
                "('city', 'Unnamed: 0_level_1') ('A', 'x') ('A', 'y') ('B', 'x') ('B', 'y')"
                    .to_owned()
            )
        );
        assert_eq!(
            header(&[&["1", "2"], &["3", "4"]]),
            (0, 0, "0 1".to_owned())
        );
        assert_eq!(header(&[]), (0, 0, String::new()));
    }
}
