//! A line editor with arrow keys, history across sessions (Up, Ctrl-R), Tab, and multi-line paste. It runs `rustyline`
//! on its own thread.
//!
//! It reads single keys, so while a line is typed the terminal is in raw mode ([`restore`]), and Ctrl-C is a key, not
//! a signal. Between lines the terminal is in its normal mode.
//!
//! Text typed before an answer or a password is asked for does not answer it: a new editor reads each of these. Text
//! left over from a question, or from a line that code wanted, is kept for the next one.
//!
//! A prompt on the screen cannot be cancelled. If its reader is gone, the typed line becomes the next question: no
//! line is lost, and none approves anything.

use std::collections::VecDeque;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use rustyline::config::{Behavior, Config};
use rustyline::error::ReadlineError;
use rustyline::history::{DefaultHistory, MemHistory};
use rustyline::{ColorMode, Editor};
use tokio::sync::{mpsc, oneshot};

use super::super::eprint;
use super::super::stop::Ask;
use super::super::style::{DIM, paint, stderr_colours};
use super::complete::Completion;
use super::kernel::KernelLines;
use super::keys::{key, swallow_rest};
use super::mask::Mask;
use super::prompt::{Asked, Next, Prompt, PromptKind, ReadResult, Wanted};

/// Lines of history to keep: enough that the file is only appended to. At the limit, the library rewrites it for each
/// line.
const HISTORY: usize = 100_000;
/// The first line of the library's history files.
const HISTORY_HEAD: &[u8] = b"#V2\n";
/// Terminals that the line editor cannot draw on.
const TOO_SIMPLE: [&str; 3] = ["dumb", "cons25", "emacs"];
/// The message when the line being typed is for another purpose than the new prompt.
const ENTER_FIRST: &str = "(press Enter to answer here)\n";
/// Ends bracketed paste, which the editor switched on.
const PASTE_AS_ALWAYS: &str = "\u{1b}[?2004l\n";

/// The terminal's mode before the current line was asked for.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal if a line is being typed, for programs that end meanwhile. Safe to call twice.
pub(in crate::cli) fn restore() {
    let now = tcgetattr(std::io::stdin()).ok();
    if let Some(before) = before().as_ref()
        && now.is_some_and(|now| now.local_modes != before.local_modes)
    {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        eprint(PASTE_AS_ALWAYS);
    }
}

/// The same without waiting for the thread that reads a line: for a panic.
pub(in crate::cli) fn restore_now() {
    let held = match BEFORE.try_lock() {
        Ok(held) => held,
        Err(TryLockError::Poisoned(held)) => held.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    if let Some(before) = held.as_ref() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        eprint(PASTE_AS_ALWAYS);
    }
}

/// Reads keys from now on, as while a line is typed.
#[cfg(test)]
pub(in crate::cli) fn raw_for_test() -> super::keys::Keys {
    *before() = tcgetattr(std::io::stdin()).ok();
    super::keys::Keys::start(super::keys::Control::IsKey).unwrap()
}

fn before() -> MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The editor's thread. It ends when this is dropped, or with the program if a line is being typed.
pub(super) struct LineEditor {
    next: Arc<Next>,
    /// The line that is being typed, or was when an interruption came: its prompt is still on the screen.
    open: Option<Asked>,
    /// Whether something was printed over that prompt.
    is_covered: bool,
    /// Prompts that are still on the screen although another one was wanted after them.
    given_up: VecDeque<Asked>,
    /// Lines pasted after a line for code, kept for the next one.
    pasted: VecDeque<String>,
}

impl LineEditor {
    /// `None` if the terminal is too simple, or there is no terminal.
    pub(super) fn start(history: Option<PathBuf>, kernels: Option<KernelLines>) -> Option<Self> {
        let term = std::env::var("TERM").unwrap_or_default();
        let simple = term.is_empty() || TOO_SIMPLE.iter().any(|it| it.eq_ignore_ascii_case(&term));
        if simple || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let next = Arc::new(Next::default());
        let thread = std::thread::Builder::new().name("line editor".to_owned());
        let wishes = Arc::clone(&next);
        let run = move || serve(history.as_deref(), kernels.as_ref(), &wishes);
        thread.spawn(run).ok()?;
        Some(Self {
            next,
            open: None,
            is_covered: false,
            given_up: VecDeque::new(),
            pasted: VecDeque::new(),
        })
    }

