//! Sponde's private Python environment: made with `python3 -m venv`, filled with pip, under the data directory.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::Context;
use crate::error::{Exit, Failure};

/// The interpreters that are tried, best first.
const INTERPRETERS: [&str; 2] = ["python3", "python"];
/// The oldest Python that ipykernel 7 takes.
const OLDEST: (u32, u32) = (3, 10);

/// Makes sure that the environment is there and has `packages`; returns its interpreter.
pub(super) async fn ensure(packages: &[&str], context: &Context) -> Result<PathBuf, Failure> {
    let env = context.paths.python_env();
    let python = env.join("bin/python");
    if !works(&python).await {
        make(&env).await?;
    }
    let missing = missing(&python, packages).await;
    if !missing.is_empty() {
        install(&python, &missing).await?;
    }
    Ok(python)
}

async fn works(python: &Path) -> bool {
    python.exists() && quiet(python, &["-c", "import pip"]).await
}

async fn quiet(program: &Path, args: &[&str]) -> bool {
    tokio::process::Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await
        .is_ok_and(|status| status.success())
}

async fn make(env: &Path) -> Result<(), Failure> {
    let check = format!("import sys, venv, ensurepip; sys.exit(sys.version_info < {OLDEST:?})");
    let mut found = None;
    for name in INTERPRETERS {
        if quiet(Path::new(name), &["-c", &check]).await {
            found = Some(name);
            break;
        }
    }
    let Some(python) = found else {
        return Err(Failure::new(
            Exit::Failed,
            format!(
                "there is no Python {}.{} or newer with venv and pip",
                OLDEST.0, OLDEST.1
            ),
        )
        .hint("install it, on Debian and Ubuntu: apt-get install python3 python3-venv"));
    };
    let env = env.to_string_lossy();
    run(
        &format!("making {env}"),
        Path::new(python),
        &["-m", "venv", "--clear", &env],
    )
    .await
}

/// The packages that the interpreter does not have, without asking an index.
async fn missing<'a>(python: &Path, packages: &[&'a str]) -> Vec<&'a str> {
    let mut missing = Vec::new();
    for &package in packages {
        let name = package
            .split(['=', '>', '<', '~'])
            .next()
            .unwrap_or(package);
        let check = format!("import importlib.metadata as m; m.version({name:?})");
        if !quiet(python, &["-c", &check]).await {
            missing.push(package);
        }
    }
    missing
}

async fn install(python: &Path, packages: &[&str]) -> Result<(), Failure> {
    let mut args = vec![
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
    ];
    args.extend(packages);
    run(
        &format!("installing {}", packages.join(", ")),
        python,
        &args,
    )
    .await
}

/// Runs a program with a spinner that shows its last line; its output is shown when it fails.
async fn run(what: &str, program: &Path, args: &[&str]) -> Result<(), Failure> {
    let spinner = spinner(what);
    let failed = |details: Option<&str>| {
        Failure::new(Exit::Failed, format!("{what} failed"))
            .details(details)
            .hint("the lines above say why: mostly the network, the disk, or a directory that cannot be written")
    };
    let mut child = tokio::process::Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(Some(&error.to_string())))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(failed(None));
    };
    let mut out = BufReader::new(stdout).lines();
    let mut err = BufReader::new(stderr).lines();
    let mut said = std::collections::VecDeque::new();
    let (mut out_open, mut err_open) = (true, true);
    while out_open || err_open {
        tokio::select! {
            line = out.next_line(), if out_open => match line {
                Ok(Some(line)) => spinner.set_message(super::filter::plain(&line)),
                _ => out_open = false,
            },
            line = err.next_line(), if err_open => match line {
                Ok(Some(line)) => {
                    said.push_back(line);
                    if said.len() > 15 {
                        said.pop_front();
                    }
                }
                _ => err_open = false,
            },
        }
    }
    let status = child.wait().await;
    spinner.finish_and_clear();
    if status.is_ok_and(|status| status.success()) {
        super::eprint(&format!("{what}: done\n"));
        return Ok(());
    }
    let details: Vec<String> = said.into();
    Err(failed(Some(&details.join("\n"))))
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_msg:.dim}") {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    if bar.is_hidden() {
        super::eprint(&format!("{what} ...\n"));
    }
    bar
}
