//! Delivers the answer: to a file, as validated JSON, or only to stdout.

use std::path::PathBuf;

use crate::agent::{TurnEnd, write_atomically};
use crate::app::Session;
use crate::app::answer::{AnswerSchema, last_answer};
use crate::cli::args::AnswerArgs;
use crate::cli::interact::Ended;
use crate::cli::print;
use crate::error::{Failure, FailureKind};

/// What the caller wants from the answer.
pub(super) struct Wanted {
    /// The schema that the answer must match.
    pub(super) schema: Option<AnswerSchema>,
    file: Option<PathBuf>,
    is_printed: bool,
}

impl Wanted {
    /// Reads the arguments.
    ///
    /// # Errors
    /// A schema that cannot be used, or a file that cannot be written: reported before a model is paid for the answer.
    pub(super) fn of(args: &AnswerArgs) -> Result<Self, Failure> {
        if let Some(file) = &args.output {
            let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
            if file.is_dir() || dir.is_some_and(|dir| !dir.is_dir()) {
                let words = format!("the answer cannot be written to `{}`", file.display());
                return Err(Failure::usage(words).hint("name a file in a directory that is there"));
            }
        }
        let schema = args.output_schema.as_deref();
        Ok(Self {
            schema: schema.map(AnswerSchema::read).transpose()?,
            file: args.output.clone(),
            is_printed: args.quiet,
        })
    }

    /// The answer of a completed turn, `None` of any other.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub(super) async fn answer(
        &self,
        ended: &Ended,
        session: &Session,
    ) -> Result<Option<String>, String> {
        let is_done = matches!(
            ended,
            Ended::Turn {
                end: TurnEnd::Done,
                ..
            }
        );
        if !is_done || self.schema.is_none() && self.file.is_none() && !self.is_printed {
            return Ok(None);
        }
        let said = session
            .agent
            .handle()
            .look(|transcript| last_answer(transcript).map(str::to_owned));
        let said = said.await.ok().flatten().unwrap_or_default();
        match &self.schema {
            Some(schema) => schema.check(&said).map(Some),
            None => Ok(Some(said)),
        }
    }

    /// Writes the answer to its destination. `as_events`: stdout carries events instead.
    ///
    /// # Errors
    /// What is wrong with the answer, or where it could not be written.
    pub(super) fn deliver(
        &self,
        answer: Result<Option<String>, String>,
        as_events: bool,
    ) -> Result<(), Failure> {
        let answer = answer.map_err(|wrong| {
            let words = format!("the answer does not fit the schema: {wrong}");
            Failure::new(FailureKind::Failed, words)
                .hint("the model was asked twice; `sponde sessions show` has both answers")
        })?;
        let Some(answer) = answer else { return Ok(()) };
        let line = format!("{answer}\n");
        if let Some(file) = &self.file {
            write_atomically(file, line.as_bytes()).map_err(|error| {
                let words = format!(
                    "could not write the answer to `{}`: {error}",
                    file.display()
                );
                Failure::new(FailureKind::Failed, words)
                    .hint("the notebook has the answer: `sponde sessions show`")
            })?;
        }
        let is_alone = self.is_printed || self.schema.is_some() && !as_events;
        if is_alone { print(&line) } else { Ok(()) }
    }
}