    /// Reads a line; `None` at the end of input.
    ///
    /// # Errors
    /// Ctrl-C, or the signal that came instead.
    pub(super) async fn read(
        &mut self,
        kind: PromptKind,
        prompt: Prompt,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        // The signal was for earlier activity, and a prompt on the screen cannot be removed.
        if let Ok(ask) = signals.try_recv() {
            return Err(ask);
        }
        match kind {
            PromptKind::Question | PromptKind::Answer | PromptKind::Password | PromptKind::Key => {
                self.pasted.clear();
            }
            PromptKind::Input => {
                if let Some(line) = self.pasted.pop_front() {
                    return Ok(Some(line));
                }
            }
        }
        if kind == PromptKind::Question {
            if let Some(text) = self.typed_for_nobody() {
                return Ok(Some(text));
            }
            self.reopen();
        }
        let still_open = self
            .open
            .take_if(|it| kind == PromptKind::Question && !it.kind.is_for_nobody_else());
        if let Some(open) = still_open {
            if std::mem::take(&mut self.is_covered) {
                eprint(&prompt.shown(stderr_colours()));
            }
            self.open = Some(open);
        } else {
            self.ask(kind, prompt);
        }
        // It stays open while we wait, so a caller that gives up loses no line.
        let Some(Asked { kind, line, .. }) = &mut self.open else {
            return Ok(None);
        };
        let kind = *kind;
        let line = tokio::select! {
            line = line => line,
            Some(ask) = signals.recv() => {
                self.open.take_if(|it| it.kind == PromptKind::Key);
                return Err(ask);
            }
        };
        self.open = None;
        match line {
            Ok(ReadResult::Line(text)) => Ok(Some(self.taken(kind, text))),
            Ok(ReadResult::Interrupted) => Err(Ask::Interrupt),
            Ok(ReadResult::EndOfInput) | Err(_) => Ok(None),
        }
    }

    /// Has the thread show a prompt.
    fn ask(&mut self, kind: PromptKind, prompt: Prompt) {
        let (reply, line) = oneshot::channel();
        // Without a pipe, the next key is still read, and dropped.
        let pipe = (kind == PromptKind::Key).then(std::io::pipe);
        let (given_up, waits) = pipe.and_then(Result::ok).unzip();
        let asked = Asked {
            kind,
            line,
            _waits: waits,
        };
        let replaced = self.next.put(Wanted {
            kind,
            prompt,
            reply,
            given_up,
        });
        // One whose reader is gone is not the open one, which is on the screen then.
        let never_shown = replaced.filter(|it| !it.reply.is_closed());
        if let Some(before) = self.open.replace(asked)
            && never_shown.is_none()
            && !before.kind.is_for_nobody_else()
        {
            self.given_up.push_back(before);
        } else if never_shown.is_none() {
            return;
        }
        if self.given_up.back().is_some_and(|it| it.line.is_empty()) {
            // The earlier prompt is read before this one is shown.
            eprint(&paint(DIM, ENTER_FIRST, stderr_colours()));
        }
    }

    /// A line typed at an abandoned prompt.
    fn typed_for_nobody(&mut self) -> Option<String> {
        while let Some(asked) = self.given_up.front_mut() {
            match asked.line.try_recv() {
                Ok(ReadResult::Line(text)) => {
                    self.given_up.pop_front();
                    return Some(text);
                }
                Err(oneshot::error::TryRecvError::Empty) => return None,
                Ok(ReadResult::Interrupted | ReadResult::EndOfInput) | Err(_) => {
                    drop(self.given_up.pop_front());
                }
            }
        }
        None
    }

    /// Whether a prompt is on the screen.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// While an earlier prompt is still being read, the latest was never shown: drop it, and reopen the earlier one.
    fn reopen(&mut self) {
        if let Some(asked) = self.given_up.back()
            && asked.line.is_empty()
        {
            self.open = self.given_up.pop_back();
            self.is_covered = true;
        }
    }

    /// Records that other text is printed over the prompt.
    pub(super) fn cover(&mut self) {
        self.reopen();
        if self.open.take_if(|it| it.kind == PromptKind::Key).is_some() {
            eprint("\r\u{1b}[K");
        } else if self.open.is_some() {
            self.is_covered = true;
            eprint("\r\u{1b}[K");
        }
    }

    /// The first line of the typed or pasted text, if only one is wanted.
    fn taken(&mut self, kind: PromptKind, text: String) -> String {
        if matches!(
            kind,
            PromptKind::Question | PromptKind::Answer | PromptKind::Key
        ) {
            return text;
        }
        let mut lines = text.lines().map(str::to_owned);
        let first = lines.next().unwrap_or_default();
        self.pasted.extend(lines);
        first
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        self.next.end();
        restore();
    }
}

