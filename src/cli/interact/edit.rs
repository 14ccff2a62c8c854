//! Opens code in the person's editor.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

/// A shell's exit code when it did not find the program.
const NOT_FOUND: i32 = 127;

/// Why the code is unchanged.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum EditError {
    /// There is no such editor.
    #[error("there is no editor `{0}`: set EDITOR to one that is there")]
    NoEditor(String),
    /// The editor failed, or was told to fail (`:cq` in vi).
    #[error("`{editor}` ended with {status}: the code is as it was")]
    Failed {
        /// The editor.
        editor: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// The person left no code to run.
    #[error("no code is left: nothing is changed")]
    Emptied,
    /// The person left without a change (`:q!` in vi).
    #[error("the code is as it was")]
    Unchanged,
    /// The temporary file failed.
    #[error("the code could not be given to the editor or read again: {0}")]
    File(#[from] io::Error),
}

/// The code after editing: always changed, and never empty.
pub(in crate::cli) async fn edit(source: &str, language: &str) -> Result<String, EditError> {
    let named = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR"));
    edit_with(&editor.unwrap_or_else(|| "vi".to_owned()), source, language).await
}

async fn edit_with(editor: &str, source: &str, language: &str) -> Result<String, EditError> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("sponde-{id}.{}", suffix(language));
    let path = std::env::temp_dir().join(name);
    let edited = edit_file(editor, &path, source).await;
    let _ = std::fs::remove_file(&path);
    edited
}

async fn edit_file(editor: &str, path: &Path, source: &str) -> Result<String, EditError> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        // The code may contain the person's data.
        .mode(0o600)
        .open(path)?;
    file.write_all(source.as_bytes())?;
    // Editors expect and add a final newline, which is not part of the code.
    let is_open = !source.ends_with('\n');
    if is_open {
        file.write_all(b"\n")?;
    }
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
    let mut edited = std::fs::read_to_string(path)?;
    if edited.trim().is_empty() {
        return Err(EditError::Emptied);
    }
    if is_open {
        edited.truncate(edited.trim_end_matches('\n').len());
    }
    if edited == source {
        return Err(EditError::Unchanged);
    }
    Ok(edited)
}

/// The usual file suffix for code, from which an editor knows the language; `language` is that of a kernelspec.
fn suffix(language: &str) -> String {
    let language = language.to_lowercase();
    let known = match language.as_str() {
        "python" => "py",
        "r" => "R",
        "bash" | "shell" | "zsh" => "sh",
        "javascript" => "js",
        "typescript" => "ts",
        "julia" => "jl",
        "rust" => "rs",
        "ruby" => "rb",
        "haskell" => "hs",
        "kotlin" => "kt",
        "gnuplot" => "gp",
        "octave" | "matlab" => "m",
        "c#" => "cs",
        "f#" => "fs",
        "java" | "sql" | "go" | "lua" | "scala" | "perl" | "php" | "c" => return language,
        cpp if cpp.starts_with("c++") => "cpp",
        _ => "txt",
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_editor_says_what_becomes_of_the_code() {
        let unchanged = "the code is as it was";
        for (editor, source, expected) in [
            ("true", "x = 1\n", unchanged),
            ("true", "x = 1", unchanged),
            // A lone line gets its own line.
            ("sed -i $ay=2", "x = 1", "x = 1\ny=2"),
            ("truncate -s -1", "x = 1", unchanged),
            ("sed -i s/1/2/", "x = 1\n", "x = 2\n"),
            ("sed -i s/1/2/", "x = 1", "x = 2"),
            (
                "truncate -s 0",
                "x = 1\n",
                "no code is left: nothing is changed",
            ),
            (
                "false",
                "x = 1\n",
                "`false` ended with exit status: 1: the code is as it was",
            ),
            (
                "no-such-editor",
                "x = 1\n",
                "there is no editor `no-such-editor`: set EDITOR to one that is there",
            ),
        ] {
            let edited = edit_with(editor, source, "python").await;
            let words = edited.unwrap_or_else(|error| error.to_string());
            assert_eq!(words, expected, "{editor}");
        }
    }

    #[tokio::test]
    async fn only_the_person_can_read_the_file_and_an_editor_knows_its_language() {
        let dir = tempfile::tempdir().unwrap();
        let editor = dir.path().join("editor");
        // The program's input becomes the code.
        std::fs::write(
            &editor,
            "stat -c '%a %n' \"$1\" > \"$1.x\"; mv \"$1.x\" \"$1\"\n",
        )
        .unwrap();
        let editor = format!("sh {}", editor.display());
        for (language, suffix) in [
            ("python", ".py"),
            ("R", ".R"),
            ("bash", ".sh"),
            ("javascript", ".js"),
            ("c++17", ".cpp"),
            ("misbehave", ".txt"),
        ] {
            let seen = edit_with(&editor, "x", language).await.unwrap();
            assert!(
                seen.starts_with("600 ") && seen.ends_with(suffix),
                "{language}: {seen}"
            );
        }
    }
}
