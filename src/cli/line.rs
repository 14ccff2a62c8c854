//! Interprets a typed line: a command, the person's own code, or a question.
//!
//! A question costs money and goes to another machine, so a line that looks like a mistyped command is not sent. A
//! first word of a slash and letters is a command, unless a file has that name (`/home and /srv, which is larger?`).

mod help;

use std::path::PathBuf;

use super::confine::SandboxWish;
use super::look::{Look, TABLE, TableWish};
use crate::agent::approval::Approval;
use crate::agent::undo::UndoTo;
use crate::agent::{Command, KernelOffer};
pub(super) use help::{HELP, commands};

/// A request about the session's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Wish {
    /// Undo something.
    Undo(UndoTo),
    /// List the points that undo can return to.
    Checkpoints,
}

impl Wish {
    /// Parses the argument of `/undo`: nothing, a number of turns, or `#` and a checkpoint's number.
    pub(super) fn undo(text: &str) -> Option<Self> {
        let text = text.trim();
        let to = match text.strip_prefix('#') {
            Some(number) => UndoTo::Checkpoint(number.parse().ok()?),
            None if text.is_empty() => UndoTo::Turns(1),
            None => UndoTo::Turns(text.parse().ok()?),
        };
        Some(Self::Undo(to))
    }
}

/// What follows the session that ends for it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) enum Next {
    /// The same session with another sandbox.
    Sandbox(SandboxWish),
    /// The same session with this profile; `None` prints the profiles.
    Profile(Option<String>),
    /// An earlier session; `None` shows a list.
    Resume(Option<String>),
    /// A new session.
    New,
}

/// A command that is done at once, in a chat or at a question.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum Control {
    /// Sets the kernel that `!` uses; `None` lists them.
    Kernel(Option<String>),
    /// Sets when to ask before code runs; `None` prints it.
    Approve(Option<Approval>),
    /// Interrupts the current activity.
    Interrupt,
    /// Restarts the kernel.
    Restart,
    Help,
    Nothing,
    /// The line is invalid for this reason.
    Wrong(String),
}

/// A request about the stored session.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum SessionWish {
    /// Shows a whole cell; `None` is the latest code cell.
    Show(Option<usize>),
    /// Opens a cell's output in another program; `None` is the latest code cell.
    Open(Option<usize>),
    /// Runs a cell again.
    Again(usize),
    /// Edits a cell and runs the result; `None` is the latest code cell.
    Edit(Option<usize>),
    /// Lists the files that the session changed.
    Files,
    /// Saves the session to a file.
    Save(PathBuf),
    /// Forks the session, up to that cell if given.
    Fork(Option<String>),
}

/// What a line means.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum LineMeaning {
    Command(Command),
    Control(Control),
    Session(SessionWish),
    /// Sets the model; `None` prints it.
    Model(Option<String>),
    Past(Wish),
    /// Shows something that is in the kernel.
    Look(Look),
    /// Asks the follow-up question with this number, which the model suggested.
    FollowUp(usize),
    /// Prints what code may do.
    Sandbox,
    /// Prints the status.
    Status,
    /// Ends this session, and continues with another one in its place.
    Next(Next),
    End,
}

