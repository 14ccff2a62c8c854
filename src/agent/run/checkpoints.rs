//! Makes a [`Point`] before each cell: in the background while the model writes, so a cell rarely waits for it. No
//! point is made if nothing has run since the last one.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::watching::own_files;
use super::{AgentOptions, MAIN, Session, TurnEnd, now};
use crate::agent::undo::{Moment, Point, SAVED_BYTES, UndoOptions, Way, Workspace, surplus};
use crate::kernel::checkpoint::{CheckpointId, Checkpoints};
use crate::kernel::{Kernel, NoCheckpoint};
use crate::task::{self, Task};

/// Maximum points.
const POINTS: usize = 50;
/// Maximum bytes of all files with variables.
const ALL_SAVED_BYTES: u64 = 1 << 30;
/// How long a cell waits for its point; its parts have their own limits.
const POINT_WITHIN: Duration = Duration::from_mins(1);

/// The history of a session.
pub(super) struct UndoHistory {
    pub(super) options: UndoOptions,
    pub(super) checkpoints: Checkpoints,
    /// Locked only where blocking is allowed.
    pub(super) workspace: Arc<Mutex<Workspace>>,
    /// Oldest first.
    pub(super) points: Vec<Point>,
    /// How to restore the current variables; `None` if something has run since the last point.
    pub(super) now: Option<Way>,
    /// How often undo was used.
    pub(super) undone: u32,
    pending: Option<Pending>,
    taken: u64,
    /// Whether code has run in this turn, in any kernel.
    ran: bool,
}

/// A point that is being made.
struct Pending {
    cell: Option<String>,
    starts_turn: bool,
    at: String,
    made: oneshot::Receiver<Made>,
    /// The time limit for waiting, once something waits for it.
    until: Option<Instant>,
    _task: Task,
}

/// A finished point.
pub(super) struct Made {
    way: Way,
    files: Option<Arc<Moment>>,
}

impl UndoHistory {
    pub(super) fn new(options: &AgentOptions) -> Option<Self> {
        let undo = options.undo.clone()?;
        let main = &options.kernel;
        let own = own_files(options);
        let files = undo.dir.join("files");
        let workspace = Workspace::new(main.cwd.clone(), files, own, undo.files);
        Some(Self {
            checkpoints: Checkpoints::new(&main.socket_root),
            workspace: Arc::new(Mutex::new(workspace)),
            points: Vec::new(),
            // The kernel has not run anything yet.
            now: Some(Way::Fresh),
            undone: 0,
            pending: None,
            taken: 0,
            ran: false,
            options: undo,
        })
    }

    /// Begins a point; `kernel` is the main one, if it is available and idle.
    fn begin(&mut self, cell: Option<String>, starts_turn: bool, kernel: Option<Kernel>) {
        if self.pending.is_some() {
            return;
        }
        self.taken += 1;
        let maker = Maker {
            checkpoints: self.checkpoints.clone(),
            workspace: Arc::clone(&self.workspace),
            variables: self.options.dir.join(format!("variables-{}", self.taken)),
            options: self.options.clone(),
            known: self.now.clone(),
            copies: self.copies(),
            moments: self
                .points
                .iter()
                .filter_map(|it| it.files.clone())
                .collect(),
            kernel,
        };
        let (sender, made) = oneshot::channel();
        self.pending = Some(Pending {
            cell,
            starts_turn,
            at: now(),
            made,
            until: None,
            _task: task::spawn("checkpoint", maker.make(starts_turn, sender)),
        });
    }

