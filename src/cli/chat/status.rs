//! `/status`: how things stand.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::agent::Totals;
use crate::agent::approval::Approval;
use crate::app::Session;
use crate::cli::interact::Controls;
use crate::cli::render::Renderer;
use crate::cli::totals;

/// What is known of a session besides its model and its kernels.
#[derive(Default)]
pub(in crate::cli) struct Status {
    sandbox: Option<String>,
    notebook: Option<PathBuf>,
    id: String,
    /// What it has cost so far.
    spent: Option<Totals>,
}

impl Status {
    /// Of a session of this process.
    pub(in crate::cli) fn of(session: &Session) -> Self {
        Self {
            sandbox: Some(session.sandbox.words().to_owned()),
            notebook: Some(session.notebook.clone()),
            id: session.id.clone(),
            spent: None,
        }
    }

    /// A turn has ended.
    pub(super) fn after(&mut self, renderer: &Renderer) {
        self.spent = renderer.spent.or(self.spent);
    }

    pub(super) fn words(&self, model: Option<&str>, controls: &Controls) -> String {
        let mut lines = vec![format!("model: {}", model.unwrap_or("none"))];
        if let Some(own) = controls.own_kernel() {
            let others = controls.kernels.len() - 1;
            let others = match others {
                0 => String::new(),
                others => format!("; {others} more, /kernel lists them"),
            };
            lines.push(format!("kernel: {} ({}){others}", own.kernel, own.language));
        }
        lines.push(
            match controls.approval {
                Approval::Always => "approval: always, you are asked before each cell",
                Approval::OnRisk => "approval: on-risk, you are asked before code that may do what the sandbox does not stop",
                Approval::Never => "approval: never, code runs without a question",
            }
            .to_owned(),
        );
        lines.extend(self.sandbox.clone());
        lines.push(match &self.spent {
            Some(spent) if spent.requests > 0 => format!("session: {}", totals::spent(spent)),
            Some(_) | None => "session: no model was asked yet".to_owned(),
        });
        if let Some(notebook) = &self.notebook {
            lines.push(format!(
                "notebook: {} (session {})",
                notebook.display(),
                self.id
            ));
        }
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}
