//! Redacts the person's secrets in outputs before anything else sees them, so that transcript, notebook, files and
//! screens contain none.
//!
//! Only known values are redacted here. Text that merely looks like a secret stays, because outputs belong to the
//! person; models and logs get neither.

use std::borrow::Cow;

use super::{Edit, OutputEvent, Session};
use crate::jupyter::content::Stream;
use crate::jupyter::mime::{MimeBundle, is_base64_image};
use crate::kernel::Redactor;

impl Session {
    /// The redacted output; `None` if all of it waits for what follows.
    pub(super) fn redacted(&mut self, cell: &str, output: OutputEvent) -> Option<OutputEvent> {
        let redactor = &self.options.redactor;
        if redactor.is_empty() {
            return Some(output);
        }
        let is_running = self
            .cells
            .running
            .as_ref()
            .is_some_and(|it| it.cell == cell);
        Some(match output {
            OutputEvent::Stream(Stream { name, text }) => {
                let text = if is_running {
                    let stream = self.cells.streams.entry(name.clone()).or_default();
                    redactor.piece(stream, &text)
                } else {
                    redactor.values(&text).into_owned()
                };
                if text.is_empty() {
                    return None;
                }
                OutputEvent::Stream(Stream { name, text })
            }
            OutputEvent::Display {
                data,
                metadata,
                display_id,
            } => OutputEvent::Display {
                data: bundle(redactor, data),
                metadata,
                display_id,
            },
            OutputEvent::Update {
                data,
                metadata,
                display_id,
            } => OutputEvent::Update {
                data: bundle(redactor, data),
                metadata,
                display_id,
            },
            OutputEvent::Result {
                data,
                metadata,
                count,
                display_id,
            } => OutputEvent::Result {
                data: bundle(redactor, data),
                metadata,
                count,
                display_id,
            },
            OutputEvent::Error(mut error) => {
                let lines = error.traceback.iter_mut();
                for text in lines.chain([&mut error.evalue]) {
                    replace(redactor, text);
                }
                OutputEvent::Error(error)
            }
            OutputEvent::Clear { wait } => OutputEvent::Clear { wait },
            OutputEvent::Lost(what) => OutputEvent::Lost(what),
        })
    }

    /// The cell has ended: the held-back text is no secret.
    pub(super) async fn let_go(&mut self, cell: &str) {
        for (name, mut stream) in std::mem::take(&mut self.cells.streams) {
            let text = stream.end();
            if !text.is_empty() {
                let output = OutputEvent::Stream(Stream { name, text });
                self.emit_as_it_is(cell.to_owned(), output).await;
            }
        }
    }

    /// The redacted edit, for storage. Text of a person and of the model is not changed.
    pub(super) fn redacted_edit(&self, mut edit: Edit) -> Edit {
        let redactor = &self.options.redactor;
        match &mut edit {
            Edit::Note { text, .. } | Edit::Hint { text, .. } | Edit::Compact { text, .. } => {
                replace(redactor, text);
            }
            Edit::Read { reading, .. } => replace(redactor, &mut reading.answer),
            Edit::Files { files, .. } => {
                let all = files.created.iter_mut().chain(&mut files.changed);
                for path in all.map(|file| &mut file.path).chain(&mut files.deleted) {
                    replace(redactor, path);
                }
            }
            _ => {}
        }
        edit
    }
}

fn replace(redactor: &Redactor, text: &mut String) {
    if let Cow::Owned(other) = redactor.values(text) {
        *text = other;
    }
}

fn bundle(redactor: &Redactor, data: MimeBundle) -> MimeBundle {
    let mut redacted = MimeBundle::new();
    for (mime, mut value) in data.into_map() {
        if !is_base64_image(&mime) {
            redactor.values_in(&mut value);
        }
        redacted.insert(mime, value);
    }
    redacted
}
