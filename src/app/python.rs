//! Sponde's private Python environment in the data directory: created with `python3 -m venv`, packages installed with
//! pip.

use std::path::{Path, PathBuf};

use super::install::system::on_path;
use super::step::{ASKED_WITHIN, run, run_with, succeeds};
use super::{Context, Notify};
use crate::error::{Failure, FailureKind};
use crate::program;

/// The interpreters to try, best first.
const INTERPRETERS: [&str; 2] = ["python3", "python"];
/// The oldest Python that ipykernel 7 supports.
const OLDEST: (u32, u32) = (3, 10);

/// The package versions that are tested together (`kernelspecs/python3/requirements.txt`).
const LOCK: &str = include_str!("../../kernelspecs/python3/requirements.txt");

/// Makes sure that the environment exists and has `packages`; returns its interpreter.
pub async fn ensure(packages: &[&str], context: &Context) -> Result<PathBuf, Failure> {
    let env = context.paths.python_env();
    let python = env.join("bin/python");
    if !succeeds(&python, &["-I", "-c", "import pip"]).await {
        make(&env, &context.notify).await?;
    }
    let missing = missing(&python, packages).await;
    if missing.is_empty() {
        return Ok(python);
    }
    add(&python, &missing, &[], context).await?;
    Ok(python)
}

/// Installs packages into the private environment, in the locked versions. If the index does not have these, installs
/// other versions.
pub(super) async fn add(
    python: &Path,
    packages: &[&str],
    more: &[&str],
    context: &Context,
) -> Result<(), Failure> {
    let lock = context.paths.python_env().join("sponde-requirements.txt");
    std::fs::write(&lock, LOCK).map_err(|error| {
        let lock = lock.display();
        Failure::new(
            FailureKind::Failed,
            format!("could not write `{lock}`: {error}"),
        )
    })?;
    let lock = lock.to_string_lossy();
    let pinned = [&["-c", &lock], more].concat();
    if let Some((uv, env)) = uv(python, context).await {
        let interpreter = python.to_string_lossy();
        // A confined kernel cannot store compiled Python files; a uv.toml here may come from anyone.
        let own = [
            "pip",
            "install",
            "--no-config",
            "--quiet",
            "--compile-bytecode",
            "--python",
            &interpreter,
        ];
        let args = [&own, pinned.as_slice(), packages].concat();
        let what = format!("installing {}", packages.join(", "));
        if run_with(&what, &uv, &args, &env, &context.notify)
            .await
            .is_ok()
        {
            return Ok(());
        }
        context.notify.info("uv could not install them: pip tries");
    }
    let installed = install(python, packages, &pinned, &context.notify).await;
    let Err(failure) = installed else {
        return Ok(());
    };
    if !failure.details.as_deref().is_some_and(lacks_version) {
        return Err(failure);
    }
    (context.notify).info("the index does not have the pinned versions: taking others");
    install(python, packages, more, &context.notify).await
}

/// Whether the lock has a package of this name.
pub(super) fn is_pinned(package: &str) -> bool {
    let plain = |name: &str| name.to_lowercase().replace(['_', '.'], "-");
    let mut names = LOCK.lines().filter_map(|line| line.split_once("=="));
    names.any(|(name, _)| plain(name) == plain(package))
}

/// Whether the interpreter has a package.
pub(super) async fn has(python: &Path, package: &str) -> bool {
    missing(python, &[package]).await.is_empty()
}

/// Whether pip's output says that a version is not available.
fn lacks_version(words: &str) -> bool {
    words.contains("No matching distribution found") || words.contains("ResolutionImpossible")
}

/// Makes sure that this interpreter's environment (Sponde's or the person's own) has `packages`.
pub(super) async fn ensure_packages(
    python: &Path,
    packages: &[&str],
    notify: &Notify,
) -> Result<(), Failure> {
    let missing = missing(python, packages).await;
    if missing.is_empty() {
        return Ok(());
    }
    install(python, &missing, &[], notify).await
}

/// Installs `packages` even if they seem to be installed.
pub(super) async fn reinstall(
    python: &Path,
    packages: &[&str],
    notify: &Notify,
) -> Result<(), Failure> {
    install(python, packages, &["--force-reinstall"], notify).await
}

