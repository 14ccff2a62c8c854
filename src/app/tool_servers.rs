//! MCP servers of the configuration, of a project and of an editor, whose tools are functions in the Python kernel:
//! `from sponde.tools import NAME`.
//!
//! This process talks to the servers. A kernel has only a unix socket and a module that uses it, so calls work in a
//! kernel without network, and the servers' keys are in no variable, file or message of a kernel. A server is started
//! on its first call and ends with the session. Its result is data of bounded size for the code that called it.
//!
//! Invariant: a tool is called only while a cell is running that a person wrote, or that was judged as code that calls
//! tools (`agent::tool_calls`, docs/approvals.md); each call is in the audit log.

mod events;
mod http;
mod messages;
mod pipes;
mod project;
mod requests;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Context, SessionSettings};
use crate::agent::tool_calls::ToolCalls;
use crate::config::tools::{self as config, Variable};
use crate::error::{Failure, FailureKind};
use crate::kernel::{KernelSource, LaunchOptions, Redactor, Sandbox, folder};
use crate::task::{self, Task};
use server::Server;

/// The module that code imports; it uses the socket.
const MODULE: &str = include_str!("tool_servers/tools.py");
/// Allows another package with this name next to ours.
const PACKAGE: &str = include_str!("tool_servers/package.py");

/// The servers of a session; dropping this ends them.
pub struct ToolServers {
    /// What the model is told about them.
    facts: String,
    /// Variables with keys; no kernel gets them.
    variables: Vec<String>,
    dir: PathBuf,
    calls: ToolCalls,
    _listening: Task,
}

/// The state for requests of kernels.
struct Shared {
    servers: BTreeMap<String, Server>,
    /// The session's permissions for its cells' calls.
    calls: ToolCalls,
}

impl Drop for ToolServers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Prepares the servers for a session with these kernels; `None` if there are no servers, or no Python. An editor's
/// servers override the configuration, which overrides the project.
///
/// # Errors
/// The directory for the socket cannot be created.
/// The place of the socket cannot be made.
pub fn open(
    settings: &SessionSettings,
    kernels: &[&KernelSource],
    context: &Context,
) -> Result<Option<ToolServers>, Failure> {
    let is_python = |kernel: &&KernelSource| kernel.spec.language.eq_ignore_ascii_case("python");
    if !kernels.iter().any(is_python) {
        return Ok(None);
    }
    let of_project = project::servers(settings, context);
    let mut all = of_project.servers.clone();
    all.extend(context.config.mcp.clone());
    all.extend(settings.tool_servers.clone());
    if all.is_empty() {
        return Ok(None);
    }
    hide(&all, context);
    let failed = |error: &std::io::Error| {
        Failure::new(
            FailureKind::Kernel,
            format!("the MCP servers cannot be reached from code: no socket: {error}"),
        )
    };
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("sponde-mcp-{}", id.get(..12).unwrap_or(&id));
    let dir = context.paths.sockets.join(name);
    let names: Vec<&str> = all.keys().map(config::ToolServerName::as_str).collect();
    prepare(&dir, &names).map_err(|error| failed(&error))?;
    let servers = all.iter().map(|(name, server)| {
        let server = Server::new(name.as_str(), server.clone(), context.clone());
        (name.as_str().to_owned(), server)
    });
    let calls = ToolCalls::default();
    let shared = Shared {
        servers: servers.collect(),
        calls: calls.clone(),
    };
    let listener = tokio::net::UnixListener::bind(dir.join("s")).map_err(|error| failed(&error))?;
    let values = all.values().flat_map(|server| server.reached.variables());
    let from_env = values.filter_map(|(_, variable)| match variable {
        Variable::FromEnv(from) => Some(from.env.clone()),
        Variable::Plain(_) | Variable::FromCommand(_) => None,
    });
    Ok(Some(ToolServers {
        facts: facts(&names),
        variables: from_env.chain(of_project.secrets()).collect(),
        _listening: task::spawn("mcp tools", requests::serve(listener, Arc::new(shared))),
        dir,
        calls,
    }))
}

/// Appends what the model is told about them to `known`.
pub fn told(known: &str, tools: Option<&ToolServers>) -> String {
    match tools {
        None => known.to_owned(),
        Some(tools) if known.is_empty() => tools.facts.clone(),
        Some(tools) => format!("{known}\n\n{}", tools.facts),
    }
}

/// The sandbox with the socket visible.
pub fn visible(tools: Option<&ToolServers>, mut sandbox: Sandbox) -> Sandbox {
    if let (Some(tools), Sandbox::Confined(confinement)) = (tools, &mut sandbox) {
        confinement.services.push(tools.dir.clone());
    }
    sandbox
}

/// Makes the module importable in a kernel, and removes the variables with keys.
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
    /// The state that the session and its tools share.
    pub fn calls(&self) -> ToolCalls {
        self.calls.clone()
    }
}

/// Redacts keys that are in a configuration or come from another program.
fn hide(servers: &config::ToolServers, context: &Context) {
    for (name, variable) in servers.values().flat_map(|it| it.reached.variables()) {
        if let Variable::Plain(value) = variable {
            let is_secret = name.eq_ignore_ascii_case("authorization")
                || !Redactor::of([(name.as_str(), value.as_str())]).is_empty();
            if is_secret {
                context.redactor.add(value);
                // Also without `Bearer`.
                context
                    .redactor
                    .add(value.rsplit(' ').next().unwrap_or(value));
            }
        }
    }
}

/// Creates the directory with the module.
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
