//! What the live kernel says about a line that is being typed: how it could go on, and whether it is whole.
//!
//! The editor's thread waits for it, never for long: a kernel that is busy or starts has nothing to say.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::agent::asides::Asides;
use crate::kernel::{Completeness, Completions};

/// The first completion of a Python kernel can take seconds.
const COMPLETES_WITHIN: Duration = Duration::from_secs(3);
/// Enter must not feel slow.
const TELLS_WITHIN: Duration = Duration::from_millis(300);

/// The kernels of a session, for the thread of the line editor.
#[derive(Clone)]
pub(in crate::cli) struct KernelLines {
    asides: Asides,
    runtime: Handle,
    /// Names of kernels, which `/kernel` takes.
    pub(super) names: Vec<String>,
}

impl KernelLines {
    /// Of a session of this process. To be called where its runtime is.
    pub(in crate::cli) fn of(asides: Asides, names: Vec<String>) -> Self {
        Self {
            asides,
            runtime: Handle::current(),
            names,
        }
    }

    /// What could stand at the end of `code`.
    pub(super) fn complete(&self, language: Option<&str>, code: &str) -> Completions {
        let answer = self.asides.complete(language, code, None);
        let answer = async { tokio::time::timeout(COMPLETES_WITHIN, answer).await };
        match self.runtime.block_on(answer) {
            Ok(Ok(completions)) => completions,
            Ok(Err(error)) => {
                tracing::debug!(%error, "no completions");
                Completions::default()
            }
            Err(_) => Completions::default(),
        }
    }

    /// Whether more lines have to follow `code`.
    pub(super) fn is_incomplete(&self, language: Option<&str>, code: &str) -> bool {
        let answer = self.asides.is_complete(language, code);
        let answer = async { tokio::time::timeout(TELLS_WITHIN, answer).await };
        matches!(
            self.runtime.block_on(answer),
            Ok(Ok(Completeness::Incomplete { .. }))
        )
    }
}
