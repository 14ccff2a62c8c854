//! `sponde serve`: serves sessions over HTTP. Prints its address, and ends cleanly on Ctrl-C or SIGTERM.

use std::process::Stdio;
use std::time::Duration;

use super::args::ServeArgs;
use super::signals;
use super::{Context, eprint, filter, print};
use crate::app::Lifetime;
use crate::app::place::current_dir;
use crate::app::registry::RegistryLimits;
use crate::cli::exit::Exit;
use crate::error::Failure;
use crate::server::{Listen, Server, ServerSettings};

/// Runs it.
pub(super) async fn serve(args: ServeArgs, context: &Context) -> Result<Exit, Failure> {
    let ServeArgs {
        listen,
        open,
        token_file,
        hosts,
        root,
        keys,
        max_sessions,
        end_idle,
        e2b_debug,
        end_with_stdin,
        session_args,
    } = args;
    session_args.of_many(
        "a server has many",
        "a client names the notebook and the files of its session",
    )?;
    let settings = ServerSettings {
        listen,
        keys,
        token_file,
        hosts,
        root: match root {
            Some(root) => root,
            None => current_dir(context)?,
        },
        session: session_args.settings(true, Lifetime::Conversation),
        limits: RegistryLimits {
            sessions: max_sessions,
            idle: end_idle.map(|minutes| Duration::from_secs(minutes * 60)),
        },
        e2b_debug,
    };
    let is_far = settings
        .listen
        .iter()
        .any(|it| matches!(it, Listen::Tcp(address) if !address.ip().is_loopback()));
    let (mut signals, _listening) = signals::listen();
    let server = Server::bind(settings, context.clone()).await?;
    if is_far {
        eprint(
            "warning: other machines can reach this server, and what they send is not encrypted: use `ssh -L` or a \
             proxy with TLS (docs/server.md)\n",
        );
    }
    let shown = server
        .url()
        .unwrap_or_else(|| server.addresses().join("\n"));
    print(&format!("{shown}\n"))?;
    let token = server.token_file().display().to_string();
    eprint(&filter::plain(&format!(
        "serving {}; the token is in {token}; Ctrl-C ends it, sessions are kept\n",
        server.addresses().join(" and ")
    )));
    if open {
        open_in_browser(&server)?;
    }
    let ended = async {
        tokio::select! {
            _ = signals.recv() => {}
            () = end_of_stdin(), if end_with_stdin => {}
        }
        eprint("ending the sessions\n");
    };
    server.run(ended).await?;
    Ok(Exit::Done)
}

/// Resolves when stdin is closed. Its content is discarded.
async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    // An error counts as the end, too.
    let _ = tokio::io::copy(&mut stdin, &mut tokio::io::sink()).await;
}

/// Opens the page through a file that only this person can read, because program arguments are visible to others.
fn open_in_browser(server: &Server) -> Result<(), Failure> {
    let page = server.opening_page()?;
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let started = tokio::process::Command::new(opener)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        eprint(&format!(
            "warning: the browser could not be opened with `{opener}`: {error}\n"
        ));
    }
    Ok(())
}
