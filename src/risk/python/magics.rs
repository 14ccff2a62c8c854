//! IPython syntax: `%magics`, `!commands`, help and calls without parentheses.
//!
//! It is removed from the code, which keeps its line numbers, and returned as values. Statement starts are found by
//! tracking strings, brackets and continued lines, as IPython does with tokens.

/// Something that is not Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Magic {
    /// Its line, from 0.
    pub(super) line: usize,
    /// What it is.
    pub(super) kind: MagicKind,
}

/// The kind of a line or cell that is not Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MagicKind {
    /// A shell command in a line.
    Command(String),
    /// The body of a cell: language and code.
    Cell(String, String),
    /// Code in a line: language and code.
    Line(String, String),
    /// Writes a file with this content.
    Write(String),
    /// Runs another file.
    Run,
    /// Calls a function without parentheses.
    Call,
}

/// Line magics that run their argument as Python.
const PYTHON: &[&str] = &[
    "time",
    "timeit",
    "prun",
    "memit",
    "mprun",
    "lprun",
    "debug",
    "capture",
    "python",
    "python2",
    "python3",
    "pypy",
    "px",
    "autopx",
    "cython",
    "scalene",
    "pyinstrument",
];
/// Line magics that are shell commands themselves.
const COMMANDS: &[&str] = &[
    "pip",
    "conda",
    "mamba",
    "micromamba",
    "uv",
    "rm",
    "rmdir",
    "mv",
    "cp",
    "mkdir",
    "cat",
    "less",
    "more",
    "man",
    "ls",
    "ll",
    "lf",
    "lk",
    "ldir",
    "lx",
];
/// Those that also work without the `%`.
const BARE: &[&str] = &[
    "pip",
    "conda",
    "mamba",
    "micromamba",
    "uv",
    "rm",
    "rmdir",
    "mv",
    "cp",
    "mkdir",
    "sx",
    "system",
    "run",
];
/// Cell magics that run a shell.
const SHELLS: &[&str] = &["bash", "sh", "!", "sx", "system", "script", "zsh"];
/// Cell magics that nothing of ours runs.
const SHOWN: &[&str] = &["html", "HTML", "latex", "markdown", "svg", "SVG"];

/// Splits `code` into Python and the rest.
pub(super) fn split(code: &str) -> (String, Vec<Magic>) {
    let mut lines = Lines {
        plain: String::with_capacity(code.len()),
        magics: Vec::new(),
        lexer: Lexer::default(),
    };
    let mut rest = code;
    let mut line = 0;
    let mut seen_code = false;
    while !rest.is_empty() {
        if lines.lexer.is_at_start() {
            let (text, _) = cut(rest);
            let trimmed = text.trim();
            if !seen_code && trimmed.starts_with("%%") {
                lines.cell(rest, line);
                break;
            }
            seen_code |= !trimmed.is_empty();
            let (long, after) = continued(rest);
            if lines.take(long, line) {
                line += long.matches('\n').count();
                rest = after;
                continue;
            }
        }
        let (text, after) = cut(rest);
        lines.lexer.read(text);
        lines.plain.push_str(text);
        line += 1;
        rest = after;
    }
    (lines.plain, lines.magics)
}

/// The first line with its line end, and the rest.
fn cut(code: &str) -> (&str, &str) {
    code.split_at(code.find('\n').map_or(code.len(), |at| at + 1))
}

/// The same, with the lines joined by backslashes.
fn continued(code: &str) -> (&str, &str) {
    let mut end = 0;
    loop {
        let (line, after) = cut(code.get(end..).unwrap_or_default());
        end += line.len();
        if !line.trim_end_matches(['\n', '\r']).ends_with('\\') || after.is_empty() {
            return code.split_at(end);
        }
    }
}

struct Lines {
    plain: String,
    magics: Vec<Magic>,
    lexer: Lexer,
}

impl Lines {
    fn push(&mut self, line: usize, kind: MagicKind) {
        self.magics.push(Magic { line, kind });
    }

