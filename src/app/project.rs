//! The instructions for a session: those of the profile, of the project's `SPONDE.md` once it is trusted, and of a
//! client. This module also decides whether a project's `.mcp.json` is trusted.

use std::path::Path;

use super::answer::AnswerSchema;
pub use super::trust::{Purpose, TrustQuestion};
use super::{Context, SessionSettings};
use crate::agent::project::{self, Project, Trust, Trusted};
use crate::agent::prompt::Instructions;

/// Undecided questions to ask before a session with these settings starts in `cwd`.
pub fn questions(cwd: &Path, settings: &SessionSettings, context: &Context) -> Vec<TrustQuestion> {
    let trusted = Trusted::in_dir(&context.paths.state);
    let question = |purpose: Purpose| {
        if is_trusted_unseen(purpose, settings) {
            return None;
        }
        let project = project::find(cwd, purpose.file()).ok().flatten()?;
        let is_open = trusted.of(&project) == Trust::Unknown;
        is_open.then_some(TrustQuestion { purpose, project })
    };
    Purpose::ALL.into_iter().filter_map(question).collect()
}

/// Stores the person's decision.
pub fn decide(question: &TrustQuestion, follow: bool, context: &Context) {
    let trusted = Trusted::in_dir(&context.paths.state);
    if let Err(error) = trusted.decide(&question.project, follow) {
        context
            .notify
            .warning(format!("this could not be remembered: {error}"));
    }
}

/// Text added to the system prompt for work in `cwd`. An untrusted file of a project is ignored with a notice, unless
/// the settings trust it or the person has just trusted it.
pub(super) fn instructions(
    cwd: &Path,
    settings: &SessionSettings,
    context: &Context,
) -> Vec<Instructions> {
    let mut all = Vec::new();
    if let Some(prompt) = &context.config.prompt {
        let source = match &context.config.profile {
            Some(name) => format!("profile {name}"),
            None => "config.toml".to_owned(),
        };
        all.push(Instructions {
            source,
            text: prompt.trim().to_owned(),
        });
    }
    all.extend(of_project(cwd, settings, context));
    all.extend(settings.instructions.as_ref().map(|text| Instructions {
        source: "the client".to_owned(),
        text: text.trim().to_owned(),
    }));
    all.extend(settings.answer.as_ref().map(AnswerSchema::instructions));
    all
}

/// The project's instructions, if they are trusted.
fn of_project(cwd: &Path, settings: &SessionSettings, context: &Context) -> Option<Instructions> {
    let found = trusted(Purpose::Instructions, cwd, settings, context)?;
    Some(Instructions {
        source: project::FILE.to_owned(),
        text: found.text,
    })
}

/// The project's file for this purpose, if it is trusted. Otherwise a notice says why it is not used.
pub(super) fn trusted(
    purpose: Purpose,
    cwd: &Path,
    settings: &SessionSettings,
    context: &Context,
) -> Option<Project> {
    let (what, used) = (purpose.content(), purpose.used());
    let found = match project::find(cwd, purpose.file()) {
        Ok(found) => found?,
        Err(error) => {
            context
                .notify
                .warning(format!("{error}; its {what} are not {used}"));
            return None;
        }
    };
    let mut agreed = settings.agreed.iter();
    let is_agreed = agreed.any(|question| question.project == found);
    if is_trusted_unseen(purpose, settings) || is_agreed {
        return Some(found);
    }
    let why = match Trusted::in_dir(&context.paths.state).of(&found) {
        Trust::Trusted => return Some(found),
        Trust::Refused => ", as you said",
        Trust::Unknown => ": they are not trusted yet",
    };
    let hint = purpose.hint();
    let path = found.path.display();
    context
        .notify
        .warning(format!("the {what} in {path} are not {used}{why} ({hint})"));
    None
}

/// Whether a file is used whatever its content. Never for servers: code in the sandbox could write their file, and
/// they run outside the sandbox.
fn is_trusted_unseen(purpose: Purpose, settings: &SessionSettings) -> bool {
    match purpose {
        Purpose::Instructions => settings.trust_project,
        Purpose::Servers => false,
    }
}
