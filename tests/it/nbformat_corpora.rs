//! Notebooks of other projects, read and written, against what Python's `nbformat` writes.
//!
//! The oracle is nbformat itself: `tests/fixtures/nbformat_oracle.py` prints its normal form of every
//! notebook, and ours has to be equal byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sponde::jupyter::nbformat::{NbformatError, Notebook, validate};
use sponde::session::OutputLimits;
use sponde::session::notebook::render;
use sponde::session::open::open;

use crate::support::{python_prefix, tools};

/// How many notebooks `scripts/test-notebooks` unpacks.
const NOTEBOOKS: usize = 286;

/// Where our bytes may differ from nbformat's, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "nbformat-5.11.1/tests/invalid.ipynb",
    "a cell without `source`: nbformat writes it back and calls its own file invalid, \
     we write an empty source",
)];

/// Notebooks that nbformat refuses, and what we do with them.
const REFUSED: [(&str, &str); 4] = [
    (
        "nbformat-5.11.1/tests/no_min_version.ipynb",
        "read: no `nbformat_minor`: read as 4.0",
    ),
    (
        "nbformat-5.11.1/tests/test3_no_metadata.ipynb",
        "read: `metadata`: found nothing, repaired",
    ),
    (
        "nbformat-5.11.1/tests/test3_no_worksheets.ipynb",
        "refused: `worksheets` should be an array, found nothing",
    ),
    (
        "nbformat-5.11.1/tests/test3_worksheet_with_no_cells.ipynb",
        "refused: `worksheets[0].cells` should be an array, found nothing",
    ),
];

/// What the official schema is against and we are not: it has none for version 2, and in one of version 3 only the minor
/// version is missing, which says nothing there; nbformat reads it without a word, too.
const TOLERATED: [&str; 2] = [
    "nbformat-5.11.1/tests/test2.ipynb",
    "nbformat-5.11.1/tests/test3_no_min_version.ipynb",
];

