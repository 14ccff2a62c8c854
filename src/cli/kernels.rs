//! `sponde kernels`: what Jupyter would find, how to get more, and whether one can be trusted.

mod install;
mod list;
mod recipe;
mod system;
mod test;

use super::args::{KernelsArgs, KernelsCommand};
use super::{Context, block_on, reap};
use crate::error::{Exit, Failure};
use system::System;

/// Runs it.
pub(super) fn kernels(args: KernelsArgs, context: &Context) -> Result<Exit, Failure> {
    match args.command.unwrap_or(KernelsCommand::List { json: false }) {
        KernelsCommand::Reap => reap::run(context),
        KernelsCommand::List { json } => list::list(json, context),
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
