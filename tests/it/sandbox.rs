//! Confined kernels: what code in them tries and does not get, on each tier, and what works as always.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use sponde::jupyter::kernelspec::KernelSpec;
use sponde::kernel::sandbox::limits::Limits;
use sponde::kernel::sandbox::probe::Tier;
use sponde::kernel::sandbox::together;
use sponde::kernel::{
    Checkpoints, Confinement, ExecuteOptions, ExitReason, Kernel, KernelSource, LaunchOptions,
    Network, NetworkContext, Outcome, OutputEvent, Sandbox, Verdict,
};

use crate::support::{
    NOBODY, Sponde, ipykernel, launch_options, path_with_bubblewrap, python_prefix, tools,
};

/// What comes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Stopped,
    /// The tier cannot stop it; docs/sandbox.md says so.
    Open,
    /// Stopped, but not for real root where no control group can be made: its processes are not counted then.
    StoppedByGroup,
}
use Expected::{Open, Stopped, StoppedByGroup};

/// Name; Python that raises an exception if it is stopped; what bubblewrap and what Landlock do.
const ATTEMPTS: &[(&str, &str, Expected, Expected)] = &[
    (
        "read a key",
        "open(f'{HOME}/.ssh/id_rsa').read()",
        Stopped,
        Stopped,
    ),
    ("list the home directory", "os.listdir(HOME)", Open, Stopped),
    (
        "find a key by listing",
        "assert '.ssh' in os.listdir(HOME)",
        Stopped,
        Stopped,
    ),
    (
        "see that a key is there",
        "os.stat(f'{HOME}/.ssh/id_rsa')",
        Stopped,
        Open,
    ),
    (
        "read another session's connection file",
        "open(OTHER).read()",
        Stopped,
        Stopped,
    ),
    (
        "read /etc/shadow",
        "open('/etc/shadow').read()",
        Stopped,
        Stopped,
    ),
    (
        "write into the home directory",
        "open(f'{HOME}/.bashrc', 'a').write('x')",
        Stopped,
        Stopped,
    ),
    (
        "make a file in the home directory",
        "open(f'{HOME}/.bash_profile', 'x').close()",
        Stopped,
        Stopped,
    ),
    (
        "write into /usr",
        "open('/usr/sponde-test', 'x').close()",
        Stopped,
        Stopped,
    ),
    (
        "write into the interpreter",
        "open(os.path.join(sys.prefix, 'sponde-test'), 'x').close()",
        Stopped,
        Stopped,
    ),
    (
        "write into /",
        "open('/sponde-test', 'x').close()",
        Stopped,
        Stopped,
    ),
    (
        "write outside through a link",
        "open('link', 'a').write('x')",
        Stopped,
        Stopped,
    ),
    (
        "write outside through a link of one's own",
        "os.path.lexists('own') or os.symlink(f'{HOME}/outside', 'own'); open('own', 'a').write('x')",
        Stopped,
        Stopped,
    ),
    (
        "move a directory out",
        "os.makedirs('d', exist_ok=True); os.rename('d', f'{HOME}/d')",
        Stopped,
        Stopped,
    ),
    (
        "change modes outside",
        "os.chmod(f'{HOME}/outside', 0o600)",
        Stopped,
        Open,
    ),
    (
        "put a hook into the repository",
        "open('.git/hooks/pre-commit', 'w').close()",
        Stopped,
        Open,
    ),
    (
        "change the repository's settings",
        "open('.git/config', 'a').write('x')",
        Stopped,
        Open,
    ),
    (
        "have git look elsewhere for its settings",
        "open('.git/commondir', 'w').close()",
        Stopped,
        Open,
    ),
    (
        "change the settings of a submodule",
        "open('.git/modules/sub/config', 'a').write('x')",
        Stopped,
        Open,
    ),
    (
        "change where a submodule's repository is",
        "open('sub/.git', 'a').write('x')",
        Stopped,
        Open,
    ),
    (
        "put a copy in the place of what is above a repository",
        "os.rename('a', 'a2'); os.rename('a2', 'a')",
        Stopped,
        Open,
    ),
    (
        "change the settings of a repository below",
        "open('a/b/.git/config', 'a').write('x')",
        Stopped,
        Open,
    ),
    (
        "put another repository in its place",
        "os.rename('.git', 'old'); os.rename('old', '.git')",
        Stopped,
        Open,
    ),
    (
        "change SPONDE.md",
        "open('SPONDE.md', 'a').write('x')",
        Stopped,
        Open,
    ),
    (
        "replace SPONDE.md",
        "os.rename('SPONDE.md', 'S'); os.rename('S', 'SPONDE.md')",
        Stopped,
        Open,
    ),
    (
        "connect by TCP",
        "socket.create_connection(('127.0.0.1', TCP), 2)",
        Stopped,
        Stopped,
    ),
    (
        "send by UDP",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP)); assert not os.path.exists('/.inside') and netless()",
        Stopped,
        Stopped,
    ),
    (
        "reach another machine",
        "socket.create_connection(('192.0.2.1', 80), 1)",
        Stopped,
        Stopped,
    ),
    (
        "look up a name",
        "socket.getaddrinfo('example.org', 80)",
        Stopped,
        Stopped,
    ),
    (
        "open a raw socket",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        Stopped,
        Stopped,
    ),
    (
        "open a packet socket",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
        Stopped,
        Stopped,
    ),
    (
        "open a vsock socket",
        "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        Stopped,
        Stopped,
    ),
    (
        "open a netlink socket",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        Stopped,
        Stopped,
    ),
    (
        "connect to an abstract socket",
        "socket.socket(socket.AF_UNIX).connect(ABSTRACT)",
        Stopped,
        Stopped,
    ),
    (
        "connect to Docker's socket",
        "socket.socket(socket.AF_UNIX).connect(f'{HOME}/docker.sock')",
        Stopped,
        Open,
    ),
    (
        "connect to an agent of keys",
        "socket.socket(socket.AF_UNIX).connect(f'{HOME}/agent.sock')",
        Stopped,
        Open,
    ),
    (
        "connect to the screen",
        "socket.socket(socket.AF_UNIX).connect(f'\\0{HOME}/.X11-unix/X0')",
        Stopped,
        Stopped,
    ),
    (
        "send by a datagram of a unix socket",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', ABSTRACT)",
        Stopped,
        Stopped,
    ),
    (
        "read the environment of another process",
        "open(f'/proc/{VICTIM}/environ', 'rb').read() or fail()",
        Stopped,
        Stopped,
    ),
    (
        "read Sponde's memory",
        "open(f'/proc/{SPONDE}/mem', 'rb').read(1)",
        Stopped,
        Stopped,
    ),
    (
        "read the first process's memory",
        "open('/proc/1/mem', 'rb')",
        Stopped,
        Stopped,
    ),
    (
        "see other processes",
        "os.listdir(f'/proc/{VICTIM}/task')",
        Stopped,
        Open,
    ),
    (
        "kill another process",
        "os.kill(VICTIM, 0)",
        Stopped,
        Stopped,
    ),
    ("kill Sponde", "os.kill(SPONDE, 0)", Stopped, Stopped),
    (
        "trace a process",
        "call('ptrace', 16, VICTIM, 0, 0)",
        Stopped,
        Stopped,
    ),
    (
        "trace itself",
        "call('ptrace', 0, 0, 0, 0)",
        Stopped,
        Stopped,
    ),
    (
        "mount",
        "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
        Stopped,
        Stopped,
    ),
    (
        "make namespaces",
        "call('unshare', 0x10000000)",
        Stopped,
        Stopped,
    ),
    (
        "make a process in namespaces",
        "call('clone', 0x10000000 | 17, None, None, None, None) or os._exit(0)",
        Stopped,
        Stopped,
    ),
    (
        "enter namespaces",
        "call('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0)",
        Stopped,
        Stopped,
    ),
    (
        "use io_uring",
        "call('io_uring_setup', 1, ctypes.create_string_buffer(256))",
        Stopped,
        Stopped,
    ),
    (
        "use keys of the kernel",
        "call('keyctl', 0, -3, 1)",
        Stopped,
        Stopped,
    ),
    (
        "load bpf",
        "call('bpf', 0, ctypes.create_string_buffer(128), 128)",
        Stopped,
        Stopped,
    ),
    (
        "use userfaultfd",
        "call('userfaultfd', 1)",
        Stopped,
        Stopped,
    ),
    (
        "open a file by its handle",
        "call('open_by_handle_at', -100, ctypes.create_string_buffer(64), 0)",
        Stopped,
        Stopped,
    ),
    (
        "type into a terminal",
        "fcntl.ioctl(os.openpty()[1], termios.TIOCSTI, b'x')",
        Stopped,
        Stopped,
    ),
    (
        "read secrets of the environment",
        "os.environ['OPENAI_API_KEY']",
        Stopped,
        Stopped,
    ),
    (
        "read an agent's socket of the environment",
        "os.environ['SSH_AUTH_SOCK']",
        Stopped,
        Stopped,
    ),
    ("take all memory", "bytearray(3 << 30)", Stopped, Stopped),
    (
        "make a huge file",
        "os.truncate(os.open('huge', os.O_CREAT | os.O_WRONLY), 2 << 30) if 0 else open('huge', 'wb').truncate(2 << 30)",
        Stopped,
        Stopped,
    ),
    (
        "fill /dev/shm",
        "fill('/dev/shm/sponde-test')",
        Stopped,
        Open,
    ),
    (
        "fill /tmp",
        "fill(os.path.join(tempfile.gettempdir(), 'x'))",
        Stopped,
        Open,
    ),
    (
        "make processes without end",
        "bomb()",
        StoppedByGroup,
        StoppedByGroup,
    ),
    (
        "keep a core of its memory",
        "assert resource.getrlimit(resource.RLIMIT_CORE)[1] != 0",
        Stopped,
        Stopped,
    ),
];

