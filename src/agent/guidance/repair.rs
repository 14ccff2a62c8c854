//! Repairs code that a small model damaged by wrong JSON escaping.

/// `code` with invalid Python repaired: line breaks that were meant as `\n`, and the brace that was meant to end the
/// surrounding JSON. Unchanged if the problem is another one.
pub fn torn(code: &str) -> String {
    let whole = line_breaks(code);
    match without_last_brace(&whole) {
        Some(shorter) => shorter.to_owned(),
        None => whole,
    }
}

/// `code` with line breaks inside single-line literals written as `\n`; unchanged if a literal stays unterminated,
/// because then the line break was not the problem.
///
/// In JSON, a `\n` inside a Python literal needs two backslashes. A small model writes one, which splits the literal.
/// A line break within '...' or "..." is never valid Python, so it must have been meant as an escape.
fn line_breaks(code: &str) -> String {
    let Some(pieces) = pieces(code) else {
        return code.to_owned();
    };
    let mut repaired = String::with_capacity(code.len());
    for (kind, text) in pieces {
        if kind != Lexeme::Literal {
            repaired.push_str(text);
            continue;
        }
        let mut is_escaped = false;
        for c in text.chars() {
            match c {
                '\n' if !is_escaped => repaired.push_str("\\n"),
                _ => repaired.push(c),
            }
            is_escaped = c == '\\' && !is_escaped;
        }
    }
    repaired
}

/// `code` without its final brace, if that brace has no opening one.
fn without_last_brace(code: &str) -> Option<&str> {
    let shorter = code.trim_end().strip_suffix('}')?.trim_end();
    let pieces = pieces(code)?;
    let (last, _) = pieces.last()?;
    let braces = |brace: char| -> usize {
        let code = pieces.iter().filter(|(kind, _)| *kind == Lexeme::Code);
        code.map(|(_, text)| text.matches(brace).count()).sum()
    };
    (*last == Lexeme::Code && braces('}') == braces('{') + 1).then_some(shorter)
}

/// The kind of a piece of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lexeme {
    Code,
    Comment,
    /// A single-line literal.
    Literal,
    LongLiteral,
}

/// `code` in pieces; `None` if a literal is unterminated.
fn pieces(code: &str) -> Option<Vec<(Lexeme, &str)>> {
    let mut pieces = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match first {
            '#' => (Lexeme::Comment, rest.find('\n').unwrap_or(rest.len())),
            '\'' | '"' => {
                let long = ["'''", "\"\"\""]
                    .into_iter()
                    .find(|&long| rest.starts_with(long));
                match long {
                    Some(quotes) => (Lexeme::LongLiteral, end_of_literal(rest, quotes)?),
                    None => (Lexeme::Literal, end_of_literal(rest, rest.get(..1)?)?),
                }
            }
            _ => (
                Lexeme::Code,
                rest.find(['#', '\'', '"']).unwrap_or(rest.len()),
            ),
        };
        let (piece, later) = rest.split_at_checked(length)?;
        pieces.push((kind, piece));
        rest = later;
    }
    Some(pieces)
}

/// The length of the literal at the start of `text`.
fn end_of_literal(text: &str, quotes: &str) -> Option<usize> {
    let mut at = quotes.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(quotes) {
            return Some(at + quotes.len());
        }
        let mut next = rest.chars();
        let c = next.next()?;
        at += c.len_utf8();
        if c == '\\' {
            at += next.next()?.len_utf8();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::torn;

    #[test]
    fn only_what_is_torn_is_mended() {
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
            ("print(x)}", "print(x)"),
            ("d = {1: 2}\nprint(d)\n}\n", "d = {1: 2}\nprint(d)"),
            ("d = {1: 2}", "d = {1: 2}"),
            ("print('{')}", "print('{')"),
            ("x = 1 # }", "x = 1 # }"),
            ("print('}')", "print('}')"),
        ] {
            assert_eq!(torn(code), expected);
        }
    }
}
