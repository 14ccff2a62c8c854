//! What Tab and Enter mean in a question: commands and files are completed, a line that ends in `\` goes on.

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::cli::line::COMMANDS;

/// Completes the names of commands and files.
#[derive(Default)]
pub(super) struct Completion {
    files: FilenameCompleter,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or(line);
        let commands = commands(before);
        if !commands.is_empty() {
            return Ok((0, commands));
        }
        let is_code = before.starts_with('!') || before.starts_with("%%");
        if is_code && !is_in_quotes(before) {
            return Ok((at, Vec::new()));
        }
        self.files.complete_path(line, at)
    }
}

/// The commands that begin so. With a second slash it is a path.
fn commands(before: &str) -> Vec<Pair> {
    let matching = COMMANDS
        .iter()
        .filter(|name| before.starts_with('/') && name.starts_with(before));
    let pair = |name: &&str| Pair {
        display: (*name).to_owned(),
        replacement: format!("{name} "),
    };
    matching.map(pair).collect()
}

/// In code only what is quoted can be a file.
fn is_in_quotes(code: &str) -> bool {
    let mut open = None;
    for c in code.chars() {
        match open {
            None if matches!(c, '"' | '\'') => open = Some(c),
            Some(quote) if quote == c => open = None,
            _ => {}
        }
    }
    open.is_some()
}

impl Validator for Completion {
    fn validate(&self, line: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if line.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed_and_paths_are_none() {
        let names = |before| -> Vec<String> {
            let found = commands(before);
            found.into_iter().map(|pair| pair.replacement).collect()
        };
        assert_eq!(names("/un"), ["/undo "]);
        assert_eq!(names("/comp"), ["/compact "]);
        assert!(names("/home/x").is_empty());
        assert!(names("/nosuch").is_empty());
        assert!(names("").is_empty());
        assert!(names("what is in /un").is_empty());
    }

    #[test]
    fn code_has_files_only_in_quotes() {
        for (code, expected) in [
            ("!pd.read_csv('da", true),
            ("!pd.read_csv(\"it's", true),
            ("!pd.read_csv('a')", false),
            ("!x = 1", false),
        ] {
            assert_eq!(is_in_quotes(code), expected, "{code}");
        }
    }
}
