//! A gateway's kernel, and what can be done with it besides messages.

use std::time::Duration;

use tokio::time::sleep;

use super::{Gateway, GatewayError, connect};
use crate::kernel::ExitReason;
use crate::kernel::host::Watch;
use crate::kernel::link::Link;
use crate::task;

/// How often we ask whether the kernel still exists. The websocket reports most ends, but not culling.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// A kernel that a gateway started for us.
#[derive(Debug)]
pub(in crate::kernel) struct Remote {
    gateway: Gateway,
    id: String,
    watch: Watch,
}

impl Remote {
    /// Starts a kernel, or restarts `previous` if it still exists, which keeps its place on a cluster.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub(in crate::kernel) async fn start(
        gateway: Gateway,
        kernelspec: &str,
        env: &[(String, String)],
        previous: Option<&str>,
        limit: Duration,
    ) -> Result<Self, GatewayError> {
        let restarted = match previous {
            Some(id) => restart(&gateway, id, limit).await?,
            None => None,
        };
        let id = match restarted {
            Some(id) => id,
            None => gateway.start(kernelspec, env, limit).await?,
        };
        Ok(Self {
            gateway,
            id,
            watch: Watch::default(),
        })
    }

    /// The gateway's id for it.
    pub(in crate::kernel) fn id(&self) -> &str {
        &self.id
    }

    /// Connects to its channels; `session` must be unique.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub(in crate::kernel) fn connect(
        &self,
        session: &str,
    ) -> impl Future<Output = Result<Link, GatewayError>> + Send + 'static {
        let (gateway, id, session) = (self.gateway.clone(), self.id.clone(), session.to_owned());
        async move { connect(&gateway, &id, &session).await }
    }

    /// Sends an interrupt without waiting for the answer: the end of the cell shows whether it arrived.
    pub(in crate::kernel) fn interrupt(&self) {
        let (gateway, id) = (self.gateway.clone(), self.id.clone());
        task::spawn("gateway interrupt", async move {
            if let Err(error) = gateway.interrupt(&id).await {
                tracing::warn!(%error, "the kernel was not interrupted");
            }
        })
        .detach();
    }

    /// Ends the kernel.
    pub(in crate::kernel) async fn end(&mut self) {
        if let Err(error) = self.gateway.delete(&self.id).await {
            tracing::warn!(%error, "the kernel may still run");
        }
    }

    /// Waits until the gateway no longer has the kernel. Cancel-safe.
    pub(in crate::kernel) async fn wait(&mut self) -> ExitReason {
        let (gateway, id) = (&self.gateway, &self.id);
        self.watch
            .end(|| gone(gateway.clone(), id.clone(), LOOK_EVERY))
            .await
    }
}

/// Polls until the gateway no longer has the kernel.
async fn gone(gateway: Gateway, id: String, every: Duration) -> ExitReason {
    loop {
        sleep(every).await;
        match gateway.kernel(&id).await {
            Ok(kernel) if kernel.execution_state == "dead" => {
                return ExitReason::Gone("the gateway reports that its process died".to_owned());
            }
            Err(error @ GatewayError::NoSuchKernel { .. }) => {
                return ExitReason::Gone(error.to_string());
            }
            Ok(_) => {}
            // The websocket notices when the gateway is gone for good.
            Err(error) => tracing::debug!(%error, "could not check the kernel's state"),
        }
    }
}

/// Restarts a kernel under its id; `None` if it is gone or refuses.
async fn restart(
    gateway: &Gateway,
    id: &str,
    limit: Duration,
) -> Result<Option<String>, GatewayError> {
    match gateway.kernel(id).await {
        Ok(_) => {}
        Err(GatewayError::NoSuchKernel { .. }) => return Ok(None),
        Err(error) => return Err(error),
    }
    match gateway.restart(id, limit).await {
        Ok(()) => Ok(Some(id.to_owned())),
        Err(error @ (GatewayError::Refused { .. } | GatewayError::NoSuchKernel { .. })) => {
            tracing::debug!(%error, "a new kernel takes the place of one that cannot be restarted");
            gateway.delete(id).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::kernel::gateway::GatewayOptions;

    /// Each message of a cell that prints cancels the wait.
    #[tokio::test]
    async fn a_chatty_cell_does_not_ask_the_gateway_with_each_message() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", server.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            // The server never answers.
            let mut open = Vec::new();
            for stream in server.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                open.push(stream);
            }
        });
        let gateway = Gateway::new(GatewayOptions::parse(&url, None).unwrap()).unwrap();
        let mut remote = Remote {
            gateway: gateway.clone(),
            id: "id".to_owned(),
            watch: Watch::default(),
        };
        // As after the first 15 seconds.
        let begin = || gone(gateway.clone(), "id".to_owned(), Duration::ZERO);
        let _ = tokio::time::timeout(Duration::from_millis(100), remote.watch.end(begin)).await;
        for _ in 0..50 {
            let message = Duration::from_millis(2);
            let ended = tokio::time::timeout(message, remote.wait()).await;
            assert!(ended.is_err());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}
