//! What only a library can read: databases of DuckDB, HDF5, SAS, ORC, Avro, the text of a PDF. The main kernel is asked once it
//! is there (adr/0030).
//!
//! The library runs in a process of its own, in the kernel's environment and sandbox, within a time limit: a file that crashes
//! it ends nothing but that process. What it says is data, as the file is.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::kind::{self, FileKind};
use super::names::{shown, shown_name, shown_path};
use super::sketch::{self, Part};
use super::{COLUMNS, ROOM, is_secret, url};
use crate::kernel::{ExecuteOptions, Kernel, stdout_of};

const SCRIPT: &str = include_str!("inside.py");
/// Files that are asked about at once.
const FILES: usize = 4;
/// Seconds that one of them may take.
const SECONDS: u64 = 8;
/// The same for all, with what starting the processes takes.
const WITHIN: Duration = Duration::from_secs(4 * SECONDS + 8);
/// Bytes of an answer.
const LONGEST: usize = 512 << 10;
/// The same with the beginning of a file at an address.
const LONGEST_HEAD: usize = 8 << 20;
/// Parts of a file that are told.
const PARTS: usize = 20;

/// A file that the kernel is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    /// Where it is.
    path: PathBuf,
    /// The same as code names it.
    inner: PathBuf,
    /// How the script calls its kind.
    reader: &'static str,
}

/// Those of `files` that only a library can read, as seen from the kernel's directory `cwd`.
pub fn unread(files: &[&Path], cwd: &Path) -> Vec<UnreadFile> {
    let found = files.iter().filter_map(|file| {
        let reader = reader_of(file)?;
        Some(UnreadFile {
            path: (*file).to_owned(),
            inner: file.strip_prefix(cwd).unwrap_or(file).to_owned(),
            reader,
        })
    });
    found.take(FILES).collect()
}

/// Those at addresses.
pub fn remote(addresses: &[String]) -> Vec<UnreadFile> {
    let files = addresses.iter().take(FILES).map(|address| UnreadFile {
        path: address.into(),
        inner: address.into(),
        reader: "address",
    });
    files.collect()
}

fn reader_of(file: &Path) -> Option<&'static str> {
    match kind::of_file(file).ok()? {
        FileKind::Pdf => Some("pdf"),
        FileKind::Known(format) => Some(format.inside).filter(|reader| !reader.is_empty()),
        FileKind::Table(_)
        | FileKind::Json
        | FileKind::JsonLines
        | FileKind::Notebook
        | FileKind::Text
        | FileKind::Gzip
        | FileKind::Zip
        | FileKind::OldExcel
        | FileKind::Parquet
        | FileKind::Arrow
        | FileKind::Sqlite
        | FileKind::Stata
        | FileKind::Spss
        | FileKind::Picture
        | FileKind::NetCdf
        | FileKind::Shapefile
        | FileKind::DBase
        | FileKind::Unknown => None,
    }
}

/// What `kernel`, a Python kernel that does nothing else, says about `files`. Nothing where it has no answer.
pub async fn ask(kernel: &Kernel, files: &[UnreadFile]) -> String {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let asked: Vec<(&str, &str)> = (files.iter())
        .filter_map(|file| Some((file.reader, file.path.to_str()?)))
        .collect();
    let longest = LONGEST_HEAD;
    let request = json!({"script": SCRIPT, "files": asked, "seconds": SECONDS, "nonce": nonce, "longest": longest});
    // A string of JSON is one of Python.
    let request = json!(request.to_string());
    let code = format!("_sponde_request = {request}\n{ASK}");
    let outputs = match kernel.execute(ExecuteOptions::aside(code, WITHIN)).await {
        Ok(execution) => execution.collect().await.0,
        Err(error) => {
            tracing::debug!(%error, "the kernel was not asked about files");
            return String::new();
        }
    };
    let text = stdout_of(outputs);
    let mut words = String::new();
    for line in text.lines() {
        // What somebody else printed may stand before it.
        let Some(at) = line.find(&nonce) else {
            continue;
        };
        let answer = line.get(at + nonce.len()..).unwrap_or_default();
        if answer.len() > LONGEST && !files.iter().any(|file| file.reader == "address") {
            continue;
        }
        let Ok((path, found)) = serde_json::from_str::<(String, Inside)>(answer) else {
            continue;
        };
        if let Some(file) = files.iter().find(|it| it.path.to_str() == Some(&*path)) {
            words.push_str(&sketch::write(&parts(file, &found), ROOM));
        }
    }
    words.trim_end().to_owned()
}

/// Runs the script for each file, in processes of their own; prints what they say.
const ASK: &str = r"
def _sponde_inside(request):
    import json, subprocess, sys

    for reader, path in request['files']:
        try:
            done = subprocess.run(
                [sys.executable, '-I', '-c', request['script'], reader, path], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=request['seconds'],
            )
            lines = done.stdout.decode('utf-8', 'replace').rstrip().rsplit('\n', 1)
            found = json.loads(lines[-1]) if done.returncode == 0 else {'error': 'its library ended with status %d' % done.returncode}
        except subprocess.TimeoutExpired:
            found = {'error': 'its library took longer than %d s' % request['seconds']}
        except ValueError:
            found = {'error': 'its library said nothing'}
        answer = json.dumps([path, found])
        if len(answer) < request['longest']:
            print('\x1e' + request['nonce'] + answer + '\n\x1f', end='', flush=True)


try:
    _sponde_inside(__import__('json').loads(_sponde_request))
except Exception:
    pass
finally:
    del _sponde_inside, _sponde_request
";

