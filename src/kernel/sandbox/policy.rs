//! What a confined kernel may do, as plain values, and which paths that means for one kernel in one directory.
//!
//! Reads are an allow-list: the system, the interpreter, the kernelspec and the working directory. It never includes a
//! whole home directory.
//!
//! Deliberately not here: how it is enforced ([`super::bubblewrap`], [`super::landlock`]).

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::guest::Guest;
use super::interpreter;
use super::limits::Limits;
use super::net::{Network, NetworkContext, Policy};
use super::tier::{CageKind, Tier};
use super::view::View;
use crate::kernel::KernelSource;
use crate::kernel::file_names::PREFIX;

/// How much a kernel may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It reads its working directory and writes only to its own temporary directories.
    ReadOnly,
    /// It writes to its working directory.
    Workspace,
    /// It is not confined and may do everything the user may.
    Full,
}

impl FromStr for Level {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "read-only" => Ok(Self::ReadOnly),
            "workspace" => Ok(Self::Workspace),
            "full" => Ok(Self::Full),
            _ => {
                Err("it has to be `read-only`, `workspace`, `full`, `gvisor` or `gvisor-read-only`")
            }
        }
    }
}

/// A user's choice of level, and whether gVisor must enforce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LevelChoice {
    /// The level.
    pub level: Level,
    /// Whether gVisor is required.
    pub gvisor: bool,
}

impl From<Level> for LevelChoice {
    fn from(level: Level) -> Self {
        let gvisor = false;
        Self { level, gvisor }
    }
}

impl FromStr for LevelChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let level = match text {
            "gvisor" => Level::Workspace,
            "gvisor-read-only" => Level::ReadOnly,
            _ => return text.parse().map(Level::into),
        };
        Ok(Self {
            level,
            gvisor: true,
        })
    }
}

impl TryFrom<String> for LevelChoice {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// How a kernel is confined.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Sandbox {
    /// Not at all.
    #[default]
    Full,
    /// By these rules.
    Confined(Box<Confinement>),
}

/// What a kernel's code may do, in stored form: a resumed session gets the same again, and a kept kernel is not reused
/// where stricter rules apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// How much it may do.
    pub level: Level,
    /// What it can reach, if it is confined.
    #[serde(default)]
    pub network: Network,
    /// Further writable directories, if it is confined.
    #[serde(default)]
    pub add_dirs: Vec<PathBuf>,
    /// Further readable files, if it is confined: those named by the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<PathBuf>,
    /// Whether the weaker tier confines it.
    #[serde(default)]
    pub landlock: bool,
    /// Whether gVisor confines it.
    #[serde(default, skip_serializing_if = "is_not")]
    pub gvisor: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_not(said: &bool) -> bool {
    !said
}

impl Extent {
    /// What `sandbox` permits.
    pub fn of(sandbox: &Sandbox) -> Self {
        match sandbox {
            Sandbox::Full => Self {
                level: Level::Full,
                network: Network::Off,
                add_dirs: Vec::new(),
                reads: Vec::new(),
                landlock: false,
                gvisor: false,
            },
            Sandbox::Confined(confinement) => Self {
                level: if confinement.writes {
                    Level::Workspace
                } else {
                    Level::ReadOnly
                },
                network: confinement.network.clone(),
                add_dirs: confinement.add_dirs.clone(),
                reads: confinement.reads.clone(),
                landlock: confinement.tier == Tier::Landlock,
                gvisor: matches!(confinement.tier, Tier::Gvisor { .. }),
            },
        }
    }

    /// Whether code may write or reach more than `before`. Readable files, which a user names, are ignored.
    pub fn is_wider_than(&self, before: &Self) -> bool {
        self.level > before.level
            || self.level != Level::Full
                && (!self.network.is_within(&before.network)
                    || self
                        .add_dirs
                        .iter()
                        .any(|dir| !before.add_dirs.contains(dir)))
    }

