//! `sponde kernels`: lists the kernels that Jupyter finds, installs more, and tests whether one can be trusted.

mod install;
mod list;
mod test;

use super::args::{GatewayArgs, InstallArgs, KernelsArgs, KernelsCommand};
use super::{Context, block_on, reap};
use crate::app::remote_kernels;
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Installs the Python kernel that sessions use unless told otherwise.
pub(super) async fn install_python(context: &Context) -> Result<Exit, Failure> {
    install::install(InstallArgs::named("python3"), context).await
}

/// Runs it.
pub(super) fn kernels(args: KernelsArgs, context: &Context) -> Result<Exit, Failure> {
    let default = KernelsCommand::List {
        json: false,
        gateway: GatewayArgs::default(),
    };
    match args.command.unwrap_or(default) {
        KernelsCommand::List { json, gateway } => {
            match remote_kernels::named(gateway.gateway.as_deref(), context)? {
                Some(options) => block_on(list::list_remote(options, json, context)),
                None => list::list(json, context),
            }
        }
        KernelsCommand::Reap { kept } => reap::run(kept, context),
        KernelsCommand::Test(args) => block_on(test::test(args, context)),
        KernelsCommand::Install(args) => block_on(install::install(args, context)),
    }
}
