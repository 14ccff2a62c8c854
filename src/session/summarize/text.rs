//! Output text for a model: head and tail of long text, and the part that a model asks to read.
//!
//! Lines are counted the same way in memory and in files, so that the line numbers named as hidden are those that
//! [`read`] accepts: a line ends at `
//! `, and one longer than [`LINE`] counts as several.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};
use std::ops::Range;

use crate::session::outputs::floor_boundary;

/// Bytes after which a line is split.
const LINE: usize = 2_000;
/// Lines read by default.
const LINES: usize = 200;
/// Maximum bytes of a file scanned for one read.
const FAR: u64 = 1 << 30;

/// Text without ANSI sequences and other control characters.
pub fn plain(text: &str) -> String {
    crate::ansi::strip(text)
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

/// All output of a cell as text. Some lines are folded: shown only on request.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    text: String,
    /// In the order of the text.
    folds: Vec<Fold>,
}

/// Folded lines of one text.
#[derive(Debug)]
struct Fold {
    /// Byte ranges, each a whole line, in order.
    lines: Vec<Range<usize>>,
    /// What the lines are, for the note.
    what: &'static str,
}

impl Sheet {
    /// Appends text, starting on a new line.
    pub(super) fn push(&mut self, more: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(more);
    }

    /// Appends text with some of its lines folded: their indices in order, and what they are.
    pub(super) fn push_folded(&mut self, more: &str, folded: &[usize], what: &'static str) {
        self.push("");
        let mut at = self.text.len();
        self.text.push_str(more);
        let mut lines = Vec::with_capacity(folded.len());
        let mut folded = folded.iter().peekable();
        for (index, line) in more.split_inclusive('\n').enumerate() {
            if folded.next_if_eq(&&index).is_some() {
                lines.push(at..at + line.len());
            }
            at += line.len();
        }
        if !lines.is_empty() {
            self.folds.push(Fold { lines, what });
        }
    }

    /// The whole text, folded lines included.
    pub(super) fn whole(&self) -> &str {
        self.text.trim_end()
    }

    /// The text within `limit` bytes. `reader` is the cell's id for the note on how to read the rest; without it the
    /// note only suggests printing less.
    pub(super) fn shown(&self, limit: usize, reader: Option<&str>) -> String {
        let Some(cell) = reader else {
            return head_and_tail(&self.visible(), limit);
        };
        let mut lines = Vec::new();
        let mut at = 0;
        for piece in pieces(self.whole()) {
            lines.push((piece, self.fold_at(at)));
            at += piece.len();
        }
        let total: usize = lines
            .iter()
            .filter(|(_, fold)| fold.is_none())
            .map(|(piece, _)| piece.len())
            .sum();
        let (head, tail) = if total <= limit {
            (lines.len(), lines.len())
        } else {
            ends(&lines, limit)
        };
        let mut text = String::new();
        let hidden = |text: &mut String, place: String, what: &str, bytes: usize, start: usize| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            let _ = writeln!(
                text,
                "[{place} of {} are hidden here{what}, {bytes} bytes: read_output with cell \"{cell}\" and start {start} shows them]",
                lines.len(),
            );
        };
        let mut told = None;
        for (index, &(piece, fold)) in lines.iter().enumerate() {
            if (head..tail).contains(&index) {
                if index == head {
                    let bytes = lines[head..tail].iter().map(|(piece, _)| piece.len()).sum();
                    hidden(
                        &mut text,
                        format!("lines {} to {tail}", head + 1),
                        "",
                        bytes,
                        head + 1,
                    );
                }
            } else if let Some(fold) = fold {
                // A fold is announced once.
                if told.replace(fold) != Some(fold)
                    && let Some(Fold { lines, what }) = self.folds.get(fold)
                {
                    let bytes = lines.iter().map(Range::len).sum();
                    hidden(
                        &mut text,
                        format!("{} lines", lines.len()),
                        &format!(", {what}"),
                        bytes,
                        index + 1,
                    );
                }
            } else {
                text.push_str(piece);
            }
        }
        text.trim_end().to_owned()
    }

    /// The fold that contains the line starting at this byte.
    fn fold_at(&self, at: usize) -> Option<usize> {
        self.folds
            .iter()
            .position(|fold| fold.lines.iter().any(|line| line.contains(&at)))
    }

    /// The text without folded lines, which are only mentioned.
    fn visible(&self) -> String {
        let mut text = String::new();
        let mut at = 0;
        for Fold { lines, what } in &self.folds {
            for (index, line) in lines.iter().enumerate() {
                text.push_str(self.text.get(at..line.start).unwrap_or_default());
                if index == 0 {
                    let _ = writeln!(text, "[{} lines hidden: {what}]", lines.len());
                }
                at = line.end;
            }
        }
        text.push_str(self.text.get(at..).unwrap_or_default());
        text.trim_end().to_owned()
    }
}

