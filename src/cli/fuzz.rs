//! Fuzz target for text from kernels and models: nothing that moves the cursor, hides text or controls the terminal
//! gets through.

use super::filter::{Filter, code, plain};
use crate::fuzz::seeded;

/// The first bytes say how to cut the rest, which is text.
pub(crate) fn terminal(data: &[u8]) {
    let (mut dice, rest) = seeded(data);
    let text = String::from_utf8_lossy(rest);
    for colours in [true, false] {
        let whole = Filter::new(colours).push(&text);
        let mut filter = Filter::new(colours);
        let pieces: String = dice
            .words(&text)
            .into_iter()
            .map(|it| filter.push(it))
            .collect();
        assert_eq!(pieces, whole, "cut in pieces");
        check(&whole, colours);
        // Filtered text passes unchanged.
        assert_eq!(Filter::new(colours).push(&whole), whole);
        // A reordering character of two bytes is shown as seven.
        assert!(whole.len() <= 4 * text.len());
    }
    assert!(!plain(&text).contains('\r'));
    let shown = code(&text);
    assert!(
        shown
            .chars()
            .all(|c| matches!(c, '\n' | '\t') || is_plain(c))
    );
    // Nothing is left out.
    assert!(shown.chars().count() >= text.chars().count());
}

fn check(shown: &str, colours: bool) {
    let mut rest = shown;
    while let Some(at) = rest.find(|c| !matches!(c, '\n' | '\t' | '\r') && !is_plain(c)) {
        assert!(colours, "{shown:?}");
        let sequence = rest.get(at..).and_then(|rest| rest.strip_prefix("\u{1b}["));
        let end = sequence
            .and_then(|it| it.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':')));
        let after = sequence
            .zip(end)
            .and_then(|(it, end)| it.get(end..)?.strip_prefix('m'));
        assert!(after.is_some(), "{shown:?}");
        rest = after.unwrap_or_default();
    }
}

fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}