/// Interprets `line`; `own` is the kernel that `!` uses, `is_file` tells whether a path exists on disk.
pub(in crate::cli) fn said(
    line: Option<&str>,
    own: Option<&KernelOffer>,
    is_file: impl Fn(&str) -> bool,
) -> LineMeaning {
    let Some(line) = line else {
        return LineMeaning::End;
    };
    let text = line.trim();
    match text {
        "" => return LineMeaning::Control(Control::Nothing),
        "exit" | "quit" => return LineMeaning::End,
        "help" => return LineMeaning::Control(Control::Help),
        // A shell command is no question for a model.
        "clear" => {
            return LineMeaning::Control(Control::Wrong(
                "Ctrl-L clears the screen, /clear begins a new session".to_owned(),
            ));
        }
        _ => {}
    }
    if let Some(code) = text.strip_prefix('!') {
        return run_in(code, own);
    }
    if let Some(command) = text.strip_prefix("$ ") {
        return shell(command.trim(), own);
    }
    if let Some(words) = text.strip_prefix('%').and_then(renamed) {
        return LineMeaning::Control(Control::Wrong(words));
    }
    if let Some(rest) = text.strip_prefix("%%") {
        if let Some(command) = rest.strip_prefix(char::is_whitespace) {
            return LineMeaning::Control(Control::Wrong(format!(
                "`%% {0}` is `$ {0}` here",
                command.trim()
            )));
        }
        let (language, code) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        return run(
            code.to_owned(),
            Some(language.to_owned()),
            "%%LANGUAGE CODE",
        );
    }
    if text.starts_with('/') {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if let Some(said) = command(name, rest.trim(), own, is_file) {
            return said;
        }
    }
    LineMeaning::Command(Command::Submit {
        text: text.to_owned(),
    })
}

/// Runs a shell command inside the kernel, so that the sandbox confines it like other code. Kernels with a syntax for
/// shell commands get that syntax.
fn shell(command: &str, own: Option<&KernelOffer>) -> LineMeaning {
    let language = own.map(|offer| offer.language.to_lowercase());
    let (code, language) = match language.as_deref() {
        Some("python") if !command.is_empty() => (format!("!{command}"), language),
        _ => (command.to_owned(), Some("bash".to_owned())),
    };
    run(code, language, "$ COMMAND")
}

/// Commands of Open Interpreter, with their names here.
const RENAMED: [(&str, &str); 12] = [
    ("help", "/help"),
    ("undo", "/undo"),
    ("reset", "/clear (and /undo takes turns back)"),
    ("tokens", "/status"),
    ("info", "/status, and `sponde doctor`"),
    ("model", "/model"),
    ("verbose", "`sponde -v`"),
    ("auto_run", "/approve never"),
    (
        "save_message",
        "no command (every session is kept; /save writes it elsewhere)",
    ),
    ("load_message", "/resume"),
    ("markdown", "/save FILE.md"),
    (
        "jupyter",
        "/save FILE.ipynb (and the notebook is written after each cell; /status names it)",
    ),
];

/// The replacement for `%NAME`.
fn renamed(line: &str) -> Option<String> {
    let name = line.split_whitespace().next()?;
    let (_, here) = RENAMED.iter().find(|(old, _)| *old == name)?;
    Some(format!("`%{name}` is {here} here"))
}

/// Code for the kernel that `!` uses.
fn run_in(code: &str, own: Option<&KernelOffer>) -> LineMeaning {
    let language = own.map(|offer| offer.language.clone());
    run(code.to_owned(), language, "!CODE")
}

/// A cell number, or nothing.
fn number(text: &str) -> Result<Option<usize>, ()> {
    match text.strip_prefix('#').unwrap_or(text) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| ()),
    }
}

fn run(code: String, language: Option<String>, form: &str) -> LineMeaning {
    if code.trim().is_empty() || language.as_deref() == Some("") {
        return LineMeaning::Control(Control::Wrong(format!(
            "there is no code to run: write {form}"
        )));
    }
    LineMeaning::Command(Command::Run { code, language })
}

