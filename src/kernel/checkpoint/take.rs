//! Takes a checkpoint of a kernel, and goes back to it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{Checkpoint, CheckpointId, Checkpoints, NoCheckpoint, TWIN};
use crate::jupyter::content::Content;
use crate::jupyter::message::Channel;
use crate::kernel::command::Command;
use crate::kernel::{Kernel, KernelError};

/// How long an idle kernel may take to say whether it can be copied.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long making the copy may take: forking takes some milliseconds per gigabyte.
const COPY_WITHIN: Duration = Duration::from_secs(10);

/// The answer to `sponde_checkpoint_request`.
#[derive(Debug, Default, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Answer {
    Ok {
        #[serde(default)]
        notes: Vec<String>,
    },
    Unsafe {
        why: Vec<String>,
    },
    #[serde(other)]
    #[default]
    Unknown,
}

impl Kernel {
    /// Takes a checkpoint. The kernel must be idle; it pauses for about ten milliseconds.
    ///
    /// # Errors
    /// [`NoCheckpoint`].
    pub async fn checkpoint(&self, checkpoints: &Checkpoints) -> Result<Checkpoint, NoCheckpoint> {
        let about = self.about().await?;
        if !about.can_be_copied {
            return Err(NoCheckpoint::Unsupported);
        }
        let awaited = checkpoints
            .0
            .expect(about.confined.as_ref())
            .map_err(|error| NoCheckpoint::Prepare(error.to_string()))?;
        let request = Content::Other {
            msg_type: "sponde_checkpoint_request".to_owned(),
            content: json!({ "socket": awaited.socket(), "token": awaited.token(), "source": TWIN }),
        };
        let reply = self.request(Channel::Shell, request, ANSWER_WITHIN).await?;
        let notes = match crate::kernel::requests::read::<Answer>(&reply) {
            Answer::Ok { notes } => notes,
            Answer::Unsafe { why } => return Err(NoCheckpoint::Unsafe { why }),
            Answer::Unknown => return Err(NoCheckpoint::Unsupported),
        };
        let late = NoCheckpoint::Late { after: COPY_WITHIN };
        let (adopted, stream) = timeout(COPY_WITHIN, awaited.arrival())
            .await
            .ok()
            .flatten()
            .ok_or(late)?;
        let id = checkpoints.0.keep(adopted, stream, about.confined);
        Ok(Checkpoint { id, notes })
    }

    /// Goes back to a checkpoint of this kernel or of an earlier life: the handle stays, the process behind it is
    /// replaced. Also works for a dead kernel. The checkpoint stays and can be restored again.
    ///
    /// # Errors
    /// [`KernelError::NotRestored`]; the running kernel is left as it was.
    pub async fn restore(
        &self,
        checkpoints: &Checkpoints,
        id: CheckpointId,
    ) -> Result<(), KernelError> {
        let checkpoints = checkpoints.clone();
        self.ask(|reply| Command::Restore {
            checkpoints,
            id,
            reply,
        })
        .await?
    }
}
