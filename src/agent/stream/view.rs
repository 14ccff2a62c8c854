//! A session as a screen shows it: edits and events merged into one list of [`EventKind`]s, without this client's own
//! actions.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use super::{Body, Client, PendingRequest, Received, Rejection, Snapshot};
use crate::agent::event::{Command, Event, EventKind, KernelOffer, OutputChange};
use crate::agent::query::{Query, QueryAnswer, QueryError};
use crate::agent::stream::snapshot::TurnPhase;
use crate::session::CellStatus;
use crate::session::limits::OutputFolderPath;
use crate::session::numbered::CellPlace;
use crate::session::sql;
use crate::session::transcript::Author;
use crate::session::{CodeStatus, Edit, Transcript};

/// Queued events beyond which outputs are dropped while a person thinks.
const READY: usize = 1000;
/// Maximum queued events.
const MOST: usize = 20_000;

/// One front end's view of a session.
#[derive(Debug)]
pub struct View {
    client: Client,
    /// Events not shown yet.
    ready: VecDeque<EventKind>,
    sequence: u64,
    /// The main kernel's language.
    language: String,
    /// The notebook's directory.
    directory: PathBuf,
    /// Cells whose text was shown while it streamed, before the edit that adds them.
    streamed: HashSet<String>,
    /// Calls that cannot run, so there is no code to show.
    broken: HashSet<String>,
    /// `In [n]` numbers of running cells.
    counts: HashMap<String, i64>,
    /// Whether a turn is running, according to the events shown.
    in_turn: bool,
    /// Whether the session has ended, according to the items received.
    is_over: bool,
    /// Awaited answers follow these items.
    answers_after: HashMap<Wish, u64>,
}

