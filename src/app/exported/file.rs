//! Exports a notebook file, or the notebook of a session, as another file.

use std::path::{Path, PathBuf};

use base64::Engine as _;

use super::Exported;
use crate::agent::{sessions, write_atomically};
use crate::app::{Context, kept, notebook, place};
use crate::error::{Failure, FailureKind};
use crate::export::{self, Options};

/// Larger pictures next to a notebook are not embedded in its page.
const LARGEST: u64 = 16 << 20;

/// The notebook in the file `from` as text. With an `output`, pictures of Markdown are written next to it.
///
/// # Errors
/// A file that cannot be read, or pictures that cannot be written.
pub fn render(
    from: &Path,
    to: Exported,
    output: Option<&Path>,
    clean: bool,
    context: &Context,
) -> Result<String, Failure> {
    let shown = from.display().to_string();
    let bytes = std::fs::read(from)
        .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
    let notebook = notebook::parse(&bytes, &shown, &context.notify)?;
    let options = Options { clean };
    Ok(match to {
        Exported::Notebook => export::notebook(&notebook, options),
        Exported::Script => export::script(&notebook, options),
        Exported::Page => {
            let name = from.file_stem();
            let name =
                name.map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
            let beside = from.parent().unwrap_or(Path::new(""));
            export::html(&notebook, &name, options, &|path| picture(beside, path))
        }
        Exported::Markdown => {
            let mut files = output.map(Beside::new);
            let mut keep =
                |name: &str, ending: &str, bytes: &[u8]| files.as_mut()?.keep(name, ending, bytes);
            let text = export::markdown(&notebook, options, output.map(|_| &mut keep as _));
            if let Some(error) = files.and_then(|files| files.failed) {
                return Err(error);
            }
            text
        }
    })
}

/// One cell of the notebook in the file `from` as a page of its own; `None` if no cell has that id.
///
/// # Errors
/// A file that cannot be read.
pub fn cell_page(
    from: &Path,
    id: &str,
    name: &str,
    context: &Context,
) -> Result<Option<String>, Failure> {
    let shown = from.display().to_string();
    let bytes = std::fs::read(from)
        .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
    let mut notebook = notebook::parse(&bytes, &shown, &context.notify)?;
    notebook.cells.retain(|cell| cell.id == id);
    let beside = from.parent().unwrap_or(Path::new(""));
    let page = || {
        export::html(&notebook, name, Options::default(), &|path| {
            picture(beside, path)
        })
    };
    Ok((!notebook.cells.is_empty()).then(page))
}

/// Writes the notebook in the file `from` to the file `output`. `to` is the format; by default the suffix decides.
///
/// # Errors
/// An unknown format, a notebook that would be overwritten, or files that cannot be read or written.
pub fn write(
    from: &Path,
    to: Option<Exported>,
    output: &Path,
    clean: bool,
    context: &Context,
) -> Result<(), Failure> {
    let Some(to) = to.or_else(|| Exported::of_file(output)) else {
        let words = format!("what should `{}` be?", output.display());
        return Err(
            Failure::usage(words).hint("name the format with --to: ipynb, html, md or script")
        );
    };
    check(from, output, to)?;
    let text = render(from, to, Some(output), clean, context)?;
    write_atomically(output, text.as_bytes()).map_err(|error| {
        let failure = Failure::new(
            FailureKind::Failed,
            format!("could not write `{}`: {error}", output.display()),
        );
        match output.parent() {
            Some(dir) if !dir.as_os_str().is_empty() && !dir.exists() => failure.hint(format!(
                "there is no directory `{0}`: make it with `mkdir -p {0}`",
                dir.display()
            )),
            _ => failure,
        }
    })
}

/// The notebook that `named` means: a file, otherwise that of a session.
///
/// # Errors
/// There is neither.
pub fn find(named: &Path, context: &Context) -> Result<PathBuf, Failure> {
    let Some(id) = named.to_str().filter(|_| !named.exists()) else {
        return Ok(named.to_owned());
    };
    if id.contains('/') || named.extension().is_some() {
        return Ok(named.to_owned());
    }
    let all = sessions::list(&context.paths.sessions());
    let found = kept::find(&all, Some(id)).map_err(|failure| Failure {
        message: format!("there is no file `{id}`, and {}", failure.message),
        ..failure
    })?;
    if found.notebook.exists() {
        return Ok(found.notebook.clone());
    }
    let path = found.notebook.display();
    Err(Failure::usage(format!(
        "the notebook of session `{id}` is not there: `{path}`"
    ))
    .hint("`sponde resume` writes it again from the journal"))
}

