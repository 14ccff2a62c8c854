//! `sponde run --check`: are the stored outputs still right?

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{Sponde, assert_is_valid_notebook};

/// A notebook whose outputs are those of a run now, and then its text changed.
fn stored(sponde: &Sponde, name: &str, cells: &[(&str, &str)], changes: &[(&str, &str)]) {
    sponde.write_notebook(name, "misbehave", cells);
    let ended = sponde.run(&["run", name, "--inplace", "--allow-errors"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let mut text = sponde.read(name);
    for (before, after) in changes {
        assert!(text.contains(before), "{before}");
        text = text.replace(before, after);
    }
    sponde.write(name, text);
}

#[test]
fn what_is_the_same() {
    let sponde = Sponde::new();
    let cells = [
        ("", "echo total 42\nresult <A object at 0x7f0000000000>"),
        ("", "error Oops it failed"),
        ("", "echo after an error"),
        ("nbval-ignore-output", "pid"),
        ("", "# NBVAL_IGNORE_OUTPUT\npid"),
        ("nbval-skip", "die 1"),
        ("skip-execution", "die 1"),
    ];
    sponde.write_notebook("in.ipynb", "misbehave", &cells[..5]);
    assert_eq!(
        sponde
            .run(&["run", "in.ipynb", "--inplace", "--allow-errors"])
            .code,
        Some(0)
    );
    // What would kill the kernel comes afterwards.
    let mut notebook: Value = serde_json::from_str(&sponde.read("in.ipynb")).unwrap();
    for (tag, source) in &cells[5..] {
        notebook["cells"].as_array_mut().unwrap().push(json!({
            "cell_type": "code", "id": tag, "metadata": {"tags": [tag]}, "source": source, "outputs": [],
            "execution_count": null,
        }));
    }
    let text = notebook
        .to_string()
        .replace("0x7f0000000000", "0x7f0000000001");
    sponde.write("in.ipynb", &text);
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check"]), @"
    exit: 0
    --- stdout
    in.ipynb: 3 cells as stored
    ");
    assert_eq!(sponde.read("in.ipynb"), text);
}

#[test]
fn what_differs() {
    let sponde = Sponde::new();
    stored(
        &sponde,
        "in.ipynb",
        &[
            ("", "echo one\necho total 42.0\necho three"),
            ("", "result 5"),
            ("", "error Oops it failed"),
            ("", "png 100"),
        ],
        &[
            ("\"total 42.0\\n\"", "\"total 42.1\\n\""),
            ("\"5\"", "\"6\""),
            ("\"evalue\": \"it failed\"", "\"evalue\": \"it broke\""),
        ],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check"]), @"
    exit: 1
    --- stdout
    in.ipynb, cell 1 (In [1]): stdout
        one
      - total 42.1
      + total 42.0
        three
    in.ipynb, cell 2 (In [2]): text/plain of output 1
      - 6
      + 5
    in.ipynb, cell 3 (In [3]): the error
      - Oops: it broke
      + Oops: it failed
    in.ipynb: 3 of 4 cells differ from the stored outputs
    --- stderr
    error: `in.ipynb`: 3 of 4 cells differ from the stored outputs

    hint: accept the new outputs with --check --update, or look at them with -o; docs/run.md says what does not count
    ");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check", "--tolerance", "0.01"]), @"
    exit: 1
    --- stdout
    in.ipynb, cell 2 (In [2]): text/plain of output 1
      - 6
      + 5
    in.ipynb, cell 3 (In [3]): the error
      - Oops: it broke
      + Oops: it failed
    in.ipynb: 2 of 4 cells differ from the stored outputs
    --- stderr
    error: `in.ipynb`: 2 of 4 cells differ from the stored outputs

    hint: accept the new outputs with --check --update, or look at them with -o; docs/run.md says what does not count
    ");
}

#[test]
fn what_differs_is_taken_over() {
    let sponde = Sponde::new();
    stored(
        &sponde,
        "in.ipynb",
        &[("", "echo total 42"), ("", "result 5")],
        &[("total 42\\n", "total 41\\n")],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check", "--update"]), @"
    exit: 0
    --- stdout
    in.ipynb, cell 1 (In [1]): stdout
      - total 41
      + total 42
    in.ipynb: 1 of 2 cells differs from the stored outputs, updated
    ");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check"]), @"
    exit: 0
    --- stdout
    in.ipynb: 2 cells as stored
    ");
    assert_is_valid_notebook(&sponde.path("in.ipynb"));
}

