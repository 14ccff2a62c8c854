//! A text by its kind, wherever it comes from: a file, an archive, a compressed file.

use super::kind::FileKind;
use super::names::shown_path;
use super::sketch::Part;
use super::target::Source;
use super::{input, json, notebook, size, table, text};

/// Describes a text of this kind.
pub(super) fn of_text(source: &Source<'_>, kind: FileKind, text: &input::Text) -> Vec<Part> {
    let target = &source.target;
    let as_table = |hint: u8| {
        table::describe(
            text,
            &table::File {
                path: target.inner,
                source: source.open.clone(),
                hint,
                packed: source.packed,
                language: target.language,
            },
        )
    };
    match kind {
        FileKind::Table(hint) => {
            let described = as_table(hint).unwrap_or_else(|| {
                Part::line(format!(
                    "File {}: {}, not a table with a header",
                    shown_path(target.inner),
                    size(source.bytes)
                ))
            });
            vec![described]
        }
        FileKind::Json => json::document(source, text),
        FileKind::JsonLines => vec![json::lines(source, text)],
        FileKind::Notebook => vec![notebook::describe(source, text)],
        _ => match text::looks_like_a_table(&text.head) {
            Some(hint) => {
                as_table(hint).map_or_else(|| text::describe(source, text), |it| vec![it])
            }
            None => text::describe(source, text),
        },
    }
}