    /// Removes a statement that is not Python; returns whether it did.
    fn take(&mut self, text: &str, line: usize) -> bool {
        let indent = text.len() - text.trim_start().len();
        let body = text.trim();
        let Some(first) = body.chars().next() else {
            return false;
        };
        let joined = || body.replace("\\\n", " ");
        match first {
            '!' => {
                let command = joined().trim_start_matches('!').to_owned();
                self.push(line, MagicKind::Command(command));
            }
            '%' if body.len() > 1 => {
                if let Some(python) = self.line_magic(joined().trim_start_matches('%'), line) {
                    if text.trim_end().ends_with(&python) && !python.is_empty() {
                        let tail = text.len() - text.trim_end().len();
                        self.blank(text, python.len() + tail);
                        return true;
                    }
                    self.push(line, MagicKind::Line("python".to_owned(), python));
                }
            }
            '?' => {}
            ',' | ';' | '/' if body[1..].starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                self.push(line, MagicKind::Call);
            }
            _ if is_help(body) => {}
            _ => {
                let Some(at) = assigned(body) else {
                    return self.bare(body, text, line);
                };
                let (_, value) = body.split_at(at);
                if let Some(command) = value.strip_prefix('!') {
                    self.push(line, MagicKind::Command(command.replace("\\\n", " ")));
                } else {
                    let value = value.replace("\\\n", " ");
                    if let Some(python) = self.line_magic(value.trim_start_matches('%'), line) {
                        self.push(line, MagicKind::Line("python".to_owned(), python));
                    }
                }
                let keep = indent + at;
                self.plain.push_str(&text[..keep]);
                self.blank(&text[keep..], 0);
                return true;
            }
        }
        self.blank(text, 0);
        true
    }

    /// A magic without its `%`.
    fn bare(&mut self, body: &str, text: &str, line: usize) -> bool {
        let Some((word, rest)) = body.split_once(char::is_whitespace) else {
            return false;
        };
        let rest = rest.trim();
        let is_one = BARE.contains(&word)
            && !rest.is_empty()
            && !rest.starts_with([
                '=', '(', '.', '[', ',', ':', '+', '*', '/', '<', '>', '|', '&', '^', '@', ';',
            ])
            && !["in ", "is ", "and ", "or ", "not ", "if "]
                .iter()
                .any(|operator| rest.starts_with(operator));
        if is_one {
            self.line_magic(&body.replace("\\\n", " "), line);
            self.blank(text, 0);
        }
        is_one
    }

    /// A line magic without its `%`. Returns its part that is Python.
    fn line_magic(&mut self, text: &str, line: usize) -> Option<String> {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let kind = match name {
            "sx" | "system" | "sc" | "script" => MagicKind::Command(rest.to_owned()),
            "alias" => {
                let command = rest.split_once(char::is_whitespace).map_or("", |it| it.1);
                MagicKind::Command(command.to_owned())
            }
            "run" | "rerun" | "recall" | "rep" | "macro" => MagicKind::Run,
            "writefile" | "file" | "save" | "notebook" | "logstart" => MagicKind::Write(path(rest)),
            "R" | "sql" | "julia" | "octave" => MagicKind::Line(name.to_owned(), rest.to_owned()),
            _ if COMMANDS.contains(&name) => MagicKind::Command(format!("{name} {rest}")),
            _ if PYTHON.contains(&name) => return Some(behind_flags(rest).to_owned()),
            // It only displays or sets something.
            _ => return None,
        };
        self.push(line, kind);
        None
    }

    /// A cell magic and everything below it.
    fn cell(&mut self, code: &str, line: usize) {
        let (head, body) = cut(code);
        let head = head.trim().trim_start_matches("%%");
        let (name, rest) = match head.strip_prefix('!') {
            Some(rest) => ("!", rest),
            None => head.split_once(char::is_whitespace).unwrap_or((head, "")),
        };
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let cell =
            |language: &str, body: &str| MagicKind::Cell(language.to_owned(), body.to_owned());
        if PYTHON.contains(&name) {
            let setup = behind_flags(rest);
            if !setup.is_empty() && name != "capture" {
                let setup = MagicKind::Line("python".to_owned(), setup.to_owned());
                self.push(line, setup);
            }
            self.push(line + 1, cell("python", body));
        } else if name == "script" || name == "bash" || SHELLS.contains(&name) {
            let language = match name {
                "script" => words.iter().find(|word| !word.starts_with('-')),
                _ => None,
            };
            let language = language.map_or("bash", |program| {
                program.rsplit('/').next().unwrap_or(program)
            });
            if name == "!" || name == "sx" || name == "system" {
                self.push(line, MagicKind::Command(rest.to_owned()));
            }
            self.push(line + 1, cell(language, body));
        } else if matches!(name, "writefile" | "file") {
            self.push(line, MagicKind::Write(path(rest)));
        } else if name == "sql" {
            self.push(line, cell("sql", &format!("--{rest}\n{body}")));
        } else if !SHOWN.contains(&name) {
            self.push(line + 1, cell(name, body));
        }
    }

    /// Replaces `text` with spaces, except its last `kept` bytes, which get a no-op statement before them.
    fn blank(&mut self, text: &str, kept: usize) {
        let end = text.len().saturating_sub(kept);
        let start = self.plain.len();
        for (at, c) in text.char_indices() {
            if at >= end || c == '\n' {
                self.plain.push(c);
            } else {
                self.plain.extend(std::iter::repeat_n(' ', c.len_utf8()));
            }
        }
        let indent = text.len() - text.trim_start().len();
        let does_nothing = if kept > 0 { "0;" } else { "0" };
        let at = start + indent;
        if end >= indent + does_nothing.len() {
            self.plain
                .replace_range(at..at + does_nothing.len(), does_nothing);
        }
    }
}

