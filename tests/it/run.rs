//! `sponde run` beyond one clean execution: parameters, limits, what is on disk while it runs, several at a time, scripts
//! in cells, pipes.

use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{Ended, Sponde, assert_is_valid_notebook, eventually, python_prefix, tools};

/// papermill's own notebooks.
const CORPUS: &str = "notebooks/papermill-2.7.0/papermill/tests/notebooks";

fn papermill(arguments: &[&str]) -> String {
    let output = Command::new(python_prefix().join("bin/python"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/papermill_oracle.py"
        ))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn cells(notebook: &Value) -> &Vec<Value> {
    notebook["cells"].as_array().unwrap()
}

/// Type, source and tags of each cell.
fn outline(notebook: &Value) -> Vec<Value> {
    let of = |cell: &Value| {
        let tags = cell["metadata"].get("tags").cloned().unwrap_or(json!([]));
        json!([cell["cell_type"], cell["source"], tags])
    };
    cells(notebook).iter().map(of).collect()
}

const PARAMETERS: &str = "\
msg: Hello ☃ \"you\"
a: 1
foo: [1, 2.5, true, null, {deep: 'er'}]
date: 2012-01-01
nothing: ~
";

#[test]
fn parameters_go_where_papermill_puts_them() {
    let sponde = Sponde::new();
    let file = sponde.write("parameters.yaml", PARAMETERS);
    for name in [
        "simple_execute",
        "complex_parameters",
        "no_parameters",
        "nb_version_4.4",
        "blank-vscode",
    ] {
        let source = tools().join(CORPUS).join(format!("{name}.ipynb"));
        let (ours, theirs) = (sponde.path("ours.ipynb"), sponde.path("theirs.ipynb"));
        papermill(&[
            "inject",
            source.to_str().unwrap(),
            file.to_str().unwrap(),
            theirs.to_str().unwrap(),
        ]);
        let ended = sponde.run(&[
            "run",
            source.to_str().unwrap(),
            "--prepare-only",
            "-k",
            "python3",
            "-f",
            "parameters.yaml",
            "-o",
            "ours.ipynb",
        ]);
        assert_eq!(ended.code, Some(0), "{ended}");
        assert_eq!(outline(&read(&ours)), outline(&read(&theirs)), "{name}");
        let parameters = |path: &Path| read(path)["metadata"]["papermill"]["parameters"].clone();
        assert_eq!(parameters(&ours), parameters(&theirs), "{name}");
        assert_is_valid_notebook(&ours);
        // Once more: the injected cell is replaced.
        let again = sponde.run(&[
            "run",
            "ours.ipynb",
            "--prepare-only",
            "-p",
            "msg=2",
            "-o",
            "again.ipynb",
        ]);
        assert_eq!(again.code, Some(0), "{again}");
        assert_eq!(
            outline(&read(&sponde.path("again.ipynb"))).len(),
            outline(&read(&ours)).len()
        );
    }
}

#[test]
fn code_is_that_of_papermill() {
    let sponde = Sponde::new();
    let plain = "\
n: 5
big: 5000000000
x: 0.5
small: 1.0e-7
flag: true
text: say \"hi\" \\ there
lines: |
  one
  two
list: [1, two]
";
    let file = sponde.write("parameters.yaml", plain);
    for language in ["python", "R", "scala", "julia", "bash"] {
        sponde.add_kernelspec(
            "other",
            &json!({"argv": ["true", "{connection_file}"], "display_name": "other", "language": language}).to_string(),
        );
        let theirs: Value = serde_json::from_str(&papermill(&[
            "translate",
            "other",
            language,
            file.to_str().unwrap(),
        ]))
        .unwrap();
        sponde.write_notebook("in.ipynb", "other", &[("parameters", "")]);
        let ended = sponde.run(&[
            "run",
            "in.ipynb",
            "--prepare-only",
            "-f",
            "parameters.yaml",
            "-o",
            "out.ipynb",
        ]);
        assert_eq!(ended.code, Some(0), "{ended}");
        let ours = cells(&read(&sponde.path("out.ipynb")))[1]["source"].clone();
        let ours: String = ours
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        assert_eq!(Some(ours.as_str()), theirs.as_str(), "{language}");
    }
}

#[test]
fn parameters_from_everywhere() {
    let sponde = Sponde::new();
    sponde.write("a.yaml", "one: 1\ntwo: a\n");
    sponde.write("b.json", "{\"two\": \"b\", \"three\": [1]}");
    sponde.write("c.toml", "three = 3\nday = 2012-01-01\n");
    sponde.write_notebook(
        "in.ipynb",
        "python3",
        &[
            (
                "parameters",
                "one = two = three = day = four = five = six = 0",
            ),
            ("", "print(one, two, three, day, four, repr(five), six)"),
        ],
    );
    assert_snapshot!(sponde.run(&[
        "run", "in.ipynb", "-f", "a.yaml", "-f", "b.json", "-f", "c.toml", "-y", "{four: yes}", "-p", "six=1e3",
        "-r", "five=5", "-o", "out-{two}-{six}.ipynb",
    ]), @"
    exit: 0
    --- stdout
    1 b 3 2012-01-01 True '5' 1000.0
    ");
    let out = read(&sponde.path("out-b-1000.0.ipynb"));
    assert_eq!(
        out["metadata"]["papermill"]["parameters"],
        json!({"one": 1, "two": "b", "three": 3, "day": "2012-01-01", "four": true, "five": "5", "six": 1000.0})
    );
}

#[test]
fn parameters_that_are_none() {
    let sponde = Sponde::new();
    sponde.write("list.yaml", "[1]");
    sponde.write("broken.json", "{");
    sponde.write_notebook("in.ipynb", "misbehave", &[("", "echo hi")]);
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-p", "a"]), @"
    exit: 2
    --- stderr
    error: `-p a` names no value

    hint: write `-p NAME=VALUE`, without spaces around `=`
    ");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-f", "list.yaml"]), @"
    exit: 2
    --- stderr
    error: `list.yaml` does not give parameters by name
    ");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-f", "broken.json"]), @"
    exit: 2
    --- stderr
    error: could not read parameters from `broken.json`: EOF while parsing an object at line 1 column 1
    ");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-p", "a=1"]), @"
    exit: 2
    --- stderr
    error: how to assign a variable in misbehave is not known
    ");
    assert_snapshot!(sponde.run(&["run", "-c", "1", "-p", "a b=1"]), @"
    exit: 2
    --- stderr
    error: `a b` cannot be a variable's name
    ");
    assert_snapshot!(sponde.run(&["run", "-c", "print(a)", "-p", "a=1"]), @"
    exit: 0
    --- stdout
    1
    ");
}

#[test]
fn the_parameters_of_a_notebook() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "python3",
        &[
            ("parameters", "a = 1  # how many\nb: str = 'x'\n"),
            ("", "print(a, b)"),
        ],
    );
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--list-parameters"]), @"
    exit: 0
    --- stdout
    a = 1                             how many
    b: str = 'x'
    ");
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "-p", "c=1"]), @"
    exit: 0
    --- stdout
    1 x
    --- stderr
    note: `in.ipynb` declares no parameter `c`
    ");
}

