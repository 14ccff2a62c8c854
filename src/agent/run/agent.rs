//! The owner's end of a session.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::auditing::Auditing;
use super::{AgentOptions, Session};
use crate::agent::audit::{self, Audit};
use crate::agent::stream::handle::{INBOX, SessionPlace};
use crate::agent::stream::{Client, Log, SessionHandle};
use crate::task::{self, Task};

/// A running session. Dropping it ends the session and its kernel.
#[derive(Debug)]
pub struct Agent {
    handle: SessionHandle,
    end: CancellationToken,
    task: Option<Task>,
    audit: Option<Audit>,
    log: Log,
}

impl Agent {
    /// Starts a session; the kernel starts in the background.
    pub fn start(options: AgentOptions) -> Self {
        let (commands, inbox) = mpsc::channel(INBOX);
        let (joining, joins) = mpsc::channel(INBOX);
        let log = Log::new(jiff::Timestamp::now().as_millisecond().unsigned_abs());
        let place = SessionPlace::new(
            options.kernel.kernel.spec.language.clone(),
            options.kernel.cwd.clone(),
            options.notebook.clone(),
        );
        let handle = SessionHandle::new(commands, joining, log.clone(), place);
        let end = CancellationToken::new();
        let (audit, calls) = (options.audit.clone(), options.tool_calls.clone());
        let mut session = Session::new(options, log.clone(), joins);
        let audit = audit.map(|options| {
            let client = handle.from_start("audit log");
            let (language, transcript) = (session.language(), &session.transcript);
            let (audit, written) =
                audit::start(options, calls.as_ref(), client, &language, transcript);
            session.auditing = Some(Box::new(Auditing::new(written)));
            audit
        });
        let task = task::spawn("session", session.run(inbox, end.clone()));
        Self {
            handle,
            end,
            task: Some(task),
            audit,
            log,
        }
    }

    /// The handle for any number of front ends.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// A front end that gets all events from the beginning.
    pub fn client(&self, name: &str) -> Client {
        self.handle.from_start(name)
    }

    /// Ends the session cleanly: shuts the kernel down and writes the notebook.
    pub async fn shutdown(mut self) {
        self.end.cancel();
        if let Some(task) = self.task.take() {
            task.join().await;
        }
        // Also if the task failed.
        self.log.close();
        if let Some(audit) = self.audit.take() {
            audit.end().await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Handles may outlive it; the task ends by itself, or is aborted with `task`.
        self.end.cancel();
    }
}