/// Notebooks by name.
const ODDITIES: [(&str, &str); 17] = [
    (
        "empty",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}"#,
    ),
    (
        "line ends",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "raw", "id": "a", "metadata": {}, "source": "a\nb\r\nc\rd\n\re\u000bf\fg\u001ch\u001di\u001ej\u001fk\u0085l\u2028m\u2029n\u00a0o\n"}]}"#,
    ),
    (
        "only line ends",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "raw", "id": "a", "metadata": {}, "source": "\n\r\n\r\r\u2028"}]}"#,
    ),
    (
        "escapes",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "raw", "id": "a", "metadata": {}, "source": "\"\\\/\b\f\n\r\t\u0000\u0001\u007f\u0080\u00e9\ufffe\ud83d\ude00<>&'"}]}"#,
    ),
    (
        "numbers",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {"a": [0, 1, -1, 0.0, -0.0, 1.0, 1e0, 1E5, 1e15, 1e16, 123456789012345680.0,
    1.5e300, 1e-4, 1e-5, 1.10, 0.1, 3.14159265358979312, 5e-324, 2.2250738585072014e-308,
    1.7976931348623157e308, 9223372036854775807, -9223372036854775808,
    18446744073709551615, 9007199254740993, 0.30000000000000004,
    8.41e21, 9.5367431640625e-7, 2.5e-5, 123e-20]}, "cells": []}"#,
    ),
    (
        "sorting",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {"b": {"z": 1, "Z": 2, "é": 3, "😀": 4, "\uffff": 5, "": 6}, "a": [], "c": {}, "B": [[], {}, [1]]}, "cells": []}"#,
    ),
    (
        "transient",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {"orig_nbformat": 3, "orig_nbformat_minor": 0, "signature": "x", "kept": {"signature": 1}}, "cells": [
    {"cell_type": "raw", "id": "a", "metadata": {"trusted": true, "kept": 1}, "source": ""}]}"#,
    ),
    (
        "duplicate keys",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {"a": 1, "b": 2, "a": 3}, "cells": []}"#,
    ),
    (
        "no ids",
        r#"{"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [
    {"cell_type": "raw", "metadata": {}, "source": ""},
    {"cell_type": "raw", "metadata": {}, "source": "", "id": "mine"}]}"#,
    ),
    (
        "ids",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "raw", "metadata": {}, "source": "", "id": "a"},
    {"cell_type": "raw", "metadata": {}, "source": ""},
    {"cell_type": "raw", "metadata": {}, "source": "", "id": "a"},
    {"cell_type": "raw", "metadata": {}, "source": "", "id": "bad id"},
    {"cell_type": "raw", "metadata": {}, "source": ""},
    {"cell_type": "raw", "metadata": {}, "source": "", "id": "a"}]}"#,
    ),
    (
        "mime bundles",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": null, "outputs": [
    {"output_type": "display_data", "metadata": {"image/png": {"width": 1}}, "data": {
    "text/plain": "a\nb", "text/html": ["a\nb", "c"], "image/png": ["AA", "==\n"],
    "image/svg+xml": "<svg>\n</svg>", "application/javascript": "a\nb",
    "application/x-tex": "a\nb", "application/json": ["a\nb", {"b": 1, "a": 2}],
    "application/vnd.x+json": "a\nb", "text/empty": "", "text/list": [],
    "text/odd": {"a": 1}, "text/mixed": ["a", 1], "image/gif": "a\nb"}}]}]}"#,
    ),
    (
        "unknown outputs",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": null, "outputs": [
    {"output_type": "new", "text": ["a\n", "b"], "data": {"text/plain": ["a\n", "b"]}},
    {"output_type": "error", "ename": "", "evalue": "a\nb", "traceback": [], "text": "x\ny"},
    {"output_type": "stream", "name": "stderr", "text": "", "later": ["a", "b\nc"]},
    {"output_type": "execute_result", "execution_count": null, "data": {}, "metadata": {},
    "transient": {"display_id": "x"}}]}]}"#,
    ),
    (
        "attachments",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["x"], "attachments":
    {"b.png": {"image/png": "AA\n=="}, "a.txt": {"text/plain": "a\nb"}, "c": {}}},
    {"cell_type": "markdown", "id": "b", "metadata": {}, "source": [], "attachments": {}}]}"#,
    ),
    (
        "unknown cells and fields",
        r#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
    {"cell_type": "new", "id": "a", "metadata": {}, "source": "a\nb", "outputs": [{"text": ["a"]}]},
    {"cell_type": "markdown", "id": "b", "metadata": {}, "source": "", "execution_count": 1,
    "outputs": [], "collapsed": {"b": 1, "a": "x\ny"}}]}"#,
    ),
    (
        "from the future",
        r#"{"nbformat": 4, "nbformat_minor": 7, "metadata": {}, "new": [1], "cells": [
    {"cell_type": "new", "id": "a", "metadata": {}, "source": "", "new": {}}]}"#,
    ),
    (
        "version 3",
        r#"{"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "x", "signature": "y", "z": 1},
    "orig_nbformat": 2, "worksheets": [{"metadata": {}, "cells": [
    {"cell_type": "heading", "level": 3, "metadata": {}, "source": ["a\n", "b\r\n", "c\u2028d"]},
    {"cell_type": "heading", "metadata": {}, "source": ["a", "b"]},
    {"cell_type": "markdown", "metadata": {}, "source": ["a", "b"], "rendered": ["x\n", "y"]},
    {"cell_type": "html", "metadata": {}, "source": "<b>"},
    {"cell_type": "code", "language": "python", "collapsed": false, "input": ["a\n", "b"],
    "prompt_number": 3, "trusted": true, "metadata": {"trusted": true}, "outputs": [
    {"output_type": "pyout", "prompt_number": 3, "text": ["a", "b"], "png": "AA==\n", "metadata": {}},
    {"output_type": "display_data", "json": ["{\"a\":", " 1}"], "metadata": {"png": {"width": 3}}},
    {"output_type": "stream", "stream": "stderr", "text": ["a\n", "b"]},
    {"output_type": "stream", "text": []},
    {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": ["a\nb"]}]},
    {"cell_type": "code", "metadata": {}, "outputs": []}]},
    {"cells": [{"cell_type": "raw", "metadata": {}, "source": "second sheet"}]}]}"#,
    ),
    (
        "version 2",
        r#"{"nbformat": 2, "metadata": {"name": "x"}, "worksheets": [{"cells": [
    {"cell_type": "markdown", "source": ["a", "b"]},
    {"cell_type": "code", "input": "x", "language": "python", "collapsed": true, "prompt_number": 1, "outputs": [
    {"output_type": "pyout", "prompt_number": 1, "text": "a", "html": "b", "svg": "<svg>\n</svg>"},
    {"output_type": "stream", "stream": "stdout", "text": "a\nb"}]}]}]}"#,
    ),
];

