//! The methods of the protocol, version 1.

mod said;
mod tools;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::commands::{self, Meaning};
use super::conversation::{Conversation, Until, rejected};
use super::peer::{ClientAbilities, Peer};
use super::{choices, prompt, replay};
use crate::agent::Command;
use crate::agent::stream::{PendingRequest, View};
use crate::app::model;
use crate::app::registry::{OpenRequest, Registry, RegistryError};
use crate::app::{ModelAt, Notice, SessionSettings};
use crate::config::tools::ToolServers;
use crate::rpc::{Request, RpcError};

/// The version of the protocol.
const VERSION: u64 = 1;
/// Sessions per page of a list.
const PAGE: usize = 50;

/// The server for one client; clones share it.
#[derive(Clone)]
pub(super) struct AcpServer {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    settings: SessionSettings,
    peer: Peer,
    open: Mutex<HashMap<String, Arc<Conversation>>>,
}

/// A request to open a session.
#[derive(Debug)]
struct Wanted {
    directory: PathBuf,
    others: Vec<PathBuf>,
    resume: Option<String>,
    servers: ToolServers,
    notes: Vec<String>,
}

impl AcpServer {
    pub(super) fn new(registry: Registry, settings: SessionSettings, peer: Peer) -> Self {
        let settings = SessionSettings {
            attended: true,
            // A model can be set later, but a named one must be available.
            model_at: if settings.model.is_some() {
                ModelAt::Start
            } else {
                ModelAt::IfAny
            },
            ..settings
        };
        Self {
            shared: Arc::new(Shared {
                registry,
                settings,
                peer,
                open: Mutex::default(),
            }),
        }
    }