/// Where the head ends and the tail starts if `limit` bytes of visible lines are shown.
fn ends(lines: &[(&str, Option<usize>)], limit: usize) -> (usize, usize) {
    let fits = |room: &mut usize, (piece, fold): &(&str, Option<usize>)| {
        if fold.is_some() {
            return true;
        }
        let fits = piece.len() <= *room;
        *room = room.saturating_sub(piece.len());
        fits
    };
    let mut room = limit / 2;
    let head = lines
        .iter()
        .take_while(|line| fits(&mut room, line))
        .count();
    let mut room = limit / 2;
    let tail = lines
        .iter()
        .rev()
        .take_while(|line| fits(&mut room, line))
        .count();
    (head, lines.len().saturating_sub(tail).max(head))
}

/// `text` if it fits, else its head and tail, cut at line breaks where possible.
pub fn head_and_tail(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let head_end = floor_boundary(text, half);
    let head = text.get(..head_end).unwrap_or_default();
    let head = head
        .rfind('\n')
        .filter(|&at| at > half / 2)
        .map_or(head, |at| &head[..at]);
    let tail_start = floor_boundary(text, text.len() - half);
    let tail = text.get(tail_start..).unwrap_or_default();
    let tail = tail
        .find('\n')
        .filter(|&at| at < half / 2)
        .map_or(tail, |at| &tail[at + 1..]);
    let hidden = text
        .get(head.len()..text.len() - tail.len())
        .unwrap_or_default();
    format!(
        "{head}\n[{} bytes, {} lines hidden here; print less, or a part, to see them]\n{tail}",
        hidden.len(),
        hidden.lines().count()
    )
}

/// The lines of a text with their line breaks; long ones are split.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let end = if end > LINE + 1 {
            floor_boundary(rest, LINE).max(1)
        } else {
            end
        };
        let (piece, later) = rest.split_at(end);
        rest = later;
        Some(piece)
    })
}

/// Which lines of a text to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The first line, from 1; negative counts from the end. Defaults to the beginning.
    pub start: Option<i64>,
    /// How many lines.
    pub lines: Option<usize>,
    /// Only lines that contain this, ignoring case.
    pub search: Option<String>,
}

/// Lines of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// With their numbers, from 1.
    pub lines: VecDeque<(usize, String)>,
    /// How many there are.
    pub total: usize,
    /// How many lines match the search.
    pub matches: Option<usize>,
}

/// Reads the wanted lines of `source`, at most about `limit` bytes, under a heading that says which lines these are and
/// where to continue.
///
/// # Errors
/// Errors of reading `source`.
pub fn read(source: impl BufRead, wanted: &Wanted, limit: usize) -> io::Result<String> {
    let Lines {
        lines,
        total,
        matches,
    } = lines(source, wanted, limit)?;
    Ok(told(&lines, total, matches))
}

