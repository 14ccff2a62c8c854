//! gVisor: a kernel in user space, which `runsc` runs from an OCI bundle (OCI runtime specification, "Linux container
//! configuration"), for the same [`View`] as bubblewrap's. Used only if requested: `--sandbox gvisor`.
//!
//! What runs inside is not a process of this machine: our own program inside receives signals over its stdin
//! ([`super::confine`]), and sockets that it creates in the shared directory can be reached from outside
//! (`--host-uds`). The root file system is a directory of ours with the mount points, and is read-only.
//!
//! Deliberately not here: copies of a kernel and kept kernels, which rely on processes of this machine.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::bubblewrap::{Inside, Mount, PROGRAM, link_within, mounts};
use super::confine::{How, Order};
use super::limits::Limits;
use super::net::{Gate, Network};
use super::seccomp::Internet;
use super::trial;
use super::view::View;

/// Lets the first process bind ports 80 and 443; it drops this before it starts the kernel.
const PORTS: &str = "CAP_NET_BIND_SERVICE";
/// gVisor has its own; the machine's stay hidden.
const ITS_OWN: [&str; 3] = ["/proc", "/sys", "/dev"];
/// System directories that a probe needs.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];

/// The `runsc` command for the bundle in `dir`, where it also keeps its state. The container's name is unique on the
/// machine, because `runsc` listens under it.
pub(super) fn command(runsc: &Path, network: &Network, has_gate: bool, dir: &Path) -> Vec<String> {
    let container = format!("sponde-{}", uuid::Uuid::new_v4().simple());
    let mut words = vec![runsc.to_string_lossy().into_owned()];
    if !rustix::process::geteuid().is_root() {
        words.push("--rootless".to_owned());
    }
    let sockets = if has_gate { "all" } else { "create" };
    let network = match network {
        Network::Off | Network::Allow(_) => "none",
        Network::On => "host",
    };
    words.extend([
        format!("--root={}", dir.join("state").display()),
        format!("--network={network}"),
        format!("--host-uds={sockets}"),
        // The process that starts it is already in one.
        "--ignore-cgroups".to_owned(),
        "run".to_owned(),
        format!("--bundle={}", dir.display()),
        container,
    ]);
    words
}

/// Writes the bundle into `dir`: `config.json`, and a root with a mount point for each mount.
///
/// # Errors
/// What could not be written, and why.
pub(super) fn write(
    dir: &Path,
    view: &View,
    inside: &Inside<'_>,
    program: &Path,
    limits: &Limits,
    process: (&[String], &[(String, String)]),
) -> Result<(), String> {
    let (arguments, env) = process;
    let root = dir.join("root");
    let made = |path: &Path| format!("`{}`", path.display());
    let mut private = fs::DirBuilder::new();
    private.mode(0o700).recursive(true);
    private
        .create(&root)
        .map_err(|error| format!("{}: {error}", made(&root)))?;
    let (links, mounts) = contents(view, inside, program, limits);
    for (path, target) in &links {
        let at = below(&root, path).ok_or_else(|| made(path))?;
        place(&root, path.parent().unwrap_or(path), true)?;
        std::os::unix::fs::symlink(target, &at)
            .map_err(|error| format!("{}: {error}", made(&at)))?;
    }
    for mount in &mounts {
        place(&root, &mount.to, mount.is_dir())?;
    }
    let mounts: Vec<Value> = mounts.iter().map(Bound::to_json).collect();
    let capabilities: &[&str] = inside.gate.map_or(&[], |_| &[PORTS]);
    let env: Vec<String> = env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let namespaces = ["pid", "ipc", "uts", "mount", "network"].map(|kind| json!({"type": kind}));
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "args": arguments,
            "env": env,
            "cwd": inside.cwd,
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
            },
        },
        "root": {"path": root, "readonly": true},
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    });
    let path = dir.join("config.json");
    let mut file = fs::OpenOptions::new();
    file.write(true).create_new(true).mode(0o600);
    file.open(&path)
        .and_then(|file| serde_json::to_writer(file, &config).map_err(Into::into))
        .map_err(|error| format!("{}: {error}", made(&path)))
}

/// Whether a minimal sandbox runs here. Uses a temporary directory in `place`.
///
/// # Errors
/// Why not.
pub(super) fn runs(runsc: &Path, program: &Path, place: &Path) -> Result<(), String> {
    let dir = place.join(format!("sponde-gvisor-{}", uuid::Uuid::new_v4().simple()));
    let outcome = try_in(&dir, runsc, program);
    // It contains no user data.
    let _ = fs::remove_dir_all(&dir);
    outcome
}

