//! A notebook as Markdown: text, code in fences with outputs below, pictures as separate files.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::cells::{self, Fate, Part, part};
use crate::jupyter::mime::{self, MimeBundle};
use crate::jupyter::nbformat::{Cell, Notebook, Output};
use crate::session::summarize::plain;

/// Stores a picture (name, extension, bytes) and returns the link to it; `None` if it could not be stored.
pub type Files<'a> = dyn FnMut(&str, &str, &[u8]) -> Option<String> + 'a;

/// Renders Markdown. Without `files`, a picture becomes a word.
pub(super) fn markdown(notebook: &Notebook, files: Option<&mut Files<'_>>) -> String {
    let language = cells::language(notebook);
    let mut writer = Writer { files };
    let mut parts = Vec::new();
    for cell in &notebook.cells {
        let text = cell.source.trim_end();
        match part(cell) {
            Part::Text | Part::Answer => parts.push(writer.attached(cell)),
            Part::Question => parts.push(quoted(&writer.attached(cell))),
            Part::Note => parts.push(format!(
                "<details><summary>{}</summary>\n\n{}\n\n</details>",
                cells::note_title(cell),
                fenced("text", cells::note_text(cell))
            )),
            Part::CutOff => {
                parts.push("*A reply of the model that was cut off:*".to_owned());
                parts.push(writer.attached(cell));
            }
            Part::Raw if text.is_empty() => {}
            Part::Raw => parts.push(fenced("", text)),
            Part::Broken => {
                parts.push("*A call of the model that could not be read:*".to_owned());
                parts.push(fenced("", text));
            }
            Part::Code(_) if text.is_empty() && cell.outputs().is_empty() => {}
            Part::Code(fate) => {
                parts.extend(said_of(cell, fate).map(|said| format!("*{said}:*")));
                parts.push(fenced(cells::language_of(cell, &language), &cell.source));
                for output in cell.outputs() {
                    parts.extend(writer.output(output));
                }
            }
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    format!("{}\n", parts.join("\n\n"))
}

/// A remark on the code, shown above it.
fn said_of(cell: &Cell, fate: Fate) -> Option<String> {
    let reason =
        || cells::text(cell, "reason").map_or_else(String::new, |reason| format!(", {reason}"));
    match fate {
        Fate::Declined => Some(format!("Declined, not run{}", reason())),
        Fate::NotRun => Some(format!("Not run{}", reason())),
        Fate::Failed | Fate::Ran if cells::text(cell, "original_source").is_some() => {
            Some("Edited before it ran".to_owned())
        }
        Fate::Failed | Fate::Ran => None,
    }
}

struct Writer<'w, 'f> {
    files: Option<&'w mut Files<'f>>,
}

impl Writer<'_, '_> {
    fn output(&mut self, output: &Output) -> Option<String> {
        match output {
            Output::Stream { text, .. } => Some(fenced("text", &plain(text))),
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } if traceback.is_empty() => Some(fenced("text", &format!("{ename}: {evalue}"))),
            Output::Error { traceback, .. } => Some(fenced("text", &plain(&traceback.join("\n")))),
            Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                if let Some(picture) = self.picture(data, "plot") {
                    return Some(picture);
                }
                if let Some(text) = data.text_of(mime::TEXT_MARKDOWN) {
                    return Some(text.trim_end().to_owned());
                }
                if let Some(text) = data.text_of(mime::TEXT_LATEX) {
                    return Some(text.trim_end().to_owned());
                }
                data.text_of(mime::TEXT_PLAIN)
                    .map(|text| fenced("text", &plain(&text)))
                    .or_else(|| {
                        let types: Vec<&str> = data.iter().map(|(mime, _)| mime).collect();
                        Some(format!("*(an output of the type {})*", types.join(", ")))
                    })
            }
            Output::Other(_) => None,
        }
    }

    /// Stores a picture and returns the Markdown that shows it.
    fn picture(&mut self, data: &MimeBundle, name: &str) -> Option<String> {
        let (mime, bytes) = picture(data)?;
        let kept = self
            .files
            .as_mut()
            .and_then(|files| files(name, ending(mime), &bytes));
        Some(kept.map_or_else(
            || format!("*({name})*"),
            |link| format!("![{name}](<{link}>)"),
        ))
    }

    /// The cell's text, with its attachments stored as files.
    fn attached(&mut self, cell: &Cell) -> String {
        let mut text = cell.source.trim_end().to_owned();
        let none = Map::new();
        let mut links: HashMap<&String, String> = HashMap::new();
        for (name, bundle) in cell.attachments.as_ref().unwrap_or(&none) {
            let Value::Object(bundle) = bundle else {
                continue;
            };
            let kept = picture(&MimeBundle::from(bundle.clone()))
                .and_then(|(mime, bytes)| self.files.as_mut()?("attachment", ending(mime), &bytes));
            links.extend(kept.map(|link| (name, format!("<{link}>"))));
        }
        let mut names: Vec<_> = links.keys().copied().collect();
        names.sort_unstable_by_key(|name| std::cmp::Reverse(name.len()));
        for name in names {
            let target = links.get(name).map_or("", String::as_str);
            text = text.replace(&format!("(attachment:{name}"), &format!("({target}"));
        }
        text
    }
}

