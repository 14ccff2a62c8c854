//! What Tab and Enter do in a question. Tab completes commands, files, kernels and code. A line continues if it ends
//! in `\`, or has code that the kernel reports as incomplete.

use std::path::Path;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::kernel::KernelLines;
use crate::app::nearby;
use crate::cli::line::commands as known_commands;
use crate::cli::pick::pick_from;
use crate::cli::{eprint, filter};

/// How many candidates are shown.
const SHOWN: usize = 200;

/// Completes the names of commands and files, and code.
pub(super) struct Completion {
    files: FilenameCompleter,
    kernels: Option<KernelLines>,
}

impl Completion {
    pub(super) fn new(kernels: Option<KernelLines>) -> Self {
        Self {
            files: FilenameCompleter::new(),
            kernels,
        }
    }

    /// The kernel's completions at the end of `before`.
    fn code(&self, before: &str) -> (usize, Vec<Pair>) {
        let none = (before.len(), Vec::new());
        let (Some(kernels), Some((language, code))) = (&self.kernels, code_of(before)) else {
            return none;
        };
        let found = kernels.complete(language, code);
        let start = code
            .char_indices()
            .nth(found.start)
            .map_or(code.len(), |(at, _)| at);
        let pair = |text: &String| {
            let text = filter::plain(text);
            Pair {
                display: text.clone(),
                replacement: text,
            }
        };
        let pairs = found.matches.iter().take(SHOWN).map(pair).collect();
        (before.len() - code.len() + start, pairs)
    }

    /// The possible arguments of the command in `before`.
    fn argument(&self, before: &str) -> Option<(usize, Vec<Pair>)> {
        let (begin, values) = self.kernels.as_ref()?.choices.of_argument(before)?;
        let pair = |value: String| Pair {
            display: filter::plain(&value),
            replacement: filter::plain(&value),
        };
        Some((begin, values.into_iter().map(pair).collect()))
    }
}

/// The file that a person picks for the `@` word at the end of `before`; `None` if there is no such word.
fn named_file(before: &str) -> Option<(usize, Vec<Pair>)> {
    let start = before.rfind(char::is_whitespace).map_or(0, |at| {
        at + before
            .get(at..)
            .and_then(|it| it.chars().next())
            .map_or(1, char::len_utf8)
    });
    let typed = before.get(start..)?.strip_prefix('@')?;
    if code_of(before).is_some() {
        return None;
    }
    let files = nearby::files(Path::new("."));
    let is_exact = |file: &&String| file.as_str() == typed;
    let picked = match files.iter().find(is_exact) {
        Some(file) => Some(file),
        None if files.is_empty() => None,
        None => {
            // The list is shown below the input, and removed again.
            eprint("\r\n");
            let picked = pick_from(PICKS, &files, typed);
            eprint("\u{1b}[A");
            picked.and_then(|number| files.get(number))
        }
    };
    let pairs = picked.map(|file| {
        // Names that a sentence would cut are quoted, which the session understands.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+');
        let named = if file.chars().all(is_word) {
            format!("@{file} ")
        } else {
            format!("@\"{file}\" ")
        };
        Pair {
            display: filter::plain(file),
            replacement: filter::plain(&named),
        }
    });
    Some((start, pairs.into_iter().collect()))
}

const PICKS: &str = "Which file? Type to search, arrows and Enter to pick, Esc for none";

/// The code in a line, and its language if that is not the main kernel's.
fn code_of(line: &str) -> Option<(Option<&str>, &str)> {
    if let Some(code) = line.strip_prefix('!') {
        return Some((None, code));
    }
    let (language, code) = line.strip_prefix("%%")?.split_once(char::is_whitespace)?;
    Some((Some(language), code))
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
        if let Some(values) = self.argument(before) {
            return Ok(values);
        }
        if let Some(found) = named_file(before) {
            return Ok(found);
        }
        if code_of(before).is_some() && !is_in_quotes(before) {
            return Ok(self.code(before));
        }
        self.files.complete_path(line, at)
    }
}

/// The commands with this prefix. With a second slash it is a path.
fn commands(before: &str) -> Vec<Pair> {
    let is_one = |name: &&str| before.starts_with('/') && name.starts_with(before);
    let pair = |name: &str| Pair {
        display: name.to_owned(),
        replacement: format!("{name} "),
    };
    known_commands()
        .into_iter()
        .filter(is_one)
        .map(pair)
        .collect()
}

/// In code, only quoted text can be a file name.
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
        let goes_on = |(language, code): (Option<&str>, &str)| {
            let kernels = self.kernels.as_ref();
            kernels.is_some_and(|kernels| kernels.is_incomplete(language, code))
        };
        let input = line.input();
        Ok(
            if input.ends_with('\\') || code_of(input).is_some_and(goes_on) {
                ValidationResult::Incomplete
            } else {
                ValidationResult::Valid(None)
            },
        )
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
