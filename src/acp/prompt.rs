//! Builds one question from a person's prompt: text, links, embedded files, pictures.
//!
//! The agent accepts text, and reads files that are named with an at sign (docs/files.md). So a linked file of this
//! machine becomes such a name, embedded text is quoted with its URI, and bytes are stored as files of the workspace.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{tool_call, uri};
use crate::app::attachments;
use crate::rpc::RpcError;

/// Maximum bytes of an embedded text that is quoted; a longer one becomes a file.
const QUOTED: usize = 32 << 10;
/// Maximum blocks of a prompt.
const BLOCKS: usize = 200;

/// The question in `blocks`, for a session in `directory`. Writes files, so it takes time.
///
/// # Errors
/// A block of an unknown kind, or one that cannot be stored.
pub(super) fn question(blocks: &[Value], directory: &Path) -> Result<String, RpcError> {
    if blocks.len() > BLOCKS {
        return Err(RpcError::params(format!(
            "a prompt has at most {BLOCKS} blocks"
        )));
    }
    let mut text = String::new();
    // Everything longer than a name follows below the question.
    let mut below = Vec::new();
    for block in blocks {
        let field = |name: &str| block.get(name).and_then(Value::as_str);
        match field("type") {
            Some("text") => text.push_str(field("text").unwrap_or_default()),
            Some("resource_link") => {
                let address = field("uri").ok_or_else(|| missing("uri"))?;
                add_word(&mut text, &linked(address, directory));
            }
            Some("resource") => {
                let resource = block.get("resource").ok_or_else(|| missing("resource"))?;
                embedded(resource, directory, &mut text, &mut below)?;
            }
            Some("image") => {
                let mime = field("mimeType").ok_or_else(|| missing("mimeType"))?;
                let data = field("data").ok_or_else(|| missing("data"))?;
                let ending = ending_of(mime).unwrap_or("bin");
                let path = keep(&bytes_of(data)?, &format!("picture.{ending}"), directory)?;
                add_word(&mut text, &mention(&path, directory));
                below.push(format!(
                    "(The user attached the picture `{}`. To see it, display it in a cell.)",
                    shown(&path, directory)
                ));
            }
            other => {
                let kind = other.unwrap_or("none");
                return Err(RpcError::params(format!(
                    "blocks of the type `{kind}` are not supported: send text, image, resource or resource_link"
                )));
            }
        }
    }
    for words in below {
        text.push_str("\n\n");
        text.push_str(&words);
    }
    if text.trim().is_empty() {
        return Err(RpcError::params("the prompt has no text"));
    }
    Ok(text)
}

fn missing(field: &str) -> RpcError {
    RpcError::params(format!("a block of the prompt has no `{field}`"))
}

/// Appends a separate word.
fn add_word(text: &mut String, word: &str) {
    if !text.is_empty() && !text.ends_with(char::is_whitespace) {
        text.push(' ');
    }
    text.push_str(word);
    text.push(' ');
}

/// A link in a question.
fn linked(address: &str, directory: &Path) -> String {
    match uri::to_file(address) {
        Some(path) => mention(&path, directory),
        None => address.to_owned(),
    }
}

/// A file in the syntax that the agent recognises in questions.
fn mention(path: &Path, directory: &Path) -> String {
    format!("@\"{}\"", shown(path, directory).replace('"', ""))
}

/// The path of a file for the kernel's code.
fn shown(path: &Path, directory: &Path) -> String {
    path.strip_prefix(directory)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// A resource embedded in the message.
fn embedded(
    resource: &Value,
    directory: &Path,
    text: &mut String,
    below: &mut Vec<String>,
) -> Result<(), RpcError> {
    let field = |name: &str| resource.get(name).and_then(Value::as_str);
    let address = field("uri").ok_or_else(|| missing("uri"))?;
    let file = uri::to_file(address);
    let name = file.as_deref().and_then(Path::file_name);
    let name = name.map_or_else(|| "attachment".into(), |name| name.to_string_lossy());
    // Code can read a file in the workspace; for any other, the text is only in the message.
    let known = file
        .as_deref()
        .filter(|file| file.starts_with(directory) && file.is_file());
    let known = known.map(Path::to_owned);
    match (field("text"), field("blob")) {
        (Some(words), _) if words.len() <= QUOTED => {
            match &known {
                Some(path) => add_word(text, &mention(path, directory)),
                None => add_word(text, &format!("`{}`", name.replace('`', ""))),
            }
            let quoted = tool_call::fenced("", words);
            below.push(format!(
                "The user attached {}:\n{quoted}",
                address.replace(char::is_control, " ")
            ));
        }
        (Some(words), _) => {
            let path = match known {
                Some(path) => path,
                None => keep(words.as_bytes(), &name, directory)?,
            };
            add_word(text, &mention(&path, directory));
        }
        (None, Some(blob)) => {
            let path = match known {
                Some(path) => path,
                None => keep(&bytes_of(blob)?, &name, directory)?,
            };
            add_word(text, &mention(&path, directory));
        }
        (None, None) => return Err(missing("text")),
    }
    Ok(())
}

fn bytes_of(data: &str) -> Result<Vec<u8>, RpcError> {
    let decoded = BASE64_STANDARD.decode(data.trim());
    decoded
        .map_err(|error| RpcError::params(format!("a block of the prompt is not base64: {error}")))
}

fn keep(bytes: &[u8], name: &str, directory: &Path) -> Result<PathBuf, RpcError> {
    attachments::keep(bytes, name, directory).map_err(|error| {
        RpcError::internal(format!(
            "could not keep an attachment in `{}`: {error}",
            directory.display()
        ))
    })
}

fn ending_of(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_one_question() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("rain fall.csv"), "a").unwrap();
        let address = |name: &str| uri::of_file(&root.join(name));
        let asked = |blocks: Value| question(blocks.as_array().unwrap(), &root);
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(
            asked(json!([
                text("What is in"),
                {"type": "resource_link", "uri": address("rain fall.csv"), "name": "rain fall.csv"},
                text("and"),
                {"type": "resource_link", "uri": "https://example.org/x.csv", "name": "x"},
            ]))
            .unwrap(),
            "What is in @\"rain fall.csv\" and https://example.org/x.csv "
        );
        assert_eq!(
            asked(json!([
                text("Explain"),
                {"type": "resource", "resource": {"uri": "file:///elsewhere/a.py", "text": "x = 1"}},
            ]))
            .unwrap(),
            "Explain `a.py` \n\nThe user attached file:///elsewhere/a.py:\n```\nx = 1\n```"
        );
        let picture = BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\n");
        let seen = asked(
            json!([text("See"), {"type": "image", "mimeType": "image/png", "data": picture}]),
        )
        .unwrap();
        assert!(
            seen.starts_with("See @\".sponde/attachments/picture.png\" \n\n(The user attached"),
            "{seen}"
        );
        let kept = std::fs::read(root.join(".sponde/attachments/picture.png")).unwrap();
        assert_eq!(kept, b"\x89PNG\r\n\x1a\n");
        let long = "z".repeat(QUOTED + 1);
        let long = json!([{"type": "resource", "resource": {"uri": "untitled:1", "text": long}}]);
        assert_eq!(
            asked(long).unwrap().trim(),
            "@\".sponde/attachments/attachment\""
        );
        for wrong in [
            json!([]),
            json!([text(" ")]),
            json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
            json!([{"type": "image", "mimeType": "image/png", "data": "%"}]),
            json!([{"type": "resource", "resource": {"uri": "a:b"}}]),
        ] {
            assert_eq!(asked(wrong.clone()).unwrap_err().code, -32602, "{wrong}");
        }
    }
}
