//! `sponde acp`: serves an editor as its agent over stdin and stdout, and prints the settings that editors need to
//! start it.

use std::time::Duration;

use tokio::io::BufReader;

use super::args::{AcpArgs, AcpCommand};
use super::protocol_config;
use super::signals;
use super::{Context, eprint};
use crate::acp::{self, clients};
use crate::app::registry::{Registry, RegistryLimits};
use crate::app::{Lifetime, SessionSettings};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};

/// How long sessions may take to end once the editor has gone.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Runs it.
pub(super) async fn acp(args: AcpArgs, context: &Context) -> Result<Exit, Failure> {
    let AcpArgs {
        command,
        max_sessions,
        session_args,
    } = args;
    session_args.of_many(
        "an editor opens many",
        "choose a session and add files to a question in the editor",
    )?;
    match command {
        Some(AcpCommand::Config { client }) => {
            let program = protocol_config::own_program()?;
            let known = clients::known(&program, &protocol_config::own_arguments());
            protocol_config::print_lines(&known, client.as_deref())
        }
        None => {
            let settings = session_args.settings(true, Lifetime::Conversation);
            serve(settings, max_sessions, context).await
        }
    }
}

async fn serve(
    settings: SessionSettings,
    sessions: usize,
    context: &Context,
) -> Result<Exit, Failure> {
    let limits = RegistryLimits {
        sessions,
        idle: None,
    };
    let registry = Registry::new(context.clone(), limits);
    let (mut signals, _listening) = signals::listen();
    let input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
    let ended = tokio::select! {
        ended = acp::serve(registry.clone(), settings, input, tokio::io::stdout()) => ended,
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
            format!("the editor could not be read: {error}"),
        )),
    }
}
