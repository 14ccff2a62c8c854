//! `sponde kernels install`: installs kernels from their recipes, or ipykernel into the person's environment.

use std::io::{BufRead as _, IsTerminal as _};

use crate::app::install::system::{self, System, Wanted};
use crate::app::install::{kernel, lock::lock, recipe::Recipe};
use crate::cli::args::InstallArgs;
use crate::cli::exit::Exit;
use crate::cli::style::{GOOD, is_interactive, paint, stdout_colours};
use crate::cli::{Context, eprint, print};
use crate::error::Failure;

/// Runs it.
pub(super) async fn install(args: InstallArgs, context: &Context) -> Result<Exit, Failure> {
    let ready = paint(GOOD, "ready:", stdout_colours());
    if let Some(env) = &args.into {
        let env = kernel::install_into(env, context).await?;
        let name = env.display();
        print(&format!(
            "{ready} {name} has ipykernel; use it with `--kernel {name}`\n"
        ))?;
        return Ok(Exit::Done);
    }
    let recipes = kernel::plan(&args.names)?;
    let _lock = lock(context).await?;
    // Ask for everything first, so that the installation is not interrupted.
    let wanted = if args.minimal {
        Wanted::Needs
    } else {
        Wanted::All
    };
    let system = allowed(&recipes, wanted, args.system, context).await;
    system::provide(&recipes, system, context).await?;
    for recipe in &recipes {
        let dir = kernel::install_one(recipe, context).await?;
        print(&format!(
            "{ready} kernel `{}` is in {}\n",
            recipe.name,
            dir.display()
        ))?;
        let found = context.paths.kernels().find(recipe.name);
        if !found.is_ok_and(|kernel| kernel.resource_dir == dir) {
            print(&format!(
                "note: another `{}` comes before it; see `sponde kernels`\n",
                recipe.name
            ))?;
        }
    }
    if !args.minimal {
        for recipe in &recipes {
            kernel::install_more(recipe, system, context).await?;
        }
    }
    Ok(Exit::Done)
}

/// Whether system packages may be installed: with `--system`, or if the person at the terminal agrees.
async fn allowed(recipes: &[Recipe], wanted: Wanted, system: bool, context: &Context) -> System {
    let password = std::io::stdin().is_terminal();
    if system {
        return System::Allowed { password };
    }
    if !is_interactive() {
        return System::Refused;
    }
    let Some(question) = system::question(recipes, wanted, password, context).await else {
        return System::Refused;
    };
    eprint(&format!(
        "{}run `{}`? [y/N] ",
        question.why, question.command
    ));
    let mut line = String::new();
    // Nothing else is running yet that this could block.
    let read = std::io::stdin().lock().read_line(&mut line);
    if read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
        System::Allowed { password }
    } else {
        System::Refused
    }
}
