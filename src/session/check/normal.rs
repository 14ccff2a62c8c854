//! Normalises what varies between runs: memory addresses, timings, temporary file names, colours.
//!
//! Anything that looks like data stays, including dates and times of day: only the person knows whether they matter,
//! and can add patterns in a file of regular expressions (nbval's format).

use std::sync::LazyLock;

use regex::Regex;

use crate::session::summarize::plain;

/// Applied to every text: pattern and replacement. docs/run.md gives the reasons.
const ALWAYS: [(&str, &str); 11] = [
    (r"\b0x[0-9a-fA-F]{6,}\b", "0x…"),
    (r"/[^\s'\x22]*ipykernel_[0-9]+/[0-9]+\.py", "ipykernel.py"),
    (r"<ipython-input-[0-9]+-[0-9a-f]+>", "<ipython-input>"),
    (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "<uuid>",
    ),
    (r"/tmp/tmp[0-9a-z_]{6,10}\b", "/tmp/tmp…"),
    (r"(?m)^(CPU times: |Wall time: ).*$", "${1}…"),
    (
        r"(?m)^.*( per loop \(mean ± std\. dev\. of [^)]*\))$",
        "…${1}",
    ),
    // File and line of a warning depend on where and which version of the package is installed.
    (r"(?m)^\S+\.py:[0-9]+: (\w*Warning: )", "….py: ${1}"),
    // tqdm: elapsed, remaining and rate.
    (r"\[[0-9:]+<[^\]\n]*\]", "[…]"),
    // The text beside a picture; the picture itself is compared.
    (r"<Figure size [0-9.]+x[0-9.]+ with", "<Figure with"),
    (r"(?m)[ \t]+$", ""),
];

/// Also applied to HTML: identifiers of styled frames.
const HTML: [(&str, &str); 1] = [(r"\bT_[0-9a-f]{5,}", "T_…")];

/// Also applied to SVG: generated identifiers and matplotlib's date.
const SVG: [(&str, &str); 2] = [
    (r"<dc:date>[^<]*</dc:date>", "<dc:date>…</dc:date>"),
    (r"\b([a-zA-Z]?)[0-9a-f]{10,}\b", "${1}…"),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| compile(&ALWAYS));
static COMPILED_HTML: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| compile(&HTML));
static COMPILED_SVG: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| compile(&SVG));

/// A test checks that every pattern compiles.
fn compile(table: &[(&str, &'static str)]) -> Vec<(Regex, &'static str)> {
    table
        .iter()
        .filter_map(|(pattern, by)| Some((Regex::new(pattern).ok()?, *by)))
        .collect()
}

/// Replacements made before texts are compared: the built-in ones and the person's.
#[derive(Debug, Clone, Default)]
pub struct Sanitizer {
    more: Vec<(Regex, String)>,
}

/// Why a file of regular expressions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SanitizerError {
    /// A line is not a valid regular expression.
    #[error("line {line}: {error}")]
    Pattern {
        /// The line number, from 1.
        line: usize,
        /// The regex error.
        error: regex::Error,
    },
    /// A `regex:` is not followed by its `replace:`.
    #[error("line {line}: a line `replace: ..` must follow")]
    NoReplacement {
        /// The line number of the `regex:`, from 1.
        line: usize,
    },
    /// The file has no patterns.
    #[error("the file has no `regex: ..` line")]
    Empty,
}

impl Sanitizer {
    /// Parses nbval's `--nbval-sanitize-with` file: lines `regex: ..`, each followed by `replace: ..`.
    ///
    /// # Errors
    /// [`SanitizerError`].
    pub fn parse(text: &str) -> Result<Self, SanitizerError> {
        let mut more = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let Some(pattern) = line.strip_prefix("regex: ") else {
                continue;
            };
            let line = index + 1;
            let regex = Regex::new(&format!("(?m:{pattern})"))
                .map_err(|error| SanitizerError::Pattern { line, error })?;
            let by = lines
                .next()
                .and_then(|(_, next)| next.strip_prefix("replace:"))
                .ok_or(SanitizerError::NoReplacement { line })?;
            // Python writes group references as `\1`.
            let by = by.strip_prefix(' ').unwrap_or(by).replace('$', "$$");
            more.push((regex, python_groups(&by)));
        }
        if more.is_empty() {
            return Err(SanitizerError::Empty);
        }
        Ok(Self { more })
    }

    /// Normalises `text` for comparison.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = plain(text);
        for (regex, by) in &self.more {
            replace(&mut text, regex, by);
        }
        for (regex, by) in COMPILED.iter() {
            replace(&mut text, regex, by);
        }
        text
    }
}

/// Normalises text of a MIME type, dropping the identifiers that HTML and SVG generate on every run.
pub(super) fn markup(mime: &str, text: &str) -> String {
    let mut text = text.to_owned();
    let table: &[(Regex, &str)] = match mime {
        "text/html" => &COMPILED_HTML,
        "image/svg+xml" => &COMPILED_SVG,
        _ => &[],
    };
    for (regex, by) in table {
        replace(&mut text, regex, by);
    }
    text
}

fn replace(text: &mut String, regex: &Regex, by: &str) {
    if let std::borrow::Cow::Owned(replaced) = regex.replace_all(text, by) {
        *text = replaced;
    }
}

/// Converts `\1` to `${1}`.
fn python_groups(by: &str) -> String {
    let mut out = String::with_capacity(by.len());
    let mut chars = by.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(digit) if c == '\\' && digit.is_ascii_digit() => {
                out.push_str("${");
                out.push(*digit);
                out.push('}');
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), ALWAYS.len());
        assert_eq!(COMPILED_HTML.len(), HTML.len());
        assert_eq!(COMPILED_SVG.len(), SVG.len());
    }

    #[test]
    fn what_differs_at_every_run_does_not_count() {
        let sanitizer = Sanitizer::default();
        for (text, normal) in [
            ("<Foo at 0x7f00deadbeef>", "<Foo at 0x…>"),
            ("colour 0xff", "colour 0xff"),
            ("File /tmp/ipykernel_12/345.py:1", "File ipykernel.py:1"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            (
                "CPU times: user 1 ms\nWall time: 2 ms\n",
                "CPU times: …\nWall time: …\n",
            ),
            (
                "1.2 ms ± 3 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
                "… per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
            ),
            (
                "/home/ada/venv/lib/pandas/x.py:12: FutureWarning: soon\n",
                "….py: FutureWarning: soon\n",
            ),
            (
                "100%|████| 3/3 [00:01<00:00,  2.9it/s]",
                "100%|████| 3/3 […]",
            ),
            ("open /tmp/tmpab12_x9z/f", "open /tmp/tmp…/f"),
            ("2012-01-01 12:30:01", "2012-01-01 12:30:01"),
        ] {
            assert_eq!(sanitizer.text(text), normal, "{text:?}");
        }
    }

    #[test]
    fn a_file_of_nbval() {
        let sanitizer = Sanitizer::parse(
            "[DEFAULT]\nregex: ([A-Z]{3})-[0-9]+\nreplace: \\1-N$\n\n[two]\nregex: ^at .*$\nreplace:\n",
        )
        .unwrap();
        assert_eq!(sanitizer.text("ABC-12\nat noon\n"), "ABC-N$\n\n");
        let error = |text: &str| Sanitizer::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("regex: a\n"),
            "line 1: a line `replace: ..` must follow"
        );
        assert_eq!(error("nothing"), "the file has no `regex: ..` line");
        assert!(error("\nregex: (\nreplace: x\n").starts_with("line 2: "));
    }
}