fn ending(mime: &str) -> &'static str {
    match mime {
        mime::IMAGE_JPEG => "jpg",
        mime::IMAGE_GIF => "gif",
        mime::IMAGE_WEBP => "webp",
        mime::IMAGE_SVG => "svg",
        _ => "png",
    }
}

/// A picture's type and bytes.
fn picture(data: &MimeBundle) -> Option<(&'static str, Vec<u8>)> {
    if let Some(mime) = data.raster() {
        return Some((mime, data.bytes(mime)?.ok()?));
    }
    let svg = data.text_of(mime::IMAGE_SVG)?;
    Some((mime::IMAGE_SVG, svg.into_owned().into_bytes()))
}

/// The person's text as a quote.
fn quoted(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| format!("> {line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
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
    use serde_json::json;

    use super::*;
    use crate::jupyter::nbformat::CellType;

    #[test]
    fn text_code_outputs_and_pictures() {
        let ours = |mut cell: Cell, ours: Value| {
            cell.metadata.insert("sponde".to_owned(), ours);
            cell
        };
        let mut ran = Cell::code("b", "print('hi')\n");
        ran.kind = CellType::Code {
            execution_count: Some(1),
            outputs: vec![
                Output::stream("stdout", "hi ```` \u{1b}[31mthere\u{1b}[0m\n"),
                Output::display(MimeBundle::png(b"png"), Map::new()),
                Output::error("E", "v", vec![]),
            ],
        };
        let mut attached = Cell::markdown("t", "# Title\n\n![a](attachment:a.png)");
        attached.attachments = json!({"a.png": {"image/png": "cG5n"}}).as_object().cloned();
        let mut notebook = Notebook::new();
        notebook.cells = vec![
            attached,
            ours(Cell::markdown("q", "why?\n\nnow"), json!({"role": "user"})),
            ran,
            ours(
                Cell::code("c", "rm()"),
                json!({"role": "assistant", "status": "declined", "reason": "no"}),
            ),
            ours(
                Cell::code("d", "ls()"),
                json!({"role": "assistant", "status": "ok", "original_source": "rm()", "language": "bash"}),
            ),
        ];
        let mut kept = Vec::new();
        let mut files = |name: &str, ending: &str, bytes: &[u8]| {
            kept.push(bytes.to_vec());
            Some(format!("x_files/{name}-{}.{ending}", kept.len()))
        };
        assert_eq!(
            markdown(&notebook, Some(&mut files)),
            "# Title\n\n![a](<x_files/attachment-1.png>)\n\n> why?\n>\n> now\n\n```python\nprint('hi')\n```\n\n\
             `````text\nhi ```` there\n`````\n\n![plot](<x_files/plot-2.png>)\n\n```text\nE: v\n```\n\n\
             *Declined, not run, no:*\n\n```python\nrm()\n```\n\n*Edited before it ran:*\n\n```bash\nls()\n```\n"
        );
        assert_eq!(kept, [b"png", b"png"]);
        assert!(markdown(&notebook, None).contains("\n\n*(plot)*\n\n"));
    }
}
