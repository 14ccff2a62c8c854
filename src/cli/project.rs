//! The instructions a session follows: those of the profile, and the project's `SPONDE.md` once it is trusted.

use std::io::BufRead as _;
use std::path::Path;

use super::style::{DIM, HINT, WARN, paint, stderr_colours};
use super::{Context, eprint, filter};
use crate::agent::project::{self, Project, Trust, Trusted};
use crate::agent::prompt::Instructions;
use crate::error::Failure;

/// What is added to the system prompt for work in `cwd`. A person at the terminal is asked once about a project's file;
/// without one it is ignored and said so, unless it is trusted `anyway`.
pub(super) async fn instructions(
    cwd: &Path,
    anyway: bool,
    interactive: bool,
    context: &Context,
) -> Result<Vec<Instructions>, Failure> {
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
    let found = match project::find(cwd) {
        Ok(found) => found,
        Err(error) => {
            note(&format!("{error}; its instructions are not followed"));
            None
        }
    };
    let Some(found) = found else { return Ok(all) };
    if anyway || is_trusted(&found, interactive, context).await {
        all.push(Instructions {
            source: project::FILE.to_owned(),
            text: found.text,
        });
    }
    Ok(all)
}

async fn is_trusted(project: &Project, interactive: bool, context: &Context) -> bool {
    let trusted = Trusted::in_dir(&context.paths.state);
    let path = project.path.display();
    match trusted.of(project) {
        Trust::Trusted => return true,
        Trust::Refused => {
            note(&format!(
                "the instructions in {path} are not followed, as you said; --trust-project follows them"
            ));
            return false;
        }
        Trust::Unknown => {}
    }
    if !interactive {
        note(&format!(
            "the instructions in {path} are not followed: nobody has said yet that they are trusted (--trust-project follows them)"
        ));
        return false;
    }
    let colours = stderr_colours();
    eprint(&format!(
        "{}\n{}\n{} ",
        paint(
            HINT,
            &filter::plain(&format!(
                "{path} wants to be part of what the model is told:"
            )),
            colours
        ),
        // With what a terminal would obey written out.
        indented(&filter::code(&project.text)),
        paint(
            HINT,
            "Follow it, now and whenever it says just this? [y]es, [n]o:",
            colours
        ),
    ));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    })
    .await;
    let Ok(Ok(answer)) = answer else { return false };
    let answer = answer.trim().to_lowercase();
    let yes = matches!(answer.as_str(), "y" | "yes");
    // Only a word is a decision: a closed terminal is asked again next time.
    if !answer.is_empty()
        && let Err(error) = trusted.decide(project, yes)
    {
        note(&format!("this could not be remembered: {error}"));
    }
    yes
}

fn indented(text: &str) -> String {
    text.lines()
        .fold(String::new(), |all, line| all + "  | " + line + "\n")
}

fn note(text: &str) {
    let colours = stderr_colours();
    eprint(&format!(
        "{} {}\n",
        paint(WARN, "note:", colours),
        paint(DIM, &filter::plain(text), colours)
    ));
}