/// Serves requests until no more come.
fn serve(history: Option<&Path>, kernels: Option<&KernelLines>, next: &Next) {
    let (mut questions, mut inputs) = (None, None);
    // What was typed after a key and is no part of it.
    let mut typed = String::new();
    while let Some(Wanted {
        kind,
        prompt,
        reply,
        given_up,
    }) = next.take()
    {
        if reply.is_closed() {
            continue;
        }
        *before() = tcgetattr(std::io::stdin()).ok();
        let begun = std::mem::take(&mut typed);
        let line = loop {
            let line = match kind {
                PromptKind::Question => question(&mut questions, history, kernels, &prompt, &begun),
                PromptKind::Answer => answer(&prompt),
                PromptKind::Input => input(&mut inputs, &prompt, &begun),
                PromptKind::Password => password(&prompt),
                PromptKind::Key => key(&prompt.shown(stderr_colours()), given_up.as_ref()),
            };
            // Bytes that are not valid text do not end the input.
            let is_odd = |error: &ReadlineError| matches!(error, ReadlineError::Io(error) if error.kind() == ErrorKind::InvalidData);
            if !line.as_ref().is_err_and(is_odd) {
                break line;
            }
            eprint("a key sent what is not UTF-8; that line is gone\n");
        };
        before().take();
        let answer = line
            .as_ref()
            .ok()
            .filter(|_| kind == PromptKind::Key)
            .cloned();
        let _ = reply.send(match line {
            Ok(text) => ReadResult::Line(text),
            Err(ReadlineError::Interrupted) => ReadResult::Interrupted,
            Err(ReadlineError::Eof) => ReadResult::EndOfInput,
            Err(error) => {
                eprint(&format!(
                    "could not read a line from the terminal: {error}\n"
                ));
                ReadResult::EndOfInput
            }
        });
        if let Some(answer) = answer {
            typed = swallow_rest(&answer);
        }
    }
}

type Questions = Editor<Completion, DefaultHistory>;
/// An editor without history and completion.
type Plain = Editor<(), MemHistory>;

fn question(
    editor: &mut Option<Questions>,
    history: Option<&Path>,
    kernels: Option<&KernelLines>,
    prompt: &Prompt,
    begun: &str,
) -> Result<String, ReadlineError> {
    let editor = match editor {
        Some(editor) => editor,
        None => editor.insert(questions(history, kernels)?),
    };
    let text = editor.readline_with_initial(&shown(prompt), (begun, ""))?;
    if editor.add_history_entry(&text).unwrap_or(false)
        && let Some(path) = history
        && let Err(error) = editor.append_history(path)
    {
        tracing::warn!(%error, path = %path.display(), "could not write the history of questions");
    }
    Ok(text)
}

fn questions(
    history: Option<&Path>,
    kernels: Option<&KernelLines>,
) -> Result<Questions, ReadlineError> {
    let config = config()
        .max_history_size(HISTORY)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Completion::new(kernels.cloned())));
    if let Some(path) = history
        && let Err(error) = remember(&mut editor, path)
    {
        tracing::warn!(%error, path = %path.display(), "could not read the history of questions");
    }
    Ok(editor)
}

/// Loads the history. An unreadable file is moved aside.
fn remember(editor: &mut Questions, path: &Path) -> Result<(), ReadlineError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The library would change the umask of the whole process for it.
    let new = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match new {
        Ok(mut file) => file.write_all(HISTORY_HEAD)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    let read = editor.load_history(path);
    if read.is_err() {
        std::fs::rename(path, path.with_extension("unreadable"))?;
    }
    read
}

fn answer(prompt: &Prompt) -> Result<String, ReadlineError> {
    let mut editor: Plain = Editor::with_history(config().build(), MemHistory::new())?;
    editor.readline_with_initial(&shown(prompt), (&prompt.begun, ""))
}

fn input(
    editor: &mut Option<Plain>,
    prompt: &Prompt,
    begun: &str,
) -> Result<String, ReadlineError> {
    let editor = match editor {
        Some(editor) => editor,
        None => editor.insert(Editor::with_history(config().build(), MemHistory::new())?),
    };
    editor.readline_with_initial(&shown(prompt), (begun, ""))
}

fn password(prompt: &Prompt) -> Result<String, ReadlineError> {
    // Like getpass: discards text that was typed before the question appeared.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    // The editor implements the mask as a colour, so without colours there would be no mask.
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

/// The prompt without and with colours.
fn shown(prompt: &Prompt) -> (String, String) {
    (prompt.shown(false), prompt.shown(stderr_colours()))
}
