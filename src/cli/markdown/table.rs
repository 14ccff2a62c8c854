//! Tables are held until they are complete, because a column is as wide as its widest cell.
//!
//! A table with very many rows is printed with the widths that its first rows need.

use anstyle::{Effects, Style};
use unicode_width::UnicodeWidthStr;

use super::flow::Flow;
use super::inline::{Look, Rest, pieces};

/// How many rows are waited for.
const ROWS: usize = 200;
/// Columns between two table columns.
const GAP: usize = 2;
/// Minimum width of a column.
const NARROW: usize = 6;

/// The rows of a table so far.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// The source lines, in case this is no table.
    lines: Vec<String>,
    sides: Option<Vec<Side>>,
    /// The column widths, once they are fixed.
    widths: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Middle,
    Right,
}

impl Table {
    /// Takes a row.
    pub(super) fn push(&mut self, line: &str, width: usize, colours: bool, out: &mut String) {
        let cells = cells(line);
        if self.rows.len() == 1 && self.sides.is_none() {
            self.sides = sides(&cells);
            if self.sides.is_some() {
                return;
            }
        }
        self.lines.push(line.to_owned());
        self.rows.push(cells);
        if self.sides.is_none() && self.rows.len() > 1 || self.rows.len() >= ROWS {
            self.print(width, colours, out);
        }
    }

    /// Whether it is a table, not only a line with bars.
    pub(super) fn is_one(&self) -> bool {
        self.sides.is_some()
    }

    /// Prints the rows so far.
    pub(super) fn print(&mut self, width: usize, colours: bool, out: &mut String) {
        let lines = std::mem::take(&mut self.lines);
        let rows = std::mem::take(&mut self.rows);
        let Some(sides) = &self.sides else {
            for line in lines {
                let look = look(colours, Style::new());
                let mut flow = Flow::begin(width, colours, ("", 0), (String::new(), 0), out);
                pieces(&line, None, Rest::None, look, &mut |style, text| {
                    flow.push(style, text, out);
                });
                flow.end(out);
            }
            return;
        };
        let is_first = self.widths.is_empty();
        if is_first {
            self.widths = widths(&rows, sides.len(), width);
        }
        for (at, row) in rows.iter().enumerate() {
            let is_head = is_first && at == 0;
            let style = if is_head {
                Style::new().effects(Effects::BOLD)
            } else {
                Style::new()
            };
            print_row(row, sides, &self.widths, look(colours, style), out);
            if is_head {
                let lines: Vec<String> =
                    self.widths.iter().map(|&width| "─".repeat(width)).collect();
                out.push_str(&lines.join(&" ".repeat(GAP)));
                out.push('\n');
            }
        }
    }
}

fn look(colours: bool, style: Style) -> Look {
    Look { colours, style }
}

/// The cells of a row; `\|` and a bar within code do not end a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let (mut escaped, mut in_code) = (false, false);
    for c in line.chars() {
        match c {
            '|' if escaped || in_code => {
                let cell = cells.last_mut();
                if let Some(cell) = cell {
                    if escaped {
                        cell.pop();
                    }
                    cell.push('|');
                }
            }
            '|' => cells.push(String::new()),
            c => {
                if c == '`' {
                    in_code = !in_code;
                }
                if let Some(cell) = cells.last_mut() {
                    cell.push(c);
                }
            }
        }
        escaped = c == '\\' && !escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|last| last.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The alignments in the row below the header, if it is such a row.
fn sides(cells: &[String]) -> Option<Vec<Side>> {
    let side = |cell: &String| {
        let dashes = cell.trim_start_matches(':').trim_end_matches(':');
        let is_one = !dashes.is_empty() && dashes.chars().all(|c| c == '-');
        is_one.then(|| match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => Side::Middle,
            (false, true) => Side::Right,
            (_, false) => Side::Left,
        })
    };
    cells.iter().map(side).collect()
}

fn shown(cell: &str, look: Look) -> Vec<(Style, String)> {
    let mut shown = Vec::new();
    pieces(cell, None, Rest::None, look, &mut |style, text| {
        shown.push((style, text.to_owned()));
    });
    shown
}

/// Gives each column the width it needs, or narrows the widest ones until all fit.
fn widths(rows: &[Vec<String>], columns: usize, width: usize) -> Vec<usize> {
    let mut widths = vec![1; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let cell = shown(cell, look(true, Style::new()));
            let text: String = cell.into_iter().map(|(_, text)| text).collect();
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            *width = (*width).max(widest.unwrap_or(0));
        }
    }
    let room = width.saturating_sub(GAP * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= NARROW {
            break;
        }
        *widest -= 1;
    }
    widths
}

fn print_row(row: &[String], sides: &[Side], widths: &[usize], look: Look, out: &mut String) {
    let mut columns: Vec<Vec<String>> = Vec::new();
    for (cell, &width) in row.iter().zip(widths) {
        let mut text = String::new();
        let mut flow = Flow::cell(width, look.colours);
        for (style, piece) in shown(cell, look) {
            flow.push(style, &piece, &mut text);
        }
        flow.end(&mut text);
        columns.push(text.lines().map(str::to_owned).collect());
    }
    let height = columns.iter().map(Vec::len).max().unwrap_or(0).max(1);
    for at in 0..height {
        let mut line = String::new();
        let all = sides.iter().zip(widths).enumerate();
        for (column, (side, &width)) in all {
            let text = columns.get(column).and_then(|lines| lines.get(at));
            let text = text.map(String::as_str).unwrap_or_default();
            let missing = width.saturating_sub(without_colours(text).width());
            let before = match side {
                Side::Left => 0,
                Side::Middle => missing / 2,
                Side::Right => missing,
            };
            if column > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            line.push_str(&" ".repeat(before));
            line.push_str(text);
            line.push_str(&" ".repeat(missing - before));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// The text without our own colours.
pub(super) fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => in_code = true,
            'm' if in_code => in_code = false,
            _ if in_code => {}
            c => plain.push(c),
        }
    }
    plain
}
