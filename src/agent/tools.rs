//! The one tool a model has: `run_code`. Its schema, its arguments, and the code while it is being written.

use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::event::KernelOffer;
use crate::llm::types::ToolSpec;
use crate::session::sql;

/// The tool's name.
pub const RUN_CODE: &str = "run_code";

/// Names that models use for it regardless of instructions.
const ALIASES: [&str; 9] = [
    "functions.run_code",
    "functions.execute",
    "execute",
    "python",
    "run_python",
    "execute_code",
    "execute_python",
    "code_interpreter",
    "run",
];

/// Alternative names of languages, as models and people write them.
const OTHER_NAMES: [(&str, &[&str]); 6] = [
    ("python", &["py", "python3", "ipython"]),
    ("bash", &["sh", "shell"]),
    ("javascript", &["js", "node", "nodejs"]),
    ("typescript", &["ts", "deno"]),
    ("rust", &["rs"]),
    ("c++", &["cpp"]),
];

/// The description of SQL for a model.
const SQL: &str = " `sql` runs in DuckDB in the Python kernel, over files by path, data frames by name and attached databases; the \
                   result becomes the data frame `result`, or NAME if the code begins with the line `%%sql NAME`. Good for files \
                   larger than memory.";

/// Whether SQL is offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlOffer {
    /// It is, in the Python kernel.
    Offered,
    /// No kernel supports it, or the model is too small for a choice.
    None,
}

/// A parsed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The code.
    pub code: String,
    /// Its language; `None` is that of the main kernel.
    pub language: Option<String>,
}

/// The tool's specification; the first of `kernels` is the main one. With only one kernel, the language is not
/// mentioned.
pub fn run_code(kernels: &[KernelOffer], sql: SqlOffer) -> ToolSpec {
    let mut languages: Vec<&str> = kernels.iter().map(|offer| &*offer.language).collect();
    let main = languages.first().copied().unwrap_or_default();
    let mut description = format!(
        "Run a cell of {main} in the persistent Jupyter kernel. Returns what it prints, the last expression's value and \
         plots, which the user sees too."
    );
    let mut properties = json!({});
    if languages.len() > 1 {
        let _ = write!(
            description,
            " Other languages have kernels and variables of their own; pass data between them through files."
        );
    }
    if sql == SqlOffer::Offered {
        languages.push(sql::LANGUAGE);
        description.push_str(SQL);
    }
    if languages.len() > 1 {
        properties["language"] = json!({
            "type": "string",
            "enum": languages,
            "description": format!("{main} if left out"),
        });
    }
    // Models write arguments in this order: with the language first, code is shown under its own name from its first line.
    properties["code"] = json!({ "type": "string" });
    ToolSpec {
        name: RUN_CODE.to_owned(),
        description,
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": ["code"],
            "additionalProperties": false,
        }),
    }
}

/// The index in `kernels` of the one with this name or language.
pub fn find_language(asked: &str, kernels: &[KernelOffer]) -> Option<usize> {
    let asked = asked.trim();
    let is = |name: &str| name.eq_ignore_ascii_case(asked);
    let is_also = |language: &str| {
        OTHER_NAMES.iter().any(|(name, others)| {
            name.eq_ignore_ascii_case(language) && others.iter().any(|other| is(other))
        })
    };
    kernels
        .iter()
        .position(|offer| is(&offer.language))
        .or_else(|| kernels.iter().position(|offer| is(&offer.kernel)))
        .or_else(|| kernels.iter().position(|offer| is_also(&offer.language)))
}

/// Parses a complete call. Strict: a malformed call is answered, never run as something else. The first of `kernels` is
/// the main one.
///
/// # Errors
/// A message for the model.
pub fn parse(name: &str, arguments: &str, kernels: &[KernelOffer]) -> Result<Parsed, String> {
    #[derive(Deserialize)]
    struct Arguments {
        code: String,
        language: Option<String>,
    }
    if name != RUN_CODE && !ALIASES.contains(&name) {
        return Err(format!("there is no tool `{name}`, only `{RUN_CODE}`"));
    }
    let parsed: Arguments = serde_json::from_str(arguments).map_err(|error| {
        format!("the arguments are not valid JSON with a string `code`: {error}. Call `{RUN_CODE}` again")
    })?;
    if parsed.code.trim().is_empty() {
        return Err(format!("`code` is empty. Call `{RUN_CODE}` again"));
    }
    let code = parsed.code;
    let asked = parsed.language;
    let python = find_language("python", kernels);
    if let Some(index) = python
        && asked
            .as_deref()
            .is_some_and(|it| it.trim().eq_ignore_ascii_case(sql::LANGUAGE))
        && find_language(sql::LANGUAGE, kernels).is_none()
    {
        return Ok(Parsed {
            code: sql::cell(&code),
            language: other_language(kernels, index),
        });
    }
    let Some(asked) = asked else {
        return Ok(Parsed {
            code,
            language: None,
        });
    };
    let Some(index) = find_language(&asked, kernels) else {
        let known: Vec<&str> = kernels.iter().map(|offer| &*offer.language).collect();
        return Err(format!(
            "there is no kernel for {asked:?}, only for {}. Call `{RUN_CODE}` again",
            known.join(", ")
        ));
    };
    Ok(Parsed {
        code,
        language: other_language(kernels, index),
    })
}