/// The command `name` with its argument; `None` if this is not a command.
fn command(
    name: &str,
    rest: &str,
    own: Option<&KernelOffer>,
    is_file: impl Fn(&str) -> bool,
) -> Option<LineMeaning> {
    let named = (!rest.is_empty()).then(|| rest.to_owned());
    let alone = |said: LineMeaning| match &named {
        None => said,
        Some(rest) => LineMeaning::Control(Control::Wrong(format!(
            "`{name}` takes nothing behind it, and there is `{rest}`; /help lists the commands"
        ))),
    };
    Some(match name {
        "/help" | "/?" => LineMeaning::Control(Control::Help),
        "/exit" | "/quit" => alone(LineMeaning::End),
        "/checkpoints" => alone(LineMeaning::Past(Wish::Checkpoints)),
        "/compact" => alone(LineMeaning::Command(Command::Compact)),
        "/next" if rest.is_empty() => LineMeaning::Command(Command::Suggest),
        "/next" => match rest.parse() {
            Ok(number) => LineMeaning::FollowUp(number),
            Err(_) => LineMeaning::Control(Control::Wrong(format!(
                "`/next` takes the number of a suggested question, not `{rest}`"
            ))),
        },
        "/interrupt" | "/stop" => alone(LineMeaning::Control(Control::Interrupt)),
        "/restart" => alone(LineMeaning::Control(Control::Restart)),
        "/status" | "/cost" => alone(LineMeaning::Status),
        "/sandbox" if rest.is_empty() => LineMeaning::Sandbox,
        "/sandbox" => match SandboxWish::parse(rest) {
            Ok(wish) => LineMeaning::Next(Next::Sandbox(wish)),
            Err(words) => LineMeaning::Control(Control::Wrong(words)),
        },
        "/undo" => match Wish::undo(rest) {
            Some(wish) => LineMeaning::Past(wish),
            None => LineMeaning::Control(Control::Wrong(format!(
                "`/undo` takes a number of turns, or # and the number of a checkpoint, not `{rest}`"
            ))),
        },
        "/vars" => alone(LineMeaning::Look(Look::Variables)),
        "/table" if rest.is_empty() => LineMeaning::Look(Look::Table(None)),
        "/table" => match TableWish::parse(rest) {
            Some(wish) => LineMeaning::Look(Look::Table(Some(wish))),
            None => LineMeaning::Control(Control::Wrong(format!("that is not a table: {TABLE}"))),
        },
        "/show" | "/open" | "/edit" => match number(rest) {
            Ok(number) if name == "/show" => LineMeaning::Session(SessionWish::Show(number)),
            Ok(number) if name == "/open" => LineMeaning::Session(SessionWish::Open(number)),
            Ok(number) => LineMeaning::Session(SessionWish::Edit(number)),
            Err(()) => LineMeaning::Control(Control::Wrong(format!(
                "`{name}` takes the number of a cell, not `{rest}`"
            ))),
        },
        "/run" => match number(rest) {
            Ok(Some(number)) => LineMeaning::Session(SessionWish::Again(number)),
            Ok(None) => LineMeaning::Control(Control::Wrong(
                "which code? `/run N` runs cell N again, `/run CODE` other code".to_owned(),
            )),
            Err(()) => return Some(run_in(rest, own)),
        },
        "/files" => alone(LineMeaning::Session(SessionWish::Files)),
        "/save" | "/export" if rest.is_empty() => LineMeaning::Control(Control::Wrong(format!(
            "where to? `{name} FILE`, whose ending says what it becomes: .ipynb, .html, .md or .py"
        ))),
        "/save" | "/export" => LineMeaning::Session(SessionWish::Save(PathBuf::from(rest))),
        "/fork" => LineMeaning::Session(SessionWish::Fork(named)),
        "/plan" if rest.is_empty() => {
            LineMeaning::Control(Control::Wrong("a plan for what? `/plan QUESTION`".to_owned()))
        }
        "/plan" => LineMeaning::Command(Command::Plan {
            text: rest.to_owned(),
        }),
        "/profile" => LineMeaning::Next(Next::Profile(named)),
        "/resume" => LineMeaning::Next(Next::Resume(named)),
        "/clear" | "/new" => alone(LineMeaning::Next(Next::New)),
        "/attach" => LineMeaning::Control(Control::Wrong(
            "a file is named in a question, as @FILE; `sponde attach` in another terminal follows this session"
                .to_owned(),
        )),
        "/kernel" | "/kernels" => LineMeaning::Control(Control::Kernel(named)),
        "/model" => LineMeaning::Model(named),
        "/approve" => match rest.to_lowercase().as_str() {
            "" => LineMeaning::Control(Control::Approve(None)),
            when => match when.parse() {
                Ok(approval) => LineMeaning::Control(Control::Approve(Some(approval))),
                Err(_) => LineMeaning::Control(Control::Wrong(format!(
                    "`/approve` takes always, on-risk or never, not `{rest}`"
                ))),
            },
        },
        _ if looks_like_one(name, rest) && (name == "/" || !is_file(name)) => {
            LineMeaning::Control(Control::Wrong(no_such(name)))
        }
        _ => return None,
    })
}

