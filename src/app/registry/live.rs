//! One session of a registry.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::watch::{Activity, Watch};
use super::{Slot, lock};
use crate::agent::KernelOffer;
use crate::agent::asides::Asides;
use crate::agent::stream::SessionHandle;
use crate::app::{Session, files};
use crate::session::Transcript;

/// Maximum bytes of a plot's vector graphic, or of its data.
const MOST_BESIDE_PLOT: u64 = 64 << 20;

/// A session that is running in this process.
pub struct LiveSession {
    /// Its id.
    pub id: String,
    /// The directory of its kernels.
    pub directory: PathBuf,
    /// The path of its notebook.
    pub notebook: PathBuf,
    /// Its kernels, the main one first.
    pub kernels: Vec<KernelOffer>,
    /// What the model's code may do, as text.
    pub sandbox: String,
    /// Queries its kernels outside the cells.
    pub asides: Asides,
    /// When it was opened here.
    pub started: jiff::Timestamp,
    handle: SessionHandle,
    watch: Mutex<Watch>,
    clients: AtomicUsize,
    used: Mutex<Instant>,
    /// `None` once it is ending.
    session: Mutex<Option<(Session, Slot)>>,
}

impl LiveSession {
    pub(super) fn new(session: Session, title: Option<&str>, slot: Slot) -> Self {
        Self {
            id: session.id.clone(),
            directory: session.directory.clone(),
            notebook: session.notebook.clone(),
            kernels: session.kernels.clone(),
            sandbox: session.sandbox.words().to_owned(),
            asides: session.asides(),
            started: jiff::Timestamp::now(),
            handle: session.agent.handle().clone(),
            watch: Mutex::new(Watch::new(title)),
            clients: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            session: Mutex::new(Some((session, slot))),
        }
    }

    /// The session's handle.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// The file next to a plot's picture: the vector graphic for `svg`, the data for `csv`.
    pub async fn beside_plot(
        &self,
        cell: String,
        output: usize,
        extension: &'static str,
    ) -> Option<Vec<u8>> {
        let look = move |transcript: &Transcript| {
            let place = transcript.code(&cell)?.picture(output)?;
            Some(place.beside_notebook.clone())
        };
        let place = self.handle.look(look).await.ok()??;
        let path = self.notebook.with_file_name(place);
        let path = path.with_extension(extension);
        // Code can have put anything there.
        let read = move || files::read(&path, MOST_BESIDE_PLOT).ok();
        tokio::task::spawn_blocking(read).await.ok()?
    }

    /// Its current activity, as far as the registry has seen it.
    pub fn activity(&self) -> Activity {
        lock(&self.watch).activity.clone()
    }

    /// How many clients follow it.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Counts a client until the guard is dropped.
    pub fn client(self: &Arc<Self>) -> ClientGuard {
        self.clients.fetch_add(1, Ordering::Relaxed);
        ClientGuard(Arc::clone(self))
    }

    /// Records that a client uses it.
    pub fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// Whether it had no viewer and no activity for this long.
    pub(super) fn is_idle_for(&self, idle: Duration) -> bool {
        let is_busy = self.activity().is_busy;
        self.clients() == 0 && !is_busy && lock(&self.used).elapsed() >= idle
    }

    /// Follows its events until it ends.
    pub(super) async fn follow(&self) {
        let mut client = self.handle.from_start("registry");
        while let Some(received) = client.next().await {
            lock(&self.watch).take(&received);
            self.touch();
        }
    }

    /// Takes out the session to end, and the place that becomes free.
    pub(super) fn take(&self) -> Option<(Session, Slot)> {
        lock(&self.session).take()
    }
}

/// A client of a session.
pub struct ClientGuard(Arc<LiveSession>);

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
