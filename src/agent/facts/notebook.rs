//! A notebook: its cells and its language.

use serde::Deserialize;

use super::input::{Extent, Text};
use super::names::{shown, shown_path};
use super::size;
use super::sketch::Part;
use super::target::Source;

/// What is read of a notebook (nbformat 4).
#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(default)]
    cell_type: CellType,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum CellType {
    Code,
    Markdown,
    #[default]
    #[serde(other)]
    Other,
}

#[derive(Deserialize, Default)]
struct Metadata {
    kernelspec: Option<Spec>,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    name: String,
}

/// Describes a notebook.
pub(super) fn describe(source: &Source<'_>, text: &Text) -> Part {
    let target = &source.target;
    let start = format!("File {}: {}", shown_path(target.inner), size(source.bytes));
    let read = serde_json::from_str::<Notebook>(text.head.trim_start_matches('\u{feff}'));
    let Ok(notebook) = read else {
        let why = match text.extent {
            Extent::Whole => "named like a notebook, but it is not one",
            Extent::First { .. } => "a notebook, too large to be looked into",
        };
        return Part::line(format!("{start}, {why}"));
    };
    let count = |kind: CellType| {
        let cells = notebook.cells.iter();
        cells.filter(|cell| cell.cell_type == kind).count()
    };
    let kernel: String = match notebook.metadata.kernelspec {
        Some(spec) if !spec.name.is_empty() => {
            let name: String = spec.name.chars().take(40).collect();
            format!(" for the kernel {}", shown(&name))
        }
        _ => String::new(),
    };
    let recipe = target.language.recipe(
        target.inner,
        |path| format!("import json; nb = json.load(open({path}, encoding='utf-8'))"),
        "nb <- jsonlite::fromJSON({}, simplifyVector=FALSE)",
    );
    Part::line(format!(
        "{start}, a notebook{kernel} with {} cells: {} code, {} Markdown. {recipe}",
        notebook.cells.len(),
        count(CellType::Code),
        count(CellType::Markdown),
    ))
}
