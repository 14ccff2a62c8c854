//! What a typed line means: a command, code of one's own, or a question.
//!
//! A question costs money and goes to somebody else's machine, so what looks like a mistyped command is not sent: a first word
//! of a slash and letters is a command, unless a file is called so (`/home and /srv, which is larger?`).

use super::confine::SandboxWish;
use super::look::{Look, TABLE, TableWish};
use crate::agent::approval::Approval;
use crate::agent::undo::UndoTo;
use crate::agent::{Command, KernelOffer};

/// What `/help` says.
pub(super) const HELP: &str = "\
Ask in plain words. A line that ends in \\ goes on in the next. Lines that are
pasted are one question; Enter sends it.
  !CODE             run code of your own in the kernel; Tab completes it
  $ COMMAND         run a command of the shell there
  %%LANGUAGE CODE   the same in the kernel of another language
  /model [NAME]     which model answers; let this one answer from now on
  /kernel [NAME]    which kernels there are; send !CODE to this one from now on
  /approve [WHEN]   when you are asked before code runs: always, on-risk or never
  /sandbox [LEVEL] [NETWORK]
                    what code may do; let it do more or less from now on, with the
                    kernel started again (docs/sandbox.md)
  /vars             the variables that live in the kernel
  /table NAME ..    a table page by page: page N, sort COLUMN [desc], filter TEXT,
                    profile COLUMN; /table alone is the next page
  /open [N]         open plot or page N, or the latest, in another program
  /status           model, kernel, approval, sandbox, tokens and cost, notebook
  /restart          a new kernel: all variables are lost
  /undo [N]         take back the last turn, or N: its cells, variables and files
  /undo #N          go back to a checkpoint of the list
  /checkpoints      list what can be gone back to
  /compact          make the conversation shorter for the model
  /help             this
  /exit             end (or Ctrl-D)
Ctrl-C stops what is going on; twice restarts the kernel. Up and Ctrl-R bring
earlier questions back, Tab completes commands and files.
";

/// What `/help` lists, by name.
pub(super) const COMMANDS: [&str; 14] = [
    "/approve",
    "/checkpoints",
    "/compact",
    "/exit",
    "/help",
    "/kernel",
    "/model",
    "/open",
    "/restart",
    "/sandbox",
    "/status",
    "/table",
    "/undo",
    "/vars",
];

/// What a person wants of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Wish {
    /// Take something back.
    Undo(UndoTo),
    /// See what can be gone back to.
    Checkpoints,
}

impl Wish {
    /// What is typed behind `/undo`: nothing, a number of turns, or `#` and that of a checkpoint.
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

/// What a line means.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum LineMeaning {
    Command(Command),
    /// Who answers; `None` names it.
    Model(Option<String>),
    /// Which kernel `!` means; `None` lists them.
    Kernel(Option<String>),
    Past(Wish),
    /// Something that lives in the kernel, or an output, is shown.
    Look(Look),
    /// When to ask before code runs; `None` tells.
    Approve(Option<Approval>),
    /// What code may do from now on; `None` tells.
    Sandbox(Option<SandboxWish>),
    /// What holds now.
    Status,
    /// The kernel begins anew.
    Restart,
    Help,
    Nothing,
    /// It means nothing, for this reason.
    Wrong(String),
    End,
}

