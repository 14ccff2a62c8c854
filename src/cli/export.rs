//! `sponde export`: a notebook as a script, as Markdown, or normalised.

use std::path::Path;

use super::args::{ExportArgs, ExportFormat};
use super::picture::PictureFiles;
use super::{print, run, session};
use crate::agent::write_atomically;
use crate::error::{Exit, Failure};
use crate::jupyter::nbformat::{Cell, CellType, Notebook, Output};
use crate::session::notebook::foreign;

/// Runs it.
pub(super) fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let shown = args.notebook.display().to_string();
    let bytes = std::fs::read(&args.notebook)
        .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
    let notebook = run::parse(&bytes, &shown)?;
    let text = match args.to {
        ExportFormat::Ipynb => notebook.to_json(),
        ExportFormat::Script => script(&notebook),
        ExportFormat::Md => markdown(&notebook, args.output.as_deref())?,
    };
    match &args.output {
        Some(path) => write_atomically(path, text.as_bytes()).map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("could not write `{}`: {error}", path.display()),
            )
        })?,
        None => print(&text)?,
    }
    Ok(Exit::Done)
}

/// Percent format: `# %%` before each cell, text and other languages as comments. What must not run does not.
fn script(notebook: &Notebook) -> String {
    let comment = comment_of(notebook);
    let mut cells = Vec::new();
    for cell in &notebook.cells {
        let lines = |prefix: &str| -> String {
            cell.source
                .lines()
                .map(|line| format!("{prefix} {line}").trim_end().to_owned() + "\n")
                .collect()
        };
        cells.push(match &cell.kind {
            CellType::Code { .. } if let Some(other) = foreign(cell) => {
                let language = other.language;
                format!("{comment} %% language=\"{language}\"\n{}", lines(comment))
            }
            CellType::Code { .. } if is_skipped(cell) => {
                format!("{comment} %% not run\n{}", lines(comment))
            }
            CellType::Code { .. } => format!("{comment} %%\n{}\n", cell.source.trim_end()),
            CellType::Markdown => format!("{comment} %% [markdown]\n{}", lines(comment)),
            CellType::Raw | CellType::Other { .. } => {
                format!("{comment} %% [raw]\n{}", lines(comment))
            }
        });
    }
    cells.join("\n")
}

fn is_skipped(cell: &Cell) -> bool {
    cell.metadata
        .get("tags")
        .and_then(|tags| tags.as_array())
        .is_some_and(|tags| tags.iter().any(|tag| tag == "skip-execution"))
}

fn language(notebook: &Notebook) -> String {
    ["language_info", "kernelspec"]
        .iter()
        .zip(["name", "language"])
        .find_map(|(object, key)| notebook.metadata.get(*object)?.get(key)?.as_str())
        .unwrap_or("python")
        .to_lowercase()
}

fn comment_of(notebook: &Notebook) -> &'static str {
    match language(notebook).as_str() {
        "javascript" | "typescript" | "java" | "rust" | "c++" | "c" | "go" | "scala" | "kotlin" => {
            "//"
        }
        _ => "#",
    }
}

/// Text, code and outputs; pictures go to files beside `output`, or stay a word where there is none.
fn markdown(notebook: &Notebook, output: Option<&Path>) -> Result<String, Failure> {
    let language = language(notebook);
    let mut pictures = output.map(|path| PictureFiles::new(session::pictures_dir(path)));
    let mut parts = Vec::new();
    for cell in &notebook.cells {
        match &cell.kind {
            CellType::Markdown => parts.push(cell.source.trim_end().to_owned()),
            CellType::Code { outputs, .. } => {
                let own = foreign(cell).map_or(&*language, |cell| cell.language);
                parts.push(fenced(own, &cell.source));
                for output_ in outputs {
                    parts.extend(output_markdown(output_, pictures.as_mut(), output)?);
                }
            }
            CellType::Raw | CellType::Other { .. } => parts.push(fenced("", &cell.source)),
        }
    }
    Ok(format!("{}\n", parts.join("\n\n")))
}

fn output_markdown(
    output: &Output,
    pictures: Option<&mut PictureFiles>,
    beside: Option<&Path>,
) -> Result<Option<String>, Failure> {
    Ok(match output {
        Output::Stream { text, .. } => Some(fenced("text", text)),
        Output::Error { traceback, .. } => Some(fenced(
            "text",
            &crate::session::summarize::plain(&traceback.join("\n")),
        )),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            if let Some(mime) = data.raster()
                && let Some(Ok(bytes)) = data.bytes(mime)
            {
                let Some(pictures) = pictures else {
                    return Ok(Some("*(plot)*".to_owned()));
                };
                let path = pictures.write(mime, &bytes).map_err(|error| {
                    Failure::new(Exit::Failed, format!("could not write a plot: {error}"))
                })?;
                let dir = beside.and_then(Path::parent).unwrap_or(Path::new(""));
                let relative = path
                    .strip_prefix(dir)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                return Ok(Some(format!("![plot](<{relative}>)")));
            }
            data.text_of("text/markdown")
                .map(std::borrow::Cow::into_owned)
                .or_else(|| Some(fenced("text", &data.text_of("text/plain")?)))
        }
        Output::Other(_) => None,
    })
}

/// A fence longer than any run of backticks within.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!(
        "{fence}{language}\n{}\n{fence}",
        text.trim_end_matches('\n')
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::mime::MimeBundle;
    use serde_json::{Map, json};

    fn notebook() -> Notebook {
        let mut notebook = Notebook::new();
        let mut code = Cell::code("b", "print('hi')\n");
        code.kind = CellType::Code {
            execution_count: Some(1),
            outputs: vec![
                Output::stream("stdout", "hi ```` there\n"),
                Output::display(MimeBundle::png(b"png"), Map::new()),
            ],
        };
        let mut declined = Cell::code("c", "rm()");
        declined
            .metadata
            .insert("tags".to_owned(), json!(["skip-execution"]));
        notebook.cells = vec![Cell::markdown("a", "# Title\n\ntext"), code, declined];
        notebook
    }

    #[test]
    fn a_script_runs_what_ran() {
        assert_eq!(
            script(&notebook()),
            "# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nprint('hi')\n\n# %% not run\n# rm()\n"
        );
    }

    #[test]
    fn markdown_has_outputs_and_pictures_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out.md");
        assert_eq!(
            markdown(&notebook(), Some(&output)).unwrap(),
            "# Title\n\ntext\n\n```python\nprint('hi')\n```\n\n`````text\nhi ```` there\n`````\n\n\
             ![plot](<out_files/plot-1.png>)\n\n```python\nrm()\n```\n"
        );
        assert_eq!(
            std::fs::read(dir.path().join("out_files/plot-1.png")).unwrap(),
            b"png"
        );
    }
}
