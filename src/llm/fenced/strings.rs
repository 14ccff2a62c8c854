//! Tracks whether code in a fenced block is inside a multi-line string: a fence there belongs to the string, not to the
//! block.
//!
//! Not a parser: it only follows, line by line, what opens and closes strings and comments. Wrong guesses are harmless
//! as long as a string that is never closed is ignored ([`super::blocks`]).

/// A language's rules and the current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Strings {
    /// Three quotes open a multi-line string; the given marks begin a comment.
    Triple {
        comment: &'static str,
        open: Option<char>,
    },
    /// Every string may span lines.
    R { open: Option<Closing> },
    /// Strings and here-documents.
    Shell {
        open: Option<char>,
        /// Terminators of here-documents that are open or follow.
        documents: Vec<String>,
    },
    /// Text with blocks of its own; whether such a block is open.
    Text { within: bool },
}

/// What closes the current string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Closing {
    Quote(char),
    /// Of a raw string.
    Raw(String),
}

impl Strings {
    /// The rules for a block in this language.
    pub(super) fn of(language: &str) -> Self {
        match language {
            "r" => Self::R { open: None },
            "bash" | "sh" | "shell" | "zsh" | "ksh" => Self::Shell {
                open: None,
                documents: Vec::new(),
            },
            "md" | "markdown" | "mdx" => Self::Text { within: false },
            "java" | "kotlin" | "scala" | "swift" | "groovy" | "dart" => Self::Triple {
                comment: "//",
                open: None,
            },
            _ => Self::Triple {
                comment: "#",
                open: None,
            },
        }
    }

    /// Whether the next line begins in a string.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Triple { open, .. } => open.is_some(),
            Self::R { open } => open.is_some(),
            Self::Shell { open, documents } => open.is_some() || !documents.is_empty(),
            Self::Text { within } => *within,
        }
    }

    /// Processes a line of code.
    pub(super) fn take(&mut self, line: &str, is_first: bool) {
        let writes_text = ["%%writefile", "%%file", "%%markdown"];
        if is_first && writes_text.iter().any(|magic| line.starts_with(magic)) {
            *self = Self::Text { within: false };
            return;
        }
        match self {
            Self::Triple { comment, open } => *open = triple(line, *open, comment),
            Self::R { open } => *open = r(line, open.take()),
            Self::Shell { open, documents } => shell(line, open, documents),
            Self::Text { within } => {
                let text = line.trim();
                if text.starts_with("```") || text.starts_with("~~~") {
                    *within = !*within;
                }
            }
        }
    }
}

/// The quote still open after `line`.
fn triple(line: &str, mut open: Option<char>, comment: &str) -> Option<char> {
    let mut rest = line;
    loop {
        let marks = match open {
            Some(quote) => [quote, '\\', quote],
            None => ['"', '\'', comment.chars().next()?],
        };
        let Some(at) = rest.find(marks) else {
            return open;
        };
        let (_, from) = rest.split_at(at);
        let Some(c) = from.chars().next() else {
            return open;
        };
        let after = |length: usize| from.get(length..).unwrap_or_default();
        let is_triple = from
            .as_bytes()
            .iter()
            .take_while(|b| char::from(**b) == c)
            .count()
            >= 3;
        rest = match open {
            Some(_) if c == '\\' => {
                let escaped = after(1).chars().next().map_or(0, char::len_utf8);
                after(1 + escaped)
            }
            Some(_) if is_triple => {
                open = None;
                after(3)
            }
            None if from.starts_with(comment) => return None,
            None if matches!(c, '"' | '\'') && is_triple => {
                open = Some(c);
                after(3)
            }
            None if matches!(c, '"' | '\'') => after_quoted(after(1), c).unwrap_or_default(),
            Some(_) | None => after(1),
        };
    }
}

/// The text after the `quote` that ends a single-line string; `None` if the quote is missing.
fn after_quoted(text: &str, quote: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return text.get(at + c.len_utf8()..),
            _ => {}
        }
    }
    None
}

