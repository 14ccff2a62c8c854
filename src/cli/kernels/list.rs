//! `sponde kernels list`: lists each kernel that Jupyter finds, where it is, and why it cannot be used.

use std::collections::BTreeSet;

use serde_json::json;

use crate::app::install::recipe;
use crate::app::remote_kernels;
use crate::cli::exit::Exit;
use crate::cli::style::{NAME, is_interactive, paint, stdout_colours};
use crate::cli::{Context, eprint, filter, print, run};
use crate::error::{Failure, FailureKind};
use crate::kernel::{FoundKernel, GatewayOptions};

/// Prints the list, as lines or as JSON.
pub(super) fn list(as_json: bool, context: &Context) -> Result<Exit, Failure> {
    let paths = context.paths.kernels();
    let found = paths.list();
    if as_json {
        let kernels: Vec<_> = found.iter().map(as_value).collect();
        let text = serde_json::to_string_pretty(&kernels).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    print(&lines(&found))?;
    for prefix in paths.without_ipykernel() {
        eprint(&format!(
            "{} has no kernel: `sponde kernels install --into {0}` makes one\n",
            prefix.display()
        ));
    }
    if found.is_empty() {
        return Err(Failure::new(FailureKind::Kernel, "there are no kernels").hint(
            "install one with `sponde kernels install python3`; `sponde doctor` shows where is looked",
        ));
    }
    let more: Vec<&str> = recipe::names()
        .into_iter()
        .filter(|&name| !found.iter().any(|kernel| kernel.name == name))
        .collect();
    // Only for people; a script knows what it needs.
    if !more.is_empty() && is_interactive() {
        eprint(&format!(
            "`sponde kernels install` knows more: {}\n",
            more.join(", ")
        ));
    }
    Ok(Exit::Done)
}

/// Lists the kernels of a remote server.
pub(super) async fn list_remote(
    options: GatewayOptions,
    as_json: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let remote = remote_kernels::ask(options, &context.notify).await?;
    let (options, specs) = (remote.options(), remote.specs());
    if as_json {
        let kernels: Vec<_> = specs
            .specs
            .iter()
            .map(|found| json!({"name": found.name, "gateway": options.url.as_str(), "spec": found.spec}))
            .collect();
        let text = serde_json::to_string_pretty(&kernels).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    let width = specs.specs.iter().map(|found| found.name.len()).max();
    let width = width.unwrap_or_default();
    for found in &specs.specs {
        let name = filter::plain(&format!("{:width$}", found.name));
        let default = if specs.default.as_ref() == Some(&found.name) {
            "; its default"
        } else {
            ""
        };
        let line = format!("{}  ({}{default})\n", options.url, found.spec.display_name);
        let name = paint(NAME, &name, stdout_colours());
        print(&format!("{name}  {}", filter::plain(&line)))?;
    }
    Ok(Exit::Done)
}

fn lines(found: &[FoundKernel]) -> String {
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    let width = found
        .iter()
        .map(|kernel| kernel.name.len())
        // A long path does not widen the column for all others.
        .filter(|&length| length <= 20)
        .max()
        .unwrap_or(0);
    for kernel in found {
        let padded = format!("{:width$}", kernel.name);
        let name = paint(NAME, &filter::plain(&padded), stdout_colours());
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
    text
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
