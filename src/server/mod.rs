//! Floor 5, HTTP: the sessions of one process for programs and for the page (`docs/server.md`).
//!
//! - [`listen`]: sockets, limits on connections and headers, stalled clients, clean shutdown.
//! - [`access`]: the one layer around every route: host, origin, token. [`doors`]: the servers of tenants, behind it.
//! - [`routes`]: the table from which the router and `/openapi.json` are made.
//! - [`page`]: the page's files, which contain no secret.
//! - [`sessions`], [`events`], [`commands`]: what a front end needs from a session.
//! - [`outputs`], [`document`], [`bokeh`], [`ticket`], [`render`]: the outputs of cells, which are hostile.
//! - [`kernel`]: variables, completion, windows of tables. [`files`], [`notebook`], [`catalog`], [`about`]: the rest.
//!
//! - [`mcp`]: the Model Context Protocol over HTTP.
//! - [`openai`]: OpenAI's containers, responses and chat completions. [`codeapi`]: LibreChat's Code API. [`dify`]:
//!   Dify's sandbox.
//! - [`e2b`]: E2B's API. [`terminal`]: a terminal server for Open WebUI.
//! - [`jupyter`]: Jupyter's REST API and websocket, for front ends that use them.
//!
//! A handler parses a request, asks `app` or a session, and answers with JSON. It has no state, and no logic that
//! another front end would need. Nothing here extends what code may do: sandbox and approval stay as the server was
//! started.

mod about;
mod access;
mod assets;
mod bokeh;
mod catalog;
mod codeapi;
mod commands;
mod counters;
mod dify;
mod directories;
mod document;
mod doors;
mod download;
mod e2b;
mod encoded;
mod events;
mod extract;
mod files;
mod form_files;
mod guard;
mod jupyter;
mod kernel;
mod keys;
mod listen;
mod mcp;
mod mcp_state;
mod metrics;
mod notebook;
mod openai;
mod operation;
mod outputs;
mod page;
mod problem;
mod render;
mod routes;
mod sessions;
mod state;
mod terminal;
mod ticket;
mod token;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use futures_util::future::join_all;

use crate::app::registry::{Registry, RegistryLimits};
use crate::app::tenants::{self, Scope};
use crate::app::{Context, SessionSettings};
use crate::error::{Failure, FailureKind};
use access::Access;
use doors::Door;
use listen::Socket;
use state::Shared;
use token::Secret;
pub use token::Token;

/// An address for a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A port of this machine.
    Tcp(SocketAddr),
    /// A unix socket of this person.
    Unix(PathBuf),
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The addresses to listen on.
    pub listen: Vec<Listen>,
    /// The file with the token: it is read if it exists, otherwise created. `None`: a new file for this run.
    pub token_file: Option<PathBuf>,
    /// Host names of the server besides those of this machine, such as a proxy's.
    pub hosts: Vec<String>,
    /// Sessions work in this directory or below it.
    pub root: PathBuf,
    /// The settings of sessions, except where a client may choose. A client can only ask for more approvals, never for
    /// fewer.
    pub session: SessionSettings,
    /// Limits on the number and duration of sessions.
    pub limits: RegistryLimits,
    /// The file with the keys of tenants, if any.
    pub keys: Option<PathBuf>,
    /// Whether programs on this machine can use E2B's debug mode without a key.
    pub e2b_debug: bool,
}

/// A listening server.
pub struct Server {
    sockets: Vec<Socket>,
    token: Token,
    shared: Arc<Shared>,
    tenants: Vec<Arc<Shared>>,
}