/// The text after a magic's options.
fn behind_flags(rest: &str) -> &str {
    let mut rest = rest.trim();
    while let Some(flag) = rest.strip_prefix('-') {
        let (flag, after) = flag.split_once(char::is_whitespace).unwrap_or((flag, ""));
        rest = after.trim_start();
        // `-n 10` has its number as a separate word, `-n10` does not.
        if flag.len() == 1 && rest.starts_with(|c: char| c.is_ascii_digit()) {
            rest = rest
                .split_once(char::is_whitespace)
                .map_or("", |it| it.1)
                .trim_start();
        }
    }
    rest
}

/// The first argument that is not an option.
fn path(rest: &str) -> String {
    let mut words = rest.split_whitespace();
    let word = words
        .find(|word| !word.starts_with('-'))
        .unwrap_or_default();
    word.trim_matches(['"', '\'']).to_owned()
}

/// `name?`, `?name`.
fn is_help(body: &str) -> bool {
    body.strip_suffix('?').is_some_and(|name| {
        let name = name.trim_end_matches('?');
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_.%*[]'\"()-".contains(c))
    })
}

/// Position of the `!` or `%` in `name = !command`.
fn assigned(body: &str) -> Option<usize> {
    let line = body.lines().next()?;
    let equals = line.find('=')?;
    let (name, value) = (line.get(..equals)?, line.get(equals + 1..)?);
    let is_target = !name.trim().is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "_.,*[] \"'".contains(c));
    let value_at = equals + 1 + (value.len() - value.trim_start().len());
    let value = value.trim_start();
    let is_magic = value
        .strip_prefix('%')
        .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()));
    (is_target && (value.starts_with('!') && !value.starts_with("!=") || is_magic))
        .then_some(value_at)
}

/// Tracks strings, brackets and continued lines.
#[derive(Debug, Default)]
struct Lexer {
    /// The quotes that end the open string.
    string: Option<&'static str>,
    brackets: u32,
    continues: bool,
}

impl Lexer {
    fn is_at_start(&self) -> bool {
        self.string.is_none() && self.brackets == 0 && !self.continues
    }

