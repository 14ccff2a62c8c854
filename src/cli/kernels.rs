//! `sponde kernels`: what Jupyter would find, how to get more, and whether one can be trusted.

mod install;
mod list;
mod recipe;
mod system;
mod test;

use super::args::{GatewayArgs, KernelsArgs, KernelsCommand};
use super::{Context, block_on, gateway, reap};
use crate::error::{Exit, Failure};
use system::System;

/// Installs the Python kernel that sessions use unless told otherwise.
pub(super) async fn install_python(context: &Context) -> Result<Exit, Failure> {
    install::install(&["python3".to_owned()], System::Ask, context).await
}

/// Runs it.
pub(super) fn kernels(args: KernelsArgs, context: &Context) -> Result<Exit, Failure> {
    let default = KernelsCommand::List {
        json: false,
        gateway: GatewayArgs::default(),
    };
    match args.command.unwrap_or(default) {
        KernelsCommand::List { json, gateway } => match gateway::named(&gateway, context)? {
            Some(options) => block_on(gateway::list(options, json)),
            None => list::list(json, context),
        },
        KernelsCommand::Reap { kept } => reap::run(kept, context),
        KernelsCommand::Test(args) => block_on(test::test(args, context)),
        KernelsCommand::Install(args) => {
            if let Some(env) = &args.into {
                return block_on(install::install_into(env, context));
            }
            let system = if args.system {
                System::Allowed
            } else {
                System::Ask
            };
            block_on(install::install(&args.names, system, context))
        }
    }
}
