//! Asks the agent of a container's session, and follows the answer, for both APIs.

use std::fmt::Write as _;

use super::input::Input;
use super::models::OWN;
use super::{BY, NO_INPUT, Refused};
use crate::agent::{EventKind, Totals};
use crate::app::containers::{ContainerFile, Containers, MadeFiles};
use crate::app::executor::{
    ExecutorError, ProgramSession, ShownOutput, Turn, TurnOutcome, Unattended, shown,
};
use crate::session::CellStatus;

/// How long the code that shows a picture to the model may take.
const SHOWN_WITHIN: std::time::Duration = std::time::Duration::from_mins(1);
/// Maximum pictures of a turn that become files.
const PLOTS: usize = 50;

/// A question that is being answered. Dropping it unfinished interrupts it.
pub(super) struct Asking {
    containers: Containers,
    container: String,
    session: ProgramSession,
    turn: Turn,
    before: MadeFiles,
    plots: usize,
    spent: Option<Totals>,
}

/// A step of the answer.
#[derive(Debug)]
pub(super) enum Step {
    /// More text from the model.
    Text(String),
    /// More code from the model.
    CodeDelta { cell: String, text: String },
    /// The complete code.
    Code { cell: String, source: String },
    /// The code starts.
    Started { cell: String },
    /// The code has ended.
    Finished {
        cell: String,
        status: CellStatus,
        outputs: Vec<ShownOutput>,
    },
    /// The reply broke off and begins again.
    Again,
}

/// Asks. A session that `knows_history` does not get the earlier messages again.
pub(super) async fn ask(
    containers: &Containers,
    container: &str,
    input: Input,
    knows_history: bool,
    model: Option<&str>,
) -> Result<Asking, Refused> {
    let session = containers.session(container).await?;
    let mut words = input.words(knows_history);
    for file in &input.file_ids {
        let path = containers.bring_stored(container, file).await?;
        // Writing to a string does not fail.
        let _ = write!(words, "\n\n[With this comes the file `{path}`.]");
    }
    for attached in input.attached {
        let name = attached.name;
        let file = containers.write(container, &name, attached.bytes).await?;
        if attached.is_picture && session.language() == "python" {
            show(&session, &file.path).await?;
        }
        let kind = if attached.is_picture {
            "picture"
        } else {
            "file"
        };
        // Writing to a string does not fail.
        let _ = write!(words, "\n\n[With this comes the {kind} `{}`.]", file.path);
    }
    let before = MadeFiles::since(containers.files(container).await?);
    // An unknown bare name refers to the program's default server.
    let named = model.filter(|name| !name.is_empty() && *name != OWN);
    let executor = containers.executor();
    let asked = session.ask_model(BY, words.clone(), named, executor).await;
    let turn = match asked {
        Err(ExecutorError::Model { .. }) if named.is_some_and(|name| !name.contains('/')) => {
            session.ask_model(BY, words, None, executor).await?
        }
        asked => asked?,
    };
    Ok(Asking {
        containers: containers.clone(),
        container: container.to_owned(),
        session,
        turn,
        before,
        plots: 0,
        spent: None,
    })
}

/// A cell that shows a picture: the model sees outputs.
async fn show(session: &ProgramSession, path: &str) -> Result<(), ExecutorError> {
    // JSON's escapes are valid in Python too.
    let path = serde_json::Value::from(path);
    let code =
        format!("from IPython.display import Image, display\ndisplay(Image(filename={path}))");
    let mut turn = session.run(BY, code, None, Some(SHOWN_WITHIN)).await?;
    while turn.next().await.is_some() {}
    Ok(())
}

impl Asking {
    /// The next step; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Step> {
        let unattended = Unattended { no_input: NO_INPUT };
        loop {
            return Some(match unattended.next(&mut self.turn).await? {
                EventKind::Text { text, .. } => Step::Text(text),
                EventKind::CodeDelta { cell, text, .. } => Step::CodeDelta { cell, text },
                EventKind::CodeProposed { cell, source, .. } => Step::Code { cell, source },
                EventKind::CodeStarted { cell } => Step::Started { cell },
                EventKind::CodeFinished { cell, status, .. } => {
                    let outputs = self.outputs(&cell).await;
                    Step::Finished {
                        cell,
                        status,
                        outputs,
                    }
                }
                EventKind::Retrying { .. } => Step::Again,
                EventKind::TurnFinished { turn, .. } => {
                    self.spent = Some(turn);
                    return None;
                }
                _ => continue,
            });
        }
    }

    /// A cell's outputs; its pictures become files of the container.
    async fn outputs(&mut self, cell: &str) -> Vec<ShownOutput> {
        let Some(cell) = self.session.cell(cell).await else {
            return Vec::new();
        };
        let made = tokio::task::spawn_blocking(move || shown(&cell)).await;
        let outputs = made.unwrap_or_default();
        let pictures = outputs.iter().filter_map(|output| match output {
            ShownOutput::Picture(mime, bytes) => Some((mime.clone(), bytes.clone())),
            _ => None,
        });
        let pictures: Vec<_> = pictures.take(PLOTS.saturating_sub(self.plots)).collect();
        self.plots += pictures.len();
        let kept = self.containers.keep_pictures(&self.container, pictures);
        if let Err(error) = kept.await {
            tracing::warn!(%error, "plots were not kept as files");
        }
        outputs
    }

    /// The files that code made.
    pub(super) async fn made(&self) -> Vec<ContainerFile> {
        let files = self.containers.files(&self.container).await;
        self.before.among(files.unwrap_or_default())
    }

    pub(super) fn outcome(&self) -> &TurnOutcome {
        self.turn.outcome()
    }

    pub(super) fn spent(&self) -> Totals {
        self.spent.unwrap_or_default()
    }

    /// The model that answers.
    pub(super) fn model(&self) -> String {
        let model = self.session.live.activity().model;
        model.unwrap_or_else(|| OWN.to_owned())
    }
}
