//! What the terminal that a session is shown on can do.

use std::io::{self, IsTerminal as _};

use super::super::link::Links;
use super::super::picture::Protocol;
use super::super::style;

/// Found out once, when a renderer begins.
pub(super) struct Abilities {
    pub(super) colours: bool,
    /// A person reads stderr.
    pub(super) is_terminal: bool,
    /// What stands on the screen can be replaced.
    pub(super) moves_cursor: bool,
    pub(super) protocol: Protocol,
    /// Whether names of files are links.
    pub(super) links: Links,
}

impl Abilities {
    /// Those of stderr. Links come with the configuration.
    pub(super) fn of_stderr() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self {
            colours: style::stderr_colours(),
            is_terminal,
            moves_cursor: style::moves_cursor(),
            protocol: Protocol::detect(is_terminal, &|name| std::env::var(name).ok()),
            links: Links::default(),
        }
    }
}
