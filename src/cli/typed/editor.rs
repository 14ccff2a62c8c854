//! A line editor: arrow keys, history over sessions (Up, Ctrl-R), Tab, pasted lines as one. `rustyline` on its own thread.
//!
//! It reads keys one by one, so while a line is typed the terminal is not as it was ([`restore`]), and Ctrl-C is a key and no
//! signal. Between lines the terminal is as always.
//!
//! What was typed before an answer or a password is asked for is no answer to it: these are read by an editor that is new
//! each time, whereas what is left over of a question stays for the next one.

use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anstyle::Style;
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use rustyline::config::{Behavior, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::{DefaultHistory, MemHistory};
use rustyline::{ColorMode, Editor};
use tokio::sync::{mpsc, oneshot};
use unicode_width::UnicodeWidthStr as _;

use super::super::eprint;
use super::super::signals::Ask;
use super::super::style::{paint, stderr_colours};
use super::complete::Completion;

/// Questions that are kept.
const HISTORY: usize = 2000;
/// What the line editor cannot draw on.
const TOO_SIMPLE: [&str; 3] = ["dumb", "cons25", "emacs"];
/// Ends what the editor told the terminal to do with pasted text.
const PASTE_AS_ALWAYS: &str = "\u{1b}[?2004l\n";

/// The terminal as it was before a line was asked for, while one is.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Makes the terminal what it was, if a line is being typed: for programs that end meanwhile.
pub(in crate::cli) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        eprint(PASTE_AS_ALWAYS);
    }
}

/// What stands before what is typed.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    text: String,
    /// Between it and what is typed.
    gap: &'static str,
    style: Style,
}

impl Prompt {
    pub(super) fn new(style: Style, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            gap: " ",
            style,
        }
    }

    /// As it is.
    pub(super) fn of_code(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            gap: "",
            style: Style::new(),
        }
    }

    pub(super) fn shown(&self, colours: bool) -> String {
        paint(self.style, &self.text, colours) + self.gap
    }
}

/// What a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Question,
    Answer,
    Password,
}

enum Line {
    Said(String),
    Interrupted,
    Ended,
}

struct Wanted {
    kind: Kind,
    prompt: Prompt,
    reply: oneshot::Sender<Line>,
}

/// The editor's thread. It ends with this, or with the program if a line is being typed.
pub(super) struct LineEditor {
    wanted: std::sync::mpsc::SyncSender<Wanted>,
    /// A question that a signal came in between of: it still stands there.
    open: Option<oneshot::Receiver<Line>>,
}

impl LineEditor {
    /// `None` if the terminal is too simple, or none.
    pub(super) fn start(history: Option<PathBuf>) -> Option<Self> {
        let term = std::env::var("TERM").unwrap_or_default();
        let simple = term.is_empty() || TOO_SIMPLE.iter().any(|it| it.eq_ignore_ascii_case(&term));
        if simple || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        // One is asked for at a time; an answer that is no longer wanted may still be in front of it.
        let (wanted, wishes) = std::sync::mpsc::sync_channel(4);
        let thread = std::thread::Builder::new().name("line editor".to_owned());
        let run = move || serve(history.as_deref(), &wishes);
        thread.spawn(run).ok()?;
        Some(Self { wanted, open: None })
    }

    /// `None` is the end of input.
    ///
    /// # Errors
    /// Ctrl-C, or the signal that came instead.
    pub(super) async fn read(
        &mut self,
        kind: Kind,
        prompt: Prompt,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        let still_open = self.open.take().filter(|_| kind == Kind::Question);
        let mut line = if let Some(open) = still_open {
            open
        } else {
            let (reply, line) = oneshot::channel();
            let wanted = Wanted {
                kind,
                prompt,
                reply,
            };
            if self.wanted.try_send(wanted).is_err() {
                return Ok(None);
            }
            line
        };
        tokio::select! {
            line = &mut line => match line {
                Ok(Line::Said(text)) => Ok(Some(text)),
                Ok(Line::Interrupted) => Err(Ask::Interrupt),
                Ok(Line::Ended) | Err(_) => Ok(None),
            },
            Some(ask) = signals.recv() => {
                if kind == Kind::Question {
                    self.open = Some(line);
                }
                Err(ask)
            }
        }
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        restore();
    }
}

/// Reads what is wanted until nobody wants more.
fn serve(history: Option<&Path>, wishes: &std::sync::mpsc::Receiver<Wanted>) {
    let mut questions = None;
    while let Ok(Wanted {
        kind,
        prompt,
        reply,
    }) = wishes.recv()
    {
        let before = tcgetattr(std::io::stdin()).ok();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = before;
        let line = match kind {
            Kind::Question => question(&mut questions, history, &prompt),
            Kind::Answer => answer(&prompt),
            Kind::Password => password(&prompt),
        };
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = reply.send(match line {
            Ok(text) => Line::Said(text),
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(ReadlineError::Eof) => Line::Ended,
            Err(error) => {
                tracing::warn!(%error, "could not read a line from the terminal");
                Line::Ended
            }
        });
    }
}

type Questions = Editor<Completion, DefaultHistory>;

fn question(
    editor: &mut Option<Questions>,
    history: Option<&Path>,
    prompt: &Prompt,
) -> Result<String, ReadlineError> {
    let editor = match editor {
        Some(editor) => editor,
        None => editor.insert(questions(history)?),
    };
    let text = editor.readline(&shown(prompt))?;
    if editor.add_history_entry(&text).unwrap_or(false)
        && let Some(path) = history
        && let Err(error) = editor.append_history(path)
    {
        tracing::warn!(%error, path = %path.display(), "could not write the history of questions");
    }
    Ok(text)
}

fn questions(history: Option<&Path>) -> Result<Questions, ReadlineError> {
    let config = config()
        .max_history_size(HISTORY)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Completion::default()));
    if let Some(path) = history {
        if let Some(folder) = path.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    Ok(editor)
}

fn answer(prompt: &Prompt) -> Result<String, ReadlineError> {
    let mut editor = Editor::<(), _>::with_history(config().build(), MemHistory::new())?;
    editor.readline(&shown(prompt))
}

fn password(prompt: &Prompt) -> Result<String, ReadlineError> {
    // As getpass does, without what was typed before the question was there.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    // The mask is a colour to the editor, and without colours there would be none.
    let config = config().color_mode(ColorMode::Forced).build();
    let mut editor = Editor::with_history(config, MemHistory::new())?;
    editor.set_helper(Some(Mask));
    editor.readline(&shown(prompt))
}

fn config() -> rustyline::config::Builder {
    Config::builder()
        .behavior(Behavior::PreferTerm)
        .completion_type(rustyline::CompletionType::List)
}

/// Without and with colours.
fn shown(prompt: &Prompt) -> (String, String) {
    (prompt.shown(false), prompt.shown(stderr_colours()))
}

/// Shows nothing of what is typed, but how far it is.
struct Mask;

impl Highlighter for Mask {
    fn highlight<'l>(&self, line: &'l str, _at: usize) -> Cow<'l, str> {
        Cow::Owned(" ".repeat(line.width()))
    }

    fn highlight_char(&self, _line: &str, _at: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl rustyline::completion::Completer for Mask {
    type Candidate = String;
}
impl rustyline::hint::Hinter for Mask {
    type Hint = String;
}
impl rustyline::validate::Validator for Mask {}
impl rustyline::Helper for Mask {}
