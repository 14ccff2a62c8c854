//! Enough of Rust's grammar to find the paths that a file uses: comments and strings are left out, groups in braces are
//! spread, `super` and `self` are resolved, the tests at the end do not count.

use std::fmt;

/// A source file.
pub(crate) struct Source {
    /// Where the file is in the tree of modules.
    module: Vec<String>,
    /// Its code up to the tests, comments and literals blanked.
    code: Vec<char>,
    /// How many lines come before its tests.
    pub(crate) lines_before_tests: usize,
}

/// A path as code names it: `crate::a::b` and `std::c`, or a bare name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

impl Path {
    pub(crate) fn starts_with(&self, start: &str) -> bool {
        let start: Vec<&str> = start.split("::").collect();
        self.segments.len() >= start.len()
            && self
                .segments
                .iter()
                .zip(start)
                .all(|(own, other)| own == other)
    }

    pub(crate) fn ends_with(&self, end: &str) -> bool {
        let end: Vec<&str> = end.split("::").collect();
        self.segments.len() >= end.len()
            && self
                .segments
                .iter()
                .rev()
                .zip(end.iter().rev())
                .all(|(own, other)| own == other)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.segments.join("::"))
    }
}

impl Source {
    /// `file` is relative to `src`.
    pub(crate) fn parse(text: &str, file: &std::path::Path) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let tests = lines
            .windows(2)
            .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "))
            .unwrap_or(lines.len());
        let own = lines[..tests].join("\n");
        let mut module = vec!["crate".to_owned()];
        let parts = file.with_extension("");
        module.extend(parts.iter().map(|part| part.to_string_lossy().into_owned()));
        if module
            .last()
            .is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main"))
        {
            module.pop();
        }
        Self {
            module,
            code: blank(&own),
            lines_before_tests: tests,
        }
    }

    pub(crate) fn module(&self) -> &[String] {
        &self.module
    }

    /// Every path with `::` in it, and the name of every macro that is called.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.code.len() {
            let starts = is_name(self.code[at])
                && (at == 0 || !is_name(self.code[at - 1]) && self.code[at - 1] != ':');
            if starts {
                let mut found = Vec::new();
                let end = self.path(at, &[], &mut found);
                let line = 1 + self.code[..at].iter().filter(|&&c| c == '\n').count();
                let is_macro =
                    self.code.get(end) == Some(&'!') && self.code.get(end + 1) != Some(&'=');
                for segments in found {
                    if segments.len() > 1 || is_macro {
                        paths.push(Path {
                            line,
                            segments: self.resolve(segments),
                        });
                    }
                }
                at = end;
            }
            at += 1;
        }
        paths
    }

    /// Reads `a::b::{c, d::e}` from `at`; returns where it ends.
    fn path(&self, mut at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let mut segments = before.to_vec();
        loop {
            let name: String = self.code[at..]
                .iter()
                .take_while(|&&c| is_name(c) || c == '*')
                .collect();
            at += name.chars().count();
            segments.push(name);
            if !self.code[at..].starts_with(&[':', ':']) {
                break;
            }
            match self.code.get(at + 2) {
                Some('{') => return self.group(at + 3, &segments, found),
                Some(&c) if is_name(c) || c == '*' => at += 2,
                // `::<`
                _ => break,
            }
        }
        found.push(segments);
        at
    }

    fn group(&self, mut at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
        while let Some(&c) = self.code.get(at) {
            match c {
                '}' => return at + 1,
                c if is_name(c) || c == '*' => {
                    at = self.path(at, before, found);
                    // `as other`
                    while self.code.get(at).is_some_and(|&c| c != ',' && c != '}') {
                        at += 1;
                    }
                }
                _ => at += 1,
            }
        }
        at
    }

    fn resolve(&self, segments: Vec<String>) -> Vec<String> {
        let supers = segments
            .iter()
            .take_while(|segment| *segment == "super")
            .count();
        if supers == 0 && segments[0] != "self" {
            return segments;
        }
        let mut resolved = self.module[..self.module.len().saturating_sub(supers).max(1)].to_vec();
        resolved.extend(
            segments
                .into_iter()
                .filter(|segment| segment != "super" && segment != "self"),
        );
        resolved
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The code with spaces for comments and literals; lines stay where they are.
fn blank(text: &str) -> Vec<char> {
    let chars: Vec<char> = text.chars().collect();
    let mut code = chars.clone();
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => until(&chars, at, |rest| rest[0] == '\n'),
            ('/', Some('*')) => until(&chars, at + 2, |rest| rest.starts_with(&['*', '/'])) + 2,
            ('"', _) => string(&chars, at),
            ('r', Some('"' | '#'))
                if at == 0 || !is_name(chars[at - 1]) || chars[at - 1] == 'b' =>
            {
                raw_string(&chars, at)
            }
            ('\'', Some('\\')) => until(&chars, at + 3, |rest| rest[0] == '\'') + 1,
            ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => at + 3,
            _ => {
                at += 1;
                continue;
            }
        };
        let end = end.min(chars.len());
        for c in &mut code[at..end] {
            if *c != '\n' {
                *c = ' ';
            }
        }
        at = end.max(at + 1);
    }
    code
}

fn until(chars: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len())
        .find(|&at| is_end(&chars[at..]))
        .unwrap_or(chars.len())
}

fn string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(&c) = chars.get(at) {
        match c {
            '"' => return at + 1,
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// `r"..."`, `r#"..."#`; a raw name such as `r#type` is left alone.
fn raw_string(chars: &[char], from: usize) -> usize {
    let hashes = chars[from + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(from + 1 + hashes) != Some(&'"') {
        return from;
    }
    let end: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    until(chars, from + 2 + hashes, |rest| rest.starts_with(&end)) + end.len()
}

#[test]
fn paths_are_found_where_they_are_and_nowhere_else() {
    let text = r##"//! crate::comment::x
use crate::kernel::{Kernel, task::{self, Task}};
use std::{fs, io::Write as _};
fn f<'a>(x: &'a str) -> char {
    let s = "crate::string::x \" println!(";
    let r = r#"std::fs "quoted" "#; /* crate::block::x */
    println!("{}", super::other::g::<u8>());
    if x != y {}
    '"'; crate::after::quote()
}
#[cfg(test)]
mod tests { use crate::tests::x; }
"##;
    let source = Source::parse(text, std::path::Path::new("llm/rig.rs"));
    assert_eq!(source.lines_before_tests, 10);
    let found: Vec<String> = source
        .paths()
        .iter()
        .map(|path| format!("{} {path}", path.line))
        .collect();
    assert_eq!(
        found,
        [
            "2 crate::kernel::Kernel",
            "2 crate::kernel::task::self",
            "2 crate::kernel::task::Task",
            "3 std::fs",
            "3 std::io::Write",
            "7 println",
            "7 crate::llm::other::g",
            "9 crate::after::quote",
        ]
    );
}
