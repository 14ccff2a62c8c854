//! A llama.cpp server that Sponde starts, watches and stops by itself.
//!
//! Two engines, one behaviour: the program `llama-server`, or the package `xllamacpp` (the same C++
//! server as a library) in a Python environment. Invariants:
//! - it listens on loopback only and answers only requests with its random key;
//! - the key never appears in an argument list, a log or a `Debug` output;
//! - no orphan: it is killed when [`LocalServer`] is dropped and exits when Sponde dies. The Python engine has
//!   `PR_SET_PDEATHSIG` and watches its stdin; `llama-server` can do neither, so it runs under a shell that watches stdin
//!   for it.
//!
//! Not here: talking to the model (any provider for the OpenAI wire does that), and keeping a server warm between runs.

mod engine;
mod process;
mod prompts;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use uuid::Uuid;

pub use self::engine::Engine;
use self::process::Guarded;
pub use self::process::ServerExit;
use super::gguf::{GgufError, GgufMetadata};
use super::models::{LocalModel, TemplateFix};

/// The name under which the server knows its only model.
pub const ALIAS: &str = "local";

/// Time between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Interval between health checks during start-up.
const POLL: Duration = Duration::from_millis(50);
/// Another process may take the free port before `llama-server` does, but not this often.
const PORT_TRIES: u32 = 3;
/// Lines of the log quoted in an error.
const TAIL_LINES: usize = 20;
/// Maximum context, in tokens, for a file without other information.
const CONTEXT_LIMIT: u32 = 8192;
/// More threads than this compete for memory bandwidth.
const THREAD_LIMIT: u32 = 8;

/// Settings of a server. [`LocalServerOptions::for_model`] fills them in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServerOptions {
    /// The engine that runs the model.
    pub engine: Engine,
    /// The GGUF file.
    pub model: PathBuf,
    /// Chat template used in place of the file's own.
    pub template: Option<String>,
    /// Context window, in tokens.
    pub context: u32,
    /// Compute threads. On a busy machine, fewer are faster.
    pub threads: u32,
    /// Directory for prompts kept between runs ([`LocalServer::keep_prompt`]); it must exist.
    pub prompts: Option<PathBuf>,
    /// Path of the server's log; overwritten at each start. Its directory is created.
    pub log: PathBuf,
    /// Time limit for loading the model.
    pub ready_within: Duration,
}

impl LocalServerOptions {
    /// The settings for `model`, whose file must be in place: its context window, the threads of
    /// this machine, and its chat template with the correction it needs.
    pub fn for_model(
        model: &LocalModel,
        models_dir: &Path,
        engine: Engine,
        log: PathBuf,
    ) -> Result<Self, LocalServerError> {
        let path = model.path(models_dir);
        let metadata = GgufMetadata::read(&path).map_err(|error| LocalServerError::Model {
            path: path.clone(),
            error,
        })?;
        let trained = metadata
            .context_length
            .and_then(|length| u32::try_from(length).ok());
        let (fix, context, max_threads) = match model {
            LocalModel::Known(known) => (known.template, known.context, known.max_threads),
            LocalModel::File(_) => {
                let context = trained.unwrap_or(CONTEXT_LIMIT).min(CONTEXT_LIMIT);
                (TemplateFix::for_metadata(&metadata), context, THREAD_LIMIT)
            }
        };
        Ok(Self {
            engine,
            model: path,
            template: metadata
                .chat_template
                .and_then(|template| fix.apply(&template)),
            context,
            threads: usable_cores().min(max_threads),
            prompts: None,
            log,
            ready_within: Duration::from_mins(3),
        })
    }
}

/// Cores this process may compute on, at most 8: those it is allowed to use, counting one thread per core, because two
/// threads of one core are slower than one here.
pub fn usable_cores() -> u32 {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = std::fs::read_dir("/sys/devices/system/cpu")
        .into_iter()
        .flatten()
        .flatten();
    let cores: BTreeSet<String> = cpus
        .filter_map(|cpu| {
            std::fs::read_to_string(cpu.path().join("topology/thread_siblings_list")).ok()
        })
        .collect();
    let physical = if cores.is_empty() {
        allowed
    } else {
        cores.len()
    };
    u32::try_from(allowed.min(physical))
        .unwrap_or(THREAD_LIMIT)
        .clamp(1, THREAD_LIMIT)
}

