//! A kernel from its recipe, in private prefixes under the data directory.
//!
//! Each step looks first whether it was done, so a second run installs nothing and a failed one goes on where it
//! stopped. kernel.json is written last, and the kernel has to run a cell.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lock::{self, lock};
use super::recipe::{self, Recipe};
use super::system::{self, System, on_path};
use crate::agent::replace_atomically;
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
    let held = lock(context).await?;
    python::ensure_packages(&python, &[INTO], &context.notify).await?;
    drop(held);
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

/// Installs what the kernel of a recipe has beside what it needs to start. The caller holds the [`lock()`].
///
/// # Errors
/// What could not be installed. The kernel works without.
pub async fn install_more(
    recipe: &Recipe,
    system: System,
    context: &Context,
) -> Result<(), Failure> {
    more(recipe, system, context).await.map_err(|failure| {
        failure.hint(format!(
            "the kernel works without them; `sponde kernels install {}` tries again, `--minimal` leaves them out",
            recipe.name
        ))
    })
}

async fn more(recipe: &Recipe, system: System, context: &Context) -> Result<(), Failure> {
    let steps = &recipe.steps;
    let python: Vec<&str> = steps.more.iter().map(String::as_str).collect();
    if !python.is_empty() {
        // So that the next start knows, if this one does not come to its end.
        lock::wants_more(context);
        python::ensure(&python, context).await?;
        lock::has_more(context);
    }
    let node: Vec<&str> = steps.more_node.iter().map(String::as_str).collect();
    self::node(&node, &variables(recipe), false, context).await?;
    system::provide_more(recipe, system, context).await
}

/// Installs the kernel of one recipe; returns the directory of its kernelspec. The caller holds the [`lock()`], and the
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
    let env = variables(recipe);
    let packages: Vec<&str> = steps.node.iter().map(String::as_str).collect();
    node(&packages, &env, again, context).await?;
    for package in &steps.cargo {
        cargo(package, &env, again, context).await?;
    }
    Ok(())
}

/// The variables that npm and cargo get.
fn variables(recipe: &Recipe) -> Vec<(String, String)> {
    let all = recipe.steps.env.iter();
    all.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// npm packages `name@version` in a prefix of their own.
async fn node(
    packages: &[&str],
    env: &[(String, String)],
    again: bool,
    context: &Context,
) -> Result<(), Failure> {
    let prefix = &context.paths.node_env();
    let is_wanted = |package: &&&str| again || !has_node(package, prefix);
    let packages: Vec<&str> = packages.iter().filter(is_wanted).copied().collect();
    if packages.is_empty() {
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
    ];
    run_with(
        &format!("installing {}", packages.join(", ")),
        Path::new("npm"),
        &[&args, packages.as_slice()].concat(),
        &env,
        &context.notify,
    )
    .await
}

/// Whether a package is there, in the version that is wanted.
fn has_node(package: &str, prefix: &Path) -> bool {
    let (name, version) = package.rsplit_once('@').unwrap_or((package, ""));
    std::fs::read(prefix.join("node_modules").join(name).join("package.json"))
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .is_some_and(|value| value.get("version").and_then(|v| v.as_str()) == Some(version))
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
        // Replaced, not overwritten: uv links the files of packages to its cache.
        .and_then(|()| replace_atomically(&path, |file| file.write_all(text.as_bytes())))
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