#[test]
fn every_notebook_is_written_as_nbformat_writes_it() {
    let root = corpora();
    let answers = ask_oracle(&root);
    assert_eq!(
        answers.len(),
        NOTEBOOKS,
        "notebooks below {}",
        root.display()
    );
    let mut different = Vec::new();
    let mut refused = Vec::new();
    for (path, answer) in &answers {
        let bytes = std::fs::read(root.join(path)).unwrap();
        match answer {
            Ok(expected) if is_exception(path) => {
                assert_ne!(
                    rewritten(&bytes).as_ref(),
                    Ok(expected),
                    "{path} is no exception"
                );
            }
            Ok(expected) => different.extend(difference(path, &rewritten(&bytes), expected)),
            Err(_) => refused.push((path.as_str(), what_we_do(&bytes))),
        }
    }
    assert_eq!(different, Vec::<String>::new());
    let expected: Vec<_> = REFUSED
        .iter()
        .map(|(path, done)| (*path, (*done).to_owned()))
        .collect();
    assert_eq!(refused, expected);
}

/// What the official schema has something against is refused, repaired with a warning, or named by [`validate`]: never
/// passed over in silence.
#[test]
fn what_is_invalid_is_said_to_be() {
    let root = corpora();
    let mut said = Vec::new();
    for (path, invalid) in oracle(&root) {
        if invalid["invalid"].is_null() || TOLERATED.contains(&&*path) {
            continue;
        }
        let bytes = std::fs::read(root.join(&path)).unwrap();
        let what = match Notebook::read(&bytes, &mut counter()) {
            Err(error) => format!("refused: {error}"),
            Ok(loaded) => {
                let warnings = loaded.warnings.iter().map(ToString::to_string);
                let problems = validate(&loaded.notebook);
                let problems = problems.iter().map(ToString::to_string);
                warnings.chain(problems).next().unwrap_or_default()
            }
        };
        said.push(format!("{path}: {what}"));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    jupytext-1.19.6/tests/data/notebooks/inputs/ipynb_jenner/jenner_test.ipynb: `cells[0].id`: found nothing, repaired
    nbclient-0.11.0/tests/files/Output.ipynb: `metadata.kernelspec`: lacks `name`
    nbdime-4.0.4/nbdime/tests/files/cellids--base.ipynb: `cells[5].id`: found nothing, repaired
    nbformat-5.11.1/tests/invalid.ipynb: `cells[0].source`: found nothing, repaired
    nbformat-5.11.1/tests/invalid_cell_id.ipynb: `cells[0].id`: a cell id has 1 to 64 letters, digits, `-` and `_`
    nbformat-5.11.1/tests/invalid_unique_cell_id.ipynb: cell id `dup` was there twice: changed
    nbformat-5.11.1/tests/no_min_version.ipynb: no `nbformat_minor`: read as 4.0
    nbformat-5.11.1/tests/test3_no_metadata.ipynb: `metadata`: found nothing, repaired
    nbformat-5.11.1/tests/test3_no_worksheets.ipynb: refused: `worksheets` should be an array, found nothing
    nbformat-5.11.1/tests/test3_worksheet_with_no_cells.ipynb: refused: `worksheets[0].cells` should be an array, found nothing
    nbformat-5.11.1/tests/v4_5_invalid_metadata.ipynb: `metadata.kernelspec`: of the wrong type: a string
    nbformat-5.11.1/tests/v4_5_no_cell_id.ipynb: `cells[0].id`: found nothing, repaired
    ");
}

/// A session on a notebook of somebody else's writes back what it read, but for the marks of its own.
#[test]
fn a_session_keeps_every_notebook_as_it_is() {
    let root = corpora();
    let mut count = 0;
    for (path, answer) in ask_oracle(&root) {
        let Ok(expected) = answer else { continue };
        let bytes = std::fs::read(root.join(&path)).unwrap();
        let loaded = Notebook::read(&bytes, &mut counter()).unwrap();
        if is_exception(&path) {
            continue;
        }
        let opened = open(loaded.notebook, OutputLimits::default());
        assert!(opened.is_foreign && opened.changes.is_empty(), "{path}");
        let mut notebook = render(&opened.transcript);
        notebook.metadata.shift_remove("sponde");
        assert_eq!(difference(&path, &Ok(notebook.to_json()), &expected), None);
        count += 1;
    }
    assert_eq!(count, NOTEBOOKS - REFUSED.len() - EXCEPTIONS.len());
}

/// What is written reads back as the same document, without a warning and without a problem that
/// was not there before.
#[test]
fn writing_is_a_fixed_point() {
    let root = corpora();
    for path in notebooks_below(&root) {
        let Ok(loaded) = Notebook::read(&std::fs::read(&path).unwrap(), &mut counter()) else {
            continue;
        };
        let written = loaded.notebook.to_json();
        let again = Notebook::read(written.as_bytes(), &mut counter()).unwrap();
        assert_eq!(again.notebook.to_json(), written, "{}", path.display());
        let problems = validate(&again.notebook);
        assert_eq!(problems, validate(&loaded.notebook), "{}", path.display());
    }
}

/// What real notebooks seldom have: line ends of all kinds, numbers, escapes, odd types.
#[test]
fn hand_made_oddities_are_written_as_nbformat_writes_them() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in ODDITIES {
        std::fs::write(directory.path().join(format!("{name}.ipynb")), text).unwrap();
    }
    let mut different = Vec::new();
    for (path, answer) in ask_oracle(directory.path()) {
        let expected = answer.unwrap_or_else(|error| panic!("nbformat refuses {path}: {error}"));
        let bytes = std::fs::read(directory.path().join(&path)).unwrap();
        different.extend(difference(&path, &rewritten(&bytes), &expected));
    }
    assert_eq!(different, Vec::<String>::new());
}

