//! The abilities of the terminal that shows a session.

use std::io::{self, IsTerminal as _};

use super::super::link::Links;
use super::super::picture::Protocol;
use super::super::style;

/// Detected once, when a renderer is created.
pub(super) struct Abilities {
    pub(super) colours: bool,
    /// A person reads stderr.
    pub(super) is_terminal: bool,
    /// Text on the screen can be replaced.
    pub(super) moves_cursor: bool,
    pub(super) protocol: Protocol,
    /// Whether file names are links.
    pub(super) links: Links,
}

impl Abilities {
    /// The abilities of stderr. Links depend on the configuration.
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
