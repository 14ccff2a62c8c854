//! Fuzzes coloured text: the result contains only `span`s, each closed.

use super::ansi::Ansi;
use crate::fuzz::seeded;

/// The first bytes determine the fragmentation of the rest, which is the text.
pub(crate) fn page(data: &[u8]) {
    let (mut dice, rest) = seeded(data);
    let text = String::from_utf8_lossy(rest);
    let mut ansi = Ansi::default();
    for piece in dice.words(&text) {
        let html = ansi.html(piece);
        let spans = html.matches("<span").count();
        assert_eq!(spans, html.matches("</span>").count());
        assert_eq!(2 * spans, html.matches('<').count());
        assert!(!html.contains(['\u{1b}', '\u{9b}']), "{html:?}");
        assert!(html.len() <= 6 * piece.len() + 400 * spans);
    }
}
