//! The source of a person's lines: a line editor if the terminal supports one, otherwise the plain lines of stdin.
//!
//! The whole program reads lines from this one source, so that no line goes to a reader that no longer waits for it.

mod choices;
mod complete;
mod editor;
mod kernel;
pub(super) mod keys;
mod mask;
mod prompt;

use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use tokio::sync::mpsc;

use super::stop::Ask;
use super::style::{DIM, HINT, WARN, paint, stderr_colours};
use super::{eprint, filter};
use crate::agent::approval::Approval;
pub(super) use choices::Choices;
use editor::LineEditor;
#[cfg(test)]
pub(super) use editor::raw_for_test;
pub(super) use editor::{restore, restore_now};
pub(super) use kernel::KernelLines;
use prompt::{Prompt, PromptKind};

/// A terminal delivers pasted lines one by one.
const PASTED_WITHIN: Duration = Duration::from_millis(20);

/// The input of a person, or of a pipe.
pub(super) struct LineSource {
    source: Source,
    /// Whether a person sees prompts.
    interactive: bool,
}

enum Source {
    Lines(Lines<BufReader<Stdin>>),
    Editor(LineEditor),
}

impl LineSource {
    /// The plain lines of stdin.
    pub(super) fn lines() -> Self {
        Self {
            source: Source::Lines(BufReader::new(tokio::io::stdin()).lines()),
            interactive: false,
        }
    }

    /// The input of a person at a terminal. The file `history` stores questions; `kernels` complete code.
    pub(super) fn of_a_person(history: Option<PathBuf>, kernels: Option<KernelLines>) -> Self {
        let source = match LineEditor::start(history, kernels) {
            Some(editor) => Source::Editor(editor),
            None => Self::lines().source,
        };
        Self {
            source,
            interactive: true,
        }
    }

    /// Whether input is drawn from the start of the line, over any text there.
    pub(super) fn draws_lines(&self) -> bool {
        matches!(self.source, Source::Editor(_))
    }

    /// Whether an abandoned prompt is still on the screen.
    fn is_open(&self) -> bool {
        matches!(&self.source, Source::Editor(editor) if editor.is_open())
    }

    /// Prepares for other output although a prompt is on the screen.
    pub(super) fn cover(&mut self) {
        match &mut self.source {
            Source::Editor(editor) => editor.cover(),
            Source::Lines(_) => eprint("\n"),
        }
    }

    /// The next question or command: one line, or several joined by a backslash or pasted. `None` at the end of input.
    /// The prompt says so if code runs without approval.
    ///
    /// # Errors
    /// The signal that came instead.
    pub(super) async fn question(
        &mut self,
        approval: Approval,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        if self.interactive && !self.is_open() {
            eprint("\n");
        }
        let prompt = match approval {
            Approval::Always | Approval::OnRisk => Prompt::new(HINT, ">"),
            Approval::Never => Prompt::new(WARN, "never >"),
        };
        match &mut self.source {
            Source::Editor(editor) => {
                let text = editor.read(PromptKind::Question, prompt, signals).await?;
                Ok(text.map(|text| text.replace("\\\n", "\n")))
            }
            Source::Lines(lines) => {
                let interactive = self.interactive;
                if interactive {
                    eprint(&prompt.shown(stderr_colours()));
                }
                tokio::select! {
                    line = read(lines, interactive) => Ok(line),
                    Some(ask) = signals.recv() => {
                        eprint("\n");
                        Err(ask)
                    }
                }
            }
        }
    }

    /// The answer to one of our questions. `None` at the end of input.
    ///
    /// # Errors
    /// The signal that came instead.
    pub(super) async fn answer(
        &mut self,
        question: &str,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        // Text that was typed before the question appeared does not answer it.
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        self.line(Prompt::new(HINT, question), PromptKind::Answer, signals)
            .await
    }

    /// The answer to one of our questions: a key if the terminal supports that, otherwise a line. Input that arrives
    /// at once also counts as a line. `None` at the end of input.
    ///
    /// # Errors
    /// The signal that came instead.
    pub(super) async fn key(
        &mut self,
        question: &str,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        self.line(Prompt::new(HINT, question), PromptKind::Key, signals)
            .await
    }

    /// Whether a single key can answer.
    pub(super) fn has_keys(&self) -> bool {
        self.draws_lines()
    }

    /// Reads an answer whose first characters are already typed.
    ///
    /// # Errors
    /// The signal that came instead.
    pub(super) async fn go_on(
        &mut self,
        question: &str,
        begun: &str,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        let prompt = Prompt::new(HINT, question).begun_with(begun);
        self.line(prompt, PromptKind::Answer, signals).await
    }

    /// The line that code asks for; hidden if it is a password. `None` at the end of input.
    ///
    /// # Errors
    /// The signal that came instead.
    pub(super) async fn input(
        &mut self,
        prompt: &str,
        password: bool,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        let prompt = filter::plain(prompt);
        // A line editor draws its prompt on a single line.
        let (above, last) = prompt.rsplit_once('\n').unwrap_or(("", &prompt));
        if !above.is_empty() {
            eprint(&format!("{above}\n"));
        }
        let kind = if password {
            PromptKind::Password
        } else {
            PromptKind::Input
        };
        self.line(Prompt::of_code(last), kind, signals).await
    }

    async fn line(
        &mut self,
        prompt: Prompt,
        kind: PromptKind,
        signals: &mut mpsc::Receiver<Ask>,
    ) -> Result<Option<String>, Ask> {
        match &mut self.source {
            Source::Editor(editor) => editor.read(kind, prompt, signals).await,
            Source::Lines(lines) => {
                // Before the prompt, because a person may type as soon as they see it.
                let _hidden = (kind == PromptKind::Password).then(HiddenTyping::start);
                eprint(&prompt.shown(stderr_colours()));
                tokio::select! {
                    line = lines.next_line() => Ok(line.ok().flatten()),
                    Some(ask) = signals.recv() => Err(ask),
                }
            }
        }
    }
}

/// One line, or several: joined by a backslash, or pasted. `None` at the end of input.
async fn read(lines: &mut Lines<BufReader<Stdin>>, interactive: bool) -> Option<String> {
    let mut text = String::new();
    let mut pasted = false;
    loop {
        let Some(line) = lines.next_line().await.ok().flatten() else {
            return (!text.is_empty()).then_some(text);
        };
        if let Some(begun) = line.strip_suffix('\\') {
            text.push_str(begun);
            if interactive {
                eprint("… ");
            }
        } else {
            text.push_str(&line);
            // Nobody types the next line that fast: it is part of this question, not another one.
            if interactive && !text.starts_with('/') && more_is_there().await {
                pasted = true;
            } else if std::mem::take(&mut pasted) {
                // Until then, the terminal keeps back a last line without a newline.
                eprint(&paint(DIM, "\n(pasted; Enter sends it) ", stderr_colours()));
            } else {
                text.truncate(text.trim_end_matches('\n').len());
                return Some(text);
            }
        }
        text.push('\n');
    }
}

/// Whether another line is already waiting at the terminal.
async fn more_is_there() -> bool {
    tokio::time::sleep(PASTED_WITHIN).await;
    let stdin = std::io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut wanted, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Turns the terminal's echo off until it is dropped.
struct HiddenTyping(Option<rustix::termios::Termios>);

impl HiddenTyping {
    fn start() -> Self {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(mut hidden) = before.clone() {
            hidden.local_modes.remove(LocalModes::ECHO);
            // Like getpass: discards text that was typed before the question appeared.
            let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
        }
        Self(before)
    }
}

impl Drop for HiddenTyping {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
            eprint("\n");
        }
    }
}
