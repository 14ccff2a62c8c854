//! What a reader is given and what it gives back.

use std::path::Path;

use super::calls::Language;
use super::input::{Broken, Packing};
use super::sketch::Part;

/// A file that was named.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// Where it is.
    pub(super) path: &'a Path,
    /// The same as code names it.
    pub(super) inner: &'a Path,
    pub(super) language: Language,
}

/// What a reader found: the parts of a file, or why it cannot tell.
pub(super) type Found = Result<Vec<Part>, Broken>;

/// Where a text comes from.
pub(super) struct Source<'a> {
    pub(super) target: Target<'a>,
    /// The size of the file.
    pub(super) bytes: u64,
    pub(super) packing: Packing,
    /// What pandas must be told of the compression.
    pub(super) packed: Option<&'static str>,
    /// Python that opens it as bytes, if that is not the path.
    pub(super) open: Option<String>,
}
