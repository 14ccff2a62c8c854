//! What a kernel needs from the machine itself: looked for first, installed with apt-get only when that was allowed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::recipe::{Need, Recipe};
use crate::app::step::{run_with, succeeds};
use crate::app::{Context, Notify};
use crate::error::{Failure, FailureKind};
use crate::paths::Environment;

/// Whether system packages may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// No: what is missing is an error.
    Refused,
    /// Yes.
    Allowed {
        /// Whether somebody is there to type a password for `sudo`.
        password: bool,
    },
}

impl System {
    /// How packages are installed here; `None` if they are not.
    fn apt(self, environment: &Environment) -> Option<Apt> {
        match self {
            Self::Allowed { password } => apt(password, environment),
            Self::Refused => None,
        }
    }
}

/// What of a recipe's needs counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What the kernel does not work without.
    Needs,
    /// Libraries, which it works without.
    More,
    /// Both.
    All,
}

impl Wanted {
    fn of(self, recipe: &Recipe) -> impl Iterator<Item = &Need> {
        let (needs, more) = (&recipe.steps.needs, &recipe.steps.more_needs);
        let none: &[Need] = &[];
        let (first, second) = match self {
            Self::Needs => (needs.as_slice(), none),
            Self::More => (more.as_slice(), none),
            Self::All => (needs.as_slice(), more.as_slice()),
        };
        first.iter().chain(second)
    }
}

/// Something a kernel needs that is not there.
type Missing<'a> = (&'a Recipe, &'a Need);

/// A question to the person: may these system packages be installed?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemQuestion {
    /// What needs what, and why: a line each.
    pub why: String,
    /// The command that installs it.
    pub command: String,
}

/// What to ask before [`provide`], if the machine lacks something that we can install.
pub async fn question(
    recipes: &[Recipe],
    wanted: Wanted,
    password: bool,
    context: &Context,
) -> Option<SystemQuestion> {
    let environment = &context.paths.environment;
    let missing = missing(recipes, wanted, environment).await;
    if missing.is_empty() {
        return None;
    }
    let apt = apt(password, environment)?;
    Some(SystemQuestion {
        why: in_words(&missing),
        command: apt.command(&packages(&missing)).join(" "),
    })
}

/// Makes sure that the machine has what the recipes need.
///
/// # Errors
/// What is missing and why, and the command that installs it.
pub async fn provide(recipes: &[Recipe], system: System, context: &Context) -> Result<(), Failure> {
    let environment = &context.paths.environment;
    let missing = missing(recipes, Wanted::Needs, environment).await;
    if missing.is_empty() {
        return Ok(());
    }
    let packages = packages(&missing);
    let Some(apt) = system.apt(environment) else {
        return Err(refused(&missing, &packages, environment));
    };
    install(&apt, recipes, Wanted::Needs, &packages, context).await
}

/// Installs the libraries that the kernel of a recipe works without; says so where that is not allowed.
///
/// # Errors
/// What could not be installed.
pub(super) async fn provide_more(
    recipe: &Recipe,
    system: System,
    context: &Context,
) -> Result<(), Failure> {
    let environment = &context.paths.environment;
    let recipes = std::slice::from_ref(recipe);
    let missing = missing(recipes, Wanted::More, environment).await;
    if missing.is_empty() {
        return Ok(());
    }
    let packages = packages(&missing);
    let Some(apt) = system.apt(environment) else {
        context.notify.info(format!(
            "`{}` works, but libraries that analyses use are not installed: {} ({})",
            recipe.name,
            packages.join(", "),
            how(&packages, &[recipe.name], environment)
        ));
        return Ok(());
    };
    install(&apt, recipes, Wanted::More, &packages, context).await
}

async fn install(
    apt: &Apt,
    recipes: &[Recipe],
    wanted: Wanted,
    packages: &[&str],
    context: &Context,
) -> Result<(), Failure> {
    apt.install(packages, &context.notify).await?;
    let missing = missing(recipes, wanted, &context.paths.environment).await;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Failed,
        format!(
            "{} was installed, and yet something is missing",
            packages.join(", ")
        ),
    )
    .details(Some(&in_words(&missing)))
    .hint("is another version first on PATH?"))
}

