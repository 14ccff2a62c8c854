//! Rules of the house that no lint holds: which floor may use what (`docs/architecture.md`), how long a file may be, and
//! words that must not be in it. Every failure names file, line and rule.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rust_source::{Path as UsedPath, Source};

/// What the files of one part of `src` may use.
struct Rule {
    /// Files or directories, relative to `src`.
    files: &'static [&'static str],
    /// Paths of ours, besides those of the floor itself. `Types` stands for names in capitals: types, not modules.
    may: &'static [&'static str],
    /// Other crates.
    crates: Crates,
    /// Paths of the standard library, and of anything else, that must not be there.
    never: &'static [&'static str],
}

enum Crates {
    /// These and no others.
    Only(&'static [&'static str]),
    /// All but these.
    AllBut(&'static [&'static str]),
}

/// Macros and functions that write where only a front end may.
const PRINTING: [&str; 7] = [
    "println",
    "eprintln",
    "print",
    "eprint",
    "dbg",
    "io::stdout",
    "io::stderr",
];

/// The first that fits counts.
const RULES: &[Rule] = &[
    Rule {
        files: &["jupyter"],
        may: &[],
        crates: Crates::Only(&[
            "base64",
            "bytes",
            "hmac",
            "schemars",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "uuid",
        ]),
        never: &[
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
            "std::os",
            "std::time",
        ],
    },
    // The one place of that floor that speaks HTTP.
    Rule {
        files: &["kernel/gateway.rs", "kernel/gateway"],
        may: &["ansi", "child", "jupyter", "kernel", "task"],
        crates: Crates::AllBut(&[
            "rig",
            "axum",
            "hyper",
            "hyper_util",
            "crossterm",
            "clap",
            "anstream",
            "anstyle",
            "indicatif",
            "zeromq",
        ]),
        never: &["std::env::var", "std::env::vars", "std::env::var_os"],
    },
    // The proxy of confined kernels is a server of HTTP, which nobody else on that floor is.
    Rule {
        files: &["kernel/sandbox/net"],
        may: &["ansi", "child", "jupyter", "kernel", "task"],
        crates: Crates::AllBut(&[
            "rig",
            "axum",
            "crossterm",
            "clap",
            "anstyle",
            "indicatif",
            "reqwest",
            "zeromq",
        ]),
        never: &["std::env::var", "std::env::vars", "std::env::var_os"],
    },
    Rule {
        files: &["kernel"],
        may: &["ansi", "child", "jupyter", "task"],
        crates: Crates::AllBut(&[
            "rig",
            "axum",
            "hyper",
            "hyper_util",
            "crossterm",
            "clap",
            "anstyle",
            "indicatif",
            "reqwest",
            "hyper",
            "hyper_util",
            "http_body_util",
        ]),
        never: &["std::env::var", "std::env::vars", "std::env::var_os"],
    },
    Rule {
        files: &["llm"],
        may: &["child", "program", "task"],
        crates: Crates::AllBut(&[
            "zeromq",
            "axum",
            "hyper",
            "hyper_util",
            "crossterm",
            "clap",
            "anstream",
            "anstyle",
            "indicatif",
        ]),
        never: &["std::env::var", "std::env::vars", "std::env::var_os"],
    },
    Rule {
        files: &["session"],
        may: &["ansi", "jupyter", "kernel::Types", "llm::types"],
        crates: Crates::Only(&[
            "base64",
            "bytes",
            "crc32fast",
            "csv",
            "image",
            "regex",
            "saphyr_parser",
            "schemars",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "unicode_width",
        ]),
        // Time is passed in.
        never: &[
            "std::time::SystemTime",
            "std::time::Instant",
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
        ],
    },
    // Readings of a notebook, whatever made it.
    Rule {
        files: &["export"],
        may: &["ansi", "jupyter", "session::notebook", "session::summarize"],
        crates: Crates::Only(&["ammonia", "base64", "jiff", "pulldown_cmark", "serde_json"]),
        never: &[
            "std::time",
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
        ],
    },
    // What code might do, found without running it.
    Rule {
        files: &["risk"],
        may: &[],
        crates: Crates::Only(&[
            "schemars",
            "serde",
            "tree_sitter",
            "tree_sitter_bash",
            "tree_sitter_python",
            "tree_sitter_r",
            "tree_sitter_typescript",
        ]),
        never: &[
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
            "std::os",
            "std::time",
        ],
    },
    // Deciding is pure.
    Rule {
        files: &["agent/approval.rs", "agent/approval"],
        may: &["agent", "kernel::Types", "risk", "session::journal"],
        crates: Crates::Only(&["schemars", "serde"]),
        never: &[
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
            "std::time",
        ],
    },
    Rule {
        files: &["agent"],
        may: &["jupyter", "kernel", "llm", "risk", "session", "task"],
        crates: Crates::AllBut(&[
            "zeromq",
            "reqwest",
            "rig",
            "axum",
            "hyper",
            "hyper_util",
            "crossterm",
            "clap",
            "anstream",
            "anstyle",
            "indicatif",
        ]),
        never: &["std::env::var", "std::env::vars", "std::env::var_os"],
    },
    // What every front end shares: it neither prints nor asks, and reads no environment.
    Rule {
        files: &["app"],
        may: &[
            "agent", "child", "config", "error", "export", "jupyter", "kernel", "llm", "paths",
            "program", "rpc", "session", "task",
        ],
        crates: Crates::AllBut(&[
            "zeromq",
            "rig",
            "axum",
            "hyper",
            "hyper_util",
            "crossterm",
            "clap",
            "anstream",
            "anstyle",
            "indicatif",
            "rustyline",
        ]),
        never: &[
            "std::env::var",
            "std::env::vars",
            "std::env::var_os",
            "std::env::vars_os",
            "std::env::current_dir",
            "std::env::temp_dir",
            "std::process::exit",
            "std::io::stdin",
        ],
    },
    // Where models are listed and tried.
    Rule {
        files: &["cli/models.rs", "cli/models", "cli/doctor.rs"],
        may: &[
            "agent",
            "app",
            "config",
            "error",
            "jupyter",
            "paths",
            "session",
            "kernel::Types",
            "llm::catalog",
            "llm::detect",
            "llm::endpoint",
            "llm::http",
            "llm::listing",
            "llm::local",
            "llm::providers",
            "llm::types",
        ],
        crates: Crates::AllBut(&["zeromq", "rig"]),
        never: &[],
    },
    // It starts the server, and knows nothing else of it.
    Rule {
        files: &["cli/mcp.rs", "cli/protocol_config.rs"],
        may: &["app", "cli", "error", "mcp"],
        crates: Crates::AllBut(&["zeromq", "rig", "reqwest", "axum", "hyper"]),
        never: &[],
    },
    Rule {
        files: &["cli/acp.rs"],
        may: &["acp", "app", "cli", "error"],
        crates: Crates::AllBut(&["zeromq", "rig", "reqwest", "axum", "hyper"]),
        never: &[],
    },
    Rule {
        files: &["cli/serve.rs", "cli/args/serve.rs"],
        may: &["app", "cli", "error", "paths", "server"],
        crates: Crates::AllBut(&["zeromq", "rig", "reqwest", "axum", "hyper"]),
        never: &[],
    },
    Rule {
        files: &["cli"],
        may: &[
            "agent",
            "ansi",
            "app",
            "config",
            "error",
            "export",
            "jupyter",
            "paths",
            "session",
            "kernel::Types",
            "kernel::attach",
            "kernel::discover",
            "kernel::folder",
            "kernel::gateway",
            "kernel::probe",
            "kernel::reap",
            "kernel::sandbox",
            "task",
            // The name of a default, and a server that lives as long as its session.
            "llm::local",
            "llm::mode",
        ],
        crates: Crates::AllBut(&["zeromq", "rig", "reqwest", "axum", "hyper", "hyper_util"]),
        never: &[],
    },
    // The only floor that answers HTTP. What it runs and reads is `app`'s.
    Rule {
        files: &["server"],
        may: &[
            "agent",
            "app",
            "error",
            "export",
            "jupyter",
            "mcp",
            "paths",
            "rpc",
            "session",
            "kernel::Types",
            "kernel::folder",
            "task",
        ],
        crates: Crates::AllBut(&[
            "zeromq",
            "rig",
            "reqwest",
            "clap",
            "anstream",
            "anstyle",
            "indicatif",
            "rustyline",
        ]),
        never: &[
            "std::env::var",
            "std::env::vars",
            "std::env::var_os",
            "std::env::vars_os",
            "std::env::current_dir",
            "std::env::temp_dir",
            "std::process::exit",
            "std::io::stdin",
        ],
    },
    Rule {
        files: &["acp"],
        may: &[
            "agent",
            "ansi",
            "app",
            "config::tools",
            "jupyter",
            "kernel::Types",
            "mcp::clients",
            "rpc",
            "session",
            "task",
        ],
        crates: Crates::AllBut(&["zeromq", "rig", "reqwest", "axum", "hyper", "clap"]),
        never: &[
            "std::env",
            "std::fs",
            "std::net",
            "std::process",
            "std::io::stdin",
        ],
    },
    // Messages and pipes, whatever is said in them.
    Rule {
        files: &["rpc"],
        may: &[],
        crates: Crates::Only(&["serde_json", "thiserror", "tokio", "tracing"]),
        never: &["std::env", "std::fs", "std::net", "std::process"],
    },
    Rule {
        files: &["mcp"],
        may: &["agent", "app", "jupyter", "rpc", "session", "task"],
        crates: Crates::AllBut(&["zeromq", "rig", "reqwest", "axum", "hyper", "clap"]),
        never: &[
            "std::env",
            "std::fs",
            "std::net",
            "std::process",
            "std::io::stdin",
        ],
    },
    Rule {
        files: &["config.rs", "config"],
        may: &[
            "agent::approval",
            "agent::StdinPolicy",
            "agent::budget",
            "agent::install",
            "config",
            "kernel::LevelChoice",
            "kernel::Network",
            "llm::mode",
            "llm::providers",
            "session::OutputLimits",
        ],
        crates: Crates::Only(&["serde", "thiserror", "toml"]),
        never: &[],
    },
    // Properties for the fuzzer and the tests; nothing of them is in the program.
    Rule {
        files: &["fuzz.rs", "fuzz"],
        may: &[
            "agent", "cli", "export", "jupyter", "kernel", "llm", "session",
        ],
        crates: Crates::Only(&[]),
        never: &[],
    },
    // Pure: text in, text out.
    Rule {
        files: &["ansi.rs"],
        may: &[],
        crates: Crates::Only(&[]),
        never: &["std::env", "std::fs", "std::io", "std::net", "std::process"],
    },
    Rule {
        files: &["child.rs"],
        may: &[],
        crates: Crates::Only(&["rustix", "tokio"]),
        never: &["std::env", "std::fs", "std::net"],
    },
    Rule {
        files: &["task.rs"],
        may: &[],
        crates: Crates::Only(&["tokio", "tracing"]),
        never: &["std::env", "std::fs", "std::net", "std::process"],
    },
    Rule {
        files: &["program.rs"],
        may: &[],
        crates: Crates::Only(&["rustix", "tokio"]),
        never: &["std::env", "std::fs"],
    },
    Rule {
        files: &["paths.rs"],
        may: &["kernel::Types"],
        crates: Crates::Only(&["etcetera", "thiserror"]),
        never: &[],
    },
    Rule {
        files: &["error.rs"],
        may: &[],
        crates: Crates::Only(&[]),
        never: &[],
    },
    Rule {
        files: &["lib.rs", "main.rs"],
        may: &["cli"],
        crates: Crates::Only(&[]),
        never: &[],
    },
];

