//! The databases of a session: a process of ours holds the connections, and code in kernels reaches it through a
//! socket.
//!
//! Invariants: a URL with a password appears in no argument, kernel variable, file or log; the process gets it through
//! its stdin, and ends when stdin closes. A kernel has only the socket, so read-only access stays read-only, and a
//! kernel without network reaches exactly the databases that the person named (docs/adr/0025).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::Context;
use super::install::modules;
use crate::agent::facts::{self, DatabaseFacts};
use crate::agent::sql::{SQL_TIMEOUT, SqlOptions};
use crate::child::{Lifetime, Supervised};
use crate::config::databases::{Database, DatabaseName};
use crate::error::{Failure, FailureKind};
use crate::kernel::{KernelSource, LaunchOptions, Redactor, Sandbox, folder};
use crate::llm::key_command;

/// The modules of the connector, each after its dependencies.
const CONNECTOR: [(&str, &str); 9] = [
    ("base", include_str!("databases/connector/base.py")),
    ("columns", include_str!("databases/connector/columns.py")),
    ("postgres", include_str!("databases/connector/postgres.py")),
    ("sqlite", include_str!("databases/connector/sqlite.py")),
    ("duck", include_str!("databases/connector/duck.py")),
    ("alchemy", include_str!("databases/connector/alchemy.py")),
    ("adbc", include_str!("databases/connector/adbc.py")),
    ("spark", include_str!("databases/connector/spark.py")),
    ("main", include_str!("databases/connector/main.py")),
];
/// How long all databases together may take to report their schemas.
const SCHEMAS: Duration = Duration::from_secs(20);
/// Maximum bytes of a line with a schema.
const LINE: u64 = 8 << 20;
/// Default limits of a statement: its duration, and its number of rows.
const SECONDS: f64 = 60.0;
const ROWS: u64 = 1_000_000;

/// Open databases; dropping this closes them.
#[derive(Debug)]
pub struct Databases {
    /// Their names.
    pub names: Vec<String>,
    /// What the model is told about them.
    pub facts: String,
    /// Variables that contain URLs; no kernel gets them.
    variables: Vec<String>,
    dir: PathBuf,
    stdin: ChildStdin,
    _process: Supervised,
}

impl Databases {
    /// The socket to which the kernel connects.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Opens the databases `names` and those that every session has. `None`: there are no databases.
///
/// # Errors
/// A database that is not configured, a URL that is not available, or no Python that could connect. A server that does
/// not answer is no error: the model is told.
pub async fn open(
    names: &[String],
    kernels: &[&KernelSource],
    context: &Context,
) -> Result<Option<Databases>, Failure> {
    let configured = &context.config.databases;
    for name in names {
        if !configured.keys().any(|known| known.as_str() == name) {
            let known: Vec<&str> = configured.keys().map(DatabaseName::as_str).collect();
            let failure = Failure::usage(format!("there is no database `{name}` in config.toml"));
            return Err(if known.is_empty() {
                failure.hint(format!("add `[databases.{name}]`, as docs/sql.md says"))
            } else {
                failure.hint(format!("there are {}", known.join(", ")))
            });
        }
    }
    let wanted = configured
        .iter()
        .filter(|(name, database)| database.always || names.iter().any(|it| it == name.as_str()));
    let wanted: Vec<(&str, &Database)> = wanted.map(|(name, it)| (name.as_str(), it)).collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let python = python(kernels).and_then(|kernel| modules::interpreter(kernel, context));
    let python = python.ok_or_else(|| {
        Failure::new(
            FailureKind::Kernel,
            "databases need a Python kernel on this machine",
        )
        .hint("get one with `sponde kernels install python3`")
    })?;
    let mut orders = Vec::new();
    for (name, database) in &wanted {
        let url = url(name, database, context).await?;
        orders.push(json!({
            "name": name,
            "url": url,
            "write": database.write,
            "seconds": database.seconds.unwrap_or(SECONDS),
            "rows": database.rows.unwrap_or(ROWS),
            "cost": database.max_cost,
        }));
    }
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("sponde-sql-{}", id.get(..12).unwrap_or(&id));
    let dir = context.paths.sockets.join(name);
    let failed = |what: &str, error: &std::io::Error| {
        Failure::new(
            FailureKind::Kernel,
            format!("the databases cannot be opened: {what}: {error}"),
        )
    };
    folder::make_dir(&dir, 0o700).map_err(|error| failed("a directory for the socket", &error))?;
    let started = started(&python, context);
    let (process, stdin, stdout) =
        started.map_err(|error| failed(&python.display().to_string(), &error))?;
    let mut databases = Databases {
        names: wanted.iter().map(|(name, _)| (*name).to_owned()).collect(),
        facts: String::new(),
        variables: wanted
            .iter()
            .filter_map(|(_, it)| it.url_env.clone())
            .collect(),
        stdin,
        dir,
        _process: process,
    };
    let order = json!({ "socket": databases.socket(), "databases": orders }).to_string() + "\n";
    let sent = databases.stdin.write_all(order.as_bytes()).await;
    sent.map_err(|error| failed("its process does not listen", &error))?;
    databases.facts = facts::databases(&schemas(stdout, &wanted).await);
    Ok(Some(databases))
}

/// The SQL settings of a session with these databases; `None` if nothing could run SQL.
pub fn sql(
    databases: Option<&Databases>,
    kernels: &[&KernelSource],
    sandbox: &Sandbox,
    context: &Context,
) -> Option<SqlOptions> {
    let python = python(kernels);
    let has_duckdb = python.is_some_and(|kernel| facts::has_library(kernel, "duckdb"));
    let memory = match sandbox {
        Sandbox::Confined(confinement) => Some(confinement.limits.memory / 3),
        Sandbox::Full => None,
    };
    (databases.is_some() || has_duckdb).then(|| SqlOptions {
        socket: databases.map(Databases::socket),
        databases: databases.map(|it| it.names.clone()).unwrap_or_default(),
        // The rest is for Python, and for the resulting data frame.
        memory,
        seconds: context.config.sql_timeout.unwrap_or(SQL_TIMEOUT.as_secs()),
    })
}

fn python<'a>(kernels: &[&'a KernelSource]) -> Option<&'a KernelSource> {
    let is_python = |kernel: &&&KernelSource| kernel.spec.language.eq_ignore_ascii_case("python");
    kernels.iter().find(is_python).copied()
}

