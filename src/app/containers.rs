//! Containers: a program's session with an unguessable id and its own directory, removed after some time without use.
//! The wires of OpenAI and LibreChat are built on them.
//!
//! A container is a directory below Sponde's data: `ID/container.json` and `ID/files`, where the code works. The state
//! on disk is authoritative, so containers outlive the server (their variables do not), and several servers can share
//! them. Ids are validated before they become a path. Files are found by an id derived from their path, never by a
//! path that a program sends. Code in one container cannot see another: the sandbox shows it only its own directory.

mod files;
mod names;
mod scratch;
mod script;
mod stored;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::executor::{Executor, ExecutorError, Opening, ProgramSession};
use crate::app::files as disk;
use crate::kernel::folder::resolved;
use crate::kernel::remove_tree;
use crate::task;
pub use files::{ContainerFile, FileSource, MadeFiles};
pub use names::ContainerNames;
pub use scratch::Scratch;
pub use script::{Script, ScriptOutcome};
pub use stored::StoredFile;

/// Minutes that a container is kept by default.
pub const MINUTES: u32 = 20;
/// Maximum minutes: a year.
pub const MOST_MINUTES: u32 = 525_600;
/// Seconds that a container's kernel waits for the next use.
const KERNEL_WAITS: i64 = 30 * 60;
/// How often to look for expired containers.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A use may be this many seconds newer than the time on disk.
const ROUGHLY: i64 = 15;
/// Maximum bytes of a record.
const RECORD: u64 = 4 << 20;
/// Maximum characters of a name.
const NAME: usize = 256;
/// How many files are remembered as sent by a program.
const UPLOADED: usize = 10_000;
const PREFIX: &str = "cntr_";

/// The containers of one data directory; clones share them.
#[derive(Clone)]
pub struct Containers {
    shared: Arc<Shared>,
}

struct Shared {
    executor: Executor,
    root: PathBuf,
    /// Maximum containers at a time.
    most: usize,
    /// Held while a record is changed.
    changing: Mutex<()>,
}

/// The record of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// `cntr_` and 32 hexadecimal digits.
    pub id: String,
    /// The program's name for it.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// Time of the last use.
    pub used: i64,
    /// Minutes without use after which it is removed; `None`: never.
    pub minutes: Option<u32>,
    /// The network that its code can reach.
    #[serde(default)]
    reach: Reach,
    /// Relative paths of the files that a program sent.
    uploaded: BTreeSet<String>,
}

/// The network that a container's code can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Whatever the server permits.
    #[default]
    Permitted,
    /// No network.
    Nothing,
}

/// Why an operation on a container failed.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// It does not exist, or has expired.
    #[error("there is no container `{0}`: it was deleted, or nobody used it for too long")]
    Unknown(String),
    /// It has no such file.
    #[error("there is no file `{file}` in container `{container}`")]
    UnknownFile {
        /// The container.
        container: String,
        /// The id that was sent.
        file: String,
    },
    /// No file with this id was sent.
    #[error("there is no file `{0}`")]
    UnknownStored(String),
    /// Too many stored files.
    #[error("there are {0} files, and no more are kept")]
    TooManyFiles(usize),
    /// No file can have this name.
    #[error("`{0}` is not a name for a file")]
    FileName(String),
    /// Too many containers.
    #[error("there are {0} containers, and no more are kept at a time")]
    TooMany(usize),
    /// The disk operation failed.
    #[error("the container could not be {what}: {error}")]
    Io {
        /// `made`, `read`, `written`, `deleted`.
        what: &'static str,
        /// The I/O error.
        error: io::Error,
    },
    /// Its session cannot be opened.
    #[error(transparent)]
    Session(#[from] ExecutorError),
}

