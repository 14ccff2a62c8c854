//! Colours for code: strings, comments, numbers, keywords, calls and decorators of the languages that kernels run.
//!
//! A scanner, not a parser: it never fails, an odd line only gets odd colours. What it does not know is plain text, and
//! everything is escaped.

use super::escape::escape_into;

/// How a language looks.
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
struct Look {
    names: &'static [&'static str],
    keywords: &'static str,
    /// Words for values.
    values: &'static str,
    /// Begins a comment to the end of the line.
    comments: &'static [&'static str],
    /// `/* .. */`.
    blocks: bool,
    /// Three quotes begin a string over lines.
    triple: bool,
    /// A backtick begins a string.
    backtick: bool,
    /// `'` begins a string; it does not in Rust.
    single: bool,
    /// Keywords in any case.
    any_case: bool,
}

const C_COMMENT: &[&str] = &["//"];
const HASH: &[&str] = &["#"];

const LOOKS: &[Look] = &[
    Look {
        names: &["python", "py", "ipython", "python3", "ipython3"],
        keywords: "and as assert async await break class continue def del elif else except finally for from global if \
                   import in is lambda match nonlocal not or pass raise return try while with yield case type",
        values: "True False None self cls",
        comments: HASH,
        blocks: false,
        triple: true,
        backtick: false,
        single: true,
        any_case: false,
    },
    Look {
        names: &["r", "rscript"],
        keywords: "if else repeat while function for in next break return library require",
        values: "TRUE FALSE NULL NA Inf NaN T F",
        comments: HASH,
        blocks: false,
        triple: false,
        backtick: true,
        single: true,
        any_case: false,
    },
    Look {
        names: &["javascript", "js", "typescript", "ts", "jsx", "tsx"],
        keywords: "abstract as async await break case catch class const continue debugger default delete do else enum \
                   export extends finally for from function if implements import in instanceof interface let new of \
                   private protected public readonly return static super switch throw try type typeof var void while \
                   with yield",
        values: "true false null undefined this NaN Infinity",
        comments: C_COMMENT,
        blocks: true,
        triple: false,
        backtick: true,
        single: true,
        any_case: false,
    },
    Look {
        names: &["bash", "sh", "shell", "zsh", "shellscript", "console"],
        keywords: "if then else elif fi for while until do done case esac in function select time return exit export \
                   local readonly declare set unset source",
        values: "true false",
        comments: HASH,
        blocks: false,
        triple: false,
        backtick: false,
        single: true,
        any_case: false,
    },
    Look {
        names: &["java", "kotlin", "scala", "groovy"],
        keywords: "abstract assert break case catch class const continue default do else enum extends final finally for \
                   fun if implements import instanceof interface native new object override package private protected \
                   public record return sealed static super switch synchronized throw throws trait transient try val \
                   var void volatile while with yield int long double float boolean char byte short",
        values: "true false null this",
        comments: C_COMMENT,
        blocks: true,
        triple: true,
        backtick: false,
        single: true,
        any_case: false,
    },
    Look {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod \
                   move mut pub ref return static struct super trait type unsafe use where while",
        values: "true false self Self None Some Ok Err",
        comments: C_COMMENT,
        blocks: true,
        triple: false,
        backtick: false,
        single: false,
        any_case: false,
    },
    Look {
        names: &["c", "c++", "cpp", "go", "c#", "csharp", "swift"],
        keywords: "auto bool break case catch chan char class const constexpr continue default defer delete do double \
                   else enum explicit extern float for func go goto if import include inline int interface let long map \
                   namespace new operator package private protected public range return short signed sizeof static \
                   struct switch template this throw try typedef typename union unsigned using var virtual void while",
        values: "true false nullptr NULL nil",
        comments: C_COMMENT,
        blocks: true,
        triple: false,
        backtick: true,
        single: true,
        any_case: false,
    },
    Look {
        names: &["sql", "postgresql", "sqlite", "mysql", "duckdb"],
        keywords: "select from where and or not insert into values update set delete create table drop alter index view \
                   join left right inner outer full cross on using group by order having limit offset union all distinct \
                   as case when then else end exists in is like between with over partition asc desc primary key",
        values: "null true false",
        comments: &["--"],
        blocks: true,
        triple: false,
        backtick: true,
        single: true,
        any_case: true,
    },
    Look {
        names: &["julia", "jl"],
        keywords: "abstract baremodule begin break catch const continue do else elseif end export finally for function \
                   global if import in let local macro module mutable primitive quote return struct try type using while",
        values: "true false nothing missing Inf NaN pi",
        comments: HASH,
        blocks: false,
        triple: true,
        backtick: true,
        single: true,
        any_case: false,
    },
    Look {
        names: &["json", "yaml", "toml"],
        keywords: "",
        values: "true false null",
        comments: HASH,
        blocks: false,
        triple: false,
        backtick: false,
        single: true,
        any_case: false,
    },
];

