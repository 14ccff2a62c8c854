//! Escapes text for HTML.

/// Escapes every character with a meaning in HTML, for elements and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    escape_into(text, &mut html);
    html
}

/// Appends the escaped text to `html`.
pub(super) fn escape_into(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // Control characters are not allowed in HTML; a browser would show boxes.
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}' => {}
            c => html.push(c),
        }
    }
}
