//! File names as clickable links (OSC 8), if the terminal supports them.

use std::fmt::Write as _;
use std::path::Path;

use super::filter;
use super::style::moves_cursor;
use super::terminal_kind::TerminalKind;

/// Whether file names are links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Links(bool);

impl Links {
    /// On if stderr is a terminal with links and they are `wanted`.
    pub(super) fn of(wanted: bool) -> Self {
        Self(wanted && moves_cursor() && TerminalKind::of_environment().links)
    }

    /// `shown`, linked to the file at `path` if that exists. A relative path gets no link.
    pub(super) fn file(self, path: &str, shown: &str) -> String {
        let file = Path::new(path);
        if !self.0 || !file.is_absolute() || !file.exists() {
            return shown.to_owned();
        }
        let url = url(path);
        format!("\u{1b}]8;;{url}\u{1b}\\{shown}\u{1b}]8;;\u{1b}\\")
    }
}

/// Escapes all characters that a terminal, or a program it starts, could misinterpret.
fn url(path: &str) -> String {
    let mut url = "file://".to_owned();
    for byte in filter::plain(path).bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_nothing_that_a_terminal_would_handle() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a b\u{1b}\\é;.png");
        std::fs::write(&file, "").unwrap();
        let path = file.to_str().unwrap();
        let link = Links(true).file(path, "shown");
        let (url, rest) = link
            .strip_prefix("\u{1b}]8;;")
            .unwrap()
            .split_once('\u{1b}')
            .unwrap();
        assert!(url.starts_with("file:///") && url.is_ascii(), "{url}");
        assert!(!url.contains([' ', ';', '\\']), "{url}");
        assert_eq!(rest, "\\shown\u{1b}]8;;\u{1b}\\");
        assert_eq!(Links(false).file(path, "shown"), "shown");
        assert_eq!(Links(true).file("relative.png", "shown"), "shown");
        assert_eq!(Links(true).file("/no/such/file", "shown"), "shown");
    }
}
