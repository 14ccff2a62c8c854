//! The instructions a session follows: those of the profile, the project's `SPONDE.md` once it is trusted, and a client's.

use std::path::Path;

use super::answer::AnswerSchema;
pub use super::trust::TrustQuestion;
use super::{Context, SessionSettings};
use crate::agent::project::{self, Project, Trust, Trusted};
use crate::agent::prompt::Instructions;

/// What to ask before a session starts in `cwd`, if nothing was decided yet.
pub fn question(cwd: &Path, context: &Context) -> Option<TrustQuestion> {
    let project = project::find(cwd).ok().flatten()?;
    let trusted = Trusted::in_dir(&context.paths.state);
    (trusted.of(&project) == Trust::Unknown).then_some(TrustQuestion { project })
}

/// Remembers what the person said.
pub fn decide(question: &TrustQuestion, follow: bool, context: &Context) {
    let trusted = Trusted::in_dir(&context.paths.state);
    if let Err(error) = trusted.decide(&question.project, follow) {
        context
            .notify
            .warning(format!("this could not be remembered: {error}"));
    }
}

/// What is added to the system prompt for work in `cwd`. A project's file that is not trusted is ignored, with a notice,
/// unless the settings trust it, or a person has just said yes to it.
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

/// Those of the project, if they are followed.
fn of_project(cwd: &Path, settings: &SessionSettings, context: &Context) -> Option<Instructions> {
    let found = match project::find(cwd) {
        Ok(found) => found?,
        Err(error) => {
            context
                .notify
                .warning(format!("{error}; its instructions are not followed"));
            return None;
        }
    };
    let agreed = settings.agreed.as_ref();
    let agreed = agreed.is_some_and(|question| question.project == found);
    let is_followed = settings.trust_project || agreed || is_trusted(&found, context);
    is_followed.then(|| Instructions {
        source: project::FILE.to_owned(),
        text: found.text,
    })
}

fn is_trusted(project: &Project, context: &Context) -> bool {
    let path = project.path.display();
    let why = match Trusted::in_dir(&context.paths.state).of(project) {
        Trust::Trusted => return true,
        Trust::Refused => ", as you said; --trust-project follows them",
        Trust::Unknown => {
            ": nobody has said yet that they are trusted (--trust-project follows them)"
        }
    };
    context
        .notify
        .warning(format!("the instructions in {path} are not followed{why}"));
    false
}
