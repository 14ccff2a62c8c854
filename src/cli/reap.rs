//! `sponde kernels reap`: cleans up after runs that were killed.

use super::{Context, print};
use crate::error::{Exit, Failure};
use crate::kernel::reap;

/// Runs it.
pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let reaped = reap::reap(&context.paths.sockets);
    if reaped == reap::Reaped::default() {
        print("nothing is left over\n")?;
    }
    for pid in &reaped.killed {
        print(&format!("killed the kernel with process id {pid}\n"))?;
    }
    for path in &reaped.removed {
        print(&format!("removed {}\n", path.display()))?;
    }
    Ok(Exit::Done)
}
