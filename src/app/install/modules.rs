//! Installs the packages that code of a session lacks: with pip, by Sponde itself, so that the kernel stays confined.
//!
//! What pip does here nothing confines, so nothing that a kernel can write has a say in it: Python starts isolated (`-I`), which
//! keeps files of the working directory out; only wheels are taken, which run no code when they are installed; and an
//! environment that the kernel could have changed is left alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::lock;
use super::system::on_path;
use crate::agent::install::{Installer, Installs, Offer, Package, hint, package_of};
use crate::app::step::succeeds;
use crate::app::workspace::KernelAt;
use crate::app::{Context, SessionSettings, python};
use crate::kernel::sandbox::Sandbox;
use crate::kernel::sandbox::probe::Tier;
use crate::kernel::{KernelSource, LaunchOptions};
use crate::program;

/// How long the index may take to say whether it has a package.
const ASKED: Duration = Duration::from_mins(1);
/// How long a package may take.
const WITHIN: Duration = Duration::from_mins(15);

/// How long a session waits for the second step of `kernels install python3`.
const COMES: Duration = Duration::from_mins(10);

/// What a session does about missing modules: nothing where its kernel is not ours to give anything.
pub fn installs(
    settings: &SessionSettings,
    kernel: KernelAt,
    main: &LaunchOptions,
    context: &Context,
) -> Option<Installs> {
    let policy = settings
        .install
        .or(context.config.install)
        .unwrap_or_default();
    let installer = Pip {
        context: context.clone(),
        open: open_to_kernels(main),
    };
    (kernel == KernelAt::Here).then(|| Installs {
        installer: Arc::new(installer),
        policy,
        attended: settings.attended,
    })
}

/// The interpreter of a kernel.
pub fn interpreter(kernel: &KernelSource, context: &Context) -> Option<PathBuf> {
    let program = kernel.spec.argv.first()?;
    let prefix = kernel.prefix.as_deref();
    let program = match prefix {
        Some(prefix) => program.replace("{prefix}", &prefix.to_string_lossy()),
        None => program.clone(),
    };
    let path = PathBuf::from(&program);
    if path.is_absolute() {
        return path.exists().then_some(path);
    }
    // Jupyter takes the environment's own for a bare name.
    let own = prefix.map(|prefix| prefix.join("bin/python"));
    own.filter(|own| program.starts_with("python") && own.exists())
        .or_else(|| on_path(&program, &context.paths.environment))
}

/// Directories in which a confined kernel can write all there is: only the stronger tier keeps environments in them
/// read-only. One that is not confined needs no help of ours to do what it wants.
fn open_to_kernels(main: &LaunchOptions) -> Vec<PathBuf> {
    match &main.sandbox {
        Sandbox::Confined(confinement) if confinement.tier == Tier::Landlock => {
            let mut open = confinement.add_dirs.clone();
            if confinement.writes {
                open.push(main.cwd.clone());
            }
            open
        }
        Sandbox::Confined(_) | Sandbox::Full => Vec::new(),
    }
}

#[derive(Clone)]
struct Pip {
    context: Context,
    open: Vec<PathBuf>,
}

impl Installer for Pip {
    fn look(
        &self,
        kernel: KernelSource,
        module: String,
    ) -> BoxFuture<'static, Result<Offer, String>> {
        let pip = self.clone();
        async move { pip.offer(&kernel, module).await }.boxed()
    }

    fn install(&self, offer: Offer) -> BoxFuture<'static, Result<(), String>> {
        let pip = self.clone();
        async move {
            let done = timeout(WITHIN, pip.add(&offer)).await;
            done.unwrap_or_else(|_| Err("it took too long".to_owned()))
        }
        .boxed()
    }

    fn wait(&self, offer: Offer) -> BoxFuture<'static, Result<(), String>> {
        let pip = self.clone();
        async move {
            if !lock::is_free(COMES, &pip.context).await {
                let minutes = COMES.as_secs() / 60;
                return Err(format!(
                    "the installation did not end within {minutes} minutes; try again later"
                ));
            }
            if python::has(&offer.python, &offer.package).await {
                return Ok(());
            }
            Err(
                "the installation ended without it; `sponde kernels install python3` tries again"
                    .to_owned(),
            )
        }
        .boxed()
    }
}

