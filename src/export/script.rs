//! A notebook as a script in percent format: `# %%` before each cell, text and code that must not run as comments.
//!
//! Invariant: a comment stays a comment in the script's language. Languages differ in which characters end a line; each
//! of these ends a comment here, and the next line gets its own comment marker.

use super::cells::{self, Fate, Part, part};
use crate::jupyter::nbformat::Notebook;
use crate::session::notebook::foreign;

/// The script.
pub(super) fn script(notebook: &Notebook) -> String {
    let language = cells::language(notebook);
    let comment = comment_of(&language);
    // These languages read `\u000a` as a line end, even in comments.
    let has_escapes = matches!(&*language, "java" | "scala" | "groovy");
    let mut parts = Vec::new();
    for cell in &notebook.cells {
        let lines = |text: &str| -> String {
            let lines = lines(text).map(|line| commented(&line, comment) + "\n");
            let lines: String = lines.collect();
            if has_escapes {
                lines.replace("\\u", "\\ u")
            } else {
                lines
            }
        };
        parts.push(match part(cell) {
            Part::Code(_) if let Some(other) = foreign(cell) => {
                let language: String = other.language.chars().filter(|c| !c.is_control()).collect();
                let language = language.replace(is_break, " ");
                format!(
                    "{comment} %% language=\"{language}\"\n{}",
                    lines(&cell.source)
                )
            }
            Part::Code(Fate::Declined) => {
                format!("{comment} %% declined, not run\n{}", lines(&cell.source))
            }
            Part::Code(Fate::NotRun) if cells::is_skipped(cell) => {
                format!("{comment} %% not run\n{}", lines(&cell.source))
            }
            Part::Code(_) => {
                let code = without_magics(cell.source.trim_end(), &language);
                format!("{comment} %%\n{code}\n")
            }
            Part::Note => format!("{comment} %% [markdown]\n{}", lines(cells::note_text(cell))),
            Part::CutOff => format!("{comment} %% [markdown] cut off\n{}", lines(&cell.source)),
            Part::Question | Part::Answer | Part::Text => {
                format!("{comment} %% [markdown]\n{}", lines(&cell.source))
            }
            Part::Broken | Part::Raw => format!("{comment} %% [raw]\n{}", lines(&cell.source)),
        });
    }
    let script = parts.join("\n");
    // In the first two lines a comment can declare Python's source encoding.
    match script.split_once('\n') {
        Some((first, rest)) if rest.lines().next().is_some_and(|it| it.contains("coding")) => {
            format!("{first}\n{comment}\n{rest}")
        }
        _ => script,
    }
}

/// One line as a comment.
fn commented(line: &str, comment: &str) -> String {
    format!("{comment} {line}").trim_end().to_owned()
}

/// The lines, split at every character that ends a line in some language.
fn lines(text: &str) -> std::vec::IntoIter<String> {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<String> = text.split_terminator(is_break).map(str::to_owned).collect();
    lines.into_iter()
}

/// Whether a character ends a line in some language: JavaScript has U+2028 and U+2029, C# also U+0085.
fn is_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// The line comment marker of a language.
fn comment_of(language: &str) -> &'static str {
    match language {
        "javascript" | "typescript" | "java" | "rust" | "c++" | "c" | "go" | "scala" | "kotlin"
        | "c#" | "f#" | "swift" | "dart" | "groovy" => "//",
        "sql" | "haskell" | "lua" => "--",
        "matlab" | "prolog" => "%",
        _ => "#",
    }
}

