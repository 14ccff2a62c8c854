//! Checkpoints of a running Python kernel: dormant copies that it makes of itself by forking (`checkpoint/twin.py`). A
//! kernel can later go on from one with everything that was in memory.
//!
//! A copy shares its memory with the kernel until one of the two changes it. It keeps a connection to us and waits. It
//! ends with that connection, with our process however that ends (it is adopted: see [`adopted`](super::host)), or when
//! it is forgotten. A copy wakes by forking once more, so a checkpoint can be restored any number of times.
//!
//! Invariants: no copy outlives its [`Checkpoints`]; the running kernel is ended only after the woken one has answered
//! and has done what is known to hang in forked processes. Linux only, and only kernels that [`super::launch`] started.
//!
//! Deliberately not here: when a checkpoint is taken, how many are kept and what happens where there can be none
//! (`agent::undo`); files.

mod copies;
mod memory;
mod take;
mod variables;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::KernelError;
use super::files::PrivateDir;
use super::host::Process;
pub(super) use copies::Confined;
use copies::Copies;
pub use memory::Memory;
pub use variables::{SavedVariables, Unsaved};

/// The Python code with which a kernel copies itself.
const TWIN: &str = include_str!("checkpoint/twin.py");

/// Tries in a woken kernel what is known to hang in forked processes.
pub(super) const PROBE: &str = "__import__('sponde_checkpoint').probe()";
/// How long the probe may take.
pub(super) const PROBE_WITHIN: Duration = Duration::from_secs(3);
/// How long a woken copy may take to answer.
pub(super) const WAKE_WITHIN: Duration = Duration::from_secs(10);
/// The checkpoints of one session. Cheap to clone; the copies end when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Checkpoints(Arc<Copies>);

/// Identifies a checkpoint among those of its [`Checkpoints`]; higher ids were taken later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub(super) u64);

impl CheckpointId {
    /// An arbitrary id.
    #[cfg(test)]
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(number)
    }
}

/// A checkpoint that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// What a restore will not bring back, as text; usually empty.
    pub notes: Vec<String>,
}

/// Why there is no checkpoint. The kernel goes on as before.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoCheckpoint {
    /// Not a kernel that can be copied.
    #[error("only Python kernels that run on this machine can be copied while they run")]
    Unsupported,
    /// A copy would hang or be wrong.
    #[error("{}", .why.join("; "))]
    Unsafe {
        /// All reasons.
        why: Vec<String>,
    },
    /// The copy was not made in time.
    #[error("no copy was made within {} s", .after.as_secs())]
    Late {
        /// How long we waited.
        after: Duration,
    },
    /// Files or sockets for it could not be created.
    #[error("{0}")]
    Prepare(String),
    /// The kernel did not answer.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl Checkpoints {
    /// An empty list. `socket_root` is where a short-lived directory may be created.
    pub fn new(socket_root: &Path) -> Self {
        Self(Arc::new(Copies::new(socket_root)))
    }

    /// The existing checkpoints whose process is alive, oldest first.
    pub fn list(&self) -> Vec<CheckpointId> {
        self.0.list()
    }

    /// Ends a copy and frees its memory.
    pub fn forget(&self, id: CheckpointId) {
        self.0.forget(id);
    }

    /// Memory of the copies, next to the kernel `live`. Reads `/proc`, which takes some milliseconds per copy: do not
    /// call it on a runtime thread.
    pub fn memory(&self, live: Option<u32>) -> Memory {
        memory::measure(&self.0.processes(), live)
    }

    /// Where a kernel made from the copy `id` of a confined kernel can listen.
    pub(super) fn shared_dir(&self, id: CheckpointId) -> Option<Arc<PrivateDir>> {
        Some(self.0.confined(id)?.dir)
    }

    /// Turns the copy `id` into a kernel that listens on `connection_file`.
    ///
    /// # Errors
    /// Why the copy did not wake.
    pub(super) async fn wake(
        &self,
        id: CheckpointId,
        connection_file: &Path,
    ) -> Result<Process, String> {
        let confined = self.0.confined(id);
        let awaited = self
            .0
            .expect(confined.as_ref())
            .map_err(|error| error.to_string())?;
        self.0.order(id, awaited.token(), connection_file).await?;
        let arrived = timeout(WAKE_WITHIN, awaited.arrival()).await;
        let Ok(Some((adopted, stream))) = arrived else {
            return Err(format!(
                "the copy did not wake within {} s",
                WAKE_WITHIN.as_secs()
            ));
        };
        Ok(Process::adopted(adopted, stream))
    }
}