    /// Answers `initialize`.
    pub(super) fn initialize(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        if params
            .get("protocolVersion")
            .and_then(Value::as_u64)
            .is_none()
        {
            return Err(RpcError::params("`protocolVersion` is a number"));
        }
        // A repeated one changes nothing.
        self.shared.peer.introduce(ClientAbilities::of(params));
        Ok(json!({
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": true, "sse": false },
                "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "additionalDirectories": {} },
            },
            "agentInfo": { "name": "sponde", "title": "Sponde", "version": env!("CARGO_PKG_VERSION") },
            // Keys of models are in the environment or in config.toml.
            "authMethods": [],
        }))
    }

    /// Answers a request, and returns what follows the answer.
    pub(super) async fn answer(&self, request: &Request, token: &CancellationToken) -> Answered {
        if self.shared.peer.client().is_none() {
            return Answered::failed(RpcError::invalid_request(
                "the first request is `initialize`",
            ));
        }
        let params = &request.params;
        match request.method.as_str() {
            "session/prompt" => self.prompt(params, token).await.into(),
            "session/new" => self.open(params, None).await.into(),
            "session/load" => self.reopen(params, true).await.into(),
            "session/resume" => self.reopen(params, false).await.into(),
            "session/list" => self.list(params).await.into(),
            "session/close" => self.close(params).await.into(),
            "session/set_mode" => self.set_mode(params).await.into(),
            "session/set_config_option" => self.set_option(params).await.into(),
            "authenticate" => Answered::failed(RpcError::params(
                "there are no authentication methods, and none is needed: open a session",
            )),
            other => Answered::failed(RpcError::no_method(other)),
        }
    }

    /// `session/cancel`.
    pub(super) async fn cancel(&self, params: &Map<String, Value>) {
        if let Ok(conversation) = self.conversation(params) {
            conversation.cancel().await;
        }
    }

    /// Handles the end of the client.
    pub(super) fn end(&self) {
        self.all().clear();
    }

    async fn open(
        &self,
        params: &Map<String, Value>,
        resume: Option<(String, bool)>,
    ) -> Result<Opened, RpcError> {
        let replays = resume.as_ref().is_some_and(|(_, replays)| *replays);
        let is_new = resume.is_none();
        let wanted = wanted(params, resume.map(|(id, _)| id))?;
        let Shared {
            registry,
            settings,
            peer,
            ..
        } = &*self.shared;
        let mut settings = settings.clone();
        settings.sandbox.add_dirs.extend(wanted.others);
        settings.tool_servers = wanted.servers;
        let request = OpenRequest {
            settings,
            directory: Some(wanted.directory),
            variables: Vec::new(),
            resume: wanted.resume,
        };
        let listing = model::listed(registry.context());
        let (opened, models) = tokio::join!(registry.open(request), listing);
        let (live, notices) = opened.map_err(|error| not_opened(&error))?;
        let mut notes = wanted.notes;
        notes.extend(notices.into_iter().filter_map(words));
        let name = peer
            .client()
            .map_or_else(|| "acp".to_owned(), |client| client.name.clone());
        let view = if is_new {
            View::new(live.handle().from_start(&name))
        } else {
            let (snapshot, client) = live.handle().join(&name).await.map_err(rejected)?;
            if replays {
                let main = live
                    .kernels
                    .first()
                    .map(|it| it.language.clone())
                    .unwrap_or_default();
                let transcript = snapshot.transcript();
                for update in replay::whole(&transcript, &main, &live.notebook, &live.directory) {
                    peer.update(&live.id, update).await;
                }
            }
            let restores = snapshot.state.pending.iter();
            let restores = restores.filter(|it| matches!(it, PendingRequest::Restore { .. }));
            notes.extend(restores.map(|_| {
                "The kernel is new and the variables of this session are gone. `/restore` runs its code again.".to_owned()
            }));
            let mut view = View::new(client);
            view.begin_with(&snapshot);
            view
        };
        let conversation = Arc::new(Conversation::new(live, view, peer.clone(), models, notes));
        let result = json!({
            "sessionId": conversation.live.id,
            "modes": conversation.modes().await?,
            "configOptions": conversation.options().await?,
        });
        self.all()
            .insert(conversation.live.id.clone(), Arc::clone(&conversation));
        Ok(Opened {
            result,
            conversation,
        })
    }

    async fn reopen(&self, params: &Map<String, Value>, replays: bool) -> Result<Opened, RpcError> {
        let id = text(params, "sessionId")?.to_owned();
        // The client starts over with this session.
        let before = self.all().remove(&id);
        drop(before);
        let mut opened = self.open(params, Some((id, replays))).await?;
        if let Value::Object(result) = &mut opened.result {
            result.remove("sessionId");
        }
        Ok(opened)
    }

    async fn list(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let cwd = params.get("cwd").and_then(Value::as_str).map(PathBuf::from);
        let cwd = cwd.map(|cwd| cwd.canonicalize().unwrap_or(cwd));
        let from = match params.get("cursor").filter(|it| !it.is_null()) {
            None => 0,
            Some(cursor) => {
                let number = cursor.as_str().and_then(|it| it.parse::<usize>().ok());
                number.ok_or_else(|| {
                    RpcError::params("this `cursor` is not one of ours: begin without one")
                })?
            }
        };
        let registry = self.shared.registry.clone();
        let found = tokio::task::spawn_blocking(move || registry.stored()).await;
        let found = found.map_err(|error| RpcError::internal(error.to_string()))?;
        let sessions = found.into_iter().filter_map(|found| {
            let begin = found.begin?;
            let is_meant = cwd.as_ref().is_none_or(|cwd| begin.cwd == *cwd);
            // Other sessions have no question yet.
            let title = found.summary.name().map(str::to_owned);
            (is_meant && found.summary.questions + found.summary.code_cells > 0).then(|| {
                json!({
                    "sessionId": found.id,
                    "cwd": begin.cwd,
                    "title": title,
                    "updatedAt": found.modified.to_string(),
                })
            })
        });
        let page: Vec<Value> = sessions.skip(from).take(PAGE + 1).collect();
        let mut result = json!({ "sessions": page.iter().take(PAGE).collect::<Vec<_>>() });
        if page.len() > PAGE {
            result["nextCursor"] = (from + PAGE).to_string().into();
        }
        Ok(result)
    }

    async fn close(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let conversation = self.conversation(params)?;
        let id = conversation.live.id.clone();
        conversation.cancel().await;
        self.all().remove(&id);
        let ended = self.shared.registry.end(&id).await;
        ended.map_err(|error| not_opened(&error))?;
        Ok(json!({}))
    }

    async fn set_mode(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let conversation = self.conversation(params)?;
        self.set_approval(&conversation, text(params, "modeId")?)
            .await?;
        let options = conversation.options().await?;
        let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
        self.shared.peer.update(&conversation.live.id, update).await;
        Ok(json!({}))
    }

    async fn set_option(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let conversation = self.conversation(params)?;
        let value = text(params, "value")?;
        match text(params, "configId")? {
            choices::MODE => {
                self.set_approval(&conversation, value).await?;
                let update =
                    json!({ "sessionUpdate": "current_mode_update", "currentModeId": value });
                self.shared.peer.update(&conversation.live.id, update).await;
            }
            choices::MODEL => conversation.set_model(value.to_owned()).await?,
            other => {
                return Err(RpcError::params(format!(
                    "there is no option `{other}`: there are `{}` and `{}`",
                    choices::MODE,
                    choices::MODEL
                )));
            }
        }
        Ok(json!({ "configOptions": conversation.options().await? }))
    }

    async fn set_approval(&self, conversation: &Conversation, mode: &str) -> Result<(), RpcError> {
        let approval = choices::approval(mode).ok_or_else(|| {
            RpcError::params(format!(
                "there is no mode `{mode}`: it is `on-risk`, `always` or `never`"
            ))
        })?;
        let by = self.shared.peer.client().map(|client| client.name.clone());
        let command = Command::SetApproval { approval };
        let sent = conversation
            .live
            .handle()
            .send(&by.unwrap_or_default(), command)
            .await;
        sent.map_err(rejected)?;
        Ok(())
    }

    async fn prompt(
        &self,
        params: &Map<String, Value>,
        token: &CancellationToken,
    ) -> Result<Value, RpcError> {
        let conversation = self.conversation(params)?;
        let Some(blocks) = params.get("prompt").and_then(Value::as_array).cloned() else {
            return Err(RpcError::params("`prompt` is a list of content blocks"));
        };
        let directory = conversation.live.directory.clone();
        let meaning = tokio::task::spawn_blocking(move || -> Result<Meaning, RpcError> {
            let question = prompt::question(&blocks, &directory)?;
            Ok(commands::meaning(question, |file| Path::new(file).exists()))
        });
        let meaning = meaning
            .await
            .map_err(|error| RpcError::internal(error.to_string()))??;
        let turn = |command, until| conversation.turn(command, until, token);
        let reason = match meaning {
            Meaning::Turn(command) => turn(command, Until::Idle).await?,
            Meaning::Undo { to, anyway } => {
                turn(Command::Undo { to, anyway }, Until::Undone).await?
            }
            Meaning::Restore => turn(Command::Restore { replay: true }, Until::Restored).await?,
            other => {
                let words = said::answer(&self.shared.settings, &conversation.live, other).await;
                for update in words {
                    self.shared.peer.update(&conversation.live.id, update).await;
                }
                "end_turn"
            }
        };
        Ok(json!({ "stopReason": reason }))
    }

    fn conversation(&self, params: &Map<String, Value>) -> Result<Arc<Conversation>, RpcError> {
        let id = text(params, "sessionId")?;
        let found = self.all().get(id).cloned();
        found.ok_or_else(|| {
            RpcError::new(
                -32002,
                404,
                format!("the session `{id}` is not open: use session/new or session/load"),
            )
        })
    }

    /// Consistent after every change.
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        self.shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that was opened for the client.
pub(super) struct Opened {
    result: Value,
    conversation: Arc<Conversation>,
}

