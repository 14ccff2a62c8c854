//! The session on disk: applies every edit, and writes pending entries in time.

use super::disk::Stamp;
use super::{Edit, Session, random_cell_id};
use crate::kernel::Extent;
use crate::session::CellKind;
use crate::session::journal::{Entry, RunningKernel};

impl Session {
    /// Changes the transcript.
    pub(super) fn edit(&mut self, edit: Edit) {
        self.apply(edit, None);
    }

    /// The same on behalf of the client whose command is being carried out.
    pub(super) fn edit_by(&mut self, edit: Edit) {
        self.apply(edit, self.subscribers.by.clone());
    }

    fn apply(&mut self, edit: Edit, by: Option<String>) {
        let edit = self.redacted_edit(edit);
        self.disk.note_edit(&edit);
        // Our ids are always new, so an edit always applies; if not, it is a bug that is logged without a crash.
        match self.transcript.apply(edit.clone()) {
            Ok(_) => self.tell_edit(edit, by),
            Err(error) => tracing::error!(%error, "an edit did not fit the transcript"),
        }
    }

    /// Tells the model the facts before the first question, and again when they changed.
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

    /// A kernel that outlives us is found again through its connection file.
    pub(super) fn note_kept(&mut self, index: usize, file: &std::path::Path) {
        let Some(options) = self.kernels.get(index).map(|slot| &slot.options) else {
            return;
        };
        let Some(store) = self.disk.store().filter(|_| options.keep) else {
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
        self.disk.keep_soon();
    }

    /// Writes the pending journal entries.
    pub(super) async fn keep(&mut self) {
        if let Some(words) = self.disk.keep(&self.transcript).await {
            self.notice(&words);
        }
    }

    /// Updates journal and notebook if anything changed; with `sync`, both are synced to disk. Reports a failure; the
    /// session continues.
    pub(super) async fn save(&mut self, sync: bool) -> bool {
        if self.disk.has(self.transcript.revision()) {
            return true;
        }
        self.look_at_disk().await;
        let (is_saved, words) = self.disk.save(&self.transcript, sync).await;
        if is_saved {
            self.transcript.settle();
            self.disk.stamp = Stamp::of(&self.options.notebook);
        }
        if let Some(words) = words {
            self.notice(&words);
        }
        is_saved
    }
}
