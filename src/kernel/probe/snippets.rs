//! The probe's code for each language, as data: `kernelspecs/<name>/probe.toml`, embedded in the binary.

use serde::Deserialize;

/// The code for one language. A check without code is skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snippets {
    /// As in `language_info.name`, ignoring case.
    pub language: String,
    /// Sets a variable to 41.
    pub set: Option<String>,
    /// Prints that variable plus one.
    pub get: Option<String>,
    /// An expression whose value is 42.
    pub result: Option<String>,
    /// Fails.
    pub error: Option<String>,
    /// Shows a PNG.
    pub png: Option<String>,
    /// Prints the numbers from 0 to 19,999, each on a line.
    pub lines: Option<String>,
    /// Prints `go` and runs for ever.
    #[serde(rename = "loop")]
    pub endless: Option<String>,
    /// Kills the kernel's process.
    pub kill: Option<String>,
    /// Ends the process that runs the code, in the language's own way.
    pub exit: Option<String>,
    /// Asks `name? ` and prints `hello ` and the answer.
    pub input: Option<String>,
    /// The same with a hidden answer.
    pub password: Option<String>,
    /// Prints [`UNICODE`].
    pub unicode: Option<String>,
}

/// Characters of two, three and four bytes in UTF-8.
pub(super) const UNICODE: &str = "größe 漢字 🦀";

const EMBEDDED: [&str; 8] = [
    include_str!("../../../kernelspecs/python3/probe.toml"),
    include_str!("../../../kernelspecs/bash/probe.toml"),
    include_str!("../../../kernelspecs/javascript/probe.toml"),
    include_str!("../../../kernelspecs/deno/probe.toml"),
    include_str!("../../../kernelspecs/r/probe.toml"),
    include_str!("../../../kernelspecs/java/probe.toml"),
    include_str!("../../../kernelspecs/rust/probe.toml"),
    include_str!("../../../kernelspecs/gnuplot/probe.toml"),
];

impl Snippets {
    /// The snippets for a language; empty if it is unknown.
    pub fn of(language: &str) -> Self {
        EMBEDDED
            .iter()
            // A test below checks that they can be parsed.
            .filter_map(|text| toml::from_str::<Self>(text).ok())
            .find(|snippets| snippets.language.eq_ignore_ascii_case(language))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_can_be_read() {
        for text in EMBEDDED {
            let snippets: Snippets = toml::from_str(text).unwrap();
            assert!(snippets.set.is_some() && snippets.get.is_some());
            assert!(
                snippets
                    .unicode
                    .as_ref()
                    .is_some_and(|code| code.contains(UNICODE))
            );
            assert_eq!(Snippets::of(&snippets.language.to_uppercase()), snippets);
        }
        assert_eq!(Snippets::of("cobol"), Snippets::default());
    }
}