#[test]
fn every_floor_uses_only_what_is_below_it() {
    let dependencies = dependencies();
    let mut broken = String::new();
    for file in rust_files("src") {
        let relative = file.strip_prefix(root().join("src")).unwrap();
        let Some(rule) = RULES
            .iter()
            .find(|rule| rule.files.iter().any(|start| relative.starts_with(start)))
        else {
            let _ = writeln!(
                broken,
                "src/{}:1: no floor: add a rule to tests/it/tidy.rs",
                relative.display()
            );
            continue;
        };
        if is_test_file(relative) {
            continue;
        }
        let source = Source::parse(&std::fs::read_to_string(&file).unwrap(), relative);
        for path in source.paths() {
            if let Some(reason) = judge(rule, relative, &path, &dependencies) {
                let _ = writeln!(
                    broken,
                    "src/{}:{}: `{}`: {reason}",
                    relative.display(),
                    path.line,
                    path
                );
            }
        }
    }
    assert!(broken.is_empty(), "\n{broken}");
}

/// Why `path` must not be there, if so.
fn judge(
    rule: &Rule,
    file: &Path,
    path: &UsedPath,
    dependencies: &BTreeSet<String>,
) -> Option<String> {
    let floor = file
        .iter()
        .next()?
        .to_str()?
        .trim_end_matches(".rs")
        .to_owned();
    if !matches!(floor.as_str(), "cli" | "web" | "mcp" | "main")
        && PRINTING.iter().any(|&printing| path.ends_with(printing))
    {
        return Some("only a front end prints".to_owned());
    }
    if let Some(never) = rule.never.iter().find(|never| path.starts_with(never)) {
        return Some(format!("{floor} never uses `{never}`"));
    }
    let first = path.segments.first()?;
    if first == "crate" {
        let target = path.segments.get(1)?;
        let is_ours = root().join("src").join(target).is_dir()
            || root().join(format!("src/{target}.rs")).is_file();
        let may = |allowed: &str| match allowed.strip_suffix("::Types") {
            Some(floor) => {
                target == floor
                    && path
                        .segments
                        .get(2)
                        .is_some_and(|name| name.starts_with(char::is_uppercase))
            }
            None => path.starts_with(&format!("crate::{allowed}")),
        };
        let allowed = *target == floor
            || floor == "lib"
            || !is_ours
            || rule.may.iter().any(|allowed| may(allowed));
        return (!allowed).then(|| format!("{floor} may use of ours only {:?}", rule.may));
    }
    if !dependencies.contains(first) {
        return None;
    }
    match rule.crates {
        Crates::Only(crates) if !crates.contains(&first.as_str()) => {
            Some(format!("{floor} may use of other crates only {crates:?}"))
        }
        Crates::AllBut(crates) if crates.contains(&first.as_str()) => {
            Some(format!("{floor} never uses {crates:?}"))
        }
        Crates::Only(_) | Crates::AllBut(_) => None,
    }
}

