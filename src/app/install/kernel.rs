//! A kernel from its recipe, in private prefixes under the data directory.
//!
//! Each step looks first whether it was done, so a second run installs nothing and a failed one goes on where it
//! stopped. kernel.json is written last, and the kernel has to run a cell.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::recipe::{self, Recipe};
use super::system::on_path;
use crate::app::step::run_with;
use crate::app::{Context, kernels, python};
use crate::error::{Failure, FailureKind};
use crate::kernel::{ExecuteOptions, Kernel, OutputEvent, SearchPath, SearchPaths, Verdict};

/// What an environment that is not ours gets: the kernel and nothing else.
const INTO: &str = "ipykernel>=7";
/// How long the cell may take that tells whether a kernel works.
const CHECK: Duration = Duration::from_secs(30);

/// The recipes of these kernels, each once.
///
/// # Errors
/// A name that no recipe has.
pub fn plan(names: &[String]) -> Result<Vec<Recipe>, Failure> {
    let mut recipes: Vec<Recipe> = Vec::new();
    for name in names {
        let recipe = recipe::find(name)?;
        if !recipes.contains(&recipe) {
            recipes.push(recipe);
        }
    }
    Ok(recipes)
}

/// Installs ipykernel into an environment of the person's.
///
/// Returns the environment's path, which names its kernel.
///
/// # Errors
/// What could not be installed, or does not work.
pub async fn install_into(env: &Path, context: &Context) -> Result<PathBuf, Failure> {
    let env = std::path::absolute(env).unwrap_or_else(|_| env.to_owned());
    let python = env.join("bin/python");
    if !python.exists() {
        return Err(Failure::usage(format!(
            "`{}` is not a Python environment: it has no bin/python",
            env.display()
        )));
    }
    python::ensure_packages(&python, &[INTO], &context.notify).await?;
    let name = env.to_string_lossy();
    let kernel = kernels::find_kernel(Some(&format!("{name}/")), context)?;
    check(
        &kernel.name,
        &recipe::find("python3")?,
        kernel.clone(),
        context,
    )
    .await?;
    Ok(env)
}

/// One at a time: pip and npm do not expect another in the same directory.
///
/// # Errors
/// The data directory cannot be written.
pub fn lock(context: &Context) -> Result<std::fs::File, Failure> {
    let path = context.paths.data.join("kernels.lock");
    let failed = |error: std::io::Error| {
        Failure::new(
            FailureKind::Failed,
            format!("could not write `{}`: {error}", path.display()),
        )
    };
    std::fs::create_dir_all(&context.paths.data).map_err(failed)?;
    let file = std::fs::File::create(&path).map_err(failed)?;
    if file.try_lock().is_err() {
        context
            .notify
            .info("another `sponde kernels install` is at work: waiting for it");
        file.lock().map_err(failed)?;
    }
    Ok(file)
}

/// Installs what the kernel of a recipe has beside what it needs to start. The caller holds the [`lock`].
///
/// # Errors
/// What could not be installed. The kernel works without.
pub async fn install_more(recipe: &Recipe, context: &Context) -> Result<(), Failure> {
    let more: Vec<&str> = recipe.steps.more.iter().map(String::as_str).collect();
    if more.is_empty() {
        return Ok(());
    }
    let marker = more_marker(context);
    // So that the next start knows, if this one does not come to its end.
    let _ = std::fs::write(&marker, recipe.name);
    python::ensure(&more, context).await.map_err(|failure| {
        failure.hint(format!(
            "the kernel works without them; `sponde kernels install {}` tries again, `--minimal` leaves them out",
            recipe.name
        ))
    })?;
    let _ = std::fs::remove_file(&marker);
    Ok(())
}

/// Whether an installation of more packages began and did not end.
pub fn lacks_more(context: &Context) -> bool {
    more_marker(context).exists() && !is_locked(context)
}

/// Notes that more packages are to come.
pub fn wants_more(context: &Context) {
    let _ = std::fs::write(more_marker(context), "python3");
}

fn more_marker(context: &Context) -> PathBuf {
    context.paths.python_env().join("sponde-more")
}