async fn make(env: &Path, notify: &Notify) -> Result<(), Failure> {
    let check = format!("import sys, venv, ensurepip; sys.exit(sys.version_info < {OLDEST:?})");
    let mut found = None;
    for name in INTERPRETERS {
        if succeeds(Path::new(name), &["-I", "-c", &check]).await {
            found = Some(name);
            break;
        }
    }
    let Some(python) = found else {
        return Err(Failure::new(
            FailureKind::Failed,
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
        &["-I", "-m", "venv", "--clear", &env],
        notify,
    )
    .await
}

/// Prints which of its arguments are not installed, or not in the pinned version.
const MISSING: &str = r"
import sys, importlib.metadata as m
for wanted in sys.argv[1:]:
    name, _, version = wanted.partition('==')
    for mark in '<>=~':
        name = name.partition(mark)[0]
    try:
        found = m.version(name)
        if version and found != version:
            print(wanted)
    except m.PackageNotFoundError:
        print(wanted)
";

/// The packages that the interpreter does not have in the pinned version; checked without an index.
async fn missing<'a>(python: &Path, packages: &[&'a str]) -> Vec<&'a str> {
    if packages.is_empty() {
        return Vec::new();
    }
    let mut command = tokio::process::Command::new(python);
    command.args(["-I", "-c", MISSING]).args(packages);
    let said = program::output(command, ASKED_WITHIN).await;
    let Some(printed) = said.ok().and_then(|said| said.printed()) else {
        return packages.to_vec();
    };
    let is_missing = |package: &&str| printed.lines().any(|line| line == *package);
    packages.iter().copied().filter(is_missing).collect()
}

/// The pip settings for which uv has a variable. Other settings about package sources are only known to pip.
const SETTINGS: [(&str, &str); 4] = [
    ("index-url", "UV_DEFAULT_INDEX"),
    ("extra-index-url", "UV_INDEX"),
    ("find-links", "UV_FIND_LINKS"),
    ("cert", "SSL_CERT_FILE"),
];
const ONLY_PIP: [&str; 5] = [
    "no-index",
    "proxy",
    "trusted-host",
    "client-cert",
    "config-settings",
];

/// The uv version that pip installs.
const UV: &str = "uv==0.13.9";

/// uv, which needs seconds where pip needs minutes: from PATH, or from the private environment, where pip installs it
/// first. Returned with the variables that correspond to pip's configuration. `None` if uv is not available, or could
/// not do the same as pip.
async fn uv(python: &Path, context: &Context) -> Option<(PathBuf, Vec<(String, String)>)> {
    let mut command = tokio::process::Command::new(python);
    command.args(["-I", "-m", "pip", "config", "list"]);
    let configured = program::output(command, ASKED_WITHIN).await.ok()?;
    let env = uv_settings(&configured.printed()?)?;
    if let Some(uv) = on_path("uv", &context.paths.environment) {
        return Some((uv, env));
    }
    let own = python.parent()?.join("uv");
    if !succeeds(&own, &["--version"]).await {
        install(python, &[UV], &["--only-binary", ":all:"], &context.notify)
            .await
            .ok()?;
    }
    Some((own, env))
}

/// Translates the output of `pip config list` for uv: `global.index-url='https://…'`.
fn uv_settings(pip: &str) -> Option<Vec<(String, String)>> {
    let mut env = Vec::new();
    for line in pip.lines() {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let name = key.rsplit('.').next().unwrap_or(key);
        if ONLY_PIP.contains(&name) {
            return None;
        }
        if let Some((_, variable)) = SETTINGS.iter().find(|(it, _)| *it == name) {
            let value = value.trim_matches('\'').replace("\\n", " ");
            env.push(((*variable).to_owned(), value.trim().to_owned()));
        }
    }
    Some(env)
}

/// Installs with pip. `more` are additional arguments.
pub(super) async fn install(
    python: &Path,
    packages: &[&str],
    more: &[&str],
    notify: &Notify,
) -> Result<(), Failure> {
    // Isolated mode: no file of the working directory is imported by pip.
    let mut args = vec![
        "-I",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
    ];
    args.extend(more);
    args.extend(packages);
    run(
        &format!("installing {}", packages.join(", ")),
        python,
        &args,
        notify,
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_knows_its_packages() {
        for (package, is) in [
            ("scikit-learn", true),
            ("SQLAlchemy", true),
            ("python_calamine", true),
            ("tabulate", false),
        ] {
            assert_eq!(is_pinned(package), is, "{package}");
        }
    }

    #[test]
    fn uv_is_told_what_pip_is_configured_to_do() {
        let env = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            uv_settings(
                ":env:.find-links='/opt/wheels'\nglobal.index-url='https://mirror.example/simple'\nglobal.timeout='60'\n"
            ),
            Some(vec![
                env("UV_FIND_LINKS", "/opt/wheels"),
                env("UV_DEFAULT_INDEX", "https://mirror.example/simple"),
            ])
        );
        assert_eq!(uv_settings(""), Some(vec![]));
        assert_eq!(uv_settings("global.no-index='1'\n"), None);
    }
}