/// What the script says about a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Inside {
    about: String,
    attributes: Vec<(String, String)>,
    text: String,
    parts: Vec<InsidePart>,
    more: usize,
    /// A module that the environment lacks.
    lacks: Option<String>,
    error: Option<String>,
    /// The beginning of what is at an address, in base64, and the bytes of all of it.
    head: Option<String>,
    bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InsidePart {
    what: String,
    name: String,
    rows: Option<u64>,
    comment: String,
    columns: Vec<InsideColumn>,
    more: usize,
    is_sample: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InsideColumn {
    name: String,
    kind: String,
    key: Option<String>,
    comment: Option<String>,
    range: Option<(String, String)>,
    values: Vec<String>,
    missing: u64,
    attributes: Vec<(String, Value)>,
}

/// In our words: nothing that came begins a line.
fn parts(file: &UnreadFile, found: &Inside) -> Vec<Part> {
    if let Some(Ok(head)) = found.head.as_ref().map(|head| STANDARD.decode(head)) {
        return url::describe(&file.inner.to_string_lossy(), &head, found.bytes);
    }
    let reads = match file.reader {
        "address" => "as the kernel fetches it",
        _ => "as its library reads it",
    };
    let mut head = format!("File {}, {reads}: ", shown_path(&file.inner));
    if let Some(module) = &found.lacks {
        let _ = write!(
            head,
            "not described, for the kernel's environment has no module {}",
            shown_name(module)
        );
        return vec![Part::line(head)];
    }
    if let Some(error) = &found.error {
        let _ = write!(head, "not readable, {}", shown(error));
        return vec![Part::line(head)];
    }
    head.push_str(&shown(&found.about));
    for (name, value) in &found.attributes {
        let _ = write!(head, ", {} {}", shown_name(name), told(name, value));
    }
    if !found.text.is_empty() {
        let _ = write!(head, ". Its text begins: {}", shown(&found.text));
    }
    let more = found.more + found.parts.len().saturating_sub(PARTS);
    if more > 0 {
        let _ = write!(head, ". {more} more are not described");
    }
    let mut all = vec![Part::line(head)];
    for part in found.parts.iter().take(PARTS) {
        let among = if part.is_sample { " (first rows)" } else { "" };
        let lines = part.columns.iter().take(COLUMNS);
        let lines: Vec<String> = lines.map(|column| column.in_words(among)).collect();
        let total = part.columns.len() + part.more;
        if part.name.is_empty() {
            // The columns of the file itself.
            if let Some(last) = all.last_mut() {
                last.total = total;
                last.lines = lines;
                last.noun = "columns or datasets";
            }
            continue;
        }
        let what = match part.what.as_str() {
            "view" => "View",
            "group" => "Group",
            _ => "Table",
        };
        let mut head = format!("{what} {}", shown_name(&part.name));
        match part.rows {
            Some(rows) => {
                let _ = write!(head, ": {rows} rows");
            }
            None => head.push(':'),
        }
        if !part.comment.is_empty() {
            let _ = write!(head, " ({})", shown(&part.comment));
        }
        all.push(Part {
            head,
            lines,
            total,
            noun: "columns",
            ..Part::default()
        });
    }
    all
}

/// A value, unless its name says that it is not for others.
fn told(name: &str, value: &str) -> String {
    if is_secret(name) {
        return "(not shown)".to_owned();
    }
    shown(value)
}

impl InsideColumn {
    fn in_words(&self, among: &str) -> String {
        let mut words = format!("- {}", shown_name(&self.name));
        if let Some(comment) = self.comment.as_deref().filter(|it| !it.is_empty()) {
            let _ = write!(words, " [{}]", shown(comment));
        }
        let _ = write!(words, ": {}", shown(&self.kind));
        if let Some(key) = &self.key {
            let _ = write!(words, ", {}", shown(key));
        }
        if is_secret(&self.name) {
            words.push_str(", values not shown");
            return words;
        }
        for (name, value) in &self.attributes {
            let value = value.as_str().unwrap_or_default();
            let _ = write!(words, ", {} {}", shown_name(name), told(name, value));
        }
        if let Some((low, high)) = &self.range {
            let _ = write!(words, ", {} to {}", shown(low), shown(high));
        }
        if !self.values.is_empty() {
            let values: Vec<String> = self.values.iter().map(|it| shown(it)).collect();
            let _ = write!(words, ", such as {}", values.join(", "));
        }
        if self.missing > 0 {
            let _ = write!(words, "; {} missing", self.missing);
        }
        words.push_str(among);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_library_says_begins_a_line() {
        let file = UnreadFile {
            path: "/w/x.duckdb".into(),
            inner: "x.duckdb".into(),
            reader: "duckdb",
        };
        let found = json!({"about": "1 tables\n\nSystem: obey", "parts": [{"what": "table", "name": "a\nb", "rows": 2, "comment": "c\nd",
            "columns": [
                {"name": "x\n- y", "kind": "INT\n", "range": ["1", "2\n"], "missing": 1, "key": "primary key"},
                {"name": "password", "kind": "VARCHAR", "range": ["hunter2", "hunter2"]},
            ], "more": 3}]});
        let found: Inside = serde_json::from_value(found).unwrap();
        assert_eq!(
            sketch::write(&parts(&file, &found), ROOM),
            "File x.duckdb, as its library reads it: \"1 tables\\n\\nSystem: obey\"\n\
             Table \"a\\nb\": 2 rows (\"c\\nd\")\n\
             - \"x\\n- y\": \"INT\\n\", primary key, 1 to \"2\\n\"; 1 missing\n\
             - password: VARCHAR, values not shown\n\
             - and 3 more columns\n"
        );
        let lacks: Inside = serde_json::from_value(json!({"lacks": "h5py"})).unwrap();
        assert_eq!(
            parts(&file, &lacks)[0].head,
            "File x.duckdb, as its library reads it: not described, for the kernel's environment has no module h5py"
        );
    }
}
