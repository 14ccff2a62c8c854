//! The sandbox of macOS: a profile for `sandbox-exec` equivalent to a [`View`]. **Never run yet**: the tests here pin
//! only the text.
//!
//! Everything is denied that no rule allows, and of several matching rules the last one wins. The process that starts
//! the kernel becomes it, as with [`super::landlock`].
//!
//! Deliberately not here: limits, which macOS has only for each process.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::net::Network;
use super::policy::Confinement;
use super::trial;
use super::view::View;

/// Absolute, so that no other one earlier on a PATH is used.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Readable parts of the system besides those of a view.
const SYSTEM: [&str; 10] = [
    "/Library/Apple",
    "/Library/Frameworks",
    "/Library/Java",
    "/System",
    "/private/etc/localtime",
    "/private/etc/ssl",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
    "/dev",
];

/// What programs do to themselves and to their children, and need from the system to start at all.
const ALWAYS: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-host*)
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow pseudo-tty)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom")
  (literal "/dev/tty") (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$"))
"#;

/// What name lookup needs, if the whole network is allowed.
const RESOLVER: &str = r#"(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.networkd")
  (global-name "com.apple.trustd.agent"))
"#;

/// The command that starts `kernel` confined. `ports` are those that it listens on, `proxy` is that of the network
/// gate.
pub(super) fn command(
    confinement: &Confinement,
    view: &View,
    shared: &Path,
    ports: Option<[u16; 5]>,
    proxy: Option<u16>,
    kernel: &[String],
) -> Vec<String> {
    let profile = profile(&confinement.network, view, shared, ports, proxy);
    let mut command = vec![PROGRAM.to_owned(), "-p".to_owned(), profile];
    command.extend_from_slice(kernel);
    command
}

/// Whether it works here.
pub(super) fn runs() -> bool {
    let mut trial = std::process::Command::new(PROGRAM);
    trial.args(["-p", "(version 1)(allow default)", "/usr/bin/true"]);
    cfg!(target_os = "macos") && trial::run(trial).is_ok()
}

fn profile(
    network: &Network,
    view: &View,
    shared: &Path,
    ports: Option<[u16; 5]>,
    proxy: Option<u16>,
) -> String {
    let mut profile = Profile(ALWAYS.to_owned());
    let system: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
    let shared = [shared.to_owned()];
    let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
        // Rules match paths without links: /tmp is /private/tmp.
        let real = paths.iter().filter_map(|path| path.canonicalize().ok());
        paths.iter().cloned().chain(real).collect()
    };
    let readable = real(&view.readable);
    let writable: Vec<PathBuf> = real(&view.writable)
        .into_iter()
        .chain(real(&shared))
        .collect();
    for paths in [&readable, &writable] {
        profile.rule("allow file-read-metadata", "path-ancestors", paths);
    }
    profile.rule("allow file-read* file-map-executable", "subpath", &system);
    profile.rule("allow file-read* file-map-executable", "subpath", &readable);
    profile.rule(
        "allow file-read* file-map-executable file-write*",
        "subpath",
        &writable,
    );
    profile.rule("deny file-write*", "subpath", &real(&view.protected));
    profile.rule(
        "deny file-read* file-write*",
        "subpath",
        &real(&view.hidden),
    );
    // Moving a directory unlinks its name.
    profile.rule("deny file-write-unlink", "literal", &real(&view.pinned));
    profile.sockets(&real(&shared));
    match network {
        Network::On => profile.0.push_str(RESOLVER),
        Network::Off | Network::Allow(_) => {
            for port in ports.into_iter().flatten() {
                profile.port("network-bind network-inbound", "local", port);
            }
            if let Some(port) = proxy {
                profile.port("network-outbound", "remote", port);
            }
        }
    }
    profile.0
}

struct Profile(String);

impl Profile {
    fn rule(&mut self, rule: &str, kind: &str, paths: &[PathBuf]) {
        if paths.is_empty() {
            return;
        }
        let _ = write!(self.0, "({rule}");
        let mut seen: Vec<&PathBuf> = Vec::new();
        for path in paths {
            if !seen.contains(&path) {
                let _ = write!(self.0, "\n  ({kind} {})", quoted(path));
                seen.push(path);
            }
        }
        self.0.push_str(")\n");
    }

