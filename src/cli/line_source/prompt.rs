//! Prompts that the editor's thread shows, and the one that it shows next.

use std::io::{PipeReader, PipeWriter};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anstyle::Style;
use tokio::sync::oneshot;

use super::super::style::paint;

/// The text before the input.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub(super) text: String,
    /// The separator between it and the input.
    pub(super) gap: &'static str,
    pub(super) style: Style,
    /// Text that is already typed.
    pub(super) begun: String,
}

impl Prompt {
    pub(super) fn new(style: Style, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            gap: " ",
            style,
            begun: String::new(),
        }
    }

    /// Adds the already typed text.
    pub(super) fn begun_with(mut self, begun: &str) -> Self {
        begun.clone_into(&mut self.begun);
        self
    }

    /// A prompt from code, shown unchanged.
    pub(super) fn of_code(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            gap: "",
            style: Style::new(),
            begun: String::new(),
        }
    }

    pub(super) fn shown(&self, colours: bool) -> String {
        paint(self.style, &self.text, colours) + self.gap
    }
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptKind {
    /// The next question or command.
    Question,
    /// An answer to one of our questions.
    Answer,
    /// Input that code wants; without newlines.
    Input,
    /// Hidden input that code wants.
    Password,
    /// One key, to answer one of our questions.
    Key,
}

impl PromptKind {
    /// Whether the input is useless to any other reader.
    pub(super) fn is_for_nobody_else(self) -> bool {
        matches!(self, Self::Password | Self::Key)
    }
}

/// The result of a prompt.
pub(super) enum ReadResult {
    Line(String),
    Interrupted,
    EndOfInput,
}

pub(super) struct Wanted {
    pub(super) kind: PromptKind,
    pub(super) prompt: Prompt,
    pub(super) reply: oneshot::Sender<ReadResult>,
    /// Closed when nobody waits for the key any more.
    pub(super) given_up: Option<PipeReader>,
}

/// A prompt that was asked for.
pub(super) struct Asked {
    pub(super) kind: PromptKind,
    pub(super) line: oneshot::Receiver<ReadResult>,
    /// Closes the other end with this value, which wakes the reader of a key.
    pub(super) _waits: Option<PipeWriter>,
}

/// The prompt that the thread shows next. One asked for later replaces it: nobody has seen it.
#[derive(Default)]
pub(super) struct Next {
    wanted: Mutex<(Option<Wanted>, IsOver)>,
    changed: Condvar,
}

/// Whether no more prompts come.
type IsOver = bool;

impl Next {
    /// Returns the one that it replaces.
    pub(super) fn put(&self, wanted: Wanted) -> Option<Wanted> {
        let replaced = self.held().0.replace(wanted);
        self.changed.notify_one();
        replaced
    }

    pub(super) fn end(&self) {
        self.held().1 = true;
        self.changed.notify_one();
    }

    /// Waits for it; `None` at the end.
    pub(super) fn take(&self) -> Option<Wanted> {
        let mut held = self
            .changed
            .wait_while(self.held(), |(wanted, is_over)| {
                wanted.is_none() && !*is_over
            })
            .unwrap_or_else(PoisonError::into_inner);
        if held.1 { None } else { held.0.take() }
    }

    fn held(&self) -> MutexGuard<'_, (Option<Wanted>, IsOver)> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
