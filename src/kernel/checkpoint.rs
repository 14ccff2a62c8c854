//! Checkpoints of a running Python kernel: dormant copies that it makes of itself by forking (`checkpoint/twin.py`), and
//! from which a kernel can go on later with all that was in memory.
//!
//! A copy shares its memory with the kernel until one of the two changes it. It holds a connection to us, waits, and
//! ends with that connection, with us however we go (it is adopted: see [`adopted`](super::host)), or when it is
//! forgotten. To wake it forks once more, so a checkpoint can be restored any number of times.
//!
//! Invariants: no copy outlives its [`Checkpoints`]; the kernel that runs is ended only after the woken one has answered
//! and has done what is known to hang in forked processes. Linux only, and only kernels that [`super::launch`] started.
//!
//! Deliberately not here: when one is taken, how many are kept and what is done where there can be none
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

/// What a kernel runs to make copies of itself.
const TWIN: &str = include_str!("checkpoint/twin.py");

/// Does in a woken kernel what is known to hang in forked processes.
pub(super) const PROBE: &str = "__import__('sponde_checkpoint').probe()";
/// How long that may take.
pub(super) const PROBE_WITHIN: Duration = Duration::from_secs(3);
/// How long a woken copy may take until it answers.
pub(super) const WAKE_WITHIN: Duration = Duration::from_secs(10);
/// The checkpoints of one session. Cheap to clone; the copies end when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Checkpoints(Arc<Copies>);

/// Names a checkpoint among those of its [`Checkpoints`]; higher ones were taken later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub(super) u64);

impl CheckpointId {
    /// Any.
    #[cfg(test)]
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(number)
    }
}

/// A checkpoint that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its name.
    pub id: CheckpointId,
    /// What will not be as it was when it is restored, in words; mostly nothing.
    pub notes: Vec<String>,
}

/// Why there is no checkpoint. The kernel goes on as if none had been asked for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoCheckpoint {
    /// Not a kernel that can be copied.
    #[error("only Python kernels that run on this machine can be copied while they run")]
    Unsupported,
    /// A copy would hang or be wrong; in words.
    #[error("{}", .why.join("; "))]
    Unsafe {
        /// All that stands in the way.
        why: Vec<String>,
    },
    /// The copy was not made in time.
    #[error("no copy was made within {} s", .after.as_secs())]
    Late {
        /// How long we waited.
        after: Duration,
    },
    /// Files or sockets for it could not be made.
    #[error("{0}")]
    Prepare(String),
    /// The kernel could not be asked.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl Checkpoints {
    /// None yet. `socket_root` is where a short-lived directory may be made.
    pub fn new(socket_root: &Path) -> Self {
        Self(Arc::new(Copies::new(socket_root)))
    }

    /// Those that are there, oldest first. One whose process has ended is not.
    pub fn list(&self) -> Vec<CheckpointId> {
        self.0.list()
    }

    /// Ends a copy and gives its memory back.
    pub fn forget(&self, id: CheckpointId) {
        self.0.forget(id);
    }

    /// What the copies cost, next to the kernel `live`. Reads `/proc`, which takes some milliseconds a copy: not for the
    /// thread of a runtime.
    pub fn memory(&self, live: Option<u32>) -> Memory {
        memory::measure(&self.0.processes(), live)
    }

    /// Where a kernel that is made of the copy `id` of a confined one can listen.
    pub(super) fn shared_dir(&self, id: CheckpointId) -> Option<Arc<PrivateDir>> {
        Some(self.0.confined(id)?.dir)
    }

    /// Makes the copy `id` go on as a kernel on `connection_file`.
    ///
    /// # Errors
    /// In words.
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
