//! A code cell as a tool call: its title, its code, and its outputs as content.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::uri;
use crate::ansi;
use crate::jupyter::mime::{IMAGE_SVG, MimeBundle, TEXT_MARKDOWN};
use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::session::limits::OutputFolderPath;
use crate::session::shown_text::shown_text;
use crate::session::visual::Visual;
use crate::session::{Cell, CodeCell, CodeStatus};

/// Maximum characters of a title.
const TITLE: usize = 80;
/// Maximum bytes of a cell's text: its beginning and its end.
const TEXT: usize = 32 << 10;
/// Maximum bytes of a picture, in base64.
const PICTURE: usize = 8 << 20;
/// Maximum bytes of all pictures of a cell; others are sent as links.
const PICTURES: usize = 24 << 20;

/// The current state of a code cell.
#[derive(Debug, Clone)]
pub(super) struct ShownCell {
    /// Its id.
    pub(super) id: String,
    language: String,
    source: String,
    code: Box<CodeCell>,
}

impl ShownCell {
    /// `cell`, if it is code; `main` is the language of the main kernel.
    pub(super) fn of(cell: &Cell, main: &str) -> Option<Self> {
        let code = cell.code()?;
        Some(Self {
            id: cell.id.clone(),
            language: code.language.clone().unwrap_or_else(|| main.to_owned()),
            source: cell.source.clone(),
            code: Box::new(code.clone()),
        })
    }

    /// Its status in the protocol's terms.
    pub(super) fn status(&self) -> &'static str {
        match &self.code.status {
            CodeStatus::Proposed => "pending",
            CodeStatus::Running => "in_progress",
            CodeStatus::Finished(Verdict::Ok) => "completed",
            CodeStatus::Finished(_) | CodeStatus::Declined(_) | CodeStatus::NotRun(_) => "failed",
        }
    }

    /// All its fields; `pictures` is the remaining budget for pictures, in bytes.
    pub(super) fn fields(&self, notebook: &Path, workspace: &Path, pictures: &mut usize) -> Value {
        json!({
            "toolCallId": self.id,
            "title": title(&self.language, &self.source),
            "kind": "execute",
            "status": self.status(),
            "rawInput": raw_input(&self.language, &self.source),
            "content": self.content(notebook, pictures),
            "locations": self.locations(workspace),
        })
    }

    /// Only its outputs and its code.
    pub(super) fn content(&self, notebook: &Path, pictures: &mut usize) -> Vec<Value> {
        let mut content = vec![code_block(&self.language, &self.source)];
        let mut text = Shown::default();
        // The files of outputs, in order.
        let mut files = self.code.pictures.iter();
        let mut left = PICTURES.min(*pictures);
        let all = left;
        for output in &self.code.outputs.to_notebook() {
            match output {
                Output::Stream { text: piece, .. } => text.add(&ansi::strip(piece)),
                Output::Error {
                    traceback,
                    ename,
                    evalue,
                    ..
                } => {
                    let lines = traceback.join("\n");
                    let lines = if lines.trim().is_empty() {
                        format!("{ename}: {evalue}")
                    } else {
                        ansi::strip(&lines)
                    };
                    text.add_line(&lines);
                }
                Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                    let is_visual = Visual::of(data).is_some();
                    let file = is_visual.then(|| files.next()).flatten();
                    let file = file.and_then(Option::as_ref);
                    show(data, file, notebook, &mut text, &mut content, &mut left);
                }
                Output::Other(_) => {}
            }
        }
        text.flush(&mut content);
        if let Some(words) = self.outcome() {
            content.push(block(&text_block(&words)));
        }
        *pictures -= all - left;
        content
    }

    /// What happened, unless the cell ended normally.
    fn outcome(&self) -> Option<String> {
        Some(match &self.code.status {
            CodeStatus::Declined(None) => "It was declined and did not run.".to_owned(),
            CodeStatus::Declined(Some(words)) => {
                format!("It was declined and did not run: {words}")
            }
            CodeStatus::NotRun(words) => format!("It did not run: {words}"),
            CodeStatus::Finished(Verdict::Interrupted) => "It was interrupted.".to_owned(),
            CodeStatus::Finished(Verdict::TimedOut) => {
                "It ran too long and was stopped.".to_owned()
            }
            CodeStatus::Finished(Verdict::KernelDied(reason)) => {
                format!("The kernel died while it ran: {reason}.")
            }
            CodeStatus::Finished(_) | CodeStatus::Proposed | CodeStatus::Running => return None,
        })
    }

    /// The files that it created or changed.
    pub(super) fn locations(&self, workspace: &Path) -> Vec<Value> {
        let Some(files) = &self.code.files else {
            return Vec::new();
        };
        let all = files.created.iter().chain(&files.changed);
        all.map(|file| json!({ "path": workspace.join(&file.path).display().to_string() }))
            .collect()
    }
}