impl Pip {
    async fn offer(&self, kernel: &KernelSource, module: String) -> Result<Offer, String> {
        let package = match package_of(&module) {
            Some(Package::Named(package)) => Some(package),
            Some(Package::Standard(_)) => return Err(hint(&module)),
            None => None,
        };
        let missing = || hint(&module);
        let python = self.interpreter(kernel).ok_or_else(missing)?;
        let real = python.parent().and_then(|it| it.canonicalize().ok());
        let is_open = |dir: &PathBuf| {
            let dir = dir.canonicalize().ok();
            real.as_ref()
                .zip(dir)
                .is_some_and(|(real, dir)| real.starts_with(dir))
        };
        if self.open.iter().any(is_open) {
            return Err(format!(
                "{} Its environment is in a directory that code here can write, so Sponde installs nothing into it.",
                hint(&module)
            ));
        }
        if !succeeds(&python, &["-I", "-c", "import pip"]).await {
            return Err(format!("{} Its environment has no pip.", hint(&module)));
        }
        let is_known = package.is_some();
        let package = package.map_or_else(|| module.clone(), str::to_owned);
        if !is_known {
            on_index(&python, &package).await?;
        }
        let private = self.context.paths.python_env();
        // By where they are: the same can be written in several ways.
        let own = private.join("bin").canonicalize().ok();
        let is_private = own.is_some() && own == real;
        let environment = if is_private {
            "Sponde's own environment".to_owned()
        } else {
            let prefix = python.parent().and_then(Path::parent).unwrap_or(&python);
            format!("your own environment `{}`", prefix.display())
        };
        let is_coming =
            is_private && python::is_pinned(&package) && lock::installs_more(&self.context).await;
        Ok(Offer {
            module,
            package,
            is_known,
            python,
            environment,
            is_private,
            is_coming,
        })
    }

    fn interpreter(&self, kernel: &KernelSource) -> Option<PathBuf> {
        interpreter(kernel, &self.context)
    }

    async fn add(&self, offer: &Offer) -> Result<(), String> {
        let _lock = lock::lock(&self.context)
            .await
            .map_err(|failure| failure.message)?;
        let starts = hooks(&offer.python);
        let done = if offer.is_private {
            python::add(
                &offer.python,
                &[&offer.package],
                &["--only-binary", ":all:"],
                &self.context,
            )
            .await
        } else {
            let notify = &self.context.notify;
            python::install(
                &offer.python,
                &[&offer.package],
                &["--only-binary", ":all:"],
                notify,
            )
            .await
        };
        // Before that Python starts again.
        let mut more = hooks(&offer.python);
        more.retain(|hook| !starts.contains(hook));
        if !offer.is_known {
            for hook in &more {
                let _ = std::fs::remove_file(hook);
            }
            if !more.is_empty() {
                self.context.notify.info(format!(
                    "`{}` wanted to run code whenever Python starts: that was taken out",
                    offer.package
                ));
            }
        }
        done.map_err(|failure| {
            let last = failure
                .details
                .as_deref()
                .and_then(|words| words.lines().last());
            last.map_or_else(|| failure.message.clone(), str::to_owned)
        })
    }
}

/// Whether the index has a package of this name.
async fn on_index(python: &Path, package: &str) -> Result<(), String> {
    let mut command = tokio::process::Command::new(python);
    command
        .args(["-I", "-m", "pip", "index", "versions", package])
        .args([
            "--disable-pip-version-check",
            "--no-input",
            "--retries",
            "1",
        ]);
    let unknown = |why: &str| Err(format!("{} {why}", hint(package)));
    match program::output(command, ASKED).await {
        Ok(said) if said.status.success() => Ok(()),
        Ok(said) => {
            let words = String::from_utf8_lossy(&said.stderr);
            if words.contains("No matching distribution found") && !words.contains("Retrying") {
                unknown(&format!(
                    "The index has no package `{package}` either: the name is not right."
                ))
            } else {
                unknown("The index could not be asked.")
            }
        }
        Err(_) => unknown("The index could not be asked."),
    }
}

/// What runs whenever a Python starts (the documentation of `site`).
fn hooks(python: &Path) -> BTreeSet<PathBuf> {
    let prefix = python.parent().and_then(Path::parent);
    let versions = prefix.and_then(|prefix| std::fs::read_dir(prefix.join("lib")).ok());
    let files = versions
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|version| {
            let packages = std::fs::read_dir(version.path().join("site-packages"));
            packages.into_iter().flatten().flatten()
        });
    files
        .map(|file| file.path())
        .filter(|path| {
            path.extension().is_some_and(|it| it == "pth")
                || ["sitecustomize.py", "usercustomize.py"]
                    .iter()
                    .any(|name| path.ends_with(name))
        })
        .collect()
}