/// Reads the wanted lines of `source`, at most about `limit` bytes.
///
/// # Errors
/// Errors of reading `source`.
pub fn lines(source: impl BufRead, wanted: &Wanted, limit: usize) -> io::Result<Lines> {
    let lines = wanted.lines.unwrap_or(LINES).max(1);
    let needle = wanted.search.as_deref().map(str::to_lowercase);
    let from_end = wanted.start.filter(|&start| start < 0);
    let start = usize::try_from(wanted.start.unwrap_or(1))
        .unwrap_or(1)
        .max(1);
    let mut kept = VecDeque::new();
    let (mut bytes, mut total, mut matches, mut full) = (0, 0, 0, false);
    let mut pieces = Pieces {
        source: source.take(FAR),
        carry: Vec::new(),
    };
    while let Some(line) = pieces.next()? {
        total += 1;
        let line = plain(&line);
        let line = line.trim_end_matches('\n');
        if let Some(needle) = &needle {
            if !line.to_lowercase().contains(needle) {
                continue;
            }
            matches += 1;
        }
        // When counting from the end, keep the last lines seen until the end is known.
        if let Some(back) = from_end {
            kept.push_back((total, line.to_owned()));
            let back = usize::try_from(back.unsigned_abs()).unwrap_or(usize::MAX);
            if kept.len() > back.min(100_000) {
                kept.pop_front();
            }
        } else if total >= start && kept.len() < lines && !full {
            full = bytes + line.len() > limit && !kept.is_empty();
            if !full {
                bytes += line.len() + 1;
                kept.push_back((total, line.to_owned()));
            }
        }
    }
    if from_end.is_some() {
        kept.truncate(lines);
        let mut room = limit;
        let fits = |(_, line): &&(usize, String)| {
            let fits = line.len() < room;
            room = room.saturating_sub(line.len() + 1);
            fits
        };
        let count = kept.iter().take_while(fits_once(fits)).count().max(1);
        kept.truncate(count);
    }
    Ok(Lines {
        lines: kept,
        total,
        matches: needle.is_some().then_some(matches),
    })
}

