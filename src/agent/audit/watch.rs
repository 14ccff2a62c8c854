//! Turns a session's stream into audit records. Pure: items in, records out.

use std::collections::BTreeMap;

use super::record::{Code, Confined, Header, Record};
use crate::agent::approval::Grounds;
use crate::agent::event::{Decision, EventKind, TurnEnd, Undone};
use crate::agent::restored::RestoredBy;
use crate::agent::stdin::AnsweredBy;
use crate::agent::stream::{Body, Received, Snapshot};
use crate::kernel::OutputEvent;
use crate::kernel::sandbox::limits::{HIT, MAY_BE_HIT};
use crate::session::CellStatus;
use crate::session::changes::{ChangedFile, FilesChanged};
use crate::session::transcript::Author;
use crate::session::{CellKind, CodeStatus, Edit, Transcript};

/// Maximum file names in one record.
const FILES: usize = 100;
/// Maximum bytes of a reason from a program.
const REASON: usize = 500;

/// The state of a session so far.
#[derive(Debug)]
pub(super) struct Watcher {
    sandbox: Confined,
    /// The main kernel's language.
    language: String,
    cells: BTreeMap<String, Known>,
    /// The last item read.
    at: u64,
}

/// The state of a cell.
#[derive(Debug, Clone)]
struct Known {
    code: Code,
    /// The person's decision, until the code is approved.
    decided: Option<&'static str>,
    ran: bool,
    is_over: bool,
}

impl Watcher {
    /// A watcher for a session that already has this transcript.
    pub(super) fn new(header: &Header, language: &str, transcript: &Transcript) -> Self {
        let mut watcher = Self {
            sandbox: header.sandbox.clone(),
            language: language.to_owned(),
            cells: BTreeMap::new(),
            at: 0,
        };
        for (cell, known, _) in watcher.cells_of(transcript) {
            watcher.cells.insert(cell, known);
        }
        watcher
    }

    /// The number of the last item read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Adds the records for what was received.
    pub(super) fn take(&mut self, received: &Received, records: &mut Vec<Record>) {
        match received {
            Received::Item(item) => {
                self.at = item.id.sequence;
                match &item.body {
                    Body::Edit { by, edit, .. } => records.extend(self.edited(edit, by.as_deref())),
                    Body::Event { event } => records.extend(self.happened(event)),
                }
            }
            Received::Snapshot(snapshot) => self.catch_up(snapshot, records),
        }
    }

