//! Detects that a model is going in circles: the same code with the same error.
//!
//! Ignores white space and comments, which a model changes when it retries the same code, and addresses and long
//! numbers in errors, which differ every time.

use crate::kernel::Verdict;

/// Failures so far: code, error, count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures(Vec<(String, String, u32)>);

impl Failures {
    /// Counts a failure of `code` in `language`, and returns how often the same failure occurred.
    pub fn count(&mut self, code: &str, language: &str, verdict: &Verdict) -> u32 {
        let (code, failure) = (essence(code, language), failure(verdict));
        let same = |known: &&mut (String, String, u32)| known.0 == code && known.1 == failure;
        if let Some((_, _, times)) = self.0.iter_mut().find(same) {
            *times += 1;
            return *times;
        }
        self.0.push((code, failure, 1));
        1
    }

    /// Forgets all failures.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// The failure without its varying parts.
fn failure(verdict: &Verdict) -> String {
    let text = format!("{verdict:?}");
    let mut same = String::with_capacity(text.len());
    let mut digits = String::new();
    let end = |same: &mut String, digits: &mut String| {
        // `0x7f3a..` begins with a digit too.
        same.push_str(if digits.len() >= 4 {
            "#"
        } else {
            digits.as_str()
        });
        digits.clear();
    };
    for c in text.chars() {
        let continues =
            c.is_ascii_digit() || (!digits.is_empty() && (c.is_ascii_hexdigit() || c == 'x'));
        if continues {
            digits.push(c);
        } else {
            end(&mut same, &mut digits);
            same.push(c);
        }
    }
    end(&mut same, &mut digits);
    same
}

/// Code without comments and insignificant white space. Strings are unchanged.
fn essence(code: &str, language: &str) -> String {
    let slashes = [
        "javascript",
        "typescript",
        "java",
        "rust",
        "c++",
        "c",
        "go",
        "scala",
        "kotlin",
        "c#",
    ];
    let language = language.to_ascii_lowercase();
    let by_slashes = slashes.contains(&language.as_str());
    let mut text = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let length = if matches!(c, '"' | '\'' | '`') {
            string(rest, c)
        } else if (by_slashes && rest.starts_with("//")) || (!by_slashes && c == '#') {
            let length = rest.find('\n').unwrap_or(rest.len());
            rest = rest.get(length..).unwrap_or_default();
            continue;
        } else if by_slashes && rest.starts_with("/*") {
            let length = rest.find("*/").map_or(rest.len(), |at| at + 2);
            rest = rest.get(length..).unwrap_or_default();
            continue;
        } else if c.is_whitespace() {
            let length = rest
                .find(|c: char| !c.is_whitespace())
                .unwrap_or(rest.len());
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let after = rest.get(length..).unwrap_or_default();
            // A space between two words is significant.
            if is_word(text.chars().next_back()) && is_word(after.chars().next()) {
                text.push(' ');
            }
            rest = after;
            continue;
        } else {
            c.len_utf8()
        };
        let (taken, later) = rest.split_at(length);
        text.push_str(taken);
        rest = later;
    }
    text
}

/// The length of the string that begins here; only the quote if the string does not end, as in `don't`.
fn string(rest: &str, quote: char) -> usize {
    let triple: String = [quote; 3].iter().collect();
    let (open, multiline) = if rest.starts_with(&triple) {
        (3, true)
    } else {
        (1, quote == '`')
    };
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(open) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == '\n' && !multiline {
            break;
        } else if c == quote
            && (open == 1 || rest.get(at..).is_some_and(|rest| rest.starts_with(&triple)))
        {
            return at + open;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_the_same_is_the_same() {
        for (language, one, two, same) in [
            (
                "python",
                "x = 1\ny=2",
                "# again\nx=1  # one\n\ny = 2\n",
                true,
            ),
            ("python", "x = 'a # b'", "x = 'a # c'", false),
            ("python", "x = 'a  b'", "x = 'a b'", false),
            ("python", "a // 2", "a // 3", false),
            (
                "python",
                "f(\"\"\"a\n# b\"\"\")",
                "f(\"\"\"a\n# c\"\"\")",
                false,
            ),
            ("python", "not x", "notx", false),
            ("python", "df['a'].mean()", "df['b'].mean()", false),
            (
                "javascript",
                "let a = 5 // five\n/* x */ a",
                "let a=5\na",
                true,
            ),
            ("R", "x <- c(1, 2) # two", "x<-c(1,2)", true),
            ("bash", "echo don't # say", "echo don't", true),
        ] {
            assert_eq!(
                essence(one, language) == essence(two, language),
                same,
                "{one:?} {two:?}"
            );
        }
    }

    #[test]
    fn failures_are_counted_without_what_is_new_each_time() {
        let failed = |evalue: &str| Verdict::Error {
            ename: "E".to_owned(),
            evalue: evalue.to_owned(),
        };
        let mut failures = Failures::default();
        let mut count = |code: &str, verdict: &Verdict| failures.count(code, "python", verdict);
        assert_eq!(
            count("f()", &failed("<X at 0x7f12ab> (123456.py, line 1)")),
            1
        );
        assert_eq!(
            count("f( )", &failed("<X at 0x7f99cd> (7890123.py, line 1)")),
            2
        );
        assert_eq!(
            count("f()", &failed("<X at 0x7f12ab> (123456.py, line 2)")),
            1
        );
        assert_eq!(
            count("g()", &failed("<X at 0x7f12ab> (123456.py, line 1)")),
            1
        );
        assert_eq!(count("f()", &Verdict::TimedOut), 1);
        assert_eq!(count("f()", &Verdict::TimedOut), 2);
    }
}
