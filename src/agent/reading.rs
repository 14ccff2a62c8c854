//! The tool `read_output`: a model reads more of a cell's output than it was shown. Runs no code.
//!
//! The text comes from the transcript or, if that has only the beginning and end, from the files beside the notebook
//! ([`super::output_folder`]). The kernel's code can write to these, so only plain files in the cell's own folder are
//! opened, and links are not followed.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::query::{OutputLine, OutputLines, OutputPage, QueryError, QueryReason};
use crate::kernel::folder::{list, open_file};
use crate::llm::types::ToolSpec;
use crate::session::context::READ_OUTPUT;
use crate::session::limits::Whole;
use crate::session::summarize::{self, Wanted};
use crate::session::{Cell, CellKind, CodeCell, Transcript};

/// Files tried if none is named.
const USUAL: [&str; 4] = ["stdout.txt", "error.txt", "displays.txt", "stderr.txt"];

/// Maximum bytes of a page for a client.
const PAGE: usize = 1 << 20;
/// Default and maximum lines of a page.
const LINES: usize = 200;
const MOST_LINES: usize = 10_000;
/// Maximum files of a cell listed for a client.
const NAMES: usize = 200;

/// The tool's specification. The same in every session, whatever its kernels.
pub fn tool() -> ToolSpec {
    ToolSpec {
        name: READ_OUTPUT.to_owned(),
        description: "Read lines of a cell's output that were hidden from you.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "cell": { "type": "string" },
                "start": { "type": "integer", "description": "from 1; negative: from the end" },
                "lines": { "type": "integer", "description": "200 if left out" },
                "search": { "type": "string", "description": "only lines with this text" },
                "file": { "type": "string", "description": "where output is in files" },
            },
            "required": ["cell"],
        }),
    }
}

/// A parsed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    cell: String,
    file: Option<String>,
    wanted: Wanted,
}

/// Where the text is.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// In memory.
    Text(String),
    /// In the first of these files that exists.
    Files(PathBuf, Vec<String>),
}

/// Parses the arguments of a call.
///
/// # Errors
/// A message for the model.
pub fn parse(arguments: &str) -> Result<Asked, String> {
    #[derive(Deserialize)]
    struct Arguments {
        cell: Value,
        start: Option<i64>,
        lines: Option<usize>,
        search: Option<String>,
        file: Option<String>,
    }
    let parsed: Arguments = serde_json::from_str(arguments).map_err(|error| {
        format!("the arguments are not valid JSON with a string `cell`: {error}. Call `{READ_OUTPUT}` again")
    })?;
    let cell = match parsed.cell {
        Value::String(cell) => cell,
        other => other.to_string(),
    };
    let file = parsed.file.filter(|file| !file.is_empty());
    if let Some(file) = file.as_deref().filter(|file| !is_name(file)) {
        return Err(format!("{file:?} is not the name of a file of the cell"));
    }
    Ok(Asked {
        cell,
        file,
        wanted: Wanted {
            start: parsed.start,
            lines: parsed.lines,
            search: parsed.search.filter(|search| !search.is_empty()),
        },
    })
}

/// Locates the requested text; `notebook` is the session's.
///
/// # Errors
/// A message for the model.
pub fn source(transcript: &Transcript, notebook: &Path, asked: &Asked) -> Result<Source, String> {
    let code = code_of(transcript, &asked.cell)?;
    Ok(source_of(code, notebook, asked.file.as_deref()))
}

/// The code cell with this id, or with this number in the main kernel.
///
/// # Errors
/// A message.
pub fn code_of<'a>(transcript: &'a Transcript, name: &str) -> Result<&'a CodeCell, String> {
    let cell = find(transcript.cells(), name)
        .ok_or_else(|| format!("there is no cell {name:?} that ran"))?;
    match &cell.kind {
        CellKind::Code(code) => Ok(code),
        _ => Err(format!("cell {name:?} is no code")),
    }
}

fn source_of(code: &CodeCell, notebook: &Path, file: Option<&str>) -> Source {
    match code.outputs.whole() {
        Whole::Files(place) | Whole::Partly(place, _) => {
            let dir = notebook.with_file_name("").join(&place.beside_notebook);
            let names = match file {
                Some(file) => vec![file.to_owned()],
                None => USUAL.map(str::to_owned).into(),
            };
            Source::Files(dir, names)
        }
        Whole::Here | Whole::Nowhere(_) => Source::Text(summarize::whole_text(code)),
    }
}