    /// Whether `wanted` permits everything that this does.
    pub fn is_within(&self, wanted: &Self) -> bool {
        let dirs = || {
            self.add_dirs
                .iter()
                .all(|dir| wanted.add_dirs.contains(dir))
        };
        wanted.level == Level::Full
            || self.level <= wanted.level
                && self.network.is_within(&wanted.network)
                && self.landlock <= wanted.landlock
                && self.gvisor >= wanted.gvisor
                && self.reads.iter().all(|file| wanted.reads.contains(file))
                && dirs()
    }
}

/// The rules for a confined kernel. Directories are passed in: nothing here reads the environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Confinement {
    /// What enforces them.
    pub tier: Tier,
    /// The `sponde` program: it starts the kernel inside (`sponde __confine`).
    pub program: PathBuf,
    /// Whether the working directory can be written.
    pub writes: bool,
    /// What it can reach.
    pub network: Network,
    /// Further values for an allow-list.
    pub network_context: NetworkContext,
    /// Further writable directories.
    pub add_dirs: Vec<PathBuf>,
    /// Further readable files and directories.
    pub reads: Vec<PathBuf>,
    /// Directories with our sockets that code may connect to.
    pub services: Vec<PathBuf>,
    /// The user's home directory: never visible as a whole.
    pub home: Option<PathBuf>,
    /// The directory with all kernels' sockets: those of other kernels stay hidden.
    pub sockets: PathBuf,
    /// Sponde's own directories, hidden even inside of the working directory.
    pub hidden: Vec<PathBuf>,
    /// Whether a link at `/mnt/data` points to the working directory; only bubblewrap can do that.
    pub at_mnt_data: bool,
    /// The directories of a sandbox that looks like a separate machine.
    pub guest: Option<Guest>,
    /// How much of the machine it may take.
    pub limits: Limits,
}

/// Readable parts of the system, if they exist.
const SYSTEM: [&str; 50] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ImageMagick-6",
    "/etc/ipython",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/jupyter",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/magic",
    "/etc/matplotlibrc",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/papersize",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/R",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/etc/texmf",
    "/var/cache/fontconfig",
    "/var/lib/texmf",
    "/sys/devices/system",
    "/sys/fs/cgroup",
];
/// Files for name lookup.
const RESOLVER: [&str; 3] = [
    "/etc/resolv.conf",
    "/run/systemd/resolve",
    "/run/resolvconf",
];
/// Prefix, before a user id, of the directory with the sockets of sessions (`app::attach`).
const SESSIONS_PREFIX: &str = "sponde.";
/// How deep repositories are searched for, and in how many directories at most.
const REPOSITORY_DEPTH: usize = 3;
const REPOSITORY_DIRS: usize = 4000;

impl Confinement {
    /// Whether we cannot reach ports that a kernel listens on.
    pub(in crate::kernel) fn hides_ports(&self) -> bool {
        self.tier.cage().is_some() && self.network != Network::On
    }

    /// The directories of its guest, if the tier can move them.
    pub(super) fn moved(&self) -> Option<&Guest> {
        let moves = self.tier.cage() == Some(CageKind::Namespaces);
        self.guest.as_ref().filter(|_| moves)
    }

    /// Whether code sees its guest's directories under other paths.
    pub fn is_moved(&self) -> bool {
        self.moved().is_some()
    }

    /// The path that code sees for `path`.
    pub fn inside(&self, path: &Path) -> PathBuf {
        let moved = self.moved();
        moved.map_or_else(|| path.to_owned(), |guest| guest.inside(path))
    }

    /// Whether code inside runs as processes of this machine.
    pub(in crate::kernel) fn runs_processes(&self) -> bool {
        !matches!(self.tier, Tier::Gvisor { .. })
    }

    /// The rules for connections.
    pub(super) fn network_policy(&self) -> Policy {
        let (mut rules, mut words) = (Vec::new(), String::new());
        if let Network::Allow(list) = &self.network {
            rules.extend(list.rules().cloned());
            words = list.to_string();
        }
        rules.extend(self.network_context.registries.iter().cloned());
        Policy::new(rules, words, self.network_context.resolver.clone())
    }

