//! What a terminal can do with its session, whether this process or another one runs it: show a cell whole, list its
//! files, save it elsewhere, fork it.

use std::path::{Path, PathBuf};

use super::open;
use crate::agent::query::{Query, QueryAnswer, QueryError, SessionStatus};
use crate::agent::sessions;
use crate::agent::stream::View;
use crate::app::{Context, Session, exported, kept};
use crate::cli::interact::edit::edit;
use crate::cli::style::{DIM, paint, stderr_colours};
use crate::cli::tint::tinted;
use crate::cli::{filter, human};
use crate::error::Failure;
use crate::session::CellStatus;
use crate::session::numbered::{ChangeKind, FileChange, NumberedCell};

/// The session that this terminal shows.
pub(in crate::cli) struct ThisSession {
    id: String,
    notebook: PathBuf,
    context: Context,
    /// Whether it ends with this terminal; otherwise it belongs to another process.
    is_ours: bool,
}

impl ThisSession {
    /// For a session of this process.
    pub(super) fn of(session: &Session, context: &Context) -> Self {
        Self {
            id: session.id.clone(),
            notebook: session.notebook.clone(),
            context: context.clone(),
            is_ours: true,
        }
    }

    /// For the session `id` that another process of this person runs.
    pub(in crate::cli) fn attached(id: String, notebook: PathBuf, context: &Context) -> Self {
        Self {
            id,
            notebook,
            context: context.clone(),
            is_ours: false,
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// The session's status.
    pub(super) async fn status(view: &mut View) -> Result<SessionStatus, String> {
        match view.ask(Query::Status).await {
            Ok(QueryAnswer::Status(status)) => Ok(*status),
            other => Err(not_told(other)),
        }
    }

    /// The cell with that number, or the latest code cell.
    pub(super) async fn cell(
        view: &mut View,
        number: Option<usize>,
    ) -> Result<NumberedCell, String> {
        match view.ask(Query::Cell { number }).await {
            Ok(QueryAnswer::Cell(cell)) => Ok(cell),
            other => Err(not_told(other)),
        }
    }

    /// The code of a cell, and its language if that is not the main kernel's.
    pub(super) async fn code(
        view: &mut View,
        number: Option<usize>,
    ) -> Result<(String, Option<String>), String> {
        let cell = Self::cell(view, number).await?;
        if cell.status.is_none() {
            return Err(format!("cell {} is words, and no code", cell.number));
        }
        Ok((cell.source, cell.language))
    }

    /// The same, after the person edited it.
    pub(super) async fn edited(
        view: &mut View,
        number: Option<usize>,
    ) -> Result<(String, Option<String>), String> {
        let (code, language) = Self::code(view, number).await?;
        let edited = edit(&code, language.as_deref().unwrap_or_default()).await;
        Ok((edited.map_err(|error| error.to_string())?, language))
    }

    /// The files that the session has created, changed or deleted.
    pub(super) async fn files(view: &mut View) -> Result<String, String> {
        let files = match view.ask(Query::ChangedFiles).await {
            Ok(QueryAnswer::ChangedFiles { files }) => files,
            other => return Err(not_told(other)),
        };
        if files.is_empty() {
            return Ok("this session has changed no files\n".to_owned());
        }
        let lines: Vec<String> = files.iter().map(file_line).collect();
        Ok(filter::plain(&(lines.join("\n") + "\n")))
    }

    /// Writes the session to `file`, in the format of its suffix.
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

    /// Opens the output of a cell in another program.
    pub(super) fn open(&self, cell: &NumberedCell) -> Result<String, String> {
        open::open(cell, &self.notebook, &self.context)
    }

    /// Makes another session that begins like this one.
    pub(super) fn fork(&self, at: Option<&str>) -> Result<String, String> {
        let dir = self.context.paths.sessions();
        let all = sessions::list(&dir);
        let made = kept::find(&all, Some(&self.id))
            .and_then(|found| kept::fork(found, at, &self.context))
            .map_err(|failure| words_of(&failure))?;
        let all = sessions::list(&dir);
        let short = sessions::short(&made.id, &all);
        Ok(format!(
            "forked after {}; /resume {short} continues the fork; this session continues here\n",
            human::count(made.cells, "cell")
        ))
    }
}

/// Why the session did not answer a query.
fn not_told(answer: Result<QueryAnswer, QueryError>) -> String {
    match answer {
        Err(error) => match &error.hint {
            Some(hint) => format!("{error}: {hint}"),
            None => error.to_string(),
        },
        Ok(answer) => {
            tracing::debug!(?answer, "not what was asked");
            "the session gave another answer than was asked for".to_owned()
        }
    }
}

fn file_line(file: &FileChange) -> String {
    let mark = match file.change {
        ChangeKind::Created => '+',
        ChangeKind::Changed => '~',
        ChangeKind::Deleted => '-',
    };
    match &file.runs {
        Some(runs) => format!("{mark} {}  ({runs})", file.path),
        None => format!("{mark} {}", file.path),
    }
}

fn words_of(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{}: {hint}", failure.message),
        None => failure.message.clone(),
    }
}

/// The full text of a cell.
pub(super) fn text(cell: &NumberedCell) -> String {
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
