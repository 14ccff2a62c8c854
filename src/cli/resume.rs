//! `sponde resume`: continues a session where it stopped.

use super::args::ResumeArgs;
use super::chat;
use super::coming::Resumed;
use super::pick::pick;
use super::render::Renderer;
use super::restored::tail;
use super::style::{is_interactive, moves_cursor};
use super::{Context, again, eprint, filter, human};
use crate::agent::sessions;
use crate::agent::sessions::Found;
use crate::agent::store::Opened;
use crate::app::kept::{find, not_opened};
use crate::app::place;
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Characters of a question in a list.
const NAME: usize = 60;

/// Runs it.
pub(super) async fn resume(args: ResumeArgs, context: &Context) -> Result<Exit, Failure> {
    let ResumeArgs {
        session: wanted,
        last,
        fresh,
        session_args,
    } = args;
    if session_args.notebook.is_some() {
        return Err(Failure::usage("a session that is resumed has its notebook")
            .hint("leave --notebook out; `sponde fork` makes a session with another"));
    }
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    // A notebook that was moved names its own session.
    let moved = wanted.as_deref().map(std::path::Path::new);
    let moved = moved.filter(|path| path.is_file());
    let id = moved.and_then(sessions::named_in);
    let found = match id.as_deref().or(wanted.as_deref()) {
        Some(wanted) => find(&all, Some(wanted))?,
        None if !last && is_interactive() => match picked(&all)? {
            Some(found) => found,
            None => return Ok(Exit::Done),
        },
        None => latest(&all)?,
    };
    let limits = context.config.limits.resolve();
    let mut opened =
        Opened::open(&dir, &found.id, limits, &place::now()).map_err(|error| not_opened(&error))?;
    if let Some(path) = moved.and_then(|path| std::path::absolute(path).ok())
        && path != opened.store.notebook()
    {
        opened.move_to(path).map_err(|error| not_opened(&error))?;
    }
    if opened.mended.notebook_missing && !sessions::was_saved(&dir, &found.id) {
        // The session was killed before it had a notebook: nothing is missing.
        opened.mended.notebook_missing = false;
    }
    let name = found
        .summary
        .name()
        .unwrap_or("a session without a question");
    eprint(&filter::plain(&format!(
        "resuming {}: {}\n",
        sessions::short(&found.id, &all),
        human::shortened(name, 70)
    )));
    for words in opened.mended.words() {
        eprint(&filter::plain(&format!("note: {words}\n")));
    }
    if moves_cursor() {
        let mut renderer = Renderer::new(true);
        again::show(&opened.transcript, opened.store.notebook(), &mut renderer);
        renderer.end_line();
    } else {
        eprint(&tail(&opened.transcript));
    }
    let resumed = Resumed {
        opened,
        replay: match (session_args.replay, fresh) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        },
    };
    Box::pin(chat::go_on(session_args, Some(resumed), None, context)).await
}

/// The session that a person picks, from those that no process has open; sessions of this directory come first. `None`
/// if they pick none.
fn picked(all: &[Found]) -> Result<Option<&Found>, Failure> {
    let here = std::env::current_dir().ok();
    let directory = |found: &Found| found.begin.as_ref().map(|begin| begin.cwd.clone());
    let is_here = |found: &&Found| here.is_some() && directory(found) == here;
    let free = all.iter().filter(|found| found.open.is_none());
    let (mut listed, elsewhere): (Vec<&Found>, Vec<&Found>) = free.partition(is_here);
    listed.extend(elsewhere);
    let (Some(first), is_several) = (listed.first(), listed.len() > 1) else {
        return latest(all).map(Some);
    };
    if !is_several {
        return Ok(Some(first));
    }
    let now = jiff::Zoned::now();
    let line = |found: &&Found| {
        let id = sessions::short(&found.id, all);
        let when = human::ago(found.modified, &now);
        let turns = human::count(found.summary.questions, "turn");
        let name = found.summary.name().unwrap_or("(no question)");
        let place = if is_here(found) {
            String::new()
        } else {
            format!("  in {}", directory(found).unwrap_or_default().display())
        };
        format!(
            "{id}  {when:12}  {turns:>9}  {}{place}",
            human::shortened(name, NAME)
        )
    };
    let lines: Vec<String> = listed.iter().map(line).collect();
    let title = "Which session? Type to search, arrows and Enter to pick, Esc for none";
    let picked = tokio::task::block_in_place(|| pick(title, &lines));
    Ok(picked.and_then(|number| listed.get(number).copied()))
}

/// The latest session that no other process has open. If there is none, the latest one: opening it reports who has it.
fn latest(all: &[Found]) -> Result<&Found, Failure> {
    let Some(free) = all.iter().find(|found| found.open.is_none()) else {
        return find(all, None);
    };
    for open in all.iter().take_while(|found| found.id != free.id) {
        let pid = open.open.and_then(|holder| holder.pid);
        let pid = pid.map_or_else(String::new, |pid| format!(" ({pid})"));
        eprint(&filter::plain(&format!(
            "note: {} is open in another process{pid}, so the one before it is resumed\n",
            sessions::short(&open.id, all)
        )));
    }
    Ok(free)
}
