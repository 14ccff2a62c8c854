//! Sponde's private Python environment: made with `python3 -m venv`, filled with pip, under the data directory.

use std::path::{Path, PathBuf};

use super::step::{run, succeeds};
use super::{Context, Notify};
use crate::error::{Exit, Failure};

/// The interpreters that are tried, best first.
const INTERPRETERS: [&str; 2] = ["python3", "python"];
/// The oldest Python that ipykernel 7 takes.
const OLDEST: (u32, u32) = (3, 10);

/// Makes sure that the environment is there and has `packages`; returns its interpreter.
pub async fn ensure(packages: &[&str], context: &Context) -> Result<PathBuf, Failure> {
    let env = context.paths.python_env();
    let python = env.join("bin/python");
    if !succeeds(&python, &["-c", "import pip"]).await {
        make(&env, &context.notify).await?;
    }
    ensure_packages(&python, packages, &context.notify).await?;
    Ok(python)
}

/// Makes sure that the environment of this interpreter, whosever it is, has `packages`.
pub(super) async fn ensure_packages(
    python: &Path,
    packages: &[&str],
    notify: &Notify,
) -> Result<(), Failure> {
    let missing = missing(python, packages).await;
    if missing.is_empty() {
        return Ok(());
    }
    install(python, &missing, false, notify).await
}

/// Installs `packages` even if they seem to be there.
pub(super) async fn reinstall(
    python: &Path,
    packages: &[&str],
    notify: &Notify,
) -> Result<(), Failure> {
    install(python, packages, true, notify).await
}

async fn make(env: &Path, notify: &Notify) -> Result<(), Failure> {
    let check = format!("import sys, venv, ensurepip; sys.exit(sys.version_info < {OLDEST:?})");
    let mut found = None;
    for name in INTERPRETERS {
        if succeeds(Path::new(name), &["-c", &check]).await {
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
        notify,
    )
    .await
}

/// The packages that the interpreter does not have, or not in the version that is pinned; without asking an index.
async fn missing<'a>(python: &Path, packages: &[&'a str]) -> Vec<&'a str> {
    let mut missing = Vec::new();
    for &package in packages {
        let name = package
            .split(['=', '>', '<', '~'])
            .next()
            .unwrap_or(package);
        let check = match package.split_once("==") {
            Some((_, version)) => {
                format!("import importlib.metadata as m; assert m.version({name:?}) == {version:?}")
            }
            None => format!("import importlib.metadata as m; m.version({name:?})"),
        };
        if !succeeds(python, &["-c", &check]).await {
            missing.push(package);
        }
    }
    missing
}

async fn install(
    python: &Path,
    packages: &[&str],
    again: bool,
    notify: &Notify,
) -> Result<(), Failure> {
    let mut args = vec![
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
    ];
    if again {
        args.push("--force-reinstall");
    }
    args.extend(packages);
    run(
        &format!("installing {}", packages.join(", ")),
        python,
        &args,
        notify,
    )
    .await
}
