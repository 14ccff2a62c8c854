//! `sponde profile FILE`: an overview of a table with plots, as a notebook, without a model; of a database, of each table.
//!
//! The code is always the same ([`TABLE`], [`DATABASE`]); what loads the files is that of the facts (docs/files.md).

use std::path::{Path, PathBuf};

use super::args::{ProfileArgs, RunArgs};
use super::exit::Exit;
use super::{Context, eprint, filter, run};
use crate::agent::facts::{self, Engine, Loading, NotLoadable};
use crate::app::place;
use crate::error::Failure;
use crate::jupyter::nbformat::{Cell, Notebook, random_cell_id};

/// Cells in the percent format: one that loads the data frame `df`, and those that show it.
const TABLE: &str = include_str!("profile/table.py");
/// The same of the tables of a database.
const DATABASE: &str = include_str!("profile/database.py");
const SQLITE: &str = include_str!("profile/sqlite.py");
const DUCKDB: &str = include_str!("profile/duckdb.py");

/// Writes the notebook and runs it.
pub(super) async fn profile(args: ProfileArgs, context: &Context) -> Result<Exit, Failure> {
    let here = place::current_dir(context)?;
    let output = args.output.clone();
    let path = here.join(output.unwrap_or_else(|| beside(&args.files)));
    if path.exists() {
        let message = format!("`{}` is there already", path.display());
        return Err(Failure::usage(message).hint("name another with -o"));
    }
    let dir = path.parent().unwrap_or(&here);
    let files: Vec<PathBuf> = args.files.iter().map(|file| here.join(file)).collect();
    let loading = facts::loading(&files, dir).map_err(|why| failure(&why))?;
    write(&notebook(&args.files, &loading), &path)?;
    let run_args = RunArgs {
        kernel: args.kernel,
        gateway: args.gateway,
        sandbox: args.sandbox,
        ..RunArgs::in_place(path.clone())
    };
    let ran = run::run(run_args, context).await;
    eprint(&filter::plain(&format!("notebook: {}\n", path.display())));
    ran
}

fn failure(why: &NotLoadable) -> Failure {
    let hint = match why {
        NotLoadable::Unreadable { .. } | NotLoadable::Nothing(_) => None,
        NotLoadable::NotATable(_) => Some("`sponde ask -f` tells a model what it is"),
        NotLoadable::TooMany(_) => {
            Some("name fewer, for example with a pattern like 'data/2024-*.csv'")
        }
        NotLoadable::Unlike(..) | NotLoadable::OneOnly(_) => {
            Some("profile them one by one, or name those that belong together")
        }
    };
    let failure = Failure::usage(why.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// `rain-profile.ipynb` in the current directory.
fn beside(files: &[PathBuf]) -> PathBuf {
    let stem = match files {
        [file] if !facts::glob::is_pattern(file) => file.file_stem(),
        _ => None,
    };
    let stem = stem.map_or_else(|| "tables".into(), |stem| stem.to_string_lossy());
    PathBuf::from(format!("{stem}-profile.ipynb"))
}

fn notebook(files: &[PathBuf], loading: &Loading) -> Notebook {
    let mut notebook = Notebook::new();
    let name = |file: &Path| {
        let shown = file.file_name().unwrap_or(file.as_os_str());
        format!("`{}`", shown.to_string_lossy().replace(['`', '\n'], " "))
    };
    let names: Vec<String> = files.iter().take(3).map(|file| name(file)).collect();
    let more = if files.len() > names.len() {
        " and more"
    } else {
        ""
    };
    let title = format!("# Profile of {}{more}", names.join(", "));
    notebook.cells.push(Cell::markdown(random_cell_id(), title));
    let (cells, first) = match loading {
        Loading::Frame(load) => (TABLE, load.clone()),
        Loading::Database(engine, path) => {
            let connect = match engine {
                Engine::Sqlite => SQLITE,
                Engine::DuckDb => DUCKDB,
            };
            (DATABASE, connect.trim_end().replace("PATH", path))
        }
    };
    let mut cells = cells
        .split("# %%\n")
        .map(str::trim)
        .filter(|cell| !cell.is_empty());
    let first = cells.next().unwrap_or_default().replace("LOAD", &first);
    notebook.cells.push(Cell::code(random_cell_id(), first));
    for source in cells {
        let mut cell = Cell::code(random_cell_id(), source);
        // Only what is not loaded ends the run: a plot that fails is one plot less.
        let tags = serde_json::json!(["raises-exception"]);
        cell.metadata.insert("tags".to_owned(), tags);
        notebook.cells.push(cell);
    }
    let spec =
        serde_json::json!({"name": "python3", "display_name": "Python 3", "language": "python"});
    notebook.metadata.insert("kernelspec".to_owned(), spec);
    notebook
}

fn write(notebook: &Notebook, path: &Path) -> Result<(), Failure> {
    crate::agent::write_atomically(path, notebook.to_json().as_bytes())
        .map_err(|error| Failure::usage(format!("could not write `{}`: {error}", path.display())))
}
