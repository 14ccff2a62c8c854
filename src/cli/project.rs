//! Asks whether to trust a project's `SPONDE.md` and `.mcp.json`.

use std::io::BufRead as _;

use super::style::{HINT, paint, stderr_colours};
use super::{Context, eprint, filter};
use crate::app::SessionSettings;
use crate::app::project::{self, Purpose, TrustQuestion};

/// Asks about the undecided files of the working directory's project. Returns those that the person trusts.
pub(super) async fn ask(settings: &SessionSettings, context: &Context) -> Vec<TrustQuestion> {
    let cwd = context.paths.environment.cwd();
    let questions = cwd.map_or_else(Vec::new, |cwd| project::questions(cwd, settings, context));
    let mut agreed = Vec::new();
    for question in questions {
        if is_trusted(&question, context).await {
            agreed.push(question);
        }
    }
    agreed
}

async fn is_trusted(question: &TrustQuestion, context: &Context) -> bool {
    let colours = stderr_colours();
    let (wants, asks) = match question.purpose {
        Purpose::Instructions => (
            "wants to be part of what the model is told:",
            "Follow it, now and whenever it says just this? [y]es, [n]o:",
        ),
        Purpose::Servers => (
            "names MCP servers, which are started when code calls their tools:",
            "Use them, now and whenever it says just this? [y]es, [n]o:",
        ),
    };
    eprint(&format!(
        "{}\n{}\n{} ",
        paint(
            HINT,
            &filter::plain(&format!("{} {wants}", question.project.path.display())),
            colours
        ),
        // Control characters are written out.
        indented(&filter::code(&question.project.text)),
        paint(HINT, asks, colours),
    ));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    })
    .await;
    let Ok(Ok(answer)) = answer else {
        return false;
    };
    let answer = answer.trim().to_lowercase();
    let yes = matches!(answer.as_str(), "y" | "yes");
    // Only a typed word is a decision: after a closed terminal we ask again next time.
    if !answer.is_empty() {
        project::decide(question, yes, context);
    }
    yes
}

fn indented(text: &str) -> String {
    text.lines()
        .fold(String::new(), |all, line| all + "  | " + line + "\n")
}