/// The names of our dependencies, as code writes them.
fn dependencies() -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let sections = manifest
        .split("\n[")
        .filter(|section| section.starts_with("dependencies]"));
    let lines = sections.flat_map(|section| section.lines().skip(1));
    let mut names: BTreeSet<String> = lines
        .filter_map(|line| Some(line.split_once('=')?.0.trim().replace('-', "_")))
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .collect();
    // The library of `rig-core`.
    names.insert("rig".to_owned());
    assert!(names.contains("tokio") && names.len() > 10, "{names:?}");
    names
}

/// Lines of a file without its tests, and with them.
const LINES: usize = 500;
const LINES_WITH_TESTS: usize = 800;

#[test]
fn files_are_short() {
    let mut broken = String::new();
    for file in rust_files("src") {
        let relative = file.strip_prefix(root().join("src")).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().count();
        let own = if is_test_file(relative) {
            0
        } else {
            Source::parse(&text, relative).lines_before_tests
        };
        let shown = relative.display();
        if own > LINES {
            let _ = writeln!(
                broken,
                "src/{shown}:{LINES}: {own} lines without tests: split it ({LINES} at most)"
            );
        }
        if lines > LINES_WITH_TESTS {
            let _ = writeln!(
                broken,
                "src/{shown}:{LINES_WITH_TESTS}: {lines} lines: split it ({LINES_WITH_TESTS} at most)"
            );
        }
    }
    assert!(broken.is_empty(), "\n{broken}");
}

