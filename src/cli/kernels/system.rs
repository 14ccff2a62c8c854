//! What a kernel needs from the machine itself: looked for first, installed with apt-get only when that was allowed.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use super::recipe::{Need, Recipe};
use crate::cli::step::{run_with, succeeds};
use crate::cli::style::is_interactive;
use crate::error::{Exit, Failure};

/// Whether system packages may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// Yes: `--system`.
    Allowed,
    /// Only if a person at the terminal says so.
    Ask,
}

/// Something a kernel needs that is not there.
type Missing<'a> = (&'a Recipe, &'a Need);

/// Makes sure that the machine has what the recipes need.
///
/// # Errors
/// What is missing and why, and the command that installs it.
pub(super) async fn provide(recipes: &[Recipe], system: System) -> Result<(), Failure> {
    let missing = missing(recipes).await;
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing
        .iter()
        .flat_map(|(_, need)| need.debian.iter().map(String::as_str))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let Some(apt) =
        apt().filter(|apt| system == System::Allowed || agreed(apt, &missing, &packages))
    else {
        return Err(refused(&missing, &packages));
    };
    apt.install(&packages).await?;
    let missing = self::missing(recipes).await;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Failed,
        format!(
            "{} was installed, and yet something is missing",
            packages.join(", ")
        ),
    )
    .details(Some(&in_words(&missing)))
    .hint("is another version first on PATH?"))
}

async fn missing(recipes: &[Recipe]) -> Vec<Missing<'_>> {
    let mut missing = Vec::new();
    for recipe in recipes {
        for need in &recipe.steps.needs {
            if !is_met(need).await {
                missing.push((recipe, need));
            }
        }
    }
    missing
}

async fn is_met(need: &Need) -> bool {
    if let Some(program) = &need.program {
        return on_path(program).is_some();
    }
    match need.run.split_first() {
        Some((program, args)) => {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            succeeds(Path::new(program), &args).await
        }
        None => need.file.iter().any(|file| Path::new(file).exists()),
    }
}

fn in_words(missing: &[Missing<'_>]) -> String {
    let mut text = String::new();
    for (recipe, need) in missing {
        let _ = writeln!(
            text,
            "`{}` needs {} (Debian: {}): {}",
            recipe.name,
            need.what(),
            need.debian.join(", "),
            need.why
        );
    }
    text
}

fn refused(missing: &[Missing<'_>], packages: &[&str]) -> Failure {
    let mut names: Vec<&str> = missing.iter().map(|(recipe, _)| recipe.name).collect();
    names.dedup();
    let hint = match apt() {
        Some(apt) => format!(
            "install that with `{}`, or let this program do it with `sponde kernels install {} --system`",
            apt.command(packages).join(" "),
            names.join(" ")
        ),
        None if on_path("apt-get").is_some() => format!(
            "only root can install that, and there is no sudo; as root: `apt-get install --no-install-recommends {}`",
            packages.join(" ")
        ),
        None => format!(
            "install that with this system's package manager; on Debian it is in {}",
            packages.join(", ")
        ),
    };
    Failure::new(Exit::Failed, "this machine lacks what the kernel needs")
        .details(Some(&in_words(missing)))
        .hint(hint)
}

/// Asks the person, if there is one.
fn agreed(apt: &Apt, missing: &[Missing<'_>], packages: &[&str]) -> bool {
    if !is_interactive() {
        return false;
    }
    let command = apt.command(packages).join(" ");
    crate::cli::eprint(&format!("{}run `{command}`? [y/N] ", in_words(missing)));
    let mut line = String::new();
    // Nothing else runs yet that could be held up by this.
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

/// The way to run apt-get.
struct Apt {
    /// `sudo` and its options, if we are not root.
    sudo: &'static [&'static str],
}

/// How apt-get can be run here, if at all.
fn apt() -> Option<Apt> {
    on_path("apt-get")?;
    if rustix::process::geteuid().is_root() {
        return Some(Apt { sudo: &[] });
    }
    on_path("sudo")?;
    // Without a terminal nobody can type a password.
    let sudo: &[&str] = if std::io::stdin().is_terminal() {
        &["sudo"]
    } else {
        &["sudo", "-n"]
    };
    Some(Apt { sudo })
}

impl Apt {
    fn command<'a>(&self, packages: &[&'a str]) -> Vec<&'a str> {
        let mut command: Vec<&'a str> = self.sudo.to_vec();
        command.extend(["apt-get", "install", "--yes", "--no-install-recommends"]);
        command.extend(packages);
        command
    }

    async fn install(&self, packages: &[&str]) -> Result<(), Failure> {
        let install = self.command(packages);
        let what = format!("installing {} with apt-get", packages.join(", "));
        let first = run_words(&what, &install).await;
        if first.is_ok() {
            return first;
        }
        // A fresh machine has no lists of packages, an old one has lists of packages that are gone.
        let mut update: Vec<&str> = self.sudo.to_vec();
        update.extend(["apt-get", "update"]);
        run_words("reading the lists of packages", &update).await?;
        run_words(&what, &install).await
    }
}

async fn run_words(what: &str, command: &[&str]) -> Result<(), Failure> {
    let (program, args) = command.split_first().unwrap_or((&"", &[]));
    let env = [("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned())];
    run_with(what, Path::new(program), args, &env).await
}

/// Where a program is.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}