/// The answer to a request, and what begins once the client has received it.
pub(super) struct Answered {
    pub(super) outcome: Result<Value, RpcError>,
    pub(super) begins: Option<Arc<Conversation>>,
}

impl Answered {
    fn failed(error: RpcError) -> Self {
        Self {
            outcome: Err(error),
            begins: None,
        }
    }
}

impl From<Result<Value, RpcError>> for Answered {
    fn from(outcome: Result<Value, RpcError>) -> Self {
        Self {
            outcome,
            begins: None,
        }
    }
}

impl From<Result<Opened, RpcError>> for Answered {
    fn from(opened: Result<Opened, RpcError>) -> Self {
        match opened {
            Ok(Opened {
                result,
                conversation,
            }) => Self {
                outcome: Ok(result),
                begins: Some(conversation),
            },
            Err(error) => Self::failed(error),
        }
    }
}

fn text<'a>(params: &'a Map<String, Value>, name: &str) -> Result<&'a str, RpcError> {
    let found = params.get(name).and_then(Value::as_str);
    found.ok_or_else(|| RpcError::params(format!("`{name}` is missing or no string")))
}

/// Parses the parameters of `session/new` and similar methods.
fn wanted(params: &Map<String, Value>, resume: Option<String>) -> Result<Wanted, RpcError> {
    let directory = directory(text(params, "cwd")?)?;
    if directory == Path::new("/") {
        return Err(RpcError::params(
            "the workspace would be `/`, all of this machine: open a project in the editor first",
        ));
    }
    let others = params
        .get("additionalDirectories")
        .and_then(Value::as_array);
    let others = others
        .into_iter()
        .flatten()
        .map(|it| directory_of(it.as_str()));
    let others = others.collect::<Result<_, _>>()?;
    let (servers, notes) = tools::servers(params);
    Ok(Wanted {
        directory,
        others,
        resume,
        servers,
        notes,
    })
}

fn directory_of(named: Option<&str>) -> Result<PathBuf, RpcError> {
    directory(named.ok_or_else(|| RpcError::params("`additionalDirectories` is a list of paths"))?)
}

fn directory(named: &str) -> Result<PathBuf, RpcError> {
    let path = Path::new(named);
    if !path.is_absolute() {
        return Err(RpcError::params(format!(
            "`{named}` is not an absolute path"
        )));
    }
    let found = path.canonicalize();
    let found = found.map_err(|error| {
        RpcError::params(format!("the directory `{named}` cannot be used: {error}"))
    })?;
    if found.is_dir() {
        Ok(found)
    } else {
        Err(RpcError::params(format!("`{named}` is not a directory")))
    }
}

fn not_opened(error: &RegistryError) -> RpcError {
    match error {
        RegistryError::Unknown(id) => {
            RpcError::new(-32002, 404, format!("there is no session `{id}`"))
        }
        RegistryError::Failed(failure) => RpcError::internal(match &failure.hint {
            Some(hint) => format!("{}; {hint}", failure.message),
            None => failure.message.clone(),
        }),
        other => RpcError::internal(other.to_string()),
    }
}

fn words(notice: Notice) -> Option<String> {
    match notice {
        Notice::Info(text) | Notice::Warning(text) => Some(text),
        Notice::StepBegan { .. } | Notice::StepOutput { .. } | Notice::StepEnded { .. } => None,
    }
}