/// The system packages that are missing, each once.
fn packages<'a>(missing: &[Missing<'a>]) -> Vec<&'a str> {
    let mut packages: Vec<&str> = missing
        .iter()
        .flat_map(|(_, need)| need.debian.iter().map(String::as_str))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

async fn missing<'a>(
    recipes: &'a [Recipe],
    wanted: Wanted,
    environment: &Environment,
) -> Vec<Missing<'a>> {
    let mut missing = Vec::new();
    for recipe in recipes {
        for need in wanted.of(recipe) {
            if !is_met(need, environment).await {
                missing.push((recipe, need));
            }
        }
    }
    missing
}

async fn is_met(need: &Need, environment: &Environment) -> bool {
    if let Some(program) = &need.program {
        return on_path(program, environment).is_some();
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

fn refused(missing: &[Missing<'_>], packages: &[&str], environment: &Environment) -> Failure {
    let mut names: Vec<&str> = missing.iter().map(|(recipe, _)| recipe.name).collect();
    names.dedup();
    let hint = how(packages, &names, environment);
    Failure::new(
        FailureKind::Failed,
        "this machine lacks what the kernel needs",
    )
    .details(Some(&in_words(missing)))
    .hint(hint)
}

/// How a person gets packages for the kernels `names`.
fn how(packages: &[&str], names: &[&str], environment: &Environment) -> String {
    match apt(false, environment) {
        Some(apt) => format!(
            "install that with `{}`, or let this program do it with `sponde kernels install {} --system`",
            apt.command(packages).join(" "),
            names.join(" ")
        ),
        None if on_path("apt-get", environment).is_some() => format!(
            "only root can install that, and there is no sudo; as root: `apt-get install --no-install-recommends {}`",
            packages.join(" ")
        ),
        None => format!(
            "install that with this system's package manager; on Debian it is in {}",
            packages.join(", ")
        ),
    }
}

/// The way to run apt-get.
struct Apt {
    /// `sudo` and its options, if we are not root.
    sudo: &'static [&'static str],
}

/// How apt-get can be run here, if at all.
fn apt(password: bool, environment: &Environment) -> Option<Apt> {
    on_path("apt-get", environment)?;
    if rustix::process::geteuid().is_root() {
        return Some(Apt { sudo: &[] });
    }
    on_path("sudo", environment)?;
    let sudo: &[&str] = if password { &["sudo"] } else { &["sudo", "-n"] };
    Some(Apt { sudo })
}

impl Apt {
    fn command<'a>(&self, packages: &[&'a str]) -> Vec<&'a str> {
        let mut command: Vec<&'a str> = self.sudo.to_vec();
        command.extend(["apt-get", "install", "--yes", "--no-install-recommends"]);
        command.extend(packages);
        command
    }

    async fn install(&self, packages: &[&str], notify: &Notify) -> Result<(), Failure> {
        let install = self.command(packages);
        let what = format!("installing {} with apt-get", packages.join(", "));
        let first = run_words(&what, &install, notify).await;
        if first.is_ok() {
            return first;
        }
        // A fresh machine has no lists of packages, an old one has lists of packages that are gone.
        let mut update: Vec<&str> = self.sudo.to_vec();
        update.extend(["apt-get", "update"]);
        run_words("reading the lists of packages", &update, notify).await?;
        run_words(&what, &install, notify).await
    }
}

async fn run_words(what: &str, command: &[&str], notify: &Notify) -> Result<(), Failure> {
    let (program, args) = command.split_first().unwrap_or((&"", &[]));
    let env = [("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned())];
    run_with(what, Path::new(program), args, &env, notify).await
}

/// Where a program is.
pub(in crate::app) fn on_path(program: &str, environment: &Environment) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    std::env::split_paths(environment.get("PATH")?)
        .map(|dir| dir.join(program))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}
