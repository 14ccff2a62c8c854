//! What a chat does with its own session: shows a cell whole, lists its files, writes it elsewhere, forks it.

use std::path::{Path, PathBuf};

use crate::agent::sessions;
use crate::agent::stream::SessionHandle;
use crate::app::cells::{self, ShownCell};
use crate::app::{Context, Session, exported, kept};
use crate::cli::interact::edit::edit;
use crate::cli::style::{DIM, paint, stderr_colours};
use crate::cli::tint::tinted;
use crate::cli::{filter, human};
use crate::error::Failure;
use crate::session::CellStatus;

/// The session of this terminal.
pub(in crate::cli) struct OwnSession {
    handle: SessionHandle,
    id: String,
    notebook: PathBuf,
    context: Context,
}

impl OwnSession {
    pub(super) fn of(session: &Session, context: &Context) -> Self {
        Self {
            handle: session.agent.handle().clone(),
            id: session.id.clone(),
            notebook: session.notebook.clone(),
            context: context.clone(),
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The cell of that number, or the latest of code.
    pub(super) async fn cell(&self, number: Option<usize>) -> Result<ShownCell, String> {
        let found = self.handle.look(move |all| cells::cell(all, number)).await;
        found.unwrap_or_else(|ended| Err(ended.to_string()))
    }

    /// The code of a cell, and its language where that is not the main kernel's.
    pub(super) async fn code(
        &self,
        number: Option<usize>,
    ) -> Result<(String, Option<String>), String> {
        let cell = self.cell(number).await?;
        if cell.status.is_none() {
            return Err(format!("cell {} is words, and no code", cell.number));
        }
        Ok((cell.source, cell.language))
    }

    /// The same as the person leaves it in their editor.
    pub(super) async fn edited(
        &self,
        number: Option<usize>,
    ) -> Result<(String, Option<String>), String> {
        let (code, language) = self.code(number).await?;
        let edited = edit(&code, language.as_deref().unwrap_or_default()).await;
        Ok((edited.map_err(|error| error.to_string())?, language))
    }

    /// The files that the session has created, changed or deleted.
    pub(super) async fn files(&self) -> String {
        let files = self.handle.look(cells::files).await.unwrap_or_default();
        if files.is_empty() {
            return "this session has changed no files\n".to_owned();
        }
        filter::plain(&(files.join("\n") + "\n"))
    }

    /// Writes the session to `file`, as what its ending says.
    pub(super) fn save(&self, file: &Path) -> Result<String, String> {
        if !self.notebook.exists() {
            return Err("there is nothing to save yet".to_owned());
        }
        let file = match file.strip_prefix("~") {
            Ok(rest) => match self.context.paths.environment.get("HOME") {
                Some(home) => Path::new(home).join(rest),
                None => file.to_owned(),
            },
            Err(_) => file.to_owned(),
        };
        exported::write(&self.notebook, None, &file, false, &self.context)
            .map_err(|failure| words_of(&failure))?;
        let bytes = std::fs::metadata(&file).map_or(0, |it| it.len());
        Ok(format!(
            "saved {} ({})\n",
            file.display(),
            human::bytes(bytes)
        ))
    }

    /// Makes another session that begins as this one did.
    pub(super) fn fork(&self, at: Option<&str>) -> Result<String, String> {
        let dir = self.context.paths.sessions();
        let all = sessions::list(&dir);
        let made = kept::find(&all, Some(&self.id))
            .and_then(|found| kept::fork(found, at, &self.context))
            .map_err(|failure| words_of(&failure))?;
        let all = sessions::list(&dir);
        let short = sessions::short(&made.id, &all);
        Ok(format!(
            "forked after {}; /resume {short} goes on with the fork, and this session goes on here\n",
            human::count(made.cells, "cell")
        ))
    }
}

fn words_of(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}: {hint}", failure.message),
        None => failure.message.clone(),
    }
}

/// A cell as it is shown whole.
pub(super) fn text(cell: &ShownCell) -> String {
    let colours = stderr_colours();
    let language = cell.language.as_deref();
    let mut head = format!("cell {}", cell.number);
    for more in [language, cell.status.map(CellStatus::as_str)]
        .into_iter()
        .flatten()
    {
        head.push_str(" · ");
        head.push_str(more);
    }
    let source = match language {
        Some(language) => tinted(cell.source.trim_end(), language, colours),
        None => filter::plain(cell.source.trim_end()),
    };
    let mut text = format!("{}\n{source}\n", paint(DIM, &filter::plain(&head), colours));
    if !cell.output.is_empty() {
        text.push_str(&paint(DIM, "── output", colours));
        text.push('\n');
        text.push_str(&filter::coloured(&cell.output, colours));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
