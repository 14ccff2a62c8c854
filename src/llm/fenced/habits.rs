//! What models write instead of the requested format: calls as text, tags from their training, code without a fence.
//!
//! Such markers are rewritten into fences before parsing, so that one parser handles all of them. The list comes from
//! reports about other programs and from our own experiments (`docs/modes.md`).

use serde_json::Value;

use super::info::MARKED_CALL;

/// A fence that does not occur in code.
const FENCE: &str = "~~~~~~~~~~";

/// A call found in text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// The tool, if the text names one.
    pub(super) name: Option<String>,
    /// Its arguments as JSON, or the raw text in their place.
    pub(super) arguments: String,
}

/// Tags around code, with their closing tags.
const CODE_TAGS: [(&str, &str); 5] = [
    ("<execute_python>", "</execute_python>"),
    ("<execute>", "</execute>"),
    ("<python>", "</python>"),
    ("<code>", "</code>"),
    ("<run_code>", "</run_code>"),
];

/// Markers that end a block opened by a marker.
const ENDS: [&str; 10] = [
    "</tool_call>",
    "</function>",
    "</execute_python>",
    "</execute>",
    "</python>",
    "</code>",
    "</run_code>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
];

/// Prefixes of a call written as an expression.
const CALLED: [&str; 5] = [
    "functions.run_code(",
    "functions.execute(",
    "functions.python(",
    "run_code(",
    "execute(",
];

/// Whether a line may be a marker. Ask [`mend`] about it before showing any of it.
pub(super) fn may_be_mark(line: &str) -> bool {
    let line = line.trim_start();
    matches!(line.chars().next(), Some('<' | '[' | '`' | 'f' | 'r' | 'e'))
        && (line.starts_with(['<', '[', '`']) || CALLED.iter().any(|call| begins(line, call)))
}

/// Whether either string starts with the other.
fn begins(line: &str, mark: &str) -> bool {
    line.starts_with(mark) || mark.starts_with(line.trim_end())
}

/// Rewrites a whole line outside blocks, if it is a marker, into fences; otherwise `None`.
pub(super) fn mend(line: &str) -> Option<String> {
    let text = line.trim();
    if let Some(rest) = text.strip_prefix("<tool_call>") {
        return Some(fenced(MARKED_CALL, rest, "</tool_call>"));
    }
    if let Some(rest) = text.strip_prefix("[TOOL_CALLS]") {
        return Some(fenced(MARKED_CALL, rest, "\n"));
    }
    if text.starts_with("<function=") {
        return Some(fenced(MARKED_CALL, text, "</function>"));
    }
    if let Some(rest) = text.strip_prefix("<|python_tag|>") {
        let info = if rest.trim_start().starts_with('{') {
            MARKED_CALL
        } else {
            "python"
        };
        return Some(fenced(info, rest, "<|e"));
    }
    for (tag, end) in CODE_TAGS {
        if let Some(rest) = text.strip_prefix(tag) {
            // Within a line a tag may be ordinary HTML.
            if rest.is_empty() || rest.ends_with(end) {
                return Some(fenced("tool_code", rest, end));
            }
        }
    }
    if CALLED.iter().any(|call| text.starts_with(call)) && text.ends_with(')') {
        return Some(fenced(MARKED_CALL, text, "\n"));
    }
    match text {
        // A stray closing marker.
        text if ENDS.contains(&text) => Some(String::new()),
        "`python" | "``python" | "`py" | "``py" => Some(format!("{FENCE}python\n")),
        _ => None,
    }
}

/// Rewrites the line that ends a block opened by [`mend`] into a fence; `None` if it is code.
pub(super) fn end(line: &str) -> Option<String> {
    let text = line.trim_end();
    if matches!(text, "`" | "``" | "```") {
        return Some(format!("{FENCE}\n"));
    }
    let at = ENDS.iter().filter_map(|end| text.find(end)).min()?;
    // Text after the marker is dropped: it belongs to the same format.
    let before = text.get(..at).unwrap_or_default();
    let separator = if before.is_empty() { "" } else { "\n" };
    Some(format!("{before}{separator}{FENCE}\n"))
}

/// Whether [`mend`] opened `block`, given as it appears in the text.
pub(super) fn is_mended(block: &str) -> bool {
    block.starts_with(FENCE)
}

