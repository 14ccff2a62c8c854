//! The bubblewrap command line for a [`View`]: a file system of what may be seen, and separate namespaces for users,
//! processes, memory segments, host name and network.
//!
//! Every path is the same as outside, so notebooks keep their paths. Deeper paths are mounted later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::guest;
use super::net::{Gate, Network};
use super::policy::Confinement;
use super::view::View;

/// Path of our own program inside.
pub(super) const PROGRAM: &str = "/run/sponde";
/// Working directory of hosted code interpreters.
const MNT_DATA: &str = "/mnt/data";

/// What the kernel needs besides its view.
pub(super) struct Inside<'a> {
    /// Sockets and connection files, shared with us; `None` for a command.
    pub(super) shared: Option<&'a Path>,
    /// Home directory inside.
    pub(super) home: &'a Path,
    pub(super) cwd: &'a Path,
    /// The network gate, if hosts are allowed by name.
    pub(super) gate: Option<&'a Gate>,
    /// Whether it keeps running after we exit.
    pub(super) kept: bool,
    /// Whether our own program is the first process and reaps all others. Otherwise bubblewrap does.
    pub(super) collects: bool,
    /// Whether it stays in the session that it is started in, which is its own.
    pub(super) has_terminal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mount {
    ReadOnly,
    Writable,
    Hidden,
}

/// All options; the command follows them.
pub(super) fn options(confinement: &Confinement, view: &View, inside: &Inside<'_>) -> Vec<String> {
    let mut options = Options::default();
    options.add(&[
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
    ]);
    options.add(&["--unshare-cgroup-try", "--hostname", "sandbox"]);
    if !inside.has_terminal {
        options.add(&["--new-session"]);
    }
    if inside.collects {
        options.add(&["--as-pid-1"]);
    }
    options.add(&["--cap-drop", "ALL"]);
    if confinement.network != Network::On {
        options.add(&["--unshare-net"]);
    }
    if let Some(gate) = inside.gate {
        options.add(gate.options());
    }
    if !inside.kept {
        options.add(&["--die-with-parent"]);
    }
    options.add(&["--proc", "/proc", "--dev", "/dev"]);
    let size = confinement.limits.temporary.to_string();
    let mut mounts = mounts(view);
    if inside.gate.is_some() {
        mounts.retain(|(_, path), _| !Gate::replaces(path));
    }
    if let Some(shared) = inside.shared {
        mounts.insert(by_depth(shared), Mount::Writable);
    }
    options.add(&["--size", &size, "--tmpfs", "/dev/shm"]);
    match &confinement.guest {
        Some(guest) if !mounts.keys().any(|(_, path)| path.starts_with(guest::TMP)) => {
            options.path("--bind", &guest.tmp);
            options.add(&[guest::TMP]);
        }
        // Code could place a symbolic link where something is mounted.
        Some(_) | None => options.add(&["--size", &size, "--tmpfs", guest::TMP]),
    }
    if let Some(guest) = &confinement.guest {
        let bind = if confinement.writes {
            "--bind"
        } else {
            "--ro-bind"
        };
        options.path(bind, &guest.directory);
        options.add(&[guest::HOME, "--dir", "/root"]);
        if !mounts
            .keys()
            .any(|(_, path)| path.starts_with(guest::WORKSPACE))
        {
            options.path(bind, &guest.directory);
            options.add(&[guest::WORKSPACE]);
        }
    } else {
        options.path("--dir", inside.cwd);
    }
    for ((_, path), mount) in &mounts {
        match mount {
            Mount::ReadOnly => match link_within(path, &view.readable) {
                Some(target) => {
                    options.path("--symlink", &target);
                    options.0.push(words(path));
                }
                None => options.bind("--ro-bind", path),
            },
            Mount::Writable => options.bind("--bind", path),
            Mount::Hidden => options.path("--tmpfs", path),
        }
    }
    let is_free = !mounts.keys().any(|(_, path)| path.starts_with("/mnt"));
    if confinement.at_mnt_data && is_free {
        options.path("--symlink", inside.cwd);
        options.add(&[MNT_DATA]);
    }
    // Only now, because an interpreter may lie below one.
    for path in &view.hidden {
        options.path("--remount-ro", path);
    }
    options.add(&["--size", &size]);
    options.path("--tmpfs", inside.home);
    for (from, to) in &view.seeds {
        options.path("--ro-bind", from);
        options.0.push(words(&inside.home.join(to)));
    }
    for (from, to) in inside.gate.map(Gate::mounts).unwrap_or_default() {
        options.path("--ro-bind", &from);
        options.0.push(words(&to));
    }
    options.path("--ro-bind", &confinement.program);
    options.add(&[PROGRAM, "--remount-ro", "/"]);
    options.path("--chdir", inside.cwd);
    options.0
}

fn by_depth(path: &Path) -> (usize, PathBuf) {
    (path.components().count(), path.to_owned())
}

/// What is mounted where, deepest last. A read-only path below a read-only mount needs none of its own.
pub(super) fn mounts(view: &View) -> BTreeMap<(usize, PathBuf), Mount> {
    let mut mounts = BTreeMap::new();
    let real = view
        .readable
        .iter()
        .filter_map(|path| path.canonicalize().ok());
    let paths = [
        (view.readable.clone(), Mount::ReadOnly),
        (real.collect(), Mount::ReadOnly),
        (view.writable.clone(), Mount::Writable),
        (view.pinned.clone(), Mount::Writable),
        (view.protected.clone(), Mount::ReadOnly),
        (view.hidden.clone(), Mount::Hidden),
    ];
    for (paths, mount) in paths {
        for path in paths {
            // A pinned directory is writable, and must be a mount of its own.
            mounts.insert(by_depth(&path), mount);
        }
    }
    let all = mounts.clone();
    mounts.retain(|(depth, path), mount| {
        let above = path
            .ancestors()
            .skip(1)
            .find_map(|path| all.get(&by_depth(path)));
        *depth == 0 || *mount != Mount::ReadOnly || above != Some(&Mount::ReadOnly)
    });
    mounts
}

/// The target of a link that stays a link, because it points into what is shown anyway, as `/bin` does.
pub(super) fn link_within(path: &Path, shown: &[PathBuf]) -> Option<PathBuf> {
    let target = std::fs::read_link(path).ok()?;
    let real = path.canonicalize().ok()?;
    shown
        .iter()
        .any(|tree| tree != path && real.starts_with(tree))
        .then_some(target)
}

#[derive(Default)]
struct Options(Vec<String>);

impl Options {
    fn add(&mut self, options: &[&str]) {
        self.0
            .extend(options.iter().map(|&option| option.to_owned()));
    }

    fn path(&mut self, option: &str, path: &Path) {
        self.0.extend([option.to_owned(), words(path)]);
    }

    fn bind(&mut self, option: &str, path: &Path) {
        self.path(option, path);
        self.0.push(words(path));
    }
}

fn words(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