/// The code as HTML: escaped, with `<span class="h-..">` around what has a colour.
pub(super) fn highlight(code: &str, language: &str) -> String {
    let mut html = String::with_capacity(code.len() * 2);
    let language = language.to_ascii_lowercase();
    match LOOKS.iter().find(|look| look.names.contains(&&*language)) {
        Some(look) => Scanner {
            look,
            rest: code,
            html: &mut html,
            line_start: true,
        }
        .scan(),
        None => escape_into(code, &mut html),
    }
    html
}

struct Scanner<'a, 'h> {
    look: &'static Look,
    rest: &'a str,
    html: &'h mut String,
    /// Only blanks since the line began.
    line_start: bool,
}

impl<'a> Scanner<'a, '_> {
    fn scan(mut self) {
        while let Some(first) = self.rest.chars().next() {
            let was_start = self.line_start;
            self.line_start = first == '\n' || was_start && first.is_whitespace();
            if let Some((class, length)) = self.token(first, was_start) {
                let text = self.take(length);
                self.push(class, text);
            } else {
                let length = self.plain(first);
                let text = self.take(length);
                escape_into(text, self.html);
            }
        }
    }

    /// The class and the length of what begins here, if it has a colour.
    fn token(&self, first: char, line_start: bool) -> Option<(&'static str, usize)> {
        let rest = self.rest;
        let look = self.look;
        if look.comments.iter().any(|mark| rest.starts_with(mark)) {
            return Some(("c", rest.find('\n').unwrap_or(rest.len())));
        }
        if look.blocks && rest.starts_with("/*") {
            let end = rest.get(2..).and_then(|inner| inner.find("*/"));
            return Some(("c", end.map_or(rest.len(), |at| at + 4)));
        }
        if let Some(length) = self.string(first) {
            return Some(("s", length));
        }
        if first.is_ascii_digit() {
            let end = |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_');
            return Some(("n", rest.find(end).unwrap_or(rest.len())));
        }
        if line_start && matches!(first, '@' | '%' | '!') {
            let whole = first != '@';
            let end = |c: char| {
                c == '\n' || !(whole || c.is_alphanumeric() || matches!(c, '_' | '.' | '@'))
            };
            return Some(("d", rest.find(end).unwrap_or(rest.len())));
        }
        if first.is_alphabetic() || first == '_' {
            let word = self.word();
            let length = word.len();
            let after = rest.get(length..).unwrap_or_default();
            // A prefix of a string, as in f"..".
            if length <= 2 && look.triple && after.starts_with(['"', '\'']) && is_prefix(word) {
                let quote = after.chars().next()?;
                return Some(("s", length + string(after, quote, true)));
            }
            let is = |words: &str| {
                words
                    .split_whitespace()
                    .any(|known| known == word || look.any_case && known.eq_ignore_ascii_case(word))
            };
            return match () {
                () if is(look.keywords) => Some(("k", length)),
                () if is(look.values) => Some(("v", length)),
                () if after.starts_with('(') => Some(("f", length)),
                () => None,
            };
        }
        None
    }

    fn string(&self, first: char) -> Option<usize> {
        let look = self.look;
        let begins = match first {
            '"' => true,
            '\'' => look.single,
            '`' => look.backtick,
            _ => false,
        };
        begins.then(|| string(self.rest, first, look.triple))
    }

    fn word(&self) -> &'a str {
        let end = |c: char| !(c.is_alphanumeric() || c == '_');
        let length = self.rest.find(end).unwrap_or(self.rest.len());
        self.rest.get(..length).unwrap_or_default()
    }

    /// How much of the beginning has no colour: a word, or a character.
    fn plain(&self, first: char) -> usize {
        if first.is_alphabetic() || first == '_' {
            self.word().len()
        } else {
            first.len_utf8()
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .unwrap_or((self.rest, ""));
        self.rest = rest;
        text
    }

    fn push(&mut self, class: &str, text: &str) {
        self.html.push_str("<span class=\"h-");
        self.html.push_str(class);
        self.html.push_str("\">");
        escape_into(text, self.html);
        self.html.push_str("</span>");
    }
}