/// Steps of starting a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalServerProgress {
    /// The engine's process is starting.
    Starting(Engine),
    /// The process runs and loads the model.
    Loading,
    /// The server answers, this long after the start.
    Ready(Duration),
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum LocalServerError {
    /// Neither `llama-server` nor a Python interpreter.
    #[error("no `llama-server` on the search path and no Python environment{}", at(python.as_deref()))]
    NoEngine {
        /// Where the interpreter was expected.
        python: Option<PathBuf>,
    },
    /// The interpreter exists, but the package is missing.
    #[error("{} cannot import `xllamacpp` ({error})", python.display())]
    NoPackage {
        /// The interpreter.
        python: PathBuf,
        /// What it said.
        error: String,
    },
    /// The model's file is invalid.
    #[error("cannot read model {}: {error}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: GgufError,
    },
    /// The log could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The engine's process could not be started.
    #[error("cannot start {engine}: {error}")]
    Spawn {
        /// What should have run.
        engine: Engine,
        /// What the system said.
        error: io::Error,
    },
    /// The process exited before it answered.
    #[error("the model server ended before it was ready ({exit}); see {}{}", log.display(), quoted(tail))]
    Exited {
        /// How it ended.
        exit: ServerExit,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The process runs but does not answer.
    #[error("the model server was not ready after {} s; see {}{}", limit.as_secs(), log.display(), quoted(tail))]
    NotReady {
        /// The time limit.
        limit: Duration,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// It listens on another address than it was told to.
    #[error("the model server listens on {address:?}, which is not this machine alone")]
    Address {
        /// The address it reported.
        address: String,
    },
}

/// A running server. Dropping it kills the process at once: it has no state worth saving.
pub struct LocalServer {
    process: Guarded,
    address: SocketAddr,
    base_url: String,
    api_key: String,
    log: PathBuf,
}

impl LocalServer {
    /// Starts a server and waits until it answers. Dropping the future stops the server.
    pub async fn start(
        options: LocalServerOptions,
        progress: impl Fn(LocalServerProgress) + Send + Sync,
    ) -> Result<Self, LocalServerError> {
        let begin = Instant::now();
        let mut tries = 1;
        let server = loop {
            match Self::start_once(&options, begin, &progress).await {
                Err(LocalServerError::Exited { tail, .. })
                    if tries < PORT_TRIES && names_a_taken_port(&tail) =>
                {
                    tries += 1;
                }
                other => break other?,
            }
        };
        progress(LocalServerProgress::Ready(begin.elapsed()));
        Ok(server)
    }

    /// Base URL of the OpenAI wire: `http://127.0.0.1:PORT/v1`. Requests must not use a proxy.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The key to send as `Authorization: Bearer`.
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// The process id of the server (of the shell that watches it, for [`Engine::Program`]).
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The path of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail_of(&self.log)
    }

    /// Resolves when the server has exited.
    pub fn exited(&self) -> impl Future<Output = ServerExit> + Send + 'static {
        self.process.exited()
    }

    /// Sends SIGTERM to its process group, and SIGKILL after 2 s. Returns when it is gone.
    pub async fn stop(self) -> ServerExit {
        self.process.signal(Signal::TERM);
        if let Ok(exit) = timeout(STOP_GRACE, self.process.exited()).await {
            return exit;
        }
        self.process.signal(Signal::KILL);
        // Only a process stuck in the kernel survives SIGKILL; we do not wait for it.
        timeout(STOP_GRACE, self.process.exited())
            .await
            .unwrap_or(ServerExit::Unknown)
    }

    async fn start_once(
        options: &LocalServerOptions,
        begin: Instant,
        progress: &(impl Fn(LocalServerProgress) + Send + Sync),
    ) -> Result<Self, LocalServerError> {
        progress(LocalServerProgress::Starting(options.engine.clone()));
        let deadline = begin + options.ready_within;
        let api_key = Uuid::new_v4().simple().to_string();
        let log = open_log(&options.log).map_err(|error| LocalServerError::Log {
            path: options.log.clone(),
            error,
        })?;
        let mut running =
            engine::launch(options, &api_key, log).map_err(|error| LocalServerError::Spawn {
                engine: options.engine.clone(),
                error,
            })?;
        progress(LocalServerProgress::Loading);

        let exited = running.process.exited();
        let ready = async {
            let address = running.address().await?;
            while !is_healthy(address).await {
                sleep(POLL).await;
            }
            Ok(address)
        };
        let failed = |exit| LocalServerError::Exited {
            exit,
            log: options.log.clone(),
            tail: tail_of(&options.log),
        };
        let outcome = timeout_at(deadline, async {
            tokio::select! {
                // Biased: a server that reports why it cannot start exits right after.
                biased;
                ready = ready => ready,
                exit = exited => Err(failed(exit)),
            }
        });
        let address = outcome.await.unwrap_or_else(|_| {
            Err(LocalServerError::NotReady {
                limit: options.ready_within,
                log: options.log.clone(),
                tail: tail_of(&options.log),
            })
        })?;
        Ok(Self {
            process: running.process,
            address,
            base_url: format!("http://{address}/v1"),
            api_key,
            log: options.log.clone(),
        })
    }
}

impl fmt::Debug for LocalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalServer")
            .field("pid", &self.pid())
            .field("address", &self.address)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

/// One request to `/health`. Written by hand: no proxy, no TLS set-up, only a status line to read.
async fn is_healthy(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await?;
        Ok::<_, io::Error>(status.ends_with(b" 200"))
    };
    matches!(timeout(Duration::from_secs(2), ask).await, Ok(Ok(true)))
}

/// Whether the log says that the port is taken: `couldn't bind HTTP server socket`.
fn names_a_taken_port(tail: &str) -> bool {
    tail.contains("bind")
}

/// Readable by this user only, because the server may quote prompts in it.
fn open_log(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // Truncate first, then append: the engine's two streams must not overwrite each other.
    File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    File::options().append(true).open(path)
}

/// The last [`TAIL_LINES`] lines within the last 8 KiB of the log.
fn tail_of(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(8192)))?;
        let mut bytes = Vec::new();
        file.take(8192).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// ` at PATH`, or nothing.
fn at(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" at {}", path.display()))
}

/// The tail on lines of its own, or nothing.
fn quoted(tail: &str) -> String {
    tail.lines()
        .fold(String::new(), |text, line| text + "\n  " + line)
}
