//! SQL in a Python kernel: a cell that begins with `%%sql` (docs/sql.md, docs/adr/0025).
//!
//! Sponde defines the magic in kernels it starts. Other kernels lack it, so the notebook's first SQL cell is preceded
//! by a cell that defines a simpler one if the magic is missing. That cell is part of the transcript, but is neither
//! displayed nor sent to the model.

/// The cell that lets SQL cells run in any kernel.
pub const SETUP: &str = include_str!("sql/notebook.py");

/// The magic for Sponde's own kernels.
pub const MAGIC: &str = include_str!("sql/magic.py");

/// The language's name, for people and models.
pub const LANGUAGE: &str = "sql";

/// Prefix of a SQL cell.
const BEGINS: &str = "%%sql";

/// Whether this cell runs as SQL.
pub fn is_cell(source: &str) -> bool {
    let rest = source.trim_start().strip_prefix(BEGINS);
    rest.is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

/// Whether this is the cell that defines SQL cells.
pub fn is_setup(source: &str) -> bool {
    let line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    line(source) == line(SETUP)
}

/// SQL that a person typed after `%%sql`, with or without the magic's arguments in its first line.
pub fn typed(code: &str) -> String {
    const STATEMENTS: [&str; 12] = [
        "select", "with", "from", "values", "explain", "show", "describe", "create", "copy",
        "insert", "update", "delete",
    ];
    let is_name = |word: &str| {
        word.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !STATEMENTS.contains(&word.to_ascii_lowercase().as_str())
    };
    let is_head = |line: &str| {
        line.split_whitespace()
            .all(|word| word == "--in" || is_name(word))
    };
    match code.split_once('\n') {
        Some((first, rest)) if is_head(first) => format!("{BEGINS} {}\n{rest}", first.trim()),
        _ => cell(code),
    }
}

/// Wraps SQL in a Python cell, unless it already is one.
pub fn cell(code: &str) -> String {
    if is_cell(code) {
        return code.trim_start().to_owned();
    }
    format!("{BEGINS}\n{code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_becomes_a_cell_once() {
        assert_eq!(cell("SELECT 1"), "%%sql\nSELECT 1");
        assert_eq!(
            cell("\n%%sql x --in shop\nSELECT 1"),
            "%%sql x --in shop\nSELECT 1"
        );
        for (code, expected) in [
            ("SELECT 1", "%%sql\nSELECT 1"),
            ("x --in shop\nSELECT 1", "%%sql x --in shop\nSELECT 1"),
            ("SELECT\n1", "%%sql\nSELECT\n1"),
            ("SELECT 1,\n2", "%%sql\nSELECT 1,\n2"),
        ] {
            assert_eq!(typed(code), expected);
        }
        assert!(is_cell(&cell("SELECT 1")));
        assert!(!is_cell("%%sqlite\nSELECT 1"));
        assert!(!is_cell("x = '%%sql'"));
        assert!(is_setup(SETUP) && !is_setup(MAGIC) && !is_setup(""));
    }
}
