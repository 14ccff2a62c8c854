//! The scanner. Accepts code in pieces of any size, and emits pieces that no later code can change.

use std::collections::HashMap;

use super::{Look, look_of};

/// The class of a piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Uncoloured code.
    Plain,
    /// A comment.
    Comment,
    /// A string.
    Text,
    /// A number.
    Number,
    /// A keyword.
    Keyword,
    /// A constant such as `None`.
    Value,
    /// The name of a called function.
    Call,
    /// A decorator or a magic.
    Decorator,
}

/// Highlights code that arrives in pieces.
pub(crate) struct Highlighter {
    look: Option<&'static Look>,
    words: HashMap<&'static str, Class>,
    /// The beginning of an undecided token: a few bytes, or a word.
    held: String,
    /// Whether the line has only blanks so far.
    line_start: bool,
    inside: Inside,
}

/// The token that the next piece continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    Run(Run),
    Text { quote: char, triple: bool },
}

/// A token with an end other than a quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// A comment to the end of the line.
    Comment,
    /// `/* .. */`.
    Block,
    /// A magic to the end of the line.
    Magic,
    /// A decorator's name.
    Name,
}

impl Run {
    fn class(self) -> Class {
        match self {
            Self::Comment | Self::Block => Class::Comment,
            Self::Magic | Self::Name => Class::Decorator,
        }
    }

    /// How many bytes of `rest` certainly belong to it, and what follows.
    fn length(self, rest: &str, ends: Ends) -> (usize, Inside) {
        let end = match self {
            Self::Comment | Self::Magic => rest.find('\n'),
            Self::Block => rest.find("*/").map(|at| at + 2),
            Self::Name => rest.find(|c: char| !is_of_name(c)),
        };
        if let Some(end) = end {
            return (end, Inside::Code);
        }
        let may_end = self == Self::Block && ends == Ends::Perhaps && rest.ends_with('*');
        (rest.len() - usize::from(may_end), Inside::Run(self))
    }

    /// Starts with a marker of `mark` bytes.
    fn begin(self, rest: &str, mark: usize, ends: Ends) -> Token {
        let (length, inside) = self.length(rest.get(mark..).unwrap_or_default(), ends);
        Token::Is(self.class(), mark + length, inside)
    }
}

/// The token at the start of code.
enum Token {
    /// This many bytes, and what follows.
    Is(Class, usize, Inside),
    /// This many uncoloured bytes.
    Plain(usize),
    /// Undecided until more code arrives.
    Undecided,
}

impl Highlighter {
    /// A highlighter for this language; an unknown language gets no colours.
    pub(crate) fn new(language: &str) -> Self {
        let look = look_of(language);
        let mut words = HashMap::new();
        if let Some(look) = look {
            let all = |words: &'static str| words.split_whitespace();
            words.extend(all(look.values).map(|word| (word, Class::Value)));
            words.extend(all(look.keywords).map(|word| (word, Class::Keyword)));
        }
        Self {
            look,
            words,
            held: String::new(),
            line_start: true,
            inside: Inside::Code,
        }
    }

    /// Whether the language is known.
    pub(crate) fn knows_language(&self) -> bool {
        self.look.is_some()
    }

    /// Adds code.
    pub(crate) fn push(&mut self, code: &str, give: &mut dyn FnMut(Class, &str)) {
        self.take(code, Ends::Perhaps, give);
    }

    /// Ends the code.
    pub(crate) fn finish(&mut self, give: &mut dyn FnMut(Class, &str)) {
        self.take("", Ends::Here, give);
    }