impl Server {
    /// Starts listening; [`run`](Self::run) answers the requests.
    ///
    /// # Errors
    /// A socket or the token's file cannot be created.
    pub async fn bind(settings: ServerSettings, context: Context) -> Result<Self, Failure> {
        let root = settings.root.canonicalize().map_err(|error| {
            let root = settings.root.display();
            Failure::usage(format!("the directory `{root}` cannot be used: {error}"))
        })?;
        let is_far = |at: &Listen| match at {
            Listen::Tcp(address) => !address.ip().is_loopback(),
            Listen::Unix(_) => false,
        };
        if settings.e2b_debug && settings.listen.iter().any(is_far) {
            return Err(Failure::usage(
                "--e2b-debug lets programs in without a key, and the server is to listen beyond this machine",
            )
            .hint("listen at 127.0.0.1, or set E2B_API_KEY in the program instead"));
        }
        let mut sockets = Vec::new();
        for at in &settings.listen {
            sockets.push(Socket::bind(at).await?);
        }
        let port = sockets.iter().find_map(Socket::port);
        let token = Token::open(settings.token_file.as_deref(), port, &context.paths.sockets)?;
        let hosts = settings.hosts.iter().map(|it| it.to_ascii_lowercase());
        let hosts: Vec<String> = hosts.collect();
        let access = |secret| Access::new(secret, port, hosts.clone());
        let mut tenants = Vec::new();
        for tenant in tenants_of(&settings, &root, &context).await? {
            let secret = Secret::with_digest(tenant.digest);
            tenants.push(Arc::new(Shared::new(
                Registry::new(tenant.context, tenant.limits),
                access(secret),
                tenant.scope,
                tenant.directory,
                tenant.session,
                false,
            )));
        }
        let shared = Shared::new(
            Registry::new(context, settings.limits),
            access(Secret::of(&token)),
            Scope::Ask,
            root,
            settings.session,
            settings.e2b_debug,
        );
        Ok(Self {
            sockets,
            token,
            shared: Arc::new(shared),
            tenants,
        })
    }

    /// The URL for a person to open, with the token in the fragment, which browsers do not send; `None` without a
    /// port.
    pub fn url(&self) -> Option<String> {
        let socket = self.sockets.iter().find_map(Socket::address)?;
        let host = if socket.ip().is_unspecified() {
            format!("127.0.0.1:{}", socket.port())
        } else {
            socket.to_string()
        };
        Some(format!("http://{host}/#token={}", self.token.secret()))
    }

    /// A file that only this person can read and that redirects a browser to the page; removed with the server.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn opening_page(&self) -> Result<PathBuf, Failure> {
        let url = self.url().unwrap_or_default();
        self.token.page(&url)
    }

    /// Its addresses, for people.
    pub fn addresses(&self) -> Vec<String> {
        self.sockets.iter().map(Socket::to_string).collect()
    }

    /// The file with the token.
    pub fn token_file(&self) -> PathBuf {
        self.token.path().to_owned()
    }

    /// Serves until `until` resolves; then saves and ends every session.
    ///
    /// # Errors
    /// Nothing is listening.
    pub async fn run(self, until: impl Future<Output = ()>) -> Result<(), Failure> {
        if self.sockets.is_empty() {
            return Err(Failure::new(
                FailureKind::Usage,
                "the server listens nowhere",
            ));
        }
        let door = |shared: &Arc<Shared>| Door {
            router: router(shared),
            shared: Arc::clone(shared),
        };
        let tenants = self.tenants.iter().map(door).collect();
        let router = doors::router(door(&self.shared), tenants);
        let listening = listen::serve(self.sockets, &router);
        until.await;
        // New requests are rejected; the streams of sessions end with the sessions.
        listening.stop_accepting();
        let all = self.tenants.iter().chain([&self.shared]);
        join_all(all.map(|shared| shared.close())).await;
        listening.finish().await;
        Ok(())
    }
}

/// The parts of one tenant's server.
struct TenantServer {
    digest: String,
    scope: Scope,
    directory: PathBuf,
    context: Context,
    session: SessionSettings,
    limits: RegistryLimits,
}

/// The tenants of the key file, if they can be isolated on this machine.
async fn tenants_of(
    settings: &ServerSettings,
    root: &Path,
    context: &Context,
) -> Result<Vec<TenantServer>, Failure> {
    let Some(file) = &settings.keys else {
        return Ok(Vec::new());
    };
    let mut directories = Vec::new();
    let mut servers = Vec::new();
    for tenant in tenants::read(file)? {
        let directory = tenant.directory(root)?;
        directories.push((tenant.name.clone(), directory.clone()));
        let sessions = tenant.max_sessions().unwrap_or(settings.limits.sessions);
        servers.push(TenantServer {
            scope: tenant.scope(),
            directory,
            context: tenant.context(context)?,
            session: tenant.settings(&settings.session),
            limits: RegistryLimits {
                sessions,
                ..settings.limits
            },
            digest: tenant.digest,
        });
    }
    tenants::check_apart(&directories)?;
    tenants::check_confined(&settings.session, root, context).await?;
    Ok(servers)
}

/// Maximum bytes of a JSON body: a command with code.
const BODY: usize = 8 << 20;

/// All routes, behind the access layer.
fn router(shared: &Arc<Shared>) -> Router {
    let guarded = from_fn_with_state(Arc::clone(shared), guard::guard);
    routes::router()
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(guarded)
        .with_state(Arc::clone(shared))
}