    /// Takes the pending point if it is ready. Returns whether none is pending any more; otherwise waits for it
    /// from now on ([`next_point`]).
    fn is_settled(&mut self, cell: Option<&str>) -> bool {
        let Some(pending) = &mut self.pending else {
            return true;
        };
        let made = match pending.made.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Closed) => no_point("it could not be made"),
            Err(TryRecvError::Empty) => {
                pending
                    .until
                    .get_or_insert_with(|| Instant::now() + POINT_WITHIN);
                return false;
            }
        };
        self.settle(cell, made);
        true
    }

    /// Stores the pending point. `cell` is the cell that follows it, if any.
    fn settle(&mut self, cell: Option<&str>, made: Made) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        self.now = Some(made.way.clone());
        let Some(cell) = pending.cell.or_else(|| cell.map(str::to_owned)) else {
            // No cell followed; the next point would be the same.
            return;
        };
        self.points.push(Point {
            number: self.taken,
            cell,
            starts_turn: pending.starts_turn,
            at: pending.at,
            way: made.way,
            files: made.files,
            end: None,
        });
        if self.points.len() > POINTS {
            self.points.remove(0);
        }
        self.thin_files();
        self.forget_unused();
    }

    /// The copies that points refer to, oldest first, and whether each belongs to the start of a turn.
    fn copies(&self) -> Vec<(CheckpointId, bool)> {
        let mut copies: Vec<(CheckpointId, bool)> = Vec::new();
        for point in &self.points {
            let Some(id) = point.way.copy() else { continue };
            match copies.iter_mut().find(|(of, _)| *of == id) {
                Some((_, starts)) => *starts |= point.starts_turn,
                None => copies.push((id, point.starts_turn)),
            }
        }
        copies
    }

    /// Drops the oldest files with variables if they exceed the limit.
    fn thin_files(&mut self) {
        let (mut files, mut bytes) = (0, 0);
        for point in self.points.iter_mut().rev() {
            if let Way::Saved { saved, .. } = &point.way {
                files += 1;
                bytes += saved.bytes;
                if files > self.options.checkpoints.max(1) || bytes > ALL_SAVED_BYTES {
                    point.way = Way::Cells {
                        why: "later ones took its place".to_owned(),
                    };
                }
            }
        }
    }

    /// Ends the copies and removes the files that no point needs any more.
    pub(super) fn forget_unused(&mut self) {
        let ways = || self.points.iter().map(|point| &point.way).chain(&self.now);
        for id in self.checkpoints.list() {
            if !ways().any(|way| way.copy() == Some(id)) {
                self.checkpoints.forget(id);
            }
        }
        let wanted =
            |path: &Path| ways().any(|way| matches!(way, Way::Saved { file, .. } if file == path));
        for entry in std::fs::read_dir(&self.options.dir)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.is_file() && !wanted(&path) {
                // A file that cannot be removed now is removed with the directory.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Drop for UndoHistory {
    fn drop(&mut self) {
        // Copies of the person's files are useless once the session is over.
        let _ = std::fs::remove_dir_all(&self.options.dir);
    }
}

impl Session {
    /// A turn begins with this cell.
    pub(super) fn turn_begins(&mut self, cell: &str) {
        self.begin_point(Some(cell.to_owned()), true);
    }

    /// Makes a point while the model is being asked, if anything has run.
    pub(super) fn between_cells(&mut self) {
        if self
            .undo_history
            .as_ref()
            .is_some_and(|past| past.now.is_none())
        {
            self.begin_point(None, false);
        }
    }

    fn begin_point(&mut self, cell: Option<String>, starts_turn: bool) {
        let kernel = self.kernels.ready(MAIN).cloned();
        if let Some(past) = &mut self.undo_history {
            past.begin(cell, starts_turn, kernel);
        }
    }

    /// The kernel at `index` is about to run this cell. Returns whether it can; otherwise its point is still
    /// being made.
    pub(super) fn before_cell(&mut self, cell: &str, index: usize) -> bool {
        if index == MAIN {
            self.between_cells();
        }
        let Some(past) = &mut self.undo_history else {
            return true;
        };
        if !past.is_settled(Some(cell)) {
            return false;
        }
        past.ran = true;
        if index == MAIN {
            past.now = None;
        }
        true
    }

    /// Handles the finished point that a cell, or the end of a turn, waits for.
    pub(super) async fn point_made(&mut self, made: Made) {
        let waiting = self
            .cells
            .running
            .take_if(|running| running.execution.is_none());
        if let Some(past) = &mut self.undo_history {
            past.settle(waiting.as_ref().map(|running| &*running.cell), made);
        }
        let ends = self.asking.following.is_none();
        if let Some(end) = self.ending.take_if(|_| ends) {
            self.finish_turn(end).await;
        } else if let Some(running) = waiting
            && let Some(input) = self.execute(running.cell).await
        {
            self.drive(input).await;
        }
    }

    /// Gives up the awaited point.
    pub(super) fn give_up_point(&mut self, cell: Option<&str>) {
        if let Some(past) = &mut self.undo_history {
            past.settle(cell, no_point("it was interrupted"));
        }
    }

    /// The kernel of the latest cell has lost all variables.
    pub(super) fn variables_are_gone(&mut self) {
        if let Some(past) = self
            .undo_history
            .as_mut()
            .filter(|_| self.cells.current == MAIN)
        {
            past.now = Some(Way::Fresh);
        }
    }

    /// Ends the turn once no point is pending any more.
    pub(super) async fn end_turn(&mut self, end: TurnEnd) {
        let past = self.undo_history.as_mut();
        if past.is_none_or(|past| past.is_settled(None)) {
            self.finish_turn(end).await;
        } else {
            self.ending = Some(end);
        }
    }

    /// The turn is over: later changes are not part of it.
    pub(super) async fn after_turn(&mut self) {
        let Some(past) = &mut self.undo_history else {
            return;
        };
        if !std::mem::take(&mut past.ran) {
            return;
        }
        let workspace = Arc::clone(&past.workspace);
        let seen = tokio::task::spawn_blocking(move || {
            workspace
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .look()
        })
        .await;
        if let Some(point) = past.points.iter_mut().rfind(|point| point.starts_turn) {
            point.end = seen.ok();
        }
    }
}

/// The awaited point; never resolves if nothing waits for one. Cancel-safe.
pub(super) async fn next_point(past: Option<&mut UndoHistory>) -> Made {
    let pending = past.and_then(|past| past.pending.as_mut());
    let Some((pending, until)) = pending.and_then(|it| it.until.map(|until| (it, until))) else {
        return std::future::pending().await;
    };
    match tokio::time::timeout_at(until, &mut pending.made).await {
        Ok(Ok(made)) => made,
        Ok(Err(_)) => no_point("it could not be made"),
        Err(_) => no_point("the checkpoint took too long"),
    }
}

fn no_point(why: &str) -> Made {
    Made {
        way: Way::Cells {
            why: why.to_owned(),
        },
        files: None,
    }
}

/// Makes one point.
struct Maker {
    checkpoints: Checkpoints,
    workspace: Arc<Mutex<Workspace>>,
    /// The directory for files with variables.
    variables: std::path::PathBuf,
    options: UndoOptions,
    known: Option<Way>,
    copies: Vec<(CheckpointId, bool)>,
    moments: Vec<Arc<Moment>>,
    kernel: Option<Kernel>,
}

impl Maker {
    async fn make(self, starts_turn: bool, made: oneshot::Sender<Made>) {
        let (workspace, moments) = (Arc::clone(&self.workspace), self.moments.clone());
        let files = tokio::task::spawn_blocking(move || {
            let mut workspace = workspace.lock().unwrap_or_else(PoisonError::into_inner);
            workspace.retain(&moments);
            workspace.take()
        });
        let way = match (self.known.clone(), &self.kernel) {
            (Some(known), _) => known,
            (None, Some(kernel)) => self.way(kernel).await,
            (None, None) => Way::Cells {
                why: "the kernel was not there".to_owned(),
            },
        };
        let new = way.copy().filter(|_| self.known.is_none());
        let files = files.await.ok();
        let _ = made.send(Made { way, files });
        if let Some(new) = new {
            self.thin(new, starts_turn).await;
        }
    }

    /// The best restore strategy for the kernel's current state.
    async fn way(&self, kernel: &Kernel) -> Way {
        let why = if self.options.checkpoints == 0 {
            "copies are switched off".to_owned()
        } else {
            match kernel.checkpoint(&self.checkpoints).await {
                Ok(checkpoint) => {
                    return Way::Copy {
                        id: checkpoint.id,
                        notes: checkpoint.notes,
                    };
                }
                // Not supported on this machine, or by this language.
                Err(error @ NoCheckpoint::Unsupported) => {
                    return Way::Cells {
                        why: error.to_string(),
                    };
                }
                Err(error) => error.to_string(),
            }
        };
        let made = crate::agent::undo::make_private_dir(&self.options.dir);
        let saved = match made {
            Ok(()) => kernel
                .save_variables(&self.variables, SAVED_BYTES)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match saved {
            Ok(saved) => Way::Saved {
                file: self.variables.clone(),
                saved,
                why,
            },
            Err(error) => Way::Cells {
                why: format!("{why}; {error}"),
            },
        }
    }

    /// Drops copies if there are too many, or if they take too much memory.
    async fn thin(mut self, new: CheckpointId, starts_turn: bool) {
        self.copies.push((new, starts_turn));
        let there = self.checkpoints.list();
        self.copies.retain(|(id, _)| there.contains(id));
        let live = match &self.kernel {
            Some(kernel) => kernel.pid().await,
            None => None,
        };
        let checkpoints = self.checkpoints.clone();
        let memory = tokio::task::spawn_blocking(move || checkpoints.memory(live)).await;
        let Ok(memory) = memory else { return };
        let (most, limit) = (self.options.checkpoints, self.options.memory);
        for id in surplus(&self.copies, &memory, most, limit) {
            tracing::debug!(?id, ?memory, "a checkpoint is given up");
            self.checkpoints.forget(id);
        }
    }
}