/// papermill's metadata without times.
fn papermill_metadata(notebook: &Value) -> Value {
    let timeless = |run: &Value| -> Value {
        let run = run.as_object().unwrap();
        run.iter()
            .filter(|(key, _)| !matches!(key.as_str(), "version" | "input_path" | "output_path"))
            .map(|(key, value)| {
                let is_time = ["start_time", "end_time", "duration"].contains(&key.as_str());
                (
                    key.clone(),
                    if is_time {
                        json!(!value.is_null())
                    } else {
                        value.clone()
                    },
                )
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let of_cells: Vec<Value> = cells(notebook)
        .iter()
        .filter(|cell| {
            !cell["metadata"]
                .get("tags")
                .is_some_and(|tags| tags == &json!(["papermill-error-cell-tag"]))
        })
        .map(|cell| timeless(&cell["metadata"]["papermill"]))
        .collect();
    json!([timeless(&notebook["metadata"]["papermill"]), of_cells])
}

#[test]
fn metadata_for_papermills_readers() {
    let sponde = Sponde::new();
    let file = sponde.write("parameters.yaml", "a: 1\n");
    for (name, sources, code) in [
        ("good", ["a = 0", "print(a)", "a"], 0),
        ("bad", ["a = 0", "a / 0", "a"], 1),
    ] {
        let source = sponde.write_notebook(
            &format!("{name}.ipynb"),
            "python3",
            &[
                ("parameters", sources[0]),
                ("", sources[1]),
                ("", sources[2]),
            ],
        );
        let theirs = sponde.path("theirs.ipynb");
        papermill(&[
            "run",
            source.to_str().unwrap(),
            file.to_str().unwrap(),
            theirs.to_str().unwrap(),
        ]);
        let ended = sponde.run(&[
            "run",
            source.to_str().unwrap(),
            "-p",
            "a=1",
            "-o",
            "ours.ipynb",
        ]);
        assert_eq!(ended.code, Some(code), "{ended}");
        let ours = sponde.path("ours.ipynb");
        assert_eq!(
            papermill_metadata(&read(&ours)),
            papermill_metadata(&read(&theirs)),
            "{name}"
        );
        assert_is_valid_notebook(&ours);
    }
}

#[test]
fn what_has_run_is_on_disk_while_the_rest_runs() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[
            ("", "echo first"),
            ("", "echo partial\nhang"),
            ("", "echo never"),
        ],
    );
    let started = sponde.start(&["run", "in.ipynb", "-o", "out.ipynb"]);
    let texts = || -> Vec<Value> {
        std::fs::read(sponde.path("out.ipynb"))
            .ok()
            .map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap())
            .map(|notebook| {
                cells(&notebook)
                    .iter()
                    .map(|cell| cell["outputs"][0]["text"].clone())
                    .collect()
            })
            .unwrap_or_default()
    };
    eventually(|| {
        texts()
            .get(1)
            .is_some_and(|text| *text == json!(["partial\n"]))
    });
    started.signal(rustix::process::Signal::KILL);
    started.end_killed();
    assert_eq!(
        texts(),
        [json!(["first\n"]), json!(["partial\n"]), Value::Null]
    );
    assert_is_valid_notebook(&sponde.path("out.ipynb"));
}

