//! Tool calls by a kernel's code: whether the running cell may make them, and a record of each for the audit log.
//!
//! A session and the task that carries out the calls share a [`ToolCalls`]. The session issues a [`ToolPermit`] for
//! each run of a cell, based on the findings when its run was decided; the permit ends with the run. Nothing waits for
//! a person here: a session that reruns cells answers no questions in the meantime.
//!
//! Not here: servers, and what a tool is (`app::tool_servers`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::audit::sha256;
use crate::kernel::Pace;

/// How far the audit log may fall behind; it is told how many calls it missed.
const BEHIND: usize = 256;
/// Maximum characters of a name in a record.
const NAME: usize = 100;

/// The tools that code may call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Permitted {
    /// All: the code was approved as calling tools, or a person wrote it.
    All,
    /// Only those that declare themselves read-only: the code is being rerun.
    Reads,
    /// None: the code was not approved as calling tools.
    #[default]
    Nothing,
}

/// Permissions and records of one session's calls. Clones share them.
#[derive(Debug, Clone)]
pub struct ToolCalls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    done: broadcast::Sender<ToolCall>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<(String, Permitted)>,
    /// The number of permits issued so far.
    number: u64,
    pace: Pace,
}

/// The permit of a running cell. It ends when dropped.
#[derive(Debug)]
pub(super) struct ToolPermit {
    calls: ToolCalls,
    number: u64,
}

/// A call, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The cell that ran; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// The server, as code names it.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// SHA-256 of its arguments, which are JSON.
    pub sha256: String,
    /// What became of it.
    #[serde(flatten)]
    pub end: ToolCallEnd,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ToolCallEnd {
    /// The tool returned something.
    Returned,
    /// The tool, or its server, failed.
    Failed,
    /// The cell that ran may not call it.
    Refused,
    /// It and other calls before it are not written down by themselves: there were too many in a minute.
    LeftOut {
        /// How many.
        calls: u64,
    },
}

impl ToolCall {
    /// A call to `tool` of `server` with `arguments`, while `cell` ran.
    pub fn new(
        cell: Option<String>,
        (server, tool): (&str, &str),
        arguments: &serde_json::Value,
        end: ToolCallEnd,
    ) -> Self {
        let short = |name: &str| name.chars().take(NAME).collect();
        Self {
            cell,
            server: short(server),
            tool: short(tool),
            sha256: sha256(arguments.to_string().as_bytes()),
            end,
        }
    }
}

impl Default for ToolCalls {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            done: broadcast::Sender::new(BEHIND),
        }))
    }
}

impl ToolCalls {
    /// The running cell, and the tools it may call.
    pub fn permitted(&self) -> Option<(String, Permitted)> {
        self.state().running.clone()
    }

    /// Records a call.
    pub fn record(&self, call: ToolCall) {
        let (is_one_too_many, before) = self.state().pace.next(Instant::now());
        if before > 0 {
            let calls = ToolCallEnd::LeftOut { calls: before };
            // There may be no subscriber, here and below.
            let _ = self.0.done.send(ToolCall {
                end: calls,
                ..call.clone()
            });
        }
        if !is_one_too_many {
            let _ = self.0.done.send(call);
        }
    }

    /// Subscribes to calls from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<ToolCall> {
        self.0.done.subscribe()
    }

    /// Issues a permit for a cell that starts.
    pub(super) fn begin(&self, cell: &str, permitted: Permitted) -> ToolPermit {
        let mut state = self.state();
        state.number += 1;
        state.running = Some((cell.to_owned(), permitted));
        ToolPermit {
            calls: self.clone(),
            number: state.number,
        }
    }

    /// The state is consistent after every change, even after a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ToolPermit {
    fn drop(&mut self) {
        let mut state = self.calls.state();
        if state.number == self.number {
            state.running = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_ends_with_its_run_and_not_with_another() {
        let calls = ToolCalls::default();
        assert_eq!(calls.permitted(), None);
        let first = calls.begin("a", Permitted::All);
        assert_eq!(calls.permitted(), Some(("a".to_owned(), Permitted::All)));
        let second = calls.begin("b", Permitted::Nothing);
        drop(first);
        assert_eq!(
            calls.permitted(),
            Some(("b".to_owned(), Permitted::Nothing))
        );
        drop(second);
        assert_eq!(calls.permitted(), None);
    }

    #[test]
    fn each_call_is_told_to_those_who_listen() {
        let calls = ToolCalls::default();
        let call = ToolCall::new(
            None,
            ("shop", &"x".repeat(1000)),
            &serde_json::json!({}),
            ToolCallEnd::Refused,
        );
        calls.record(call.clone());
        let mut heard = calls.subscribe();
        calls.record(call.clone());
        assert_eq!(heard.try_recv().unwrap(), call);
        assert!(heard.try_recv().is_err());
        assert_eq!(call.tool.len(), NAME);
    }
}
