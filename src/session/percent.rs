//! Reads scripts in percent format (`# %%`), as written by jupytext, VS Code and Spyder, as cells.
//!
//! Supported: cell markers with a title, `[markdown]`, `[raw]` and metadata (`tags=["a"]`, or a JSON object),
//! nbconvert's `# In[3]:`, Markdown as comments or as a string in triple quotes, commented magics (`# %matplotlib
//! inline`, `# !ls`), `language="bash"`, and a YAML header, of which only the kernelspec is used.
//!
//! Not here: writing the format (`sponde export`), and jupytext's other formats.

use serde_json::{Map, Value, json};

use super::parameters::{ParamValue, parse_yaml};
use crate::jupyter::nbformat::Cell;

/// A script as cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// `kernelspec` of the header.
    pub kernelspec: Option<Map<String, Value>>,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// A marker line.
struct Marker {
    kind: CellMarker,
    metadata: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CellMarker {
    Code,
    Markdown,
    Raw,
}

/// The comment marker for files with this extension; `None` if unknown.
pub fn comment_of(extension: &str) -> Option<&'static str> {
    Some(match extension.to_ascii_lowercase().as_str() {
        "py" | "r" | "jl" | "sh" | "bash" | "zsh" | "rb" | "pl" | "ps1" | "gnuplot" | "gp"
        | "coco" | "tcl" | "q" => "#",
        "js" | "mjs" | "ts" | "mts" | "java" | "rs" | "scala" | "sc" | "cpp" | "cc" | "cs"
        | "fs" | "fsx" | "go" | "kt" | "kts" | "swift" | "groovy" => "//",
        "sql" | "lua" | "hs" => "--",
        "m" => "%",
        "clj" | "scm" | "ss" => ";",
        _ => return None,
    })
}

/// The language for this file extension, as kernelspecs name it.
pub fn language_of(extension: &str) -> Option<&'static str> {
    Some(match extension.to_ascii_lowercase().as_str() {
        "py" => "python",
        "r" => "r",
        "jl" => "julia",
        "sh" | "bash" => "bash",
        "js" | "mjs" => "javascript",
        "ts" | "mts" => "typescript",
        "java" => "java",
        "rs" => "rust",
        "scala" | "sc" => "scala",
        "gnuplot" | "gp" => "gnuplot",
        "rb" => "ruby",
        "cs" => "c#",
        "fs" | "fsx" => "f#",
        "ps1" => "powershell",
        "go" => "go",
        "kt" | "kts" => "kotlin",
        "sql" => "sql",
        "m" => "octave",
        _ => return None,
    })
}

/// The cells of `text`, if it has a marker or a jupytext header. `has_kernel` tells whether a language has a kernel;
/// cells in other languages become cell magics.
pub fn parse(
    text: &str,
    comment: &str,
    new_id: &mut dyn FnMut() -> String,
    has_kernel: &dyn Fn(&str) -> bool,
) -> Option<Script> {
    let lines: Vec<&str> = text.lines().collect();
    let (kernelspec, rest) = header(&lines, comment);
    let marked = rest.iter().any(|line| marker(line, comment).is_some());
    if !marked && kernelspec.is_none() {
        return None;
    }
    let mut cells = Vec::new();
    let mut open: Option<Marker> = None;
    let mut body: Vec<&str> = Vec::new();
    for line in rest {
        match marker(line, comment) {
            Some(next) => {
                cells.extend(cell(open.as_ref(), &body, comment, new_id, has_kernel));
                open = Some(next);
                body.clear();
            }
            None => body.push(line),
        }
    }
    cells.extend(cell(open.as_ref(), &body, comment, new_id, has_kernel));
    Some(Script { kernelspec, cells })
}

/// The kernelspec of the header, and the lines after it.
fn header<'a>(lines: &'a [&'a str], comment: &str) -> (Option<Map<String, Value>>, &'a [&'a str]) {
    let uncommented = |line: &str| uncomment(line, comment).map(str::to_owned);
    let begins = lines.iter().position(|line| {
        let text = line.trim();
        !(text.is_empty() || text.starts_with("#!") || text.contains("coding:"))
    });
    let Some(begins) = begins
        .filter(|&at| lines.get(at).and_then(|line| uncommented(line)).as_deref() == Some("---"))
    else {
        return (None, lines);
    };
    let inside = lines.get(begins + 1..).unwrap_or_default();
    let Some(length) = inside
        .iter()
        .position(|line| uncommented(line).as_deref() == Some("---"))
    else {
        return (None, lines);
    };
    let yaml: Option<Vec<String>> = inside
        .iter()
        .take(length)
        .map(|line| uncommented(line))
        .collect();
    let rest = inside.get(length + 1..).unwrap_or_default();
    let Some(header) = yaml.and_then(|yaml| parse_yaml(&yaml.join("\n")).ok()) else {
        return (None, lines);
    };
    let kernelspec = field(&header, "jupyter")
        .and_then(|jupyter| field(jupyter, "kernelspec"))
        .map(ParamValue::to_json);
    match kernelspec {
        Some(Value::Object(kernelspec)) => (Some(kernelspec), rest),
        _ => (None, rest),
    }
}

fn field<'a>(value: &'a ParamValue, name: &str) -> Option<&'a ParamValue> {
    let ParamValue::Map(fields) = value else {
        return None;
    };
    fields
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value)
}