/// A difference as one line to read, or nothing.
fn difference(path: &str, ours: &Result<String, NbformatError>, expected: &str) -> Option<String> {
    let ours = match ours {
        Ok(ours) if ours == expected => return None,
        Ok(ours) => ours,
        Err(error) => return Some(format!("{path}: we refuse it: {error}")),
    };
    let mut line = 1;
    let mut theirs = expected.split('\n');
    for our in ours.split('\n') {
        let their = theirs.next().unwrap_or("nothing");
        if our != their {
            return Some(format!(
                "{path}: line {line}: we write {our:?}, nbformat {their:?}"
            ));
        }
        line += 1;
    }
    Some(format!("{path}: line {line}: we end, nbformat goes on"))
}

fn rewritten(bytes: &[u8]) -> Result<String, NbformatError> {
    Notebook::read(bytes, &mut counter()).map(|loaded| loaded.notebook.to_json())
}

fn what_we_do(bytes: &[u8]) -> String {
    match Notebook::read(bytes, &mut counter()) {
        Ok(loaded) => {
            let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
            format!("read: {}", warnings.join("; "))
        }
        Err(error) => format!("refused: {error}"),
    }
}

/// Cell ids as the oracle makes them.
fn counter() -> impl FnMut() -> String {
    let mut count = 0;
    move || {
        count += 1;
        format!("cell-{}", count - 1)
    }
}

fn is_exception(path: &str) -> bool {
    EXCEPTIONS.iter().any(|(exception, _)| *exception == path)
}

/// nbformat's text for every notebook below `root`, or why it refuses.
fn ask_oracle(root: &Path) -> BTreeMap<String, Result<String, String>> {
    let answers = oracle(root).into_iter();
    let result = |answer: Value| {
        let field = |name: &str| answer[name].as_str().map(str::to_owned);
        field("text").ok_or_else(|| field("error").unwrap_or_default())
    };
    answers
        .map(|(path, answer)| (path, result(answer)))
        .collect()
}

/// What nbformat says of every notebook below `root`.
fn oracle(root: &Path) -> BTreeMap<String, Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/nbformat_oracle.py");
    let python = python_prefix().join("bin/python");
    let answers = tempfile::NamedTempFile::new().unwrap();
    let run = Command::new(&python)
        .arg(script)
        .arg(root)
        .arg(answers.path())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}: run scripts/test", python.display()));
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let text = std::fs::read_to_string(answers.path()).unwrap();
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        (answer["path"].as_str().unwrap().to_owned(), answer)
    };
    text.lines().map(answer).collect()
}

/// The notebooks in a directory and in those below it.
pub(crate) fn notebooks_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "ipynb")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The notebooks of others, as `scripts/test-notebooks` unpacks them.
fn corpora() -> PathBuf {
    let root = tools().join("notebooks");
    assert!(
        root.is_dir(),
        "no notebooks at {}: run scripts/test, or scripts/test-notebooks with that directory",
        root.display()
    );
    root
}
