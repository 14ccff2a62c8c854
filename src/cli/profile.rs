//! `sponde profile FILE`: an overview of a table with plots, as a notebook, without a model.
//!
//! The code is always the same ([`CELLS`]); the line that loads the file is that of the facts (docs/files.md).

use std::path::{Path, PathBuf};

use clap::Parser as _;

use super::args::{Cli, Command, ProfileArgs};
use super::exit::Exit;
use super::{Context, eprint, filter, run};
use crate::agent::facts;
use crate::app::place;
use crate::error::Failure;
use crate::jupyter::nbformat::{Cell, Notebook, random_cell_id};

/// Cells in the percent format, after the one that loads the data frame `df`.
const CELLS: &str = include_str!("profile/cells.py");

/// Writes the notebook and runs it.
pub(super) async fn profile(args: ProfileArgs, context: &Context) -> Result<Exit, Failure> {
    let here = place::current_dir(context)?;
    let file = here.join(&args.file);
    let notebook = here.join(args.output.clone().unwrap_or_else(|| beside(&args.file)));
    if notebook.exists() {
        let message = format!("`{}` is there already", notebook.display());
        return Err(Failure::usage(message).hint("name another with -o"));
    }
    let shown = args.file.display();
    let dir = notebook.parent().unwrap_or(&here);
    let load = facts::loading(&file, dir)
        .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
    let load = load.ok_or_else(|| {
        Failure::usage(format!(
            "`{shown}` is not a table that one line of pandas loads"
        ))
        .hint("`sponde ask -f` tells a model what it is")
    })?;
    write(&notebook, &args.file, &load)?;
    let path = notebook.display().to_string();
    let mut words = vec!["sponde", "run", "--inplace", "--allow-errors", &path];
    if let Some(kernel) = args.kernel.as_deref() {
        words.extend(["-k", kernel]);
    }
    let parsed = Cli::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))?;
    let Some(Command::Run(run_args)) = parsed.command else {
        return Err(Failure::usage("the notebook cannot be run"));
    };
    let exit = run::run(run_args, context).await?;
    eprint(&filter::plain(&format!("notebook: {path}\n")));
    Ok(exit)
}

/// `rain-profile.ipynb` in the current directory.
fn beside(file: &Path) -> PathBuf {
    let stem = file
        .file_stem()
        .map_or_else(|| "table".into(), |stem| stem.to_string_lossy());
    PathBuf::from(format!("{stem}-profile.ipynb"))
}

fn write(path: &Path, file: &Path, load: &str) -> Result<(), Failure> {
    let mut notebook = Notebook::new();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let title = format!("# Profile of `{}`", name.replace(['`', '\n'], " "));
    notebook.cells.push(Cell::markdown(random_cell_id(), title));
    let mut cells = CELLS
        .split("# %%\n")
        .map(str::trim)
        .filter(|cell| !cell.is_empty());
    let first = cells.next().unwrap_or_default().replace("LOAD", load);
    for source in std::iter::once(first).chain(cells.map(str::to_owned)) {
        notebook.cells.push(Cell::code(random_cell_id(), source));
    }
    let spec =
        serde_json::json!({"name": "python3", "display_name": "Python 3", "language": "python"});
    notebook.metadata.insert("kernelspec".to_owned(), spec);
    crate::agent::write_atomically(path, notebook.to_json().as_bytes())
        .map_err(|error| Failure::usage(format!("could not write `{}`: {error}", path.display())))
}