/// A comment without its marker and one space; `None` for other lines.
fn uncomment<'a>(line: &'a str, comment: &str) -> Option<&'a str> {
    let text = line.strip_prefix(comment)?;
    Some(text.strip_prefix(' ').unwrap_or(text).trim_end())
}

fn marker(line: &str, comment: &str) -> Option<Marker> {
    let text = line.strip_prefix(comment)?.trim();
    let code = |metadata| Marker {
        kind: CellMarker::Code,
        metadata,
    };
    if let Some(number) = text.strip_prefix("In[") {
        let number = number
            .strip_suffix(':')
            .unwrap_or(number)
            .strip_suffix(']')?;
        let digits = number.chars().all(|c| c.is_ascii_digit() || c == ' ');
        return digits.then(|| code(Map::new()));
    }
    let text = text.strip_prefix("%%")?;
    let options = text.trim_start_matches('%');
    if options.starts_with(|c: char| !c.is_whitespace()) {
        // `%%time` is a magic.
        return None;
    }
    let options = options.trim();
    let (kind, after) = [
        ("[markdown]", CellMarker::Markdown),
        ("[md]", CellMarker::Markdown),
        ("[raw]", CellMarker::Raw),
    ]
    .into_iter()
    .find_map(|(word, kind)| Some((kind, options.split_once(word)?.1)))
    .unwrap_or((CellMarker::Code, options));
    Some(Marker {
        kind,
        metadata: metadata(after),
    })
}

/// Metadata after a title: `tags=["a"] name="b"`, or a JSON object.
fn metadata(text: &str) -> Map<String, Value> {
    if let Some(at) = text.find('{')
        && !text.get(..at).unwrap_or_default().contains('=')
        && let Ok(Value::Object(object)) = serde_json::from_str(text.get(at..).unwrap_or_default())
    {
        return object;
    }
    let mut found = Map::new();
    let mut rest = text;
    while let Some(at) = rest.find('=') {
        let (before, after) = (
            rest.get(..at).unwrap_or_default(),
            rest.get(at + 1..).unwrap_or_default(),
        );
        let key = before
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) if !key.is_empty() => {
                rest = after.get(values.byte_offset()..).unwrap_or_default();
                found.insert(key.to_owned(), value);
            }
            _ => rest = after,
        }
    }
    found
}

/// A cell of these lines; `None` if there is nothing before the first marker.
fn cell(
    marker: Option<&Marker>,
    body: &[&str],
    comment: &str,
    new_id: &mut dyn FnMut() -> String,
    has_kernel: &dyn Fn(&str) -> bool,
) -> Option<Cell> {
    let first = body.iter().position(|line| !line.trim().is_empty());
    let last = body.iter().rposition(|line| !line.trim().is_empty());
    let body = match (first, last) {
        (Some(first), Some(last)) => body.get(first..=last).unwrap_or_default(),
        _ => &[],
    };
    let is_remark = |line: &&str| {
        let line = line.trim();
        line.is_empty()
            || line.starts_with("#!")
            || (line.starts_with('#') && line.contains("coding"))
    };
    let Some(marker) = marker else {
        let only_remarks = body.iter().all(is_remark);
        return (!only_remarks).then(|| Cell::code(new_id(), magics(body, comment)));
    };
    let mut metadata = marker.metadata.clone();
    let mut cell = match marker.kind {
        CellMarker::Markdown => Cell::markdown(new_id(), prose(body, comment)),
        CellMarker::Raw => Cell::raw(new_id(), prose(body, comment)),
        CellMarker::Code => match metadata.remove("language") {
            Some(Value::String(language)) => {
                in_language(&language, body, comment, &mut metadata, new_id, has_kernel)
            }
            _ => Cell::code(new_id(), magics(body, comment)),
        },
    };
    cell.metadata.extend(metadata);
    Some(cell)
}

