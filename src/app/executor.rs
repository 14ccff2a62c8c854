//! Sessions for programs that bring their own model. A session is opened by name on its first use; turns run one at a
//! time in the order of the requests; each run is a cell of the session's notebook like any other.
//!
//! All wires for programs are built on it (`mcp`, and the third-party wires in `server`): permissions, storage and
//! queueing are decided here, once. Nothing here knows a wire.

mod answering;
mod result;
mod saved;
mod turn;
mod undoing;
mod variables;
mod workspace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::registry::{LiveSession, OpenRequest, Registry, RegistryError};
use super::{ModelAt, Notice, SessionSettings};
use crate::agent::stream::Rejection;
use crate::app::exported::Exported;
use crate::kernel::Network;
use crate::session::{CodeCell, Transcript};
pub use answering::Unattended;
pub use result::{
    CellResult, CodeError, OutputFile, SharedPreparer, ShownOutput, ending_of, file_of, shown,
    visuals,
};
pub use saved::{SavedPicture, SavedRun};
pub use turn::{Turn, TurnOutcome};
pub use undoing::UndoOutcome;
pub use variables::Looked;
pub use workspace::{FileError, FileKind, Workspace, lines_of};

/// How many names are remembered.
const NAMES: usize = 1000;
/// Maximum characters of a name.
const NAME: usize = 64;
/// The session of a caller that names no session.
pub const DEFAULT: &str = "default";

/// Sessions by name; clones share them.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    settings: SessionSettings,
    directory: PathBuf,
    named: Mutex<BTreeMap<String, Arc<Named>>>,
}

/// A name, and its session once that was opened.
#[derive(Default)]
struct Named {
    id: tokio::sync::Mutex<Option<String>>,
    turn: Arc<tokio::sync::Mutex<()>>,
    used: Mutex<Option<Instant>>,
}

/// A session as a program sees it.
#[derive(Clone)]
pub struct ProgramSession {
    /// The program's name for it.
    pub name: String,
    /// The session.
    pub live: Arc<LiveSession>,
    /// Notes about its start, if this call opened it.
    pub notes: Vec<String>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Why a program's request failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The name is invalid.
    #[error("`{0}` is not a name for a session")]
    Name(String),
    /// The name is taken.
    #[error("there is already a session `{0}`")]
    Taken(String),
    /// Too many names are in use.
    #[error("{NAMES} sessions with a name run, and there is no room for more")]
    TooMany,
    /// No session of this name has been used.
    #[error("there is no session `{name}`; there is {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// The session could not be opened.
    #[error("the session could not be opened: {0}")]
    NotOpened(#[from] RegistryError),
    /// Other clients use the session.
    #[error(
        "the session is busy with what another client runs, and was not free within {seconds} s"
    )]
    Busy {
        /// How long we waited.
        seconds: u64,
    },
    /// The model is not available; the previous one stays.
    #[error("the model `{model}` cannot be used: {message}")]
    Model {
        /// The requested model.
        model: String,
        /// The obstacle.
        message: String,
    },
    /// The session rejected the command.
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

impl ExecutorError {
    /// A hint for the person.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name(_) => {
                format!("a name has 1 to {NAME} letters, digits, dots, dashes and underscores")
            }
            Self::Taken(_) => "choose another name, or use that session".to_owned(),
            Self::TooMany => "use a session again instead of a new one".to_owned(),
            Self::Unknown { .. } => "run code in a session to open it".to_owned(),
            Self::NotOpened(RegistryError::Failed(failure)) => return failure.hint.clone(),
            Self::NotOpened(_) | Self::Rejected(_) => return None,
            Self::Model { .. } => {
                "leave the model out for the one of the server, or name one that it lists"
                    .to_owned()
            }
            Self::Busy { .. } => "try again, or use another session".to_owned(),
        })
    }
}

/// Settings of a new session, in addition to the common ones.
#[derive(Debug, Default)]
pub struct Opening {
    /// Its main kernel, by name or language.
    pub kernel: Option<String>,
    /// Its directory, if not the executor's.
    pub directory: Option<PathBuf>,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
    /// Whether its code gets no network, whatever the settings say.
    pub is_offline: bool,
}

impl Executor {
    /// Sessions of `registry` with `settings`, working in `directory`.
    pub fn new(registry: Registry, settings: SessionSettings, directory: PathBuf) -> Self {
        Self {
            shared: Arc::new(Shared {
                registry,
                settings: SessionSettings {
                    // Code that asks for input gets it from the program, or an error.
                    attended: true,
                    model_at: ModelAt::Wish,
                    judges_clients: true,
                    ..settings
                },
                directory,
                named: Mutex::default(),
            }),
        }
    }

