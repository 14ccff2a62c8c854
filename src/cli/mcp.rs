//! `sponde mcp`: serves sessions to one client over stdin and stdout, and prints the settings that clients need to
//! start it.

use std::path::Path;
use std::time::Duration;

use tokio::io::BufReader;

use super::args::{McpArgs, McpCommand};
use super::protocol_config;
use super::signals;
use super::{Context, eprint};
use crate::app::executor::Executor;
use crate::app::place::current_dir;
use crate::app::registry::{Registry, RegistryLimits};
use crate::app::{Lifetime, SessionSettings};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::mcp::{self, McpServer, clients};

/// How long sessions may take to end once the client has gone.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Runs it.
pub(super) async fn mcp(args: McpArgs, context: &Context) -> Result<Exit, Failure> {
    let McpArgs {
        command,
        root,
        max_sessions,
        session_args,
    } = args;
    session_args.of_many(
        "a client opens many",
        "a client names its sessions, and reads the files of the workspace (--root)",
    )?;
    let root = match root {
        Some(root) => root,
        None => current_dir(context)?,
    };
    let root = root.canonicalize().map_err(|error| {
        let root = root.display();
        Failure::usage(format!("the workspace `{root}` cannot be used: {error}"))
            .hint("name a directory that is there with --root")
    })?;
    if root == Path::new("/") {
        return Err(
            Failure::usage("the workspace would be `/`, all of this machine")
                .hint("name a directory with --root; some clients start their servers in `/`"),
        );
    }
    match command {
        Some(McpCommand::Config { client }) => {
            let program = protocol_config::own_program()?;
            let known = clients::known(&program, &arguments(&root));
            protocol_config::print_lines(&known, client.as_deref())
        }
        None => {
            let settings = session_args.settings(true, Lifetime::Conversation);
            serve(settings, max_sessions, &root, context).await
        }
    }
}

async fn serve(
    settings: SessionSettings,
    sessions: usize,
    root: &Path,
    context: &Context,
) -> Result<Exit, Failure> {
    let limits = RegistryLimits {
        sessions,
        idle: None,
    };
    let registry = Registry::new(context.clone(), limits);
    let executor = Executor::new(registry.clone(), settings, root.to_owned());
    let (mut signals, _listening) = signals::listen();
    let input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
    let ended = tokio::select! {
        ended = mcp::serve(McpServer::new(executor), input, tokio::io::stdout()) => ended,
        Some(_) = signals.recv() => Ok(()),
    };
    if tokio::time::timeout(END_WITHIN, registry.close())
        .await
        .is_err()
    {
        eprint("warning: the sessions did not end in time\n");
    }
    match ended {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(Failure::new(
            FailureKind::Failed,
            format!("the client could not be read: {error}"),
        )),
    }
}

/// The arguments of this program, without `config` and what follows it, plus the workspace.
fn arguments(root: &Path) -> Vec<String> {
    let mut arguments = protocol_config::own_arguments();
    let names_root = |it: &String| it == "--root" || it.starts_with("--root=");
    if !arguments.iter().any(names_root) {
        arguments.extend(["--root".to_owned(), root.display().to_string()]);
    }
    arguments
}
