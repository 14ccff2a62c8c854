//! Floor 0: finds out what code might do, without running it.
//!
//! Code is parsed with tree-sitter grammars and searched for what a person would want to know before it runs: does it
//! delete files, reach the network, install packages? The result is a list of [`Finding`]s with line numbers.
//!
//! This advises a person and a policy; it does not enforce anything: only the sandbox bounds what code *can* do. Code
//! can evade analysis, and the usual ways of hiding are findings themselves ([`FindingKind::Obfuscation`]).
//!
//! Code is hostile: its length, the parser's work, the depth and the number of findings are bounded, and exceeding a
//! bound is a finding too. Not here: what is allowed (`agent::approval`), the disk, the clock.

#![expect(
    clippy::match_same_arms,
    reason = "tables of what libraries offer, in the order of the libraries"
)]

mod finding;
mod javascript;
mod python;
mod r;
mod reading;
mod secrets;
mod shell;
mod sink;
mod site;
mod sql;
mod text;
mod tree;

#[cfg(test)]
mod tests;

pub use finding::{Analysis, Finding, FindingKind, Mention, Where};
pub use python::Names;
use sink::Sink;
pub use site::Site;

/// Maximum bytes of code to analyse.
pub const LONGEST: usize = 128 << 10;
/// Maximum bytes of shell code, whose grammar takes quadratic time on hostile code.
const LONGEST_SHELL: usize = 32 << 10;
/// Maximum nesting of code in code.
const DEEPEST: u32 = 4;

/// State from the cells that a session ran before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    names: Names,
}

/// Analyses a cell in `language`. Its imports are remembered for later cells.
pub fn analyse(code: &str, language: &str, site: &Site<'_>, memory: &mut Memory) -> Analysis {
    let dialect = Dialect::of(language);
    let mut sink = Sink::new(site, code);
    if code.chars().any(is_unseen) {
        sink.obfuscated("contains invisible characters");
    }
    match dialect {
        Some(dialect) if code.len() > dialect.longest() => {
            sink.unanalysed("the code is too long to be analysed");
        }
        Some(Dialect::Python) => python::cell(code, &mut memory.names, &mut sink),
        Some(dialect) => nested(code, dialect, &mut sink),
        None if code.trim().is_empty() => {}
        None => sink.unanalysed(&format!("code in {language} is not analysed")),
    }
    sink.end()
}

/// Control characters and bidirectional overrides: code with them is not what it looks like (CVE-2021-42574).
fn is_unseen(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A language with a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Python,
    Shell,
    JavaScript,
    R,
    Sql,
}

impl Dialect {
    /// The dialect for a language's name, as used by kernelspecs or people.
    fn of(language: &str) -> Option<Self> {
        Some(match language.trim().to_lowercase().as_str() {
            "python" | "python3" | "ipython" | "py" => Self::Python,
            "bash" | "sh" | "shell" | "zsh" => Self::Shell,
            "javascript" | "typescript" | "js" | "ts" | "node" | "deno" => Self::JavaScript,
            "r" => Self::R,
            "sql" => Self::Sql,
            _ => return None,
        })
    }

    /// Maximum bytes of code to analyse.
    fn longest(self) -> usize {
        match self {
            Self::Shell => LONGEST_SHELL,
            Self::Python | Self::JavaScript | Self::R | Self::Sql => LONGEST,
        }
    }
}

/// Analyses code inside code, up to the maximum nesting.
fn nested(code: &str, dialect: Dialect, sink: &mut Sink<'_>) {
    if sink.depth >= DEEPEST {
        sink.obfuscated("nests code too deeply");
        return;
    }
    if code.len() > dialect.longest() {
        return sink.is_too_much();
    }
    sink.depth += 1;
    match dialect {
        Dialect::Python => python::cell(code, &mut Names::default(), sink),
        Dialect::Shell => shell::script(code, sink),
        Dialect::JavaScript => javascript::script(code, sink),
        Dialect::R => r::script(code, sink),
        Dialect::Sql => sql::script(code, sink),
    }
    sink.depth -= 1;
}