/// A cell in another language than the script's, whose lines are comments.
fn in_language(
    language: &str,
    body: &[&str],
    comment: &str,
    metadata: &mut Map<String, Value>,
    new_id: &mut dyn FnMut() -> String,
    has_kernel: &dyn Fn(&str) -> bool,
) -> Cell {
    let source = prose(body, comment);
    if !has_kernel(language) {
        return Cell::code(new_id(), format!("%%{language}\n{source}"));
    }
    let mut cell = Cell::code(new_id(), source);
    let tags = metadata
        .entry("tags")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(tags) = tags
        && !tags.iter().any(|tag| tag == "skip-execution")
    {
        tags.push("skip-execution".into());
    }
    cell.metadata
        .insert("sponde".to_owned(), json!({ "language": language }));
    cell
}

/// Comments, or a string in triple quotes, as Markdown.
fn prose(body: &[&str], comment: &str) -> String {
    let whole = body.join("\n");
    for quotes in ["\"\"\"", "'''"] {
        let opened = whole
            .strip_prefix('r')
            .unwrap_or(&whole)
            .strip_prefix(quotes);
        if let Some(inside) = opened.and_then(|text| text.strip_suffix(quotes)) {
            return inside.trim_matches('\n').to_owned();
        }
    }
    let lines = body
        .iter()
        .map(|line| uncomment(line, comment).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Code, with commented magics and shell commands uncommented.
fn magics(body: &[&str], comment: &str) -> String {
    let lines = body.iter().map(|line| match uncomment(line, comment) {
        Some(text) if is_magic(text) => text,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_magic(text: &str) -> bool {
    let name = text
        .strip_prefix('!')
        .or_else(|| text.strip_prefix("%%"))
        .or_else(|| text.strip_prefix('%'));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, comment: &str) -> Option<Script> {
        let mut number = 0;
        let mut new_id = || {
            number += 1;
            format!("c{number}")
        };
        parse(text, comment, &mut new_id, &|language| language == "bash")
    }

    fn with(mut cell: Cell, metadata: Value) -> Cell {
        if let Value::Object(metadata) = metadata {
            cell.metadata = metadata;
        }
        cell
    }

    #[test]
    fn a_script_of_jupytext() {
        let text = r##"#!/usr/bin/env python
# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Title
#
# text

# %% tags=["parameters"] name="p"
n = 3

# %%
# %matplotlib inline
# !ls
# a comment
print("# %% not a marker" if n else 1)

# %% [markdown] slideshow={"slide_type": "slide"}
r"""
In *quotes*
"""

# %% A title {"tags": ["raises-exception"]}
1 / 0

# %% language="bash"
# echo "$HOME"

# %% language="html"
# <b>x</b>

# %%
# %%time
x = 1
"##;
        let script = read(text, "#").unwrap();
        assert_eq!(
            Value::Object(script.kernelspec.unwrap()),
            json!({"display_name": "Python 3", "language": "python", "name": "python3"})
        );
        assert_eq!(
            script.cells,
            [
                Cell::markdown("c1", "# Title\n\ntext"),
                with(
                    Cell::code("c2", "n = 3"),
                    json!({"tags": ["parameters"], "name": "p"})
                ),
                Cell::code(
                    "c3",
                    "%matplotlib inline\n!ls\n# a comment\nprint(\"# %% not a marker\" if n else 1)"
                ),
                with(
                    Cell::markdown("c4", "In *quotes*"),
                    json!({"slideshow": {"slide_type": "slide"}})
                ),
                with(
                    Cell::code("c5", "1 / 0"),
                    json!({"tags": ["raises-exception"]})
                ),
                with(
                    Cell::code("c6", "echo \"$HOME\""),
                    json!({"sponde": {"language": "bash"}, "tags": ["skip-execution"]})
                ),
                Cell::code("c7", "%%html\n<b>x</b>"),
                Cell::code("c8", "%%time\nx = 1"),
            ]
        );
    }

    #[test]
    fn other_markers_and_comments() {
        let sources = |text: &str, comment: &str| {
            let cells = read(text, comment)?.cells;
            Some(
                cells
                    .into_iter()
                    .map(|cell| cell.source)
                    .collect::<Vec<_>>(),
            )
        };
        for (text, comment, cells) in [
            (
                "import a\n#%%\nb\n#%% c\nd\n",
                "#",
                Some(&["import a", "b", "d"][..]),
            ),
            (
                "// %%\nlet a = 1\n\n// %%\na\n",
                "//",
                Some(&["let a = 1", "a"]),
            ),
            (
                "# coding: utf-8\n\n# In[1]:\n\na\n\n# In[ ]:\n\nb\n",
                "#",
                Some(&["a", "b"]),
            ),
            ("print(1)\n# %time\n", "#", None),
            ("x = '''\n  # %% no\n'''\n", "#", None),
            ("# %%\n\n# %%\na\n", "#", Some(&["", "a"])),
        ] {
            let expected = cells.map(|cells| cells.iter().map(|&cell| cell.to_owned()).collect());
            assert_eq!(sources(text, comment), expected, "{text:?}");
        }
    }
}
