//! A notebook as a script in percent format: `# %%` before each cell, text and what must not run as comments.

use super::cells::{self, Fate, Part, part};
use crate::jupyter::nbformat::Notebook;
use crate::session::notebook::foreign;

/// The script.
pub(super) fn script(notebook: &Notebook) -> String {
    let language = cells::language(notebook);
    let comment = comment_of(&language);
    let mut parts = Vec::new();
    for cell in &notebook.cells {
        let lines = |text: &str| -> String {
            text.lines()
                .map(|line| format!("{comment} {line}").trim_end().to_owned() + "\n")
                .collect()
        };
        parts.push(match part(cell) {
            Part::Code(_) if let Some(other) = foreign(cell) => {
                let language = other.language;
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
    parts.join("\n")
}

/// The mark of a comment to the end of the line.
fn comment_of(language: &str) -> &'static str {
    match language {
        "javascript" | "typescript" | "java" | "rust" | "c++" | "c" | "go" | "scala" | "kotlin" => {
            "//"
        }
        "sql" | "haskell" | "lua" => "--",
        "matlab" | "prolog" => "%",
        _ => "#",
    }
}

/// What only IPython understands becomes a comment, as jupytext has it: `# %matplotlib inline`.
fn without_magics(code: &str, language: &str) -> String {
    if language != "python" && language != "ipython" {
        return code.to_owned();
    }
    let commented = |line: &str| format!("# {line}").trim_end().to_owned();
    if code.trim_start().starts_with("%%") {
        return code.lines().map(commented).collect::<Vec<_>>().join("\n");
    }
    // Where a string goes on, a line that begins with these is none.
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
        if is_magic {
            commented(line)
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `%name ..`, `!command`, `?name`, `name?`. An indented one would leave its block empty: it stays, and Python says so.
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