/// What `line` means; `own` is the kernel that `!` means, `is_file` says what lies on the disk.
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
        "" => return LineMeaning::Nothing,
        "exit" | "quit" => return LineMeaning::End,
        "help" => return LineMeaning::Help,
        _ => {}
    }
    if let Some(code) = text.strip_prefix('!') {
        let language = own.map(|offer| offer.language.clone());
        return run(code.to_owned(), language, "!CODE");
    }
    if let Some(command) = text.strip_prefix("$ ") {
        return shell(command.trim(), own);
    }
    if let Some(words) = text.strip_prefix('%').and_then(renamed) {
        return LineMeaning::Wrong(words);
    }
    if let Some(rest) = text.strip_prefix("%%") {
        let (language, code) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        return run(
            code.to_owned(),
            Some(language.to_owned()),
            "%%LANGUAGE CODE",
        );
    }
    if text.starts_with('/') {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if let Some(said) = command(name, rest.trim(), is_file) {
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

/// Commands of Open Interpreter, and what they are called here.
const RENAMED: [(&str, &str); 11] = [
    ("help", "/help"),
    ("undo", "/undo"),
    (
        "reset",
        "/exit and `sponde` begin a new conversation; /undo takes turns back",
    ),
    ("tokens", "/status"),
    ("info", "/status, and `sponde doctor`"),
    ("model", "/model"),
    ("verbose", "`sponde -v`"),
    ("auto_run", "/approve never"),
    (
        "save_message",
        "no command: every session is kept, and `sponde sessions` lists them",
    ),
    ("load_message", "`sponde resume`"),
    (
        "jupyter",
        "no command: the notebook is written after each cell, and /status names it",
    ),
];

/// What to write instead of `%NAME`.
fn renamed(line: &str) -> Option<String> {
    let name = line.split_whitespace().next()?;
    let (_, here) = RENAMED.iter().find(|(old, _)| *old == name)?;
    Some(format!("`%{name}` is {here} here"))
}

fn run(code: String, language: Option<String>, form: &str) -> LineMeaning {
    if code.trim().is_empty() || language.as_deref() == Some("") {
        return LineMeaning::Wrong(format!("there is no code to run: write {form}"));
    }
    LineMeaning::Command(Command::Run { code, language })
}

/// The command `name` with its argument; `None`: this is not a command.
fn command(name: &str, rest: &str, is_file: impl Fn(&str) -> bool) -> Option<LineMeaning> {
    let named = (!rest.is_empty()).then(|| rest.to_owned());
    let alone = |said: LineMeaning| match &named {
        None => said,
        Some(rest) => LineMeaning::Wrong(format!(
            "`{name}` takes nothing behind it, and there is `{rest}`; /help lists the commands"
        )),
    };
    Some(match name {
        "/help" | "/?" => LineMeaning::Help,
        "/exit" | "/quit" => alone(LineMeaning::End),
        "/checkpoints" => alone(LineMeaning::Past(Wish::Checkpoints)),
        "/compact" => alone(LineMeaning::Command(Command::Compact)),
        "/restart" => alone(LineMeaning::Restart),
        "/status" | "/cost" => alone(LineMeaning::Status),
        "/sandbox" if rest.is_empty() => LineMeaning::Sandbox(None),
        "/sandbox" => match SandboxWish::parse(rest) {
            Ok(wish) => LineMeaning::Sandbox(Some(wish)),
            Err(words) => LineMeaning::Wrong(words),
        },
        "/undo" => match Wish::undo(rest) {
            Some(wish) => LineMeaning::Past(wish),
            None => LineMeaning::Wrong(format!(
                "`/undo` takes a number of turns, or # and that of a checkpoint, not `{rest}`"
            )),
        },
        "/vars" => alone(LineMeaning::Look(Look::Variables)),
        "/table" if rest.is_empty() => LineMeaning::Look(Look::Table(None)),
        "/table" => match TableWish::parse(rest) {
            Some(wish) => LineMeaning::Look(Look::Table(Some(wish))),
            None => LineMeaning::Wrong(format!("that is not a table: {TABLE}")),
        },
        "/open" => match rest.parse() {
            _ if rest.is_empty() => LineMeaning::Look(Look::Open(None)),
            Ok(number) => LineMeaning::Look(Look::Open(Some(number))),
            Err(_) => LineMeaning::Wrong(format!(
                "`/open` takes the number of an output, not `{rest}`"
            )),
        },
        "/kernel" | "/kernels" => LineMeaning::Kernel(named),
        "/model" => LineMeaning::Model(named),
        "/approve" => match rest.to_lowercase().as_str() {
            "" => LineMeaning::Approve(None),
            when => match when.parse() {
                Ok(approval) => LineMeaning::Approve(Some(approval)),
                Err(_) => LineMeaning::Wrong(format!(
                    "`/approve` takes always, on-risk or never, not `{rest}`"
                )),
            },
        },
        _ if looks_like_one(name, rest) && (name == "/" || !is_file(name)) => {
            LineMeaning::Wrong(format!("there is no `{name}`; /help lists the commands"))
        }
        _ => return None,
    })
}

/// One word with a slash is taken for a command. A longer line only if the word is spelt as commands are.
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
    fn commands_are_no_questions() {
        for (line, expected) in [
            ("  ", LineMeaning::Nothing),
            ("exit", LineMeaning::End),
            ("/exit", LineMeaning::End),
            ("/help me", LineMeaning::Help),
            ("/compact", LineMeaning::Command(Command::Compact)),
            ("/status", LineMeaning::Status),
            ("/restart", LineMeaning::Restart),
            ("$ ls -l", ran("!ls -l", "python")),
            (
                "%undo",
                LineMeaning::Wrong("`%undo` is /undo here".to_owned()),
            ),
            ("/undo 2", LineMeaning::Past(Wish::Undo(UndoTo::Turns(2)))),
            ("/model", LineMeaning::Model(None)),
            ("/approve", LineMeaning::Approve(None)),
            ("/approve ask", LineMeaning::Approve(Some(Approval::Always))),
            (
                "/approve always",
                LineMeaning::Approve(Some(Approval::Always)),
            ),
            (
                "/approve on-risk",
                LineMeaning::Approve(Some(Approval::OnRisk)),
            ),
            (
                "/approve Never",
                LineMeaning::Approve(Some(Approval::Never)),
            ),
            ("/model a/b", LineMeaning::Model(Some("a/b".to_owned()))),
            (
                "/kernels bash",
                LineMeaning::Kernel(Some("bash".to_owned())),
            ),
            ("/status", LineMeaning::Status),
            ("/sandbox", LineMeaning::Sandbox(None)),
            (
                "/sandbox read-only",
                LineMeaning::Sandbox(SandboxWish::parse("read-only").ok()),
            ),
            ("/vars", LineMeaning::Look(Look::Variables)),
            ("/table", LineMeaning::Look(Look::Table(None))),
            (
                "/table df",
                LineMeaning::Look(Look::Table(TableWish::parse("df"))),
            ),
            ("/open", LineMeaning::Look(Look::Open(None))),
            ("/open 3", LineMeaning::Look(Look::Open(Some(3)))),
            ("!x = 1", ran("x = 1", "python")),
            ("%%bash ls /", ran("ls /", "bash")),
        ] {
            assert_eq!(means(line), expected, "{line}");
        }
        assert_eq!(said(None, None, |_| false), LineMeaning::End);
        for line in [
            "/exit now",
            "/compact now",
            "/checkpoints all",
            "/undo it",
            "/approve sometimes",
            "/vars all",
            "/status now",
            "/sandbox some",
            "/sandbox full workspace",
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
            assert!(matches!(means(line), LineMeaning::Wrong(_)), "{line}");
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
