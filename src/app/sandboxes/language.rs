//! Code that we run in a kernel besides a program's code, for each language: sets environment variables and the
//! working directory.
//!
//! The previous values of an execution's own variables are stored in the kernel and restored afterwards.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::kernel::with_figures;

/// A supported language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Script,
    R,
    Bash,
    Java,
    Other,
}

static PYTHON: LazyLock<String> = LazyLock::new(|| with_figures(include_str!("python.py")));

/// Variables by name and value.
type Variables = [(String, String)];

/// Checks that they can be set in every language.
pub(super) fn check_variables(variables: &Variables) -> Result<(), String> {
    for (name, value) in variables {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !(name.starts_with(is_first) && name.chars().all(is_name)) {
            return Err(format!(
                "`{name}` is not a name for an environment variable"
            ));
        }
        if value.contains('\0') {
            return Err(format!("the environment variable `{name}` has a zero byte"));
        }
    }
    Ok(())
}

/// Normalizes the different names that E2B's clients use for a language.
pub(super) fn normal(language: Option<&str>) -> String {
    let language = language.unwrap_or_default().trim().to_lowercase();
    match language.as_str() {
        "" => "python".to_owned(),
        "js" => "javascript".to_owned(),
        "ts" => "typescript".to_owned(),
        _ => language,
    }
}

impl Language {
    /// From the language of a kernelspec.
    pub(super) fn of(language: &str) -> Self {
        match language.to_ascii_lowercase().as_str() {
            "python" => Self::Python,
            "javascript" | "typescript" => Self::Script,
            "r" => Self::R,
            "bash" => Self::Bash,
            "java" => Self::Java,
            _ => Self::Other,
        }
    }

    /// The setup code of a kernel.
    pub(super) fn beginning(self) -> Option<&'static str> {
        match self {
            Self::Python => Some(&PYTHON),
            Self::Script => Some(include_str!("language/begin.js")),
            Self::R | Self::Bash | Self::Java | Self::Other => None,
        }
    }

    /// Sets variables; with `keeping`, the previous values are stored for [`restore`](Self::restore).
    pub(super) fn set(self, variables: &Variables, keeping: bool) -> Option<String> {
        let at_once = |code: &str, variables: String| {
            let keeps = if keeping { "1" } else { "0" };
            // The variables are inserted last, so that nothing in them is taken for a placeholder.
            code.replace("KEEPS", keeps)
                .replace("VARIABLES", &variables)
        };
        let one_by_one = |keep: &str, set: &str, quote: fn(&str) -> String| {
            let one = |(name, value): &(String, String)| {
                let keep = if keeping { keep } else { "" };
                let code = format!("{keep}{set}").replace("NAME", name);
                code.replace("VALUE", &quote(value))
            };
            variables.iter().map(one).collect()
        };
        let object = || {
            let all = variables.iter().cloned();
            let all = all.map(|(name, value)| (name, value.into()));
            serde_json::Value::Object(all.collect()).to_string()
        };
        let vector = || {
            let each = variables.iter();
            let each = each.map(|(name, value)| format!("\"{name}\" = {}", quoted(value)));
            each.collect::<Vec<_>>().join(", ")
        };
        Some(match self {
            Self::Python => at_once(include_str!("language/set.py"), object()),
            Self::Script => at_once(include_str!("language/set.js"), object()),
            Self::R => at_once(include_str!("language/set.R"), vector()),
            Self::Bash => one_by_one(
                include_str!("language/keep.sh"),
                include_str!("language/set.sh"),
                shell_quoted,
            ),
            Self::Java => one_by_one(
                include_str!("language/keep.java"),
                include_str!("language/set.java"),
                quoted,
            ),
            Self::Other => return None,
        })
    }

    /// Restores the values that these variables had before they were set.
    pub(super) fn restore(self, variables: &Variables) -> Option<String> {
        let each = |code: &str| {
            let names = variables.iter();
            names.map(|(name, _)| code.replace("NAME", name)).collect()
        };
        Some(match self {
            Self::Python => include_str!("language/restore.py").to_owned(),
            Self::Script => include_str!("language/restore.js").to_owned(),
            Self::R => include_str!("language/restore.R").to_owned(),
            Self::Bash => each(include_str!("language/restore.sh")),
            Self::Java => each(include_str!("language/restore.java")),
            Self::Other => return None,
        })
    }

    /// Changes the working directory.
    pub(super) fn change_directory(self, path: &str) -> Option<String> {
        Some(match self {
            Self::Python => format!("__import__('os').chdir({})", quoted(path)),
            Self::Script => format!("process.chdir({})", quoted(path)),
            Self::R => format!("setwd({})", quoted(path)),
            Self::Bash => format!("cd {}", shell_quoted(path)),
            Self::Java => format!("System.setProperty(\"user.dir\", {});", quoted(path)),
            Self::Other => return None,
        })
    }
}

/// A string literal in Python, JavaScript, R and Java: all of them accept JSON's escapes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A string literal for bash, even an interactive one, where `!` is special.
fn shell_quoted(text: &str) -> String {
    let mut quoted = String::from("$'");
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '\'' => quoted.push_str("\\'"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '!' => quoted.push_str("\\x21"),
            c if c.is_control() && c.is_ascii() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_languages_and_variables() {
        for (given, expected) in [
            (None, "python"),
            (Some(" JS "), "javascript"),
            (Some("ts"), "typescript"),
            (Some("R"), "r"),
        ] {
            assert_eq!(normal(given), expected);
        }
        let check =
            |name: &str, value: &str| check_variables(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(check("A_1", "any 'thing\"\n"), Ok(()));
        for (name, value) in [
            ("", "x"),
            ("1A", "x"),
            ("A=B", "x"),
            ("A B", "x"),
            ("$(x)", "x"),
            ("A", "\0"),
        ] {
            assert!(check(name, value).is_err(), "{name}");
        }
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(shell_quoted("it's !$`\\\n"), "$'it\\'s \\x21$`\\\\\\n'");
        assert_eq!(quoted("a\"b\\\n\u{1}"), "\"a\\\"b\\\\\\n\\u0001\"");
    }
}