fn r(line: &str, mut open: Option<Closing>) -> Option<Closing> {
    let mut rest = line;
    loop {
        match open.take() {
            Some(Closing::Raw(end)) => match rest.split_once(end.as_str()) {
                Some((_, after)) => rest = after,
                None => return Some(Closing::Raw(end)),
            },
            Some(Closing::Quote(quote)) => match after_quoted(rest, quote) {
                Some(after) => rest = after,
                None => return Some(Closing::Quote(quote)),
            },
            None => {
                let at = rest.find(['"', '\'', '`', '#'])?;
                let (before, from) = rest.split_at(at);
                let quote = from.chars().next()?;
                if quote == '#' {
                    return None;
                }
                rest = from.get(1..).unwrap_or_default();
                let raw = before.ends_with(['r', 'R']) && quote != '`';
                open = Some(match raw.then(|| raw_end(rest, quote)).flatten() {
                    Some(end) => Closing::Raw(end),
                    None => Closing::Quote(quote),
                });
            }
        }
    }
}

/// The terminator of a raw R string that begins with this: `---(` is ended by `)---"`.
fn raw_end(text: &str, quote: char) -> Option<String> {
    let dashes = text.len() - text.trim_start_matches('-').len();
    let close = match text.get(dashes..)?.chars().next()? {
        '(' => ')',
        '[' => ']',
        '{' => '}',
        _ => return None,
    };
    Some(format!("{close}{}{quote}", "-".repeat(dashes)))
}

fn shell(line: &str, open: &mut Option<char>, documents: &mut Vec<String>) {
    if open.is_none()
        && let Some(end) = documents.first()
    {
        if line.trim_start_matches('\t').trim_end_matches(['\r', '\n']) == end {
            documents.remove(0);
        }
        return;
    }
    let mut before = ' ';
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = match (*open, c) {
            (Some('\''), '\'') | (Some('"'), '"') => {
                *open = None;
                after
            }
            (Some('\''), _) => after,
            (_, '\\') => after
                .get(after.chars().next().map_or(0, char::len_utf8)..)
                .unwrap_or_default(),
            (None, '\'' | '"') => {
                *open = Some(c);
                after
            }
            (None, '#') if before.is_whitespace() => break,
            (None, '<') if after.starts_with("<<") => after.get(2..).unwrap_or_default(),
            (None, '<') if after.starts_with('<') => {
                let word = after.trim_start_matches(['<', '-', ' ']);
                let quoted = word.trim_start_matches(['\'', '"', '\\']);
                let end = quoted
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(quoted.len());
                if quoted.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                    documents.push(quoted.get(..end).unwrap_or_default().to_owned());
                }
                let rest = quoted.get(end..).unwrap_or_default();
                rest.strip_prefix(['\'', '"']).unwrap_or(rest)
            }
            _ => after,
        };
        before = c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_several_lines_are_followed() {
        for (language, code, open) in [
            ("python", "s = \"\"\"\nx", true),
            ("python", "s = \"\"\"\nx\\\"\"\"", true),
            ("python", "s = \"\"\"\nx\n\"\"\"", false),
            ("python", "s = '\"\"\"' # '''", false),
            ("python", "s = f'''a\n\"\"\"", true),
            ("python", "it = \"it's\"", false),
            ("python", "s = 'torn", false),
            ("python", "%%writefile a.md\n```python", true),
            ("java", "var s = \"\"\"\n# x", true),
            ("java", "// don't \"\"\"", false),
            ("r", "x <- \"a\nb", true),
            ("r", "x <- \"a\nb\\\"c\"", false),
            ("r", "x <- r\"---(a\n)\" b", true),
            ("r", "x <- r\"---(a\n)---\" # don't", false),
            ("bash", "cat > a.md <<'EOF'\nit's", true),
            ("bash", "cat > a.md <<-EOF\nit's\n\tEOF", false),
            ("bash", "echo \"a # b", true),
            ("bash", "echo a # don't", false),
            ("bash", "grep x <<< 'y'", false),
            ("md", "# T\n```python\nx", true),
            ("md", "# T\n```python\n```", false),
        ] {
            let mut strings = Strings::of(language);
            for (at, line) in code.split('\n').enumerate() {
                strings.take(line, at == 0);
            }
            assert_eq!(strings.is_open(), open, "{language}: {code}");
        }
    }
}