    fn take(&mut self, code: &str, ends: Ends, give: &mut dyn FnMut(Class, &str)) {
        let Some(look) = self.look else {
            if !code.is_empty() {
                give(Class::Plain, code);
            }
            return;
        };
        let mut joined = std::mem::take(&mut self.held);
        let all = if joined.is_empty() {
            code
        } else {
            joined.push_str(code);
            &joined
        };
        let mut at = 0;
        // Start of uncoloured text that was not emitted yet.
        let mut plain = 0;
        while let Some(rest) = all.get(at..).filter(|rest| !rest.is_empty()) {
            let (class, length) = match self.inside {
                Inside::Code => match self.token(look, rest, ends) {
                    Token::Undecided => break,
                    Token::Plain(length) => {
                        self.moved_over(rest.get(..length).unwrap_or(rest));
                        at += length;
                        continue;
                    }
                    Token::Is(class, length, inside) => {
                        self.inside = inside;
                        (class, length)
                    }
                },
                Inside::Run(run) => {
                    let (length, inside) = run.length(rest, ends);
                    if length == 0 && inside != Inside::Code {
                        break;
                    }
                    self.inside = inside;
                    (run.class(), length)
                }
                Inside::Text { quote, triple } => {
                    let (length, is_over) = text_of(rest, quote, triple, ends);
                    if is_over {
                        self.inside = Inside::Code;
                    } else if length == 0 {
                        break;
                    }
                    (Class::Text, length)
                }
            };
            let (before, after) = (all.get(plain..at), at + length);
            give_some(Class::Plain, before, give);
            give_some(class, all.get(at..after), give);
            self.line_start = false;
            at = after;
            plain = after;
        }
        give_some(Class::Plain, all.get(plain..at), give);
        let held = all.get(at..).unwrap_or_default().to_owned();
        self.held = held;
        if ends == Ends::Here {
            self.inside = Inside::Code;
        }
    }

    fn moved_over(&mut self, plain: &str) {
        for c in plain.chars() {
            self.line_start = c == '\n' || self.line_start && c.is_whitespace();
        }
    }

    /// The token at the start of `rest`.
    fn token(&self, look: &Look, rest: &str, ends: Ends) -> Token {
        let Some(first) = rest.chars().next() else {
            return Token::Undecided;
        };
        let may_go_on = ends == Ends::Perhaps;
        if first == ' ' {
            return Token::Plain(rest.len() - rest.trim_start_matches(' ').len());
        }
        if first.is_alphabetic() || first == '_' {
            return self.word(look, rest, ends);
        }
        if first.is_ascii_digit() {
            let end = |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_');
            return match rest.find(end) {
                None if may_go_on => Token::Undecided,
                end => Token::Is(Class::Number, end.unwrap_or(rest.len()), Inside::Code),
            };
        }
        for mark in look.comments {
            if rest.starts_with(mark) {
                return Run::Comment.begin(rest, mark.len(), ends);
            }
            if may_go_on && mark.starts_with(rest) {
                return Token::Undecided;
            }
        }
        if look.blocks && rest.starts_with("/*") {
            return Run::Block.begin(rest, 2, ends);
        }
        if look.blocks && may_go_on && rest == "/" {
            return Token::Undecided;
        }
        if let Some(quote) = look.quote(first) {
            return opening(rest, 0, quote, look, ends);
        }
        match first {
            '@' if self.line_start => Run::Name.begin(rest, 1, ends),
            '%' | '!' if self.line_start => Run::Magic.begin(rest, 1, ends),
            first => Token::Plain(first.len_utf8()),
        }
    }

    fn word(&self, look: &Look, rest: &str, ends: Ends) -> Token {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let Some(length) = end.or((ends == Ends::Here).then_some(rest.len())) else {
            return Token::Undecided;
        };
        let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let next = after.chars().next();
        if look.triple
            && is_prefix(word)
            && let Some(quote @ ('"' | '\'')) = next
        {
            return opening(rest, length, quote, look, ends);
        }
        let known = self.words.get(word).copied().or_else(|| {
            let lower = look.any_case.then(|| word.to_ascii_lowercase())?;
            self.words.get(&*lower).copied()
        });
        match known {
            Some(class) => Token::Is(class, length, Inside::Code),
            None if next == Some('(') => Token::Is(Class::Call, length, Inside::Code),
            None => Token::Plain(length),
        }
    }
}

/// Whether more code may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Here,
    Perhaps,
}