/// Comments out IPython syntax, as jupytext does: `# %matplotlib inline`.
fn without_magics(code: &str, language: &str) -> String {
    if language != "python" && language != "ipython" {
        return code.to_owned();
    }
    let all = |text: &str| {
        let lines = lines(text).map(|line| commented(&line, "#"));
        lines.collect::<Vec<_>>().join("\n")
    };
    if code.trim_start().starts_with("%%") {
        return all(code);
    }
    // Inside a multi-line string such a line is not a magic.
    let mut quotes = None;
    let lines = code.lines().map(|line| {
        let inside = quotes.is_some();
        for mark in ["\"\"\"", "'''"] {
            for _ in line.matches(mark) {
                quotes = match quotes {
                    None => Some(mark),
                    Some(open) if open == mark => None,
                    open => open,
                };
            }
        }
        let is_magic = !inside && is_magic(line);
        if is_magic { all(line) } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `%name ..`, `!command`, `?name`, `name?`. An indented one would leave its block empty, so it stays and Python
/// reports it.
fn is_magic(line: &str) -> bool {
    let word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match line.chars().next() {
        Some('%') => word(line.trim_start_matches('%')),
        Some('!' | '?') => true,
        Some(_) => {
            let name = line.trim_end().trim_end_matches('?');
            name.len() < line.trim_end().len()
                && name
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jupyter::nbformat::Cell;

    #[test]
    fn a_script_runs_what_ran() {
        let mut notebook = Notebook::new();
        let mut skipped = Cell::code("c", "rm()");
        skipped
            .metadata
            .insert("tags".to_owned(), json!(["skip-execution"]));
        let mut declined = skipped.clone();
        declined.metadata.insert(
            "sponde".to_owned(),
            json!({"role": "assistant", "status": "declined"}),
        );
        notebook.cells = vec![
            Cell::markdown("a", "# Title\n\ntext"),
            Cell::code(
                "b",
                "%matplotlib inline\nx = '''\n%s\n''' % 1\n!ls\ndf?\nprint('hi')\n",
            ),
            skipped,
            declined,
            Cell::code("d", "%%time\nf()"),
        ];
        assert_eq!(
            script(&notebook),
            "# %% [markdown]\n# # Title\n#\n# text\n\n\
             # %%\n# %matplotlib inline\nx = '''\n%s\n''' % 1\n# !ls\n# df?\nprint('hi')\n\n\
             # %% not run\n# rm()\n\n\
             # %% declined, not run\n# rm()\n\n\
             # %%\n# %%time\n# f()\n"
        );
    }

    #[test]
    fn no_line_break_makes_a_comment_code() {
        let mut declined = Cell::code(
            "a",
            "x\rrm(1)\r\nrm(2)\u{2028}rm(3)\u{2029}rm(4)\u{85}rm(5)\u{c}rm(6)\u{b}rm(7) \\u000a rm(8)",
        );
        let ours = |metadata| serde_json::Map::from_iter([("sponde".to_owned(), metadata)]);
        declined.metadata = ours(json!({"role": "assistant", "status": "declined"}));
        let mut other = Cell::code("b", "ls\rrm()");
        other.metadata = ours(json!({"status": "ok", "language": "bash\"\nrm()\u{2028}rm()"}));
        let magic = Cell::code("c", "%%bash\rrm()");
        let mut notebook = Notebook::new();
        notebook.cells = vec![declined, other, magic];
        for (language, mark) in [("python", "#"), ("javascript", "//"), ("java", "//")] {
            notebook
                .metadata
                .insert("language_info".to_owned(), json!({"name": language}));
            if language != "python" {
                notebook.cells.truncate(2);
            }
            let script = script(&notebook);
            for line in script.split(is_break).filter(|line| !line.is_empty()) {
                assert!(line.starts_with(mark), "{language}: {line:?}");
            }
            assert!(
                language != "java" || !script.contains("\\u000a"),
                "{script}"
            );
        }
    }

    #[test]
    fn text_does_not_say_how_the_script_is_read() {
        let mut notebook = Notebook::new();
        notebook.cells = vec![Cell::markdown("a", "coding: utf-7\n+AAo-rm()")];
        assert_eq!(
            script(&notebook),
            "# %% [markdown]\n#\n# coding: utf-7\n# +AAo-rm()\n"
        );
    }

    #[test]
    fn each_language_has_its_comments() {
        let mut notebook = Notebook::new();
        notebook.cells = vec![Cell::markdown("a", "text"), Cell::code("b", "%x")];
        for (language, mark) in [("R", "#"), ("javascript", "//"), ("sql", "--")] {
            notebook
                .metadata
                .insert("language_info".to_owned(), json!({"name": language}));
            assert_eq!(
                script(&notebook),
                format!("{mark} %% [markdown]\n{mark} text\n\n{mark} %%\n%x\n")
            );
        }
    }
}
