//! `sponde run` against nbclient: the same notebooks, executed by both with the same kernel, must have the same outputs.
//!
//! The notebooks are nbclient's own. `tests/fixtures/parity_oracle.py` executes them with nbclient, and checks and
//! compares what comes out of both.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use sponde::agent::approval::Approval;
use sponde::llm::scripted::Reply;

use crate::agent::{call, start_with};
use crate::support::{Sponde, ipykernel, launch_options, misbehaving, python_prefix, tools};

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

/// Those for which something has to be arranged, with the flags for them and the exit code that they lead to.
const ARRANGED: [(&str, &[&str], i32); 6] = [
    // Its kernel kills itself.
    ("Autokill", &[], 4),
    // Cells of a run are nothing for a person's history of IPython.
    ("Check History in Memory", &[], 0),
    ("Interrupt", &["--timeout", "1"], 1),
    ("JupyterWidgets", &[], 0),
    ("Output", &[], 0),
    ("Sleep1s", &[], 0),
];

/// Each waits for the other one.
const TOGETHER: [&str; 2] = ["Parallel Execute A", "Parallel Execute B"];

#[test]
fn outputs_are_those_of_nbclient() {
    let corpus = tools().join(CORPUS);
    let mut known: Vec<&str> = NOTEBOOKS.iter().map(|(name, ..)| *name).collect();
    known.extend(ARRANGED.iter().map(|(name, ..)| *name));
    known.extend(TOGETHER);
    known.sort_unstable();
    assert_eq!(names(&corpus), known, "in {}", corpus.display());

    let home = Sponde::new();
    let [ours, theirs, our_meeting, their_meeting] =
        ["ours", "theirs", "our-meeting", "their-meeting"].map(|name| {
            let dir = home.path(name);
            std::fs::create_dir(&dir).unwrap();
            dir
        });
    let sponde = home.with(MEETING, path(&our_meeting));
    let all: Vec<(&str, bool)> = NOTEBOOKS
        .iter()
        .chain(&ARRANGED)
        .map(|(name, flags, _)| (*name, flags.contains(&"--allow-errors")))
        .chain(TOGETHER.map(|name| (name, false)))
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            oracle(
                &[
                    "execute",
                    path(&corpus),
                    path(&theirs),
                    &json!(all).to_string(),
                ],
                &their_meeting,
            )
        });
        scope.spawn(|| execute(&sponde, &corpus, &ours));
    });

    let compared = oracle(&["compare", path(&ours), path(&theirs)], &ours);
    let report: Value = serde_json::from_slice(&compared).unwrap();
    let expected: Value = known
        .iter()
        .map(|name| (format!("{name}.ipynb"), json!("same")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(report, expected, "{report:#}");
}

fn execute(sponde: &Sponde, corpus: &Path, ours: &Path) {
    let mut exits = Vec::new();
    for (name, flags, _) in NOTEBOOKS.iter().chain(&ARRANGED) {
        let file = format!("{name}.ipynb");
        let (from, to) = (corpus.join(&file), ours.join(&file));
        let mut arguments = vec!["run", path(&from), "-o", path(&to)];
        arguments.extend(*flags);
        exits.push((*name, *flags, sponde.run(&arguments).code.unwrap()));
    }
    let expected: Vec<_> = NOTEBOOKS.iter().chain(&ARRANGED).copied().collect();
    assert_eq!(exits, expected);
    let both = TOGETHER.map(|name| corpus.join(format!("{name}.ipynb")));
    let ended = sponde.run(&[
        "run",
        path(&both[0]),
        path(&both[1]),
        "-j",
        "2",
        "-o",
        path(ours),
    ]);
    assert_eq!(ended.code, Some(0), "{ended}");
}

/// What nbclient's notebooks read to find each other.
const MEETING: &str = "NBEXECUTE_TEST_PARALLEL_TMPDIR";

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// stdout of `tests/fixtures/parity_oracle.py`.
fn oracle(arguments: &[&str], meeting: &Path) -> Vec<u8> {
    let output = Command::new(python_prefix().join("bin/python"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/parity_oracle.py"
        ))
        .args(arguments)
        .env(MEETING, meeting)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
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

#[tokio::test]
async fn a_session_is_a_notebook_for_nbclient_and_nbconvert() {
    let mut session = start_with(
        ipykernel(),
        Approval::Never,
        [
            call("print('first line')\nx = 6 * 7"),
            call("x / 0"),
            Reply::call(
                "",
                "id",
                "run_code",
                "{\"code\": \"print('other')\", \"language\": \"misbehave\"}",
            ),
            call(
                "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()\nprint('x is', x)",
            ),
            Reply::text("x is **42**."),
        ],
        |options, dir| {
            let mut other = misbehaving(&[]);
            "misbehave".clone_into(&mut other.spec.language);
            options.others = vec![launch_options(other, dir)];
        },
    );
    session.submit("What is x? <script>alert(1)</script>").await;
    session.turn().await;
    let notebook = session.dir.path().join("session.ipynb");
    oracle(&["convert", path(&notebook)], session.dir.path());
    // And through us, with the other language as well.
    let ended = Sponde::new().run(&["run", path(&notebook), "--check"]);
    assert_eq!(ended.code, Some(0), "{ended}");
}
