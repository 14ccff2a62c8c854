//! Asks whether a project's `SPONDE.md` is trusted.

use std::io::BufRead as _;

use super::style::{HINT, paint, stderr_colours};
use super::{Context, eprint, filter};
use crate::app::project::{self, TrustQuestion};

/// Asks about the file of the working directory's project, if nothing was decided yet. Returns what the person said yes
/// to.
pub(super) async fn ask(context: &Context) -> Option<TrustQuestion> {
    let question = project::question(context.paths.environment.cwd()?, context)?;
    let colours = stderr_colours();
    eprint(&format!(
        "{}\n{}\n{} ",
        paint(
            HINT,
            &filter::plain(&format!(
                "{} wants to be part of what the model is told:",
                question.project.path.display()
            )),
            colours
        ),
        // With what a terminal would handle written out.
        indented(&filter::code(&question.project.text)),
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
    let Ok(Ok(answer)) = answer else { return None };
    let answer = answer.trim().to_lowercase();
    let yes = matches!(answer.as_str(), "y" | "yes");
    // Only a word is a decision: a closed terminal is asked again next time.
    if !answer.is_empty() {
        project::decide(&question, yes, context);
    }
    yes.then_some(question)
}

fn indented(text: &str) -> String {
    text.lines()
        .fold(String::new(), |all, line| all + "  | " + line + "\n")
}
