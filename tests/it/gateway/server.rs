//! Jupyter servers of three kinds on this machine, and a proxy before them that breaks connections on command.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sponde::kernel::GatewayOptions;
use sponde::kernel::gateway::Gateway;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::tools;

pub(crate) const TOKEN: &str = "sekret-of-the-tests";

/// How long a server may take to start: the machine may be busy.
const START: Duration = Duration::from_mins(2);

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    JupyterServer,
    KernelGateway,
    EnterpriseGateway,
}

impl Kind {
    fn program(self) -> PathBuf {
        let (prefix, program) = match self {
            Self::JupyterServer => ("gateways", "jupyter-server"),
            Self::KernelGateway => ("gateways", "jupyter-kernelgateway"),
            Self::EnterpriseGateway => ("enterprise-gateway", "jupyter-enterprisegateway"),
        };
        let path = tools().join(prefix).join("bin").join(program);
        assert!(
            path.exists(),
            "there is no `{}`: run scripts/test once, it installs what the tests need",
            path.display()
        );
        path
    }

    fn arguments(self, port: u16) -> Vec<String> {
        let own: &[&str] = match self {
            Self::JupyterServer => &[
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port_retries=0",
                "--ServerApp.port=PORT",
                "--ServerApp.root_dir=.",
                "--IdentityProvider.token=TOKEN",
            ],
            Self::KernelGateway => &[
                "--KernelGatewayApp.ip=127.0.0.1",
                "--KernelGatewayApp.port_retries=0",
                "--KernelGatewayApp.port=PORT",
                "--KernelGatewayApp.auth_token=TOKEN",
            ],
            Self::EnterpriseGateway => &[
                "--EnterpriseGatewayApp.ip=127.0.0.1",
                "--EnterpriseGatewayApp.port_retries=0",
                "--EnterpriseGatewayApp.port=PORT",
                "--EnterpriseGatewayApp.auth_token=TOKEN",
            ],
        };
        own.iter()
            .map(|argument| {
                argument
                    .replace("PORT", &port.to_string())
                    .replace("TOKEN", TOKEN)
            })
            .collect()
    }
}

/// A running server; it and its kernels go with it.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    home: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start(kind: Kind) -> Self {
        let home = tempfile::tempdir().unwrap();
        let port = free_port();
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let child = Command::new(kind.program())
            .args(kind.arguments(port))
            .current_dir(home.path())
            .env_clear()
            .env("HOME", home.path())
            .env("JUPYTER_PLATFORM_DIRS", "1")
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let mut server = Self { child, port, home };
        let begun = Instant::now();
        let gateway = Gateway::new(server.options()).unwrap();
        while let Err(error) = gateway.kernelspecs().await {
            let log = || std::fs::read_to_string(server.home.path().join("log")).unwrap();
            assert!(begun.elapsed() < START, "{kind:?}: {error}\n{}", log());
            let ended = server.child.try_wait().unwrap();
            assert_eq!(ended, None, "{kind:?} ended\n{}", log());
            // Nothing says when a server begins to listen.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn options(&self) -> GatewayOptions {
        options(&self.url())
    }
}