/// Lines of the output of `code`, for a client: at most [`PAGE`] bytes. Reads files, so it blocks.
///
/// # Errors
/// Why nothing can be read.
pub fn page(
    code: &CodeCell,
    notebook: &Path,
    wanted: &OutputLines,
) -> Result<OutputPage, QueryError> {
    let file = wanted.file.as_deref().filter(|file| !file.is_empty());
    if let Some(file) = file.filter(|file| !is_name(file)) {
        let message = format!("{file:?} is not the name of a file of the cell");
        return Err(QueryError::new(QueryReason::BadRequest, message));
    }
    let asked = Wanted {
        start: wanted.start,
        lines: Some(wanted.lines.unwrap_or(LINES).min(MOST_LINES)),
        search: wanted.search.clone().filter(|it| !it.is_empty()),
    };
    let not_read = |error: std::io::Error| {
        let message = format!("the output could not be read: {error}");
        QueryError::new(QueryReason::Failed, message)
    };
    let (file, files, read) = match source_of(code, notebook, file) {
        Source::Text(text) => {
            let lines = summarize::lines(text.as_bytes(), &asked, PAGE).map_err(not_read)?;
            (None, BTreeMap::new(), lines)
        }
        Source::Files(dir, names) => {
            let files = sizes(&dir).into_iter().take(NAMES).collect();
            let opened = names
                .into_iter()
                .find_map(|name| Some((open_file(&dir.join(&name)).ok()?, name)));
            let (file, name) = opened.ok_or_else(|| {
                QueryError::new(QueryReason::NotFound, "the cell has no such file")
            })?;
            let lines = summarize::lines(BufReader::new(file), &asked, PAGE).map_err(not_read)?;
            (Some(name), files, lines)
        }
    };
    let lines = read.lines.into_iter();
    Ok(OutputPage {
        file,
        files,
        lines: lines
            .map(|(number, text)| OutputLine { number, text })
            .collect(),
        total: read.total,
        matches: read.matches,
    })
}

/// Whether a cell's output file can have this name.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.chars().all(fits) && !name.starts_with('.')
}

/// Finds a cell by its id, or by its number in the main kernel; the latest if there are several.
fn find<'a>(cells: &'a [Cell], name: &str) -> Option<&'a Cell> {
    let name = name.trim();
    let number: Option<i64> = name.parse().ok();
    let is_numbered = |cell: &&Cell| {
        cell.code()
            .is_some_and(|code| number.is_some() && code.count == number && code.language.is_none())
    };
    let by_id = cells.iter().find(|cell| cell.id == name);
    by_id.or_else(|| cells.iter().rfind(is_numbered))
}

/// The answer for the model, in about `limit` bytes. Reads files, so it blocks.
///
/// # Errors
/// A message for the model.
pub fn answer(source: Source, asked: &Asked, limit: usize) -> Result<String, String> {
    let read = match source {
        Source::Text(text) if text.is_empty() => {
            return Err("the cell has no text output".to_owned());
        }
        Source::Text(text) => summarize::read(text.as_bytes(), &asked.wanted, limit),
        Source::Files(dir, names) => {
            let opened = names
                .iter()
                .find_map(|name| Some((name, open_file(&dir.join(name)).ok()?)));
            let Some((name, file)) = opened else {
                return Err(format!(
                    "there is no such file; there are: {}",
                    listed(&dir)
                ));
            };
            summarize::read(BufReader::new(file), &asked.wanted, limit)
                .map(|text| format!("[{name}; there are: {}]\n{text}", listed(&dir)))
        }
    };
    read.map_err(|error| format!("it could not be read: {error}"))
}

/// Some of the cell's files, with sizes.
fn listed(dir: &Path) -> String {
    const NAMED: usize = 20;
    let mut names = sizes(dir);
    // Text first, then by number.
    names.sort_by_key(|(name, _)| {
        (
            name.starts_with(|c: char| c.is_ascii_digit()),
            name.len(),
            name.clone(),
        )
    });
    let all = names.len();
    let shown: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|(name, size)| format!("{name} ({size} bytes)"))
        .collect();
    match all.saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The plain files of a directory, with sizes.