    /// What `kernel`, started by `program` in `cwd`, can see.
    pub(super) fn view(
        &self,
        kernel: &KernelSource,
        program: &str,
        cwd: &Path,
        path: &str,
    ) -> View {
        let mut view = View {
            readable: SYSTEM.map(PathBuf::from).into(),
            ..View::default()
        };
        if self.network == Network::On {
            view.readable.extend(RESOLVER.map(PathBuf::from));
        }
        view.readable.retain(|path| path.exists());
        let roots = |program: &str| interpreter::roots(program, path, self.home.as_deref());
        let arguments = kernel.spec.argv.iter().skip(1);
        let scripts = arguments.filter_map(|argument| Some((script(argument)?, roots(argument))));
        let own: Vec<PathBuf> = roots(program)
            .into_iter()
            .chain(kernel.prefix.clone())
            .chain([kernel.resource_dir.clone()])
            .chain(scripts.flat_map(|(dir, roots)| std::iter::once(dir).chain(roots)))
            .chain(self.reads.iter().chain(&self.services).cloned())
            .filter(|dir| self.may_be_seen(dir))
            .collect();
        view.readable.extend(own);
        interpreter::libraries(self.home.as_deref(), &mut view);
        // Moved directories are mounted separately.
        let cwd = Some(cwd).filter(|_| self.moved().is_none());
        for dir in cwd
            .into_iter()
            .chain(self.add_dirs.iter().map(PathBuf::as_path))
        {
            let writes = self.writes || Some(dir) != cwd;
            for part in self.parts(dir) {
                self.hide(&part, &mut view);
                if writes && part.is_dir() {
                    protect(&part, &mut view);
                    view.writable.push(part);
                } else {
                    view.readable.push(part);
                }
            }
        }
        view.readable.retain(|path| !view.writable.contains(path));
        pin(&mut view);
        view
    }

    /// The visible parts of a directory. Of the home directory: entries without a leading dot. Of the socket directory:
    /// entries that are not ours. Of one that contains the home directory, such as `/`: nothing.
    fn parts(&self, dir: &Path) -> Vec<PathBuf> {
        let Ok(dir) = dir.canonicalize() else {
            return Vec::new();
        };
        let is = |other: &Path| other.canonicalize().is_ok_and(|other| other == dir);
        let is_home = self.home.as_deref().is_some_and(is);
        if is_home || is(&self.sockets) {
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let visible = entries.filter(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_private = is_ours(&name) || is_home && name.starts_with('.');
                // A symbolic link may point anywhere.
                !is_private && entry.file_type().is_ok_and(|kind| !kind.is_symlink())
            });
            return visible.map(|entry| entry.path()).collect();
        }
        let is_private = self.sockets.canonicalize().is_ok_and(|sockets| {
            let below = dir.strip_prefix(sockets).ok();
            let first = below.and_then(|below| below.iter().next());
            first.is_some_and(|name| is_ours(&name.to_string_lossy()))
        });
        if self.may_be_seen(&dir) && !is_private {
            vec![dir]
        } else {
            Vec::new()
        }
    }

    /// Whether a tree may be shown as a whole: it must not contain the home directory.
    fn may_be_seen(&self, dir: &Path) -> bool {
        let holds_home = |dir: &Path| self.home.as_ref().is_some_and(|home| home.starts_with(dir));
        let real = dir.canonicalize().ok();
        dir != Path::new("/")
            && !holds_home(dir)
            && real.is_some_and(|real| !holds_home(&real) && real != Path::new("/"))
    }

    /// Hides our own directories inside of a tree.
    fn hide(&self, tree: &Path, view: &mut View) {
        let hidden = self.hidden.iter().chain([&self.sockets]);
        let inside = hidden.filter_map(|dir| dir.canonicalize().ok());
        let inside = inside.filter(|dir| dir.starts_with(tree) && dir != tree);
        view.hidden.extend(inside);
    }
}

