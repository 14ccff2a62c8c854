//! Findings in SQL: statements that write files or change a database, remote files, extensions.
//!
//! Found by keywords outside strings and comments, because no grammar covers all dialects. `%%sql --in NAME` uses a
//! configured database; otherwise DuckDB runs the code, and tables it creates exist only for the cell.

use super::finding::FindingKind;
use super::sink::{Sink, Writing};

/// Keywords of statements that change something.
const CHANGES: [&str; 15] = [
    "alter", "call", "comment", "create", "delete", "do", "drop", "grant", "insert", "merge",
    "replace", "revoke", "truncate", "update", "vacuum",
];
/// URL prefixes.
const REMOTE: [&str; 9] = [
    "http://", "https://", "s3://", "gs://", "gcs://", "r2://", "az://", "abfss://", "hf://",
];

/// Reads SQL; a first line that begins with `--` holds the magic's arguments.
pub(super) fn script(code: &str, sink: &mut Sink<'_>) {
    if !sink.may_read(code.len()) {
        return;
    }
    let arguments = code.lines().next().and_then(|line| line.strip_prefix("--"));
    // A SQL kernel may be connected to any database.
    let is_in_database =
        arguments.is_none_or(|it| it.split_whitespace().any(|word| word == "--in"));
    let tokens = tokens(code);
    let words = |at: usize| match tokens.get(at) {
        Some((_, Token::Word(word))) => word.as_str(),
        _ => "",
    };
    let mut begins = true;
    for (at, (place, token)) in tokens.iter().enumerate() {
        match token {
            Token::Text(text)
                if REMOTE
                    .iter()
                    .any(|start| text.to_lowercase().starts_with(start)) =>
            {
                sink.on_line(*place, code, |sink| {
                    sink.whole(FindingKind::Network, "reads or writes a URL");
                });
            }
            Token::Text(text) => {
                let before = words(at.wrapping_sub(1));
                if matches!(before, "to" | "attach")
                    || before == "database" && words(at.wrapping_sub(2)) == "attach"
                {
                    sink.on_line(*place, code, |sink| {
                        sink.write_by_magic(text, Writing::Replace);
                    });
                }
            }
            Token::Word(word) => {
                let in_with = words(at.wrapping_sub(1)) == "as"
                    || at > 0 && matches!(tokens.get(at - 1), Some((_, Token::Mark('('))));
                if is_in_database && (begins || in_with) && CHANGES.contains(&word.as_str()) {
                    sink.on_line(*place, code, |sink| {
                        sink.whole(FindingKind::Database, FindingKind::Database.words());
                    });
                }
                if begins && matches!(word.as_str(), "install" | "load") {
                    sink.on_line(*place, code, |sink| {
                        sink.whole(FindingKind::Install, "loads an extension of DuckDB");
                    });
                }
            }
            Token::Mark(_) => {}
        }
        begins = matches!(token, Token::Mark(';'));
    }
}

enum Token {
    /// In lower case.
    Word(String),
    /// In single quotes.
    Text(String),
    Mark(char),
}

/// The tokens, each with its line, from 0, and the byte offset of that line.
fn tokens(code: &str) -> Vec<((usize, usize), Token)> {
    let mut tokens = Vec::new();
    let mut rest = code;
    let mut place = (0, 0);
    while let Some(first) = rest.chars().next() {
        let length = if let Some(comment) = rest.strip_prefix("--") {
            2 + comment.find('\n').unwrap_or(comment.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            2 + comment.find("*/").map_or(comment.len(), |at| at + 2)
        } else if first == '\'' {
            let (text, length) = quoted(rest, '\'');
            tokens.push((place, Token::Text(text)));
            length
        } else if first == '"' {
            quoted(rest, '"').1
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or_default().to_lowercase();
            tokens.push((place, Token::Word(word)));
            end
        } else {
            if !first.is_whitespace() {
                tokens.push((place, Token::Mark(first)));
            }
            first.len_utf8()
        };
        let read = code.len() - rest.len();
        let taken = rest.get(..length).unwrap_or(rest);
        for (at, _) in taken.match_indices('\n') {
            place = (place.0 + 1, read + at + 1);
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

/// The quoted text at the start of `text`, where a doubled quote stands for one, and its length with quotes.
fn quoted(text: &str, mark: char) -> (String, usize) {
    let mut inside = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != mark {
            inside.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == mark) {
            inside.push(c);
            chars.next();
        } else {
            return (inside, at + 1);
        }
    }
    (inside, text.len())
}
