//! Files that a program uploads before it says which container needs them: stored next to the containers, and copied
//! into those that want them.
//!
//! `stored/ID/file.json` is a file's record, `stored/ID/content` its bytes. The record is written last, so an
//! incomplete upload has none and does not count as a file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ContainerError, Containers, NAME, RECORD, Shared, failed, private_dir, seconds};
use crate::app::files as disk;
use crate::kernel::remove_tree;

/// Maximum stored files.
const MOST: usize = 1000;
const PREFIX: &str = "file-";

/// A stored file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// `file-` and 32 hexadecimal digits.
    pub id: String,
    /// The program's name for it.
    pub name: String,
    /// Its purpose, in the program's words.
    pub purpose: String,
    /// Size in bytes.
    pub bytes: u64,
    /// When it was uploaded, in seconds since 1970.
    pub created: i64,
}

impl Containers {
    /// A new id, and the path where its bytes must be written.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn place_stored(&self) -> Result<(String, PathBuf), ContainerError> {
        self.on_disk(|shared| {
            if shared.stored_ids()?.len() >= MOST {
                return Err(ContainerError::TooManyFiles(MOST));
            }
            let id = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
            let directory = shared.stored(&id)?;
            private_dir(&directory).map_err(failed("made"))?;
            Ok((id, directory.join("content")))
        })
        .await
    }

    /// Records what was written there.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn keep_stored(
        &self,
        id: &str,
        name: &str,
        purpose: &str,
    ) -> Result<StoredFile, ContainerError> {
        let file = StoredFile {
            id: id.to_owned(),
            name: name.chars().take(NAME).collect(),
            purpose: purpose.chars().take(NAME).collect(),
            bytes: 0,
            created: seconds(),
        };
        self.on_disk(move |shared| {
            let directory = shared.stored(&file.id)?;
            let content = std::fs::metadata(directory.join("content")).map_err(failed("read"))?;
            let bytes = content.len();
            let file = StoredFile { bytes, ..file };
            let text = serde_json::to_vec(&file)
                .map_err(|error| failed("written")(std::io::Error::other(error)))?;
            disk::write(&directory.join("file.json"), &text).map_err(failed("written"))?;
            Ok(file)
        })
        .await
    }

    /// All stored files, latest first.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn stored_files(&self) -> Result<Vec<StoredFile>, ContainerError> {
        self.on_disk(|shared| {
            let ids = shared.stored_ids()?.into_iter();
            let mut all: Vec<_> = ids.filter_map(|id| shared.read_stored(&id).ok()).collect();
            all.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.id.cmp(&a.id)));
            Ok(all)
        })
        .await
    }

    /// The file `id`, and the path of its bytes.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn stored_file(&self, id: &str) -> Result<(StoredFile, PathBuf), ContainerError> {
        let id = id.to_owned();
        self.on_disk(move |shared| {
            let file = shared.read_stored(&id)?;
            Ok((file, shared.stored(&id)?.join("content")))
        })
        .await
    }

    /// Removes the file `id`. Its copies in containers stay.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn delete_stored(&self, id: &str) -> Result<(), ContainerError> {
        let id = id.to_owned();
        self.on_disk(move |shared| {
            shared.read_stored(&id)?;
            remove_tree(&shared.stored(&id)?).map_err(failed("deleted"))
        })
        .await
    }

    /// Copies the file `file` into container `id`, unless it has one of that name. Returns its path.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn bring_stored(&self, id: &str, file: &str) -> Result<String, ContainerError> {
        let (file, source) = self.stored_file(file).await?;
        let (path, place) = self.place(id, &file.name).await?;
        if std::fs::symlink_metadata(&place).is_ok() {
            return Ok(path);
        }
        self.copy_in(id, source, &path, place).await?;
        Ok(path)
    }
}

impl Shared {
    /// The directory of the file `id`.
    fn stored(&self, id: &str) -> Result<PathBuf, ContainerError> {
        // The id becomes a path.
        let digits = id.strip_prefix(PREFIX).unwrap_or_default();
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if digits.len() == 32 && digits.chars().all(is_digit) {
            Ok(self.root.join("stored").join(id))
        } else {
            let id = id.chars().take(NAME).collect();
            Err(ContainerError::UnknownStored(id))
        }
    }

    fn stored_ids(&self) -> Result<Vec<String>, ContainerError> {
        match disk::entries(&self.root.join("stored")) {
            Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("read")(error)),
        }
    }

    fn read_stored(&self, id: &str) -> Result<StoredFile, ContainerError> {
        let record = self.stored(id)?.join("file.json");
        match disk::read(&record, RECORD) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ContainerError::UnknownStored(id.to_owned()))
            }
            read => serde_json::from_slice(&read.map_err(failed("read"))?)
                .map_err(|error| failed("read")(std::io::Error::other(error))),
        }
    }
}
