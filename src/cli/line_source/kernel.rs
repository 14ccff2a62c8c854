//! Asks the live kernel about a line that is being typed: its completions, and whether it is complete.
//!
//! The editor's thread waits only briefly: a busy or starting kernel gives no answer.

use std::time::Duration;

use tokio::runtime::Handle;

use super::choices::Choices;
use crate::agent::query::{CodeAt, CodeState, CompletionList, Query, QueryAnswer};
use crate::agent::stream::Queries;

/// The first completion of a Python kernel can take seconds.
const COMPLETES_WITHIN: Duration = Duration::from_secs(3);
/// Enter must not feel slow.
const TELLS_WITHIN: Duration = Duration::from_millis(300);

/// The kernels of a session, for use on the line editor's thread.
#[derive(Clone)]
pub(in crate::cli) struct KernelLines {
    queries: Queries,
    runtime: Handle,
    /// Possible arguments of commands.
    pub(super) choices: Choices,
}

impl KernelLines {
    /// For a session of this process or another. Call it inside the runtime.
    pub(in crate::cli) fn of(queries: Queries, choices: Choices) -> Self {
        Self {
            queries,
            runtime: Handle::current(),
            choices,
        }
    }

    /// Completions at the end of `code`.
    pub(super) fn complete(&self, language: Option<&str>, code: &str) -> CompletionList {
        let query = Query::Complete(CodeAt {
            code: code.to_owned(),
            cursor: None,
            language: language.map(str::to_owned),
        });
        match self.ask(query, COMPLETES_WITHIN) {
            Some(QueryAnswer::Completions(completions)) => completions,
            _ => CompletionList::default(),
        }
    }

    /// Whether `code` needs more lines.
    pub(super) fn is_incomplete(&self, language: Option<&str>, code: &str) -> bool {
        let query = Query::IsComplete {
            code: code.to_owned(),
            language: language.map(str::to_owned),
        };
        matches!(
            self.ask(query, TELLS_WITHIN),
            Some(QueryAnswer::Completeness(CodeState::Incomplete { .. }))
        )
    }

    fn ask(&self, query: Query, within: Duration) -> Option<QueryAnswer> {
        let answer = self.queries.ask(query);
        let answer = async { tokio::time::timeout(within, answer).await };
        match self.runtime.block_on(answer).ok()? {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!(%error, "the kernel has nothing to say about the line");
                None
            }
        }
    }
}
