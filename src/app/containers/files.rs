//! The files of a container, by ids derived from their paths.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use sha2::{Digest as _, Sha256};

use super::{Container, ContainerError, Containers, UPLOADED, failed};
use crate::app::executor::ending_of;
use crate::app::files::{self as disk, EntryKind};
use crate::kernel::folder;

/// How many files of a container are listed.
const MOST: usize = 10_000;
/// Maximum depth of the search.
const DEEPEST: usize = 16;
/// Bytes copied at a time.
const PIECE: usize = 1 << 20;
/// Bytes of an id's digest.
const DIGEST: usize = 16;

/// A file of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerFile {
    /// `cfile_` and 32 hexadecimal digits.
    pub id: String,
    /// The container.
    pub container: String,
    /// Relative to the directory that code works in.
    pub path: String,
    /// The path with which code can open it.
    pub place: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change, in seconds since 1970.
    pub changed: i64,
    /// The modification time as the disk reports it, at full precision.
    modified: Option<String>,
    /// Its origin.
    pub source: FileSource,
}

/// The origin of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSource {
    /// The program sent it.
    Program,
    /// Code did.
    Code,
}

/// The files of a container at a moment, to tell which ones code makes afterwards.
#[derive(Debug, Clone, Default)]
pub struct MadeFiles {
    before: BTreeMap<String, (u64, Option<String>)>,
}

