//! Files that only a library can read: asks the main kernel about them once it is ready, before the model is asked.

use std::convert::Infallible;
use std::path::Path;

use tokio::sync::mpsc;

use super::rerun::Replayed;
use super::{Edit, MAIN, Session, random_cell_id};
use crate::agent::facts::{self, inside};
use crate::agent::guidance::Coaching;
use crate::agent::stream::handle::Request;

impl Session {
    /// Records the ones of `files`, which the model was told about, that the kernel must be asked about.
    pub(super) fn note_unread(&mut self, files: &[&Path]) {
        if self.language().eq_ignore_ascii_case("python") {
            let unread = inside::unread(files, &self.options.kernel.cwd);
            self.options.unread.extend(unread);
        }
    }

    /// Asks the kernel about the recorded files, as soon as it is ready. Returns `Some` if that was stopped.
    pub(super) async fn look_inside(
        &mut self,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> Option<Replayed> {
        let files = std::mem::take(&mut self.options.unread);
        if files.is_empty() {
            return None;
        }
        if let Some(stopped) = self.until_started(inbox).await {
            return Some(stopped);
        }
        // A kernel that is not available is reported separately.
        let kernel = self.kernels.ready(MAIN)?.clone();
        let mut words = String::new();
        let work = async {
            words = inside::ask(&kernel, &files).await;
            Ok::<(), Infallible>(())
        };
        let stopped = self.unless_stopped(&kernel, work, inbox).await;
        if !words.is_empty() {
            let text = match self.options.coaching {
                Coaching::Off => facts::framed(&words),
                Coaching::Small => words,
            };
            self.edit(Edit::Note {
                cell: random_cell_id(),
                text,
            });
        }
        stopped.ok().flatten()
    }
}
