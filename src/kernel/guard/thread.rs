//! A dedicated thread for the guards of kernels that flood.
//!
//! JJava writes 60,000 messages a second and drops what is not read within about twenty milliseconds. A thread that
//! only moves bytes wakes in time even when all processors are busy; one that also decodes messages does not. ipykernel
//! batches its output, so it needs no such thread, and its cells stay cheaper.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// The runtime of that thread, one per process; `None` if the thread could not be started.
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
