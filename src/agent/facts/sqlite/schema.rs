//! The columns that a `CREATE TABLE` names.

/// A table as its statement makes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Schema {
    pub(super) columns: Vec<Declared>,
    pub(super) without_rowid: bool,
}

/// A column.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) name: String,
    /// Its type, as it was written; may be empty.
    pub(super) kind: String,
    /// It stands for the number of the row.
    pub(super) is_rowid: bool,
}

/// What ends a column's type ("CREATE TABLE", column-constraint).
const CONSTRAINTS: [&str; 10] = [
    "CONSTRAINT",
    "PRIMARY",
    "NOT",
    "NULL",
    "UNIQUE",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "REFERENCES",
    "GENERATED",
];
/// What begins a part that is no column.
const TABLE_CONSTRAINTS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Text,
    Mark(char),
}

impl Schema {
    /// That of a statement.
    pub(super) fn of(sql: &str) -> Self {
        let tokens = tokens(sql);
        let Some(open) = tokens.iter().position(|it| *it == Token::Mark('(')) else {
            return Self::default();
        };
        let mut parts: Vec<Vec<&Token>> = vec![Vec::new()];
        let mut depth = 0_usize;
        let mut end = tokens.len();
        for (at, token) in tokens.iter().enumerate().skip(open) {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                end = at;
                break;
            }
            match token {
                Token::Mark(',') if depth == 1 => parts.push(Vec::new()),
                _ if at > open => parts.last_mut().into_iter().for_each(|it| it.push(token)),
                _ => {}
            }
        }
        let after = tokens.get(end..).unwrap_or_default();
        let without_rowid = after
            .windows(2)
            .any(|it| is(&it[..1], "WITHOUT") && is(&it[1..], "ROWID"));
        let mut columns: Vec<Declared> = parts.iter().filter_map(|part| column(part)).collect();
        // The key may stand behind the columns.
        for part in &parts {
            let words: Vec<Token> = part.iter().map(|it| (*it).clone()).collect();
            let key = words
                .iter()
                .position(|it| is(std::slice::from_ref(it), "PRIMARY"));
            let starts = words.first().is_some_and(
                |it| matches!(it, Token::Word(word) if is_one_of(word, &TABLE_CONSTRAINTS)),
            );
            let (Some(key), true) = (key, starts) else {
                continue;
            };
            let names: Vec<&str> = words.iter().skip(key + 2).filter_map(name_of).collect();
            if let [only] = names.as_slice() {
                let column = columns
                    .iter_mut()
                    .find(|it| it.name.eq_ignore_ascii_case(only));
                if let Some(column) = column.filter(|it| it.kind.eq_ignore_ascii_case("integer")) {
                    column.is_rowid = true;
                }
            }
        }
        Self {
            columns,
            without_rowid,
        }
    }
}

fn column(part: &[&Token]) -> Option<Declared> {
    let (first, rest) = part.split_first()?;
    if let Token::Word(word) = first
        && is_one_of(word, &TABLE_CONSTRAINTS)
    {
        return None;
    }
    let name = name_of(first)?.to_owned();
    let ends = |token: &&&Token| match token {
        Token::Word(word) => is_one_of(word, &CONSTRAINTS) || word.eq_ignore_ascii_case("AS"),
        Token::Quoted(_) | Token::Text | Token::Mark(_) => false,
    };
    let mut declared = String::new();
    for token in rest.iter().take_while(|it| !ends(it)) {
        match token {
            Token::Word(word) | Token::Quoted(word) => {
                if !declared.is_empty() && !declared.ends_with('(') {
                    declared.push(' ');
                }
                declared.push_str(word);
            }
            Token::Mark(mark) => declared.push(*mark),
            Token::Text => {}
        }
    }
    let key = rest
        .iter()
        .any(|it| matches!(it, Token::Word(word) if word.eq_ignore_ascii_case("PRIMARY")));
    Some(Declared {
        is_rowid: key && declared.eq_ignore_ascii_case("integer"),
        name,
        kind: declared,
    })
}

fn name_of(token: &Token) -> Option<&str> {
    match token {
        Token::Word(name) | Token::Quoted(name) => Some(name),
        Token::Text | Token::Mark(_) => None,
    }
}

fn is(tokens: &[Token], word: &str) -> bool {
    matches!(tokens, [Token::Word(it)] if it.eq_ignore_ascii_case(word))
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|it| it.eq_ignore_ascii_case(word))
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql.chars().peekable();
    while let Some(first) = rest.next() {
        match first {
            '"' | '`' | '[' | '\'' => {
                let close = if first == '[' { ']' } else { first };
                let mut name = String::new();
                while let Some(c) = rest.next() {
                    if c == close {
                        // Doubled, it stands for itself.
                        if first == '[' || rest.peek() != Some(&close) {
                            break;
                        }
                        rest.next();
                    }
                    name.push(c);
                }
                // SQLite takes a name in single quotes too; a default is one more often.
                let is_name =
                    first != '\'' || matches!(tokens.last(), Some(Token::Mark('(' | ',')));
                tokens.push(if is_name {
                    Token::Quoted(name)
                } else {
                    Token::Text
                });
            }
            '-' if rest.peek() == Some(&'-') => while rest.next().is_some_and(|c| c != '\n') {},
            '/' if rest.peek() == Some(&'*') => {
                let mut before = ' ';
                rest.next();
                for c in rest.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            c if c.is_whitespace() => {}
            c if c.is_alphanumeric() || c == '_' || c == '$' => {
                let mut word = c.to_string();
                while let Some(&c) = rest.peek() {
                    if !(c.is_alphanumeric() || c == '_' || c == '$') {
                        break;
                    }
                    word.push(c);
                    rest.next();
                }
                tokens.push(Token::Word(word));
            }
            c => tokens.push(Token::Mark(c)),
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(sql: &str) -> Vec<(String, String, bool)> {
        let schema = Schema::of(sql);
        (schema.columns.into_iter())
            .map(|it| (it.name, it.kind, it.is_rowid))
            .collect()
    }

    #[test]
    fn columns_are_read_from_their_statement() {
        for (sql, expected) in [
            (
                "CREATE TABLE t (id INTEGER PRIMARY KEY, \"a, b\" TEXT NOT NULL DEFAULT 'x, y', [c d] DECIMAL(10, 2) CHECK (c > 0), e)",
                vec![
                    ("id", "INTEGER", true),
                    ("a, b", "TEXT", false),
                    ("c d", "DECIMAL(10, 2)", false),
                    ("e", "", false),
                ],
            ),
            (
                "CREATE TABLE x(a int, -- one, two\n b text /* , c */, PRIMARY KEY (a), FOREIGN KEY (b) REFERENCES t(id))",
                vec![("a", "int", false), ("b", "text", false)],
            ),
            (
                "CREATE TABLE y (n INTEGER, m, CONSTRAINT k PRIMARY KEY (n))",
                vec![("n", "INTEGER", true), ("m", "", false)],
            ),
            ("CREATE TABLE z (", vec![]),
            ("", vec![]),
        ] {
            let expected: Vec<_> = (expected.into_iter())
                .map(|(name, kind, key)| (name.to_owned(), kind.to_owned(), key))
                .collect();
            assert_eq!(columns(sql), expected, "{sql}");
        }
        assert!(Schema::of("CREATE TABLE w (a PRIMARY KEY) WITHOUT ROWID").without_rowid);
    }
}
