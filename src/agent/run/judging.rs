//! Analyses the model's code before the turn decides whether it runs, and reports the decision.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use super::{CodeStatus, EventKind, Session};
use crate::agent::approval::{
    Action, Analysis, Approval, Finding, FindingKind, Ground, Grounds, Policy, RuledBy, Ruling,
    analyse,
};
use crate::agent::event::Decision;
use crate::agent::tool_calls::{Permitted, ToolPermit};
use crate::agent::{AgentOptions, approval};
use crate::kernel::Extent;
use crate::session::journal::{Entry, Permit};
use crate::session::transcript::Author;

/// Time limit of an analysis.
const WITHIN: Duration = Duration::from_secs(5);
/// How many abandoned analyses may still be running: parsers cannot be stopped.
const MOST_LEFT: usize = 2;

/// How many earlier cells are read for their imports.
const MOST_EARLIER: usize = 500;

/// The number of running analyses.
static GOING_ON: AtomicUsize = AtomicUsize::new(0);

/// The policy of a session with these options.
pub(super) fn policy(options: &AgentOptions, permits: &[Permit]) -> Policy {
    let home = options.kernel.env.iter().find(|(name, _)| name == "HOME");
    let ground = Ground {
        cwd: options.kernel.cwd.clone(),
        home: home.map(|(_, home)| home.into()),
        extent: Extent::of(&options.kernel.sandbox),
    };
    let mut policy = Policy::new(options.approval, options.rules.clone(), ground);
    for permit in permits {
        policy.remember(permit.clone());
    }
    policy
}

/// The start of a session, from its journal.
pub(super) fn began(at: &str) -> SystemTime {
    let at: Option<jiff::Timestamp> = at.parse().ok();
    at.map_or_else(SystemTime::now, SystemTime::from)
}

impl Session {
    /// The findings in a cell of the model. Code that takes too long to parse is given up, which is a finding too.
    pub(super) async fn analysed(&mut self, code: &str, language: &str) -> Analysis {
        if GOING_ON.load(Ordering::Relaxed) >= MOST_LEFT {
            return given_up(code);
        }
        let policy = self.turn.policy().clone();
        let earlier = self.unread();
        let mut memory = std::mem::take(&mut self.cells.memory);
        let before = memory.clone();
        let began = self.cells.began;
        let (code_of_it, language) = (code.to_owned(), language.to_owned());
        GOING_ON.fetch_add(1, Ordering::Relaxed);
        let analysis = tokio::task::spawn_blocking(move || {
            let is_old = |path: &Path| was_there(path, began);
            let site = policy.site(&is_old);
            for (code, language) in earlier {
                analyse(&code, &language, &site, &mut memory);
            }
            let found = analyse(&code_of_it, &language, &site, &mut memory);
            GOING_ON.fetch_sub(1, Ordering::Relaxed);
            (found, memory)
        });
        if let Ok(Ok((found, memory))) = tokio::time::timeout(WITHIN, analysis).await {
            self.cells.memory = memory;
            found
        } else {
            self.cells.memory = before;
            given_up(code)
        }
    }

    /// The cells whose imports have not been read yet, with their languages: those of a resumed session, an opened
    /// notebook, or a person. They are returned only once, so that hostile ones delay only one answer.
    fn unread(&mut self) -> Vec<(String, String)> {
        let cells = self.transcript.cells();
        let read = self.cells.read.as_deref();
        let read = read.and_then(|last| self.transcript.position(last));
        let begin = read.map_or(0, |last| last + 1);
        let begin = begin.max(cells.len().saturating_sub(MOST_EARLIER));
        let code = cells.iter().skip(begin).filter_map(|cell| {
            let language = cell.code()?.language.clone();
            Some((
                cell.source.clone(),
                language.unwrap_or_else(|| self.language()),
            ))
        });
        let unread = code.collect();
        self.cells.read = cells.last().map(|last| last.id.clone());
        unread
    }

    /// The same for code that comes with a decision.
    pub(super) async fn analysed_change(
        &mut self,
        cell: &str,
        decision: &Decision,
    ) -> Option<Analysis> {
        let Decision::Change { source } = decision else {
            return None;
        };
        let language = self.transcript.code(cell)?.language.clone();
        let language = language.unwrap_or_else(|| self.language());
        Some(self.analysed(source, &language).await)
    }

    /// Asks a person about a cell.
    pub(super) fn ask_about(&mut self, cell: String) {
        let (findings, reason) = self.question_about();
        self.publish(EventKind::ApprovalRequested {
            cell,
            findings,
            reason,
        });
    }

