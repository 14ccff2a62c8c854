//! Undoes turns: variables, files, then the cells of the transcript, in this order, so that a failure leaves the rest
//! unchanged. The removed cells are stored as a separate notebook.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::rerun::{Replayed, ran_in_main};
use super::{Edit, EventKind, MAIN, Session, random_cell_id};
use crate::agent::event::{CheckpointInfo, Command, Undone};
use crate::agent::save::write_beside_code;
use crate::agent::stream::handle::{Request, Wanted};
use crate::agent::turn::State;
use crate::agent::undo::{FilePlan, FilesUndone, Span, UndoTo, Way, Workspace, attic};
use crate::kernel::folder::make_dirs;
use crate::session::notebook;
use crate::session::transcript::{Author, Cell, CellKind};

/// What this undo does.
struct Plan {
    /// The first removed cell, by index.
    from: usize,
    /// The restore strategy for the variables; `None` if they are unchanged.
    way: Option<Way>,
    spans: Vec<Span>,
    files: FilePlan,
    /// What cannot be restored.
    inexact: Vec<String>,
}

impl Session {
    /// Carries out a command. Returns whether the session must end.
    pub(super) async fn take_command(
        &mut self,
        wanted: Wanted,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> bool {
        match wanted.command {
            Command::Shutdown => return true,
            _ if self.ending.is_some() => self.while_ending(wanted).await,
            Command::Undo { to, anyway }
                if self.turn.state == State::Idle && self.resuming.restoring.is_none() =>
            {
                return self.undo(to, anyway, inbox).await;
            }
            Command::Undo { .. } => {
                let message = "still busy with the last turn: interrupt it first".to_owned();
                self.publish(EventKind::UndoRefused { message });
            }
            Command::Checkpoints => self.list_points().await,
            _ => return Box::pin(self.handle(wanted, inbox)).await,
        }
        false
    }

    /// Undoes to `to`; asks first if undo would be incomplete, unless `anyway`. Returns whether the session must end.
    async fn undo(
        &mut self,
        to: UndoTo,
        anyway: bool,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> bool {
        let plan = match self.plan_undo(to).await {
            Ok(plan) => plan,
            Err(message) => {
                self.publish(EventKind::UndoRefused { message });
                return false;
            }
        };
        if !plan.inexact.is_empty() && !anyway {
            let inexact = plan.inexact;
            self.publish(EventKind::UndoAsks { inexact });
            return false;
        }
        self.carry_out(plan, inbox).await
    }

    /// Lists the points, latest first.
    async fn list_points(&mut self) {
        let mut checkpoints = Vec::new();
        if let Some(past) = &self.undo_history {
            let live = match self.kernels.ready(MAIN) {
                Some(kernel) => kernel.pid().await,
                None => None,
            };
            let (copies, there) = (past.checkpoints.clone(), past.checkpoints.list());
            let memory = tokio::task::spawn_blocking(move || copies.memory(live)).await;
            let memory = memory.unwrap_or_default();
            for point in past.points.iter().rev() {
                let copy = point.way.copy();
                let gone = copy.is_some_and(|id| !there.contains(&id));
                let private = memory.private.iter().find(|(id, _)| Some(*id) == copy);
                checkpoints.push(CheckpointInfo {
                    number: point.number,
                    at: point.at.clone(),
                    starts_turn: point.starts_turn,
                    before: self
                        .transcript
                        .cell(&point.cell)
                        .map(|cell| first_line(&cell.source))
                        .unwrap_or_default(),
                    kind: if gone { "cells" } else { point.way.name() }.to_owned(),
                    bytes: match &point.way {
                        Way::Saved { saved, .. } => Some(saved.bytes),
                        Way::Fresh | Way::Copy { .. } | Way::Cells { .. } => {
                            private.map(|(_, bytes)| *bytes)
                        }
                    },
                });
            }
        }
        self.publish(EventKind::Checkpoints { checkpoints });
    }

    /// What must be done, or why it is impossible.
    async fn plan_undo(&mut self, to: UndoTo) -> Result<Plan, String> {
        let past = self
            .undo_history
            .as_ref()
            .ok_or("this session keeps no checkpoints")?;
        let (from, at) = self.target(to)?;
        let cells = self.transcript.cells();
        let gone = cells.get(from..).unwrap_or_default();
        let before = cells.get(..from).unwrap_or_default();
        let point = at.and_then(|at| past.points.get(at));
        let mut inexact = Vec::new();
        let way = gone.iter().any(ran_in_main).then(|| {
            let there = past.checkpoints.list();
            match point.map(|point| &point.way) {
                Some(Way::Copy { id, .. }) if !there.contains(id) => cells_only(
                    "its checkpoint was given up, for there are too many or they took too much memory",
                ),
                Some(way) => way.clone(),
                None => cells_only("there is no checkpoint of that time"),
            }
        });
        if let Some(way) = &way {
            inexact.extend(way.inexact(before.iter().filter(|cell| ran_in_main(cell)).count()));
        }
        let mut others: Vec<&str> = gone.iter().filter_map(ran_elsewhere).collect();
        others.sort_unstable();
        others.dedup();
        for language in others {
            inexact.push(format!(
                "the variables of the {language} kernel stay as they are now"
            ));
        }
        let ran = gone
            .iter()
            .any(|cell| ran_in_main(cell) || ran_elsewhere(cell).is_some());
        let spans = at.map(|at| past.spans(at)).unwrap_or_default();
        let files = match (&spans[..], ran) {
            (_, false) => FilePlan::default(),
            ([], true) => {
                inexact.push(
                    "files stay as they are now: there are no copies of that time".to_owned(),
                );
                FilePlan::default()
            }
            (_, true) => plan_files(&past.workspace, spans.clone()).await,
        };
        for (path, why) in &files.lost {
            inexact.push(format!("`{}` stays as it is now ({why})", path.display()));
        }
        Ok(Plan {
            from,
            way,
            spans,
            files,
            inexact,
        })
    }

    /// The first removed cell, and the point before it if there is one.
    fn target(&self, to: UndoTo) -> Result<(usize, Option<usize>), String> {
        let cells = self.transcript.cells();
        let points = self.undo_history.iter().flat_map(|past| &past.points);
        match to {
            UndoTo::Turns(turns) => {
                let starts: Vec<usize> = (0..cells.len())
                    .filter(|at| cells.get(*at).is_some_and(begins_turn))
                    .collect();
                let at = usize::try_from(turns)
                    .ok()
                    .filter(|turns| *turns > 0)
                    .and_then(|turns| starts.len().checked_sub(turns));
                let from = at
                    .and_then(|at| starts.get(at))
                    .ok_or_else(|| match starts.len() {
                        0 => "there is nothing to undo".to_owned(),
                        1 => "there is one turn to undo".to_owned(),
                        n => format!("there are {n} turns to undo"),
                    })?;
                let id = cells.get(*from).map(|cell| &cell.id);
                let found = points
                    .enumerate()
                    .find(|(_, point)| point.starts_turn && Some(&point.cell) == id);
                Ok((*from, found.map(|(at, _)| at)))
            }
            UndoTo::Checkpoint(number) => {
                let unknown = || format!("there is no checkpoint {number}");
                let (at, point) = points
                    .enumerate()
                    .find(|(_, point)| point.number == number)
                    .ok_or_else(unknown)?;
                let from = cells.iter().position(|cell| cell.id == point.cell);
                Ok((from.ok_or_else(unknown)?, Some(at)))
            }
        }
    }

    async fn carry_out(&mut self, mut plan: Plan, inbox: &mut mpsc::Receiver<Request>) -> bool {
        let mut notes = std::mem::take(&mut plan.inexact);
        let mut variables = "unchanged";
        if let Some(way) = plan.way.clone() {
            variables = way.name();
            match self.bring_back(&way, &mut plan, inbox).await {
                Ok(Replayed::All) => {}
                Ok(Replayed::Part(words)) => notes.push(words),
                Ok(Replayed::Ending) => return true,
                Ok(Replayed::Stopped) => {
                    let message = "it was interrupted: nothing was undone".to_owned();
                    self.publish(EventKind::UndoRefused { message });
                    return false;
                }
                Err(why) => {
                    // Nothing has happened yet. The next best strategy is worth a question.
                    self.give_up_way(&way, &why);
                    let cells = self.transcript.cells().get(..plan.from).unwrap_or_default();
                    let cells = cells.iter().filter(|cell| ran_in_main(cell)).count();
                    let inexact = cells_only(&why).inexact(cells);
                    self.publish(EventKind::UndoAsks { inexact });
                    return false;
                }
            }
        }
        let Some(past) = &mut self.undo_history else {
            return false;
        };
        past.undone += 1;
        let attic = attic(&self.options.notebook, past.undone);
        let files = apply_files(&past.workspace, plan.files, attic.join("files")).await;
        for (path, why) in &files.failed {
            notes.push(format!("`{}`: {why}", path.display()));
        }
        let (cells, kept) = self.take_back(plan.from, &attic).await;
        if let Err(words) = &kept {
            notes.push(words.clone());
        }
        if let Some(past) = &mut self.undo_history {
            let left: Vec<&str> = self
                .transcript
                .cells()
                .iter()
                .map(|cell| &*cell.id)
                .collect();
            past.points
                .retain(|point| left.contains(&point.cell.as_str()));
            if let Some(way) = plan.way {
                past.now = match way {
                    // The replay has just run cells, so there is no restore strategy for this state yet.
                    Way::Cells { .. } => None,
                    Way::Fresh | Way::Copy { .. } | Way::Saved { .. } => Some(way),
                };
            }
            past.forget_unused();
        }
        self.edit(Edit::Note {
            cell: random_cell_id(),
            text: told(cells, &notes),
        });
        self.save(true).await;
        let shown = |paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        self.publish(EventKind::Undone(Undone {
            cells,
            variables: variables.to_owned(),
            restored: shown(&files.restored),
            removed: shown(&files.removed),
            notes,
            kept_in: kept.is_ok().then(|| attic.display().to_string()),
        }));
        false
    }

    /// Restores the variables.
    async fn bring_back(
        &mut self,
        way: &Way,
        plan: &mut Plan,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> Result<Replayed, String> {
        if let Some(stopped) = self.until_started(inbox).await {
            return Ok(stopped);
        }
        let Some(kernel) = self.kernels.ready(MAIN).cloned() else {
            return Err("the kernel is not there".to_owned());
        };
        match way {
            Way::Fresh => self.kernels.restart(MAIN),
            Way::Copy { id, .. } => {
                let past = self
                    .undo_history
                    .as_ref()
                    .ok_or("there are no checkpoints")?;
                let checkpoints = past.checkpoints.clone();
                let restored = kernel.restore(&checkpoints, *id);
                if let Some(stopped) = self.unless_stopped(&kernel, restored, inbox).await? {
                    return Ok(stopped);
                }
                // The process that had this channel is gone, so the restored one gets it.
                let _ = kernel.send_late(&self.cells.late.0).await;
            }
            Way::Saved { file, .. } => {
                let loaded = kernel.load_variables(file);
                if let Some(stopped) = self.unless_stopped(&kernel, loaded, inbox).await? {
                    return Ok(stopped);
                }
            }
            Way::Cells { .. } => {
                let past = self
                    .undo_history
                    .as_ref()
                    .ok_or("there are no checkpoints")?;
                let workspace = Arc::clone(&past.workspace);
                let before = with(&workspace, Workspace::take).await;
                let replayed = self.run_again(&kernel, plan.from, inbox).await?;
                // Files that the cells write a second time must not stay either.
                if let Some(before) = before.filter(|_| !plan.spans.is_empty()) {
                    plan.spans.push((before, None));
                    plan.files = plan_files(&workspace, plan.spans.clone()).await;
                }
                return Ok(replayed);
            }
        }
        Ok(Replayed::All)
    }

    /// Discards a restore strategy that failed.
    fn give_up_way(&mut self, way: &Way, why: &str) {
        let Some(past) = &mut self.undo_history else {
            return;
        };
        for point in past.points.iter_mut().filter(|point| point.way == *way) {
            point.way = cells_only(why);
        }
        past.now = past.now.take().filter(|now| now != way);
        past.forget_unused();
    }

    /// Removes the cells from `from` on from the transcript, and stores them as a notebook in `attic`.
    async fn take_back(&mut self, from: usize, attic: &Path) -> (usize, Result<(), String>) {
        let part = notebook::render_from(&self.transcript, from);
        let path = attic.join("taken-back.ipynb");
        let shown = path.display().to_string();
        let dir = attic.to_owned();
        let written = tokio::task::spawn_blocking(move || {
            make_dirs(&dir, 0o700)?;
            write_beside_code(&path, |file| part.write_to(file))
        })
        .await;
        let kept = match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let kept = kept.map_err(|error| format!("`{shown}` could not be written: {error}"));
        let cells = self.transcript.cells().len().saturating_sub(from);
        if let Some(cell) = self
            .transcript
            .cells()
            .get(from)
            .map(|cell| cell.id.clone())
        {
            self.edit(Edit::TakeBack { cell });
        }
        (cells, kept)
    }
}

impl super::checkpoints::UndoHistory {
    /// The file changes of the turns from point `at` on.
    fn spans(&self, at: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        // The end of the point's turn.
        let mut end = self
            .points
            .get(..=at)
            .unwrap_or_default()
            .iter()
            .rfind(|point| point.starts_turn)
            .and_then(|point| point.end.clone());
        for (index, point) in self.points.iter().enumerate().skip(at) {
            if index == at || point.starts_turn {
                if index != at {
                    end.clone_from(&point.end);
                }
                if let Some(files) = &point.files {
                    spans.push((Arc::clone(files), end.clone()));
                }
            }
        }
        spans
    }
}

async fn with<T: Send + 'static>(
    workspace: &Arc<Mutex<Workspace>>,
    work: impl FnOnce(&mut Workspace) -> T + Send + 'static,
) -> Option<T> {
    let workspace = Arc::clone(workspace);
    tokio::task::spawn_blocking(move || {
        work(&mut workspace.lock().unwrap_or_else(PoisonError::into_inner))
    })
    .await
    .ok()
}

async fn plan_files(workspace: &Arc<Mutex<Workspace>>, spans: Vec<Span>) -> FilePlan {
    let planned = with(workspace, move |workspace| workspace.plan(&spans)).await;
    planned.unwrap_or_default()
}

async fn apply_files(
    workspace: &Arc<Mutex<Workspace>>,
    plan: FilePlan,
    attic: PathBuf,
) -> FilesUndone {
    if plan.is_empty() {
        return FilesUndone::default();
    }
    let applied = with(workspace, move |workspace| workspace.apply(&plan, &attic)).await;
    applied.unwrap_or_default()
}

fn cells_only(why: &str) -> Way {
    Way::Cells {
        why: why.to_owned(),
    }
}

fn begins_turn(cell: &Cell) -> bool {
    match &cell.kind {
        CellKind::User => true,
        CellKind::Code(code) => code.author == Author::Person,
        CellKind::Note
        | CellKind::Cut
        | CellKind::Assistant { .. }
        | CellKind::Reading(_)
        | CellKind::Compaction(_) => false,
    }
}

/// The language of a cell that ran in another kernel.
fn ran_elsewhere(cell: &Cell) -> Option<&str> {
    let code = cell.code().filter(|code| code.started.is_some())?;
    code.language.as_deref()
}

fn first_line(source: &str) -> String {
    source
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect()
}

/// The text for the model.
fn told(cells: usize, notes: &[String]) -> String {
    let mut words = format!(
        "The user took back what followed here ({cells} cells): it is not part of the conversation any more. Variables and files are as they were before it"
    );
    if notes.is_empty() {
        words.push('.');
    } else {
        words.push_str(", except:");
        for note in notes {
            words.push_str("\n- ");
            words.push_str(note);
        }
    }
    words
}