    /// Reads one line with its line end.
    fn read(&mut self, line: &str) {
        self.continues = false;
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            if let Some(quotes) = self.string {
                if let Some(after) = rest.strip_prefix(quotes) {
                    self.string = None;
                    rest = after;
                    continue;
                }
                rest = &rest[c.len_utf8()..];
                if c == '\\' {
                    let mut chars = rest.chars();
                    chars.next();
                    rest = chars.as_str();
                } else if c == '\n' && quotes.len() == 1 {
                    self.string = None;
                }
                continue;
            }
            match c {
                '#' => return,
                '\\' if rest[1..].trim_end_matches('\r').starts_with('\n')
                    || rest[1..].starts_with("\r\n") =>
                {
                    self.continues = true;
                    return;
                }
                '(' | '[' | '{' => self.brackets += 1,
                ')' | ']' | '}' => self.brackets = self.brackets.saturating_sub(1),
                '"' | '\'' => {
                    let quotes = ["\"\"\"", "'''", "\"", "'"];
                    let quotes = quotes.into_iter().find(|quotes| rest.starts_with(quotes));
                    self.string = quotes;
                    rest = &rest[quotes.map_or(1, str::len)..];
                    continue;
                }
                _ => {}
            }
            rest = &rest[c.len_utf8()..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(code: &str) -> Vec<(usize, String)> {
        let (plain, magics) = split(code);
        assert_eq!(
            plain.matches('\n').count(),
            if magics
                .iter()
                .any(|it| matches!(it.kind, MagicKind::Cell(..)))
            {
                0
            } else {
                code.matches('\n').count()
            },
            "{plain:?}"
        );
        magics
            .into_iter()
            .filter_map(|magic| match magic.kind {
                MagicKind::Command(command) => Some((magic.line, command)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn only_statements_are_magics() {
        let code = "x = '''\n!rm a\n'''\ny = (1\n% 2)\nz = 1 \\\n % 2\n!ls 'a\nw = \"%pip\"\nfiles = !ls -l\n";
        assert_eq!(
            commands(code),
            [(7, "ls 'a".to_owned()), (9, "ls -l".to_owned())]
        );
        let (plain, _) = split(code);
        assert!(plain.contains("files = 0"), "{plain}");
        assert!(plain.contains("\n!rm a\n"), "{plain}");
    }

    #[test]
    fn what_stays_is_python_at_its_place() {
        for (code, plain) in [
            ("%time x = 1\ny = 2\n", "0;    x = 1\ny = 2\n"),
            ("%timeit -n 10 f(x)\n", "0;            f(x)\n"),
            ("if x:\n    !ls\n    y = 1\n", "if x:\n    0  \n    y = 1\n"),
            ("df.head?\n", "0       \n"),
            ("%matplotlib inline\nx", "0                 \nx"),
            ("!ls \\\n  -l\nx", "0    \n    \nx"),
        ] {
            assert_eq!(split(code).0, plain, "{code}");
        }
    }

    #[test]
    fn a_percent_sign_may_be_missing() {
        assert_eq!(
            commands("pip install x\n"),
            [(0, "pip install x".to_owned())]
        );
        assert_eq!(commands("rm -rf out\n"), [(0, "rm -rf out".to_owned())]);
        for code in [
            "rm = 1\n",
            "pip (1)\n",
            "cp in x\n",
            "run += 1\n",
            "# rm x\n",
        ] {
            assert_eq!(commands(code), [], "{code}");
        }
    }

    #[test]
    fn a_cell_belongs_to_its_first_line() {
        for (code, language, body) in [
            ("%%bash\nrm x\n", "bash", "rm x\n"),
            ("\n%%script perl -w\nunlink 1\n", "perl", "unlink 1\n"),
            ("%%time\nx = 1\n", "python", "x = 1\n"),
            (
                "%%sql x --in y\nDROP TABLE x",
                "sql",
                "--x --in y\nDROP TABLE x",
            ),
        ] {
            let (_, magics) = split(code);
            let kind = MagicKind::Cell(language.to_owned(), body.to_owned());
            assert_eq!(magics.last().unwrap().kind, kind, "{code}");
        }
    }
}