    /// The content of the question about the waiting cell.
    pub(super) fn question_about(&self) -> (Vec<Finding>, String) {
        let ruling = self.turn.ruling();
        ruling.map_or_else(Default::default, |ruling| (ruling.findings, ruling.reason))
    }

    /// Why the model's earlier code must not run again with the current permissions: the old sandbox blocked something
    /// that the new one allows, and nobody was asked about it.
    pub(super) async fn not_again(&mut self, cell: &str) -> Option<String> {
        let code = self.transcript.code(cell)?;
        let is_of_model = matches!(code.author, Author::Model { .. });
        if !self.resuming.is_widened || !is_of_model {
            return None;
        }
        let language = code.language.clone().unwrap_or_else(|| self.language());
        let source = self.transcript.cell(cell)?.source.clone();
        let analysis = self.analysed(&source, &language).await;
        let mut policy = self.turn.policy().clone();
        policy.approval = Approval::OnRisk;
        let ruling = policy.rule(&analysis, &language);
        if ruling.action == Action::Allow {
            return None;
        }
        let found = ruling.findings.first();
        Some(found.map_or(ruling.reason.clone(), |found| {
            format!(
                "the sandbox permits more now, and line {} {}",
                found.line, found.reason
            )
        }))
    }

    /// The ruling for a cell of the model that is about to run; `by` decided, if a person was asked.
    pub(super) fn ruling_to_run(&self, by: Option<&str>) -> Option<Ruling> {
        let mut ruling = self.turn.ruling()?;
        if let Some(client) = by {
            ruling.action = Action::Allow;
            ruling.by = RuledBy::Person {
                client: client.to_owned(),
            };
        }
        Some(ruling)
    }

    /// The ruling on a cell that a rule forbids.
    pub(super) async fn forbidden(&mut self, cell: &str) -> Option<Ruling> {
        let language = self.transcript.code(cell)?.language.clone();
        let language = language.unwrap_or_else(|| self.language());
        let source = self.transcript.cell(cell)?.source.clone();
        let analysis = self.analysed(&source, &language).await;
        self.cells.calls_tools = analysis.finds(FindingKind::Tool);
        let ruling = self.turn.policy().rule(&analysis, &language);
        (ruling.action == Action::Forbid).then_some(ruling)
    }

    /// The tools that code may call if it runs on these grounds.
    pub(super) fn may_call(&self, grounds: Grounds) -> Permitted {
        let is_judged = match grounds {
            Grounds::Own => !self.options.judges_clients || self.cells.calls_tools,
            Grounds::Decided | Grounds::Policy => self.turn.finds(FindingKind::Tool),
            Grounds::Replay | Grounds::Undo => return Permitted::Reads,
        };
        if is_judged {
            Permitted::All
        } else {
            Permitted::Nothing
        }
    }

    /// The permit for a run of `cell`, which was approved last.
    pub(super) fn tool_permit(&self, cell: &str) -> Option<ToolPermit> {
        let calls = self.options.tool_calls.as_ref()?;
        Some(calls.begin(cell, self.cells.permitted))
    }

    /// A rule forbids a cell: tells the model, and shows it to the person.
    pub(super) fn forbid(&mut self, cell: String, ruling: Ruling) {
        self.end_cell(&cell, CodeStatus::NotRun(ruling.words_for_model()));
        self.publish(EventKind::CodeForbidden { cell, ruling });
    }

    /// A person allows code of this kind from now on.
    pub(super) fn remember(&mut self, permit: Permit) {
        if let Some(store) = self.disk.store() {
            store.note(&Entry::Permitted(permit));
            self.disk.keep_soon();
        }
    }
}

/// Whether a file existed before the session, judging by its time.
fn was_there(path: &Path, began: SystemTime) -> bool {
    let changed = std::fs::metadata(path).and_then(|found| found.modified());
    changed.is_ok_and(|changed| changed < began)
}

/// The analysis of code that takes too long to parse.
fn given_up(code: &str) -> Analysis {
    let first = code.trim_start().lines().next().unwrap_or_default();
    Analysis {
        findings: vec![approval::Finding {
            kind: FindingKind::Unanalysed,
            line: 1,
            column: 1,
            text: first.chars().take(100).collect(),
            reason: "takes too long to be analysed".to_owned(),
            path: None,
            place: None,
            command: None,
        }],
        ..Analysis::default()
    }
}
