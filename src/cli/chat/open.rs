//! `/open N`: opens the output of cell N in its desktop program: its picture or page, otherwise a page of the cell.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::agent::write_beside_code;
use crate::app::{Context, exported, place};
use crate::session::numbered::NumberedCell;

/// Opens it. Returns the message for the person; `Err` is what went wrong.
pub(super) fn open(
    cell: &NumberedCell,
    notebook: &Path,
    context: &Context,
) -> Result<String, String> {
    if cell.status.is_none() {
        return Err(format!("cell {} is words, and no code", cell.number));
    }
    let beside = notebook.parent().unwrap_or(Path::new(""));
    // The program that opens it runs unconfined, so a link made by code is not followed.
    let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_file());
    let mut pictures: Vec<PathBuf> = cell.pictures.iter().map(|it| beside.join(it)).collect();
    pictures.retain(is_file);
    let file = match <[PathBuf; 1]>::try_from(pictures) {
        Ok([only]) => only,
        // Several files, or one that is no picture, go on one page.
        Err(_) => page(cell, notebook, context)?,
    };
    start(&file)
}

/// Writes a page of the cell alone into the folder of the session's outputs.
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
            // The program runs by itself; a thread waits for its end, so nobody is blocked.
            std::thread::spawn(move || child.wait());
            Ok(format!("opened {}\n", file.display()))
        }
        Err(error) => Err(format!(
            "`{opener}` could not be started: {error}; the file is {}",
            file.display()
        )),
    }
}