impl Look {
    /// The quote, if `first` is one in this language.
    fn quote(&self, first: char) -> Option<char> {
        let begins = match first {
            '"' => true,
            '\'' => self.single,
            '`' => self.backtick,
            _ => false,
        };
        begins.then_some(first)
    }
}

fn give_some(class: Class, text: Option<&str>, give: &mut dyn FnMut(Class, &str)) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        give(class, text);
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '@')
}

/// A prefix of a string, as in `f".."`.
fn is_prefix(word: &str) -> bool {
    let fits = |c: char| matches!(c.to_ascii_lowercase(), 'f' | 'r' | 'b' | 'u' | 't');
    word.len() <= 2 && word.chars().all(fits)
}

/// A string that starts after a prefix of `before` bytes, up to its end or as far as is certain.
fn opening(rest: &str, before: usize, quote: char, look: &Look, ends: Ends) -> Token {
    let quotes = rest.get(before..).unwrap_or_default();
    let run = quotes.chars().take_while(|&c| c == quote).count();
    if look.triple && quote != '`' && run < 3 && quotes.len() == run && ends == Ends::Perhaps {
        return Token::Undecided;
    }
    let triple = look.triple && run >= 3;
    let start = before + if triple { 3 } else { 1 };
    let inner = rest.get(start..).unwrap_or_default();
    let (length, is_over) = text_of(inner, quote, triple, ends);
    let inside = if is_over {
        Inside::Code
    } else {
        Inside::Text { quote, triple }
    };
    Token::Is(Class::Text, start + length, inside)
}

/// How many bytes of `rest` belong to a string with this `quote`, and whether it ends there.
fn text_of(rest: &str, quote: char, triple: bool, ends: Ends) -> (usize, bool) {
    let many = triple || quote == '`';
    let may_go_on = ends == Ends::Perhaps;
    let mut at = 0;
    while let Some(after) = rest.get(at..)
        && let Some(c) = after.chars().next()
    {
        if c == quote {
            let run = after.chars().take(3).take_while(|&c| c == quote).count();
            match run {
                _ if !triple => return (at + 1, true),
                3 => return (at + 3, true),
                _ if may_go_on && after.len() == run => return (at, false),
                run => at += run,
            }
            continue;
        }
        match c {
            '\\' => match after.chars().nth(1) {
                None if may_go_on => return (at, false),
                next => at += 1 + next.map_or(0, char::len_utf8),
            },
            // The string is unterminated: end it with the line rather than with the file.
            '\n' if !many => return (at, true),
            c => at += c.len_utf8(),
        }
    }
    (rest.len(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(code: &str, language: &str, size: usize) -> Vec<(Class, String)> {
        let mut all: Vec<(Class, String)> = Vec::new();
        let mut highlighter = Highlighter::new(language);
        let mut give = |class: Class, text: &str| match all.last_mut() {
            Some((last, joined)) if *last == class => joined.push_str(text),
            _ => all.push((class, text.to_owned())),
        };
        let chars: Vec<char> = code.chars().collect();
        for piece in chars.chunks(size) {
            highlighter.push(&piece.iter().collect::<String>(), &mut give);
        }
        highlighter.finish(&mut give);
        all
    }

    #[test]
    fn pieces_of_any_size_have_the_same_colours() {
        for (language, code) in [
            (
                "python",
                "@a.b\ndef f(x):  # why\n  s = rf'{x}\\''+\"\"\"a\"b\n\"\"\"; t = '' + \"\"\n  return None or 1.5e3(2)\n%time x\n",
            ),
            ("js", "/* a * b\n*/ let x = `b\nc` // d\nf(1/2)"),
            ("sql", "Select 'it' -- x\nfrom t - 1"),
            ("r", "x <- `a b` %in% c(TRUE, NA) # é\n"),
            ("python", "'open\nx = 'é\\"),
        ] {
            let whole = pieces(code, language, code.len());
            for size in 1..9 {
                assert_eq!(pieces(code, language, size), whole, "{code} by {size}");
            }
            let text: String = whole.into_iter().map(|(_, text)| text).collect();
            assert_eq!(text, code);
        }
    }
}
