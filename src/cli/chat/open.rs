//! `/open N`: what cell N has put out, in the program that the desktop has for it: its picture or page, else a page of the cell.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::agent::write_beside_code;
use crate::app::{Context, exported, place};
use crate::session::numbered::NumberedCell;

/// Opens it. Returns what a person is told; `Err` what is wrong.
pub(super) fn open(
    cell: &NumberedCell,
    notebook: &Path,
    context: &Context,
) -> Result<String, String> {
    if cell.status.is_none() {
        return Err(format!("cell {} is words, and no code", cell.number));
    }
    let beside = notebook.parent().unwrap_or(Path::new(""));
    // What opens it runs unconfined, so a link that code has made leads nowhere.
    let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_file());
    let mut pictures: Vec<PathBuf> = cell.pictures.iter().map(|it| beside.join(it)).collect();
    pictures.retain(is_file);
    let file = match <[PathBuf; 1]>::try_from(pictures) {
        Ok([only]) => only,
        // Several are on one page, and so is what is no picture.
        Err(_) => page(cell, notebook, context)?,
    };
    start(&file)
}

/// A page of the cell alone, in the folder of the session's outputs.
fn page(cell: &NumberedCell, notebook: &Path, context: &Context) -> Result<PathBuf, String> {
    let name = format!("cell-{}", cell.number);
    let page = exported::cell_page(notebook, &cell.id, &name, context)
        .map_err(|failure| failure.message)?
        .ok_or_else(|| format!("the notebook has no cell {} yet", cell.number))?;
    let folder = place::pictures_dir(notebook);
    let file = folder.join(format!("{name}.html"));
    let failed = |error| format!("could not write `{}`: {error}", file.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    write_beside_code(&file, |out| out.write_all(page.as_bytes())).map_err(failed)?;
    Ok(file)
}

fn start(file: &Path) -> Result<String, String> {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let started = std::process::Command::new(opener)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            // It goes on by itself; its end is waited for where nobody waits.
            std::thread::spawn(move || child.wait());
            Ok(format!("opened {}\n", file.display()))
        }
        Err(error) => Err(format!(
            "`{opener}` could not be started: {error}; the file is {}",
            file.display()
        )),
    }
}
