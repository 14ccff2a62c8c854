//! `sponde run` against nbclient: the same notebooks, executed by both with the same kernel, must have the same outputs.
//!
//! The notebooks are nbclient's own. `tests/fixtures/parity_oracle.py` executes them with nbclient, and checks and
//! compares what comes out of both.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Sponde, python_prefix, tools};

/// nbclient's notebooks.
pub(crate) const CORPUS: &str = "notebooks/nbclient-0.11.0/tests/files";

/// Those that are executed, with the flags for them and the exit code that they lead to.
pub(crate) const NOTEBOOKS: [(&str, &[&str], i32); 15] = [
    ("Clear Output", &[], 0),
    ("Disable Stdin", &[], 1),
    ("Empty Cell", &[], 0),
    ("Error", &[], 1),
    ("Factorials", &[], 0),
    ("HelloWorld", &[], 0),
    // Its picture is not there: an error, the same for both.
    ("Inline Image", &[], 1),
    ("Other Comms", &[], 0),
    ("SVG", &[], 0),
    ("Skip Exceptions with Cell Tags", &[], 0),
    ("Skip Exceptions", &["--allow-errors"], 0),
    ("Skip Execution with Cell Tag", &[], 0),
    ("Unicode", &[], 0),
    ("UnicodePy3", &[], 0),
    ("update-display-id", &[], 0),
];

/// Those that are not, and why.
const LEFT_OUT: [(&str, &str); 8] = [
    (
        "Autokill",
        "the kernel kills itself: tests/it/cli.rs has that",
    ),
    (
        "Check History in Memory",
        "asks for a kernel option of nbclient's tests, history in memory",
    ),
    ("Interrupt", "never ends: tests/it/cli.rs has that"),
    ("JupyterWidgets", "needs ipywidgets"),
    ("Output", "needs ipywidgets"),
    ("Parallel Execute A", "waits for the other one"),
    ("Parallel Execute B", "waits for the other one"),
    ("Sleep1s", "prints the time"),
];

#[test]
fn outputs_are_those_of_nbclient() {
    let corpus = tools().join(CORPUS);
    let mut known: Vec<&str> = NOTEBOOKS.iter().map(|(name, ..)| *name).collect();
    known.extend(LEFT_OUT.iter().map(|(name, _)| *name));
    known.sort_unstable();
    assert_eq!(names(&corpus), known, "in {}", corpus.display());

    let sponde = Sponde::new();
    let (ours, theirs) = (sponde.path("ours"), sponde.path("theirs"));
    for dir in [&ours, &theirs] {
        std::fs::create_dir(dir).unwrap();
    }
    let oracle = Command::new(python_prefix().join("bin/python"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/parity_oracle.py"
        ))
        .arg("execute")
        .args([&corpus, &theirs])
        .arg(
            json!(NOTEBOOKS.map(|(name, flags, _)| (name, flags.contains(&"--allow-errors"))))
                .to_string(),
        )
        .output()
        .unwrap();
    assert!(
        oracle.status.success(),
        "{}",
        String::from_utf8_lossy(&oracle.stderr)
    );

    let mut exits = Vec::new();
    for (name, flags, _) in NOTEBOOKS {
        let file = format!("{name}.ipynb");
        let (from, to) = (corpus.join(&file), ours.join(&file));
        let mut arguments = vec!["run", from.to_str().unwrap(), "-o", to.to_str().unwrap()];
        arguments.extend(flags);
        exits.push((name, flags, sponde.run(&arguments).code.unwrap()));
    }
    assert_eq!(exits, NOTEBOOKS);

    let compared = Command::new(python_prefix().join("bin/python"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/parity_oracle.py"
        ))
        .arg("compare")
        .args([&ours, &theirs])
        .output()
        .unwrap();
    assert!(
        compared.status.success(),
        "{}",
        String::from_utf8_lossy(&compared.stderr)
    );
    let report: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let expected: Value = NOTEBOOKS
        .iter()
        .map(|(name, ..)| (format!("{name}.ipynb"), json!("same")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(report, expected, "{report:#}");
}

/// The notebooks in a directory, without their endings.
fn names(dir: &PathBuf) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap_or_else(|error| {
            panic!(
                "{}: {error}: run scripts/test, it gets the notebooks",
                dir.display()
            )
        })
        .filter_map(|entry| {
            Some(
                entry
                    .unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(".ipynb")?
                    .to_owned(),
            )
        })
        .collect();
    names.sort_unstable();
    names
}
