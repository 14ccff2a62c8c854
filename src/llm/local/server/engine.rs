//! The two programs that can run a model, and how each is configured.
//!
//! Both get the key in a place other users cannot read: `llama-server` in its environment, the Python engine on its
//! stdin.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::process::Guarded;
use super::{ALIAS, LocalServerError, LocalServerOptions};

/// Engine threads sleep while they wait for each other. By default they spin, which on a busy machine uses up the time
/// the others need: the 1.5B model made 0.4 tokens/s on two busy cores, and 4 to 5 with this setting.
const WAITING: (&str, &str) = ("OMP_WAIT_POLICY", "passive");

/// Memory for cached prompts, in MiB. The server's default is 8192.
const CACHE_MIB: u32 = 256;

/// Runs the program with `llama-server`'s arguments, kills it when stdin ends, and waits for its exit. SIGTERM, which
/// the whole group gets, ends the server but not the shells.
const WATCHDOG: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ trap '' TERM; cat <&3; kill -KILL "$server"; } >/dev/null 2>&1 &
exec 3<&-
trap : TERM
wait "$server"; status=$?
while kill -0 "$server" 2>/dev/null; do wait "$server"; status=$?; done
exit "$status"
"#;

/// Reads the options, then runs the script inside them: no file is needed, and the command line reveals nothing to
/// other users.
const BOOTSTRAP: &str = "import json, sys; options = json.loads(sys.stdin.readline()); \
     exec(compile(options['script'], 'serve.py', 'exec'))";
const SCRIPT: &str = include_str!("../serve.py");

/// The engine that runs a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// The program `llama-server`, at this path.
    Program(PathBuf),
    /// A Python interpreter that has the package `xllamacpp`.
    Python(PathBuf),
}

impl Engine {
    /// The `llama-server` on `search_path` (the value of `PATH`) if there is one, else `python`.
    ///
    /// Relative entries of the search path are ignored: they would let a working directory choose the program. A
    /// missing package is only detected when the server starts.
    pub fn find(
        search_path: Option<&OsStr>,
        python: Option<&Path>,
    ) -> Result<Self, LocalServerError> {
        let is_program = |path: &PathBuf| {
            let metadata = std::fs::metadata(path);
            metadata.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        };
        let mut directories = search_path.into_iter().flat_map(std::env::split_paths);
        let program = directories
            .by_ref()
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("llama-server"))
            .find(is_program);
        match (program, python) {
            (Some(program), _) => Ok(Self::Program(program)),
            (None, Some(python)) if python.is_file() => Ok(Self::Python(python.to_owned())),
            (None, python) => Err(LocalServerError::NoEngine {
                python: python.map(Path::to_owned),
            }),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(path) => write!(f, "{}", path.display()),
            Self::Python(path) => write!(f, "xllamacpp in {}", path.display()),
        }
    }
}

/// A started engine.
pub(super) struct Running {
    pub(super) process: Guarded,
    engine: Engine,
    /// Known from the start, or reported once the model is loaded.
    address: Option<SocketAddr>,
}

/// Starts the engine; its output goes to `log`.
pub(super) fn launch(
    options: &LocalServerOptions,
    api_key: &str,
    log: File,
) -> io::Result<Running> {
    let (process, address) = match &options.engine {
        Engine::Program(program) => {
            let port = free_port()?;
            let command = program_command(program, options, port, api_key, log)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            (Guarded::spawn(command, Vec::new())?, Some(address))
        }
        Engine::Python(python) => {
            let command = python_command(python, log);
            let input = python_options(options, api_key)?;
            (Guarded::spawn(command, input)?, None)
        }
    };
    Ok(Running {
        process,
        engine: options.engine.clone(),
        address,
    })
}

impl Running {
    /// The address it listens on. Never resolves if the process exits first; its exit is watched elsewhere.
    pub(super) async fn address(&mut self) -> Result<SocketAddr, LocalServerError> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        while let Some(line) = self.process.lines.recv().await {
            match serde_json::from_str(&line) {
                Ok(Event::Listening { address }) => return loopback(address),
                Ok(Event::NoPackage { error }) => {
                    let (Engine::Python(python) | Engine::Program(python)) = self.engine.clone();
                    return Err(LocalServerError::NoPackage { python, error });
                }
                Ok(Event::Loading) => {}
                Err(error) => tracing::warn!(%error, "unreadable line from the model server"),
            }
        }
        pending().await
    }
}

/// An event that `serve.py` reports.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event {
    Loading,
    Listening { address: String },
    NoPackage { error: String },
}

fn loopback(address: String) -> Result<SocketAddr, LocalServerError> {
    let socket = address
        .strip_prefix("http://")
        .and_then(|host| host.parse::<SocketAddr>().ok());
    match socket {
        Some(socket) if socket.ip().is_loopback() => Ok(socket),
        _ => Err(LocalServerError::Address { address }),
    }
}

fn program_command(
    program: &Path,
    options: &LocalServerOptions,
    port: u16,
    api_key: &str,
    log: File,
) -> io::Result<Command> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCHDOG, "sponde-model"]).arg(program);
    command.arg("--model").arg(&options.model);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--ctx-size", &options.context.to_string()]);
    command.args(["--threads", &options.threads.to_string()]);
    command.args(["--alias", ALIAS, "--parallel", "1", "--jinja"]);
    if let Some(template) = &options.template {
        command.args(["--chat-template", template]);
    }
    if let Some(prompts) = &options.prompts {
        command.arg("--slot-save-path").arg(prompts);
    }
    command.env("LLAMA_API_KEY", api_key);
    // A variable, because versions without the option refuse the argument.
    command.env("LLAMA_ARG_CACHE_RAM", CACHE_MIB.to_string());
    command.env(WAITING.0, WAITING.1);
    command
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(command)
}

/// With `-I`, so that neither the working directory nor `PYTHONPATH` can supply a module.
fn python_command(python: &Path, log: File) -> Command {
    let mut command = Command::new(python);
    command.args(["-I", "-c", BOOTSTRAP, "sponde-model"]);
    command.env(WAITING.0, WAITING.1);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    command
}

/// The line with the options that `serve.py` reads first.
fn python_options(options: &LocalServerOptions, api_key: &str) -> io::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Line<'a> {
        script: &'a str,
        parent: u32,
        model: &'a str,
        alias: &'a str,
        api_key: &'a str,
        context: u32,
        threads: u32,
        template: Option<&'a str>,
        prompts: Option<&'a str>,
        cache_mib: u32,
    }
    let model = options.model.to_str();
    let line = Line {
        script: SCRIPT,
        parent: std::process::id(),
        model: model.ok_or_else(|| io::Error::other("the model's path is not UTF-8"))?,
        alias: ALIAS,
        api_key,
        context: options.context,
        threads: options.threads,
        template: options.template.as_deref(),
        prompts: options.prompts.as_deref().and_then(Path::to_str),
        cache_mib: CACHE_MIB,
    };
    let mut bytes = serde_json::to_vec(&line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}
