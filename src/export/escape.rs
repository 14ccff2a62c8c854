//! Text in HTML.

/// The text with all that HTML means something by escaped: for elements and for quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    escape_into(text, &mut html);
    html
}

/// The same at the end of `html`.
pub(super) fn escape_into(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // Not characters that HTML has; a browser would show boxes.
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}' => {}
            c => html.push(c),
        }
    }
}