/// Whether something is being installed.
fn is_locked(context: &Context) -> bool {
    let path = context.paths.data.join("kernels.lock");
    std::fs::File::open(path).is_ok_and(|file| file.try_lock_shared().is_err())
}

/// Installs the kernel of one recipe; returns the directory of its kernelspec. The caller holds the [`lock`], and the
/// machine has what the recipe [needs](super::system).
///
/// # Errors
/// What could not be installed, or does not work.
pub async fn install_one(recipe: &Recipe, context: &Context) -> Result<PathBuf, Failure> {
    let prefix = context.paths.python_env();
    let dir = prefix.join("share/jupyter/kernels").join(recipe.name);
    if let Some(note) = &recipe.steps.note {
        context.notify.info(format!("{}: {note}", recipe.name));
    }
    let mut again = false;
    loop {
        packages(recipe, again, context).await?;
        let existed = write_spec(recipe, &dir, context)?;
        let source = SearchPaths::from(vec![SearchPath {
            origin: "sponde",
            data_dir: prefix.join("share/jupyter"),
            prefix: Some(prefix.clone()),
        }])
        .find(recipe.name)
        .map_err(|error| Failure::new(FailureKind::Kernel, error.to_string()));
        let checked = match source {
            Ok(source) => check(recipe.name, recipe, source, context).await,
            Err(failure) => Err(failure),
        };
        match checked {
            Ok(()) => return Ok(dir),
            // What was there may have been made for a Node.js or Python that is gone.
            Err(failure) if existed && !again => {
                context
                    .notify
                    .info(format!("{failure}: installing it again"));
                again = true;
            }
            Err(failure) => {
                // A kernel that does not work is not offered.
                let _ = std::fs::remove_file(dir.join("kernel.json"));
                return Err(failure);
            }
        }
    }
}

async fn packages(recipe: &Recipe, again: bool, context: &Context) -> Result<(), Failure> {
    let steps = &recipe.steps;
    let wanted: Vec<&str> = steps.python.iter().map(String::as_str).collect();
    // Always: kernel.json goes there.
    let python = python::ensure(&wanted, context).await?;
    if again && !wanted.is_empty() {
        python::reinstall(&python, &wanted, &context.notify).await?;
    }
    let env: Vec<(String, String)> = steps
        .env
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for package in &steps.node {
        node(package, &env, again, context).await?;
    }
    for package in &steps.cargo {
        cargo(package, &env, again, context).await?;
    }
    Ok(())
}

/// An npm package `name@version` in a prefix of its own.
async fn node(
    package: &str,
    env: &[(String, String)],
    again: bool,
    context: &Context,
) -> Result<(), Failure> {
    let prefix = &context.paths.node_env();
    let (name, version) = package.rsplit_once('@').unwrap_or((package, ""));
    let installed = std::fs::read(prefix.join("node_modules").join(name).join("package.json"))
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .is_some_and(|value| value.get("version").and_then(|v| v.as_str()) == Some(version));
    if installed && !again {
        return Ok(());
    }
    let unwritable = |error: std::io::Error| {
        Failure::new(
            FailureKind::Failed,
            format!("could not write to `{}`: {error}", prefix.display()),
        )
    };
    if again {
        // npm would leave compiled parts as they are.
        let _ = std::fs::remove_dir_all(prefix.join("node_modules"));
    }
    std::fs::create_dir_all(prefix).map_err(unwritable)?;
    // npm would look for one in the directories above.
    if !prefix.join("package.json").exists() {
        std::fs::write(prefix.join("package.json"), "{\"private\": true}\n").map_err(unwritable)?;
    }
    let mut env = env.to_vec();
    env.extend(node_headers(context).map(|dir| ("npm_config_nodedir".to_owned(), dir)));
    let directory = prefix.to_string_lossy();
    let args = [
        "install",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--loglevel",
        "error",
        "--prefix",
        &directory,
        package,
    ];
    run_with(
        &format!("installing {package}"),
        Path::new("npm"),
        &args,
        &env,
        &context.notify,
    )
    .await
}

