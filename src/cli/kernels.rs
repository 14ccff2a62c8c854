//! `sponde kernels`: what Jupyter would find, and how to get one.

use std::collections::BTreeSet;

use serde_json::json;

use super::args::{GatewayArgs, Installable, KernelsArgs, KernelsCommand};
use super::style::{GOOD, NAME, paint, stdout_colours};
use super::{Context, block_on, filter, gateway, print, python, reap, run};
use crate::error::{Exit, Failure};
use crate::kernel::FoundKernel;

/// What `kernels install python3` puts into the private environment.
pub(super) const PYTHON_PACKAGES: [&str; 3] = ["ipykernel>=7", "pandas", "matplotlib"];
/// Our kernelspec for it (kernelspecs/python3).
const PYTHON_SPEC: &str = include_str!("../../kernelspecs/python3/kernel.json");

/// Runs it.
pub(super) fn kernels(args: KernelsArgs, context: &Context) -> Result<Exit, Failure> {
    let default = KernelsCommand::List {
        json: false,
        gateway: GatewayArgs::default(),
    };
    match args.command.unwrap_or(default) {
        KernelsCommand::List { json, gateway } => match gateway::named(&gateway, context)? {
            Some(options) => block_on(gateway::list(options, json)),
            None => list(json, context),
        },
        KernelsCommand::Install {
            name: Installable::Python3,
        } => block_on(install_python(context)),
        KernelsCommand::Reap => reap::run(context),
    }
}

fn list(as_json: bool, context: &Context) -> Result<Exit, Failure> {
    let found = context.paths.kernels().list();
    if as_json {
        let kernels: Vec<_> = found.iter().map(as_value).collect();
        let text = serde_json::to_string_pretty(&kernels).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    let width = found
        .iter()
        .map(|kernel| kernel.name.len())
        .max()
        .unwrap_or(0);
    for kernel in &found {
        let padded = format!("{:width$}", kernel.name);
        let name = paint(NAME, &padded, stdout_colours());
        let dir = kernel.resource_dir.display();
        let line = match &kernel.source {
            Ok(_) if !seen.insert(kernel.name.clone()) => {
                format!(
                    "{name}  {dir}  ({}; hidden by the one above)\n",
                    kernel.origin
                )
            }
            Ok(source) => format!(
                "{name}  {dir}  ({}; {})\n",
                kernel.origin,
                filter::plain(&source.spec.display_name)
            ),
            Err(reason) => format!(
                "{name}  {dir}  {}\n",
                run::bad(&format!("cannot be used: {reason}"))
            ),
        };
        text.push_str(&line);
    }
    if found.is_empty() {
        return Err(Failure::new(Exit::Kernel, "there are no kernels").hint(
            "install one with `sponde kernels install python3`; `sponde doctor` shows where is looked",
        ));
    }
    print(&text)?;
    Ok(Exit::Done)
}

fn as_value(kernel: &FoundKernel) -> serde_json::Value {
    let (spec, error) = match &kernel.source {
        Ok(source) => (Some(&source.spec), None),
        Err(reason) => (None, Some(reason)),
    };
    json!({
        "name": kernel.name,
        "resource_dir": kernel.resource_dir.display().to_string(),
        "origin": kernel.origin,
        "spec": spec,
        "error": error,
    })
}

async fn install_python(context: &Context) -> Result<Exit, Failure> {
    python::ensure(&PYTHON_PACKAGES, context).await?;
    let dir = context
        .paths
        .python_env()
        .join("share/jupyter/kernels/python3");
    let path = dir.join("kernel.json");
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(&path, PYTHON_SPEC))
        .map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("could not write `{}`: {error}", path.display()),
            )
        })?;
    let found = context.paths.kernels().find("python3");
    let ours = found.is_ok_and(|kernel| kernel.resource_dir == dir);
    print(&format!(
        "{} kernel `python3` is in {}\n",
        paint(GOOD, "ready:", stdout_colours()),
        dir.display()
    ))?;
    if !ours {
        print("note: another `python3` comes before it; see `sponde kernels`\n")?;
    }
    Ok(Exit::Done)
}
