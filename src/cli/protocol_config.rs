//! The settings with which other programs start this one (`sponde mcp config`, `sponde acp config`).

use super::print;
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::mcp::clients::ClientLines;

/// The path of this program.
pub(super) fn own_program() -> Result<String, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("our own program was not found: {error}"),
        )
    })?;
    Ok(program.display().to_string())
}

/// The arguments of this program, without `config` and what follows it.
pub(super) fn own_arguments() -> Vec<String> {
    let given = std::env::args().skip(1);
    given.take_while(|it| it != "config").collect()
}

/// Prints the settings for one client, or for all.
pub(super) fn print_lines(known: &[ClientLines], client: Option<&str>) -> Result<Exit, Failure> {
    if let Some(name) = client {
        let found = known.iter().find(|it| it.name == name);
        let found = found.ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|it| it.name).collect();
            Failure::usage(format!("the client `{name}` is not known here"))
                .hint(format!("there are: {}", names.join(", ")))
        })?;
        print(&format!("{}\n", found.lines))?;
        return Ok(Exit::Done);
    }
    for it in known {
        print(&format!("# {}: {}\n{}\n\n", it.name, it.place, it.lines))?;
    }
    Ok(Exit::Done)
}