/// Where Node's headers are, if they came with it: node-gyp would fetch them.
fn node_headers(context: &Context) -> Option<String> {
    let node = on_path("node", &context.paths.environment)?
        .canonicalize()
        .ok()?;
    let prefix = node.parent()?.parent()?;
    prefix
        .join("include/node/node_version.h")
        .exists()
        .then(|| prefix.to_string_lossy().into_owned())
}

/// A crate `name@version` in a prefix of its own.
async fn cargo(
    package: &str,
    env: &[(String, String)],
    again: bool,
    context: &Context,
) -> Result<(), Failure> {
    let prefix = &context.paths.cargo_env();
    let (name, version) = package.rsplit_once('@').unwrap_or((package, ""));
    let stamp = prefix.join(format!(".{name}"));
    if !again && std::fs::read_to_string(&stamp).is_ok_and(|text| text == version) {
        return Ok(());
    }
    let target = prefix.join("target");
    let mut env = env.to_vec();
    // What was compiled before a failure is kept.
    env.push((
        "CARGO_TARGET_DIR".to_owned(),
        target.to_string_lossy().into_owned(),
    ));
    let root = prefix.to_string_lossy();
    let args = [
        "install",
        "--locked",
        "--force",
        "--root",
        &root,
        "--version",
        version,
        name,
    ];
    run_with(
        &format!("compiling {package}"),
        Path::new("cargo"),
        &args,
        &env,
        &context.notify,
    )
    .await?;
    let _ = std::fs::remove_dir_all(&target);
    std::fs::write(&stamp, version).map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("could not write `{}`: {error}", stamp.display()),
        )
    })
}

/// Writes kernel.json; returns whether it was there.
fn write_spec(recipe: &Recipe, dir: &Path, context: &Context) -> Result<bool, Failure> {
    let mut text = recipe.kernel_json.to_owned();
    for (template, path) in [
        ("{node}", context.paths.node_env()),
        ("{cargo}", context.paths.cargo_env()),
    ] {
        // As it stands in a JSON string, without the quotes around it.
        let path = serde_json::Value::from(path.to_string_lossy()).to_string();
        text = text.replace(template, path.trim_matches('"'));
    }
    let path = dir.join("kernel.json");
    // One that a package brought does not count.
    if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(true);
    }
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map(|()| false)
        .map_err(|error| {
            Failure::new(
                FailureKind::Failed,
                format!("could not write `{}`: {error}", path.display()),
            )
        })
}

/// Starts the kernel and runs the recipe's cell.
async fn check(
    name: &str,
    recipe: &Recipe,
    source: crate::kernel::KernelSource,
    context: &Context,
) -> Result<(), Failure> {
    context.notify.info(format!("starting `{name}` once"));
    let options = kernels::launch_options(source, context.paths.sockets.clone(), context);
    let kernel = Kernel::launch(options).await.map_err(|error| {
        Failure::new(FailureKind::Kernel, error.to_string()).details(error.log())
    })?;
    let check = &recipe.steps.check;
    let cell = ExecuteOptions {
        timeout: Some(CHECK),
        ..ExecuteOptions::cell(&check.code)
    };
    let ran = kernel.execute(cell).await;
    let ended = match ran {
        Ok(execution) => Ok(execution.collect().await),
        Err(error) => Err(Failure::new(FailureKind::Kernel, error.to_string())),
    };
    kernel.shutdown().await;
    let (outputs, outcome) = ended?;
    let printed: String = outputs.iter().filter_map(text_of).collect();
    if outcome.verdict == Verdict::Ok && printed.contains(&check.expect) {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Kernel,
        format!(
            "kernel `{name}` starts but does not work: `{}` should print {}",
            check.code, check.expect
        ),
    )
    .details(Some(&printed)))
}

fn text_of(output: &OutputEvent) -> Option<String> {
    match output {
        OutputEvent::Stream(stream) => Some(stream.text.clone()),
        OutputEvent::Display { data, .. } | OutputEvent::Result { data, .. } => {
            data.text_of("text/plain").map(std::borrow::Cow::into_owned)
        }
        OutputEvent::Error(error) => Some(format!("{}: {}\n", error.ename, error.evalue)),
        OutputEvent::Update { .. } | OutputEvent::Clear { .. } | OutputEvent::Lost(_) => None,
    }
}
