//! The one tool a model has: `run_code`. Its schema, its arguments, and the code while it is being written.

use serde::Deserialize;
use serde_json::json;

use crate::llm::types::ToolSpec;

/// The tool's name.
pub const RUN_CODE: &str = "run_code";

/// Names that models use for it although they were told otherwise.
const ALIASES: [&str; 5] = [
    "functions.run_code",
    "execute",
    "python",
    "run_python",
    "execute_code",
];

/// The tool as a model sees it.
pub fn run_code(language: &str) -> ToolSpec {
    ToolSpec {
        name: RUN_CODE.to_owned(),
        description: format!(
            "Run {language} code in a persistent Jupyter kernel. Variables and imports persist between calls. \
             Returns stdout, stderr, the value of the last expression, and plots; plots are also shown to the user. \
             Print the values that you need."
        ),
        parameters: json!({
            "type": "object",
            "properties": { "code": { "type": "string", "description": "The code of one cell" } },
            "required": ["code"],
            "additionalProperties": false,
        }),
    }
}

/// The code of a complete call, or why it is none. Strict: a broken call is answered, never run as something else.
///
/// # Errors
/// A sentence for the model.
pub fn parse(name: &str, arguments: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Arguments {
        code: String,
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
    Ok(parsed.code)
}

/// The code in arguments that are still being written, as far as it is certain.
pub fn partial_code(arguments: &str) -> String {
    let Some((_, after)) = arguments.split_once("\"code\"") else {
        return String::new();
    };
    let Some(body) = after.trim_start().strip_prefix(':').map(str::trim_start) else {
        return String::new();
    };
    let Some(body) = body.strip_prefix('"') else {
        return String::new();
    };
    let mut end = 0;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            '"' if !escaped => {
                return decode(&body[..at]).unwrap_or_default();
            }
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
        end = at + c.len_utf8();
    }
    // The last escape may be half written; a `\uXXXX` pair is at most 12 characters.
    (0..=12.min(end))
        .filter_map(|back| body.get(..end - back))
        .find_map(decode)
        .unwrap_or_default()
}

fn decode(json_string_body: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{json_string_body}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_calls_run() {
        assert_eq!(parse(RUN_CODE, r#"{"code": "1+1"}"#), Ok("1+1".to_owned()));
        assert_eq!(
            parse("python", r#"{"code": "1", "language": "python"}"#),
            Ok("1".to_owned())
        );
        for (name, arguments, words) in [
            (RUN_CODE, r#"{"code": ""#, "not valid JSON"),
            (RUN_CODE, "", "not valid JSON"),
            (RUN_CODE, r#"{"cod": "1"}"#, "missing field `code`"),
            (RUN_CODE, r#"{"code": 7}"#, "expected a string"),
            (RUN_CODE, r#"{"code": " \n"}"#, "`code` is empty"),
            ("shell", r#"{"code": "1"}"#, "there is no tool `shell`"),
        ] {
            let error = parse(name, arguments).unwrap_err();
            assert!(error.contains(words), "{arguments}: {error}");
        }
    }

    #[test]
    fn code_shows_while_it_is_written() {
        let whole = r#"{"code": "a = \"é\"\nprint(\ud83d\ude00)", "x": 1}"#;
        let code = "a = \"é\"\nprint(\u{1f600})";
        let mut seen = String::new();
        for end in (0..=whole.len()).filter(|&end| whole.is_char_boundary(end)) {
            let partial = partial_code(&whole[..end]);
            assert!(code.starts_with(&partial), "{partial:?}");
            assert!(partial.len() >= seen.len(), "{partial:?} after {seen:?}");
            seen = partial;
        }
        assert_eq!(seen, code);
    }
}
