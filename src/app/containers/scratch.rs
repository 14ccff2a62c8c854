//! A container for one run. Its kernel ends with the run; if there are no files then, the container is removed.

use super::{Container, ContainerError, Containers};
use crate::task;

/// See the module documentation.
pub struct Scratch {
    containers: Containers,
    /// The container.
    pub id: String,
}

impl Containers {
    /// Creates one; its files are kept this many minutes without use.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn scratch(&self, name: &str, minutes: u32) -> Result<Scratch, ContainerError> {
        let Container { id, .. } = self.create(name, Some(minutes)).await?;
        Ok(Scratch {
            containers: self.clone(),
            id,
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_err() {
            // The process is ending; the container is removed when it expires.
            return;
        }
        let (containers, id) = (self.containers.clone(), std::mem::take(&mut self.id));
        // The caller does not have to wait for the kernel's shutdown.
        task::spawn("end of a run", async move {
            containers.rest(&id).await;
            let files = containers.files(&id).await;
            if files.is_ok_and(|files| files.is_empty())
                && let Err(error) = containers.delete(&id).await
            {
                tracing::warn!(%id, %error, "an empty container was not removed");
            }
        })
        .detach();
    }
}
