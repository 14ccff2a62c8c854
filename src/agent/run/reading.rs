//! Work that needs no kernel and no approval: lets the model read more of an output, and saves pictures as files.

use std::sync::Arc;

use super::{Coaching, Edit, Session};
use crate::agent::reading;
use crate::agent::sampling::PartialCall;
use crate::session::transcript::Reading;
use crate::session::visual::Visual;
use crate::session::{Cell, CellKind};

impl Session {
    /// Whether the model gets the tool `read_output`: a small model has enough to do with one tool, and some models
    /// call none.
    pub(super) fn reads(&self) -> bool {
        let provider = self.options.provider.as_ref();
        let calls = provider.is_none_or(|provider| provider.info().tools != Some(false));
        calls && self.options.coaching == Coaching::Off
    }

    /// Answers a call of `read_output`.
    pub(super) async fn read_output(&mut self, step: u32, call: PartialCall) {
        // As much as a cell's outputs may have: the requested part is worth that.
        let limit = self.text_budget();
        let asked = reading::parse(&call.arguments);
        let found = asked.and_then(|asked| {
            let source = reading::source(&self.transcript, &self.options.notebook, &asked)?;
            Ok((source, asked))
        });
        let answer = match found {
            Ok((source, asked)) => {
                let read = move || reading::answer(source, &asked, limit);
                let read = tokio::task::spawn_blocking(read).await;
                read.unwrap_or_else(|error| Err(format!("it could not be read: {error}")))
            }
            Err(reason) => Err(reason),
        };
        let is_error = answer.is_err();
        let answer = answer.unwrap_or_else(|reason| reason);
        self.edit(Edit::Read {
            cell: call.cell,
            arguments: call.arguments,
            reading: Reading {
                step,
                call_id: call.id,
                answer,
                is_error,
            },
        });
    }

    /// Saves the pictures of an ended cell, and prepares them for the model in the background: decoding takes time.
    pub(super) async fn save_pictures(&mut self, cell: &str) {
        let Some(Cell {
            kind: CellKind::Code(code),
            ..
        }) = self.transcript.cell(cell)
        else {
            return;
        };
        let plots = &self.cells.plots;
        let encoded: Vec<(&'static str, Vec<u8>, Vec<_>)> = code
            .outputs
            .to_notebook()
            .iter()
            .filter_map(|output| {
                let data = output.data()?;
                // A broken picture keeps its place among the others.
                let (extension, bytes) = Visual::of(data)?.file(data).unwrap_or_default();
                Some((extension, bytes, plots.files_of(data)))
            })
            .collect();
        self.cells.plots.clear();
        if encoded.is_empty() {
            return;
        }
        let mut files = self.cells.pictures.clone();
        let preparer = self.asking.image_preparer.clone();
        let written = tokio::task::spawn_blocking(move || {
            let written: Vec<_> = encoded
                .iter()
                .map(|(extension, bytes, beside)| {
                    if let Some(preparer) = &preparer {
                        preparer.see(bytes);
                    }
                    let written = files.write(extension, bytes)?;
                    for (extension, bytes) in beside {
                        // The picture was saved without them.
                        let _ = files.write_beside(&written, extension, bytes);
                    }
                    Ok::<_, std::io::Error>(written)
                })
                .collect();
            (files, written)
        });
        let Ok((files, written)) = written.await else {
            return;
        };
        self.cells.pictures = files;
        let failed = written
            .iter()
            .find_map(|file| file.as_ref().err())
            .map(ToString::to_string);
        let files: Vec<_> = written.into_iter().map(Result::ok).collect();
        let place =
            |file: &std::path::PathBuf| self.cells.pictures.place(file, &self.options.kernel.cwd);
        let places = files.iter().map(|file| file.as_ref().map(place)).collect();
        self.edit(Edit::Pictures {
            cell: cell.to_owned(),
            places,
        });
        if let Some(reason) = failed {
            self.notice(&format!("could not write a plot to a file: {reason}"));
        }
    }

    /// The picture preparer of a model that accepts pictures.
    pub(super) fn preparer_of(
        options: &super::AgentOptions,
    ) -> Option<Arc<crate::session::summarize::ImagePreparer>> {
        let info = options.provider.as_ref()?.info();
        let rules = crate::llm::pictures::rules_for(&info.name);
        info.vision
            .then(|| Arc::new(crate::session::summarize::ImagePreparer::new(rules)))
    }
}
