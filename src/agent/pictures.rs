//! A session's pictures, charts and HTML as files beside its notebook: `NAME_files/plot-N.EXT`.
//!
//! They are written when their cell has ended, in their final state; existing files are never overwritten.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::kernel::folder::{Folder, make_dirs};
use crate::session::limits::OutputFolderPath;

/// Writes pictures as `DIR/plot-N.EXT`, the next free N.
#[derive(Debug, Clone)]
pub struct PictureFiles {
    dir: PathBuf,
    next: u32,
}

impl PictureFiles {
    /// Writes to `dir`, which is created for the first picture.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, next: 1 }
    }

    /// For a notebook: the folder of that name beside it.
    pub fn beside(notebook: &Path) -> Self {
        let stem = notebook
            .file_stem()
            .map_or_else(|| "notebook".into(), |stem| stem.to_string_lossy());
        Self::new(notebook.with_file_name(format!("{stem}_files")))
    }

    /// Writes one picture with this extension and returns its path.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&mut self, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        if extension.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it cannot be decoded",
            ));
        }
        make_dirs(&self.dir, 0o777)?;
        loop {
            let path = self.dir.join(format!("plot-{}.{extension}", self.next));
            self.next += 1;
            match write_new(&path, bytes) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(path),
            }
        }
    }

    /// Writes a companion file beside a picture: the same name with this extension.
    ///
    /// # Errors
    /// I/O errors, also if the file exists.
    pub fn write_beside(&self, picture: &Path, extension: &str, bytes: &[u8]) -> io::Result<()> {
        write_new(&picture.with_extension(extension), bytes)
    }

    /// A picture's path as the notebook and code refer to it; code runs in `cwd`.
    pub fn place(&self, file: &Path, cwd: &Path) -> OutputFolderPath {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        OutputFolderPath {
            beside_notebook: format!("{}/{}", name(&self.dir), name(file)),
            for_code: absolute
                .strip_prefix(cwd)
                .unwrap_or(&absolute)
                .display()
                .to_string(),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = Folder::of(path)?;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(folder.file())?
        .write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_files_never_overwrite() {
        let dir = tempfile::tempdir().unwrap();
        let files_dir = dir.path().join("rain_files");
        std::fs::create_dir(&files_dir).unwrap();
        std::fs::write(files_dir.join("plot-1.png"), "mine").unwrap();
        let mut files = PictureFiles::beside(&dir.path().join("rain.ipynb"));
        let second = files.write("png", b"x").unwrap();
        assert_eq!(second, files_dir.join("plot-2.png"));
        assert_eq!(
            files.write("svg", b"x").unwrap(),
            files_dir.join("plot-3.svg")
        );
        assert_eq!(
            std::fs::read(files_dir.join("plot-1.png")).unwrap(),
            b"mine"
        );
        let place = |cwd: &str| files.place(&second, &dir.path().join(cwd));
        assert_eq!(
            (place("").for_code, place("").beside_notebook),
            (
                "rain_files/plot-2.png".to_owned(),
                "rain_files/plot-2.png".to_owned()
            )
        );
        assert_eq!(place("other").for_code, second.display().to_string());
    }

    #[test]
    fn no_folder_for_pictures_is_made_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, dir.path().join("work")).unwrap();
        let mut files = PictureFiles::beside(&dir.path().join("work/rain.ipynb"));
        assert!(files.write("png", b"x").is_err());
        assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
    }
}