const BOMB: &str = "make processes without end";

/// What the attempts use.
pub(crate) const PRELUDE: &str = r"
import ctypes, fcntl, os, resource, signal, socket, sys, tempfile, termios, time
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {'x86_64': dict(ptrace=101, mount=165, unshare=272, clone=56, setns=308, io_uring_setup=425, keyctl=250, bpf=321,
                          userfaultfd=323, open_by_handle_at=304),
           'aarch64': dict(ptrace=117, mount=40, unshare=97, clone=220, setns=268, io_uring_setup=425, keyctl=219, bpf=280,
                           userfaultfd=282, open_by_handle_at=265)}[os.uname().machine]

def call(name, *arguments):
    if libc.syscall(NUMBERS[name], *arguments) < 0:
        number = ctypes.get_errno()
        # Anything else comes from the call itself, which then was made.
        if number == 1:
            raise PermissionError(name)
        raise SystemError(os.strerror(number))
    return 1

def fail():
    raise PermissionError

def netless():
    # A datagram that nobody takes is sent all the same: is the socket of the host there?
    reader = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    reader.bind(('127.0.0.1', UDP))
    return False

def fill(path):
    try:
        with open(path, 'wb') as file:
            for _ in range(150):
                file.write(bytes(1 << 20))
    finally:
        try:
            os.remove(path)
        except OSError:
            pass

