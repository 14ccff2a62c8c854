//! A text that is no table: its lines, its encoding, how it begins.

use std::fmt::Write as _;

use super::input::{Extent, Packing, Text};
use super::names::{shown, shown_path};
use super::size;
use super::sketch::Part;
use super::target::Source;

/// Lines that tell whether a text has columns.
const LINES: usize = 20;
/// Characters of the first line that are shown.
const FIRST: usize = 80;

/// What parts the columns of a text whose name does not say that it is a table.
pub(super) fn looks_like_a_table(text: &str) -> Option<u8> {
    let lines: Vec<&str> = (text.lines())
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .take(LINES)
        .collect();
    let marks = |line: &str, mark: u8| line.bytes().filter(|byte| *byte == mark).count();
    [(b'\t', 1), (b';', 1), (b'|', 1), (b',', 2)]
        .into_iter()
        .find(|&(mark, least)| {
            let first = lines.first().map_or(0, |line| marks(line, mark));
            first >= least && lines.len() > 2 && lines.iter().all(|line| marks(line, mark) == first)
        })
        .map(|(mark, _)| mark)
}

/// Describes a text.
pub(super) fn describe(source: &Source<'_>, text: &Text) -> Vec<Part> {
    let target = &source.target;
    let mut words = format!(
        "File {}: {} of text",
        shown_path(target.inner),
        size(source.bytes)
    );
    if source.packing == Packing::Gzip {
        words.push_str(" in gzip");
    }
    let more = match text.extent {
        Extent::Whole => "",
        Extent::First { rest: Some(_) } => "about ",
        Extent::First { rest: None } => "more than ",
    };
    let unfinished = u64::from(!text.head.is_empty() && !text.head.ends_with('\n'));
    let lines = match text.extent {
        Extent::Whole => text.lines + unfinished,
        Extent::First { .. } => text.lines,
    };
    let _ = write!(words, ", {more}{lines} lines");
    if !text.encoding.is_empty() {
        let _ = write!(words, ", encoding {}", text.encoding);
    }
    if let Some(first) = text.head.lines().find(|line| !line.trim().is_empty()) {
        let short: String = first.trim().chars().take(FIRST).collect();
        let cut = if short.len() < first.trim().len() {
            "…"
        } else {
            ""
        };
        let _ = write!(words, ", the first one: {}{cut}", shown(&short));
    }
    let encoding = match text.encoding {
        "" => "utf-8",
        encoding => encoding,
    };
    let errors = if text.is_wrong {
        ", errors='replace'"
    } else {
        ""
    };
    let recipe = target.language.recipe(
        target.inner,
        |path| match (&source.open, source.packing) {
            (Some(open), _) => format!("text = {open}.read().decode('{encoding}')"),
            (None, Packing::Gzip) => format!(
                "import gzip; text = gzip.open({path}, 'rt', encoding='{encoding}'{errors}).read()"
            ),
            (None, Packing::Plain) => {
                format!("text = open({path}, encoding='{encoding}'{errors}).read()")
            }
        },
        "lines <- readLines({})",
    );
    if !recipe.is_empty() {
        let _ = write!(words, ". {recipe}");
    }
    vec![Part::line(words)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_the_name_of_one_are_known() {
        for (text, expected) in [
            ("a\tb\n1\t2\n3\t4\n", Some(b'\t')),
            ("a,b,c\n1,2,3\n4,5,6\n", Some(b',')),
            ("Well, yes.\nNo, no.\nOh, well.\n", None),
            ("a\tb\n", None),
            ("", None),
        ] {
            assert_eq!(looks_like_a_table(text), expected, "{text:?}");
        }
    }
}
