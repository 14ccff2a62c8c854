//! The part file: a growing prefix of the model, locked by the process that writes it.
//!
//! The lock is on the file itself, so no lock file is left behind. After acquiring it, a process checks that the path
//! still refers to the locked file, because the previous holder may have renamed or removed it. Every writer holds the
//! open file, and with it the lock, until its last write is done; so a dropped pull never writes after its successor
//! has started.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::super::models::KnownModel;
use super::{PullError, Report, SourceError};

/// How long to wait for another process that pulls the same model.
const LOCK_WAIT: Duration = Duration::from_hours(1);
/// Interval between attempts to lock.
const LOCK_POLL: Duration = Duration::from_millis(200);
/// Interval between progress checks of a checksum.
const TICK: Duration = Duration::from_millis(100);

/// What [`Part::open`] found.
pub(super) enum Opened {
    /// The model exists.
    Finished(PathBuf),
    /// The model does not exist, and this process may fetch it.
    Part(Part),
}

/// The locked part file.
pub(super) struct Part {
    file: Arc<File>,
    length: Arc<AtomicU64>,
    path: PathBuf,
    finished: PathBuf,
    total: u64,
}

impl Part {
    /// Opens or creates the part file and waits for its lock.
    pub(super) async fn open(
        model: &KnownModel,
        dir: &Path,
        report: &Report<'_>,
    ) -> Result<Opened, PullError> {
        fs::create_dir_all(dir).map_err(at("create", dir))?;
        let finished = dir.join(model.file);
        let path = dir.join(format!("{}.part", model.file));
        let begin = Instant::now();
        loop {
            if fs::metadata(&finished).is_ok_and(|file| file.is_file() && file.len() == model.bytes)
            {
                return Ok(Opened::Finished(finished));
            }
            let options = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .clone();
            let file = options.open(&path).map_err(at("open", &path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_named(&file, &path) => {
                    let length = file.metadata().map_err(at("read", &path))?.len();
                    let part = Self {
                        file: Arc::new(file),
                        length: Arc::new(AtomicU64::new(length)),
                        path,
                        finished,
                        total: model.bytes,
                    };
                    if length > model.bytes {
                        part.restart()?;
                    }
                    return Ok(Opened::Part(part));
                }
                Ok(()) => {}
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    if begin.elapsed() > LOCK_WAIT {
                        return Err(PullError::Busy {
                            model: model.name,
                            waited: LOCK_WAIT,
                        });
                    }
                    report.waiting(file.metadata().map_or(0, |data| data.len()));
                    sleep(LOCK_POLL).await;
                }
                Err(error) => return Err(at("lock", &path)(error.into())),
            }
        }
    }

