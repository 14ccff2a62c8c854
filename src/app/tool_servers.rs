//! MCP servers of the configuration, whose tools are functions of the Python kernel: `from sponde.tools import NAME`.
//!
//! The servers are processes of ours. A kernel knows a unix socket and a module that speaks to it, so calls work in a kernel
//! without network, and keys of servers are in no variable, file or message of a kernel. A server starts with its first call and
//! ends with the session. What it answers is data for the code that called it, of bounded size.
//!
//! Invariant: a tool that may change something is called only while a cell runs that a person wrote, or whose code says that it
//! uses tools; that is what the cell was judged by (docs/approvals.md).

mod process;
mod requests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::Context;
use crate::agent::stream::SessionHandle;
use crate::config::tools::{self as config, Variable};
use crate::error::{Failure, FailureKind};
use crate::kernel::{KernelSource, LaunchOptions, Redactor, Sandbox, folder};
use crate::task::{self, Task};
use process::Server;

/// What code imports; it speaks to the socket.
const MODULE: &str = include_str!("tool_servers/tools.py");
/// Lets another package of this name be beside ours.
const PACKAGE: &str = "__path__ = __import__(\"pkgutil\").extend_path(__path__, __name__)\n";

/// The servers of a session; they end when this is dropped.
pub struct ToolServers {
    /// What a model is told about them.
    facts: String,
    /// Variables with keys, which no kernel gets.
    variables: Vec<String>,
    dir: PathBuf,
    shared: Arc<Shared>,
    _listening: Task,
}

/// What the requests of kernels need.
struct Shared {
    servers: BTreeMap<String, Server>,
    /// The session whose cells call tools, once it is there.
    session: OnceLock<SessionHandle>,
}

impl Drop for ToolServers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Prepares `given` servers and those of the configuration for a session with these kernels; `None` if there are no servers, or no
/// Python.
///
/// # Errors
/// The place of the socket cannot be made.
pub fn open(
    given: &config::ToolServers,
    kernels: &[&KernelSource],
    context: &Context,
) -> Result<Option<ToolServers>, Failure> {
    let mut configured = context.config.mcp.clone();
    configured.extend(given.clone());
    let is_python = |kernel: &&KernelSource| kernel.spec.language.eq_ignore_ascii_case("python");
    if configured.is_empty() || !kernels.iter().any(is_python) {
        return Ok(None);
    }
    hide(given, context);
    let failed = |error: &std::io::Error| {
        Failure::new(
            FailureKind::Kernel,
            format!("the MCP servers cannot be reached from code: no socket: {error}"),
        )
    };
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("sponde-mcp-{}", id.get(..12).unwrap_or(&id));
    let dir = context.paths.sockets.join(name);
    let names: Vec<&str> = configured.keys().map(|name| name.as_str()).collect();
    prepare(&dir, &names).map_err(|error| failed(&error))?;
    let servers = configured.iter().map(|(name, server)| {
        let server = Server::new(name.as_str(), server.clone(), context.clone());
        (name.as_str().to_owned(), server)
    });
    let shared = Arc::new(Shared {
        servers: servers.collect(),
        session: OnceLock::new(),
    });
    let listener = tokio::net::UnixListener::bind(dir.join("s")).map_err(|error| failed(&error))?;
    let variables = configured.values().flat_map(|server| server.env.values());
    let variables = variables.filter_map(|variable| match variable {
        Variable::FromEnv(from) => Some(from.env.clone()),
        Variable::Plain(_) | Variable::FromCommand(_) => None,
    });
    Ok(Some(ToolServers {
        facts: facts(&names),
        variables: variables.collect(),
        _listening: task::spawn("mcp tools", requests::serve(listener, Arc::clone(&shared))),
        dir,
        shared,
    }))
}

/// What a model is told about them, behind what else is `known`.
pub fn told(known: &str, tools: Option<&ToolServers>) -> String {
    match tools {
        None => known.to_owned(),
        Some(tools) if known.is_empty() => tools.facts.clone(),
        Some(tools) => format!("{known}\n\n{}", tools.facts),
    }
}

/// The sandbox with the socket in it.
pub fn visible(tools: Option<&ToolServers>, mut sandbox: Sandbox) -> Sandbox {
    if let (Some(tools), Sandbox::Confined(confinement)) = (tools, &mut sandbox) {
        confinement.services.push(tools.dir.clone());
    }
    sandbox
}

/// A kernel that finds the module, and does not get the variables with keys.
pub fn importable(tools: Option<&ToolServers>, mut kernel: LaunchOptions) -> LaunchOptions {
    let Some(tools) = tools else {
        return kernel;
    };
    kernel
        .env
        .retain(|(name, _)| !tools.variables.contains(name));
    let own = tools.dir.display().to_string();
    match kernel.env.iter_mut().find(|(name, _)| name == "PYTHONPATH") {
        Some((_, path)) if !path.is_empty() => *path = format!("{path}:{own}"),
        Some((_, path)) => *path = own,
        None => kernel.env.push(("PYTHONPATH".to_owned(), own)),
    }
    kernel
}

impl ToolServers {
    /// Calls come from the cells of this session.
    pub fn follow(&self, session: SessionHandle) {
        let _ = self.shared.session.set(session);
    }
}

/// Keys that another program gave are shown to nobody from now on.
fn hide(given: &config::ToolServers, context: &Context) {
    for (name, variable) in given.values().flat_map(|server| &server.env) {
        if let Variable::Plain(value) = variable
            && !Redactor::of([(name.as_str(), value.as_str())]).is_empty()
        {
            context.redactor.add(value);
        }
    }
}

/// The directory with the module.
fn prepare(dir: &Path, names: &[&str]) -> std::io::Result<()> {
    let package = dir.join("sponde");
    folder::make_dir(dir, 0o700)?;
    folder::make_dir(&package, 0o700)?;
    std::fs::write(package.join("__init__.py"), PACKAGE)?;
    std::fs::write(package.join("tools.py"), MODULE)?;
    std::fs::write(
        package.join("servers.json"),
        serde_json::json!(names).to_string(),
    )
}

fn facts(names: &[&str]) -> String {
    let first = names.first().copied().unwrap_or_default();
    format!(
        "MCP servers whose tools are Python functions: {}. Import one in each cell that calls it: `from sponde.tools import {first}`. \
         `print({first})` lists its functions with their arguments. Call them in loops and filter what they return with code.",
        names.join(", ")
    )
}