fn is_prefix(word: &str) -> bool {
    word.chars()
        .all(|c| matches!(c.to_ascii_lowercase(), 'f' | 'r' | 'b' | 'u' | 't'))
}

/// The length of a string that begins with `quote`.
fn string(text: &str, quote: char, triple: bool) -> usize {
    let three: String = std::iter::repeat_n(quote, 3).collect();
    let (start, end) = if triple && text.starts_with(&three) {
        (3, three)
    } else {
        (1, quote.to_string())
    };
    let many = end.len() == 3 || quote == '`';
    let mut at = start;
    while let Some(rest) = text.get(at..)
        && let Some(c) = rest.chars().next()
    {
        if rest.starts_with(&end) {
            return at + end.len();
        }
        match c {
            '\\' => at += 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            // It has no end: the line is odd, not the rest of the file.
            '\n' if !many => return at,
            c => at += c.len_utf8(),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::highlight;

    /// Classes in brackets.
    fn marked(code: &str, language: &str) -> String {
        highlight(code, language)
            .replace("<span class=\"h-", "[")
            .replace("\">", ":")
            .replace("</span>", "]")
            .replace("&#39;", "'")
            .replace("&quot;", "\"")
    }

    #[test]
    fn what_has_a_colour() {
        for (language, code, expected) in [
            (
                "python",
                "@cache\ndef f(x):  # why\n    return rf'{x}\\'' + \"\"\"a\nb\"\"\" + 1.5e3 or None",
                "[d:@cache]\n[k:def] [f:f](x):  [c:# why]\n    [k:return] [s:rf'{x}\\''] + [s:\"\"\"a\nb\"\"\"] + [n:1.5e3] [k:or] [v:None]",
            ),
            (
                "python",
                "%timeit f()\na % b\n!ls -l",
                "[d:%timeit f()]\na % b\n[d:!ls -l]",
            ),
            ("SQL", "Select 'a' -- x", "[k:Select] [s:'a'] [c:-- x]"),
            (
                "js",
                "/* a\n*/ let x = `b\nc`",
                "[c:/* a\n*/] [k:let] x = [s:`b\nc`]",
            ),
            ("rust", "fn f<'a>() {}", "[k:fn] f&lt;'a&gt;() {}"),
            ("bash", "echo 'open\nls", "echo [s:'open]\nls"),
            ("cobol", "<b>&\"'", "&lt;b&gt;&amp;\"'"),
            ("python", "é = 'ü' + ß1(\\", "é = [s:'ü'] + [f:ß1](\\"),
        ] {
            assert_eq!(marked(code, language), expected);
        }
    }

    #[test]
    fn nothing_is_lost_and_all_of_it_is_escaped() {
        let code = "'<script>' # </span>\n\"unfinished \\";
        for language in [
            "python", "r", "js", "bash", "java", "rust", "go", "sql", "julia", "json", "",
        ] {
            let html = highlight(code, language);
            let mut text = String::new();
            for piece in html.split('<') {
                text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
            }
            assert_eq!(
                text.replace("&lt;", "<")
                    .replace("&gt;", ">")
                    .replace("&#39;", "'")
                    .replace("&quot;", "\"")
                    .replace("&amp;", "&"),
                code,
                "{language}"
            );
        }
    }
}