impl Containers {
    /// Containers below `root`, at most `most`; `root` is created with the first one. Removes expired ones until it is
    /// dropped.
    pub fn new(executor: Executor, root: &Path, most: usize) -> Self {
        // A failure here is reported when the first container is created.
        let _ = private_dir(root);
        let shared = Arc::new(Shared {
            executor,
            root: resolved(root),
            most,
            changing: Mutex::default(),
        });
        let followed = Arc::downgrade(&shared);
        task::spawn("containers", async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let Some(shared) = followed.upgrade() else {
                    return;
                };
                Self { shared }.expire().await;
            }
        })
        .detach();
        Self { shared }
    }

    /// The executor that runs their code.
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// Creates a container whose code reaches what the server permits. `minutes`: how long it is kept without use;
    /// `None`: for ever.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn create(
        &self,
        name: &str,
        minutes: Option<u32>,
    ) -> Result<Container, ContainerError> {
        self.create_with(name, minutes, Reach::Permitted).await
    }

    /// Creates a container with this network access.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn create_with(
        &self,
        name: &str,
        minutes: Option<u32>,
        reach: Reach,
    ) -> Result<Container, ContainerError> {
        let now = seconds();
        let container = Container {
            id: format!("{PREFIX}{}", uuid::Uuid::new_v4().simple()),
            name: name.chars().take(NAME).collect(),
            created: now,
            used: now,
            minutes,
            reach,
            uploaded: BTreeSet::new(),
        };
        let made = container.clone();
        self.on_disk(move |shared| {
            if shared.ids()?.len() >= shared.most {
                return Err(ContainerError::TooMany(shared.most));
            }
            private_dir(&shared.root).map_err(failed("made"))?;
            std::fs::create_dir_all(shared.files_of(&made.id)).map_err(failed("made"))?;
            shared.write(&made)
        })
        .await?;
        Ok(container)
    }

    /// The container `id`. Each call counts as a use and moves its expiry.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn get(&self, id: &str) -> Result<Container, ContainerError> {
        let id = id.to_owned();
        self.on_disk(move |shared| shared.change(&id, |_| {})).await
    }

    /// All containers, latest first.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn list(&self) -> Result<Vec<Container>, ContainerError> {
        self.on_disk(|shared| {
            let ids = shared.ids()?.into_iter();
            let mut all: Vec<Container> = ids.filter_map(|id| shared.read(&id).ok()).collect();
            all.retain(|it| !it.is_over(seconds()));
            all.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.id.cmp(&a.id)));
            Ok(all)
        })
        .await
    }

    /// Ends the container's session and removes its files.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn delete(&self, id: &str) -> Result<(), ContainerError> {
        let owned = id.to_owned();
        self.on_disk(move |shared| shared.read(&owned).map(drop))
            .await?;
        self.remove(id).await
    }

    /// The container's session, opened if it is not running.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn session(&self, id: &str) -> Result<ProgramSession, ContainerError> {
        let container = self.get(id).await?;
        let opening = Opening {
            directory: Some(self.shared.files_of(&container.id)),
            is_offline: container.reach == Reach::Nothing,
            ..Opening::default()
        };
        let executor = &self.shared.executor;
        Ok(executor.open(&container.id, opening).await?)
    }

    /// Ends the container's session, and keeps its files.
    pub async fn rest(&self, id: &str) {
        self.shared.executor.forget(id).await;
    }

    /// Ends the kernels of unused containers, and removes the expired ones.
    async fn expire(&self) {
        for session in self.shared.executor.list() {
            let id = session.name.clone();
            let looked = self.on_disk(move |shared| shared.read_even_over(&id)).await;
            let is_left = looked.is_ok_and(|it| seconds() - it.used > KERNEL_WAITS);
            if is_left && session.live.clients() == 0 {
                self.rest(&session.name).await;
            }
        }
        let over = self.on_disk(|shared| {
            let ids = shared.ids()?.into_iter();
            let read = ids.filter_map(|id| shared.read_even_over(&id).ok());
            Ok(read.filter(|it| it.is_over(seconds())).collect::<Vec<_>>())
        });
        for container in over.await.unwrap_or_default() {
            let running = self.shared.executor.running(&container.id).ok();
            let is_used = running.is_some_and(|it| it.live.clients() > 0);
            let outcome = if is_used {
                let id = container.id.clone();
                let touched = self.on_disk(move |shared| shared.touch_even_over(&id));
                touched.await
            } else {
                tracing::info!(id = %container.id, "a container ends that nobody uses");
                self.remove(&container.id).await
            };
            if let Err(error) = outcome {
                tracing::warn!(id = %container.id, %error, "a container was not ended");
            }
        }
    }

    async fn remove(&self, id: &str) -> Result<(), ContainerError> {
        self.shared.executor.forget(id).await;
        let id = id.to_owned();
        self.on_disk(move |shared| {
            let dir = shared.root.join(&id);
            remove_tree(&dir).map_err(failed("deleted"))
        })
        .await
    }

    /// Runs blocking disk access on another thread.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, ContainerError> + Send + 'static,
    ) -> Result<T, ContainerError> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.map_err(|error| failed("read")(io::Error::other(error)))?
    }
}