pub(crate) fn options(url: &str) -> GatewayOptions {
    GatewayOptions::parse(url, Some(TOKEN.to_owned())).unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        // It ends its kernels first; they have process groups of their own.
        let group = Pid::from_child(&self.child);
        for signal in [Signal::TERM, Signal::KILL] {
            let _ = kill_process_group(group, signal);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(10) {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Waits for something of which nobody tells.
pub(crate) async fn until(mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < START, "it did not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// What a proxy does to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Copies.
    Copy,
    /// Reads what the server sends and keeps it to itself.
    Swallow,
    /// Ends connections: the server is told at once, and what it had sent still arrives.
    Cut,
}

/// A proxy before a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: watch::Sender<Mode>,
    swallowed: Arc<Mutex<Vec<u8>>>,
    websockets: Arc<Mutex<Vec<String>>>,
    open: watch::Sender<usize>,
    _accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn before(server: &Server) -> Self {
        Self::start(server.port, false).await
    }

    /// It has never heard of websocket subprotocols, as some proxies have not: the server speaks JSON.
    pub(crate) async fn before_without_subprotocols(server: &Server) -> Self {
        Self::start(server.port, true).await
    }

    async fn start(upstream: u16, without_subprotocols: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(Mode::Copy);
        let swallowed = Arc::new(Mutex::new(Vec::new()));
        let websockets = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&swallowed);
        let seen = Arc::clone(&websockets);
        let open = watch::Sender::new(0);
        let counted = open.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *modes.borrow() == Mode::Cut {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", upstream)).await.unwrap();
                let (kept, seen, modes) = (Arc::clone(&kept), Arc::clone(&seen), modes.clone());
                let counted = counted.clone();
                tokio::spawn(async move {
                    counted.send_modify(|open| *open += 1);
                    // A connection that breaks is what this is for.
                    let _ = copy(client, server, modes, kept, seen, without_subprotocols).await;
                    counted.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            port,
            mode,
            swallowed,
            websockets,
            open,
            _accepting: accepting,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Ends all connections there are, and takes no new ones.
    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Takes connections again.
    pub(crate) fn heal(&self) {
        self.mode.send_replace(Mode::Copy);
    }

    /// Waits until the server has closed its end of all connections.
    pub(crate) async fn is_cut(&self) {
        let mut open = self.open.subscribe();
        open.wait_for(|&open| open == 0).await.unwrap();
    }

    /// From now on nothing of the server arrives on the connections there are.
    pub(crate) fn swallow(&self) {
        self.mode.send_replace(Mode::Swallow);
    }

    /// Waits until all of `texts` have been swallowed.
    pub(crate) async fn has_swallowed(&self, texts: &[&str]) {
        until(|| {
            let swallowed = self.swallowed.lock().unwrap();
            let swallowed = String::from_utf8_lossy(&swallowed);
            texts.iter().all(|text| swallowed.contains(text))
        })
        .await;
    }

    /// The id of the kernel of the last websocket.
    pub(crate) fn kernel(&self) -> String {
        let websockets = self.websockets();
        let line = websockets.last().unwrap();
        let (_, rest) = line.split_once("/api/kernels/").unwrap();
        rest.split_once('/').unwrap().0.to_owned()
    }

    /// The request lines of all websockets so far.
    pub(crate) fn websockets(&self) -> Vec<String> {
        self.websockets.lock().unwrap().clone()
    }
}

async fn copy(
    client: TcpStream,
    server: TcpStream,
    mut modes: watch::Receiver<Mode>,
    swallowed: Arc<Mutex<Vec<u8>>>,
    websockets: Arc<Mutex<Vec<String>>>,
    without_subprotocols: bool,
) -> std::io::Result<()> {
    let mut mode = *modes.borrow_and_update();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut up = vec![0; 64 * 1024];
    let mut down = vec![0; 64 * 1024];
    loop {
        tokio::select! {
            changed = modes.changed() => {
                changed.map_err(std::io::Error::other)?;
                // A cut that has been healed since is a cut.
                let now = *modes.borrow_and_update();
                if now == Mode::Cut || now == Mode::Copy {
                    break;
                }
                mode = now;
            }
            read = from_client.read(&mut up) => {
                let bytes = &mut up[..read?];
                if bytes.is_empty() {
                    break;
                }
                if let Some(line) = websocket_request(bytes) {
                    websockets.lock().unwrap().push(line);
                    if without_subprotocols {
                        forget_subprotocols(bytes);
                    }
                }
                to_server.write_all(bytes).await?;
            }
            read = from_server.read(&mut down) => {
                let bytes = &down[..read?];
                if bytes.is_empty() {
                    break;
                }
                if mode == Mode::Swallow {
                    swallowed.lock().unwrap().extend_from_slice(bytes);
                } else {
                    to_client.write_all(bytes).await?;
                }
            }
        }
    }
    to_server.shutdown().await?;
    loop {
        let read = from_server.read(&mut down).await?;
        if read == 0 {
            return Ok(());
        }
        to_client.write_all(&down[..read]).await?;
    }
}

/// The request line of an upgrade.
fn websocket_request(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let line = text.lines().next()?;
    line.contains("/channels?").then(|| line.to_owned())
}

/// Gives the header another name of the same length.
fn forget_subprotocols(bytes: &mut [u8]) {
    let name = b"sec-websocket-protocol:";
    let at = bytes
        .windows(name.len())
        .position(|window| window.eq_ignore_ascii_case(name));
    if let Some(at) = at {
        bytes[at] = b'x';
    }
}
