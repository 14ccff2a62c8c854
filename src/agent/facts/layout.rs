//! How a table is laid out in its file: what parts its columns, where its header is, how it writes numbers.
//!
//! Judged by the first lines, by the rules of pandas' `read_csv`, which is told what it would not find by itself.

use super::column::{self, ColumnKind, Numerals};

/// Lines that are looked at, and their bytes: lines can be long.
const SAMPLE: usize = 1000;
const SAMPLE_BYTES: usize = 1 << 20;
/// What parts columns, most likely first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// What begins a line that is no data.
const COMMENTS: [char; 2] = ['#', '%'];

/// The layout of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) delimiter: u8,
    /// Lines before the header.
    pub(super) skipped: usize,
    /// The first line has data, and columns have no names.
    pub(super) no_header: bool,
    /// What begins a line that is a comment and not data.
    pub(super) comment: Option<char>,
    /// Blanks follow the delimiter.
    pub(super) blanks: bool,
    /// Lines have one value more than the header has names: they end in a delimiter, or begin with the row's name.
    pub(super) extra: Extra,
    pub(super) numerals: Numerals,
}

/// A value that has no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    None,
    First,
    Last,
}

impl Layout {
    /// That of `text`; of equally likely delimiters it is `hint`.
    pub(super) fn of(text: &str, hint: u8) -> Option<Self> {
        let mut left = SAMPLE_BYTES;
        let mut fits = |line: &&str| {
            let fits = line.len() <= left;
            left = left.saturating_sub(line.len());
            fits
        };
        let lines: Vec<&str> = (lines_of(text).take(SAMPLE))
            .take_while(|line| fits(line))
            .collect();
        let is_comment = |line: &str| line.trim_start().starts_with(COMMENTS);
        let data: Vec<&str> = (lines.iter().copied())
            .filter(|line| !line.trim().is_empty() && !is_comment(line))
            .collect();
        let sample = data.join("\n");
        let (delimiter, fields) = delimiter(&sample, hint);
        let width = |line: &str| split(line, delimiter).len();
        // The first line that is as wide as the data; a header can be wider, or narrower by one.
        let is_header = |at: usize| {
            let Some(line) = lines.get(at) else {
                return false;
            };
            let wide = width(line);
            let next = lines.get(at + 1).map_or(0, |next| width(next));
            !line.trim().is_empty()
                && !is_comment(line)
                && (wide >= fields || wide + 1 == fields && wide > 1 && next == fields)
        };
        // A name may have a line break in it.
        let start = (lines.iter()).position(|line| !line.trim().is_empty() && !is_comment(line))?;
        let whole = split(text_after(text, start), delimiter);
        let (mut header, mut names) = if whole.len() >= fields {
            (start, whole)
        } else {
            let header = (start..lines.len()).find(|&at| is_header(at))?;
            (header, split(lines.get(header)?, delimiter))
        };
        let has_values = |names: &[String]| {
            let kinds = names
                .iter()
                .map(|name| column::kind_of(name, Numerals::Point));
            kinds
                .filter(|kind| !matches!(kind, ColumnKind::Text | ColumnKind::Empty))
                .count()
        };
        let mut no_header = has_values(&names) == names.len();
        let later = text_after(text, header + 1);
        let comment = COMMENTS.into_iter().find(|mark| {
            let mut marked = lines_of(later)
                .filter(|line| line.contains(*mark))
                .peekable();
            // Where data has the mark too, nothing can be said of it.
            marked.peek().is_some() && marked.all(|line| line.trim_start().starts_with(*mark))
        });
        // The names may stand in the last comment.
        if has_values(&names) > 0
            && comment.is_none()
            && let Some(above) = header.checked_sub(1)
            && let Some(line) = lines.get(above).filter(|line| is_comment(line))
            && width(line) == names.len()
            && names.len() > 1
        {
            let commented = split(line, delimiter);
            if has_values(&commented) == 0 {
                (header, names, no_header) = (above, commented, false);
            }
        }
        let body = lines.get(header + 1..).unwrap_or_default();
        let rows = rows(body, delimiter, &is_comment);
        let blanks = names.len() > 1 && names.iter().skip(1).all(|name| name.starts_with(' '));
        Some(Self {
            delimiter,
            skipped: header,
            no_header,
            comment,
            blanks,
            extra: extra(&rows, names.len()),
            numerals: numerals(&rows, names.len(), delimiter),
        })
    }
}

/// Lines by any line break.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = rest.find(['\n', '\r']) else {
            return Some(std::mem::take(&mut rest));
        };
        let line = rest.get(..end).unwrap_or_default();
        let after = rest.get(end..).unwrap_or_default();
        rest = after
            .strip_prefix("\r\n")
            .unwrap_or_else(|| after.get(1..).unwrap_or_default());
        Some(line)
    })
}

/// The text without its first lines.
pub(super) fn text_after(text: &str, lines_before: usize) -> &str {
    let mut rest = lines_of(text);
    let mut end = 0;
    for _ in 0..lines_before {
        let Some(line) = rest.next() else { break };
        let after = text.get(end + line.len()..).unwrap_or_default();
        end += line.len() + if after.starts_with("\r\n") { 2 } else { 1 };
    }
    text.get(end..).unwrap_or_default()
}

/// A reader of tables, with the rules that all layouts share.
pub(super) fn reader(text: &str, delimiter: u8) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .from_reader(text.as_bytes())
}

fn split(line: &str, delimiter: u8) -> Vec<String> {
    let record = reader(line, delimiter).into_records().next();
    let record = record.and_then(Result::ok).unwrap_or_default();
    record.iter().map(str::to_owned).collect()
}