def bomb():
    children = []
    try:
        for _ in range(400):
            pid = os.fork()
            if not pid:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)

def attempt(code):
    try:
        exec(code, globals())
    except SystemError as error:
        print('open:', error)
    except BaseException as error:
        print('stopped:', type(error).__name__)
    else:
        print('open')
";

/// A home directory with secrets, a project in it, services of this machine, and a process of somebody else.
pub(crate) struct Host {
    pub(crate) home: tempfile::TempDir,
    victim: Child,
    pub(crate) tcp: TcpListener,
    udp: UdpSocket,
    abstract_name: String,
    _sockets: [UnixListener; 4],
}

impl Host {
    pub(crate) fn new() -> Self {
        // Not in /tmp, which a confined kernel has one of its own of.
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = |relative: &str| home.path().join(relative);
        for dir in [
            ".ssh",
            "runtime",
            "project/.git/hooks",
            "project/.git/modules/sub",
            "project/sub",
            "project/a/b/.git",
            "config",
        ] {
            std::fs::create_dir_all(path(dir)).unwrap();
        }
        for file in [
            ".ssh/id_rsa",
            ".bashrc",
            "outside",
            "runtime/kernel-other.json",
            "project/.git/config",
            "project/.git/modules/sub/config",
            "project/sub/.git",
            "project/a/b/.git/config",
            "project/SPONDE.md",
        ] {
            std::fs::write(path(file), "secret").unwrap();
        }
        std::os::unix::fs::symlink(path("outside"), path("project/link")).unwrap();
        let abstract_name = format!("sponde-test-{}", home.path().file_name().unwrap().display());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        // As an X server listens beside its path.
        let screen = format!("{}/.X11-unix/X0", home.path().display());
        let screen = SocketAddr::from_abstract_name(screen).unwrap();
        let sockets = [
            UnixListener::bind_addr(&address).unwrap(),
            UnixListener::bind(path("docker.sock")).unwrap(),
            UnixListener::bind(path("agent.sock")).unwrap(),
            UnixListener::bind_addr(&screen).unwrap(),
        ];
        let victim = Command::new("sleep")
            .arg("600")
            .env("SECRET", "x")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            victim,
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            abstract_name,
            _sockets: sockets,
            home,
        }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.home.path().join("project")
    }

    /// What the attempts know of it.
    fn names(&self) -> String {
        format!(
            "HOME, OTHER, VICTIM, SPONDE, TCP, UDP, ABSTRACT = {:?}, {:?}, {}, {}, {}, {}, {:?}",
            self.home.path().to_str().unwrap(),
            self.home
                .path()
                .join("runtime/kernel-other.json")
                .to_str()
                .unwrap(),
            self.victim.id(),
            std::process::id(),
            self.tcp.local_addr().unwrap().port(),
            self.udp.local_addr().unwrap().port(),
            format!("\0{}", self.abstract_name),
        )
        .replace("\\0", "\\x00")
    }

    pub(crate) fn options(&self, kernel: KernelSource, tier: Tier) -> LaunchOptions {
        let mut options = launch_options(kernel, &self.project());
        options.runtime_dir = self.home.path().join("runtime");
        for (name, value) in [("OPENAI_API_KEY", "sk"), ("SSH_AUTH_SOCK", "/run/agent")] {
            options.env.push((name.to_owned(), value.to_owned()));
        }
        options.sandbox = self.sandbox(tier);
        options
    }

    fn sandbox(&self, tier: Tier) -> Sandbox {
        let limits = Limits {
            processes: 300,
            file: 1 << 30,
            memory: 2 << 30,
            temporary: 64 << 20,
            ..Limits::default()
        };
        confined(tier, self.home.path(), limits)
    }
}

/// The level `workspace`, by bubblewrap, for a person at home there.
pub(crate) fn workspace(home: &Path) -> Sandbox {
    let nobody_is_home = home.join("home");
    confined(bubblewrap(), &nobody_is_home, Limits::default())
}

pub(crate) fn confined(tier: Tier, home: &Path, limits: Limits) -> Sandbox {
    Sandbox::Confined(Box::new(Confinement {
        tier,
        program: program(),
        writes: true,
        network: Network::Off,
        network_context: NetworkContext::default(),
        add_dirs: Vec::new(),
        reads: Vec::new(),
        services: Vec::new(),
        home: Some(home.to_owned()),
        sockets: std::env::temp_dir(),
        hidden: vec![home.join("config")],
        at_mnt_data: false,
        guest: None,
        limits,
    }))
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Ours; a path of its own where the test runs as somebody who cannot see ours.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("SPONDE_TEST_PROGRAM").map_or_else(
        || assert_cmd::cargo::cargo_bin!("sponde").to_owned(),
        PathBuf::from,
    )
}

pub(crate) fn bubblewrap() -> Tier {
    let program = std::env::split_paths(&path_with_bubblewrap())
        .map(|dir| dir.join("bwrap"))
        .find(|bwrap| bwrap.is_file());
    Tier::Bubblewrap {
        program: program.expect("there is no bubblewrap: run scripts/test once, it gets one"),
    }
}