#[test]
fn every_file_says_what_it_is_for() {
    let files = rust_files("src").into_iter().chain(rust_files("tests"));
    let silent: Vec<PathBuf> = files
        .filter(|file| !std::fs::read_to_string(file).unwrap().starts_with("//! "))
        .collect();
    assert_eq!(
        silent,
        Vec::<PathBuf>::new(),
        "line 1 of these should begin with `//! `"
    );
}

#[test]
fn nothing_is_left_for_later() {
    // In pieces: this file is searched, too.
    let words = [
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("#[ig", "nore"),
    ];
    let files: Vec<PathBuf> = tracked().into_iter().filter(|file| is_code(file)).collect();
    assert_eq!(found(&files, &words, |_, _| false), "");
}

#[test]
fn no_registry_is_named() {
    // Package names are enough; where packages come from is the machine's business.
    let words = [
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("python", "hosted.org"),
        concat!("registry.", "npmjs.org"),
        concat!("deb.", "debian.org"),
    ];
    let exempt = |file: &Path, line: &str| {
        file.ends_with("Cargo.lock") && line.starts_with("source = \"registry+https://")
    };
    assert_eq!(found(&tracked(), &words, exempt), "");
}

/// Each line that has one of `words`, with its file and number.
fn found(files: &[PathBuf], words: &[&str], exempt: impl Fn(&Path, &str) -> bool) -> String {
    let mut found = String::new();
    for file in files {
        // Pictures and other binary files have no words.
        let Ok(text) = std::fs::read_to_string(root().join(file)) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(**word))
                && !exempt(file, line)
            {
                let _ = writeln!(
                    found,
                    "{}:{}: `{word}` must not be there",
                    file.display(),
                    index + 1
                );
            }
        }
    }
    found
}

fn is_code(file: &Path) -> bool {
    file.starts_with("src") || file.starts_with("tests") || file.starts_with("scripts")
}

/// The files that git knows or would know, relative to the root.
fn tracked() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).unwrap();
    let files: Vec<PathBuf> = names.split_terminator('\0').map(PathBuf::from).collect();
    assert!(files.len() > 50, "git lists only {} files", files.len());
    files
}

/// Whether all of the file is tests: `tests.rs`, or in a directory `tests`.
fn is_test_file(file: &Path) -> bool {
    file.iter()
        .any(|part| part == "tests" || part == "tests.rs" || part == "fuzz.rs")
}

pub(crate) fn rust_files(dir: &str) -> Vec<PathBuf> {
    let mut dirs = vec![root().join(dir)];
    let mut files = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