/// What parts most lines into equally many fields, and how many.
fn delimiter(sample: &str, hint: u8) -> (u8, usize) {
    let mut best = (0, 1, hint);
    for delimiter in [hint].into_iter().chain(DELIMITERS) {
        let mut widths: Vec<usize> = Vec::new();
        for record in reader(sample, delimiter).into_records().flatten() {
            let width = record.len();
            if widths.len() <= width {
                widths.resize(width + 1, 0);
            }
            if let Some(count) = widths.get_mut(width) {
                *count += 1;
            }
        }
        let all: usize = widths.iter().sum();
        let most = widths
            .iter()
            .enumerate()
            .skip(2)
            .max_by_key(|&(width, &count)| (count, width));
        let Some((width, count)) = most.filter(|(_, count)| **count > 0) else {
            continue;
        };
        // Per thousand; a few lines in it may be odd.
        let share = count * 1000 / all.max(1);
        if (share, width) > (best.0, best.1) {
            best = (share, width, delimiter);
        }
    }
    (best.2, best.1)
}

fn rows(
    body: &[&str],
    delimiter: u8,
    is_comment: &impl Fn(&str) -> bool,
) -> Vec<csv::StringRecord> {
    let body: Vec<&str> = (body.iter().copied())
        .filter(|line| !is_comment(line))
        .collect();
    reader(&body.join("\n"), delimiter)
        .into_records()
        .flatten()
        .collect()
}

fn extra(rows: &[csv::StringRecord], names: usize) -> Extra {
    let wider = || rows.iter().filter(|row| row.len() == names + 1);
    // `read_csv` judges by the first line too.
    if rows.first().is_none_or(|row| row.len() != names + 1) || wider().count() * 2 < rows.len() {
        Extra::None
    } else if wider().all(|row| row.get(names).is_some_and(|last| last.trim().is_empty())) {
        Extra::Last
    } else {
        Extra::First
    }
}

/// How most columns of numbers write them.
fn numerals(rows: &[csv::StringRecord], names: usize, delimiter: u8) -> Numerals {
    let is_written = |column: usize, numerals: Numerals| {
        let mut values = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(str::trim)
            .filter(|value| !column::is_missing(value))
            .peekable();
        values.peek().is_some() && values.all(|value| numerals.number(value).is_some())
    };
    let score = |numerals: Numerals| {
        let columns = 0..names + 1;
        columns
            .filter(|&column| is_written(column, numerals))
            .count()
    };
    // Of equals the first; where the comma parts columns it is no decimal mark without need.
    let order = if delimiter == b',' {
        [
            Numerals::Point,
            Numerals::CommaThousands,
            Numerals::Comma,
            Numerals::PointThousands,
        ]
    } else {
        [
            Numerals::Point,
            Numerals::Comma,
            Numerals::PointThousands,
            Numerals::CommaThousands,
        ]
    };
    let mut best = (score(Numerals::Point), Numerals::Point);
    for numerals in order {
        let score = score(numerals);
        if score > best.0 {
            best = (score, numerals);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        Layout::of(text, b',').unwrap()
    }

    const PLAIN: Layout = Layout {
        delimiter: b',',
        skipped: 0,
        no_header: false,
        comment: None,
        blanks: false,
        extra: Extra::None,
        numerals: Numerals::Point,
    };

    #[test]
    fn layouts_are_known_by_their_first_lines() {
        let semicolon = Layout {
            delimiter: b';',
            ..PLAIN
        };
        for (text, expected) in [
            ("a,b\n1,x\n2,y\n", PLAIN),
            ("a\n1\n2\n", PLAIN),
            ("a;b\n1;x\n2\n3;y;z\n", semicolon.clone()),
            ("id;text\r\n1;well, yes\r\n2;no, no\r\n", semicolon.clone()),
            (
                "name;v\nx;1,5\ny;-0,25\n",
                Layout {
                    numerals: Numerals::Comma,
                    ..semicolon.clone()
                },
            ),
            (
                "name;v\nx;1.234,5\ny;25\n",
                Layout {
                    numerals: Numerals::PointThousands,
                    ..semicolon.clone()
                },
            ),
            (
                "name,v\nx,\"1,234.5\"\ny,25\n",
                Layout {
                    numerals: Numerals::CommaThousands,
                    ..PLAIN
                },
            ),
            (
                "# made by a logger\n# on 2024-01-01, in Rome\na,b\n1,2\n# rebooted\n3,4\n",
                Layout {
                    skipped: 2,
                    comment: Some('#'),
                    ..PLAIN
                },
            ),
            // Colours are no comments.
            (
                "# x\na,b\n1,#ff0000\n",
                Layout {
                    skipped: 1,
                    ..PLAIN
                },
            ),
            (
                "Station: Oslo\nFrom 1 to 5 May, hourly\n\na,b,c\n1,2,3\n4,5,6\n7,8,9\n",
                Layout {
                    skipped: 3,
                    ..PLAIN
                },
            ),
            ("# t,v\n1,2\n3,4\n", PLAIN),
            (
                "1,2\n3,4\n",
                Layout {
                    no_header: true,
                    ..PLAIN
                },
            ),
            (
                "a,b\n1,2,\n3,4,\n",
                Layout {
                    extra: Extra::Last,
                    ..PLAIN
                },
            ),
            (
                "a,b\nx,1,2\ny,3,4\n",
                Layout {
                    extra: Extra::First,
                    ..PLAIN
                },
            ),
            (
                "a, b\n1, 2\n",
                Layout {
                    blanks: true,
                    ..PLAIN
                },
            ),
            ("a,b,c\n1,2\n3,4\n", PLAIN),
        ] {
            assert_eq!(layout(text), expected, "{text:?}");
        }
        assert_eq!(Layout::of("", b','), None);
        assert_eq!(text_after("a\r\nb\rc\nd", 3), "d");
    }
}
