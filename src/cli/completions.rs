//! `sponde completions`: prints the manual page, and the script that makes a shell ask for completions. The shell asks
//! the program itself, so it offers the sessions, models and kernels that exist.

use clap_complete::env::{CompleteEnv, Shells};

use super::args::CompletionsArgs;
use super::print;
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};

/// The environment variable with which a shell asks.
const ASKS: &str = "COMPLETE";

/// If a shell asks for completions at the cursor, answers it and ends the program.
pub(super) fn answer() {
    CompleteEnv::with_factory(<super::args::Cli as clap::CommandFactory>::command)
        .var(ASKS)
        .complete();
}

/// Prints the script that makes a shell ask.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    if args.shell == "man" {
        print(&manual(args.command.as_deref())?)?;
        return Ok(Exit::Done);
    }
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        return Err(Failure::usage(format!(
            "there are no completions for `{}`",
            args.shell
        )));
    };
    let mut script = Vec::new();
    shell
        .write_registration(ASKS, "sponde", "sponde", "sponde", &mut script)
        .map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))?;
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// The manual page of `command`, or of the program, for `man`.
fn manual(command: Option<&str>) -> Result<String, Failure> {
    let mut about = <super::args::Cli as clap::CommandFactory>::command();
    about.build();
    let found = match command {
        None => about,
        Some(name) => about
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::usage(format!("there is no command `{name}`")))?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(found)
        .render(&mut page)
        .map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