    /// Bytes of the model in the part file.
    pub(super) fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// The models directory.
    pub(super) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// A path beside the part file: its name with another extension.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.path.with_extension(ending)
    }

    /// Fails unless the rest of the model and `extra` bytes fit on the disk.
    pub(super) fn check_space(&self, extra: u64) -> Result<(), PullError> {
        let needed = self
            .total
            .saturating_sub(self.length())
            .saturating_add(extra);
        let available = self.available();
        if available < needed {
            return Err(PullError::NoSpace {
                dir: self.dir().to_owned(),
                needed,
                available,
            });
        }
        Ok(())
    }

    /// The error for a failed write: a full disk is reported as such.
    pub(super) fn write_failed(&self, error: io::Error) -> PullError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.disk_full(),
            _ => at("write", &self.path)(error),
        }
    }

    /// The error for a full disk.
    pub(super) fn disk_full(&self) -> PullError {
        PullError::NoSpace {
            dir: self.dir().to_owned(),
            needed: self.total.saturating_sub(self.length()),
            available: self.available(),
        }
    }

    fn available(&self) -> u64 {
        rustix::fs::statvfs(self.dir())
            .map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Discards everything.
    pub(super) fn restart(&self) -> Result<(), PullError> {
        self.cut_back(0)
    }

    /// Discards everything after `length`.
    pub(super) fn cut_back(&self, length: u64) -> Result<(), PullError> {
        self.file
            .set_len(length)
            .map_err(at("truncate", &self.path))?;
        self.length.store(length, Ordering::Release);
        Ok(())
    }

    /// A writer with a thread of its own that appends chunks in order.
    pub(super) fn sink(&self) -> Sink {
        let (chunks, mut incoming) = mpsc::channel::<Bytes>(64);
        let appender = self.appender();
        let writing = spawn_blocking(move || {
            while let Some(chunk) = incoming.blocking_recv() {
                appender.append(&chunk)?;
            }
            Ok(())
        });
        Sink { chunks, writing }
    }

    /// A writer for code that already runs on a blocking thread.
    pub(super) fn appender(&self) -> Appender {
        Appender {
            file: Arc::clone(&self.file),
            length: Arc::clone(&self.length),
        }
    }

    /// Computes the checksum of the part file and compares it.
    pub(super) async fn verify(
        &self,
        model: &KnownModel,
        report: &Report<'_>,
    ) -> Result<Result<(), SourceError>, PullError> {
        let done = Arc::new(AtomicU64::new(0));
        let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
        let (file, progress, stopped) = (
            Arc::clone(&self.file),
            Arc::clone(&done),
            Arc::clone(&stop.0),
        );
        let mut summing = spawn_blocking(move || sum(&file, &progress, &stopped));
        let found = loop {
            tokio::select! {
                found = &mut summing => break found,
                () = sleep(TICK) => report.verifying(done.load(Ordering::Relaxed)),
            }
        };
        let found = found.unwrap_or_else(|error| Err(io::Error::other(error)));
        let found = found.map_err(at("read", &self.path))?;
        report.verifying(self.length());
        Ok(if found == model.sha256 {
            Ok(())
        } else {
            Err(SourceError::WrongSum {
                expected: model.sha256.to_owned(),
                found,
            })
        })
    }

    /// Syncs the verified file to disk and renames it.
    pub(super) async fn finish(self) -> Result<PathBuf, PullError> {
        let finishing = spawn_blocking(move || {
            self.file
                .sync_all()
                .map_err(|error| self.write_failed(error))?;
            fs::rename(&self.path, &self.finished).map_err(at("rename", &self.path))?;
            let dir = self.dir();
            File::open(dir)
                .and_then(|dir| dir.sync_all())
                .map_err(at("write", dir))?;
            Ok(self.finished)
        });
        finishing.await.unwrap_or_else(|error| {
            Err(PullError::File {
                action: "finish",
                path: PathBuf::new(),
                error: io::Error::other(error),
            })
        })
    }

    /// Removes the part file if it is empty.
    pub(super) fn discard_if_empty(&self) {
        if self.length() == 0 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Accepts chunks from async code.
pub(super) struct Sink {
    chunks: mpsc::Sender<Bytes>,
    writing: JoinHandle<io::Result<()>>,
}

impl Sink {
    /// Queues `chunk`. False when writing has failed; [`Sink::close`] says why.
    pub(super) async fn send(&self, chunk: Bytes) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }

    /// Waits until everything queued is written.
    pub(super) async fn close(self) -> io::Result<()> {
        drop(self.chunks);
        self.writing
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// Appends to the part file while holding its lock.
pub(super) struct Appender {
    file: Arc<File>,
    length: Arc<AtomicU64>,
}

impl Appender {
    /// Appends `bytes`. The length counts only what was written.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let length = self.length.load(Ordering::Acquire);
        self.file.write_all_at(bytes, length)?;
        self.length
            .store(length + bytes.len() as u64, Ordering::Release);
        Ok(())
    }
}

/// Tells a blocking thread that its result is no longer needed.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn sum(file: &File, done: &AtomicU64, stopped: &AtomicBool) -> io::Result<String> {
    let mut reader = ReadAt { file, at: 0 };
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    while !stopped.load(Ordering::Relaxed) {
        let count = reader.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        sum.update(bytes);
        done.store(reader.at, Ordering::Relaxed);
    }
    let hex = |text: String, byte: &u8| text + &format!("{byte:02x}");
    Ok(sum.finalize().iter().fold(String::new(), hex))
}

/// Reads from the beginning, independently of the file's position.
struct ReadAt<'a> {
    file: &'a File,
    at: u64,
}

impl io::Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Whether `path` still refers to the open `file`.
fn is_named(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// Converts an I/O error: `map_err(at("open", path))`.
pub(super) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PullError {
    let path = path.to_owned();
    move |error| PullError::File {
        action,
        path,
        error,
    }
}