/// Names the command that was probably meant.
fn no_such(name: &str) -> String {
    let meant = commands()
        .into_iter()
        .find(|known| strsim::damerau_levenshtein(known, name) == 1);
    let meant = meant.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    format!("there is no `{name}`{meant}; /help lists the commands")
}

/// A single word with a slash counts as a command. A longer line does so only if its first word is spelt like one.
fn looks_like_one(name: &str, rest: &str) -> bool {
    let word = name.strip_prefix('/').unwrap_or_default();
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic());
    is_word || rest.is_empty() && !word.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::undo::UndoTo;

    fn means(line: &str) -> LineMeaning {
        let own = KernelOffer {
            kernel: "python3".to_owned(),
            language: "python".to_owned(),
        };
        said(Some(line), Some(&own), |path| ["/", "/srv"].contains(&path))
    }

    fn ran(code: &str, language: &str) -> LineMeaning {
        LineMeaning::Command(Command::Run {
            code: code.to_owned(),
            language: Some(language.to_owned()),
        })
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn commands_are_no_questions() {
        for (line, expected) in [
            ("  ", LineMeaning::Control(Control::Nothing)),
            ("exit", LineMeaning::End),
            ("/exit", LineMeaning::End),
            ("/help me", LineMeaning::Control(Control::Help)),
            ("/compact", LineMeaning::Command(Command::Compact)),
            ("/status", LineMeaning::Status),
            ("/restart", LineMeaning::Control(Control::Restart)),
            ("/interrupt", LineMeaning::Control(Control::Interrupt)),
            ("/cost", LineMeaning::Status),
            ("/quit", LineMeaning::End),
            ("$ ls -l", ran("!ls -l", "python")),
            (
                "%undo",
                LineMeaning::Control(Control::Wrong("`%undo` is /undo here".to_owned())),
            ),
            ("/undo 2", LineMeaning::Past(Wish::Undo(UndoTo::Turns(2)))),
            ("/model", LineMeaning::Model(None)),
            ("/approve", LineMeaning::Control(Control::Approve(None))),
            (
                "/approve ask",
                LineMeaning::Control(Control::Approve(Some(Approval::Always))),
            ),
            (
                "/approve always",
                LineMeaning::Control(Control::Approve(Some(Approval::Always))),
            ),
            (
                "/approve on-risk",
                LineMeaning::Control(Control::Approve(Some(Approval::OnRisk))),
            ),
            (
                "/approve Never",
                LineMeaning::Control(Control::Approve(Some(Approval::Never))),
            ),
            ("/model a/b", LineMeaning::Model(Some("a/b".to_owned()))),
            (
                "/kernels bash",
                LineMeaning::Control(Control::Kernel(Some("bash".to_owned()))),
            ),
            ("/status", LineMeaning::Status),
            ("/sandbox", LineMeaning::Sandbox),
            (
                "/sandbox read-only",
                LineMeaning::Next(Next::Sandbox(SandboxWish::parse("read-only").unwrap())),
            ),
            ("/vars", LineMeaning::Look(Look::Variables)),
            ("/table", LineMeaning::Look(Look::Table(None))),
            (
                "/table df",
                LineMeaning::Look(Look::Table(TableWish::parse("df"))),
            ),
            ("/show", LineMeaning::Session(SessionWish::Show(None))),
            ("/show #4", LineMeaning::Session(SessionWish::Show(Some(4)))),
            ("/edit 4", LineMeaning::Session(SessionWish::Edit(Some(4)))),
            ("/run 4", LineMeaning::Session(SessionWish::Again(4))),
            ("/run x = 4", ran("x = 4", "python")),
            ("/files", LineMeaning::Session(SessionWish::Files)),
            (
                "/save a b.md",
                LineMeaning::Session(SessionWish::Save("a b.md".into())),
            ),
            (
                "/export x.html",
                LineMeaning::Session(SessionWish::Save("x.html".into())),
            ),
            (
                "/fork 3",
                LineMeaning::Session(SessionWish::Fork(Some("3".to_owned()))),
            ),
            (
                "/plan clean it",
                LineMeaning::Command(Command::Plan {
                    text: "clean it".to_owned(),
                }),
            ),
            ("/profile", LineMeaning::Next(Next::Profile(None))),
            (
                "/resume ab12",
                LineMeaning::Next(Next::Resume(Some("ab12".to_owned()))),
            ),
            ("/clear", LineMeaning::Next(Next::New)),
            ("/open", LineMeaning::Session(SessionWish::Open(None))),
            ("/open 3", LineMeaning::Session(SessionWish::Open(Some(3)))),
            ("!x = 1", ran("x = 1", "python")),
            ("%%bash ls /", ran("ls /", "bash")),
        ] {
            assert_eq!(means(line), expected, "{line}");
        }
        assert_eq!(said(None, None, |_| false), LineMeaning::End);
        for line in [
            "clear",
            "/exit now",
            "/compact now",
            "/checkpoints all",
            "/undo it",
            "/approve sometimes",
            "/vars all",
            "/status now",
            "/sandbox some",
            "/sandbox full workspace",
            "/show it",
            "/edit it",
            "/run",
            "/save",
            "/plan",
            "/clear all",
            "/attach x.csv",
            "/table df by x",
            "/open it",
            "/nosuch",
            "/nosuch arg",
            "/Model x",
            "/no-such2",
            "/",
            "!",
            "! ",
            "%%",
            "%% x",
            "%%bash",
        ] {
            assert!(
                matches!(means(line), LineMeaning::Control(Control::Wrong(_))),
                "{line}"
            );
        }
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        for name in commands() {
            assert_ne!(
                means(name),
                LineMeaning::Control(Control::Wrong(no_such(name)))
            );
        }
        for (typed, meant) in [("/staus", "; did you mean `/status`?"), ("/nosuch", "")] {
            assert_eq!(
                no_such(typed),
                format!("there is no `{typed}`{meant}; /help lists the commands")
            );
        }
    }

    #[test]
    fn every_renamed_command_says_its_new_name() {
        for (old, new) in RENAMED {
            let words = format!("`%{old}` is {new} here");
            for line in [format!("%{old}"), format!("%{old} x")] {
                assert_eq!(
                    means(&line),
                    LineMeaning::Control(Control::Wrong(words.clone()))
                );
            }
            // The replacement is an existing command.
            for name in new.split(|c: char| c != '/' && !c.is_ascii_alphabetic()) {
                assert!(
                    !name.starts_with('/') || commands().contains(&name),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn questions_about_paths_are_questions() {
        for line in [
            "/srv",
            "/srv and /home: which is larger?",
            "/home/x is full, why?",
            "/home/x",
            "/no-such2 is what?",
            "and/or",
            "/ is full",
        ] {
            let question = LineMeaning::Command(Command::Submit {
                text: line.to_owned(),
            });
            assert_eq!(means(line), question, "{line}");
        }
    }
}
