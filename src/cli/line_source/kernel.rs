//! What the live kernel says about a line that is being typed: how it could go on, and whether it is whole.
//!
//! The editor's thread waits for it, never for long: a kernel that is busy or starts has nothing to say.

use std::time::Duration;

use tokio::runtime::Handle;

use super::choices::Choices;
use crate::agent::query::{CodeAt, CodeState, CompletionList, Query, QueryAnswer};
use crate::agent::stream::Queries;

/// The first completion of a Python kernel can take seconds.
const COMPLETES_WITHIN: Duration = Duration::from_secs(3);
/// Enter must not feel slow.
const TELLS_WITHIN: Duration = Duration::from_millis(300);

/// The kernels of a session, for the thread of the line editor.
#[derive(Clone)]
pub(in crate::cli) struct KernelLines {
    queries: Queries,
    runtime: Handle,
    /// What commands take.
    pub(super) choices: Choices,
}

impl KernelLines {
    /// Of a session of this process or another. To be called where the runtime is.
    pub(in crate::cli) fn of(queries: Queries, choices: Choices) -> Self {
        Self {
            queries,
            runtime: Handle::current(),
            choices,
        }
    }

    /// What could stand at the end of `code`.
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

    /// Whether more lines have to follow `code`.
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