/// Opens a block with `rest`, and closes it if `rest` contains `end`.
fn fenced(info: &str, rest: &str, end: &str) -> String {
    let (body, closed) = match rest.split_once(end) {
        Some((body, _)) => (body, true),
        None => (rest, end == "\n"),
    };
    let body = body.trim();
    let mut text = format!("{FENCE}{info}\n");
    if !body.is_empty() {
        text.push_str(body);
        text.push('\n');
    }
    if closed {
        text.push_str(FENCE);
        text.push('\n');
    }
    text
}

/// The calls in a block that may contain some; `None` if it contains anything else.
pub(super) fn calls(text: &str) -> Option<Vec<Written>> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("<function=") {
        return Some(vec![tagged(rest)]);
    }
    if let Some(call) = CALLED.iter().find_map(|call| text.strip_prefix(call)) {
        return Some(vec![expression(call)]);
    }
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(values) => {
                for value in &values {
                    found.push(call(value)?);
                }
            }
            value => found.push(call(&value)?),
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Parses a call from JSON, in the shapes that models write.
fn call(value: &Value) -> Option<Written> {
    let object = value.as_object()?;
    if object.get("code").is_some_and(Value::is_string) {
        return Some(Written {
            name: None,
            arguments: value.to_string(),
        });
    }
    if let Some(inner) = object.get("function").filter(|inner| inner.is_object()) {
        return call(inner);
    }
    let name = ["name", "tool", "function"]
        .iter()
        .find_map(|key| object.get(*key)?.as_str())?;
    let arguments = ["arguments", "parameters", "input", "args"]
        .iter()
        .find_map(|key| object.get(*key))?;
    Some(Written {
        name: Some(name.to_owned()),
        arguments: match arguments {
            // Some write the object as a string, as wires do.
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
    })
}

/// `run_code><parameter=code>...</parameter>`, or with JSON instead of parameters.
fn tagged(text: &str) -> Written {
    let (name, rest) = text.split_once('>').unwrap_or((text, ""));
    let name = Some(name.trim().to_owned());
    let rest = rest.trim();
    if rest.starts_with('{') {
        let arguments = rest.trim_end_matches("</function>").trim().to_owned();
        return Written { name, arguments };
    }
    let mut object = serde_json::Map::new();
    for part in rest.split("<parameter=").skip(1) {
        let Some((key, value)) = part.split_once('>') else {
            continue;
        };
        let value = value.split("</parameter>").next().unwrap_or_default();
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        object.insert(key.trim().to_owned(), value.into());
    }
    Written {
        name,
        arguments: Value::Object(object).to_string(),
    }
}

/// `{"code": "..."})`, `code="...")` or `"...")`.
fn expression(text: &str) -> Written {
    let inside = text.trim_end().trim_end_matches(')').trim();
    let value = inside
        .strip_prefix("code")
        .map_or(inside, |rest| rest.trim_start().trim_start_matches('='))
        .trim();
    let arguments = match serde_json::from_str::<Value>(value) {
        Ok(Value::String(code)) => serde_json::json!({ "code": code }).to_string(),
        _ => inside.to_owned(),
    };
    Written {
        name: None,
        arguments,
    }
}

/// Whether a line outside blocks is a Python import.
pub(super) fn is_import(line: &str) -> bool {
    let module = |word: Option<&str>| {
        word.is_some_and(|word| {
            !word.is_empty()
                && word
                    .trim_end_matches(',')
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
        })
    };
    let mut words = line.split_whitespace();
    if line.starts_with(char::is_whitespace) {
        return false;
    }
    match words.next() {
        Some("import") => {
            module(words.next())
                && words
                    .next()
                    .is_none_or(|word| matches!(word, "as") || module(Some(word)))
                && !line.trim_end().ends_with(['.', ':', '!'])
        }
        Some("from") => {
            module(words.next()) && words.next() == Some("import") && words.next().is_some()
        }
        _ => false,
    }
}

/// Where code without a fence ends and text resumes: the first line of text after a blank one.
pub(super) fn end_of_code(text: &str) -> usize {
    let mut at = 0;
    let mut after_blank = false;
    for line in text.split_inclusive('\n') {
        if after_blank && is_prose(line) {
            return at;
        }
        after_blank = line.trim().is_empty();
        at += line.len();
    }
    at
}

fn is_prose(line: &str) -> bool {
    let text = line.trim();
    let starts = line.starts_with(|c: char| c.is_uppercase() || c == '*');
    let is_code =
        text.contains(['=', '[', '{', '#', '"']) || text.contains('(') && !text.contains(" (");
    starts
        && text.split_whitespace().count() >= 3
        && (!is_code || text.ends_with(['.', ':', '?', '!']))
}

/// Whether a line of text announces an output.
pub(super) fn announces_output(line: &str) -> bool {
    const LAST: [&str; 16] = [
        "output",
        "outputs",
        "result",
        "results",
        "prints",
        "print",
        "printed",
        "returns",
        "gives",
        "yields",
        "traceback",
        "error",
        "be",
        "this",
        "follows",
        "stdout",
    ];
    const ABOUT: [&str; 6] = ["output", "result", "print", "look", "error", "return"];
    let text = line
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '#' | ':' | '.'))
        .to_lowercase();
    let last = text.split_whitespace().next_back().unwrap_or_default();
    LAST.contains(&last) && ABOUT.iter().any(|about| text.contains(about))
}