    /// The sessions of the process.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Settings of its sessions.
    pub fn settings(&self) -> &SessionSettings {
        &self.shared.settings
    }

    /// The directory that its sessions work in.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// The files in that directory, with the permissions of the sessions' code.
    pub fn workspace(&self) -> Workspace {
        let settings = &self.shared.settings.sandbox;
        let config = &self.shared.registry.context().config;
        Workspace::new(&self.shared.directory, settings.level.or(config.sandbox))
    }

    /// The session `name`, opened if it does not exist. A session that has ended is resumed, without its variables.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn session(&self, name: &str) -> Result<ProgramSession, ExecutorError> {
        self.open(name, Opening::default()).await
    }

    /// A new session with an unused name.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn new_session(
        &self,
        name: Option<&str>,
        opening: Opening,
    ) -> Result<ProgramSession, ExecutorError> {
        let name = match name {
            Some(name) if self.names().contains_key(name) => {
                return Err(ExecutorError::Taken(name.to_owned()));
            }
            Some(name) => name.to_owned(),
            None => self.free_name(),
        };
        self.open(&name, opening).await
    }

    /// The session `name`, opened with `opening` if it is not running.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn open(
        &self,
        name: &str,
        opening: Opening,
    ) -> Result<ProgramSession, ExecutorError> {
        let named = self.entry(name)?;
        let mut id = named.id.lock().await;
        let session = |live, notes| ProgramSession {
            name: name.to_owned(),
            live,
            notes,
            turn: Arc::clone(&named.turn),
        };
        let registry = &self.shared.registry;
        if let Some(live) = id.as_deref().and_then(|id| registry.get(id)) {
            live.touch();
            return Ok(session(live, Vec::new()));
        }
        let before = id.take();
        let goes_on = before.is_some();
        let opened = registry.open(self.request(before.clone(), opening)).await;
        let (live, notices) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // The next attempt resumes it too; a name that never had a session becomes free again.
                id.clone_from(&before);
                drop(id);
                if before.is_none() {
                    self.names().remove(name);
                }
                return Err(error.into());
            }
        };
        *id = Some(live.id.clone());
        let mut notes: Vec<String> = notices.into_iter().filter_map(words).collect();
        if goes_on {
            notes.push(format!(
                "The session `{name}` had ended and continues: its notebook and files are there, its variables are gone."
            ));
        }
        Ok(session(live, notes))
    }

    fn request(&self, resume: Option<String>, opening: Opening) -> OpenRequest {
        let Shared {
            settings,
            directory,
            ..
        } = &*self.shared;
        let kernels = match opening.kernel {
            Some(kernel) => vec![kernel],
            None => settings.kernels.clone(),
        };
        let mut settings = SessionSettings {
            kernels,
            ..settings.clone()
        };
        if opening.is_offline {
            settings.sandbox.network = Some(Network::Off);
        }
        OpenRequest {
            settings,
            directory: Some(opening.directory.unwrap_or_else(|| directory.clone())),
            variables: opening.variables,
            resume,
        }
    }

    /// The session `name` if it is running.
    ///
    /// # Errors
    /// [`ExecutorError::Unknown`].
    pub fn running(&self, name: &str) -> Result<ProgramSession, ExecutorError> {
        let running = self.list();
        let known: Vec<String> = running.iter().map(|it| it.name.clone()).collect();
        let found = running.into_iter().find(|it| it.name == name);
        found.ok_or_else(|| ExecutorError::Unknown {
            name: name.to_owned(),
            known: if known.is_empty() {
                vec!["none yet".to_owned()]
            } else {
                known
            },
        })
    }

    /// The running sessions, by name.
    pub fn list(&self) -> Vec<ProgramSession> {
        let named: Vec<(String, Arc<Named>)> = {
            let named = self.names();
            let each = named.iter();
            each.map(|(name, named)| (name.clone(), Arc::clone(named)))
                .collect()
        };
        let mut running = Vec::new();
        for (name, named) in named {
            // A session that is being opened is not running yet.
            let Ok(id) = named.id.try_lock().map(|id| id.clone()) else {
                continue;
            };
            let live = id.and_then(|id| self.shared.registry.get(&id));
            running.extend(live.map(|live| ProgramSession {
                name,
                live,
                notes: Vec::new(),
                turn: Arc::clone(&named.turn),
            }));
        }
        running
    }

    /// Ends the session `name`; its files stay, and the name becomes free.
    ///
    /// # Errors
    /// [`ExecutorError::Unknown`].
    pub async fn end(&self, name: &str) -> Result<(), ExecutorError> {
        let session = self.running(name)?;
        self.names().remove(name);
        self.shared.registry.end(&session.live.id).await?;
        Ok(())
    }

    /// Ends the session `name` if it is running or being opened, and frees the name; its files stay.
    pub async fn forget(&self, name: &str) {
        let Some(named) = self.names().remove(name) else {
            return;
        };
        let id = named.id.lock().await.take();
        if let Some(id) = id {
            // If it has just ended, that is what we want.
            let _ = self.shared.registry.end(&id).await;
        }
    }

    fn entry(&self, name: &str) -> Result<Arc<Named>, ExecutorError> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME || !name.chars().all(is_fit) {
            return Err(ExecutorError::Name(name.chars().take(NAME).collect()));
        }
        let mut names = self.names();
        if !names.contains_key(name) && names.len() >= NAMES {
            let runs = |id: &str| self.shared.registry.get(id).is_some();
            let ended = longest_ended(&names, runs).ok_or(ExecutorError::TooMany)?;
            names.remove(&ended);
        }
        let entry = Arc::clone(names.entry(name.to_owned()).or_default());
        let used = entry.used.lock();
        *used.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(entry)
    }

    fn free_name(&self) -> String {
        let names = self.names();
        let mut numbers = 2..;
        let free = numbers.find(|number| !names.contains_key(&format!("session-{number}")));
        format!("session-{}", free.unwrap_or(0))
    }

    /// Consistent after every change.
    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Named>>> {
        let named = self.shared.named.lock();
        named.unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgramSession {
    /// The current state of a cell.
    pub async fn cell(&self, id: &str) -> Option<CodeCell> {
        let id = id.to_owned();
        let look = move |transcript: &Transcript| transcript.code(&id).cloned();
        self.live.handle().look(look).await.ok().flatten()
    }

    /// The whole conversation as a file; `None` if the session has ended.
    pub async fn export(&self, format: Exported) -> Option<String> {
        let transcript = self.live.handle().look(Clone::clone).await.ok()?;
        let name = self.name.clone();
        let text = tokio::task::spawn_blocking(move || format.render(&transcript, &name));
        text.await.ok()
    }

    /// The language of its main kernel.
    pub fn language(&self) -> &str {
        let main = self.live.kernels.first();
        main.map_or("python", |kernel| &kernel.language)
    }
}

/// The least recently used name that has no holder and whose session has ended.
fn longest_ended(
    names: &BTreeMap<String, Arc<Named>>,
    runs: impl Fn(&str) -> bool,
) -> Option<String> {
    let has_ended = |it: &Arc<Named>| {
        let id = it.id.try_lock();
        Arc::strong_count(it) == 1 && id.is_ok_and(|id| !id.as_deref().is_some_and(&runs))
    };
    let ended = names.iter().filter(|(_, it)| has_ended(it));
    let used = |it: &Named| *it.used.lock().unwrap_or_else(PoisonError::into_inner);
    let longest = ended.min_by_key(|(_, it)| used(it));
    longest.map(|(name, _)| name.clone())
}

fn words(notice: Notice) -> Option<String> {
    match notice {
        Notice::Info(text) | Notice::Warning(text) => Some(text),
        Notice::StepBegan { .. } | Notice::StepOutput { .. } | Notice::StepEnded { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_session_that_ended_long_ago_makes_room() {
        let now = Instant::now();
        let of_id = |id: &str, minutes: u64| {
            let used = now + std::time::Duration::from_mins(minutes);
            Arc::new(Named {
                id: tokio::sync::Mutex::new(Some(id.to_owned())),
                used: Mutex::new(Some(used)),
                ..Named::default()
            })
        };
        let held = of_id("held", 1);
        let mut names = BTreeMap::from([
            ("runs".to_owned(), of_id("1", 0)),
            ("held".to_owned(), Arc::clone(&held)),
            ("new".to_owned(), of_id("2", 3)),
            ("old".to_owned(), of_id("3", 2)),
        ]);
        let runs = |id: &str| id == "1";
        assert_eq!(longest_ended(&names, runs).as_deref(), Some("old"));
        names.remove("old");
        assert_eq!(longest_ended(&names, runs).as_deref(), Some("new"));
        names.remove("new");
        assert_eq!(longest_ended(&names, runs), None);
        drop(held);
        assert_eq!(longest_ended(&names, runs).as_deref(), Some("held"));
    }
}