/// The kernel's language, unless it is the main one.
fn other_language(kernels: &[KernelOffer], index: usize) -> Option<String> {
    let other = kernels.get(index).filter(|_| index > 0);
    other.map(|offer| offer.language.clone())
}

/// A call that is still being written, as far as it is certain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partial {
    /// The beginning of the code that [`parse`] will find, if it finds any.
    pub code: String,
    /// The language, as the model names it, where that stands before the code.
    pub language: Option<String>,
}

/// Reads the beginning of a call's arguments.
pub fn partial(arguments: &str) -> Partial {
    let mut language = None;
    let code = code_value(arguments, &mut language).map(unescaped);
    let code = code.unwrap_or_default();
    Partial { code, language }
}

/// What follows the quote that begins the value of `code`, and the `language` before it. Only the call's own fields are meant,
/// not those inside of another.
fn code_value<'a>(arguments: &'a str, language: &mut Option<String>) -> Option<&'a str> {
    let mut rest = arguments.trim_start().strip_prefix('{')?;
    loop {
        let (key, after) = next_value::<String>(rest)?;
        let value = after.trim_start().strip_prefix(':')?;
        if key == "code" {
            return value.trim_start().strip_prefix('"');
        }
        let after = if key == "language" {
            let (named, after) = next_value(value)?;
            *language = named;
            after
        } else {
            next_value::<IgnoredAny>(value)?.1
        };
        rest = after.trim_start().strip_prefix(',')?;
    }
}

/// The JSON value at the start of `text`, and the text after it.
fn next_value<'a, T: Deserialize<'a>>(text: &'a str) -> Option<(T, &'a str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next()?.ok()?;
    Some((value, text.get(values.byte_offset()..)?))
}

