//! The description of a file for clients: Jupyter's contents model.

use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::problem::Problem;
use super::super::{download, files};
use super::notebooks;
use super::status::time;
use crate::kernel::folder;

/// Maximum bytes of a file that is sent within JSON.
const CONTENT: u64 = 64 << 20;
/// Maximum entries of a directory.
const ENTRIES: usize = 10_000;

/// The details that a client asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Asked {
    content: Option<u8>,
    #[serde(rename = "type")]
    kind: Option<String>,
    format: Option<String>,
    hash: Option<u8>,
}

impl Asked {
    pub(super) fn without_content() -> Self {
        Self {
            content: Some(0),
            ..Self::default()
        }
    }
}

/// The model of the file or directory `path` at `place`.
pub(super) fn model(place: &Path, path: &str, asked: &Asked) -> Result<ContentsModel, Problem> {
    let wants_content = asked.content != Some(0);
    let is_directory = folder::open(place).is_ok();
    match asked.kind.as_deref() {
        Some("directory") if !is_directory => {
            return Err(Problem::bad_request(format!("`{path}` is not a directory")));
        }
        Some("file" | "notebook") if is_directory => {
            return Err(Problem::bad_request(format!("`{path}` is a directory")));
        }
        _ => {}
    }
    if is_directory {
        let metadata = std::fs::symlink_metadata(place).map_err(|it| files::of_io(&it))?;
        let mut model = described(path, &metadata, "directory");
        if wants_content {
            let entries = entries(place, path).map_err(|it| files::of_io(&it))?;
            model.content = json!(entries);
            model.format = Some("json");
        }
        return Ok(model);
    }
    let mut file = folder::open_file(place).map_err(|it| files::of_io(&it))?;
    let metadata = file.metadata().map_err(|it| files::of_io(&it))?;
    let kind = match asked.kind.as_deref() {
        Some("notebook") => "notebook",
        Some("file") => "file",
        _ => kind_of(path),
    };
    let mut model = described(path, &metadata, kind);
    if !wants_content && asked.hash != Some(1) {
        return Ok(model);
    }
    let bytes = read(&mut file, metadata.len())?;
    if asked.hash == Some(1) {
        let digest = Sha256::digest(&bytes);
        let mut hash = String::new();
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02x}");
        }
        model.hash = Some(hash);
        model.hash_algorithm = Some("sha256");
    }
    if !wants_content {
        return Ok(model);
    }
    let (content, format) = match (kind, asked.format.as_deref()) {
        ("notebook", _) => (notebooks::for_client(&bytes)?, "json"),
        (_, Some("base64")) => (STANDARD.encode(&bytes).into(), "base64"),
        (_, wanted) => match (String::from_utf8(bytes), wanted) {
            (Ok(text), _) => (text.into(), "text"),
            (Err(_), Some("text")) => {
                return Err(Problem::bad_request(format!(
                    "`{path}` is no text in UTF-8"
                )));
            }
            (Err(error), _) => (STANDARD.encode(error.as_bytes()).into(), "base64"),
        },
    };
    if kind == "file" && format == "text" {
        let is_text = |mime: &String| mime.starts_with("text/");
        if !model.mimetype.as_ref().is_some_and(is_text) {
            model.mimetype = Some("text/plain".to_owned());
        }
    }
    model.content = content;
    model.format = Some(format);
    Ok(model)
}

fn read(file: &mut File, length: u64) -> Result<Vec<u8>, Problem> {
    if length > CONTENT {
        return Err(Problem::new(
            axum::http::StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "a file of more than 64 MiB is not sent within JSON",
        )
        .hint("`/jupyter/files/` has its bytes"));
    }
    let mut bytes = Vec::new();
    let read = file.take(CONTENT).read_to_end(&mut bytes);
    read.map_err(|it| files::of_io(&it))?;
    Ok(bytes)
}

/// Omits hidden entries, and links, which are not followed.
fn entries(place: &Path, path: &str) -> io::Result<Vec<ContentsModel>> {
    let mut entries = Vec::new();
    for entry in folder::list(place)?.take(ENTRIES) {
        let entry = entry?;
        let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else {
            continue;
        };
        let kind = match metadata.file_type() {
            _ if name.starts_with('.') => continue,
            it if it.is_dir() => "directory",
            it if it.is_file() => kind_of(&name),
            _ => continue,
        };
        let path = if path.is_empty() {
            name
        } else {
            format!("{path}/{name}")
        };
        entries.push((path.clone(), described(&path, &metadata, kind)));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries.into_iter().map(|(_, model)| model).collect())
}

/// A file, a notebook or a directory as clients see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct ContentsModel {
    name: String,
    path: String,
    last_modified: Option<String>,
    created: Option<String>,
    /// Text, base64, a notebook, the entries of a directory; null if it was not asked for.
    content: Value,
    format: Option<&'static str>,
    mimetype: Option<String>,
    size: Option<u64>,
    writable: bool,
    /// `file`, `notebook` or `directory`.
    #[serde(rename = "type")]
    kind: &'static str,
    hash: Option<String>,
    hash_algorithm: Option<&'static str>,
}

/// Everything except the content.
fn described(path: &str, metadata: &Metadata, kind: &'static str) -> ContentsModel {
    let name = path.rsplit('/').next().unwrap_or(path);
    let modified = metadata.modified().ok().and_then(time);
    // Not every file system stores when a file was created.
    let created = metadata.created().ok().and_then(time);
    let created = created.or_else(|| modified.clone());
    let mime = (kind == "file").then(|| download::mime_of(name));
    ContentsModel {
        name: name.to_owned(),
        path: path.to_owned(),
        last_modified: modified,
        created,
        content: Value::Null,
        format: None,
        mimetype: mime.map(str::to_owned),
        size: (kind != "directory").then_some(metadata.len()),
        writable: !metadata.permissions().readonly(),
        kind,
        hash: None,
        hash_algorithm: None,
    }
}

fn kind_of(path: &str) -> &'static str {
    if Path::new(path).extension().is_some_and(|it| it == "ipynb") {
        "notebook"
    } else {
        "file"
    }
}
