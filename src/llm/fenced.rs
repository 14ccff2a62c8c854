//! Turns fenced blocks in a model's reply into calls, for models that cannot call tools.
//!
//! The model writes Markdown; every code block is a cell, in order, byte for byte, by CommonMark's rules ([`blocks`]).
//! From outside this looks like any provider: code streams as tool calls, the rest as text. [`habits`] handles other
//! formats that models learned in training.
//!
//! Invariants: code is never repaired; a block cut off by the reply limit stays broken, so that the model is told and
//! nothing runs; when a model starts inventing the output of its code, the reply ends there. The request only grows at
//! its end.

mod blocks;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod habits;
mod info;
mod reader;
mod render;
mod strings;

use super::coded::{Accept, Manner, ReadReply};
use super::tuning::Tuning;
use super::types::{Prompt, ToolChoice, ToolSpec};
use super::wording::Wording;
pub(super) use reader::Reader;

/// Instructions for the model, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct FencedOptions {
    /// The main kernel's language, as written after a fence.
    pub language: String,
    /// Appended to the system prompt, after a blank line; `{language}` and `{others}` are filled in.
    pub instructions: String,
    /// The text around outputs.
    pub wording: Wording,
    /// Appended to the prompt where only code may follow. Empty appends nothing.
    pub only_code: String,
    /// Appended to the prompt where only text may follow. Empty appends nothing.
    pub only_words: String,
    /// How it is asked.
    pub tuning: Tuning,
}

impl FencedOptions {
    /// For a main kernel of this language.
    pub fn new(language: &str) -> Self {
        Self {
            language: language.to_lowercase(),
            instructions: concat!(
                "To run code, write a fenced block that begins with ```{language}. Every such block is a cell: all are run in ",
                "order, and you get their outputs in the next message. After your code end the reply: never write ",
                "outputs yourself. A reply without code is your answer. Put code that must not run into a ```text block.",
                "{others}"
            )
            .to_owned(),
            wording: Wording {
                output_heading: "Output:\n".to_owned(),
                empty_output: "[nothing printed]".to_owned(),
                after_output: String::new(),
                after_error: String::new(),
            },
            only_code: String::new(),
            only_words: String::new(),
            tuning: Tuning::default(),
        }
    }
}

impl Manner for FencedOptions {
    fn ask(&self, prompt: Prompt, _tool: &ToolSpec) -> (Prompt, Box<dyn ReadReply>) {
        let accept = match prompt.tool_choice {
            ToolChoice::Auto | ToolChoice::Required => Accept::Blocks,
            ToolChoice::None => Accept::Words,
        };
        (render::fenced(prompt, self), Box::new(Reader::new(accept)))
    }

    fn plain(&self, prompt: Prompt) -> Prompt {
        self.wording.plain(&self.tuning, prompt, |text, calls| {
            render::reply(text, calls, self)
        })
    }
}

#[cfg(test)]
mod tests;
