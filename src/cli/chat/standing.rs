//! `/status` and `/sandbox`: what holds in a session, and whether its kernels may start again for something else.

use std::fmt::Write as _;
use std::path::PathBuf;

use tokio::sync::mpsc;

use crate::agent::Totals;
use crate::agent::approval::Approval;
use crate::app::Session;
use crate::app::sandbox::SandboxLine;
use crate::cli::confine;
use crate::cli::interact::Controls;
use crate::cli::line_source::LineSource;
use crate::cli::render::Renderer;
use crate::cli::stop::Ask;
use crate::cli::{eprint, filter, totals};

/// What holds in a session from its start on.
pub(in crate::cli) struct Standing {
    id: String,
    /// `None` in a terminal that attached.
    here: Option<Here>,
    /// What the session has cost so far.
    spent: Option<Totals>,
}

struct Here {
    sandbox: SandboxLine,
    notebook: PathBuf,
    directory: PathBuf,
}

impl Standing {
    /// Of a session of this terminal.
    pub(super) fn of(session: &Session) -> Self {
        Self {
            id: session.id.clone(),
            spent: None,
            here: Some(Here {
                sandbox: session.sandbox.clone(),
                notebook: session.notebook.clone(),
                directory: session.directory.clone(),
            }),
        }
    }

    /// Of a session that another process runs.
    pub(in crate::cli) fn elsewhere(id: String) -> Self {
        Self {
            id,
            here: None,
            spent: None,
        }
    }

    /// A turn has ended.
    pub(super) fn after(&mut self, renderer: &Renderer) {
        self.spent = renderer.spent.or(self.spent);
    }

    /// How code is confined, and when a person is asked.
    pub(super) fn lines(&self, approval: Approval) -> String {
        match &self.here {
            Some(here) => confine::lines(&here.sandbox, approval),
            None => "sandbox: the first lines of the terminal in which the session began say it\n"
                .to_owned(),
        }
    }

    /// All of it.
    pub(super) fn status(&self, model: Option<&str>, controls: &Controls) -> String {
        let mut text = format!("session: {}\n", self.id);
        let _ = writeln!(text, "model: {}", model.unwrap_or("none"));
        if let Some(own) = controls.own_kernel() {
            let others = match controls.kernels.len().saturating_sub(1) {
                0 => String::new(),
                others => format!("; {others} more, /kernel lists them"),
            };
            let _ = writeln!(text, "kernel: {} ({}){others}", own.kernel, own.language);
        }
        if let Some(here) = &self.here {
            let _ = writeln!(text, "directory: {}", here.directory.display());
            let _ = writeln!(text, "notebook: {}", here.notebook.display());
        }
        let _ = match &self.spent {
            Some(spent) if spent.requests > 0 => writeln!(text, "spent: {}", totals::spent(spent)),
            Some(_) | None => writeln!(text, "spent: no model was asked yet"),
        };
        let _ = writeln!(text, "audit log: `sponde audit show {}`", self.id);
        filter::plain(&text) + &self.lines(controls.approval)
    }

    /// Whether the person wants the kernels to start again, which takes their variables. `typed` is `None` where nobody is.
    ///
    /// # Errors
    /// The signal that came instead of an answer.
    pub(super) async fn may_restart(
        &self,
        typed: Option<&mut LineSource>,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<bool, Ask> {
        let refused = match &self.here {
            None => Some("only the terminal in which the session began can do that"),
            Some(here) => match here.sandbox {
                SandboxLine::NotOurs | SandboxLine::OfGateway => {
                    Some("the kernel was not started by us, so it is not ours to confine")
                }
                SandboxLine::Full | SandboxLine::Confined(_) => None,
            },
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
