//! Syntax colours: strings, comments, numbers, keywords, calls and decorators of the languages that kernels run.
//!
//! A scanner, not a parser: it never fails, and malformed code only gets wrong colours. Unknown tokens are plain text.
//! Pages get HTML, terminals get pieces while the code is being written.

mod scan;

use super::escape::escape_into;
pub(crate) use scan::{Class, Highlighter};

/// The lexical rules of a language.
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
struct Look {
    names: &'static [&'static str],
    keywords: &'static str,
    /// Words for constants.
    values: &'static str,
    /// Line comment markers.
    comments: &'static [&'static str],
    /// Has `/* .. */` comments.
    blocks: bool,
    /// Has triple-quoted strings.
    triple: bool,
    /// Has strings in backticks.
    backtick: bool,
    /// Has strings in `'`; Rust does not.
    single: bool,
    /// Keywords are case-insensitive.
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

/// Renders code as HTML: escaped, with `<span class="h-..">` around coloured tokens.
pub(super) fn highlight(code: &str, language: &str) -> String {
    let mut html = String::with_capacity(code.len() * 2);
    let mut highlighter = Highlighter::new(language);
    highlighter.push(code, &mut |class, text| piece(class, text, &mut html));
    highlighter.finish(&mut |class, text| piece(class, text, &mut html));
    html
}

fn piece(class: Class, text: &str, html: &mut String) {
    let name = match class {
        Class::Plain => return escape_into(text, html),
        Class::Comment => 'c',
        Class::Text => 's',
        Class::Number => 'n',
        Class::Keyword => 'k',
        Class::Value => 'v',
        Class::Call => 'f',
        Class::Decorator => 'd',
    };
    html.push_str("<span class=\"h-");
    html.push(name);
    html.push_str("\">");
    escape_into(text, html);
    html.push_str("</span>");
}

/// The rules for a language, if known.
fn look_of(language: &str) -> Option<&'static Look> {
    let language = language.to_ascii_lowercase();
    LOOKS.iter().find(|look| look.names.contains(&&*language))
}

#[cfg(test)]
mod tests {
    use super::highlight;

    /// The tokens with their classes in brackets.
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
