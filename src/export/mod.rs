//! Exports notebooks for readers: as a page, Markdown, a script, or a notebook without its conversation.
//!
//! Pure: a notebook goes in, text comes out; pictures are read and written through closures. A notebook's content is
//! untrusted: nothing in it runs in a page, and a page loads nothing ([`sanitise`](self) is an allow-list). Depends
//! only on notebooks and Sponde's metadata.

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

/// What to leave out of a notebook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Keep only answers and code: no questions, no text only for the model, nothing that was cut off, declined or
    /// failed.
    pub clean: bool,
}

/// Renders the notebook as one self-contained page. `name` is the notebook's name; `pictures` finds pictures that its
/// text names by a path beside the notebook.
pub fn html(notebook: &Notebook, name: &str, options: Options, pictures: &Pictures<'_>) -> String {
    html::page(&prepared(notebook, options), name, options, pictures)
}

/// One output as HTML for a page: nothing in it runs or is loaded. `None` if scripts draw it, which needs a frame.
pub fn output_html(output: &Output) -> Option<String> {
    outputs::inline(output)
}

/// Markdown text as HTML for a page.
pub fn text_html(text: &str) -> String {
    markdown::html(text, None, &|_| None)
}

/// Code as HTML, with classes for its tokens.
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

/// The notebook in nbformat 4.5.
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