fn sizes(dir: &Path) -> Vec<(String, u64)> {
    list(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let size = entry
                .metadata()
                .ok()
                .filter(std::fs::Metadata::is_file)?
                .len();
            Some((entry.file_name().into_string().ok()?, size))
        })
        .take(10_000)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::content::Stream;
    use crate::kernel::{OutputEvent, Verdict};
    use crate::session::limits::OutputFolderPath;
    use crate::session::transcript::Author;
    use crate::session::{CodeStatus, Edit, OutputLimits};

    fn transcript(limits: OutputLimits) -> Transcript {
        let mut transcript = Transcript::new(limits);
        let lines: Vec<String> = (1..=1000).map(|n| format!("line {n}\n")).collect();
        let text = lines.concat();
        for edit in [
            Edit::Propose {
                cell: "ab12".to_owned(),
                author: Author::Person,
                language: None,
                source: "flood()".to_owned(),
            },
            Edit::Number {
                cell: "ab12".to_owned(),
                count: 7,
            },
            Edit::Emit {
                cell: "ab12".to_owned(),
                output: OutputEvent::Stream(Stream {
                    name: "stdout".to_owned(),
                    text,
                }),
            },
            Edit::Finish {
                cell: "ab12".to_owned(),
                status: CodeStatus::Finished(Verdict::Ok),
                at: String::new(),
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        transcript
    }

    fn ask(transcript: &Transcript, notebook: &Path, arguments: &str) -> Result<String, String> {
        let asked = parse(arguments)?;
        answer(source(transcript, notebook, &asked)?, &asked, 1000)
    }

    #[test]
    fn text_that_is_in_the_transcript() {
        let transcript = transcript(OutputLimits::default());
        let ask = |arguments: &str| ask(&transcript, Path::new("x.ipynb"), arguments);
        let lines = "[lines 500 to 501 of 1000]\nline 500\nline 501";
        assert_eq!(
            ask(r#"{"cell": "ab12", "start": 500, "lines": 2}"#),
            Ok(lines.to_owned())
        );
        assert_eq!(
            ask(r#"{"cell": 7, "start": 500, "lines": 2}"#),
            Ok(lines.to_owned())
        );
        assert_eq!(
            ask(r#"{"cell": "ab12", "search": "E 1000"}"#),
            Ok("[1 of 1000 lines have that in it]\n1000: line 1000".to_owned())
        );
        for (arguments, words) in [
            (r#"{"cell": "zz"}"#, "there is no cell \"zz\""),
            (
                r#"{"cell": "ab12", "file": "../../etc/passwd"}"#,
                "is not the name of a file",
            ),
            (r#"{"cell": "ab12", "start": "x"}"#, "not valid JSON"),
            ("{", "not valid JSON"),
        ] {
            let error = ask(arguments).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn text_that_is_in_files_and_what_stands_in_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut transcript = transcript(OutputLimits {
            cell_text: 1000,
            ..OutputLimits::default()
        });
        let folder = dir.path().join("x.outputs/ab12");
        std::fs::create_dir_all(&folder).unwrap();
        let lines: Vec<String> = (1..=5000).map(|n| format!("row {n}\n")).collect();
        let text = lines.concat();
        std::fs::write(folder.join("stdout.txt"), text).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), folder.join("1.html")).unwrap();
        let place = OutputFolderPath {
            beside_notebook: "x.outputs/ab12".to_owned(),
            for_code: "elsewhere".to_owned(),
        };
        transcript
            .apply(Edit::Cut {
                cell: "ab12".to_owned(),
                whole: Whole::Files(place),
            })
            .unwrap();
        let notebook = dir.path().join("x.ipynb");
        let ask = |arguments: &str| ask(&transcript, &notebook, arguments);
        assert_eq!(
            ask(r#"{"cell": "ab12", "start": -1}"#),
            Ok("[stdout.txt; there are: stdout.txt (43893 bytes)]\n[lines 5000 to 5000 of 5000]\nrow 5000".to_owned())
        );
        assert_eq!(
            ask(r#"{"cell": "ab12", "file": "1.html"}"#),
            Err("there is no such file; there are: stdout.txt (43893 bytes)".to_owned())
        );
        // Names of files elsewhere are not revealed either.
        std::fs::remove_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(dir.path(), &folder).unwrap();
        assert_eq!(
            ask(r#"{"cell": "ab12"}"#),
            Err("there is no such file; there are: ".to_owned())
        );
    }
}
