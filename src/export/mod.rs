//! Notebooks for readers: a page, Markdown, a script, or a notebook without its conversation.
//!
//! Pure: a notebook goes in, text comes out; pictures come and go through closures. Whatever is in a notebook is
//! hostile: nothing of it runs in a page, and a page loads nothing ([`sanitise`](self) is a list of what may stay).
//! Knows of ours only the notebook and what our metadata say.

mod ansi;
mod cells;
mod clean;
mod escape;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod highlight;
mod html;
mod markdown;
mod md;
mod outputs;
mod sanitise;
mod script;

use crate::jupyter::nbformat::{Notebook, Output};
pub(crate) use highlight::{Class, Highlighter};
pub use markdown::Pictures;
pub use md::Files;

/// What is left of a notebook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Only answers and code: no questions, nothing that only the model reads, nothing that was cut off, declined or
    /// failed.
    pub clean: bool,
}

/// The notebook as one page that needs nothing else. `name` is what it is called; `pictures` finds those that its texts
/// name by a path beside the notebook.
pub fn html(notebook: &Notebook, name: &str, options: Options, pictures: &Pictures<'_>) -> String {
    html::page(&prepared(notebook, options), name, options, pictures)
}

/// One output as HTML that can stand in a page: nothing in it runs or is loaded. `None` if it is drawn by scripts, which
/// need a frame of their own.
pub fn output_html(output: &Output) -> Option<String> {
    outputs::inline(output)
}

/// Text with Markdown in it as HTML that can stand in a page.
pub fn text_html(text: &str) -> String {
    markdown::html(text, None, &|_| None)
}

/// Code as HTML with the classes of its tokens.
pub fn code_html(code: &str, language: &str) -> String {
    highlight::highlight(code, language)
}

/// The notebook as Markdown; without `files` pictures are left out.
pub fn markdown(notebook: &Notebook, options: Options, files: Option<&mut Files<'_>>) -> String {
    md::markdown(&prepared(notebook, options), files)
}

/// The notebook's code in percent format.
pub fn script(notebook: &Notebook, options: Options) -> String {
    script::script(&prepared(notebook, options))
}

/// The notebook as a notebook, in the form of nbformat 4.5.
pub fn notebook(notebook: &Notebook, options: Options) -> String {
    prepared(notebook, options).to_json()
}

fn prepared(notebook: &Notebook, options: Options) -> std::borrow::Cow<'_, Notebook> {
    if options.clean {
        std::borrow::Cow::Owned(clean::clean(notebook))
    } else {
        std::borrow::Cow::Borrowed(notebook)
    }
}
