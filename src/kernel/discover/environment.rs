//! Inspects the files of a Python environment or a program, without running either.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The virtual or conda environment that holds the kernelspec directory `dir`, `PREFIX/share/jupyter/kernels/NAME`.
pub(super) fn around(dir: &Path) -> Option<&Path> {
    let prefix = dir.ancestors().nth(4)?;
    let is_kernelspec = dir.parent() == Some(&prefix.join("share/jupyter/kernels"));
    let is_environment = prefix.join("pyvenv.cfg").exists() || prefix.join("conda-meta").is_dir();
    (is_kernelspec && is_environment).then_some(prefix)
}

/// Whether this is a virtual or conda environment without ipykernel. `false` if that is unknown.
pub(super) fn lacks_ipykernel(prefix: &Path) -> bool {
    let virtual_env = std::fs::read_to_string(prefix.join("pyvenv.cfg"));
    let has_all = match &virtual_env {
        Ok(settings) => !sees_system_packages(settings),
        Err(_) => prefix.join("conda-meta").is_dir(),
    };
    if !has_all || !prefix.join("bin/python").exists() {
        return false;
    }
    let mut packages = site_packages(prefix).peekable();
    packages.peek().is_some() && packages.all(|dir| !dir.join("ipykernel").is_dir())
}

/// Parses pyvenv.cfg (Python docs, `venv`).
fn sees_system_packages(settings: &str) -> bool {
    settings.lines().any(|line| {
        line.split_once('=').is_some_and(|(name, value)| {
            name.trim() == "include-system-site-packages"
                && value.trim().eq_ignore_ascii_case("true")
        })
    })
}

fn site_packages(prefix: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages")))
        .filter(|dir| dir.is_dir())
}

/// The message about an environment without ipykernel.
pub(super) fn offer(prefix: &Path) -> String {
    format!(
        "it has no ipykernel; `sponde kernels install --into {}` installs it",
        prefix.display()
    )
}

/// Why `program` cannot be started, judging by its files; bare names are searched for in `path`, unless that is empty.
pub(super) fn missing_program(program: &str, path: &[PathBuf]) -> Option<String> {
    let file = Path::new(program);
    if file.is_absolute() {
        if !file.exists() {
            return Some(format!("its program `{program}` is not there"));
        }
        return (!is_executable(file))
            .then(|| format!("its program `{program}` is not executable"));
    }
    // A path relative to the kernel's working directory, which is not known yet.
    if program.contains('/') || path.is_empty() {
        return None;
    }
    let found = path.iter().any(|dir| is_executable(&dir.join(program)));
    (!found).then(|| format!("its program `{program}` is not on PATH"))
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_without_ipykernel() {
        let env = tempfile::tempdir().unwrap();
        let packages = env.path().join("lib/python3.11/site-packages");
        std::fs::create_dir_all(&packages).unwrap();
        std::fs::create_dir(env.path().join("bin")).unwrap();
        std::fs::write(env.path().join("bin/python"), "").unwrap();
        // Not known to be an environment, so nothing is reported.
        assert!(!lacks_ipykernel(env.path()));
        let settings = |text: &str| std::fs::write(env.path().join("pyvenv.cfg"), text).unwrap();
        settings("home = /usr/bin\ninclude-system-site-packages = true\n");
        assert!(!lacks_ipykernel(env.path()));
        settings("home = /usr/bin\ninclude-system-site-packages = false\n");
        assert!(lacks_ipykernel(env.path()));
        std::fs::create_dir(packages.join("ipykernel")).unwrap();
        assert!(!lacks_ipykernel(env.path()));
    }

    #[test]
    fn a_program_that_is_not_there() {
        let path = [PathBuf::from("/bin")];
        assert_eq!(missing_program("/bin/sh", &path), None);
        assert_eq!(missing_program("sh", &path), None);
        assert_eq!(missing_program("./here", &path), None);
        assert_eq!(missing_program("no-such-program", &[]), None);
        assert_eq!(
            missing_program("no-such-program", &path),
            Some("its program `no-such-program` is not on PATH".to_owned())
        );
        assert_eq!(
            missing_program("/etc/passwd", &path),
            Some("its program `/etc/passwd` is not executable".to_owned())
        );
    }
}
