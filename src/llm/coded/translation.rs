//! Translates a text reply into one with tool calls.

use std::collections::VecDeque;

use futures_util::stream::{self, StreamExt};

use super::piece::{Piece, ReadReply};
use crate::llm::types::{
    BoxStream, Delta, Message, Part, Prompt, Provider, ProviderError, StopReason, Usage,
};

/// Estimated bytes per token.
const TOKEN: usize = 4;

/// Asks `inner` and turns what `reader` finds in the reply into calls of `tool`.
pub(super) fn translated(
    inner: &dyn Provider,
    prompt: Prompt,
    reader: Box<dyn ReadReply>,
    tool: String,
) -> BoxStream<'static, Result<Delta, ProviderError>> {
    let translation = Translation {
        asked: size(&prompt),
        reply: Some(inner.stream(prompt)),
        thought: Thought::default(),
        reader,
        tool,
        calls: 0,
        made: false,
        received: 0,
        ready: VecDeque::new(),
        failed: None,
    };
    Box::pin(stream::unfold(translation, |mut translation| async move {
        let item = translation.next().await?;
        Some((item, translation))
    }))
}

struct Translation {
    /// Dropped once no more of it is needed.
    reply: Option<BoxStream<'static, Result<Delta, ProviderError>>>,
    thought: Thought,
    reader: Box<dyn ReadReply>,
    tool: String,
    /// Calls begun, native ones included.
    calls: usize,
    /// Whether some of them were made from text.
    made: bool,
    /// Bytes of the prompt and of the reply, for estimating usage.
    asked: usize,
    received: usize,
    /// Deltas of one fragment that are not yet yielded.
    ready: VecDeque<Delta>,
    /// An error to yield after them.
    failed: Option<ProviderError>,
}

impl Translation {
    async fn next(&mut self) -> Option<Result<Delta, ProviderError>> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Some(Ok(delta));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            match self.reply.as_mut()?.next().await? {
                Ok(Delta::Text(fragment)) => {
                    self.received += fragment.len();
                    self.text(&fragment);
                }
                Ok(Delta::Finished { reason, usage }) => {
                    let rest = self.thought.rest();
                    let mut pieces = self.reader.read(&rest);
                    pieces.extend(self.reader.finish(reason == StopReason::Length));
                    self.take(pieces);
                    self.finish(reason, usage);
                }
                Ok(Delta::Retrying(why)) => {
                    self.reader = self.reader.anew();
                    self.thought = Thought::default();
                    self.calls = 0;
                    self.made = false;
                    return Some(Ok(Delta::Retrying(why)));
                }
                Ok(Delta::CallStart { index, id, name }) => {
                    self.calls = self.calls.max(index + 1);
                    return Some(Ok(Delta::CallStart { index, id, name }));
                }
                // The native reply would be sent back as it is, but lacks the calls made from text.
                Ok(Delta::Native(_)) if self.made => {}
                Err(error) => {
                    // Text that was held back is not lost; code that was cut is not run.
                    let pieces = self.reader.finish(true);
                    self.take(
                        pieces
                            .into_iter()
                            .filter(|piece| matches!(piece, Piece::Text(_)))
                            .collect(),
                    );
                    self.reply = None;
                    self.failed = Some(error);
                }
                other => return Some(other),
            }
        }
    }

    fn text(&mut self, fragment: &str) {
        let (thought, words) = self.thought.read(fragment);
        if !thought.is_empty() {
            self.ready.push_back(Delta::Reasoning(thought));
        }
        let pieces = self.reader.read(&words);
        self.take(pieces);
    }

    fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.ready.push_back(Delta::Text(text)),
                Piece::Begin(language) => {
                    let name = self.tool.clone();
                    self.begin(name);
                    let language = language.map_or_else(String::new, |language| {
                        format!("\"language\": {}, ", serde_json::Value::from(language))
                    });
                    self.arguments(format!("{{{language}\"code\": \""));
                }
                Piece::Code(code) => {
                    let quoted = serde_json::Value::from(code).to_string();
                    // Without the quotes: every character is escaped on its own.
                    let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
                    self.arguments(inside.to_owned());
                }
                Piece::End => self.arguments("\"}".to_owned()),
                Piece::Call(name, arguments) => {
                    self.begin(name.unwrap_or_else(|| self.tool.clone()));
                    self.arguments(arguments);
                }
                Piece::Arguments(more) => self.arguments(more),
                Piece::Stop => {
                    tracing::debug!("the model made up an output: its reply ends there");
                    // The server's own figures come at the end of the reply, which we do not wait for.
                    let usage = Usage {
                        input: tokens(self.asked),
                        cached: 0,
                        written: 0,
                        output: tokens(self.received),
                        cost: None,
                    };
                    self.finish(StopReason::Done, usage);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, name: String) {
        let index = self.calls;
        self.calls += 1;
        self.made = true;
        self.ready.push_back(Delta::CallStart {
            index,
            id: format!("call_{}", uuid::Uuid::new_v4().simple()),
            name,
        });
    }

    fn arguments(&mut self, fragment: String) {
        let index = self.calls.saturating_sub(1);
        self.ready
            .push_back(Delta::CallArguments { index, fragment });
    }

    fn finish(&mut self, reason: StopReason, usage: Usage) {
        let reason = match reason {
            StopReason::Done if self.calls > 0 => StopReason::ToolCalls,
            reason => reason,
        };
        self.ready.push_back(Delta::Finished { reason, usage });
        // Dropping the stream stops the reply.
        self.reply = None;
    }
}

