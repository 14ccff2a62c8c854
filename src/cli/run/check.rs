//! Shows the findings of a check to a person.

use std::fmt::Write as _;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::super::filter;
use super::super::picture::PictureFiles;
use super::super::style::{self, BAD, GOOD, NAME, paint};
use crate::app::run::{Check, Checked};
use crate::session::check::Difference;

/// How many lines of one difference are shown.
const LINES: usize = 40;
/// Time limit of a text diff; after it whole blocks are shown.
const DIFF_TIME: Duration = Duration::from_secs(2);

/// Describes each difference; pictures are written to files in `pictures`.
pub(super) fn report(
    check: &Check,
    shown: &str,
    checked: &Checked,
    pictures: &mut PictureFiles,
) -> String {
    let colours = style::stdout_colours();
    let mut text = String::new();
    for (index, differences) in &checked.differing {
        let count = check.count(*index);
        let count = count
            .map(|count| format!(" (In [{count}])"))
            .unwrap_or_default();
        let place = paint(
            NAME,
            &format!("{shown}, cell {}{count}", index + 1),
            colours,
        );
        for difference in differences {
            let _ = match difference {
                Difference::Text {
                    what,
                    stored,
                    fresh,
                } => writeln!(text, "{place}: {what}\n{}", lines(stored, fresh, colours)),
                Difference::New { what } => writeln!(text, "{place}: {what} is new"),
                Difference::Gone { what } => writeln!(text, "{place}: {what} is gone"),
                Difference::Picture {
                    what,
                    distance,
                    stored,
                    fresh,
                } => {
                    let mut file = |(mime, bytes): &(&str, Vec<u8>)| {
                        pictures
                            .write(mime.trim_start_matches("image/"), bytes)
                            .map_or_else(
                                |error| format!("(no file: {error})"),
                                |path| path.display().to_string(),
                            )
                    };
                    writeln!(
                        text,
                        "{place}: {what} differs by {:.2} (allowed: {:.2})\n  {}\n  {}",
                        distance,
                        check.picture_distance(),
                        paint(BAD, &format!("- {}", file(stored)), colours),
                        paint(GOOD, &format!("+ {}", file(fresh)), colours),
                    )
                }
            };
        }
    }
    text
}

/// The changed lines from `stored` to `fresh`, with one line of context.
fn lines(stored: &str, fresh: &str, colours: bool) -> String {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(stored, fresh);
    let mut shown = Vec::new();
    for group in diff.grouped_ops(1) {
        for op in group {
            for change in diff.iter_changes(&op) {
                let (sign, style) = match change.tag() {
                    ChangeTag::Delete => ("-", BAD),
                    ChangeTag::Insert => ("+", GOOD),
                    ChangeTag::Equal => (" ", style::DIM),
                };
                let line = filter::plain(change.value().trim_end_matches('\n'));
                shown.push(format!(
                    "  {}",
                    paint(style, &format!("{sign} {line}"), colours)
                ));
            }
        }
    }
    let hidden = shown.len().saturating_sub(LINES);
    shown.truncate(LINES);
    if hidden > 0 {
        shown.push(format!("  .. {hidden} more lines"));
    }
    shown.join("\n")
}