/// Whether an entry of the socket directory is ours: of a kernel, or of a session that can be attached to.
fn is_ours(name: &str) -> bool {
    let of_person = name.strip_prefix(SESSIONS_PREFIX);
    name.starts_with(PREFIX)
        || of_person.is_some_and(|uid| uid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Write-protects parts of a writable tree. A whole `.git` is protected: files all over it control what `git` runs.
fn protect(tree: &Path, view: &mut View) {
    let mut protected = Vec::new();
    repositories(tree, &mut |repository| protected.push(repository));
    protected.extend(["SPONDE.md", ".mcp.json"].map(|name| tree.join(name)));
    // Links are skipped: their targets are not what is meant.
    protected.retain(|path| std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink()));
    view.protected.extend(protected);
}

/// Moving a directory also moves the mounts below it, and another could take its place. So directories between a
/// writable tree and a protected or hidden path in it become mounts of their own, which cannot be moved.
fn pin(view: &mut View) {
    let readable = view.readable.iter().filter_map(|it| it.canonicalize().ok());
    let closed: Vec<PathBuf> = readable
        .chain(view.protected.iter().chain(&view.hidden).cloned())
        .collect();
    for tree in &view.writable {
        let inside = || closed.iter().filter(|path| path.starts_with(tree));
        for path in inside() {
            let above = path.ancestors().skip(1);
            let between = above.take_while(|dir| dir.starts_with(tree) && dir != tree);
            let between = between.filter(|dir| !inside().any(|closed| dir.starts_with(closed)));
            view.pinned.extend(between.map(Path::to_owned));
        }
    }
    view.pinned.sort();
    view.pinned.dedup();
}

/// The directory of a file that a kernelspec's argument names.
fn script(argument: &str) -> Option<PathBuf> {
    let path = Path::new(argument);
    let dir = path
        .parent()
        .filter(|_| path.is_absolute() && path.is_file())?;
    Some(dir.to_owned())
}

/// Finds each `.git` in a tree, to a limited depth: a directory, or the file of a worktree or submodule.
fn repositories(tree: &Path, found: &mut impl FnMut(PathBuf)) {
    let mut left = REPOSITORY_DIRS;
    let mut level = vec![tree.to_owned()];
    for _ in 0..=REPOSITORY_DEPTH {
        let mut next = Vec::new();
        for dir in level {
            let Some(fewer) = left.checked_sub(1) else {
                return;
            };
            left = fewer;
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                match entry.file_name().to_str() {
                    Some(".git") => found(entry.path()),
                    _ if !is_dir => {}
                    Some("node_modules" | "__pycache__") => {}
                    Some(name) if name.starts_with('.') => {}
                    Some(_) | None => next.push(entry.path()),
                }
            }
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::jupyter::kernelspec::KernelSpec;

    fn confinement(home: &Path) -> Confinement {
        Confinement {
            tier: Tier::Landlock,
            program: "/bin/true".into(),
            writes: true,
            network: Network::Off,
            network_context: NetworkContext::default(),
            add_dirs: Vec::new(),
            reads: Vec::new(),
            services: Vec::new(),
            home: Some(home.to_owned()),
            sockets: "/run".into(),
            hidden: vec![home.join("project/data")],
            at_mnt_data: false,
            guest: None,
            limits: Limits::default(),
        }
    }

    fn view(confinement: &Confinement, cwd: &Path) -> View {
        let spec = r#"{"argv": ["sh", "{connection_file}"], "display_name": "x", "language": "x"}"#;
        let kernel = KernelSource {
            name: "x".to_owned(),
            spec: KernelSpec::parse(spec.as_bytes()).unwrap(),
            resource_dir: "/nowhere".into(),
            prefix: None,
        };
        let mut view = confinement.view(&kernel, "/bin/sh", cwd, "/bin");
        view.readable.retain(|path| path.starts_with("/tmp"));
        view.writable.sort();
        view
    }

    #[test]
    fn a_project_is_writable_but_for_what_runs_later() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().canonicalize().unwrap().join("project");
        for dir in [
            "project/.git",
            "project/a/b/.git/hooks",
            "project/data",
            "project/c",
            ".ssh",
        ] {
            fs::create_dir_all(home.path().join(dir)).unwrap();
        }
        fs::write(project.join("c/.git"), "gitdir: /elsewhere").unwrap();
        fs::write(project.join("SPONDE.md"), "").unwrap();
        fs::write(project.join(".mcp.json"), "").unwrap();
        let found = view(&confinement(home.path()), &project);
        assert_eq!(
            found,
            View {
                writable: vec![project.clone()],
                pinned: vec![project.join("a"), project.join("a/b"), project.join("c")],
                protected: vec![
                    project.join(".git"),
                    project.join("c/.git"),
                    project.join("a/b/.git"),
                    project.join("SPONDE.md"),
                    project.join(".mcp.json"),
                ],
                hidden: vec![project.join("data")],
                ..View::default()
            }
        );
        let read_only = Confinement {
            writes: false,
            ..confinement(home.path())
        };
        assert_eq!(
            view(&read_only, &project),
            View {
                hidden: vec![project.join("data")],
                readable: vec![project],
                ..View::default()
            }
        );
    }

    #[test]
    fn sockets_of_sessions_and_kernels_are_never_seen() {
        let home = tempfile::tempdir().unwrap();
        let sockets = home.path().canonicalize().unwrap().join("run");
        for dir in ["sponde.0", "sponde-1a/k", "mine"] {
            fs::create_dir_all(sockets.join(dir)).unwrap();
        }
        let confinement = Confinement {
            sockets: sockets.clone(),
            home: None,
            ..confinement(home.path())
        };
        let seen = view(&confinement, &sockets).writable;
        assert_eq!(seen, [sockets.join("mine")]);
        for dir in ["sponde.0", "sponde-1a", "sponde-1a/k"] {
            assert_eq!(view(&confinement, &sockets.join(dir)), View::default());
        }
        let above = view(&confinement, home.path());
        assert_eq!(above.hidden, [sockets]);
    }

    #[test]
    fn only_what_is_at_least_as_strict_is_within() {
        let home = Path::new("/home/x");
        let strict = Extent::of(&Sandbox::Confined(Box::new(confinement(home))));
        let full = Extent::of(&Sandbox::Full);
        assert!(strict.is_within(&strict) && strict.is_within(&full));
        assert!(full.is_within(&full) && !full.is_within(&strict));
        let looser = [
            Extent {
                network: Network::On,
                ..strict.clone()
            },
            Extent {
                add_dirs: vec!["/data".into()],
                ..strict.clone()
            },
            Extent {
                reads: vec!["/data.csv".into()],
                ..strict.clone()
            },
        ];
        for looser in looser {
            assert!(strict.is_within(&looser) && !looser.is_within(&strict));
            let names_only_a_file = looser.add_dirs.is_empty() && looser.network == Network::Off;
            assert_eq!(looser.is_wider_than(&strict), !names_only_a_file);
            assert!(!strict.is_wider_than(&looser));
        }
        assert!(full.is_wider_than(&strict) && !strict.is_wider_than(&full));
        assert!(!full.is_wider_than(&full));
        let read_only = Extent {
            level: Level::ReadOnly,
            landlock: false,
            ..strict.clone()
        };
        assert!(read_only.is_within(&strict) && !strict.is_within(&read_only));
        let caged = Extent {
            landlock: false,
            ..strict.clone()
        };
        assert!(caged.is_within(&strict) && !strict.is_within(&caged));
    }

    #[test]
    fn of_a_home_directory_only_what_has_no_dot_is_seen() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap();
        for dir in [".ssh", ".config", "music", "work"] {
            fs::create_dir(real.join(dir)).unwrap();
        }
        fs::write(real.join("notes.txt"), "").unwrap();
        fs::write(real.join(".bashrc"), "").unwrap();
        std::os::unix::fs::symlink("/etc", real.join("link")).unwrap();
        let found = view(&confinement(&real), &real);
        assert_eq!(found.writable, [real.join("music"), real.join("work")]);
        assert_eq!(found.readable, [real.join("notes.txt")]);
        assert_eq!(view(&confinement(&real), Path::new("/")), View::default());
    }
}
