//! Detects which files of the workspace a cell created, changed or deleted, by scans before it runs and after it ends,
//! and reports them to everyone.

use std::path::PathBuf;

use super::{AgentOptions, Edit, Session};
use crate::agent::undo::{Look, Watched};

/// The state for detecting cells' changes to the workspace.
pub(super) struct Watching {
    watched: Watched,
    /// The scan before the running cell.
    before: Option<Look>,
    /// Whether a person was told that the scan is incomplete.
    told: bool,
}

impl Watching {
    /// `None` if the files are on another machine.
    pub(super) fn new(options: &AgentOptions) -> Option<Self> {
        let main = &options.kernel;
        if main.gateway.is_some() {
            return None;
        }
        let own = own_files(options);
        Some(Self {
            watched: Watched::new(main.cwd.clone(), own),
            before: None,
            told: false,
        })
    }
}

/// The session's own files and directories, which do not count as workspace wherever they are.
pub(super) fn own_files(options: &AgentOptions) -> Vec<PathBuf> {
    let mut own = vec![options.notebook.clone(), options.kernel.runtime_dir.clone()];
    own.extend(options.own_dirs.iter().cloned());
    own.extend(options.undo.as_ref().map(|undo| undo.dir.clone()));
    if let Some(audit) = &options.audit {
        let files = &audit.files;
        own.extend([&files.log, &files.head, &files.key].map(Clone::clone));
    }
    own
}

impl Session {
    /// A cell is about to run.
    pub(super) async fn look_before(&mut self) {
        if let Some(watching) = &mut self.cells.watching {
            let watched = watching.watched.clone();
            let look = tokio::task::spawn_blocking(move || watched.look()).await;
            watching.before = look.ok();
        }
    }

    /// The cell has ended: records its file changes in it.
    pub(super) async fn look_after(&mut self, cell: &str) {
        let Some(watching) = &mut self.cells.watching else {
            return;
        };
        let Some(before) = watching.before.take() else {
            return;
        };
        let watched = watching.watched.clone();
        let changes = tokio::task::spawn_blocking(move || before.changes(&watched.look())).await;
        let Ok(files) = changes else {
            return;
        };
        let is_new = files.incomplete && !std::mem::replace(&mut watching.told, files.incomplete);
        if !files.is_empty() {
            self.edit(Edit::Files {
                cell: cell.to_owned(),
                files,
            });
        }
        if is_new {
            self.notice(
                "there are too many files here to look at all of them: changes of those that were not looked at are not listed",
            );
        }
    }
}