impl Containers {
    /// The files of container `id` that are neither links nor hidden, by path.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn files(&self, id: &str) -> Result<Vec<ContainerFile>, ContainerError> {
        let id = id.to_owned();
        self.on_disk(move |shared| {
            let container = shared.change(&id, |_| {})?;
            let root = shared.files_of(&id);
            let mut files = Vec::new();
            walk(&root, Path::new(""), 0, &mut |path, entry| {
                let sent = container.uploaded.contains(&path);
                let modified: Option<jiff::Timestamp> =
                    entry.modified.as_deref().and_then(|it| it.parse().ok());
                files.push(ContainerFile {
                    id: id_of(&id, &path),
                    container: id.clone(),
                    place: root.join(&path),
                    path,
                    bytes: entry.bytes,
                    changed: modified.map_or(0, jiff::Timestamp::as_second),
                    modified: entry.modified,
                    source: if sent {
                        FileSource::Program
                    } else {
                        FileSource::Code
                    },
                });
                files.len() < MOST
            })
            .map_err(failed("read"))?;
            Ok(files)
        })
        .await
    }

    /// The file `file` of container `id`.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn file(&self, id: &str, file: &str) -> Result<ContainerFile, ContainerError> {
        let found = self.files(id).await?.into_iter().find(|it| it.id == file);
        found.ok_or_else(|| ContainerError::UnknownFile {
            container: id.to_owned(),
            file: file.chars().take(super::NAME).collect(),
        })
    }

    /// Where to write a file of this name. Directories in the name are the program's own, and are dropped.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn place(&self, id: &str, name: &str) -> Result<(String, PathBuf), ContainerError> {
        let container = self.get(id).await?;
        let bare = name.rsplit(['/', '\\']).next().unwrap_or_default();
        // Hidden files configure programs; this one is passed to the model as instructions.
        let is_fit = !bare.is_empty()
            && bare.len() <= 255
            && !bare.starts_with('.')
            && !bare.chars().any(char::is_control)
            && bare != "SPONDE.md";
        if !is_fit {
            return Err(ContainerError::FileName(
                name.chars().take(super::NAME).collect(),
            ));
        }
        let place = self.shared.files_of(&container.id).join(bare);
        Ok((bare.to_owned(), place))
    }

    /// The same for a name with directories, which are created when the file is written.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn place_below(
        &self,
        id: &str,
        name: &str,
    ) -> Result<(String, PathBuf), ContainerError> {
        let container = self.get(id).await?;
        let path = disk::relative(name).filter(|path| {
            let mut steps = path.iter().map(|step| step.to_str().unwrap_or_default());
            steps
                .clone()
                .next()
                .is_some_and(|first| first != "SPONDE.md")
                && steps.clone().count() <= DEEPEST
                && steps.all(|step| {
                    !step.starts_with('.')
                        && step.len() <= 255
                        && !step.chars().any(char::is_control)
                })
        });
        let path =
            path.ok_or_else(|| ContainerError::FileName(name.chars().take(super::NAME).collect()))?;
        let place = self.shared.files_of(&container.id).join(&path);
        Ok((path.to_string_lossy().into_owned(), place))
    }

    /// Copies the file `file` of container `from` into container `id`, with the name `name`. If it already is that
    /// very file, nothing changes. Returns its path.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn bring(
        &self,
        id: &str,
        name: &str,
        (from, file): (&str, &str),
    ) -> Result<String, ContainerError> {
        let source = self.file(from, file).await?;
        let (path, place) = self.place_below(id, name).await?;
        if source.place == place {
            return Ok(path);
        }
        self.copy_in(id, source.place, &path, place).await?;
        Ok(path)
    }

    /// Copies a file to the `path` of container `id`; the full path is `place`.
    pub(super) async fn copy_in(
        &self,
        id: &str,
        source: PathBuf,
        path: &str,
        place: PathBuf,
    ) -> Result<Container, ContainerError> {
        let (id, sent) = (id.to_owned(), path.to_owned());
        self.on_disk(move |shared| {
            copy(&source, &place).map_err(failed("written"))?;
            shared.change(&id, |container| {
                if container.uploaded.len() < UPLOADED {
                    container.uploaded.insert(sent);
                }
            })
        })
        .await
    }

    /// Writes pictures that code displayed as files: `plot-1.png` and so on.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn keep_pictures(
        &self,
        id: &str,
        pictures: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Result<(), ContainerError> {
        let directory = self.shared.files_of(&self.get(id).await?.id);
        let pictures: Vec<(String, Vec<u8>)> = pictures.into_iter().collect();
        self.on_disk(move |shared| {
            // Two simultaneous runs would take the same name.
            let _changing = shared
                .changing
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let mut numbers = 1_u64..;
            for (mime, bytes) in pictures {
                let ending = ending_of(&mime);
                let mut places =
                    (&mut numbers).map(|number| directory.join(format!("plot-{number}.{ending}")));
                let free = places.find(|place| std::fs::symlink_metadata(place).is_err());
                if let Some(place) = free {
                    disk::write(&place, &bytes).map_err(failed("written"))?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Records that a program wrote the file `path`.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn uploaded(&self, id: &str, path: &str) -> Result<ContainerFile, ContainerError> {
        let (owned, path) = (id.to_owned(), path.to_owned());
        let file = id_of(id, &path);
        self.on_disk(move |shared| {
            shared.change(&owned, |container| {
                if container.uploaded.len() < UPLOADED {
                    container.uploaded.insert(path);
                }
            })
        })
        .await?;
        self.file(id, &file).await
    }

    /// Writes a small file from a program, atomically.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn write(
        &self,
        id: &str,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<ContainerFile, ContainerError> {
        let (path, place) = self.place(id, name).await?;
        self.on_disk(move |_| disk::write(&place, &bytes).map_err(failed("written")))
            .await?;
        self.uploaded(id, &path).await
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn delete_file(&self, id: &str, file: &str) -> Result<(), ContainerError> {
        let file = self.file(id, file).await?;
        let id = id.to_owned();
        self.on_disk(move |shared| {
            folder::remove_file(&file.place).map_err(failed("written"))?;
            shared.change(&id, |container| {
                container.uploaded.remove(&file.path);
            })?;
            Ok(())
        })
        .await
    }
}

impl MadeFiles {
    /// Takes the current files.
    pub fn since(files: Vec<ContainerFile>) -> Self {
        let each = files.into_iter();
        Self {
            before: each
                .map(|file| (file.path, (file.bytes, file.modified)))
                .collect(),
        }
    }

    /// The ones in `files` that are new or changed since.
    pub fn among(&self, files: Vec<ContainerFile>) -> Vec<ContainerFile> {
        let is_made = |file: &ContainerFile| {
            let before = self.before.get(&file.path);
            before
                .is_none_or(|(bytes, modified)| *bytes != file.bytes || *modified != file.modified)
        };
        files.into_iter().filter(is_made).collect()
    }
}

/// Copies a file atomically.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut source = folder::open_file(from)?;
    let mut writing = disk::Writing::begin(to)?;
    let mut buffer = vec![0; PIECE];
    loop {
        let count = source.read(&mut buffer)?;
        match buffer.get(..count) {
            Some(piece) if count > 0 => writing = writing.write(piece)?,
            _ => break,
        }
    }
    writing.end().map(|_| ())
}

/// Visits files until `visit` has enough. Returns whether it wants more.
fn walk(
    root: &Path,
    below: &Path,
    depth: usize,
    visit: &mut dyn FnMut(String, disk::FileEntry) -> bool,
) -> std::io::Result<bool> {
    for entry in disk::entries(&root.join(below))? {
        if entry.name.starts_with('.') {
            continue;
        }
        let path = below.join(&entry.name);
        let goes_on = match entry.kind {
            EntryKind::File => {
                let Some(path) = path.to_str() else { continue };
                visit(path.to_owned(), entry)
            }
            EntryKind::Directory if depth < DEEPEST && entry.name != "__pycache__" => {
                // A directory that was removed meanwhile has no files.
                walk(root, &path, depth + 1, visit).unwrap_or(true)
            }
            EntryKind::Directory | EntryKind::Link | EntryKind::Other => true,
        };
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}

fn id_of(container: &str, path: &str) -> String {
    let digest = Sha256::new()
        .chain_update(container)
        .chain_update([0])
        .chain_update(path)
        .finalize();
    let mut id = String::from("cfile_");
    for byte in digest.iter().take(DIGEST) {
        // Writing to a string does not fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_hidden_files_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("sub/.git")).unwrap();
        for file in ["a.txt", "sub/b.txt", ".hidden", "sub/.git/config"] {
            std::fs::write(root.join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", root.join("passwd")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("etc")).unwrap();
        let mut seen = Vec::new();
        walk(&root, Path::new(""), 0, &mut |path, _| {
            seen.push(path);
            true
        })
        .unwrap();
        assert_eq!(seen, ["a.txt", "sub/b.txt"]);
        assert_ne!(id_of("cntr_1", "a"), id_of("cntr_2", "a"));
    }
}