impl View {
    /// Whether a turn is running, according to the items received.
    pub fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// A view of all that `client` receives.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            ready: VecDeque::new(),
            sequence: 0,
            language: String::new(),
            directory: PathBuf::new(),
            streamed: HashSet::new(),
            broken: HashSet::new(),
            counts: HashMap::new(),
            in_turn: false,
            is_over: false,
            answers_after: HashMap::new(),
        }
    }

    /// The next event to show; `None` when the session has ended. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            if let Some(kind) = self.ready.pop_front() {
                self.sequence += 1;
                return Some(Event {
                    sequence: self.sequence,
                    kind,
                });
            }
            let received = self.client.next().await?;
            self.take(&received);
        }
    }

    /// Whether the session is still running, as far as [`View::until`] knows.
    pub fn is_live(&self) -> bool {
        !self.is_over
    }

    /// The next event, if already received.
    pub fn peek(&self) -> Option<&EventKind> {
        self.ready.front()
    }

    /// Waits until an event satisfies `is_it`; it and all events before it stay queued. Never resolves once too many
    /// events are queued. Cancel-safe.
    pub async fn until(&mut self, is_it: impl Fn(&EventKind) -> bool) {
        let mut looked_at = 0;
        loop {
            if self.ready.iter().skip(looked_at).any(&is_it) {
                return;
            }
            if self.ready.len() >= READY {
                // The notebook has the outputs.
                self.ready
                    .retain(|event| !matches!(event, EventKind::Output { .. }));
            }
            looked_at = self.ready.len();
            if looked_at >= MOST {
                return std::future::pending().await;
            }
            let Some(received) = self.client.next().await else {
                // The next receive detects the end.
                self.is_over = true;
                return;
            };
            self.take(&received);
        }
    }

    /// Receives until the session has ended; all events stay queued. Cancel-safe.
    pub async fn until_over(&mut self) {
        while self.is_live() {
            self.until(|_| false).await;
        }
    }

    /// The place of a cell in the session, where that is known.
    pub async fn place_of(&mut self, cell: &str) -> Option<CellPlace> {
        self.client.place_of(cell).await
    }

    /// Sends a query to the session; items that arrive in the meantime are received later.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn ask(&mut self, query: Query) -> Result<QueryAnswer, QueryError> {
        self.client.ask(query).await
    }

    /// Sends a command.
    ///
    /// # Errors
    /// The [`Rejection`].
    pub async fn send(&mut self, command: Command) -> Result<(), Rejection> {
        let wish = Wish::of(&command);
        let accepted = self.client.send(command).await?;
        self.in_turn |= wish == Some(Wish::Turn);
        // Earlier events answer somebody else.
        if let Some(wish) = wish {
            self.answers_after.insert(wish, accepted.sequence);
            self.ready
                .retain(|event| Wish::answered_by(event) != Some(wish));
        }
        Ok(())
    }

    /// Takes a snapshot as existing state: only pending questions are shown.
    pub fn begin_with(&mut self, snapshot: &Snapshot) {
        let state = &snapshot.state;
        self.is_in(&state.kernels, &state.notebook);
        self.in_turn = state.turn != TurnPhase::Idle;
        let main = state.kernels.first();
        self.ready.push_back(EventKind::SessionStarted {
            model: state.model.clone(),
            kernel: main.map(|it| it.kernel.clone()).unwrap_or_default(),
            kernels: state.kernels.clone(),
            notebook: state.notebook.clone(),
            instructions: state.instructions.clone(),
        });
        self.show_pending(snapshot);
    }

    fn is_in(&mut self, kernels: &[KernelOffer], notebook: &str) {
        let main = kernels.first();
        self.language = main.map(|it| it.language.clone()).unwrap_or_default();
        let directory = Path::new(notebook).parent();
        self.directory = directory.map(Path::to_owned).unwrap_or_default();
    }

    /// Resolves a path that is relative to the notebook.
    fn beside(&self, file: &str) -> String {
        self.directory.join(file).display().to_string()
    }

    fn take(&mut self, received: &Received) {
        match received {
            Received::Item(item) => match &item.body {
                Body::Event { event } => {
                    match event {
                        EventKind::SessionStarted {
                            kernels, notebook, ..
                        } => self.is_in(kernels, notebook),
                        EventKind::Text { cell, .. } => {
                            self.streamed.insert(cell.clone());
                        }
                        EventKind::TurnFinished { .. } => self.in_turn = false,
                        // Only the audit log needs these.
                        EventKind::CodeApproved { .. } | EventKind::ModelAsked { .. } => return,
                        // The client that decided already knows.
                        EventKind::ApprovalResolved { by, .. }
                        | EventKind::ApprovalChanged { by, .. }
                        | EventKind::ContinueResolved { by, .. }
                            if by == self.client.name() =>
                        {
                            return;
                        }
                        _ => {}
                    }
                    let wish = Wish::answered_by(event);
                    let after = wish.and_then(|wish| self.answers_after.get(&wish));
                    if after.is_none_or(|after| item.id.sequence > *after) {
                        self.ready.push_back(event.clone());
                    }
                }
                Body::Edit { by, edit, .. } => {
                    let is_own = by.as_deref() == Some(self.client.name());
                    self.show_edit(edit, is_own);
                }
            },
            Received::Snapshot(snapshot) => self.catch_up(snapshot),
        }
    }

    fn show_edit(&mut self, edit: &Edit, is_own: bool) {
        let shown = match edit {
            Edit::Say { cell, text } if !is_own => {
                self.in_turn = true;
                EventKind::UserMessage {
                    cell: cell.clone(),
                    text: text.clone(),
                }
            }
            Edit::AppendText { cell, .. } if self.streamed.remove(cell) => return,
            Edit::AppendText { cell, text, .. } => EventKind::Text {
                cell: cell.clone(),
                text: text.clone(),
            },
            Edit::Propose {
                cell,
                author: Author::Model {
                    broken: Some(_), ..
                },
                ..
            } => {
                self.broken.insert(cell.clone());
                return;
            }
            // The set-up cell for SQL is only for the notebook.
            Edit::Propose { cell, source, .. } if sql::is_setup(source) => {
                self.broken.insert(cell.clone());
                return;
            }
            Edit::Finish { cell, .. } if self.broken.remove(cell) => return,
            Edit::Propose {
                cell,
                author,
                language,
                source,
            } => {
                let is_typed = is_own && *author == Author::Person;
                self.in_turn |= *author == Author::Person;
                if is_typed {
                    return;
                }
                EventKind::CodeProposed {
                    cell: cell.clone(),
                    language: language.clone().unwrap_or_else(|| self.language.clone()),
                    source: source.clone(),
                }
            }
            Edit::Change { cell, source } if !is_own => EventKind::CodeProposed {
                cell: cell.clone(),
                language: self.language.clone(),
                source: source.clone(),
            },
            Edit::Start { cell, .. } => EventKind::CodeStarted { cell: cell.clone() },
            Edit::Number { cell, count } => {
                self.counts.insert(cell.clone(), *count);
                return;
            }
            // Input that the person types for code is already on their screen.
            Edit::Emit { cell, output } if !is_own => EventKind::Output {
                cell: cell.clone(),
                change: OutputChange::from(output.clone()),
            },
            Edit::Pictures { cell, places } => {
                let files = places.iter().flatten();
                let file = |place: &OutputFolderPath| self.beside(&place.beside_notebook);
                let files: Vec<String> = files.map(file).collect();
                if files.is_empty() {
                    return;
                }
                EventKind::PicturesSaved {
                    cell: cell.clone(),
                    files,
                }
            }
            Edit::Files { cell, files } => EventKind::FilesChanged {
                cell: cell.clone(),
                files: files.clone(),
            },
            Edit::Read {
                cell,
                arguments,
                reading,
            } => EventKind::OutputRead {
                cell: cell.clone(),
                arguments: arguments.clone(),
                answer: reading.answer.clone(),
            },
            Edit::Finish { cell, status, .. } => EventKind::CodeFinished {
                cell: cell.clone(),
                status: CellStatus::from(status),
                count: self.counts.remove(cell),
            },
            _ => return,
        };
        self.ready.push_back(shown);
    }

    /// Items are gone: shows their combined effect from the snapshot.
    fn catch_up(&mut self, snapshot: &Snapshot) {
        self.is_in(&snapshot.state.kernels, &snapshot.state.notebook);
        let transcript = snapshot.transcript();
        if let Some((cell, shown)) = latest_outputs(&transcript) {
            let clear = OutputChange::Clear { wait: false };
            for change in std::iter::once(clear).chain(shown.0) {
                let cell = cell.clone();
                self.ready.push_back(EventKind::Output { cell, change });
            }
            if let Some(status) = shown.1 {
                self.ready.push_back(EventKind::CodeFinished {
                    cell,
                    status: CellStatus::from(&status),
                    count: None,
                });
            }
        }
        self.show_pending(snapshot);
        let is_over = snapshot.state.turn == TurnPhase::Idle;
        self.in_turn |= !is_over;
        if is_over
            && std::mem::take(&mut self.in_turn)
            && let Some(end) = &snapshot.state.last_turn
        {
            self.ready.push_back((**end).clone());
        }
    }

    /// Shows proposed code, because a person must see code to decide about it.
    fn show_proposed(&mut self, snapshot: &Snapshot, cell: &str) {
        let transcript = snapshot.transcript();
        let Some((found, code)) = transcript
            .cell(cell)
            .and_then(|found| Some((found, found.code()?)))
        else {
            return;
        };
        let language = code.language.clone();
        self.ready.push_back(EventKind::CodeProposed {
            cell: cell.to_owned(),
            language: language.unwrap_or_else(|| self.language.clone()),
            source: found.source.clone(),
        });
    }

    fn show_pending(&mut self, snapshot: &Snapshot) {
        for pending in &snapshot.state.pending {
            if let PendingRequest::Approval { cell, .. } = pending {
                self.show_proposed(snapshot, cell);
            }
            self.ready.push_back(match pending.clone() {
                PendingRequest::Approval {
                    cell,
                    findings,
                    reason,
                } => EventKind::ApprovalRequested {
                    cell,
                    findings,
                    reason,
                },
                PendingRequest::Input {
                    cell,
                    prompt,
                    password,
                } => EventKind::InputRequested {
                    cell,
                    prompt,
                    password,
                },
                PendingRequest::Continue { end } => EventKind::ContinueRequested { end },
                // The client that restores the session asks about it.
                PendingRequest::Restore { .. } => continue,
            });
        }
    }
}

