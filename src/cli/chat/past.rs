//! `/undo` and `/checkpoints`: asks the agent, shows its answer, and asks the person if undo would be incomplete.

use std::fmt::Write as _;

use tokio::sync::mpsc;

use crate::agent::event::{CheckpointInfo, Undone};
use crate::agent::stream::{Rejection, View};
use crate::agent::undo::UndoTo;
use crate::agent::{Command, EventKind};
use crate::cli::exit::Exit;
use crate::cli::human::count;
use crate::cli::interact::Ended;
use crate::cli::line::Wish;
use crate::cli::line_source::LineSource;
use crate::cli::render::Renderer;
use crate::cli::stop::Ask;
use crate::cli::style::{DIM, WARN, paint, stderr_colours};
use crate::cli::{eprint, filter};

/// How many checkpoints are listed.
const LISTED: usize = 20;
/// How many files are named.
const NAMED: usize = 6;

/// Does it. `typed` is `None` when nobody can be asked. Returns how the chat ends, if it does.
pub(super) async fn carry_out(
    wish: Wish,
    agent: &mut View,
    renderer: &mut Renderer,
    typed: Option<&mut LineSource>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Option<Exit> {
    let ended = match wish {
        Wish::Undo(to) => undo(to, agent, renderer, typed, signals).await?,
        Wish::Checkpoints => checkpoints(agent, renderer, signals).await?,
    };
    Some(match ended {
        Ended::End => Exit::Interrupted,
        Ended::Turn { .. } | Ended::Left { .. } | Ended::Unread(_) | Ended::Gone => Exit::Failed,
    })
}

/// Undoes. `typed` is `None` when nobody can be asked. Returns how the session ended, if it did.
async fn undo(
    to: UndoTo,
    agent: &mut View,
    renderer: &mut Renderer,
    mut typed: Option<&mut LineSource>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Option<Ended> {
    let mut anyway = false;
    loop {
        let command = Command::Undo { to, anyway };
        let answer = match answer(command, agent, renderer, signals).await {
            Ok(answer) => answer,
            Err(ended) => return Some(ended),
        };
        let words = match answer {
            EventKind::Undone(undone) => {
                eprint(&filter::plain(&summary(&undone)));
                return None;
            }
            EventKind::UndoRefused { message } => {
                eprint(&filter::plain(&format!("{message}\n")));
                return None;
            }
            EventKind::UndoAsks { inexact } => inexact,
            _ => return None,
        };
        let colours = stderr_colours();
        eprint(&paint(WARN, "Undo would be incomplete:\n", colours));
        for words in words {
            eprint(&filter::plain(&format!("- {words}\n")));
        }
        let Some(typed) = &mut typed else {
            eprint("nothing was undone: nobody can be asked here\n");
            return None;
        };
        let question = "Undo anyway? [y/N]";
        match typed.answer(question, signals).await {
            Ok(Some(line)) if matches!(line.trim(), "y" | "Y" | "yes") => anyway = true,
            Err(Ask::End) => return Some(Ended::End),
            Ok(_) | Err(Ask::Interrupt) => {
                eprint(&paint(DIM, "nothing was undone\n", colours));
                return None;
            }
        }
    }
}

/// Lists the points that undo can return to.
async fn checkpoints(
    agent: &mut View,
    renderer: &mut Renderer,
    signals: &mut mpsc::Receiver<Ask>,
) -> Option<Ended> {
    match answer(Command::Checkpoints, agent, renderer, signals).await {
        Ok(EventKind::Checkpoints { checkpoints }) => {
            eprint(&filter::plain(&list(&checkpoints, jiff::Timestamp::now())));
            None
        }
        Ok(_) => None,
        Err(ended) => Some(ended),
    }
}

/// Sends a command and waits for the event that answers it; shows the other events.
async fn answer(
    command: Command,
    agent: &mut View,
    renderer: &mut Renderer,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<EventKind, Ended> {
    match agent.send(command).await {
        Ok(()) => {}
        Err(Rejection::Ended) => return Err(Ended::Gone),
        Err(why) => {
            let message = why.to_string();
            return Ok(EventKind::UndoRefused { message });
        }
    }
    loop {
        tokio::select! {
            event = agent.recv() => match event.map(|event| event.kind) {
                None => return Err(Ended::Gone),
                Some(
                    answer @ (EventKind::Undone(_)
                    | EventKind::UndoAsks { .. }
                    | EventKind::UndoRefused { .. }
                    | EventKind::Checkpoints { .. }),
                ) => return Ok(answer),
                Some(other) => renderer.show(&other),
            },
            Some(ask) = signals.recv() => match ask {
                Ask::Interrupt => {
                    if agent.send(Command::Interrupt).await == Err(Rejection::Ended) {
                        return Err(Ended::Gone);
                    }
                }
                Ask::End => return Err(Ended::End),
            },
        }
    }
}

fn summary(undone: &Undone) -> String {
    let mut text = format!("took back {}; ", count(undone.cells, "cell"));
    text.push_str(match undone.variables.as_str() {
        "copy" => "variables are as they were",
        "file" => "variables were read from a file",
        "cells" => "variables come from cells that ran again",
        "new kernel" => "the kernel is a new one, as it was",
        _ => "variables had not changed",
    });
    for (paths, what) in [(&undone.restored, "restored"), (&undone.removed, "removed")] {
        if !paths.is_empty() {
            let named: Vec<&str> = paths.iter().take(NAMED).map(String::as_str).collect();
            let more = if paths.len() > NAMED { ", .." } else { "" };
            let (files, named) = (count(paths.len(), "file"), named.join(", "));
            let _ = write!(text, "; {files} {what} ({named}{more})");
        }
    }
    text.push('\n');
    for note in &undone.notes {
        let _ = writeln!(text, "- {note}");
    }
    if let Some(place) = &undone.kept_in {
        let _ = writeln!(text, "what was undone is kept in {place}");
    }
    text
}

fn list(checkpoints: &[CheckpointInfo], now: jiff::Timestamp) -> String {
    if checkpoints.is_empty() {
        return "there are none yet: one is taken before each cell\n".to_owned();
    }
    let mut text = String::new();
    for info in checkpoints.iter().take(LISTED) {
        let mark = if info.starts_turn { ' ' } else { '+' };
        let age = age(&info.at, now);
        let size = info.bytes.map(size).unwrap_or_default();
        let name = format!("#{}", info.number);
        let line = format!(
            "{mark}{name:<5}{age:>8}  {:<11}{size:>8}  {}",
            info.kind, info.before
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if checkpoints.len() > LISTED {
        let _ = writeln!(text, " and {} older ones", checkpoints.len() - LISTED);
    }
    text.push_str("/undo #N goes back to one; those with + are in the middle of a turn\n");
    text
}

fn age(at: &str, now: jiff::Timestamp) -> String {
    let Ok(at) = at.parse::<jiff::Timestamp>() else {
        return String::new();
    };
    match now.as_second() - at.as_second() {
        seconds @ ..60 => format!("{} s", seconds.max(0)),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_is_read() {
        for (text, to) in [
            ("", Some(UndoTo::Turns(1))),
            (" 3 ", Some(UndoTo::Turns(3))),
            ("#12", Some(UndoTo::Checkpoint(12))),
            ("x", None),
            ("-1", None),
        ] {
            assert_eq!(Wish::undo(text), to.map(Wish::Undo), "{text}");
        }
    }

    #[test]
    fn checkpoints_are_a_table() {
        let info =
            |number, starts_turn, at: &str, kind: &str, bytes, before: &str| CheckpointInfo {
                number,
                at: at.to_owned(),
                starts_turn,
                before: before.to_owned(),
                kind: kind.to_owned(),
                bytes,
            };
        let checkpoints = [
            info(
                12,
                false,
                "2026-11-22T12:00:00Z",
                "copy",
                Some(7_300_000),
                "df.plot()",
            ),
            info(
                11,
                true,
                "2026-11-22T11:55:00Z",
                "copy",
                Some(900),
                "Plot it",
            ),
            info(
                1,
                true,
                "2026-11-22T09:00:00Z",
                "new kernel",
                None,
                "Load the file",
            ),
        ];
        insta::assert_snapshot!(
            list(&checkpoints, "2026-11-22T12:00:07Z".parse().unwrap()),
            @r"
        +#12       7 s  copy           7 MB  df.plot()
         #11     5 min  copy           0 kB  Plot it
         #1        3 h  new kernel           Load the file
        /undo #N goes back to one; those with + are in the middle of a turn
        "
        );
    }

    #[test]
    fn what_was_done_is_one_line() {
        let undone = Undone {
            cells: 3,
            variables: "copy".to_owned(),
            restored: vec!["a.csv".to_owned()],
            removed: vec!["b.png".to_owned(), "c".to_owned()],
            notes: vec!["`big.bin` stays as it is now".to_owned()],
            kept_in: Some("/s/x.undone/1".to_owned()),
        };
        insta::assert_snapshot!(summary(&undone), @r"
        took back 3 cells; variables are as they were; 1 file restored (a.csv); 2 files removed (b.png, c)
        - `big.bin` stays as it is now
        what was undone is kept in /s/x.undone/1
        ");
    }
}