/// The title of a cell in a list: its language and its first line.
pub(super) fn title(language: &str, source: &str) -> String {
    let mut lines = source.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let mut line: String = first
        .chars()
        .filter(|c| !c.is_control())
        .take(TITLE)
        .collect();
    if source.trim().len() > line.len() {
        line.push('…');
    }
    let mut name = language.chars();
    let name: String = name
        .next()
        .map(|c| c.to_ascii_uppercase())
        .into_iter()
        .chain(name)
        .collect();
    if line.is_empty() {
        name
    } else {
        format!("{name}: {line}")
    }
}

/// The code as a tool's arguments.
pub(super) fn raw_input(language: &str, source: &str) -> Value {
    json!({ "language": language, "code": source })
}

/// The code as content of a tool call.
pub(super) fn code_block(language: &str, source: &str) -> Value {
    block(&text_block(&fenced(language, source)))
}

/// A block as content of a tool call.
pub(super) fn block(content: &Value) -> Value {
    json!({ "type": "content", "content": content })
}

/// A block of Markdown.
pub(super) fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A link to a file.
pub(super) fn file_link(path: &Path, mime: Option<&str>) -> Value {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut link = json!({ "type": "resource_link", "uri": uri::of_file(path), "name": name });
    if let Some(mime) = mime {
        link["mimeType"] = mime.into();
    }
    link
}

/// A code fence that nothing in the text ends.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// One display.
fn show(
    data: &MimeBundle,
    file: Option<&OutputFolderPath>,
    notebook: &Path,
    text: &mut Shown,
    content: &mut Vec<Value>,
    left: &mut usize,
) {
    let path = file.map(|file| beside(notebook, &file.beside_notebook));
    if let Some(mime) = data.raster() {
        text.flush(content);
        let picture = data
            .text_of(mime)
            .map(|it| it.replace(char::is_whitespace, ""));
        let fits = picture.filter(|it| it.len() <= PICTURE.min(*left));
        if let Some(picture) = fits {
            *left -= picture.len();
            content.push(block(
                &json!({ "type": "image", "mimeType": mime, "data": picture }),
            ));
        } else if path.is_none() {
            content.push(block(&text_block(&shown_text(data))));
        }
        content.extend(path.map(|path| block(&file_link(&path, Some(mime)))));
        return;
    }
    if let Some(path) = path {
        text.add_line(&shown_text(data));
        text.flush(content);
        let mime = if data.contains(IMAGE_SVG) {
            "image/svg+xml"
        } else {
            "text/html"
        };
        content.push(block(&file_link(&path, Some(mime))));
        return;
    }
    if let Some(words) = data.text_of(TEXT_MARKDOWN) {
        text.flush(content);
        content.push(block(&text_block(&bounded(&words))));
        return;
    }
    text.add_line(&shown_text(data));
}

/// The path of a file that is named relative to the notebook.
fn beside(notebook: &Path, file: &str) -> PathBuf {
    notebook.parent().unwrap_or(Path::new("/")).join(file)
}

/// Collects plain text until another kind of content follows.
#[derive(Default)]
struct Shown(String);

impl Shown {
    fn add(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Appends text on separate lines.
    fn add_line(&mut self, text: &str) {
        if !self.0.is_empty() && !self.0.ends_with('\n') {
            self.0.push('\n');
        }
        self.0.push_str(text);
    }

    fn flush(&mut self, content: &mut Vec<Value>) {
        let text = std::mem::take(&mut self.0);
        if !text.trim().is_empty() {
            content.push(block(&text_block(&fenced("", &bounded(&text)))));
        }
    }
}

/// The beginning and the end of a long text.
fn bounded(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let mut start = TEXT / 4;
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = text.len() - TEXT * 3 / 4;
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let (head, tail) = (text.get(..start), text.get(end..));
    format!(
        "{}\n[{} bytes are left out here; the notebook has more]\n{}",
        head.unwrap_or_default(),
        end - start,
        tail.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(title("python", "\n  x = 1\n"), "Python: x = 1");
        assert_eq!(title("r", "x\ny"), "R: x…");
        assert_eq!(
            title("bash", "echo \u{1b}[2K hidden"),
            "Bash: echo [2K hidden…"
        );
        assert_eq!(title("python", ""), "Python");
        assert_eq!(
            title("", &"é".repeat(200)),
            format!(": {}…", "é".repeat(80))
        );
    }

    #[test]
    fn nothing_ends_its_fence() {
        assert_eq!(fenced("python", "x"), "```python\nx\n```");
        assert_eq!(fenced("", "a ```` b\n"), "`````\na ```` b\n`````");
    }

    #[test]
    fn long_text_keeps_both_ends() {
        let long = format!("begin{}end", "é".repeat(40_000));
        let shown = bounded(&long);
        assert!(shown.starts_with("begin") && shown.ends_with("end"));
        assert!(shown.len() < TEXT + 100, "{}", shown.len());
        assert!(shown.contains("bytes are left out here"));
    }
}