/// The sandbox with the databases' socket visible.
pub fn visible(databases: Option<&Databases>, mut sandbox: Sandbox) -> Sandbox {
    if let (Some(databases), Sandbox::Confined(confinement)) = (databases, &mut sandbox) {
        confinement.services.push(databases.dir.clone());
    }
    sandbox
}

/// Removes the variables with database URLs from a kernel's environment.
pub fn unseen(databases: Option<&Databases>, mut kernel: LaunchOptions) -> LaunchOptions {
    if let Some(databases) = databases {
        kernel
            .env
            .retain(|(name, _)| !databases.variables.contains(name));
    }
    kernel
}

/// The URL of a database.
async fn url(name: &str, database: &Database, context: &Context) -> Result<String, Failure> {
    let wrong = |words: String| Failure::usage(format!("the database `{name}`: {words}"));
    let url = match (&database.url, &database.url_env, &database.url_command) {
        (Some(url), None, None) => {
            // People copy config.toml and show it to others.
            if Redactor::default().finds_any(url) {
                return Err(wrong("its URL in config.toml has a password".to_owned()).hint(
                    "put the URL into a variable and name that with `url-env`, or let a program print it with `url-command`",
                ));
            }
            url.clone()
        }
        (None, Some(variable), None) => {
            let value = context.paths.environment.get(variable).map(str::to_owned);
            value.ok_or_else(|| wrong(format!("the variable `{variable}` is not set")))?
        }
        (None, None, Some(command)) => {
            let printed = key_command::run(command, key_command::LIMIT).await;
            let printed = printed.map_err(|error| wrong(format!("`url-command`: {error}")))?;
            printed.expose().to_owned()
        }
        _ => {
            return Err(wrong("its URL is not known".to_owned())
                .hint("it needs one of `url`, `url-env` and `url-command` (docs/sql.md)"));
        }
    };
    context.redactor.add_from(&url);
    Ok(url)
}

/// The connector as one program, because its modules are not files that Python's loader could find.
fn connector() -> String {
    let mut program = String::from(
        "import sys, types\nsys.modules['connector'] = types.ModuleType('connector')\n",
    );
    for (name, source) in CONNECTOR {
        // A JSON string is also a Python string.
        let source = json!(source);
        let _ = writeln!(
            program,
            "module = sys.modules['connector.{name}'] = types.ModuleType('connector.{name}')\n\
             exec(compile({source}, '{name}.py', 'exec'), module.__dict__)"
        );
    }
    program
}

fn started(
    python: &Path,
    context: &Context,
) -> std::io::Result<(Supervised, ChildStdin, ChildStdout)> {
    let mut command = Command::new(python);
    command
        // Isolated mode: no file of the working directory is imported as a module.
        .args(["-I", "-c", &connector()])
        .env_clear()
        .envs(context.paths.environment.variables().iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(cwd) = context.paths.environment.cwd() {
        command.current_dir(cwd);
    }
    let mut process = Supervised::spawn(command, Lifetime::Parent)?;
    let (stdin, stdout) = (process.child.stdin.take(), process.child.stdout.take());
    let pipes = stdin.zip(stdout);
    let (stdin, stdout) = pipes.ok_or_else(|| std::io::Error::other("it has no pipes"))?;
    Ok((process, stdin, stdout))
}

/// The databases' own schema reports. One that takes too long is left out.
async fn schemas(stdout: ChildStdout, wanted: &[(&str, &Database)]) -> Vec<DatabaseFacts> {
    let mut told: Vec<DatabaseFacts> = Vec::new();
    let mut stdout = BufReader::new(stdout);
    let reading = async {
        while told.len() < wanted.len() {
            let mut line = Vec::new();
            let read = (&mut stdout).take(LINE).read_until(b'\n', &mut line).await;
            if !read.is_ok_and(|bytes| bytes > 0) {
                break;
            }
            match serde_json::from_slice(&line) {
                Ok(facts) => told.push(facts),
                Err(error) => tracing::warn!(%error, "a schema cannot be read"),
            }
        }
    };
    let is_done = tokio::time::timeout(SCHEMAS, reading).await.is_ok();
    wanted
        .iter()
        .map(|(name, database)| {
            let found = told.iter().find(|facts| facts.database == *name).cloned();
            let error = if is_done {
                "the process for it has ended"
            } else {
                "it does not answer (yet)"
            };
            DatabaseFacts {
                writes: database.write,
                ..found.unwrap_or_else(|| DatabaseFacts {
                    database: (*name).to_owned(),
                    error: Some(error.to_owned()),
                    ..DatabaseFacts::default()
                })
            }
        })
        .collect()
}