/// Whether a line right after code starts an invented output.
pub(super) fn makes_up_output(line: &str) -> bool {
    const STARTS: [&str; 10] = [
        "output:",
        "outputs:",
        "expected output:",
        "observation:",
        "result:",
        "results:",
        "execution result:",
        "stdout:",
        "<tool_response>",
        "<|im_start|>",
    ];
    let text = line
        .trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '#'))
        .to_lowercase();
    STARTS.iter().any(|start| {
        text.strip_prefix(start).is_some()
            // `**Output**:` and similar.
            || text.replace(['*', '_'], "").starts_with(start)
    })
}

/// Whether the content of a block without a language is code.
pub(super) fn looks_like_code(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let Some(first) = first else { return false };
    let is_transcript = ["$ ", "% ", ">>> ", "In [", "Out[", "Traceback (most recent"]
        .iter()
        .any(|start| first.starts_with(start));
    !is_transcript
        && text.lines().any(|line| {
            line.contains(['=', '(', '[', '{'])
                || is_import(line)
                || line.split_whitespace().count() == 1 && line.trim().parse::<f64>().is_err()
        })
}

/// Whether shell text is a script rather than a transcript.
pub(super) fn is_script(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.is_some_and(|first| {
        !["$ ", "% ", "# $", "> "]
            .iter()
            .any(|start| first.starts_with(start))
    })
}

/// Width of a line's leading white space.
pub(super) fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Offset of the import lines at the end of `text`.
pub(super) fn imports_at_end(text: &str) -> usize {
    let mut start = text.len();
    let mut at = text.len();
    for line in text.split_inclusive('\n').rev() {
        at -= line.len();
        if is_import(line) {
            start = at;
        } else if !line.trim().is_empty() {
            break;
        }
    }
    start
}