/// A command whose sender waits for an answering event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wish {
    Turn,
    Model,
    Undo,
}

impl Wish {
    fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Submit { .. }
            | Command::Plan { .. }
            | Command::Run { .. }
            | Command::Compact
            | Command::Suggest => Some(Self::Turn),
            Command::SetModel { .. } => Some(Self::Model),
            Command::Undo { .. } | Command::Checkpoints => Some(Self::Undo),
            _ => None,
        }
    }

    fn answered_by(event: &EventKind) -> Option<Self> {
        match event {
            EventKind::TurnFinished { .. } => Some(Self::Turn),
            EventKind::ModelChanged { .. } | EventKind::ModelUnchanged { .. } => Some(Self::Model),
            EventKind::Undone(_)
            | EventKind::UndoAsks { .. }
            | EventKind::UndoRefused { .. }
            | EventKind::Checkpoints { .. } => Some(Self::Undo),
            _ => None,
        }
    }
}

/// Changes that produce the outputs of the latest code cell, and how it ended, if it has.
type LatestOutputs = (String, (Vec<OutputChange>, Option<CodeStatus>));

fn latest_outputs(transcript: &Transcript) -> Option<LatestOutputs> {
    let mut cells = transcript.cells().iter().rev();
    let (cell, code) = cells.find_map(|cell| Some((cell, cell.code()?)))?;
    let (outputs, clears_next) = code.outputs.to_events();
    let mut changes: Vec<OutputChange> = outputs
        .into_iter()
        .map(|(output, display_id)| OutputChange::Append { output, display_id })
        .collect();
    changes.extend(clears_next.then_some(OutputChange::Clear { wait: true }));
    let ended = !matches!(code.status, CodeStatus::Proposed | CodeStatus::Running);
    let status = ended.then(|| code.status.clone());
    Some((cell.id.clone(), (changes, status)))
}
