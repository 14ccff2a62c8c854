//! Reads the input piped into `sponde ask` ([`crate::app::piped`]).

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FileType;
use tokio::sync::mpsc;

use super::stop::Ask;
use super::style::{DIM, paint, stderr_colours};
use super::{eprint, human};
use crate::app::piped::Piped;
use crate::error::{Failure, FailureKind};

/// Maximum bytes.
const MOST: u64 = 1 << 30;
/// Bytes used to detect the kind of data.
const HEAD: usize = 64 << 10;
/// How long to wait for the end of input before saying so.
const QUIET: Duration = Duration::from_secs(2);

/// Reads piped or redirected input; `None` if there is none. `dir` keeps it until its session begins.
///
/// # Errors
/// Input that cannot be read or stored, or is too large; [`Exit::Interrupted`] if the person does not want to wait.
pub(super) async fn take(
    dir: &Path,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Option<Piped>, Failure> {
    // Other kinds of inherited stdin (a terminal, /dev/null, a socket) are not input for us.
    let stat = rustix::fs::fstat(io::stdin()).ok();
    let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Some(FileType::Fifo | FileType::RegularFile)) {
        return Ok(None);
    }
    let name = format!(".stdin-{}", uuid::Uuid::new_v4().simple());
    let path = dir.join(name);
    let reading = tokio::task::spawn_blocking({
        let path = path.clone();
        move || read(&path)
    });
    tokio::pin!(reading);
    let mut quiet = std::pin::pin!(tokio::time::sleep(QUIET));
    let read = loop {
        tokio::select! {
            read = &mut reading => break read,
            () = &mut quiet, if !quiet.is_elapsed() => eprint(&paint(
                DIM,
                "waiting for the end of stdin, which the model gets as a file; without one: </dev/null\n",
                stderr_colours(),
            )),
            Some(_) = signals.recv() => {
                let _ = std::fs::remove_file(&path);
                return Err(Failure::new(FailureKind::Interrupted, ""));
            }
        }
    };
    let failed = |error: io::Error| {
        let _ = std::fs::remove_file(&path);
        Failure::usage(format!("could not keep what was piped in: {error}"))
    };
    let (bytes, suffix) = read.map_err(io::Error::other).flatten().map_err(failed)?;
    if bytes == 0 || bytes > MOST {
        let _ = std::fs::remove_file(&path);
    }
    match bytes {
        0 => Ok(None),
        bytes if bytes > MOST => Err(Failure::usage(format!(
            "more than {} were piped in",
            human::bytes(MOST)
        ))
        .hint("write it to a file, and name that with -f")),
        bytes => Ok(Some(Piped::new(path, bytes, suffix))),
    }
}

/// Reads stdin to its end into a new file. Returns its size, and a suffix for its content.
fn read(path: &Path) -> io::Result<(u64, &'static str)> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut stdin = io::stdin().lock();
    let mut head = Vec::new();
    stdin.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    file.write_all(&head)?;
    let rest = io::copy(&mut stdin.take(MOST), &mut file)?;
    Ok((head.len() as u64 + rest, suffix(&head)))
}

/// The suffix that tells file readers the format.
fn suffix(head: &[u8]) -> &'static str {
    for (magic, suffix) in [
        (&b"PAR1"[..], "parquet"),
        (b"ARROW1", "arrow"),
        (b"PK\x03\x04", "zip"),
        (b"\x1f\x8b", "gz"),
        (b"%PDF", "pdf"),
        (b"\x89PNG", "png"),
        (b"\xff\xd8\xff", "jpg"),
        (b"SQLite format 3\0", "sqlite"),
    ] {
        if head.starts_with(magic) {
            return suffix;
        }
    }
    if head.contains(&0) {
        return "bin";
    }
    let text = String::from_utf8_lossy(head);
    // The last line may be cut off.
    let whole = text.rfind('\n').map_or(&*text, |end| &text[..end]);
    let lines: Vec<&str> = whole
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let is_object = |line: &&str| {
        serde_json::from_str::<serde_json::Value>(line).is_ok_and(|it| it.is_object())
    };
    if lines.len() > 1 && lines.iter().take(10).all(is_object) {
        return "jsonl";
    }
    if text.trim_start().starts_with(['{', '[']) {
        return "json";
    }
    let columns = |separator: char| {
        let counts = lines
            .iter()
            .take(10)
            .map(|line| line.matches(separator).count());
        // Quoted cells may contain more separators.
        lines.len() > 1 && counts.min().is_some_and(|least| least > 0)
    };
    if columns('\t') {
        "tsv"
    } else if columns(',') || columns(';') {
        "csv"
    } else {
        "txt"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_gets_the_suffix_that_readers_expect() {
        for (head, expected) in [
            ("a,b\n1,2\n", "csv"),
            ("a;b\n1;2\n3;4", "csv"),
            ("a\tb\n1\t2\n", "tsv"),
            ("{\"a\": 1}\n{\"a\": 2}\n", "jsonl"),
            ("[1,\n2]\n", "json"),
            ("{\"a\":\n 1}", "json"),
            ("Dear Ada,\nall is well.\n", "txt"),
            ("one line, only", "txt"),
            ("PAR1...", "parquet"),
            ("a\0b", "bin"),
        ] {
            assert_eq!(suffix(head.as_bytes()), expected, "{head}");
        }
    }
}