/// Offset of the first import line in `text`.
pub(super) fn first_import(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_import(line) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: Option<&str>, arguments: &str) -> Vec<Written> {
        vec![Written {
            name: name.map(str::to_owned),
            arguments: arguments.to_owned(),
        }]
    }

    #[test]
    fn calls_are_known_in_many_shapes() {
        let code = r#"{"code":"print(1)"}"#;
        let named = Some(written(Some("run_code"), code));
        for (text, expected) in [
            (
                r#"{"name": "run_code", "arguments": {"code": "print(1)"}}"#,
                named.clone(),
            ),
            (
                r#"{"name": "run_code", "parameters": {"code": "print(1)"}}"#,
                named.clone(),
            ),
            (
                r#"{"type": "function", "function": {"name": "run_code", "arguments": "{\"code\":\"print(1)\"}"}}"#,
                named.clone(),
            ),
            (
                r#"[{"name": "run_code", "arguments": {"code": "print(1)"}}]"#,
                named.clone(),
            ),
            (r#"{"code": "print(1)"}"#, Some(written(None, code))),
            (
                r#"{"language": "python", "code": "print(1)"}"#,
                Some(written(None, r#"{"language":"python","code":"print(1)"}"#)),
            ),
            (
                "<function=run_code>\n<parameter=code>\nprint(1)\n</parameter>\n</function>",
                named.clone(),
            ),
            (
                "<function=run_code>{\"code\":\"print(1)\"}</function>",
                named,
            ),
            (
                "functions.run_code({\"code\": \"print(1)\"})",
                Some(written(None, r#"{"code": "print(1)"}"#)),
            ),
            ("execute(\"print(1)\")", Some(written(None, code))),
            ("run_code(code=\"print(1)\")", Some(written(None, code))),
            // Data, not a call.
            (r#"{"name": "Ada", "age": 36}"#, None),
            (r"[1, 2]", None),
            (r#"{"code": 7}"#, None),
            ("print(1)", None),
            ("", None),
        ] {
            assert_eq!(calls(text), expected, "{text}");
        }
        let two = "{\"name\": \"a\", \"arguments\": {}}\n{\"name\": \"b\", \"arguments\": {}}";
        assert_eq!(calls(two).unwrap().len(), 2);
    }

    #[test]
    fn marks_become_fences() {
        for (line, expected) in [
            ("<tool_call>\n", "~~~~~~~~~~tool_call\n"),
            (
                "<tool_call>{\"a\": 1}</tool_call>\n",
                "~~~~~~~~~~tool_call\n{\"a\": 1}\n~~~~~~~~~~\n",
            ),
            (
                "[TOOL_CALLS][{\"a\": 1}]\n",
                "~~~~~~~~~~tool_call\n[{\"a\": 1}]\n~~~~~~~~~~\n",
            ),
            ("<|python_tag|>print(1)\n", "~~~~~~~~~~python\nprint(1)\n"),
            (
                "<|python_tag|>{\"name\": 1}<|eom_id|>\n",
                "~~~~~~~~~~tool_call\n{\"name\": 1}\n~~~~~~~~~~\n",
            ),
            ("<execute>\n", "~~~~~~~~~~tool_code\n"),
            (
                "functions.execute({\"code\": \"1\"})\n",
                "~~~~~~~~~~tool_call\nfunctions.execute({\"code\": \"1\"})\n~~~~~~~~~~\n",
            ),
            ("`python\n", "~~~~~~~~~~python\n"),
        ] {
            assert!(may_be_mark(line), "{line}");
            assert_eq!(mend(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "<details>\n",
            "```python\n",
            "[link](x)\n",
            "`x` is\n",
            "<code>x</code> is\n",
            "for a\n",
        ] {
            assert_eq!(mend(line), None, "{line}");
        }
        assert_eq!(end("</tool_call>\n").as_deref(), Some("~~~~~~~~~~\n"));
        assert_eq!(end("x</tool_call> y\n").as_deref(), Some("x\n~~~~~~~~~~\n"));
        assert_eq!(end("x\n"), None);
    }

    #[test]
    fn words_are_told_from_code() {
        for (line, expected) in [
            ("import pandas as pd", true),
            ("import os, sys", true),
            ("from a.b import c", true),
            ("import taxes rose.", false),
            ("from the start", false),
            ("    import x", false),
            ("imports grew", false),
        ] {
            assert_eq!(is_import(line), expected, "{line}");
        }
        let text = "import x\n\ny = x.f()\nprint(y)\n\nThis prints the mean of y.\n";
        assert_eq!(
            &text[..end_of_code(text)],
            "import x\n\ny = x.f()\nprint(y)\n\n"
        );
        for (line, expected) in [
            ("Output:", true),
            ("**Expected output**:", true),
            ("This will print:", true),
            ("The result would be:", true),
            ("Here is the code to output the mean:", false),
            ("Now run this:", false),
        ] {
            assert_eq!(announces_output(line), expected, "{line}");
        }
        assert!(makes_up_output("**Output:** 391"));
        assert!(makes_up_output("**Output**: 391"));
        assert!(!makes_up_output("The output follows."));
        for (text, expected) in [
            ("x = 1\n", true),
            ("df\n", true),
            ("391\n", false),
            ("   a  b\n0  1  2\n", false),
            ("$ pip install x\n", false),
            (">>> 1 + 1\n2\n", false),
            ("Traceback (most recent call last):\n  f(x)\n", false),
            ("", false),
        ] {
            assert_eq!(looks_like_code(text), expected, "{text}");
        }
    }
}
