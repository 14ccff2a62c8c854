//! Applies edits to a transcript.

use super::{CellKind, CodeCell, CodeStatus, Edit, EditError, Transcript, cells};
use crate::session::open;

impl Transcript {
    /// Applies one edit and returns the new revision. An edit that fails changes nothing.
    ///
    /// # Errors
    /// [`EditError`].
    pub fn apply(&mut self, edit: Edit) -> Result<u64, EditError> {
        match edit {
            Edit::Say { cell, text } => self.add(cell, CellKind::User, text)?,
            Edit::Note { cell, text } => self.add(cell, CellKind::Note, text)?,
            Edit::AppendText { cell, step, text } => {
                let found = self.cells.get(&cell).map(|cell| &cell.kind);
                match found {
                    Some(CellKind::Assistant { .. }) => {
                        self.cells.change(&cell, |cell| cell.source.push_str(&text));
                    }
                    Some(_) => return Err(EditError::Taken(cell)),
                    None => self.add(cell, CellKind::Assistant { step }, text)?,
                }
            }
            Edit::Propose {
                cell,
                author,
                language,
                source,
            } => {
                let code = CodeCell::proposed(author, language);
                self.add(cell, CellKind::Code(Box::new(code)), source)?;
            }
            Edit::Change { cell, source } => self.change_code(&cell, |code, old| {
                if *old != source {
                    code.original.get_or_insert_with(|| old.clone());
                    *old = source;
                }
            })?,
            Edit::Hint { cell, text } => {
                self.change_code(&cell, |code, _| code.hint = Some(text))?;
            }
            Edit::Pictures { cell, places } => {
                self.change_code(&cell, |code, _| code.pictures = places)?;
            }
            Edit::Files { cell, files } => {
                self.change_code(&cell, |code, _| code.files = Some(files))?;
            }
            Edit::Read {
                cell,
                arguments,
                reading,
            } => self.add(cell, CellKind::Reading(Box::new(reading)), arguments)?,
            Edit::Start { cell, at } => self.change_code(&cell, |code, _| {
                code.status = CodeStatus::Running;
                code.started = Some(at);
            })?,
            Edit::Number { cell, count } => {
                self.change_code(&cell, |code, _| code.count = Some(count))?;
            }
            Edit::Emit { cell, output } => self.emit(&cell, &output)?,
            Edit::Cut { cell, whole } => {
                let own = self.cell(&cell).map_or(0, cells::kept);
                let limits = self.limits.of_cell(self.cells.bytes() - own);
                self.change_code(&cell, |code, _| code.outputs.cut(&limits, whole))?;
            }
            Edit::Compact {
                cell,
                text,
                compaction,
            } => {
                if self.cell(&compaction.through).is_none() {
                    return Err(EditError::NoCell(compaction.through));
                }
                self.add(cell, CellKind::Compaction(Box::new(compaction)), text)?;
            }
            Edit::Finish { cell, status, at } => self.change_code(&cell, |code, _| {
                code.status = status;
                code.finished = Some(at);
            })?,
            Edit::SetKernel(kernel) => self.kernel = Some(kernel),
            Edit::AddKernel(kernel) => {
                self.others
                    .retain(|other| other.language != kernel.language);
                self.others.push(kernel);
                // Each cell's rendering names its kernel, so all cells change.
                self.cells.touch(0);
            }
            Edit::CutOff { cell, reason } => self.cut_off(&cell, &reason)?,
            Edit::SetModel(model) => {
                let next = self.last_step() + 1;
                // Drop a model that never answered.
                self.models.retain(|(_, from)| *from < next);
                if self.model() != Some(&model) {
                    self.models.push((model, next));
                }
            }
            Edit::Models(models) => self.models = models,
            Edit::Accounts(accounts) => self.accounts = *accounts,
            Edit::Restore(cell) => self.cells.push(*cell)?,
            Edit::TakeBack { cell } => {
                let at = self.cells.position(&cell);
                self.cells.truncate(at.ok_or(EditError::NoCell(cell))?);
                self.forget_replies();
            }
            Edit::Carry(file) => self.file = *file,
            Edit::Keep { step, native } => self.keep(step, native),
            Edit::Spend(usage) => self.spend(usage),
            Edit::EndTurn { milliseconds } => self.end_turn(milliseconds),
            Edit::Reload(notebook) => open::reload(self, *notebook),
        }
        self.revision += 1;
        Ok(self.revision)
    }
}
