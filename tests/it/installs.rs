//! Packages that code lacks, with the real index that pip is configured for: 30 names, in Sponde's own environment and in
//! somebody else's. And the libraries that `kernels install python3` brings.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{NOBODY, Sponde, python_prefix};
use crate::terminal::play;

/// A program with pip's configuration of this machine, and Sponde's environment in it.
fn sponde() -> (Sponde, PathBuf) {
    let mut sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    for (name, value) in std::env::vars() {
        let is_of_network = name.starts_with("PIP_") || name.to_lowercase().ends_with("_proxy");
        if is_of_network || name == "SSL_CERT_FILE" {
            sponde = sponde.with(&name, &value);
        }
    }
    let env = sponde.path("../data/sponde/python");
    (sponde, env)
}

fn installed(sponde: &Sponde, arguments: &[&str]) {
    let ended = sponde
        .start(&[&["kernels", "install"], arguments].concat())
        .end_within(std::time::Duration::from_mins(20));
    assert_eq!(ended.code, Some(0), "{ended}");
}

/// A chat whose lines come from a pipe; what it showed. It may take its time: packages come over the network.
fn chat(sponde: &Sponde, arguments: &[&str], lines: &str) -> String {
    let mut command = assert_cmd::Command::from_std(sponde.command(arguments));
    let output = command
        .timeout(std::time::Duration::from_mins(15))
        .write_stdin(lines)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// What is in an environment, by pip's names in small letters.
fn packages(env: &Path) -> Vec<String> {
    let code = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'].lower())";
    let output = Command::new(env.join("bin/python"))
        .args(["-I", "-c", code])
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Modules, their packages, and what must be said where one is not installed.
const KNOWN: [(&str, &str); 15] = [
    ("tabulate", "tabulate"),
    ("humanize", "humanize"),
    ("xlrd", "xlrd"),
    ("dotenv", "python-dotenv"),
    ("chardet", "chardet"),
    ("bs4", "beautifulsoup4"),
    ("yaml", "pyyaml"),
    ("xlsxwriter", "xlsxwriter"),
    ("pymysql", "pymysql"),
    ("markdown", "markdown"),
    ("pytz", "pytz"),
    ("mpmath", "mpmath"),
    ("geopy", "geopy"),
    ("cv2", "opencv-python-headless"),
    ("sklearn", "scikit-learn"),
];
const NEVER: [&str; 17] = [
    // Of Python 2, or of no use here.
    "urllib2",
    "ConfigParser",
    "cPickle",
    "StringIO",
    "Queue",
    "urlparse",
    "Tkinter",
    // Invented.
    "sponde_no_such_module_one",
    "pandas_auto_magic_cleaner_x",
    "sklearn_extra_super_utils_q",
    // There are packages of these names; nobody says that they are meant.
    "cowsay",
    "emoji",
    "pyfiglet",
    "reqeusts",
    // Not modules.
    "os.nothing",
    "json.nothing.at.all",
    "__hello",
];

#[test]
fn packages_come_by_name_or_not_at_all() {
    let (sponde, env) = sponde();
    installed(&sponde, &["python3", "--minimal"]);
    let before = packages(&env);
    let mut lines = String::new();
    for (module, _) in KNOWN {
        let _ = writeln!(lines, "!import {module}; print('has', '{module}')");
    }
    for module in NEVER {
        let _ = writeln!(lines, "!import {module}; print('has', '{module}')");
    }
    // Several in a cell, which runs to its end once.
    lines += "!n = globals().get('n', 0) + 1; import html5lib, docx; print('times', n)\n";
    let kernel = env.to_string_lossy().into_owned();
    let arguments = ["--model", "m", "-k", &kernel, "--install", "allow"];
    let shown = chat(&sponde, &arguments, &lines);
    let there = packages(&env);
    for (module, package) in KNOWN {
        assert!(
            shown.contains(&format!("has {module}\n")),
            "{module}: {shown}"
        );
        assert!(there.contains(&package.to_owned()), "{package}");
    }
    assert!(shown.contains("times 3"), "{shown}");
    let after = packages(&env);
    for module in NEVER {
        assert!(
            !shown.contains(&format!("has {module}\n")),
            "{module}: {shown}"
        );
        assert!(!after.contains(&module.to_owned()), "{module}");
        // And it is said why.
        let is_said = [
            format!("nothing is installed. There is no module `{module}`"),
            format!("`{module}` is not installed: Sponde does not know which package has it"),
        ];
        // What is no name of a module is Python's to say.
        let mut parts = module.split('.');
        let first = [parts.next(), parts.next()];
        let is_said = match first {
            [Some(outer), Some(inner)] => {
                shown.contains(&format!("No module named '{outer}.{inner}'"))
            }
            _ => is_said.iter().any(|words| shown.contains(words)),
        };
        assert!(is_said, "{module}: {shown}");
    }
    // What was there is as it was.
    assert!(
        before.iter().all(|it| after.contains(it)),
        "{before:?} {after:?}"
    );
}

/// A library that the second step of an installation is bringing is waited for, and a second installer waits too.
#[test]
fn two_installers_do_not_meet() {
    let (sponde, env) = sponde();
    installed(&sponde, &["python3", "--minimal"]);
    // As `kernels install` does while it is at its second step.
    std::fs::write(env.join("sponde-more"), "python3").unwrap();
    let lock = std::fs::OpenOptions::new()
        .append(true)
        .open(sponde.path("../data/sponde/kernels.lock"))
        .unwrap();
    lock.lock().unwrap();
    let second = std::thread::spawn({
        let mut command = sponde.command(&["kernels", "install", "python3", "--minimal"]);
        move || command.output().unwrap()
    });
    let kernel = env.to_string_lossy().into_owned();
    let mut chat = sponde
        .command(&["--model", "m", "-k", &kernel, "--install", "ask"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = chat.stdin.take().unwrap();
    stdin
        .write_all(b"!import tqdm; print('has', 6 * 7)\n")
        .unwrap();
    drop(stdin);
    let said = BufReader::new(chat.stderr.take().unwrap());
    let mut lines = said.lines().map(Result::unwrap);
    let waiting = "`tqdm` is being installed into Sponde's own environment: the cell waits for it";
    assert!(lines.any(|line| line.contains(waiting)));
    let done = Command::new(env.join("bin/python"))
        .args(["-I", "-m", "pip", "install", "--quiet", "tqdm"])
        .status()
        .unwrap();
    assert!(done.success());
    lock.unlock().unwrap();
    let rest: Vec<String> = lines.collect();
    let ended = chat.wait_with_output().unwrap();
    let shown = format!(
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        rest.join("\n")
    );
    assert!(shown.contains("has 42"), "{shown}");
    let second = second.join().unwrap();
    let errors = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.success(), "{errors}");
    assert!(
        errors.contains("another installation by Sponde is running: waiting for it"),
        "{errors}"
    );
}

/// An environment of the person's: never without a question, which says whose it is.
#[test]
fn the_environment_of_a_person_is_theirs() {
    let (sponde, _) = sponde();
    let env = sponde.path("theirs");
    let made = Command::new(python_prefix().join("bin/python"))
        .args(["-m", "venv"])
        .arg(&env)
        .status()
        .unwrap();
    assert!(made.success());
    installed(&sponde, &["--into", &env.to_string_lossy()]);
    let kernel = env.to_string_lossy().into_owned();
    let shown = chat(
        &sponde,
        &["--model", "m", "-k", &kernel, "--install", "allow"],
        "!import tabulate; print('has', 'it')\n",
    );
    assert!(!shown.contains("has it"), "{shown}");
    assert!(
        shown.contains("`tabulate`, which your own environment"),
        "{shown}"
    );
    assert!(!packages(&env).contains(&"tabulate".to_owned()));
    // None of the thirty, whatever they are called.
    let before = packages(&env);
    let mut lines = String::new();
    let names = KNOWN.iter().map(|(module, _)| *module).chain(NEVER);
    for module in names.clone() {
        let _ = writeln!(lines, "!import {module}; print('has', '{module}')");
    }
    let arguments = ["--model", "m", "-k", &kernel, "--install", "allow"];
    let shown = chat(&sponde, &arguments, &lines);
    for module in names {
        let was_there = KNOWN
            .iter()
            .any(|(it, package)| *it == module && before.contains(&(*package).to_owned()));
        assert!(
            was_there || !shown.contains(&format!("has {module}\n")),
            "{module}: {shown}"
        );
    }
    assert_eq!(packages(&env), before);
    // Code in the kernel cannot change what Sponde would run there.
    let evil = "!open('theirs/lib/evil.pth', 'w')\n";
    let shown = chat(&sponde, &["--model", "m", "-k", &kernel], evil);
    assert!(!env.join("lib/evil.pth").exists(), "{shown}");
    let question = "Install the package `tabulate` into your own environment";
    let screen = play(
        &sponde,
        &["--model", "m", "-k", &kernel],
        &json!([
            ["wait", "> "],
            ["type", "!import tabulate; print('has', 6 * 7)\n"],
            ["wait", question],
            ["type", "n\n"],
            ["wait", "> "],
            ["type", "!import tabulate; print('has', 6 * 7)\n"],
            ["wait", question],
            ["type", "y\n"],
            ["wait", "has 42"],
            ["type", "!import cowsay\n"],
            ["wait", "it may not be the intended one"],
            ["type", "n\n"],
            ["wait", "> "],
            ["type", "/exit\n"],
        ]),
    );
    assert!(
        packages(&env).contains(&"tabulate".to_owned()),
        "{}",
        screen.all
    );
    assert!(
        !packages(&env).contains(&"cowsay".to_owned()),
        "{}",
        screen.all
    );
}

/// All that an analyst expects, in the versions of the lock file.
#[test]
fn the_private_environment_has_the_libraries_of_an_analyst() {
    let (sponde, env) = sponde();
    installed(&sponde, &["python3"]);
    let names = "numpy pandas polars pyarrow duckdb scipy sklearn statsmodels matplotlib seaborn plotly altair openpyxl \
                 python_calamine lxml requests sqlalchemy psycopg sympy tqdm PIL networkx ipywidgets dill pypdf \
                 h5py h5netcdf xarray xlsxwriter";
    let mut lines = String::new();
    for name in names.split_whitespace() {
        let _ = writeln!(lines, "!import {name}; print('has', '{name}')");
    }
    let kernel = env.to_string_lossy().into_owned();
    let arguments = ["--model", "m", "-k", &kernel, "--install", "never"];
    let shown = chat(&sponde, &arguments, &lines);
    for name in names.split_whitespace() {
        assert!(shown.contains(&format!("has {name}\n")), "{name}: {shown}");
    }
    // ipykernel brings one too, and uv links that to its cache: it must not be written to.
    let spec = env.join("share/jupyter/kernels/python3/kernel.json");
    assert_eq!(std::fs::metadata(spec).unwrap().nlink(), 1);
    // A second time there is nothing to do, and nothing is asked of the index.
    let again = sponde
        .command(&["kernels", "install", "python3"])
        .env("PIP_INDEX_URL", NOBODY)
        .env("UV_DEFAULT_INDEX", NOBODY)
        .output()
        .unwrap();
    assert!(
        again.status.success(),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
    // As the lock has them, and the page of a Plotly chart loads what draws it in the same version.
    let lock = include_str!("../../kernelspecs/python3/requirements.txt");
    let code = "import importlib.metadata as m, sys\n\
                from plotly.offline import get_plotlyjs_version\n\
                for d in m.distributions(): print(d.metadata['Name'].lower().replace('_', '-').replace('.', '-') + '==' + d.version)\n\
                print('plotly.js', get_plotlyjs_version())";
    let output = Command::new(env.join("bin/python"))
        .args(["-I", "-c", code])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let pinned: Vec<&str> = lock
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|line| line.contains("=="))
        .collect();
    let mut compared = 0;
    for found in told.lines().filter(|line| line.contains("==")) {
        let (name, _) = found.split_once("==").unwrap();
        let of = |line: &&&str| line.split_once("==").is_some_and(|(it, _)| it == name);
        if pinned.iter().any(|line| of(&line)) {
            compared += 1;
            assert!(pinned.contains(&found), "{found} is not what the lock has");
        }
    }
    assert!(compared > 60, "{compared}: {told}");
    let (_, version) = told.trim_end().rsplit_once("plotly.js ").unwrap();
    let page = include_str!("../../src/session/visual.rs");
    assert!(
        page.contains(&format!("plotly-{version}.min.js")),
        "{version}"
    );
}
