//! Slash commands: their meaning, and their description for clients.
//!
//! A question costs money and goes to another machine, so a line that looks like a mistyped command is not sent. A
//! first word of a slash and letters is a command, unless a file has that name.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::agent::undo::UndoTo;
use crate::agent::{Command, EventKind};

/// The meaning of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A turn: it runs until the agent is idle again.
    Turn(Command),
    /// Undoes turns; `anyway`: even if undo is incomplete.
    Undo { to: UndoTo, anyway: bool },
    /// Shows the variables.
    Variables,
    /// Lists the files that the session changed.
    Files,
    /// Shows the session's status.
    Status,
    /// Restarts the kernel.
    Restart,
    /// Runs the code of a loaded session again.
    Restore,
    /// Writes the conversation to a file.
    Export(String),
    /// The prompt is invalid for this reason.
    Wrong(String),
}

/// Name, arguments, description.
const COMMANDS: [(&str, &str, &str); 10] = [
    (
        "plan",
        "question",
        "Have the model write a plan first; nothing runs until you agree",
    ),
    ("run", "code", "Run code of your own in the main kernel"),
    ("vars", "", "Show the variables of the kernel"),
    ("files", "", "Show the files that this session has changed"),
    (
        "undo",
        "turns, or # and the number of a checkpoint; then `anyway`",
        "Take turns back: cells, variables and files",
    ),
    ("restart", "", "Restart the kernel; its variables are lost"),
    ("restore", "", "After loading a session: run its code again"),
    ("compact", "", "Compact the conversation for the model"),
    (
        "export",
        "file.ipynb, .html, .md or .py",
        "Write the conversation to a file of the workspace",
    ),
    (
        "status",
        "",
        "Show model, context, cost, sandbox and notebook",
    ),
];

/// The commands for clients.
pub(super) fn available() -> Value {
    let commands = COMMANDS.iter().map(|(name, takes, does)| {
        let mut command = json!({ "name": name, "description": does });
        if !takes.is_empty() {
            command["input"] = json!({ "hint": takes });
        }
        command
    });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands.collect::<Vec<_>>() })
}

/// Interprets `text`; `is_file` tells whether a path exists on disk.
pub(super) fn meaning(text: String, is_file: impl Fn(&str) -> bool) -> Meaning {
    let trimmed = text.trim();
    let (first, rest) = trimmed
        .split_once(char::is_whitespace)
        .unwrap_or((trimmed, ""));
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    match first.strip_prefix('/').filter(|name| is_name(name)) {
        Some(name) => command(name, rest.trim()).unwrap_or_else(|| {
            if is_file(first) {
                return Meaning::Turn(Command::Submit { text: text.clone() });
            }
            let known: Vec<String> = COMMANDS
                .iter()
                .map(|(name, ..)| format!("`/{name}`"))
                .collect();
            Meaning::Wrong(format!(
                "There is no command `/{name}`. There are {}.",
                known.join(", ")
            ))
        }),
        None => Meaning::Turn(Command::Submit { text }),
    }
}

/// The command `name`; `None` if there is no such command.
fn command(name: &str, rest: &str) -> Option<Meaning> {
    let alone = |meaning: Meaning| match rest {
        "" => meaning,
        rest => Meaning::Wrong(format!("`/{name}` takes no arguments (got `{rest}`).")),
    };
    let needs = |what: &str| Meaning::Wrong(format!("`/{name}` needs {what}."));
    Some(match name {
        "plan" if rest.is_empty() => needs("a question"),
        "plan" => Meaning::Turn(Command::Plan {
            text: rest.to_owned(),
        }),
        "run" if rest.is_empty() => needs("code"),
        "run" => Meaning::Turn(Command::Run {
            code: rest.to_owned(),
            language: None,
        }),
        "vars" => alone(Meaning::Variables),
        "files" => alone(Meaning::Files),
        "undo" => undo(rest)
            .unwrap_or_else(|| needs("a number of turns, or # and the number of a checkpoint")),
        "restart" => alone(Meaning::Restart),
        "restore" => alone(Meaning::Restore),
        "compact" => alone(Meaning::Turn(Command::Compact)),
        "export" if rest.is_empty() => {
            needs("a file, whose ending says what it becomes: .ipynb, .html, .md or .py")
        }
        "export" => Meaning::Export(rest.to_owned()),
        "status" => alone(Meaning::Status),
        _ => return None,
    })
}

fn undo(rest: &str) -> Option<Meaning> {
    let (to, anyway) = match rest.strip_suffix("anyway") {
        Some(to) => (to.trim(), true),
        None => (rest, false),
    };
    let to = match to.strip_prefix('#') {
        Some(number) => UndoTo::Checkpoint(number.parse().ok()?),
        None if to.is_empty() => UndoTo::Turns(1),
        None => UndoTo::Turns(to.parse().ok()?),
    };
    Some(Meaning::Undo { to, anyway })
}

/// The result of `/undo`; `None` for other events.
pub(super) fn undo_words(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::Undone(undone) => {
            let mut words = format!(
                "Cells undone: {}; variables: {}.",
                undone.cells, undone.variables
            );
            for (what, files) in [("Restored", &undone.restored), ("Removed", &undone.removed)] {
                if !files.is_empty() {
                    let _ = write!(words, "\n- {what}: {}", files.join(", "));
                }
            }
            for note in &undone.notes {
                let _ = write!(words, "\n- {note}");
            }
            if let Some(place) = &undone.kept_in {
                let _ = write!(words, "\n- All of it is kept in `{place}`.");
            }
            words
        }
        EventKind::UndoAsks { inexact } => format!(
            "Nothing was undone yet, because undo would be incomplete: {}. `/undo anyway` undoes it anyway.",
            inexact.join("; ")
        ),
        EventKind::UndoRefused { message } => format!("Nothing was undone: {message}."),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_prompt_means() {
        let said = |text: &str| meaning(text.to_owned(), |file| file == "/home");
        let submit = |text: &str| {
            Meaning::Turn(Command::Submit {
                text: text.to_owned(),
            })
        };
        let undo = |to, anyway| Meaning::Undo { to, anyway };
        for (text, expected) in [
            ("how many?", submit("how many?")),
            (
                "/home and /srv, which is larger?",
                submit("/home and /srv, which is larger?"),
            ),
            ("/usr/bin is what?", submit("/usr/bin is what?")),
            (" /vars ", Meaning::Variables),
            (
                "/run 1+1",
                Meaning::Turn(Command::Run {
                    code: "1+1".to_owned(),
                    language: None,
                }),
            ),
            (
                "/plan a\nb",
                Meaning::Turn(Command::Plan {
                    text: "a\nb".to_owned(),
                }),
            ),
            ("/undo", undo(UndoTo::Turns(1), false)),
            ("/undo 2 anyway", undo(UndoTo::Turns(2), true)),
            ("/undo anyway", undo(UndoTo::Turns(1), true)),
            ("/undo #7", undo(UndoTo::Checkpoint(7), false)),
            ("/export out.html", Meaning::Export("out.html".to_owned())),
            ("/run", Meaning::Wrong("`/run` needs code.".to_owned())),
            (
                "/vars x",
                Meaning::Wrong("`/vars` takes no arguments (got `x`).".to_owned()),
            ),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
        assert!(matches!(said("/udno"), Meaning::Wrong(_)));
    }
}
