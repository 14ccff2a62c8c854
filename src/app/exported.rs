//! Exports a conversation as a file: a notebook, a page, Markdown, a script.

mod file;

use std::path::Path;

use crate::export::{self, Options};
use crate::session::{Transcript, notebook};
pub use file::{cell_page, find, render, write};

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exported {
    /// nbformat 4.5.
    Notebook,
    /// A self-contained page.
    Page,
    /// Markdown.
    Markdown,
    /// The code, in percent format.
    Script,
}

impl Exported {
    /// From a suffix that we use.
    pub fn of_ending(ending: &str) -> Option<Self> {
        match ending {
            "ipynb" => Some(Self::Notebook),
            "html" => Some(Self::Page),
            "md" => Some(Self::Markdown),
            "py" => Some(Self::Script),
            _ => None,
        }
    }

    /// From the suffix of a file that a person names.
    pub fn of_file(file: &Path) -> Option<Self> {
        let ending = file.extension()?.to_string_lossy().to_lowercase();
        Some(match ending.as_str() {
            "htm" => Self::Page,
            "markdown" => Self::Markdown,
            "r" | "js" | "ts" | "sh" | "java" | "rs" | "jl" | "sql" | "txt" | "gp" => Self::Script,
            other => return Self::of_ending(other),
        })
    }

    /// Its MIME type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Notebook => "application/x-ipynb+json",
            Self::Page => "text/html; charset=utf-8",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Script => "text/x-python; charset=utf-8",
        }
    }

    /// Renders it. This takes time.
    pub fn render(self, transcript: &Transcript, name: &str) -> String {
        let notebook = notebook::render(transcript);
        let all = Options::default();
        match self {
            Self::Notebook => export::notebook(&notebook, all),
            Self::Page => export::html(&notebook, name, all, &|_| None),
            Self::Markdown => export::markdown(&notebook, all, None),
            Self::Script => export::script(&notebook, all),
        }
    }
}