#[test]
fn outputs_that_were_never_there() {
    let sponde = Sponde::new();
    sponde.write_notebook("in.ipynb", "misbehave", &[("", "echo hi")]);
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check"]), @"
    exit: 1
    --- stdout
    in.ipynb, cell 1: stdout
      + hi
    in.ipynb: 1 of 1 cell differs from the stored outputs
    --- stderr
    error: `in.ipynb`: 1 of 1 cell differs from the stored outputs

    hint: it has no stored outputs: run it with --inplace first
    ");
}

#[test]
fn a_kernel_that_dies_is_told_first() {
    let sponde = Sponde::new();
    stored(
        &sponde,
        "in.ipynb",
        &[("", "echo hi"), ("", "echo there")],
        &[("echo there", "die 3")],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check"]), @"
    exit: 4
    --- stdout
    in.ipynb: 1 cell as stored
    --- stderr
    error: kernel `misbehave` died while it ran cell 2 (exit status 3)
      In [2]: die 3

    hint: write the outputs to a notebook with -o
    ");
}

#[test]
fn a_persons_own_patterns() {
    let sponde = Sponde::new();
    stored(
        &sponde,
        "in.ipynb",
        &[("", "echo run 17 of today")],
        &[("run 17", "run 18")],
    );
    // The source, too, says `run 18` now: nothing differs.
    assert_eq!(sponde.run(&["run", "in.ipynb", "--check"]).code, Some(0));
    let text = sponde
        .read("in.ipynb")
        .replace("\"run 18 of today\\n\"", "\"run 16 of today\\n\"");
    sponde.write("in.ipynb", text);
    assert_eq!(sponde.run(&["run", "in.ipynb", "--check"]).code, Some(1));
    sponde.write("sanitize.cfg", "[run]\nregex: run [0-9]+\nreplace: RUN\n");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--check", "--sanitize-with", "sanitize.cfg"]), @"
    exit: 0
    --- stdout
    in.ipynb: 1 cell as stored
    ");
    sponde.write("broken.cfg", "regex: (\nreplace: RUN\n");
    let ended = sponde.run(&[
        "run",
        "in.ipynb",
        "--check",
        "--sanitize-with",
        "broken.cfg",
    ]);
    assert_eq!(ended.code, Some(2), "{ended}");
}

#[test]
fn scripts_have_no_outputs() {
    let sponde = Sponde::new();
    sponde.write("script.py", "1");
    assert_snapshot!(sponde.run(&["run", "script.py", "--check"]), @"
    exit: 2
    --- stderr
    error: `script.py` has no outputs to check: it is not a notebook (.ipynb)
    ");
}

#[test]
fn pictures_of_matplotlib() {
    let sponde = Sponde::new();
    let plot = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2, 5, 4])\nplt.title('Sales')\nplt.show()";
    sponde.write_notebook("in.ipynb", "python3", &[("", plot)]);
    assert_eq!(sponde.run(&["run", "in.ipynb", "--inplace"]).code, Some(0));
    let stored = sponde.read("in.ipynb");
    let check = |before: &str, after: &str| {
        assert!(stored.contains(before), "{before}");
        sponde.write("in.ipynb", stored.replace(before, after));
        let ended = sponde.run(&["run", "in.ipynb", "--check"]);
        (
            ended.code,
            ended.stdout.lines().next().unwrap_or_default().to_owned(),
        )
    };
    let (code, _) = check("Sales", "Sales");
    assert_eq!(code, Some(0));
    // As another version of a renderer would have it: all but invisible.
    let (code, first) = check("plt.show()", "plt.gcf().set_dpi(101); plt.show()");
    assert_eq!(code, Some(0), "{first}");
    for (before, after) in [
        ("[1, 3, 2, 5, 4]", "[1, 3, 2, 4, 4]"),
        ("'Sales'", "'Losses'"),
        (
            "plt.show()",
            "plt.gca().get_lines()[0].set_color('red'); plt.show()",
        ),
    ] {
        let (code, first) = check(before, after);
        assert_eq!(code, Some(1), "{after}: {first}");
        assert!(
            first.contains("image/png of output 1 differs by"),
            "{first}"
        );
    }
}