/// Protects notebooks: an export never overwrites the notebook itself or another one.
fn check(notebook: &Path, output: &Path, to: Exported) -> Result<(), Failure> {
    let shown = output.display();
    let same = |path: &Path| path.canonicalize().ok();
    if output.exists() && same(output) == same(notebook) {
        return Err(Failure::usage(format!("`{shown}` is the notebook itself"))
            .hint("name another file with -o"));
    }
    let is_notebook = output
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("ipynb"));
    if is_notebook && output.exists() {
        return Err(Failure::usage(format!("`{shown}` is already there"))
            .hint("name another file with -o: a notebook is never overwritten"));
    }
    if is_notebook && to != Exported::Notebook {
        return Err(Failure::usage(format!("`{shown}` would not be a notebook"))
            .hint("leave --to out, or name a file with another ending"));
    }
    Ok(())
}

/// A picture next to the notebook as a data URL; never one from another directory.
fn picture(beside: &Path, path: &str) -> Option<String> {
    let path = path.replace("%20", " ");
    let beside = if beside.as_os_str().is_empty() {
        Path::new(".")
    } else {
        beside
    };
    let beside = beside.canonicalize().ok()?;
    let file = beside.join(path).canonicalize().ok()?;
    if !file.starts_with(&beside) || std::fs::metadata(&file).ok()?.len() > LARGEST {
        return None;
    }
    let bytes = std::fs::read(&file).ok()?;
    let mime = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => "image/webp",
        _ if file.extension().is_some_and(|ending| ending == "svg") => "image/svg+xml",
        _ => return None,
    };
    let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
    Some(format!("data:{mime};base64,{encoded}"))
}

/// Pictures in a folder next to a file: an identical picture is reused, and none is overwritten.
struct Beside {
    dir: PathBuf,
    next: usize,
    failed: Option<Failure>,
}

impl Beside {
    fn new(output: &Path) -> Self {
        Self {
            dir: place::pictures_dir(output),
            next: 1,
            failed: None,
        }
    }

    /// Writes a picture and returns its path for a link from the file.
    fn keep(&mut self, name: &str, ending: &str, bytes: &[u8]) -> Option<String> {
        if self.failed.is_some() {
            return None;
        }
        match self.write(name, ending, bytes) {
            Ok(link) => Some(link),
            Err(error) => {
                let dir = self.dir.display();
                self.failed = Some(Failure::new(
                    FailureKind::Failed,
                    format!("could not write a picture to `{dir}`: {error}"),
                ));
                None
            }
        }
    }

    fn write(&mut self, name: &str, ending: &str, bytes: &[u8]) -> std::io::Result<String> {
        use std::io::Write as _;
        std::fs::create_dir_all(&self.dir)?;
        loop {
            let file = format!("{name}-{}.{ending}", self.next);
            let path = self.dir.join(&file);
            self.next += 1;
            match std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
            {
                Ok(mut new) => new.write_all(bytes)?,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    if std::fs::read(&path)? != bytes {
                        continue;
                    }
                }
                Err(error) => return Err(error),
            }
            let folder = self.dir.file_name().unwrap_or_default().to_string_lossy();
            return Ok(format!("{folder}/{file}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_not_overwritten_and_not_doubled() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out.md");
        let export = |pictures: &[&[u8]]| -> Vec<String> {
            let mut beside = Beside::new(&output);
            let kept = pictures
                .iter()
                .map(|bytes| beside.keep("plot", "png", bytes));
            kept.map(Option::unwrap).collect()
        };
        assert_eq!(
            export(&[b"a", b"b"]),
            ["out_files/plot-1.png", "out_files/plot-2.png"]
        );
        assert_eq!(
            export(&[b"a", b"b"]),
            ["out_files/plot-1.png", "out_files/plot-2.png"]
        );
        assert_eq!(
            export(&[b"c", b"b"]),
            ["out_files/plot-3.png", "out_files/plot-4.png"]
        );
        assert_eq!(
            std::fs::read(dir.path().join("out_files/plot-1.png")).unwrap(),
            b"a"
        );
    }

    #[test]
    fn pictures_of_a_page_come_from_beside_the_notebook_only() {
        let dir = tempfile::tempdir().unwrap();
        let beside = dir.path().join("notebooks");
        std::fs::create_dir(&beside).unwrap();
        std::fs::write(beside.join("a b.png"), b"\x89PNG").unwrap();
        std::fs::write(beside.join("text.png"), b"secret").unwrap();
        std::fs::write(dir.path().join("out.png"), b"\x89PNG").unwrap();
        std::os::unix::fs::symlink("../out.png", beside.join("link.png")).unwrap();
        let expected = Some("data:image/png;base64,iVBORw==".to_owned());
        assert_eq!(picture(&beside, "a%20b.png"), expected);
        for path in [
            "text.png",
            "../out.png",
            "link.png",
            "none.png",
            "/etc/passwd",
        ] {
            assert_eq!(picture(&beside, path), None, "{path}");
        }
    }
}
