//! `sponde kernels reap`: cleans up after runs that were killed, and ends kernels that were kept.

use super::{Context, filter, print};
use crate::agent::sessions;
use crate::cli::exit::Exit;
use crate::error::Failure;
use crate::kernel::reap;

/// Runs it; with `kept`, also ends kernels that --keep-kernel left running.
pub(super) fn run(kept: bool, context: &Context) -> Result<Exit, Failure> {
    let sockets = &context.paths.sockets;
    let mut reaped = reap::reap(sockets);
    if kept {
        let ended = reap::end_kept(sockets);
        reaped.killed.extend(ended.killed);
        reaped.removed.extend(ended.removed);
    }
    let running = reap::kept(sockets);
    if reaped == reap::Reaped::default() && running.is_empty() {
        print("nothing is left over\n")?;
    }
    for pid in &reaped.killed {
        print(&format!("killed the kernel with process id {pid}\n"))?;
    }
    for path in &reaped.removed {
        print(&format!("removed {}\n", path.display()))?;
    }
    let all = if running.is_empty() {
        Vec::new()
    } else {
        sessions::list(&context.paths.sessions())
    };
    for kernel in &running {
        let its = |found: &&sessions::Found| {
            let mut kernels = found.summary.kernels.iter();
            kernels.any(|known| known.connection_file == kernel.connection_file)
        };
        let session = all.iter().find(its);
        let name = session.map_or_else(
            || "of no session".to_owned(),
            |found| format!("of session {}", sessions::short(&found.id, &all)),
        );
        let state = if kernel.in_use { "in use" } else { "kept" };
        let file = kernel.connection_file.display();
        let line = format!("{state}: process {} {name}, {file}\n", kernel.pid);
        print(&filter::plain(&line))?;
    }
    if running.iter().any(|kernel| !kernel.in_use) {
        super::eprint("`sponde kernels reap --kept` ends those that are kept\n");
    }
    Ok(Exit::Done)
}
