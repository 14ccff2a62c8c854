//! Remembers across processes that bubblewrap worked here: trying it costs a tenth of a kernel's start.
//!
//! Only success is remembered, for [`LASTS`] and while nothing that it depends on changes. A wrong or forged entry
//! gains nothing: the kernel does not start, and `sponde doctor` tries again.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long an entry is valid.
const LASTS: Duration = Duration::from_hours(1);
/// What the system says about namespaces and about this process.
const SETTINGS: [&str; 5] = [
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/user/max_user_namespaces",
    "/proc/self/attr/current",
];

/// Whether `file` says that `bwrap` worked with our program `program`.
pub(super) fn works(file: &Path, bwrap: &Path, program: &Path) -> bool {
    let is_new = || {
        let written = std::fs::metadata(file).ok()?.modified().ok()?;
        Some(SystemTime::now().duration_since(written).ok()? < LASTS)
    };
    is_new() == Some(true)
        && std::fs::read_to_string(file).is_ok_and(|said| said == words(bwrap, program))
}

/// Records that it worked.
pub(super) fn remember(file: &Path, bwrap: &Path, program: &Path) {
    // Errors are ignored: the entry only saves time.
    if let Some(dir) = file.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = std::fs::write(file, words(bwrap, program));
}

/// Records that it does not work.
pub(super) fn forget(file: &Path) {
    let _ = std::fs::remove_file(file);
}

/// Everything that the result depends on.
fn words(bwrap: &Path, program: &Path) -> String {
    let mut words = format!("{}\n", rustix::process::geteuid().as_raw());
    for program in [bwrap, program] {
        let found = std::fs::metadata(program)
            .map(|it| (it.dev(), it.ino(), it.size(), it.mtime(), it.mode()));
        let _ = writeln!(words, "{} {:?}", program.display(), found.ok());
    }
    for setting in SETTINGS {
        let said = std::fs::read_to_string(setting).unwrap_or_default();
        let _ = writeln!(words, "{}", said.trim());
    }
    let user = std::fs::read_link("/proc/self/ns/user").unwrap_or_default();
    let _ = writeln!(words, "{}", user.display());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_worked_is_known_until_something_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (file, bwrap, program) = (
            dir.path().join("cache/known"),
            dir.path().join("bwrap"),
            dir.path().join("sponde"),
        );
        std::fs::write(&bwrap, "1").unwrap();
        std::fs::write(&program, "1").unwrap();
        assert!(!works(&file, &bwrap, &program));
        remember(&file, &bwrap, &program);
        assert!(works(&file, &bwrap, &program));
        assert!(!works(&file, &program, &bwrap));
        std::fs::write(&bwrap, "22").unwrap();
        assert!(!works(&file, &bwrap, &program));
        remember(&file, &bwrap, &program);
        let old = SystemTime::now() - LASTS - Duration::from_secs(1);
        std::fs::File::options()
            .append(true)
            .open(&file)
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert!(!works(&file, &bwrap, &program));
        remember(&file, &bwrap, &program);
        assert!(works(&file, &bwrap, &program));
        forget(&file);
        assert!(!works(&file, &bwrap, &program));
    }
}
