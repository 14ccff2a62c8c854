//! `/sandbox LEVEL`, `/profile NAME`, `/resume` and `/clear`: end this session, and continue it or another one in this
//! terminal.
//!
//! A kernel's permissions are fixed when it starts. So for another sandbox, the session ends and continues as `sponde
//! resume` does it: the person decides whether its code runs again. Code that the old sandbox blocked and the new one
//! would allow does not run again (`agent::run::restoring`).

use super::{Front, go_on as chat};
use crate::agent::sessions;
use crate::agent::store::{OpenError, Opened};
use crate::app::kept::{find, not_opened};
use crate::app::place;
use crate::cli::args::{ResumeArgs, SessionArgs};
use crate::cli::coming::Resumed;
use crate::cli::exit::Exit;
use crate::cli::line::Next;
use crate::cli::stop::Ask;
use crate::cli::{Context, eprint, filter, resume};
use crate::config::{Config, profile};
use crate::error::Failure;

impl Front {
    /// Whether this session ends for `next`: `next` is available, and the person wants it.
    ///
    /// # Errors
    /// The signal that came instead of an answer.
    pub(super) async fn may_go_on(&mut self, next: Next) -> Result<Option<Next>, Ask> {
        let own = &self.session;
        if !own.is_ours() && next != Next::Profile(None) {
            eprint(&filter::plain(&format!("{}\n", elsewhere(&next))));
            return Ok(None);
        }
        let refused = match &next {
            Next::Profile(None) => Some(profiles(own.context())),
            Next::Profile(Some(name)) => {
                let loaded = Config::load(&own.context().paths.config, Some(name));
                loaded.err().map(|error| error.to_string())
            }
            Next::Resume(Some(wanted)) => {
                let all = sessions::list(&own.context().paths.sessions());
                match find(&all, Some(wanted)) {
                    Ok(found) if found.id == own.id() => Some("that is this session".to_owned()),
                    Ok(found) if found.open.is_some() => {
                        Some(format!("session {} is open in another process", found.id))
                    }
                    Ok(_) => None,
                    Err(failure) => Some(failure.message),
                }
            }
            Next::Sandbox(_) | Next::Resume(None) | Next::New => None,
        };
        if let Some(words) = refused {
            eprint(&filter::plain(&format!("{words}\n")));
            return Ok(None);
        }
        let restarts = matches!(next, Next::Sandbox(_) | Next::Profile(_));
        let asked = self.interactive.then_some(&mut self.typed);
        if restarts && !self.standing.may_restart(asked, &mut self.signals).await? {
            return Ok(None);
        }
        Ok(Some(next))
    }
}

/// What to do instead in a terminal that is attached to a session of another one.
fn elsewhere(next: &Next) -> String {
    let instead = match next {
        Next::New => "`sponde` begins a new session",
        Next::Resume(None) => "`sponde resume` continues an earlier session",
        Next::Resume(Some(id)) => return left(&format!("`sponde resume {id}` continues it")),
        Next::Sandbox(_) | Next::Profile(_) => {
            return "this starts the kernels again, so only the terminal in which the session began can do it: type it \
                    there"
                .to_owned();
        }
    };
    left(instead)
}

fn left(instead: &str) -> String {
    format!("this terminal is attached to a session of another one: /exit detaches, then {instead}")
}

/// The available profiles, and the one in use.
fn profiles(context: &Context) -> String {
    let all = profile::list(&context.paths.config);
    if all.is_empty() {
        let folder = profile::folder(&context.paths.config);
        return format!(
            "there are no profiles: each is a file in {}",
            folder.display()
        );
    }
    let line = |found: profile::Profile| {
        let is_used = context.config.profile.as_ref() == Some(&found.name);
        let mark = if is_used { '>' } else { ' ' };
        let words = found.config.ok().and_then(|config| config.description);
        format!("{mark} {}  {}", found.name, words.unwrap_or_default())
    };
    let lines: Vec<String> = all.into_iter().map(line).collect();
    lines.join("\n")
}

/// Continues with `next` after the session `id` has ended; otherwise keeps the settings of `args`.
///
/// # Errors
/// What the session cannot have.
pub(super) async fn go_on(
    mut args: SessionArgs,
    next: Next,
    id: &str,
    context: &Context,
) -> Result<Exit, Failure> {
    args.replay = false;
    args.notebook = None;
    match next {
        Next::New => Box::pin(chat(args, None, None, context)).await,
        Next::Resume(session) => {
            // The session's own model and kernels, as with `sponde resume`.
            args.kernel.clear();
            args.files.clear();
            let session_args = args;
            let args = ResumeArgs {
                session,
                last: false,
                fresh: false,
                session_args,
            };
            resume::resume(args, context).await
        }
        Next::Sandbox(wish) => {
            args.sandbox.sandbox = wish.level.or(args.sandbox.sandbox);
            args.sandbox.network = wish.network.or(args.sandbox.network);
            Box::pin(same(args, id, context)).await
        }
        Next::Profile(name) => {
            let config = Config::load(&context.paths.config, name.as_deref());
            let context = Context {
                config: config.map_err(|error| crate::cli::profiles::failure(&error))?,
                ..context.clone()
            };
            Box::pin(same(args, id, &context)).await
        }
    }
}

/// Resumes the session `id`.
async fn same(mut args: SessionArgs, id: &str, context: &Context) -> Result<Exit, Failure> {
    args.files.clear();
    let limits = context.config.limits.resolve();
    let opened = match Opened::open(&context.paths.sessions(), id, limits, &place::now()) {
        Ok(opened) => opened,
        // Nothing has been said yet.
        Err(OpenError::NoJournal(_)) => return Box::pin(chat(args, None, None, context)).await,
        Err(error) => return Err(not_opened(&error)),
    };
    let resumed = Resumed {
        opened,
        replay: None,
    };
    Box::pin(chat(args, Some(resumed), None, context)).await
}