/// Reasoning written into the reply: `<think>...</think>` at its beginning.
#[derive(Debug, Default)]
enum Thought {
    /// Reasoning may still begin; holds the text so far.
    #[default]
    Unknown,
    Begun(String),
    Inside(String),
    Over,
}

impl Thought {
    /// Splits `fragment` into reasoning and reply.
    fn read(&mut self, fragment: &str) -> (String, String) {
        const BEGIN: &str = "<think>";
        const END: &str = "</think>";
        match std::mem::replace(self, Self::Over) {
            Self::Over => (String::new(), fragment.to_owned()),
            Self::Unknown => {
                *self = Self::Begun(String::new());
                self.read(fragment)
            }
            Self::Begun(mut text) => {
                text.push_str(fragment);
                let start = text.trim_start();
                if let Some(inside) = start.strip_prefix(BEGIN) {
                    let inside = inside.to_owned();
                    *self = Self::Inside(String::new());
                    return self.read(&inside);
                }
                if BEGIN.starts_with(start) {
                    *self = Self::Begun(text);
                    return Default::default();
                }
                (String::new(), text)
            }
            Self::Inside(mut text) => {
                text.push_str(fragment);
                if let Some((thought, rest)) = text.split_once(END) {
                    return (thought.to_owned(), rest.to_owned());
                }
                // The closing tag may have arrived in part.
                let held = (1..END.len())
                    .rev()
                    .find(|&length| text.ends_with(&END[..length]))
                    .unwrap_or(0);
                let rest = text.split_off(text.len() - held);
                *self = Self::Inside(rest);
                (text, String::new())
            }
        }
    }

    /// The text held back, at the end of the reply.
    fn rest(&mut self) -> String {
        match std::mem::replace(self, Self::Over) {
            Self::Begun(text) => text,
            Self::Unknown | Self::Inside(_) | Self::Over => String::new(),
        }
    }
}

/// Bytes of text in a prompt.
fn size(prompt: &Prompt) -> usize {
    let parts = |parts: &[Part]| -> usize {
        parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.len(),
                Part::Image { .. } => 0,
            })
            .sum()
    };
    let messages: usize = prompt
        .messages
        .iter()
        .map(|message| match message {
            Message::User(all) | Message::ToolResult { parts: all, .. } => parts(all),
            Message::Assistant { text, calls, .. } => {
                text.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>()
            }
        })
        .sum();
    prompt.system.len() + messages
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(TOKEN)).unwrap_or(u64::MAX)
}
