//! Line breaks that a small model meant as `\n`.
//!
//! In JSON a `\n` inside a Python literal needs two backslashes; a small model writes one, and the literal is torn apart.
//! A line break within '...' or "..." is never valid Python, so it can only have been meant as an escape.

/// `code` with line breaks inside single-line literals written as `\n`; unchanged if that leaves a literal open, because
/// then the break was not the trouble.
pub fn line_breaks(code: &str) -> String {
    let chars: Vec<char> = code.chars().collect();
    let mut repaired = String::with_capacity(code.len());
    let mut literal: Option<(char, bool)> = None;
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let triple = |quote: char| {
            chars
                .get(at..at + 3)
                .is_some_and(|next| next.iter().all(|&n| n == quote))
        };
        match literal {
            None => match c {
                '#' => {
                    while let Some(&c) = chars.get(at).filter(|&&c| c != '\n') {
                        repaired.push(c);
                        at += 1;
                    }
                    continue;
                }
                '\'' | '"' if triple(c) => {
                    literal = Some((c, true));
                    repaired.extend([c, c, c]);
                    at += 3;
                    continue;
                }
                '\'' | '"' => literal = Some((c, false)),
                _ => {}
            },
            Some((quote, is_triple)) => match c {
                '\\' => {
                    repaired.push(c);
                    at += 1;
                    if let Some(&escaped) = chars.get(at) {
                        repaired.push(escaped);
                        at += 1;
                    }
                    continue;
                }
                _ if is_triple && triple(quote) => {
                    literal = None;
                    repaired.extend([c, c, c]);
                    at += 3;
                    continue;
                }
                _ if !is_triple && c == quote => literal = None,
                '\n' if !is_triple => {
                    repaired.push_str("\\n");
                    at += 1;
                    continue;
                }
                _ => {}
            },
        }
        repaired.push(c);
        at += 1;
    }
    if literal.is_some() {
        code.to_owned()
    } else {
        repaired
    }
}

#[cfg(test)]
mod tests {
    use super::line_breaks;

    #[test]
    fn only_torn_literals_are_mended() {
        for (code, expected) in [
            ("print('a\nb')\nx = 1", "print('a\\nb')\nx = 1"),
            (
                "x = \"\"\"a\nb\"\"\"\ny = 'c'",
                "x = \"\"\"a\nb\"\"\"\ny = 'c'",
            ),
            ("# don't\nprint('a\\'\\n')", "# don't\nprint('a\\'\\n')"),
            ("print('open)\nx = 1", "print('open)\nx = 1"),
            (
                "s = f\"{d['k']}\"\nt = ''\nu = 'é\n'",
                "s = f\"{d['k']}\"\nt = ''\nu = 'é\\n'",
            ),
        ] {
            assert_eq!(line_breaks(code), expected);
        }
    }
}