fn try_in(dir: &Path, runsc: &Path, program: &Path) -> Result<(), String> {
    let shared = dir.join("k");
    let home = shared.join("home");
    let mut private = fs::DirBuilder::new();
    private.mode(0o700).recursive(true);
    private
        .create(&home)
        .map_err(|error| format!("`{}`: {error}", home.display()))?;
    let system = SYSTEM.map(PathBuf::from).into_iter();
    let view = View {
        readable: system.filter(|path| path.exists()).collect(),
        ..View::default()
    };
    let inside = Inside {
        shared: Some(&shared),
        home: &home,
        cwd: Path::new("/"),
        gate: None,
        kept: false,
        collects: true,
        has_terminal: false,
    };
    let limits = Limits {
        temporary: 1 << 20,
        ..Limits::default()
    };
    let order = Order {
        how: How::First {
            bridge: None,
            network: None,
        },
        limits: limits.clone(),
        internet: Internet::Any,
    };
    let mut arguments = vec![PROGRAM.to_owned()];
    arguments.extend(order.arguments(&["/bin/true".to_owned()])?);
    write(dir, &view, &inside, program, &limits, (&arguments, &[]))?;
    let command = command(runsc, &Network::Off, false, dir);
    let [runsc, rest @ ..] = &command[..] else {
        return Err("there is no command".to_owned());
    };
    let mut command = Command::new(runsc);
    command.args(rest);
    trial::run(command)
}

/// One mount of the bundle.
struct Bound {
    to: PathBuf,
    from: From,
}

enum From {
    ReadOnly(PathBuf),
    Writable(PathBuf),
    /// A tmpfs of this many bytes.
    Memory(u64),
    /// An empty, read-only directory.
    Nothing,
    Processes,
}

impl Bound {
    fn is_dir(&self) -> bool {
        match &self.from {
            From::ReadOnly(path) | From::Writable(path) => path.is_dir(),
            From::Memory(_) | From::Nothing | From::Processes => true,
        }
    }

    fn to_json(&self) -> Value {
        let to = &self.to;
        let bind = |from: &Path, mode: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", mode]});
        let memory = |options: &[String]| json!({"destination": to, "type": "tmpfs", "source": "tmpfs", "options": options});
        match &self.from {
            From::ReadOnly(from) => bind(from, "ro"),
            From::Writable(from) => bind(from, "rw"),
            From::Memory(size) => memory(&[format!("size={size}")]),
            From::Nothing => memory(&["ro".to_owned()]),
            From::Processes => json!({"destination": to, "type": "proc", "source": "proc"}),
        }
    }
}

/// Links, and mounts from the shortest path to the longest.
fn contents(
    view: &View,
    inside: &Inside<'_>,
    program: &Path,
    limits: &Limits,
) -> (Vec<(PathBuf, PathBuf)>, Vec<Bound>) {
    let (mut links, mut all) = (Vec::new(), Vec::new());
    let mut add = |to: &Path, from: From| {
        all.push(Bound {
            to: to.to_owned(),
            from,
        });
    };
    add(Path::new("/proc"), From::Processes);
    for path in ["/tmp", "/dev/shm"] {
        add(Path::new(path), From::Memory(limits.temporary));
    }
    for ((_, path), mount) in mounts(view) {
        if ITS_OWN.iter().any(|own| path.starts_with(own))
            || inside.gate.is_some() && Gate::replaces(&path)
        {
            continue;
        }
        match mount {
            Mount::ReadOnly => match link_within(&path, &view.readable) {
                Some(target) => links.push((path, target)),
                None => add(&path, From::ReadOnly(path.clone())),
            },
            Mount::Writable => add(&path, From::Writable(path.clone())),
            Mount::Hidden => add(&path, From::Nothing),
        }
    }
    if let Some(shared) = inside.shared {
        add(shared, From::Writable(shared.to_owned()));
    }
    add(inside.home, From::Memory(limits.temporary));
    for (from, to) in inside.gate.map(Gate::mounts).unwrap_or_default() {
        add(&to, From::ReadOnly(from));
    }
    add(Path::new(PROGRAM), From::ReadOnly(program.to_owned()));
    (links, all)
}

/// Creates the mount point in the root. Nothing is created below a link, because its target is mounted.
fn place(root: &Path, path: &Path, is_dir: bool) -> Result<(), String> {
    let mut at = root.to_owned();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            continue;
        };
        at.push(name);
        let made = match fs::symlink_metadata(&at) {
            Ok(found) if found.is_symlink() => return Ok(()),
            Ok(_) => continue,
            Err(_) if is_dir || parts.peek().is_some() => fs::create_dir(&at),
            Err(_) => fs::File::create(&at).map(drop),
        };
        made.map_err(|error| format!("`{}`: {error}", at.display()))?;
    }
    Ok(())
}

fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    Some(root.join(path.strip_prefix("/").ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_what_a_view_shows_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().canonicalize().unwrap();
        for path in ["ws/.git", "ws/data", "lib", "run/k/home"] {
            fs::create_dir_all(here.join(path)).unwrap();
        }
        fs::write(here.join("ws/SPONDE.md"), "").unwrap();
        std::os::unix::fs::symlink("lib", here.join("lib64")).unwrap();
        let view = View {
            readable: vec![
                here.join("lib"),
                here.join("lib64"),
                "/sys/fs/cgroup".into(),
            ],
            writable: vec![here.join("ws")],
            protected: vec![here.join("ws/.git"), here.join("ws/SPONDE.md")],
            hidden: vec![here.join("ws/data")],
            ..View::default()
        };
        let inside = Inside {
            shared: Some(&here.join("run/k")),
            home: &here.join("run/k/home"),
            cwd: &here.join("ws"),
            gate: None,
            kept: false,
            collects: true,
            has_terminal: false,
        };
        let limits = Limits {
            temporary: 4096,
            ..Limits::default()
        };
        let bundle = here.join("run/v");
        let (arguments, env) = (
            ["/run/sponde".to_owned(), "x".to_owned()],
            [("A".to_owned(), "b".to_owned())],
        );
        let program = here.join("sponde");
        fs::write(&program, "").unwrap();
        write(
            &bundle,
            &view,
            &inside,
            &program,
            &limits,
            (&arguments, &env),
        )
        .unwrap();
        let text = fs::read_to_string(bundle.join("config.json")).unwrap();
        let text = text.replace(&*here.to_string_lossy(), "HERE");
        let config: Value = serde_json::from_str(&text).unwrap();
        let bind = |path: &str, mode: &str| json!({"destination": path, "type": "bind", "source": path, "options": ["rbind", mode]});
        let memory = |path: &str, option: &str| json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": [option]});
        assert_eq!(
            config,
            json!({
                "ociVersion": "1.0.2",
                "process": {
                    "terminal": false, "user": {"uid": 0, "gid": 0},
                    "args": ["/run/sponde", "x"], "env": ["A=b"], "cwd": "HERE/ws", "noNewPrivileges": true,
                    "capabilities": {"bounding": [], "effective": [], "permitted": []},
                },
                "root": {"path": "HERE/run/v/root", "readonly": true},
                "hostname": "sandbox",
                "mounts": [
                    {"destination": "/proc", "type": "proc", "source": "proc"},
                    memory("/tmp", "size=4096"),
                    memory("/dev/shm", "size=4096"),
                    bind("HERE/lib", "ro"),
                    bind("HERE/ws", "rw"),
                    bind("HERE/ws/.git", "ro"),
                    bind("HERE/ws/SPONDE.md", "ro"),
                    memory("HERE/ws/data", "ro"),
                    bind("HERE/run/k", "rw"),
                    memory("HERE/run/k/home", "size=4096"),
                    {"destination": "/run/sponde", "type": "bind", "source": "HERE/sponde", "options": ["rbind", "ro"]},
                ],
                "linux": {"namespaces": [
                    {"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "network"},
                ]},
            })
        );
        let root = bundle.join("root");
        let inside = |path: &str| below(&root, &here.join(path)).unwrap();
        assert_eq!(fs::read_link(inside("lib64")).unwrap(), Path::new("lib"));
        assert!(inside("ws/.git").is_dir() && inside("ws/SPONDE.md").is_file());
        assert!(root.join("run/sponde").is_file() && !root.join("sys").exists());
    }

    #[test]
    fn a_link_of_the_view_leads_nowhere_outside_of_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        place(&root, Path::new("/link/made"), true).unwrap();
        assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
    }

    #[test]
    fn the_command_line_says_which_network_and_sockets() {
        let words = |network: &str, gate| {
            let network = network.parse().unwrap();
            let command = command(Path::new("/usr/bin/runsc"), &network, gate, Path::new("/b"));
            let words: Vec<String> = command
                .into_iter()
                .filter(|word| word != "--rootless")
                .collect();
            let (container, words) = words.split_last().unwrap();
            assert_eq!(container.len(), "sponde-".len() + 32);
            words.join(" ")
        };
        let rest = "--ignore-cgroups run --bundle=/b";
        let runsc = "/usr/bin/runsc --root=/b/state";
        assert_eq!(
            words("off", false),
            format!("{runsc} --network=none --host-uds=create {rest}")
        );
        assert_eq!(
            words("allow:pypi", true),
            format!("{runsc} --network=none --host-uds=all {rest}")
        );
        assert_eq!(
            words("on", false),
            format!("{runsc} --network=host --host-uds=create {rest}")
        );
    }
}