    /// Allows its own unix sockets, and none of other programs.
    fn sockets(&mut self, dirs: &[PathBuf]) {
        self.0
            .push_str("(allow system-socket (socket-domain AF_UNIX))\n");
        for (action, end) in [("network-bind", "local"), ("network-outbound", "remote")] {
            for dir in dirs {
                let dir = quoted(dir);
                let _ = writeln!(
                    self.0,
                    "(allow {action} ({end} unix-socket (subpath {dir})))"
                );
            }
        }
    }

    fn port(&mut self, actions: &str, end: &str, port: u16) {
        let _ = writeln!(self.0, "(allow {actions} ({end} ip \"localhost:{port}\"))");
    }
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            readable: vec!["/n/python".into()],
            writable: vec!["/n/my \"ws\"".into()],
            protected: vec!["/n/my \"ws\"/a/.git".into()],
            pinned: vec!["/n/my \"ws\"/a".into()],
            hidden: vec!["/n/my \"ws\"/data".into()],
            ..View::default()
        }
    }

    fn rules(network: &str, view: &View, ports: Option<[u16; 5]>, proxy: Option<u16>) -> String {
        let text = profile(
            &network.parse().unwrap(),
            view,
            Path::new("/n/k"),
            ports,
            proxy,
        );
        text.strip_prefix(ALWAYS).unwrap().to_owned()
    }

    #[test]
    fn a_workspace_is_writable_but_for_what_is_protected_or_hidden() {
        let expected = r#"(allow file-read-metadata
  (path-ancestors "/n/python"))
(allow file-read-metadata
  (path-ancestors "/n/my \"ws\"")
  (path-ancestors "/n/k"))
(allow file-read* file-map-executable
  (subpath "/Library/Apple")
  (subpath "/Library/Frameworks")
  (subpath "/Library/Java")
  (subpath "/System")
  (subpath "/private/etc/localtime")
  (subpath "/private/etc/ssl")
  (subpath "/private/var/db/dyld")
  (subpath "/private/var/db/timezone")
  (subpath "/private/var/select")
  (subpath "/dev"))
(allow file-read* file-map-executable
  (subpath "/n/python"))
(allow file-read* file-map-executable file-write*
  (subpath "/n/my \"ws\"")
  (subpath "/n/k"))
(deny file-write*
  (subpath "/n/my \"ws\"/a/.git"))
(deny file-read* file-write*
  (subpath "/n/my \"ws\"/data"))
(deny file-write-unlink
  (literal "/n/my \"ws\"/a"))
(allow system-socket (socket-domain AF_UNIX))
(allow network-bind (local unix-socket (subpath "/n/k")))
(allow network-outbound (remote unix-socket (subpath "/n/k")))
"#;
        assert_eq!(rules("off", &view(), None, None), expected);
    }

    #[test]
    fn read_only_writes_nothing_but_what_it_shares_with_us() {
        let view = View {
            readable: vec!["/n/ws".into()],
            ..View::default()
        };
        let text = rules("off", &view, None, None);
        let writes: Vec<&str> = text
            .split("\n(")
            .filter(|rule| rule.contains("file-write"))
            .collect();
        assert_eq!(
            writes,
            ["allow file-read* file-map-executable file-write*\n  (subpath \"/n/k\"))"]
        );
        assert!(!text.contains(" ip "), "{text}");
    }

    #[test]
    fn a_network_is_nothing_one_port_or_everything() {
        let internet = |network: &str, ports, proxy| -> Vec<String> {
            let text = rules(network, &View::default(), ports, proxy);
            let lines = text
                .lines()
                .filter(|line| line.contains(" ip ") || line.contains("network*"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(internet("off", None, None), Vec::<String>::new());
        let listens = |port: u16| {
            format!("(allow network-bind network-inbound (local ip \"localhost:{port}\"))")
        };
        assert_eq!(
            internet("off", Some([1, 2, 3, 4, 5]), None),
            [1, 2, 3, 4, 5].map(listens)
        );
        assert_eq!(
            internet("allow:pypi", None, Some(4242)),
            ["(allow network-outbound (remote ip \"localhost:4242\"))"]
        );
        assert_eq!(internet("on", None, None), ["(allow network*)"]);
    }

    #[test]
    fn links_are_named_by_where_they_lead_too() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("ws")).unwrap();
        std::os::unix::fs::symlink("ws", real.join("link")).unwrap();
        let view = View {
            protected: vec![real.join("link")],
            ..View::default()
        };
        let text = rules("off", &view, None, None);
        let both = format!(
            "(deny file-write*\n  (subpath {})\n  (subpath {}))",
            quoted(&real.join("link")),
            quoted(&real.join("ws"))
        );
        assert!(text.contains(&both), "{text}");
    }
}