/// ipykernel, with an interpreter that everybody may run where the test runs as somebody else.
pub(crate) fn python() -> KernelSource {
    if std::env::var_os("SPONDE_TEST_PROGRAM").is_none() {
        return ipykernel();
    }
    let prefix = tools().join("python");
    let version = std::fs::read_dir(prefix.join("lib")).unwrap().next();
    let packages = version.unwrap().unwrap().path().join("site-packages");
    let spec = json!({
        "argv": ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "python3", "language": "python", "env": {"PYTHONPATH": packages},
    });
    KernelSource {
        name: "python3".to_owned(),
        spec: KernelSpec::parse(spec.to_string().as_bytes()).unwrap(),
        resource_dir: prefix.join("share/jupyter/kernels/python3"),
        prefix: Some(prefix),
    }
}

pub(crate) async fn run(kernel: &Kernel, code: &str) -> (Vec<OutputEvent>, Outcome) {
    let options = ExecuteOptions {
        timeout: Some(Duration::from_mins(1)),
        ..ExecuteOptions::cell(code)
    };
    kernel.execute(options).await.unwrap().collect().await
}

pub(crate) async fn printed(kernel: &Kernel, code: &str) -> String {
    let (outputs, outcome) = run(kernel, code).await;
    assert_eq!(outcome.verdict, Verdict::Ok, "{code}: {outputs:?}");
    let text = outputs.iter().filter_map(|output| match output {
        OutputEvent::Stream(stream) if stream.name == "stdout" => Some(stream.text.as_str()),
        _ => None,
    });
    text.collect::<String>().trim().to_owned()
}

