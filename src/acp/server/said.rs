//! Slash commands that show something without a turn.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::acp::commands::Meaning;
use crate::acp::{tool_call, updates};
use crate::agent::Command;
use crate::agent::query::{Query, QueryAnswer, QueryReason, VariableList};
use crate::app::SessionSettings;
use crate::app::executor::Workspace;
use crate::app::exported::Exported;
use crate::app::registry::LiveSession;
use crate::session::numbered::ChangeKind;

/// Maximum variables in a list.
const VARIABLES: usize = 200;
/// Maximum characters of a field.
const FIELD: usize = 80;

/// The answer to `wanted`, as updates.
pub(super) async fn answer(
    settings: &SessionSettings,
    live: &LiveSession,
    wanted: Meaning,
) -> Vec<Value> {
    let text = match wanted {
        Meaning::Variables => variables(live).await,
        Meaning::Files => files(live).await,
        Meaning::Status => status(live).await,
        Meaning::Restart => match live.handle().send("acp", Command::RestartKernel).await {
            Ok(_) => "The kernel restarts; its variables are gone.".to_owned(),
            Err(error) => format!("The kernel was not restarted: {error}."),
        },
        Meaning::Export(file) => match export(settings, live, &file).await {
            Ok(format) => {
                let path = live.directory.join(&file);
                let link = tool_call::file_link(&path, Some(format.mime()));
                let words = updates::answer(&format!("The conversation is written to `{file}`. "));
                return vec![words, updates::answer_block(&link)];
            }
            Err(words) => words,
        },
        Meaning::Wrong(words) => words,
        // These are turns.
        Meaning::Turn(_) | Meaning::Undo { .. } | Meaning::Restore => return Vec::new(),
    };
    vec![updates::answer(&text)]
}

async fn variables(live: &LiveSession) -> String {
    match live.asides.variables(None).await {
        Ok(list) => table(&list),
        Err(error) if error.reason == QueryReason::NoKernel => {
            "There is no kernel yet: it starts with the first code that runs.".to_owned()
        }
        Err(error) => format!("The variables are not known: {}.", error.message),
    }
}

fn table(list: &VariableList) -> String {
    if list.variables.is_empty() {
        return "There are no variables yet.".to_owned();
    }
    let mut text = String::from("| name | type | shape | value |\n|---|---|---|---|\n");
    for it in list.variables.iter().take(VARIABLES) {
        let fields = [&it.name, &it.kind, &it.extent(), &it.preview].map(|field| cell(field));
        let _ = writeln!(text, "| {} |", fields.join(" | "));
    }
    let more = list.more + list.variables.len().saturating_sub(VARIABLES);
    if more > 0 {
        let _ = writeln!(text, "\n{more} more");
    }
    text
}

/// A field of a Markdown table, escaped so that nothing ends it.
fn cell(text: &str) -> String {
    let plain = text.chars().take(FIELD).map(|c| match c {
        '`' => '\'',
        '|' => '¦',
        c if c.is_control() => ' ',
        c => c,
    });
    let plain: String = plain.collect();
    if plain.trim().is_empty() {
        String::new()
    } else {
        format!("`{plain}`")
    }
}

async fn files(live: &LiveSession) -> String {
    let Ok(QueryAnswer::ChangedFiles { files }) = live.asides.answer(Query::ChangedFiles).await
    else {
        return "The session has ended.".to_owned();
    };
    if files.is_empty() {
        return "This session has changed no files.".to_owned();
    }
    let lines = files.iter().map(|file| {
        let what = match file.change {
            ChangeKind::Created => "new",
            ChangeKind::Changed => "changed",
            ChangeKind::Deleted => "deleted",
        };
        format!("- {} ({what})", cell(&file.path))
    });
    let lines: Vec<String> = lines.collect();
    lines.join("\n")
}

async fn status(live: &LiveSession) -> String {
    let Ok(status) = live.handle().status().await else {
        return "The session has ended.".to_owned();
    };
    let window = status
        .context
        .window
        .map_or_else(String::new, |window| format!(" of {window}"));
    let cost = status
        .spent
        .cost_usd
        .map_or_else(String::new, |cost| format!(", ${cost:.4}"));
    format!(
        "- Model: {}\n- Context: about {}{window} tokens\n- Spent: {} requests, {} tokens sent, {} received{cost}\n- Approval: {}\n- \
         Sandbox: {}\n- Directory: `{}`\n- Notebook: `{}`",
        status.model.as_deref().unwrap_or("none"),
        status.context.tokens,
        status.spent.requests,
        status.spent.input_tokens,
        status.spent.output_tokens,
        status.approval.name(),
        status.sandbox,
        status.directory,
        status.notebook,
    )
}

async fn export(
    settings: &SessionSettings,
    live: &LiveSession,
    file: &str,
) -> Result<Exported, String> {
    let format = Exported::of_file(Path::new(file)).ok_or_else(|| {
        format!("What should `{file}` be? Its ending says it: .ipynb, .html, .md or .py.")
    })?;
    let workspace = Workspace::new(&live.directory, settings.sandbox.level);
    let transcript = live.handle().look(Clone::clone).await;
    let transcript = transcript.map_err(|error| format!("It was not exported: {error}."))?;
    let (name, to) = (live.id.clone(), file.to_owned());
    let written = tokio::task::spawn_blocking(move || {
        if workspace.root().join(&to).exists() {
            return Err(format!("`{to}` is already there: name another file."));
        }
        let text = format.render(&transcript, &name);
        let written = workspace.write(&to, text.as_bytes());
        written
            .map(|_| format)
            .map_err(|error| format!("It was not exported: {error}."))
    });
    written.await.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::query::VariableInfo;

    #[test]
    fn a_table_of_variables_is_a_table() {
        let list = VariableList {
            variables: vec![VariableInfo {
                name: "df".to_owned(),
                kind: "DataFrame".to_owned(),
                shape: Some("3 x 2".to_owned()),
                size: None,
                bytes: None,
                preview: "a | b\n`c`".to_owned(),
            }],
            more: 2,
        };
        assert_eq!(
            table(&list),
            "| name | type | shape | value |\n|---|---|---|---|\n| `df` | `DataFrame` | `3 x 2` | `a ¦ b 'c'` |\n\n2 more\n"
        );
        assert_eq!(
            table(&VariableList::default()),
            "There are no variables yet."
        );
    }
}
