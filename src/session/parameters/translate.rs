//! Parameters as code: papermill's translators, and some for languages that papermill lacks.
//!
//! The code for Python, R, Scala, Julia, MATLAB, C#, F#, PowerShell and bash is papermill's, character for character,
//! with one exception: outside Python, papermill writes `é` as `\xe9` and leaves `$` unescaped, which R, Julia, Scala
//! and PowerShell misread. Here such text keeps its value.

use std::fmt::Write as _;

use super::{ParamValue, Parameters, python_float};

/// Why parameters cannot be given to a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untranslatable {
    /// We have no translator for the language.
    #[error("how to assign a variable in {language} is not known")]
    Language {
        /// The language.
        language: String,
    },
    /// The language cannot represent the value.
    #[error("{language} has no way to write the value of `{name}`: {reason}")]
    Value {
        /// The language.
        language: String,
        /// Which parameter.
        name: String,
        /// Why it cannot.
        reason: &'static str,
    },
    /// The name is not an identifier and would be read as code.
    #[error("`{name}` cannot be a variable's name")]
    Name {
        /// The name.
        name: String,
    },
}

/// The languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    R,
    Scala,
    Julia,
    Matlab,
    CSharp,
    FSharp,
    PowerShell,
    Bash,
    JavaScript,
    Java,
    Rust,
}

/// Code that assigns every parameter its value, for `kernel` (a kernelspec's name) and its language.
///
/// # Errors
/// [`Untranslatable`].
pub fn assignments(
    kernel: &str,
    language: &str,
    parameters: &Parameters,
) -> Result<String, Untranslatable> {
    let known = Language::of(kernel, language).ok_or_else(|| Untranslatable::Language {
        language: language.to_owned(),
    })?;
    let mut code = match known.comment() {
        ("(*", end) => format!("(* Parameters {end}\n"),
        (start, _) => format!("{start} Parameters\n"),
    };
    for (name, value) in parameters.iter() {
        if !known.is_name(name) {
            return Err(Untranslatable::Name {
                name: name.to_owned(),
            });
        }
        let line = known.assign(name, value);
        let line = line.map_err(|reason| Untranslatable::Value {
            language: language.to_owned(),
            name: name.to_owned(),
            reason,
        })?;
        let _ = writeln!(code, "{line}");
    }
    Ok(code)
}

impl Language {
    /// papermill's table; the kernel's name takes precedence.
    fn of(kernel: &str, language: &str) -> Option<Self> {
        Some(match kernel {
            "pysparkkernel" => Self::Python,
            "sparkkernel" => Self::Scala,
            "sparkrkernel" => Self::R,
            ".net-csharp" => Self::CSharp,
            ".net-fsharp" => Self::FSharp,
            ".net-powershell" => Self::PowerShell,
            _ => match language.to_lowercase().as_str() {
                "python" | "ipython" => Self::Python,
                "r" => Self::R,
                "scala" => Self::Scala,
                "julia" => Self::Julia,
                "matlab" | "octave" => Self::Matlab,
                "c#" | "csharp" => Self::CSharp,
                "f#" | "fsharp" => Self::FSharp,
                "powershell" => Self::PowerShell,
                "bash" | "sh" | "zsh" => Self::Bash,
                "javascript" | "typescript" => Self::JavaScript,
                "java" => Self::Java,
                "rust" => Self::Rust,
                _ => return None,
            },
        })
    }

    /// Accepts letters, digits and `_` of any script, and dots in R: nothing that could end a name and start other
    /// code.
    fn is_name(self, name: &str) -> bool {
        let part = |c: char| c.is_alphanumeric() || c == '_' || (c == '.' && self == Self::R);
        !name.is_empty() && !name.starts_with(char::is_numeric) && name.chars().all(part)
    }

    fn comment(self) -> (&'static str, &'static str) {
        match self {
            Self::Python | Self::R | Self::Julia | Self::PowerShell | Self::Bash => ("#", ""),
            Self::Scala | Self::CSharp | Self::JavaScript | Self::Java | Self::Rust => ("//", ""),
            Self::Matlab => ("%", ""),
            Self::FSharp => ("(*", "*)"),
        }
    }

