//! `sponde keys`: manages the keys of a server's tenants.

use std::fmt::Write as _;

use super::args::{KeysArgs, KeysCommand};
use super::{eprint, filter, print};
use crate::app::tenants;
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Runs it.
pub(super) fn keys(args: KeysArgs) -> Result<Exit, Failure> {
    match args.command {
        KeysCommand::Add { name, file, scope } => {
            let key = tenants::add(&file, &name, scope.into())?;
            print(&format!("{key}\n"))?;
            let file = file.display();
            eprint(&filter::plain(&format!(
                "this is the only time that the key of {name} is shown; start the server with `sponde serve --keys {file}`\n"
            )));
        }
        KeysCommand::List { file } => {
            let mut text = String::new();
            for tenant in tenants::read(&file)? {
                let _ = writeln!(text, "{}\t{}", tenant.name, tenant.scope().name());
            }
            print(&text)?;
        }
    }
    Ok(Exit::Done)
}