#[test]
fn outputs_of_an_earlier_run_are_not_taken_for_this_ones() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[("", "echo one"), ("", "echo two")],
    );
    assert_eq!(sponde.run(&["run", "in.ipynb", "--inplace"]).code, Some(0));
    let text = sponde
        .read("in.ipynb")
        .replace("echo one", "error Oops now");
    sponde.write("in.ipynb", text);
    assert_snapshot!(sponde.run(&["run", "in.ipynb", "--inplace"]), @"
    exit: 1
    --- stderr
    Oops: now
    error: cell 1 failed: Oops: now
      In [1]: error Oops now

    hint: the cells before it, and what it printed, are in `in.ipynb`
    ");
    let notebook = read(&sponde.path("in.ipynb"));
    assert_eq!(cells(&notebook)[1]["outputs"], json!([]));
    assert_eq!(cells(&notebook)[1]["execution_count"], Value::Null);
}

#[test]
fn time_limits_for_all_of_it() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[
            ("", "echo first"),
            ("", "hang-until-interrupt"),
            ("", "echo never"),
        ],
    );
    let ended = sponde.run(&["run", "in.ipynb", "--total-timeout", "1"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), "first\n"),
        "{ended}"
    );
    assert_snapshot!(ended.error().1, @"
    exit: 1
    error: the time for the notebook was over in cell 2
      In [2]: hang-until-interrupt

    hint: give it more with --total-timeout
    ");
    // A kernel that never says anything.
    sponde.add_kernelspec(
        "mute",
        &json!({"argv": ["sh", "-c", "sleep 600", "{connection_file}"], "display_name": "mute", "language": "mute"}).to_string(),
    );
    let ended = sponde.run(&["run", "-k", "mute", "--start-timeout", "1", "-c", "1"]);
    assert_snapshot!(ended.error().1, @"
    exit: 4
    error: kernel `mute` was not ready after 1 s

    hint: `sponde doctor` checks the kernel
    ");
}

#[test]
fn another_directory() {
    let sponde = Sponde::new();
    std::fs::create_dir(sponde.path("elsewhere")).unwrap();
    sponde.write(
        "script.py",
        "import os\nprint(os.path.basename(os.getcwd()))",
    );
    assert_snapshot!(sponde.run(&["run", "script.py", "--cwd", "elsewhere"]), @"
    exit: 0
    --- stdout
    elsewhere
    ");
    assert_snapshot!(sponde.run(&["run", "script.py", "--cwd", "nowhere"]), @"
    exit: 2
    --- stderr
    error: `nowhere` is not a directory
    ");
}

/// With the times taken out, and in a fixed order.
fn lines(ended: &Ended) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for line in ended.stdout.lines() {
        let line = line.split(" s").next().map_or(line, |before| {
            let is_time = before
                .rsplit(", ")
                .next()
                .is_some_and(|time| time.parse::<f64>().is_ok());
            if is_time {
                before.rsplit_once(", ").map_or(line, |(words, _)| words)
            } else {
                line
            }
        });
        match blocks.last_mut() {
            Some(block) if line.starts_with("  ") => {
                block.push('\n');
                block.push_str(line);
            }
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks.sort();
    format!(
        "exit: {}\n{}\n---\n{}",
        ended.code.unwrap(),
        blocks.join("\n"),
        ended.stderr
    )
}

#[test]
fn several_at_a_time() {
    let sponde = Sponde::new();
    // Each waits for the other: they must run at the same time.
    for (own, other) in [("a", "b"), ("b", "a")] {
        let code = format!(
            "import os, time\nopen('{own}.there', 'w').close()\nend = time.time() + 60\n\
             while not os.path.exists('{other}.there') and time.time() < end: time.sleep(0.05)\n\
             print(os.path.exists('{other}.there'))"
        );
        sponde.write_notebook(
            &format!("{own}.ipynb"),
            "python3",
            &[("", "1"), ("", &code)],
        );
    }
    sponde.write_notebook(
        "fails.ipynb",
        "misbehave",
        &[("", "echo hi"), ("", "error Oops it failed")],
    );
    let ended = sponde.run(&[
        "run",
        "a.ipynb",
        "fails.ipynb",
        "b.ipynb",
        "gone.ipynb",
        "-j",
        "3",
        "-o",
        "out",
    ]);
    assert_snapshot!(lines(&ended), @"
    exit: 1
    failed  fails.ipynb  cell 2 failed: Oops: it failed
            Oops: it failed
            In [2]: error Oops it failed
            hint: the cells before it, and what it printed, are in `out/fails.ipynb`
    failed  gone.ipynb  could not read `gone.ipynb`: No such file or directory (os error 2)
    ok      a.ipynb  2 cells
    ok      b.ipynb  2 cells
    ---
    error: 2 of 4 notebooks failed
    ");
    for (name, cell, text) in [("a", 1, "True\n"), ("b", 1, "True\n"), ("fails", 0, "hi\n")] {
        let notebook = read(&sponde.path(&format!("out/{name}.ipynb")));
        assert_eq!(cells(&notebook)[cell]["outputs"][0]["text"], json!([text]));
    }
}

#[test]
fn several_that_go_wrong_before_they_start() {
    let sponde = Sponde::new();
    std::fs::create_dir(sponde.path("sub")).unwrap();
    for name in ["a.ipynb", "sub/a.ipynb"] {
        sponde.write_notebook(name, "misbehave", &[("", "echo hi")]);
    }
    assert_snapshot!(sponde.run(&["run", "a.ipynb", "sub/a.ipynb", "-o", "out"]), @"
    exit: 2
    --- stderr
    error: `a.ipynb` and `sub/a.ipynb` would both be written to `out/a.ipynb`
    ");
    assert_snapshot!(sponde.run(&["run", "a.ipynb", "sub/a.ipynb", "-o", "out.ipynb"]), @"
    exit: 2
    --- stderr
    error: `out.ipynb` is not a directory, which -o must be for several notebooks
    ");
    assert_snapshot!(sponde.run(&["run", "a.ipynb", "-"]), @"
    exit: 2
    --- stderr
    error: `-` cannot be one of several
    ");
    assert_snapshot!(sponde.run(&["run", "a.ipynb", "sub/a.ipynb", "--json"]), @"
    exit: 2
    --- stderr
    error: --json is for one notebook at a time
    ");
}

#[test]
fn several_are_stopped_together() {
    let sponde = Sponde::new();
    for name in ["a.ipynb", "b.ipynb", "c.ipynb"] {
        sponde.write_notebook(name, "misbehave", &[("", "echo hi\nhang-until-interrupt")]);
    }
    let started = sponde.start(&[
        "run", "a.ipynb", "b.ipynb", "c.ipynb", "-j", "2", "-o", "out",
    ]);
    eventually(|| {
        ["a", "b"].iter().all(|name| {
            std::fs::read_to_string(sponde.path(&format!("out/{name}.ipynb")))
                .is_ok_and(|text| text.contains("hi\\n"))
        })
    });
    started.interrupt();
    assert_eq!(started.end().code, Some(130));
    assert!(!sponde.path("out/c.ipynb").exists());
}

#[test]
fn notebooks_through_pipes() {
    let sponde = Sponde::new();
    let path = sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[("", "echo hi\nstderr aside\nresult 5")],
    );
    let ended = sponde.run_with_stdin(
        &["run", "-", "-o", "-"],
        &std::fs::read_to_string(path).unwrap(),
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), "aside\n"));
    let notebook: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(cells(&notebook)[0]["outputs"][0]["text"], json!(["hi\n"]));
}

#[test]
fn a_script_in_percent_format() {
    let sponde = Sponde::new();
    sponde.write(
        "steps.py",
        r#"# ---
# jupyter:
#   kernelspec:
#     name: python3
#     display_name: Python 3
# ---

# %% [markdown]
# # Steps

# %% tags=["parameters"]
n = 3

# %% tags=["raises-exception"]
1 / 0

# %%
# %precision 2
3.14159

# %%
print("n is", n)
"#,
    );
    let ended = sponde.run(&["run", "steps.py", "-p", "n=5", "-o", "steps.ipynb"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "3.14\nn is 5\n"),
        "{ended}"
    );
    assert!(ended.stderr.contains("ZeroDivisionError"), "{ended}");
    let notebook = read(&sponde.path("steps.ipynb"));
    assert_is_valid_notebook(&sponde.path("steps.ipynb"));
    assert_eq!(
        outline(&notebook),
        [
            json!(["markdown", ["# Steps"], []]),
            json!(["code", ["n = 3"], ["parameters"]]),
            json!([
                "code",
                ["# Parameters\n", "n = 5\n"],
                ["injected-parameters"]
            ]),
            json!(["code", ["1 / 0"], ["raises-exception"]]),
            json!(["code", ["%precision 2\n", "3.14159"], []]),
            json!(["code", ["print(\"n is\", n)"], []]),
        ]
    );
}

#[test]
fn a_script_of_a_language_without_a_kernel() {
    let sponde = Sponde::new();
    sponde.write("steps.jl", "println(1)\n");
    assert_snapshot!(sponde.run(&["run", "steps.jl"]), @"
    exit: 2
    --- stderr
    error: there is no kernel for julia

    hint: `sponde kernels` lists those there are; get one with `sponde kernels install`, or name one with --kernel
    ");
}

#[test]
fn progress_in_lines() {
    let sponde = Sponde::new();
    sponde.write_notebook(
        "in.ipynb",
        "misbehave",
        &[("", "echo a"), ("skip-execution", "echo b"), ("", "echo c")],
    );
    let ended = sponde.run(&["run", "in.ipynb", "--progress", "lines"]);
    let stderr: Vec<&str> = ended
        .stderr
        .lines()
        .map(|line| line.rsplit_once(", ").unwrap().0)
        .collect();
    assert_eq!(stderr, ["cell 1 (1 of 2): ok", "cell 3 (2 of 2): ok"]);
}

/// As Python ends, without what IPython says to people at its prompt.
#[test]
fn sys_exit_in_a_script_is_its_exit_code() {
    let sponde = Sponde::new();
    sponde.write("exit.py", "import sys\nprint('before')\nsys.exit(3)\n");
    assert_snapshot!(sponde.run(&["run", "exit.py"]), @"
    exit: 3
    --- stdout
    before
    ");
    assert_snapshot!(sponde.run(&["run", "-c", "import sys; sys.exit('no such city')"]), @"
    exit: 1
    --- stderr
    no such city
    ");
    assert_snapshot!(sponde.run(&["run", "-c", "import sys; sys.exit()"]), @"exit: 0");
    // A warning of the script's own stays.
    let own = "import sys; sys.stderr.write('UserWarning: x\\n'); sys.exit(-1)";
    assert_snapshot!(sponde.run(&["run", "-c", own]), @"
    exit: 255
    --- stderr
    UserWarning: x
    ");
    // Of several the first that is no success counts, and a cell of a notebook fails as in Jupyter.
    sponde.write(
        "cells.py",
        "# %%\nimport sys\nsys.exit(4)\n# %%\nprint('never')\n",
    );
    assert_snapshot!(sponde.run(&["run", "cells.py"]), @"exit: 4");
    let file = sponde.write_notebook(
        "exit.ipynb",
        "python3",
        &[("code", "import sys\nsys.exit(3)")],
    );
    let ended = sponde.run(&["run", &file.to_string_lossy()]);
    assert!(
        ended
            .to_string()
            .contains("error: cell 1 failed: SystemExit: 3"),
        "{ended}"
    );
}