/// Each attempt, and the next cell, in one kernel.
pub(crate) async fn attack(tier: Tier) {
    let host = Host::new();
    let is_landlock = tier == Tier::Landlock;
    let is_gvisor = matches!(tier, Tier::Gvisor { .. });
    let is_root = rustix::process::geteuid().is_root();
    let is_grouped = together();
    if let Err(reason) = &is_grouped {
        crate::support::not_tested(&format!("limits of a whole kernel: {reason}"));
    }
    let is_grouped = is_grouped.is_ok();
    let kernel = Kernel::launch(host.options(python(), tier)).await.unwrap();
    run(&kernel, PRELUDE).await;
    run(&kernel, &host.names()).await;
    let mut wrong = Vec::new();
    for (name, code, bubblewrap, landlock) in ATTEMPTS {
        // These end a kernel in gVisor (`gvisor`).
        let ends_it = *name == "take all memory" || *name == BOMB && is_grouped;
        if is_gvisor && ends_it {
            continue;
        }
        let expected = if is_landlock { landlock } else { bubblewrap };
        let what = printed(&kernel, &format!("attempt({code:?})")).await;
        let stopped = match expected {
            Stopped => true,
            Open => false,
            StoppedByGroup => !is_root || is_grouped,
        };
        if what.starts_with("stopped") != stopped {
            wrong.push(format!("{name}: {what}"));
        }
        assert_eq!(
            printed(&kernel, "print(6 * 7)").await,
            "42",
            "after `{name}`"
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
    host.udp.set_nonblocking(true).unwrap();
    assert!(host.udp.recv(&mut [0]).is_err(), "a datagram came out");
    assert_eq!(
        std::fs::read(host.home.path().join("outside")).unwrap(),
        b"secret"
    );
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_in_bubblewrap_are_stopped_and_the_session_goes_on() {
    attack(bubblewrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_under_landlock_are_stopped_or_known_to_be_open() {
    attack(Tier::Landlock).await;
}

/// As root the tests above again, as somebody who is not.
#[test]
fn attempts_of_an_ordinary_user_are_stopped_as_well() {
    as_somebody_else(
        54321,
        &["sandbox::attempts_in", "sandbox::attempts_under"],
        2,
    );
}

/// The same of what attacks Sponde itself, comes from copies and kept kernels, or fills the disk.
#[test]
fn other_ways_are_closed_to_an_ordinary_user_as_well() {
    as_somebody_else(
        54325,
        &[
            "sandbox::forged_frames",
            "sandbox::attempts_from_a_copy",
            "sandbox::a_kept_kernel",
            "limits::a_cell_that_fills",
        ],
        4,
    );
}

/// Somebody of their own: without namespaces the processes of a user count together, and one of the attempts above makes
/// as many as there may be.
#[test]
fn kernels_of_an_ordinary_user_work_as_well() {
    as_somebody_else(
        54322,
        &["sandbox::a_confined", "limits::a_kernel_starts_although"],
        3,
    );
}

/// Runs tests of this program as a user without rights, where this one is root.
pub(crate) fn as_somebody_else(user: u32, filters: &[&str], tests: usize) {
    if !rustix::process::geteuid().is_root() {
        // They were those of an ordinary user.
        return;
    }
    let expected = format!("test result: ok. {tests} passed");
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let near = |path: &Path, name: &str| {
        let near = dir.path().join(name);
        std::fs::hard_link(path, &near)
            .or_else(|_| std::fs::copy(path, &near).map(drop))
            .unwrap();
        near
    };
    let sponde = near(&program(), "sponde");
    let program_of_tests = near(&std::env::current_exe().unwrap(), "tests");
    let user = user.to_string();
    let output = Command::new("setpriv")
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .arg(program_of_tests)
        .args(filters)
        // One after another: their processes count together where no control group can be made, and an attempt makes as
        // many as there may be.
        .arg("--test-threads=1")
        .current_dir(dir.path())
        .env("SPONDE_TEST_PROGRAM", sponde)
        .env("SPONDE_TEST_TOOLS", tools())
        .env("TMPDIR", dir.path())
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains(&expected), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_of_sponde_are_hidden_at_every_level_or_the_kernel_does_not_start() {
    let host = Host::new();
    let hidden = host.project().join("data");
    std::fs::create_dir(&hidden).unwrap();
    std::fs::write(hidden.join("journal"), "secret").unwrap();
    for writes in [true, false] {
        let options = |tier| {
            let mut options = host.options(python(), tier);
            if let Sandbox::Confined(confinement) = &mut options.sandbox {
                confinement.hidden = vec![hidden.clone()];
                confinement.writes = writes;
            }
            options
        };
        let kernel = Kernel::launch(options(bubblewrap())).await.unwrap();
        let list = "import os; print(os.listdir('data'), os.path.exists('SPONDE.md'))";
        assert_eq!(printed(&kernel, list).await, "[] True", "{writes}");
        kernel.shutdown().await;
        let refused = Kernel::launch(options(Tier::Landlock)).await.unwrap_err();
        let words = refused.to_string();
        assert!(words.contains("Landlock cannot hide"), "{words}");
    }
}

/// What a person does all day.
pub(crate) async fn day(tier: Tier) {
    let host = Host::new();
    std::fs::write(host.project().join("data.csv"), "a,b\n1,2\n3,4\n").unwrap();
    let is_gvisor = matches!(tier, Tier::Gvisor { .. });
    let kernel = Kernel::launch(host.options(python(), tier)).await.unwrap();
    let code = "import os, pandas, matplotlib.pyplot as plt\n\
                frame = pandas.read_csv('data.csv')\nframe.to_csv('out.csv', index=False)\n\
                plt.plot(frame.a, frame.b); plt.show()";
    let (outputs, outcome) = run(&kernel, code).await;
    assert_eq!(outcome.verdict, Verdict::Ok, "{outputs:?}");
    let is_plot = |output: &OutputEvent| match output {
        OutputEvent::Display { data, .. } => data.get("image/png").is_some(),
        _ => false,
    };
    assert!(outputs.iter().any(is_plot), "{outputs:?}");
    let out = host.project().join("out.csv");
    assert_eq!(std::fs::read_to_string(out).unwrap(), "a,b\n1,2\n3,4\n");
    let places = printed(&kernel, "print(os.getcwd() == os.path.realpath('.'), os.listdir(os.path.expanduser('~/.ssh')) if os.path.exists(os.path.expanduser('~/.ssh')) else 'no keys')").await;
    assert_eq!(places, "True no keys");
    // When memory is short it goes before Sponde.
    let score = "print(open('/proc/self/oom_score_adj').read().strip())";
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    if !is_gvisor {
        let its: i32 = printed(&kernel, score).await.parse().unwrap();
        assert!(
            its == 500 && own.trim().parse::<i32>().unwrap() < its,
            "{its} {own}"
        );
    }
    // Programs, threads, processes and semaphores.
    let code = "import subprocess, concurrent.futures as f, multiprocessing as m\n\
                print(subprocess.check_output(['echo', 'hello'], text=True).strip())\n\
                with m.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n\
                with f.ThreadPoolExecutor() as pool: print(list(pool.map(abs, [-3])))";
    assert_eq!(printed(&kernel, code).await, "hello\n[1, 2]\n[3]");
    interrupt(&kernel, "import time; time.sleep(60)").await;
    assert_eq!(printed(&kernel, "print(len(frame))").await, "2");
    kernel.restart().await.unwrap();
    assert_eq!(
        printed(&kernel, "print('frame' in globals())").await,
        "False"
    );
    kernel.shutdown().await;
}

pub(crate) async fn interrupt(kernel: &Kernel, code: &str) {
    let mut execution = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
    // It has begun.
    execution.next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    kernel.interrupt().await.unwrap();
    let (_, outcome) = tokio::time::timeout(Duration::from_secs(20), execution.collect())
        .await
        .unwrap();
    assert!(
        matches!(
            outcome.verdict,
            Verdict::Interrupted | Verdict::Error { .. }
        ),
        "{:?}",
        outcome.verdict
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_kernel_does_what_it_always_did() {
    day(bubblewrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_kernel_does_what_it_always_did_under_landlock() {
    day(Tier::Landlock).await;
}

async fn back_and_forth(tier: Tier) {
    let host = Host::new();
    let kernel = Kernel::launch(host.options(python(), tier)).await.unwrap();
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    run(&kernel, "import os; x = 1").await;
    let first = kernel.checkpoint(&checkpoints).await.unwrap();
    run(&kernel, "x = 2").await;
    let second = kernel.checkpoint(&checkpoints).await.unwrap();
    run(&kernel, "x = 3").await;
    let memory = checkpoints.memory(kernel.pid().await);
    let private: Vec<_> = memory
        .private
        .iter()
        .map(|(id, bytes)| (*id, *bytes > 0))
        .collect();
    assert_eq!(
        (memory.live > 0, private),
        (true, vec![(first.id, true), (second.id, true)])
    );
    for (id, value) in [(first.id, "1"), (second.id, "2"), (first.id, "1")] {
        kernel.restore(&checkpoints, id).await.unwrap();
        assert_eq!(printed(&kernel, "print(x)").await, value);
        interrupt(&kernel, "import time; time.sleep(60)").await;
    }
    // The kernel that was started first has ended, and this one with all its copies can end as well.
    run(&kernel, "x = 4").await;
    let third = kernel.checkpoint(&checkpoints).await.unwrap();
    let _ = run(&kernel, "os.kill(os.getpid(), 9)").await;
    kernel.restore(&checkpoints, third.id).await.unwrap();
    assert_eq!(printed(&kernel, "print(x)").await, "4");
    let saved = host.home.path().join("variables");
    kernel.save_variables(&saved, 1 << 20).await.unwrap();
    run(&kernel, "x = 5").await;
    kernel.load_variables(&saved).await.unwrap();
    assert_eq!(printed(&kernel, "print(x)").await, "4");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_of_a_confined_kernel_restore_and_outlive_it() {
    back_and_forth(bubblewrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_under_landlock_restore() {
    back_and_forth(Tier::Landlock).await;
}

/// Processes whose command line has these words.
pub(crate) fn running(words: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| {
        let text = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&text).replace('\0', " "))
    });
    lines.filter(|line| line.contains(words)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_sandbox_outlives_its_kernel() {
    let host = Host::new();
    let kernel = Kernel::launch(host.options(python(), bubblewrap()))
        .await
        .unwrap();
    let file = kernel.connection_file().await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let place = serde_json::from_str::<serde_json::Value>(&text).unwrap()["ip"]
        .as_str()
        .unwrap()
        .to_owned();
    let place = Path::new(&place)
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let name = place.to_string_lossy().into_owned();
    // Out of the kernel's group and session.
    let code = format!(
        "import subprocess; subprocess.Popen(['sleep', '600', {name:?}][:2] , start_new_session=True, env={{'X': {name:?}}})"
    );
    run(&kernel, &code).await;
    assert!(!running(&name).is_empty());
    kernel.shutdown().await;
    drop(kernel);
    crate::support::eventually(|| running(&name).is_empty() && !place.exists());
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_kernel_stays_confined_and_is_taken_over() {
    for tier in [bubblewrap(), Tier::Landlock] {
        taken_over(tier).await;
    }
}

async fn taken_over(tier: Tier) {
    let host = Host::new();
    let is_landlock = tier == Tier::Landlock;
    let options = LaunchOptions {
        keep: true,
        ..host.options(python(), tier)
    };
    // Another process keeps it: one that is this one could not be gone.
    let file = keep_in_another_process(&options, &host, is_landlock);
    let taken = LaunchOptions {
        adopt: Some(sponde::kernel::KeptKernelChoice {
            connection_file: file.clone(),
            patience: std::time::Duration::from_mins(1),
        }),
        ..options
    };
    let kernel = Kernel::launch(taken).await.unwrap();
    assert!(kernel.was_adopted().await.unwrap());
    assert_eq!(printed(&kernel, "print(x)").await, "7");
    run(&kernel, PRELUDE).await;
    run(&kernel, &host.names()).await;
    again(&kernel).await;
    interrupt(&kernel, "import time; time.sleep(60)").await;
    let pid = kernel.pid().await.unwrap();
    kernel.shutdown().await;
    // Without namespaces it is collected by the first process of this machine, which may take its time.
    let is_over = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_none_or(|it| it.is_empty() || it.starts_with('Z'))
    };
    crate::support::eventually(is_over);
    assert!(!file.exists());
}

/// Has `sponde` run a cell in a kernel that it keeps, and returns the kernel's connection file.
fn keep_in_another_process(options: &LaunchOptions, host: &Host, is_landlock: bool) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let output = Command::new(tests)
        .args([
            "--exact",
            "sandbox::keeps_a_kernel",
            "--include-ignored",
            "--nocapture",
        ])
        .env("SPONDE_TEST_KEEP", host.home.path())
        .env(LANDLOCK, if is_landlock { "1" } else { "" })
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split("KEPT ").nth(1));
    assert_eq!(options.runtime_dir, host.home.path().join("runtime"));
    PathBuf::from(
        line.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr))),
    )
}

/// Whether the other process of a test confines by Landlock.
const LANDLOCK: &str = "SPONDE_TEST_KEEP_BY_LANDLOCK";

/// The other process of the test above.
#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_kernel() {
    let Some(home) = std::env::var_os("SPONDE_TEST_KEEP").map(PathBuf::from) else {
        return;
    };
    let host = Host::new();
    let tier = match std::env::var_os(LANDLOCK) {
        Some(it) if it == "1" => Tier::Landlock,
        _ => bubblewrap(),
    };
    let mut options = host.options(python(), tier);
    options.keep = true;
    options.cwd = home.join("project");
    options.runtime_dir = home.join("runtime");
    if let Sandbox::Confined(confinement) = &mut options.sandbox {
        confinement.home = Some(home);
    }
    let kernel = Kernel::launch(options).await.unwrap();
    run(&kernel, "x = 7").await;
    let file = kernel.connection_file().await.unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "KEPT {}", file.display()).unwrap();
    drop(kernel);
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_confined_kernel_is_reached_through_a_bridge() {
    bridged(bubblewrap()).await;
}

pub(crate) async fn bridged(tier: Tier) {
    // ipykernel under a name of which nobody knows that it can do without ports.
    let mut kernel = python();
    let python = match kernel.spec.argv[0].as_str() {
        "python" => python_prefix()
            .join("bin/python")
            .to_string_lossy()
            .into_owned(),
        path => path.to_owned(),
    };
    kernel.spec.argv = [
        "/usr/bin/env",
        &python,
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
    .map(str::to_owned)
    .into();
    let host = Host::new();
    let kernel = Kernel::launch(host.options(kernel, tier)).await.unwrap();
    let code = "import json, glob, os\n\
                print(json.load(open(os.environ['HOME'] + '/../connection.json'))['transport'])\nprint('x' * 3_000_000)";
    let text = printed(&kernel, code).await;
    assert!(
        text.starts_with("tcp\nxxx") && text.len() == 3_000_004,
        "{}",
        text.len()
    );
    interrupt(&kernel, "import time; time.sleep(60)").await;
    kernel.shutdown().await;
}

/// Nine bytes to the guard through the kernel's own sockets, which would cost a naive reader 32 TB.
#[tokio::test(flavor = "multi_thread")]
async fn forged_frames_of_a_confined_kernel_end_it_and_not_us() {
    for tier in [bubblewrap(), Tier::Landlock] {
        forged_frames(tier).await;
    }
}

pub(crate) async fn forged_frames(tier: Tier) {
    let host = Host::new();
    let kernel = Kernel::launch(host.options(python(), tier)).await.unwrap();
    let code = "import os, struct, stat\nfor fd in range(3, 300):\n  try:\n    if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'\\x02' + struct.pack('>Q', 2**45) + b'x')\n  except OSError: pass";
    let (_, outcome) = run(&kernel, code).await;
    let is_hostile = |reason: &ExitReason| matches!(reason, ExitReason::Hostile(_));
    assert!(
        matches!(&outcome.verdict, Verdict::KernelDied(reason) if is_hostile(reason)),
        "{outcome:?}"
    );
    kernel.restart().await.unwrap();
    assert_eq!(printed(&kernel, "print(6 * 7)").await, "42");
    // Nor is there a door to it for anybody else: the guard listens where a kernel sees nothing.
    let doors = "import glob, os; here = os.path.dirname(os.path.dirname(os.environ['HOME'])); print([f for f in glob.glob(here + '/**', recursive=True) if 'guard' in f])";
    assert_eq!(printed(&kernel, doors).await, "[]");
    kernel.shutdown().await;
}

/// Each way there is, once more.
async fn again(kernel: &Kernel) {
    for name in [
        "read a key",
        "read another session's connection file",
        "write into the home directory",
        "connect by TCP",
        "open a vsock socket",
        "connect to an abstract socket",
        "kill Sponde",
        "trace a process",
        "mount",
        "use io_uring",
        "use keys of the kernel",
        "type into a terminal",
        "take all memory",
    ] {
        let code = ATTEMPTS.iter().find(|attempt| attempt.0 == name).unwrap().1;
        let what = printed(kernel, &format!("attempt({code:?})")).await;
        assert!(what.starts_with("stopped"), "{name}: {what}");
    }
    assert_eq!(printed(kernel, "print(6 * 7)").await, "42");
}

/// SECURITY.md says how many attempts there are; none is counted twice.
#[test]
fn attempts_are_as_many_as_it_is_said() {
    let names: std::collections::BTreeSet<&str> = ATTEMPTS.iter().map(|it| it.0).collect();
    assert_eq!(names.len(), ATTEMPTS.len());
    let security = include_str!("../../SECURITY.md");
    let words = format!("{} attempts", ATTEMPTS.len());
    assert!(security.contains(&words), "{words}");
    let open = |of: fn(&(&str, &str, Expected, Expected)) -> Expected| {
        ATTEMPTS.iter().filter(|it| of(it) == Open).count()
    };
    // A home directory may be listed: it is another one.
    assert_eq!((open(|it| it.2), open(|it| it.3)), (1, 17));
}

/// A copy of a kernel that was woken is confined as the kernel was.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_from_a_copy_that_was_woken_are_stopped() {
    for tier in [bubblewrap(), Tier::Landlock] {
        let host = Host::new();
        let kernel = Kernel::launch(host.options(python(), tier)).await.unwrap();
        run(&kernel, PRELUDE).await;
        run(&kernel, &host.names()).await;
        let checkpoints = Checkpoints::new(&std::env::temp_dir());
        let before = kernel.checkpoint(&checkpoints).await.unwrap();
        kernel.restore(&checkpoints, before.id).await.unwrap();
        again(&kernel).await;
        kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jupyter_console_joins_a_confined_kernel() {
    let host = Host::new();
    let kernel = Kernel::launch(host.options(python(), bubblewrap()))
        .await
        .unwrap();
    run(&kernel, "x = 6").await;
    let file = kernel.connection_file().await.unwrap();
    let mut console = Command::new(tools().join("python/bin/jupyter-console"))
        .args(["--simple-prompt", "--existing"])
        .arg(&file)
        .env("HOME", host.home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = console.stdin.take().unwrap();
    stdin
        .write_all(b"print('it is', x * 7)\ny = 8\nexit(keep_kernel=True)\n")
        .unwrap();
    drop(stdin);
    let output = tokio::task::spawn_blocking(move || console.wait_with_output().unwrap());
    let output = tokio::time::timeout(Duration::from_mins(2), output)
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("it is 42"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(printed(&kernel, "print(y)").await, "8");
    kernel.shutdown().await;
}

fn first_line(arguments: &[&str], sponde: &Sponde) -> String {
    let ended = sponde.run(arguments);
    ended.stderr.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_chat_says_first_what_code_may_do() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("OPENAI_API_KEY", "none");
    let chat = |more: &[&str]| {
        first_line(
            &[&["--model", "none", "--kernel", "python3"], more].concat(),
            &sponde,
        )
    };
    assert_eq!(
        chat(&[]),
        "sandbox: workspace, code writes only in this directory, no network (bubblewrap)"
    );
    assert_eq!(
        chat(&["--sandbox", "read-only", "--network", "on"]),
        "sandbox: read-only, code writes only temporary files, with network (bubblewrap)"
    );
    sponde.configure("sandbox = \"full\"\n");
    assert_eq!(chat(&[]), "sandbox: full, code can do all that you can");
    assert!(chat(&["--sandbox", "workspace"]).starts_with("sandbox: workspace"));
    sponde.configure("network = \"on\"\nadd-dirs = [\"nowhere\"]\n");
    let ended = sponde.run(&["--model", "none"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn without_bubblewrap_landlock_is_used_and_its_gaps_are_named() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("OPENAI_API_KEY", "none")
        .with("PATH", "/nowhere");
    let line = first_line(&["--model", "none", "--kernel", "python3"], &sponde);
    assert_eq!(
        line,
        "sandbox: workspace, code writes only in this directory, no network (Landlock)"
    );
    let doctor = sponde.run(&["doctor"]).stdout;
    let words = "sandbox: workspace, by Landlock only (there is no bubblewrap (`bwrap`)), so code can connect to unix sockets";
    assert!(doctor.contains(words), "{doctor}");
    assert!(doctor.contains("apt install bubblewrap"), "{doctor}");
}

/// A `bwrap` that does not work, first on the PATH, and what it says.
fn with_bwrap(dir: &str, says: &str) -> Sponde {
    let sponde = Sponde::new();
    let bin = sponde.path(dir);
    std::fs::create_dir_all(&bin).unwrap();
    let bwrap = bin.join("bwrap");
    let script = format!("#!/bin/sh\ntouch \"$0.ran\"\necho '{says}' >&2\nexit 1\n");
    std::fs::write(&bwrap, script).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&bwrap, open).unwrap();
    let path = path_with_bubblewrap().into_string().unwrap();
    let path = format!("{}:{path}", bin.display());
    sponde.with("PATH", &path)
}

const CONFINED: [&str; 5] = ["run", "--sandbox", "workspace", "-c", "print(6 * 7)"];

#[test]
fn a_bubblewrap_in_the_workspace_is_not_used() {
    let sponde = with_bwrap("bin", "hacked");
    let ended = sponde.run(&CONFINED);
    assert_eq!(
        (ended.code, ended.stdout.trim()),
        (Some(0), "42"),
        "{ended}"
    );
    assert!(ended.stderr.contains("(bubblewrap)"), "{ended}");
    assert!(!sponde.path("bin/bwrap.ran").exists(), "{ended}");
}

/// Both ways in which AppArmor forbids namespaces: to bubblewrap, or to what it starts.
#[test]
fn where_namespaces_are_forbidden_landlock_is_used_and_the_system_s_own_help_is_named() {
    for says in [
        "bwrap: setting up uid map: Permission denied",
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
    ] {
        let sponde = with_bwrap("../bin", says);
        let ended = sponde.run(&CONFINED);
        assert_eq!(
            (ended.code, ended.stdout.trim()),
            (Some(0), "42"),
            "{ended}"
        );
        assert!(ended.stderr.contains("(Landlock)"), "{ended}");
        assert!(sponde.path("../bin/bwrap.ran").exists());
        let doctor = sponde.run(&["doctor"]).stdout;
        let reason = says.trim_start_matches("bwrap: ");
        for words in [reason, "bwrap-userns-restrict"] {
            assert!(doctor.contains(words), "{words} is not in {doctor}");
        }
    }
}

/// That it worked is remembered, and found out again as soon as it does not: a kernel never starts unconfined.
#[test]
fn a_bubblewrap_that_worked_once_is_not_trusted_for_ever() {
    let sponde = Sponde::new();
    let noted = sponde.path("../cache/sponde/sandbox");
    let first = sponde.run(&CONFINED);
    assert!(first.stderr.contains("(bubblewrap)"), "{first}");
    assert!(noted.is_file());
    let before = std::fs::metadata(&noted).unwrap().modified().unwrap();
    assert_eq!(sponde.run(&CONFINED).code, Some(0));
    let after = std::fs::metadata(&noted).unwrap().modified().unwrap();
    assert_eq!(before, after, "it was tried again");
    // Another one, of which nothing is known.
    let bin = sponde.path("../bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("bwrap"), "#!/bin/sh\nexit 1\n").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("bwrap"), open).unwrap();
    let path = path_with_bubblewrap().into_string().unwrap();
    let sponde = sponde.with("PATH", &format!("{}:{path}", bin.display()));
    let other = sponde.run(&CONFINED);
    assert!(other.stderr.contains("(Landlock)"), "{other}");
    assert!(!noted.exists());
}

#[test]
fn code_of_a_person_is_confined_where_they_say_so() {
    let sponde = Sponde::new();
    sponde.write("../secret", "hunter2");
    let read = "print(open('../secret').read())";
    let free = sponde.run(&["run", "-c", read]);
    assert_eq!((free.code, free.stdout.trim()), (Some(0), "hunter2"));
    assert_eq!(free.stderr, "");
    let confined = sponde.run(&["run", "--sandbox", "workspace", "-c", read]);
    assert_eq!(confined.code, Some(1));
    let line = "sandbox: workspace, code writes only in this directory, no network (bubblewrap)\n";
    assert!(confined.stderr.starts_with(line), "{}", confined.stderr);
    assert!(!confined.stdout.contains("hunter2"), "{}", confined.stdout);
    let write = "open('x', 'w').write('1')";
    let read_only = sponde.run(&["run", "--sandbox", "read-only", "-c", write]);
    assert_eq!(
        (read_only.code, sponde.path("x").exists()),
        (Some(1), false)
    );
    std::fs::create_dir(sponde.path("../more")).unwrap();
    let more = [
        "run",
        "--sandbox",
        "read-only",
        "--add-dir",
        "../more",
        "-c",
        "open('../more/x', 'w').close()",
    ];
    assert_eq!(sponde.run(&more).code, Some(0));
    assert!(sponde.path("../more/x").exists());
    assert_eq!(
        sponde.run(&["run", "--sandbox", "some", "-c", "1"]).code,
        Some(2)
    );
}
