//! `/status` and `/sandbox`: show the current settings, and ask whether the kernels may restart for a change.

use std::fmt::Write as _;

use tokio::sync::mpsc;

use crate::agent::approval::Approval;
use crate::agent::query::{ContextUse, SessionStatus};
use crate::app::Session;
use crate::app::sandbox::SandboxLine;
use crate::cli::interact::Controls;
use crate::cli::line_source::LineSource;
use crate::cli::stop::Ask;
use crate::cli::style::DIM;
use crate::cli::{confine, eprint, filter, totals};

/// Settings that are fixed from a session's start.
pub(in crate::cli) struct Standing {
    id: String,
    /// `None` in a terminal that attached.
    sandbox: Option<SandboxLine>,
}

impl Standing {
    /// For a session of this terminal.
    pub(super) fn of(session: &Session) -> Self {
        Self {
            id: session.id.clone(),
            sandbox: Some(session.sandbox.clone()),
        }
    }

    /// For a session that another process runs.
    pub(in crate::cli) fn attached(id: String) -> Self {
        Self { id, sandbox: None }
    }

    /// How code is confined, and when a person is asked.
    pub(super) fn lines(&self, status: &SessionStatus, approval: Approval) -> String {
        match &self.sandbox {
            Some(sandbox) => confine::lines(sandbox, approval),
            None => confine::told(DIM, &filter::plain(&status.sandbox), approval),
        }
    }

    /// The whole status.
    pub(super) fn status(&self, status: &SessionStatus, controls: &Controls) -> String {
        let mut text = format!("session: {}\n", self.id);
        let _ = writeln!(text, "model: {}", status.model.as_deref().unwrap_or("none"));
        if status.model.is_some() {
            let _ = writeln!(text, "context: {}", context(status.context));
        }
        if let Some(own) = controls.own_kernel() {
            let others = match controls.kernels.len().saturating_sub(1) {
                0 => String::new(),
                others => format!("; {others} more, /kernel lists them"),
            };
            let _ = writeln!(text, "kernel: {} ({}){others}", own.kernel, own.language);
        }
        let _ = writeln!(text, "directory: {}", status.directory);
        let _ = writeln!(text, "notebook: {}", status.notebook);
        let spent = &status.spent;
        let _ = if spent.requests > 0 {
            writeln!(text, "spent: {}", totals::spent(spent))
        } else {
            writeln!(text, "spent: no model was asked yet")
        };
        let _ = writeln!(text, "audit log: `sponde audit show {}`", self.id);
        filter::plain(&text) + &self.lines(status, controls.approval)
    }

    /// Asks whether the kernels may restart, which loses their variables. `typed` is `None` if nobody can be asked.
    ///
    /// # Errors
    /// The signal that came instead of an answer.
    pub(super) async fn may_restart(
        &self,
        typed: Option<&mut LineSource>,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<bool, Ask> {
        let refused = match &self.sandbox {
            None => Some("only the terminal in which the session began can do that"),
            Some(SandboxLine::NotOurs | SandboxLine::OfGateway) => {
                Some("the kernel was not started by us, so it is not ours to confine")
            }
            Some(SandboxLine::Full | SandboxLine::Confined(_)) => None,
        };
        let (None, Some(typed)) = (refused, typed) else {
            let words = refused.unwrap_or(
                "only a person at a terminal can do that; a program names --sandbox at the start",
            );
            eprint(&format!("{words}\n"));
            return Ok(false);
        };
        eprint("This is fixed when kernels start: they start again, without their variables.\n");
        let question = "You are asked then whether the code so far runs again. Go on? [y/N]";
        let answer = typed.answer(question, signals).await?;
        let answer = answer.unwrap_or_default().trim().to_lowercase();
        Ok(matches!(answer.as_str(), "y" | "yes"))
    }
}

/// `12.3k of 200.0k tokens (6 %)`.
fn context(used: ContextUse) -> String {
    let tokens = totals::count(used.tokens);
    match used.window {
        Some(window @ 1..) => {
            let percent = used.tokens.saturating_mul(100) / window;
            format!("{tokens} of {} tokens ({percent} %)", totals::count(window))
        }
        Some(0) | None => format!("{tokens} tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ContextUse, context};

    #[test]
    fn how_much_of_a_window_is_used() {
        for (tokens, window, words) in [
            (500, None, "500 tokens"),
            (12_345, Some(200_000), "12.3k of 200.0k tokens (6 %)"),
            (5, Some(0), "5 tokens"),
        ] {
            assert_eq!(context(ContextUse { tokens, window }), words);
        }
    }
}
