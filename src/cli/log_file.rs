//! The persistent log: lines of all runs in the state directory, in files of bounded size and number.
//!
//! Several processes append whole lines to the same file. The process that fills it renames it; the others notice this
//! by its size and switch to the new file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Maximum bytes of a file.
const LARGEST: u64 = 2 << 20;
/// How many old files are kept besides the current one.
const OLD: u32 = 3;

/// The log file.
pub(super) struct LogFile {
    dir: PathBuf,
    largest: u64,
    /// `None` until the first line.
    file: Option<File>,
}

impl LogFile {
    /// In the state directory `state`. Nothing is written before the first line.
    pub(super) fn below(state: &Path) -> Self {
        Self {
            dir: state.join("logs"),
            largest: LARGEST,
            file: None,
        }
    }

    /// The file with the latest lines.
    pub(super) fn path(state: &Path) -> PathBuf {
        state.join("logs/sponde.log")
    }

    /// Appends whole lines.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let current = self.named(0);
        if let Some(file) = &self.file
            && let Ok(now) = file.metadata()
            && (now.len() > self.largest || now.nlink() == 0)
        {
            // Another process may have renamed it meanwhile: then continue with the new file.
            let is_current = std::fs::metadata(&current).is_ok_and(|it| it.ino() == now.ino());
            if is_current {
                self.rotate();
            }
            self.file = None;
        }
        let file = match &mut self.file {
            Some(file) => file,
            empty => {
                std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&self.dir)?;
                let file = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .open(&current)?;
                empty.insert(file)
            }
        };
        file.write_all(lines)
    }

    fn rotate(&self) {
        for number in (0..OLD).rev() {
            // A file that does not exist yet needs no rename.
            let _ = std::fs::rename(self.named(number), self.named(number + 1));
        }
    }

    fn named(&self, number: u32) -> PathBuf {
        match number {
            0 => self.dir.join("sponde.log"),
            _ => self.dir.join(format!("sponde.{number}.log")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_several_write_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let open = || LogFile {
            largest: 100,
            ..LogFile::below(dir.path())
        };
        let (mut one, mut two) = (open(), open());
        for number in 0..100 {
            one.append(format!("one {number:03} {}\n", "x".repeat(20)).as_bytes())
                .unwrap();
            two.append(format!("two {number:03} {}\n", "x".repeat(20)).as_bytes())
                .unwrap();
        }
        let mut all = String::new();
        let mut names: Vec<_> = std::fs::read_dir(dir.path().join("logs"))
            .unwrap()
            .map(|it| it.unwrap())
            .collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        for entry in &names {
            let metadata = entry.metadata().unwrap();
            assert!(metadata.len() < 200, "{entry:?}");
            assert_eq!(metadata.mode() & 0o777, 0o600);
            all += &std::fs::read_to_string(entry.path()).unwrap();
        }
        assert_eq!(names.len(), 4);
        assert!(all.contains("one 099") && all.contains("two 099"), "{all}");
        assert!(!all.contains("one 050"), "{all}");
        assert!(all.lines().all(|line| line.len() == 28), "{all}");
    }

    /// A person removes the log while it is in use.
    #[test]
    fn a_log_that_was_removed_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::below(dir.path());
        log.append(b"one\n").unwrap();
        std::fs::remove_dir_all(dir.path().join("logs")).unwrap();
        log.append(b"two\n").unwrap();
        let text = std::fs::read_to_string(LogFile::path(dir.path())).unwrap();
        assert_eq!(text, "two\n");
    }
}
