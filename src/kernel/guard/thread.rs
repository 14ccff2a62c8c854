//! A thread of its own for the guards of kernels that flood.
//!
//! JJava writes 60,000 messages a second and drops what nobody has read within about twenty milliseconds. A thread that
//! does nothing but move bytes is woken in time even when all processors are busy; one that also reads messages is not.
//! ipykernel collects what is printed, so it does without, and its cells stay cheaper.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// The runtime of that thread, one for the process; `None` if there can be no more threads.
pub(in crate::kernel) fn apart() -> Option<&'static Handle> {
    static APART: OnceLock<Option<Handle>> = OnceLock::new();
    APART.get_or_init(start).as_ref()
}

fn start() -> Option<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new()
        .name("kernel guards".to_owned())
        .spawn(run)
        .ok()?;
    Some(handle)
}