impl Container {
    fn is_over(&self, now: i64) -> bool {
        let kept = self.minutes.map(|minutes| i64::from(minutes) * 60);
        kept.is_some_and(|kept| now - self.used > kept)
    }
}

impl Shared {
    fn files_of(&self, id: &str) -> PathBuf {
        self.root.join(id).join("files")
    }

    /// The ids of the existing containers.
    fn ids(&self) -> Result<Vec<String>, ContainerError> {
        match disk::entries(&self.root) {
            Ok(entries) => Ok(entries
                .into_iter()
                .map(|entry| entry.name)
                .filter(|name| is_id(name))
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("read")(error)),
        }
    }

    fn read_even_over(&self, id: &str) -> Result<Container, ContainerError> {
        let unknown = || ContainerError::Unknown(id.chars().take(NAME).collect());
        // The id becomes a path.
        if !is_id(id) {
            return Err(unknown());
        }
        let bytes = match disk::read(&self.record_of(id), RECORD) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            read => read.map_err(failed("read"))?,
        };
        serde_json::from_slice(&bytes).map_err(|error| failed("read")(io::Error::other(error)))
    }

    fn read(&self, id: &str) -> Result<Container, ContainerError> {
        let container = self.read_even_over(id)?;
        if container.is_over(seconds()) {
            return Err(ContainerError::Unknown(id.to_owned()));
        }
        Ok(container)
    }

    fn write(&self, container: &Container) -> Result<(), ContainerError> {
        let text = serde_json::to_vec(container)
            .map_err(|error| failed("written")(io::Error::other(error)))?;
        disk::write(&self.record_of(&container.id), &text).map_err(failed("written"))?;
        Ok(())
    }

    /// Changes a record, which counts as a use.
    fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Container),
    ) -> Result<Container, ContainerError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.read(id)?;
        let mut container = before.clone();
        change(&mut container);
        container.used = seconds();
        if container.uploaded != before.uploaded || container.used - before.used > ROUGHLY {
            self.write(&container)?;
        }
        Ok(container)
    }

    fn touch_even_over(&self, id: &str) -> Result<(), ContainerError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut container = self.read_even_over(id)?;
        container.used = seconds();
        self.write(&container)
    }

    fn record_of(&self, id: &str) -> PathBuf {
        self.root.join(id).join("container.json")
    }
}

fn is_id(id: &str) -> bool {
    let digits = id.strip_prefix(PREFIX);
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    digits.is_some_and(|digits| digits.len() == 32 && digits.chars().all(is_digit))
}

/// A directory that only this user can read.
fn private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir)
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> ContainerError {
    move |error| ContainerError::Io { what, error }
}

fn seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_ours_become_paths() {
        let good = format!("cntr_{}", "0123456789abcdef".repeat(2));
        assert!(is_id(&good));
        for bad in [
            "",
            "cntr_",
            "..",
            "cntr_../../../../../../../../etc/x",
            "cntr_0123456789ABCDEF0123456789abcdef",
            "cntr_0123456789abcdef0123456789abcde",
            "cntr_0123456789abcdef0123456789abcde/",
            "cntr_0123456789abcdef0123456789abcdef0",
            "sess_0123456789abcdef0123456789abcdef",
        ] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[test]
    fn a_container_is_over_when_nobody_has_used_it_for_long() {
        let mut container = Container {
            id: String::new(),
            name: String::new(),
            created: 0,
            used: 1000,
            minutes: Some(20),
            reach: Reach::Permitted,
            uploaded: BTreeSet::new(),
        };
        assert!(!container.is_over(1000 + 1200));
        assert!(container.is_over(1000 + 1201));
        container.minutes = None;
        assert!(!container.is_over(i64::MAX));
    }
}