    fn assign(self, name: &str, value: &ParamValue) -> Result<String, &'static str> {
        if let (Self::Bash, ParamValue::Map(fields)) = (self, value) {
            let entries = fields.iter().map(|(key, value)| {
                Ok::<_, &'static str>(format!("[{}]={}", self.text(key), self.value(value)?))
            });
            let entries = entries.collect::<Result<Vec<_>, _>>()?.join(" ");
            return Ok(format!("declare -A {name}=({entries})"));
        }
        let value_ = self.value(value)?;
        Ok(match self {
            Self::Python | Self::Julia => format!("{name} = {value_}"),
            // Names cannot start with `_`.
            Self::R => format!("{} = {value_}", name.trim_start_matches('_')),
            Self::Scala => format!("val {name} = {value_}"),
            Self::Matlab => format!("{name} = {value_};"),
            Self::FSharp => format!("let {name} = {value_}"),
            Self::PowerShell => format!("${name} = {value_}"),
            Self::Bash => format!("{name}={value_}"),
            Self::Java if *value == ParamValue::Null => format!("Object {name} = null;"),
            // Not `let` in JavaScript: a cell that already declares the name, or runs again, must not fail.
            Self::CSharp | Self::JavaScript | Self::Java => format!("var {name} = {value_};"),
            Self::Rust => format!("let {name} = {value_};"),
        })
    }

    fn value(self, value: &ParamValue) -> Result<String, &'static str> {
        match value {
            ParamValue::Null => self.null().map(str::to_owned),
            ParamValue::Bool(value) => Ok(self.bool(*value).to_owned()),
            ParamValue::Int(digits) => Ok(self.int(digits)),
            ParamValue::Float(value) => self.float(*value),
            ParamValue::Text(text) => Ok(self.text(text)),
            ParamValue::List(values) => self.list(values),
            ParamValue::Map(fields) => self.map(fields),
        }
    }

    fn null(self) -> Result<&'static str, &'static str> {
        Ok(match self {
            Self::Python | Self::FSharp => "None",
            Self::R => "NULL",
            Self::Julia => "nothing",
            Self::Matlab => "NaN",
            Self::PowerShell => "$Null",
            Self::Bash => "",
            Self::Scala | Self::JavaScript | Self::Java => "null",
            Self::CSharp => return Err("`var` needs a value to infer its type"),
            Self::Rust => return Err("`None` has no type then"),
        })
    }

    fn bool(self, value: bool) -> &'static str {
        match (self, value) {
            (Self::Python, true) => "True",
            (Self::Python, false) => "False",
            (Self::R, true) => "TRUE",
            (Self::R, false) => "FALSE",
            (Self::PowerShell, true) => "$True",
            (Self::PowerShell, false) => "$False",
            (_, true) => "true",
            (_, false) => "false",
        }
    }

    fn int(self, digits: &str) -> String {
        let long = match self {
            Self::Scala | Self::CSharp | Self::FSharp | Self::Java => {
                digits.parse::<i32>().is_err()
            }
            Self::Python
            | Self::R
            | Self::Julia
            | Self::Matlab
            | Self::PowerShell
            | Self::Bash
            | Self::JavaScript
            | Self::Rust => false,
        };
        if long {
            format!("{digits}L")
        } else {
            digits.to_owned()
        }
    }

    fn float(self, value: f64) -> Result<String, &'static str> {
        if value.is_finite() {
            return Ok(python_float(value));
        }
        let [nan, infinity, minus] = match self {
            Self::Python => ["float('nan')", "float('inf')", "float('-inf')"],
            Self::R | Self::Julia | Self::Matlab => ["NaN", "Inf", "-Inf"],
            Self::JavaScript => ["NaN", "Infinity", "-Infinity"],
            Self::PowerShell => [
                "[double]::NaN",
                "[double]::PositiveInfinity",
                "[double]::NegativeInfinity",
            ],
            Self::Java => [
                "Double.NaN",
                "Double.POSITIVE_INFINITY",
                "Double.NEGATIVE_INFINITY",
            ],
            Self::Scala | Self::CSharp => [
                "Double.NaN",
                "Double.PositiveInfinity",
                "Double.NegativeInfinity",
            ],
            Self::FSharp => ["nan", "infinity", "-infinity"],
            Self::Rust => ["f64::NAN", "f64::INFINITY", "f64::NEG_INFINITY"],
            Self::Bash => return Err("it has whole numbers only"),
        };
        Ok(if value.is_nan() {
            nan
        } else if value > 0.0 {
            infinity
        } else {
            minus
        }
        .to_owned())
    }

    fn text(self, text: &str) -> String {
        match self {
            Self::Python => {
                let mut quoted = String::from("\"");
                text.chars().for_each(|c| escape_python(c, &mut quoted));
                quoted.push('"');
                quoted
            }
            Self::Bash => shell_word(text),
            Self::PowerShell => {
                let escaped = text
                    .replace('`', "``")
                    .replace('"', "`\"")
                    .replace('$', "`$");
                format!("\"{}\"", escaped.replace('\n', "`n").replace('\r', "`r"))
            }
            Self::Matlab => format!("\"{}\"", escape_c(text, "").replace("\\\"", "\"\"")),
            Self::Julia => format!("\"{}\"", escape_c(text, "$")),
            Self::Rust => format!("String::from({text:?})"),
            Self::R | Self::Scala | Self::CSharp | Self::FSharp | Self::JavaScript | Self::Java => {
                format!("\"{}\"", escape_c(text, ""))
            }
        }
    }

    fn list(self, values: &[ParamValue]) -> Result<String, &'static str> {
        let items = values
            .iter()
            .map(|value| self.value(value))
            .collect::<Result<Vec<_>, _>>()?;
        let list =
            |start: &str, between: &str, end: &str| format!("{start}{}{end}", items.join(between));
        Ok(match self {
            Self::Python | Self::Julia | Self::JavaScript => list("[", ", ", "]"),
            Self::R => list("list(", ", ", ")"),
            Self::Scala => list("Seq(", ", ", ")"),
            Self::Matlab => list("{", ", ", "}"),
            Self::CSharp => list("new [] { ", ", ", " }"),
            Self::FSharp => list("[ ", "; ", " ]"),
            Self::PowerShell => list("@(", ", ", ")"),
            Self::Bash => {
                if values
                    .iter()
                    .any(|value| matches!(value, ParamValue::List(_) | ParamValue::Map(_)))
                {
                    return Err("nested arrays are not supported");
                }
                list("(", " ", ")")
            }
            Self::Java => list("java.util.Arrays.asList(", ", ", ")"),
            Self::Rust => list("vec![", ", ", "]"),
        })
    }

    fn map(self, fields: &[(String, ParamValue)]) -> Result<String, &'static str> {
        let entries = fields
            .iter()
            .map(|(key, value)| Ok((self.text(key), self.value(value)?)))
            .collect::<Result<Vec<_>, &'static str>>()?;
        let map = |start: &str, assign: &str, between: &str, end: &str| {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{key}{assign}{value}"));
            format!("{start}{}{end}", entries.collect::<Vec<_>>().join(between))
        };
        Ok(match self {
            Self::Python | Self::JavaScript => map("{", ": ", ", ", "}"),
            Self::R => map("list(", " = ", ", ", ")"),
            Self::Scala => map("Map(", " -> ", ", ", ")"),
            Self::Julia => map("Dict(", " => ", ", ", ")"),
            Self::Matlab => {
                let keys: Vec<String> = fields
                    .iter()
                    .map(|(key, _)| format!("'{}'", escape_c(key, "").replace('\'', "''")))
                    .collect();
                let values: Vec<&str> = entries.iter().map(|(_, value)| value.as_str()).collect();
                format!(
                    "containers.Map({{{}}}, {{{}}})",
                    keys.join(", "),
                    values.join(", ")
                )
            }
            Self::CSharp => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{{ {key} , {value} }}"))
                    .collect();
                format!("new Dictionary<string,Object>{{ {} }}", entries.join(", "))
            }
            Self::FSharp => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("({key}, {value} :> IComparable)"))
                    .collect();
                format!("[ {} ] |> Map.ofList", entries.join("; "))
            }
            Self::PowerShell => map("@{", " = ", "\n ", "}"),
            Self::Java => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("java.util.Map.entry({key}, {value})"))
                    .collect();
                format!("java.util.Map.ofEntries({})", entries.join(", "))
            }
            Self::Rust => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("({key}, {value})"))
                    .collect();
                format!("std::collections::HashMap::from([{}])", entries.join(", "))
            }
            Self::Bash => return Err("nested arrays are not supported"),
        })
    }
}

/// A character as Python's `unicode_escape` writes it, and quotes escaped.
fn escape_python(c: char, to: &mut String) {
    match c {
        '\\' => to.push_str("\\\\"),
        '"' => to.push_str("\\\""),
        '\n' => to.push_str("\\n"),
        '\r' => to.push_str("\\r"),
        '\t' => to.push_str("\\t"),
        ' '..='~' => to.push(c),
        c => {
            let code = u32::from(c);
            let _ = match code {
                0..=0xff => write!(to, "\\x{code:02x}"),
                0x100..=0xffff => write!(to, "\\u{code:04x}"),
                _ => write!(to, "\\U{code:08x}"),
            };
        }
    }
}

/// Text inside double quotes, for languages with C's escapes; characters in `special` are escaped too.
fn escape_c(text: &str, special: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\\' | '"' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if special.contains(c) => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Python's `shlex.quote`.
fn shell_word(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(safe) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}