/// Adapts a closure that mutates its state for `take_while`.
fn fits_once<'a, T: 'a>(mut fits: impl FnMut(&&'a T) -> bool) -> impl FnMut(&&'a T) -> bool {
    move |item| fits(item)
}

/// The lines with a heading.
fn told(kept: &VecDeque<(usize, String)>, total: usize, matches: Option<usize>) -> String {
    let (Some((first, _)), Some((last, _))) = (kept.front(), kept.back()) else {
        return match matches {
            Some(0) => format!("[none of the {total} lines has that in it]"),
            Some(matches) => {
                format!("[{matches} of {total} lines have that in it, none of them there]")
            }
            None => format!("[there are only {total} lines]"),
        };
    };
    let mut text = match matches {
        Some(matches) if matches > kept.len() => format!(
            "[{} of {matches} lines with that in it, of {total}; the others have other numbers than {first} to {last}]\n",
            kept.len()
        ),
        Some(matches) => format!("[{matches} of {total} lines have that in it]\n"),
        None => format!("[lines {first} to {last} of {total}]\n"),
    };
    for (number, line) in kept {
        if matches.is_some() {
            let _ = write!(text, "{number}: ");
        }
        text.push_str(line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Reads lines from a source, split as [`pieces`] splits them.
struct Pieces<R> {
    source: io::Take<R>,
    /// The first bytes of a character that crosses the end of the last piece.
    carry: Vec<u8>,
}

impl<R: BufRead> Pieces<R> {
    fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = std::mem::take(&mut self.carry);
        // One byte more than a piece, for the line break of a line of exactly that length.
        let room = (LINE + 1).saturating_sub(line.len());
        (&mut self.source)
            .take(room as u64)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() > LINE && !line.ends_with(b"\n") {
            let mut end = LINE;
            while end > 0 && line.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            self.carry = line.split_off(end.max(1));
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: std::ops::RangeInclusive<usize>) -> String {
        let lines: Vec<String> = numbers.map(|n| format!("line {n}\n")).collect();
        lines.concat()
    }

    fn numbered(lines: usize) -> String {
        rows(1..=lines)
    }

    fn wanted(start: Option<i64>, lines: Option<usize>, search: Option<&str>) -> Wanted {
        Wanted {
            start,
            lines,
            search: search.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_hidden_has_a_number_that_can_be_read() {
        let mut sheet = Sheet::default();
        sheet.push(&numbered(1000));
        let shown = sheet.shown(200, Some("ab12"));
        let hidden = "[lines 14 to 989 of 1000 are hidden here, 8698 bytes: read_output with cell \"ab12\" and start 14 shows them]";
        assert_eq!(
            shown,
            format!("{}{hidden}\n{}", numbered(13), rows(990..=1000)).trim_end()
        );
        let read = read(
            sheet.whole().as_bytes(),
            &wanted(Some(13), Some(2), None),
            1000,
        )
        .unwrap();
        assert_eq!(read, "[lines 13 to 14 of 1000]\nline 13\nline 14");
        assert_eq!(
            sheet.shown(100_000, Some("ab12")),
            numbered(1000).trim_end()
        );
    }

    #[test]
    fn what_is_folded_is_shown_to_who_asks() {
        let mut sheet = Sheet::default();
        sheet.push("printed");
        sheet.push_folded(&numbered(5), &[0, 1, 3], "frames");
        assert_eq!(
            sheet.shown(1000, Some("c")),
            "printed\n[3 lines of 6 are hidden here, frames, 21 bytes: read_output with cell \"c\" and start 2 shows them]\nline 3\nline 5"
        );
        assert_eq!(
            sheet.shown(1000, None),
            "printed\n[3 lines hidden: frames]\nline 3\nline 5"
        );
        // Folded lines do not count as shown, and are counted as hidden only once.
        let shown = sheet.shown(16, Some("c"));
        assert_eq!(shown.matches("hidden").count(), 2, "{shown}");
        assert!(
            shown.starts_with("printed\n") && shown.ends_with("line 5"),
            "{shown}"
        );
    }

    #[test]
    fn long_text_keeps_head_and_tail() {
        let short = head_and_tail(numbered(1000).trim_end(), 200);
        assert!(
            short.starts_with("line 1\n") && short.ends_with("line 1000"),
            "{short}"
        );
        assert!(short.contains(" lines hidden here"), "{short}");
        assert!(short.len() < 300);
        assert_eq!(
            head_and_tail("é".repeat(300).as_str(), 101)
                .matches('é')
                .count(),
            50
        );
    }

    #[test]
    fn reading_by_number_from_the_end_and_by_words() {
        let text = numbered(1000);
        for (wanted_, limit, expected) in [
            (
                wanted(None, Some(2), None),
                1000,
                "[lines 1 to 2 of 1000]\nline 1\nline 2",
            ),
            (
                wanted(Some(-2), None, None),
                1000,
                "[lines 999 to 1000 of 1000]\nline 999\nline 1000",
            ),
            (
                wanted(Some(-5), Some(1), None),
                1000,
                "[lines 996 to 996 of 1000]\nline 996",
            ),
            (
                wanted(Some(5000), None, None),
                1000,
                "[there are only 1000 lines]",
            ),
            (
                wanted(None, None, None),
                20,
                "[lines 1 to 3 of 1000]\nline 1\nline 2\nline 3",
            ),
            (
                wanted(None, None, Some("LINE 77")),
                20,
                "[2 of 11 lines with that in it, of 1000; the others have other numbers than 77 to 770]\n77: line 77\n770: line 770",
            ),
            (
                wanted(Some(100), None, Some("99")),
                1000,
                "[19 of 1000 lines have that in it]",
            ),
            (
                wanted(None, None, Some("none")),
                1000,
                "[none of the 1000 lines has that in it]",
            ),
        ] {
            let read = read(text.as_bytes(), &wanted_, limit).unwrap();
            if wanted_.search.as_deref() == Some("99") {
                assert!(
                    read.contains("\n199: line 199\n") && !read.contains("\n99: "),
                    "{read}"
                );
            } else {
                assert_eq!(read, expected, "{wanted_:?}");
            }
        }
    }

    #[test]
    fn memory_and_files_count_lines_alike() {
        let text = format!(
            "a\n{}\n{}\n{}\n\nend",
            "é".repeat(3000),
            "x".repeat(LINE),
            "y".repeat(LINE + 1)
        );
        let in_memory: Vec<String> = pieces(&text).map(str::to_owned).collect();
        let mut source = Pieces {
            source: text.as_bytes().take(FAR),
            carry: Vec::new(),
        };
        let mut in_file = Vec::new();
        while let Some(piece) = source.next().unwrap() {
            in_file.push(piece);
        }
        assert_eq!(in_memory, in_file);
        assert_eq!(in_memory.concat(), text);
        assert_eq!(in_memory.len(), 1 + 3 + 1 + 2 + 1 + 1);
    }
}
