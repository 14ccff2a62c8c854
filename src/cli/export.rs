//! `sponde export`: exports a notebook as a page, as Markdown, as a script, or as a notebook to share
//! ([`crate::app::exported`]).

use std::path::Path;

use super::args::{ExportArgs, ExportFormat};
use super::{Context, print};
use crate::app::exported::{self, Exported};
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Runs it.
pub(super) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, Failure> {
    let from = exported::find(&args.notebook, context)?;
    let to = args.to.map(|to| match to {
        ExportFormat::Ipynb => Exported::Notebook,
        ExportFormat::Html => Exported::Page,
        ExportFormat::Md => Exported::Markdown,
        ExportFormat::Script => Exported::Script,
    });
    let output = args.output.as_deref();
    if let Some(output) = output.filter(|path| *path != Path::new("-")) {
        exported::write(&from, to, output, args.clean, context)?;
    } else {
        let to = to.unwrap_or(Exported::Script);
        print(&exported::render(&from, to, None, args.clean, context)?)?;
    }
    Ok(Exit::Done)
}