    fn edited(&mut self, edit: &Edit, by: Option<&str>) -> Option<Record> {
        match edit {
            Edit::Propose {
                author: Author::Model {
                    broken: Some(_), ..
                },
                ..
            } => None,
            Edit::Propose {
                cell,
                author,
                language,
                source,
            } => {
                let code = self.code(source, language.as_deref());
                self.cells.insert(cell.clone(), Known::new(code.clone()));
                Some(Record::CodeProposed {
                    cell: cell.clone(),
                    author: match author {
                        Author::Person => "person",
                        Author::Model { .. } => "model",
                    }
                    .to_owned(),
                    code,
                })
            }
            Edit::Change { cell, source } => {
                let known = self.cells.get_mut(cell)?;
                known.code = Code::of(source, &known.code.language);
                Some(Record::CodeChanged {
                    cell: cell.clone(),
                    by: by.map(str::to_owned),
                    code: known.code.clone(),
                })
            }
            Edit::Start { cell, .. } => {
                let known = self.cells.get_mut(cell)?;
                known.ran = true;
                Some(Record::Ran {
                    cell: cell.clone(),
                    code: known.code.clone(),
                })
            }
            Edit::Finish { cell, status, .. } => {
                let known = self.cells.get_mut(cell)?;
                known.is_over = true;
                Some(outcome(cell, status))
            }
            Edit::Files { cell, files } => Some(files_record(cell, files)),
            Edit::Emit {
                cell,
                output: OutputEvent::Lost(words),
            } => kernel_limit(words).map(|hit| limit(&hit, Some(cell))),
            Edit::Spend(usage) => Some(Record::ModelAnswered {
                input_tokens: usage.input,
                cached_tokens: usage.cached,
                output_tokens: usage.output,
            }),
            _ => None,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    fn happened(&mut self, event: &EventKind) -> Option<Record> {
        Some(match event {
            EventKind::ModelAsked {
                purpose,
                model,
                host,
            } => Record::ModelAsked {
                purpose: purpose.clone(),
                model: model.clone(),
                host: host.clone(),
            },
            EventKind::ModelChanged { model, .. } => Record::ModelChanged {
                model: model.clone(),
            },
            EventKind::ApprovalResolved { cell, decision, by } => {
                return self.decided(cell, decision, by);
            }
            EventKind::CodeApproved {
                cell,
                sha256,
                grounds,
                by,
                ruling,
            } => Record::Decision {
                cell: cell.clone(),
                sha256: sha256.clone(),
                decision: self
                    .cells
                    .get_mut(cell)
                    .and_then(|known| known.decided.take())
                    .unwrap_or("run")
                    .to_owned(),
                grounds: Some(*grounds),
                by: by.clone(),
                ruling: ruling.as_ref().and_then(|it| serde_json::to_value(it).ok()),
            },
            EventKind::CodeForbidden { cell, ruling } => {
                let known = self.cells.get(cell)?;
                Record::Decision {
                    cell: cell.clone(),
                    sha256: known.code.sha256.clone(),
                    decision: "forbid".to_owned(),
                    grounds: Some(Grounds::Policy),
                    by: None,
                    ruling: serde_json::to_value(ruling).ok(),
                }
            }
            EventKind::ApprovalChanged { approval, by } => Record::ApprovalChanged {
                approval: approval.name().to_owned(),
                by: by.clone(),
            },
            EventKind::StillRunning {
                cell,
                interrupts: 1,
            } => limit("cell_time", Some(cell)),
            EventKind::ContinueRequested { end } => limit(limit_of(end)?, None),
            EventKind::ContinueResolved { go_on, by } => Record::LimitAnswered {
                go_on: *go_on,
                by: by.clone(),
            },
            EventKind::KernelReady { kernel, .. } => Record::KernelStarted {
                kernel: kernel.clone(),
                sandbox: self.sandbox.clone(),
            },
            EventKind::KernelDied { kernel, reason } => Record::KernelDied {
                kernel: kernel.clone(),
                reason: shortened(reason),
            },
            EventKind::KernelFailed { kernel, .. } => Record::KernelFailed {
                kernel: kernel.clone(),
            },
            EventKind::InputAnswered {
                cell, by, client, ..
            } => Record::InputAnswered {
                cell: cell.clone(),
                by: match by {
                    AnsweredBy::Person => "person",
                    AnsweredBy::Model => "model",
                }
                .to_owned(),
                client: client.clone(),
            },
            EventKind::CellReplayed { cell, status, .. } => Record::Outcome {
                cell: cell.clone(),
                status: status.to_string(),
                again: true,
            },
            EventKind::SessionRestored {
                by, ran, differing, ..
            } => Record::Restored {
                by: match by {
                    RestoredBy::Kernel => "kernel",
                    RestoredBy::Replay => "replay",
                    RestoredBy::Nothing => "nothing",
                }
                .to_owned(),
                ran: *ran,
                differing: *differing,
            },
            EventKind::Undone(undone) => undone_record(undone),
            EventKind::TurnFinished { end, .. } => turn_finished(end)?,
            _ => return None,
        })
    }

    fn decided(&mut self, cell: &str, decision: &Decision, by: &str) -> Option<Record> {
        let known = self.cells.get_mut(cell)?;
        known.decided = match decision {
            Decision::Run => None,
            Decision::Always => Some("always"),
            Decision::Change { .. } => Some("change"),
            Decision::Never | Decision::Decline { .. } => {
                let is_once = matches!(decision, Decision::Decline { .. });
                return Some(Record::Decision {
                    cell: cell.to_owned(),
                    sha256: known.code.sha256.clone(),
                    decision: if is_once { "decline" } else { "never" }.to_owned(),
                    grounds: None,
                    by: Some(by.to_owned()),
                    ruling: None,
                });
            }
        };
        None
    }

    /// Items were dropped: the transcript shows what happened to the cells in the meantime.
    fn catch_up(&mut self, snapshot: &Snapshot, records: &mut Vec<Record>) {
        let now = snapshot.at.sequence;
        records.push(Record::Missed {
            items: now.saturating_sub(self.at),
        });
        self.at = now;
        for (cell, mut known, status) in self.cells_of(&snapshot.transcript()) {
            let before = self.cells.get(&cell);
            let (had_run, was_over) = before.map_or((false, false), |it| (it.ran, it.is_over));
            known.decided = before.and_then(|it| it.decided);
            if known.ran && !had_run {
                records.push(Record::Ran {
                    cell: cell.clone(),
                    code: known.code.clone(),
                });
            }
            if known.is_over && !was_over {
                records.push(outcome(&cell, &status));
            }
            self.cells.insert(cell, known);
        }
    }

    /// The code cells of a transcript.
    fn cells_of(&self, transcript: &Transcript) -> Vec<(String, Known, CodeStatus)> {
        let cells = transcript.cells().iter();
        cells
            .filter_map(|cell| match &cell.kind {
                CellKind::Code(code) => {
                    let known = Known {
                        ran: code.started.is_some(),
                        is_over: !matches!(code.status, CodeStatus::Proposed | CodeStatus::Running),
                        ..Known::new(self.code(&cell.source, code.language.as_deref()))
                    };
                    Some((cell.id.clone(), known, code.status.clone()))
                }
                _ => None,
            })
            .collect()
    }

    fn code(&self, source: &str, language: Option<&str>) -> Code {
        Code::of(source, language.unwrap_or(&self.language))
    }
}

impl Known {
    fn new(code: Code) -> Self {
        Self {
            code,
            decided: None,
            ran: false,
            is_over: false,
        }
    }
}

fn files_record(cell: &str, files: &FilesChanged) -> Record {
    let paths = |files: &[ChangedFile]| files.iter().map(|file| file.path.clone()).collect();
    Record::Files {
        cell: cell.to_owned(),
        created: paths(&files.created),
        changed: paths(&files.changed),
        deleted: files.deleted.clone(),
        more: files.more,
        incomplete: files.incomplete,
    }
}

fn outcome(cell: &str, status: &CodeStatus) -> Record {
    Record::Outcome {
        cell: cell.to_owned(),
        status: CellStatus::from(status).to_string(),
        again: false,
    }
}

fn limit(limit: &str, cell: Option<&str>) -> Record {
    Record::Limit {
        limit: limit.to_owned(),
        cell: cell.map(str::to_owned),
    }
}

/// The kernel limit reported in a cell's output. Code cannot fake it: code only produces streams and displays.
fn kernel_limit(words: &str) -> Option<String> {
    let hit = words.strip_prefix(HIT).map(str::to_owned);
    hit.or_else(|| Some(format!("perhaps {}", words.strip_prefix(MAY_BE_HIT)?)))
}

fn limit_of(end: &TurnEnd) -> Option<&'static str> {
    match end {
        TurnEnd::StepLimit { .. } => Some("steps"),
        TurnEnd::Repeating => Some("repetition"),
        TurnEnd::Budget { .. } => Some("budget"),
        TurnEnd::Done
        | TurnEnd::Planned
        | TurnEnd::CellFailed
        | TurnEnd::Interrupted
        | TurnEnd::Declined
        | TurnEnd::ModelFailed { .. }
        | TurnEnd::KernelFailed { .. } => None,
    }
}

fn turn_finished(end: &TurnEnd) -> Option<Record> {
    let end = serde_json::to_value(end).ok()?;
    let end = end.get("end")?.as_str()?.to_owned();
    Some(Record::TurnFinished { end })
}

fn undone_record(undone: &Undone) -> Record {
    let (restored, removed) = (&undone.restored, &undone.removed);
    let first = |files: &[String]| files.iter().take(FILES).cloned().collect::<Vec<_>>();
    let (first_restored, first_removed) = (first(restored), first(removed));
    Record::Undone {
        cells: undone.cells,
        variables: undone.variables.clone(),
        more: restored.len() + removed.len() - first_restored.len() - first_removed.len(),
        restored: first_restored,
        removed: first_removed,
    }
}

/// The beginning of a text of any length.
fn shortened(words: &str) -> String {
    let end = crate::session::outputs::floor_boundary(words, REASON);
    words.get(..end).unwrap_or_default().to_owned()
}
