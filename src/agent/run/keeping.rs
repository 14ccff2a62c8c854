//! The session on disk: every edit goes through here, and what waits is written in time.

use super::disk::Stamp;
use super::{Edit, Instant, Session, now, random_cell_id};
use crate::agent::store::{EVERY, Outcome, Store};
use crate::kernel::Extent;
use crate::session::CellKind;
use crate::session::journal::{Entry, RunningKernel};

impl Session {
    /// Changes the transcript.
    pub(super) fn edit(&mut self, edit: Edit) {
        self.apply(edit, None);
    }

    /// The same for what the client wants whose command is carried out.
    pub(super) fn edit_by(&mut self, edit: Edit) {
        self.apply(edit, self.by.clone());
    }

    fn apply(&mut self, edit: Edit, by: Option<String>) {
        let edit = self.redacted_edit(edit);
        self.note_edit(&edit);
        // Ids are ours and fresh, so an edit always fits; if not, it is a bug worth a log line and no crash.
        match self.transcript.apply(edit.clone()) {
            Ok(_) => self.tell_edit(edit, by),
            Err(error) => tracing::error!(%error, "an edit did not fit the transcript"),
        }
    }

    /// Notes an edit for the journal.
    pub(super) fn note_edit(&mut self, edit: &Edit) {
        if let Some(store) = &mut self.store {
            store.log(edit);
            if store.is_waiting() {
                self.keep_at.get_or_insert_with(|| Instant::now() + EVERY);
            }
        }
    }

    /// What the model is told before the first question, and again when it is not what it was.
    pub(super) fn say_facts(&mut self) {
        let (before, facts) = (&self.options.before, &self.options.facts);
        let all: Vec<&str> = [before, facts]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if all.is_empty() {
            return;
        }
        let facts = all.join("\n\n");
        let notes = self.transcript.cells().iter();
        let mut notes = notes.filter(|cell| cell.kind == CellKind::Note);
        if !notes.any(|note| note.source == facts) {
            self.edit(Edit::Note {
                cell: random_cell_id(),
                text: facts,
            });
        }
    }

    /// A kernel that goes on without us is found again by its connection file.
    pub(super) fn note_kept(&mut self, index: usize, file: &std::path::Path) {
        let Some(options) = self.kernels.get(index).map(|slot| &slot.options) else {
            return;
        };
        let Some(store) = self.store.as_mut().filter(|_| options.keep) else {
            return;
        };
        let kernel = RunningKernel {
            name: options.kernel.name.clone(),
            language: options.kernel.spec.language.clone(),
            connection_file: file.to_owned(),
            sandbox: Some(Extent::of(&options.sandbox)),
        };
        if store.kernels().contains(&kernel) {
            return;
        }
        let before = store.kernels().iter();
        let before = before.filter(|other| other.language == kernel.language);
        for other in before.cloned().collect::<Vec<_>>() {
            store.note(&Entry::KernelGone(other.connection_file));
        }
        store.note(&Entry::Kernel(kernel));
        self.keep_at.get_or_insert_with(|| Instant::now() + EVERY);
    }

    /// Writes what waits for the journal. A cell that prints for hours does not fill the disk with what it keeps none of.
    pub(super) async fn keep(&mut self) {
        self.keep_at = None;
        let store = self.store.as_ref();
        let shorter = store.and_then(|store| store.outgrown(&self.transcript));
        let kept = self.with_store(move |store| match shorter {
            Some(lines) => store.rewrite(&lines),
            None => store.flush(),
        });
        if let Some(Outcome::Failed(Some(words))) = kept.await {
            self.notice(&words);
        }
    }

    /// Brings journal and notebook up to date if anything changed; with `sync` both are on the disk then. Says so when
    /// it cannot; the session goes on.
    pub(super) async fn save(&mut self, sync: bool) -> bool {
        if self.saved_revision == Some(self.transcript.revision()) || !self.is_touched {
            return true;
        }
        self.look_at_disk().await;
        let revision = self.transcript.revision();
        self.keep_at = None;
        let mut outcome = self.write(false, sync).await;
        if outcome == Some(Outcome::WantsAll) {
            outcome = self.write(true, sync).await;
        }
        match outcome {
            Some(Outcome::Saved(words)) => {
                self.saved_revision = Some(revision);
                self.transcript.settle();
                self.stamp = Stamp::of(&self.options.notebook);
                if let Some(words) = words {
                    self.notice(&words);
                }
                true
            }
            Some(Outcome::Failed(words)) => {
                if let Some(words) = words {
                    self.notice(&words);
                }
                false
            }
            Some(Outcome::WantsAll) | None => false,
        }
    }

    async fn write(&mut self, all: bool, sync: bool) -> Option<Outcome> {
        let change = self.store.as_ref()?.change(&self.transcript, all, sync);
        self.with_store(move |store| store.save(&change)).await
    }

    /// The session ends in good order.
    pub(super) async fn close(&mut self) {
        self.with_store(|store| store.close(now())).await;
        // With it the lock.
        self.store = None;
    }

    /// Does something with the files where it may block. `None` if they are lost to a panic, which the log has.
    async fn with_store<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Store) -> T + Send + 'static,
    ) -> Option<T> {
        let mut store = self.store.take()?;
        let worked = tokio::task::spawn_blocking(move || {
            let result = work(&mut store);
            (store, result)
        });
        let (store, result) = worked.await.ok()?;
        self.store = Some(store);
        Some(result)
    }
}
