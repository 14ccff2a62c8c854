//! `sponde sessions`: manages the stored sessions.

mod fork;
mod list;
mod show;

pub(super) use fork::fork;

use super::args::{SessionsArgs, SessionsCommand};
use super::{Context, eprint, filter, human, print};
use crate::agent::sessions::{self, Found};
use crate::agent::store::OpenError;
use crate::app::kept::{find, not_opened};
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Runs it.
pub(super) fn sessions(args: SessionsArgs, context: &Context) -> Result<Exit, Failure> {
    let list = SessionsCommand::List(args.list);
    match args.command.unwrap_or(list) {
        SessionsCommand::List(args) => list::list(&args, context),
        SessionsCommand::Show { session, json } => show::show(session.as_deref(), json, context),
        SessionsCommand::Search { words, json } => show::search(&words, json, context),
        SessionsCommand::Rename { session, title } => rename(&session, &title, context),
        SessionsCommand::Rm { sessions } => remove(&sessions, context),
        SessionsCommand::Gc { max_size, dry_run } => collect(max_size, dry_run, context),
    }
}

fn rename(wanted: &str, title: &str, context: &Context) -> Result<Exit, Failure> {
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    let found = find(&all, Some(wanted))?;
    sessions::rename(&dir, &found.id, title.trim()).map_err(|error| not_opened(&error))?;
    Ok(Exit::Done)
}

fn remove(wanted: &[String], context: &Context) -> Result<Exit, Failure> {
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    // Look up all sessions before removing the first one.
    let found: Result<Vec<&Found>, Failure> =
        wanted.iter().map(|name| find(&all, Some(name))).collect();
    for found in found? {
        let freed = sessions::remove(&dir, &context.paths.state, found)
            .map_err(|error| not_opened(&error))?;
        tell_removed(found, &all, freed, context)?;
    }
    Ok(Exit::Done)
}

fn tell_removed(
    found: &Found,
    all: &[Found],
    freed: u64,
    context: &Context,
) -> Result<(), Failure> {
    let short = sessions::short(&found.id, all);
    let name = found.summary.name().unwrap_or("no question");
    let name = human::shortened(name, 60);
    print(&filter::plain(&format!(
        "removed {short} ({}): {name}\n",
        human::bytes(freed)
    )))?;
    if !found.is_ours(&context.paths.sessions()) && found.notebook.exists() {
        eprint(&filter::plain(&format!(
            "its notebook stays: {}\n",
            found.notebook.display()
        )));
    }
    Ok(())
}

/// Removes the oldest sessions until the rest fits. Keeps open sessions and the latest one's files.
fn collect(max_size: u64, dry_run: bool, context: &Context) -> Result<Exit, Failure> {
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    // Files that the person keeps elsewhere do not count.
    let mut total: u64 = all.iter().map(|found| own_bytes(found, &dir)).sum();
    let mut removed = 0;
    for found in all.iter().rev() {
        if total <= max_size {
            break;
        }
        let bytes = own_bytes(found, &dir);
        if found.open.is_some() || bytes == 0 {
            continue;
        }
        if dry_run {
            let short = sessions::short(&found.id, &all);
            let name = human::shortened(found.summary.name().unwrap_or("no question"), 60);
            print(&filter::plain(&format!(
                "would remove {short} ({}): {name}\n",
                human::bytes(bytes)
            )))?;
        } else {
            match sessions::remove(&dir, &context.paths.state, found) {
                Ok(freed) => tell_removed(found, &all, freed, context)?,
                // Another process has opened it meanwhile.
                Err(OpenError::Taken { .. }) => continue,
                Err(error) => return Err(not_opened(&error)),
            }
        }
        removed += 1;
        total -= bytes;
    }
    let would = if dry_run { "would be " } else { "" };
    print(&format!(
        "{removed} of {} sessions {would}removed; the others take {}\n",
        all.len(),
        human::bytes(total)
    ))?;
    Ok(Exit::Done)
}

fn own_bytes(found: &Found, dir: &std::path::Path) -> u64 {
    if found.is_ours(dir) {
        found.bytes
    } else {
        found.journal_bytes
    }
}
