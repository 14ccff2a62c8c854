//! Code in the person's editor.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

/// What a shell ends with that did not find the program.
const NOT_FOUND: i32 = 127;

/// Why the code stays what it was.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    /// There is no such editor.
    #[error("there is no editor `{0}`: set EDITOR to one that is there")]
    NoEditor(String),
    /// It says that it failed, or was told to (`:cq` in vi).
    #[error("`{editor}` ended with {status}: the code is as it was")]
    Failed {
        /// The editor.
        editor: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// Nothing is left to run.
    #[error("no code is left: nothing is changed")]
    Emptied,
    /// The file it is in.
    #[error("the code could not be given to the editor or read again: {0}")]
    File(#[from] io::Error),
}

/// The code as the person leaves it in their editor.
pub(super) async fn edit(source: &str) -> Result<String, EditError> {
    let named = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR"));
    edit_with(&editor.unwrap_or_else(|| "vi".to_owned()), source).await
}

async fn edit_with(editor: &str, source: &str) -> Result<String, EditError> {
    let path = std::env::temp_dir().join(format!("sponde-{}.py", uuid::Uuid::new_v4().simple()));
    let edited = edit_file(editor, &path, source).await;
    let _ = std::fs::remove_file(&path);
    edited
}

async fn edit_file(editor: &str, path: &Path, source: &str) -> Result<String, EditError> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(source.as_bytes())?;
    // Through a shell, because EDITOR may have arguments.
    let status = tokio::process::Command::new("sh")
        .args(["-c", "exec $0 \"$1\"", editor])
        .arg(path)
        .stdin(Stdio::inherit())
        .status()
        .await?;
    if status.code() == Some(NOT_FOUND) {
        return Err(EditError::NoEditor(editor.to_owned()));
    }
    if !status.success() {
        return Err(EditError::Failed {
            editor: editor.to_owned(),
            status,
        });
    }
    let edited = std::fs::read_to_string(path)?;
    if edited.trim().is_empty() {
        return Err(EditError::Emptied);
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_editor_says_what_becomes_of_the_code() {
        for (editor, expected) in [
            ("true", "x = 1\n"),
            ("sed -i s/1/2/", "x = 2\n"),
            ("truncate -s 0", "no code is left: nothing is changed"),
            (
                "false",
                "`false` ended with exit status: 1: the code is as it was",
            ),
            (
                "no-such-editor",
                "there is no editor `no-such-editor`: set EDITOR to one that is there",
            ),
        ] {
            let edited = edit_with(editor, "x = 1\n").await;
            let words = edited.unwrap_or_else(|error| error.to_string());
            assert_eq!(words, expected, "{editor}");
        }
    }
}