/// Unescapes a JSON string up to its closing quote, or as far as it is valid.
fn unescaped(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' | '\0'..'\u{20}' => break,
            '\\' => {
                // A character outside the basic plane takes two escapes.
                let escape = [2, 6, 12]
                    .into_iter()
                    .find_map(|length| Some((length, decode(rest.get(..length)?)?)));
                let Some((length, escape)) = escape else {
                    break;
                };
                text.push_str(&escape);
                length
            }
            c => {
                text.push(c);
                c.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    text
}

fn decode(json_string_body: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{json_string_body}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(kernels: &[(&str, &str)]) -> Vec<KernelOffer> {
        kernels
            .iter()
            .map(|&(kernel, language)| KernelOffer {
                kernel: kernel.to_owned(),
                language: language.to_owned(),
            })
            .collect()
    }

    fn parsed(code: &str, language: Option<&str>) -> Parsed {
        Parsed {
            code: code.to_owned(),
            language: language.map(str::to_owned),
        }
    }

    #[test]
    fn only_whole_calls_run() {
        let one = offers(&[("python3", "python")]);
        assert_eq!(
            parse(RUN_CODE, r#"{"code": "1+1"}"#, &one),
            Ok(parsed("1+1", None))
        );
        assert_eq!(
            parse("python", r#"{"code": "1", "language": "Python"}"#, &one),
            Ok(parsed("1", None))
        );
        for (name, arguments, words) in [
            (RUN_CODE, r#"{"code": ""#, "not valid JSON"),
            (RUN_CODE, "", "not valid JSON"),
            (RUN_CODE, r#"{"cod": "1"}"#, "missing field `code`"),
            (RUN_CODE, r#"{"code": 7}"#, "expected a string"),
            (RUN_CODE, r#"{"code": " \n"}"#, "`code` is empty"),
            (
                RUN_CODE,
                r#"{"code": "1", "language": 7}"#,
                "expected a string",
            ),
            ("shell", r#"{"code": "1"}"#, "there is no tool `shell`"),
        ] {
            let error = parse(name, arguments, &one).unwrap_err();
            assert!(error.contains(words), "{arguments}: {error}");
        }
    }

    #[test]
    fn a_language_picks_a_kernel_that_is_there() {
        let kernels = offers(&[("python3", "python"), ("bash", "bash"), ("ir", "R")]);
        let call = |language: &str| {
            let arguments = json!({ "code": "1", "language": language }).to_string();
            parse(RUN_CODE, &arguments, &kernels)
        };
        for (asked, language) in [
            ("python", None),
            ("py", None),
            ("python3", None),
            ("bash", Some("bash")),
            ("sh", Some("bash")),
            ("r", Some("R")),
            ("ir", Some("R")),
        ] {
            assert_eq!(call(asked), Ok(parsed("1", language)), "{asked}");
        }
        assert_eq!(
            call("julia"),
            Err(
                "there is no kernel for \"julia\", only for python, bash, R. Call `run_code` again"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_choice_is_offered_only_where_there_is_one() {
        let one = run_code(&offers(&[("python3", "python")]), SqlOffer::None);
        assert_eq!(
            one.parameters["properties"],
            json!({ "code": { "type": "string" } })
        );
        assert!(!one.description.contains("language"), "{}", one.description);
        let two = run_code(
            &offers(&[("python3", "python"), ("bash", "bash")]),
            SqlOffer::None,
        );
        assert_eq!(
            two.parameters["properties"]["language"]["enum"],
            json!(["python", "bash"])
        );
        assert_eq!(two.parameters["required"], json!(["code"]));
        let sql = run_code(&offers(&[("python3", "python")]), SqlOffer::Offered);
        assert_eq!(
            sql.parameters["properties"]["language"]["enum"],
            json!(["python", "sql"])
        );
        assert!(
            sql.description.contains("`%%sql NAME`"),
            "{}",
            sql.description
        );
    }

    #[test]
    fn sql_is_a_cell_of_the_python_kernel() {
        let call = |kernels: &[(&str, &str)], code: &str| {
            let arguments = json!({ "code": code, "language": "SQL" }).to_string();
            parse(RUN_CODE, &arguments, &offers(kernels))
        };
        let python = ("python3", "python");
        assert_eq!(
            call(&[python], "SELECT 1"),
            Ok(parsed("%%sql\nSELECT 1", None))
        );
        assert_eq!(
            call(&[("ir", "R"), python], "%%sql x\nSELECT 1"),
            Ok(parsed("%%sql x\nSELECT 1", Some("python")))
        );
        assert!(call(&[("ir", "R")], "SELECT 1").is_err());
    }

    #[test]
    fn code_shows_while_it_is_written() {
        let whole = r#"{"code": "a = \"é\"\nprint(\ud83d\ude00)", "x": 1}"#;
        let code = "a = \"é\"\nprint(\u{1f600})";
        let mut seen = String::new();
        for end in (0..=whole.len()).filter(|&end| whole.is_char_boundary(end)) {
            let partial = partial(&whole[..end]).code;
            assert!(code.starts_with(&partial), "{partial:?}");
            assert!(partial.len() >= seen.len(), "{partial:?} after {seen:?}");
            seen = partial;
        }
        assert_eq!(seen, code);
    }

    #[test]
    fn only_the_call_s_own_code_shows() {
        for (arguments, code) in [
            (r#"{"a": {"code": "no"}, "code": "yes"#, "yes"),
            (r#"{"a": "\"code\": \"no", "c\u006fde": "yes"}"#, "yes"),
            (r#"{"a": {"code": "no"#, ""),
            (r#"["code", {"code": "no"}]"#, ""),
            (r#"{"code": "yes\ud83d no, for this is no character"#, "yes"),
            (r#"{"code": 7, "code": "no"}"#, ""),
        ] {
            assert_eq!(partial(arguments).code, code, "{arguments}");
        }
    }

    #[test]
    fn the_language_is_known_where_it_stands_before_the_code() {
        for (arguments, language) in [
            (r#"{"language": "R", "code": "x"#, Some("R")),
            (r#"{"language": "R"#, None),
            (r#"{"code": "x", "language": "R"}"#, None),
            (r#"{"a": {"language": "R"}, "code": "x"#, None),
            (r#"{"language": null, "code": "x"#, None),
            (r#"{"language": 7, "code": "x"#, None),
        ] {
            assert_eq!(
                partial(arguments).language.as_deref(),
                language,
                "{arguments}"
            );
        }
    }
}
