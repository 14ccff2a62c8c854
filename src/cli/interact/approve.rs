//! `Run it?`: asks about proposed code until the person has decided. Commands work at the question, and it comes back.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};
use tokio::sync::mpsc;

use super::Person;
use super::edit;
use super::words::{Answer, meaning};
use crate::agent::approval::Approval;
use crate::agent::{Command, Decision};
use crate::cli::chat::{HELP, Said, said};
use crate::cli::render::Proposal;
use crate::cli::signals::Ask;
use crate::cli::style::{BAD, DIM, GOOD, paint, stderr_colours};
use crate::cli::{eprint, filter};

/// Unchanged lines around a change that are shown.
const AROUND: usize = 3;
/// How long a difference may be looked for; then it is coarser.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// What can be answered.
const ANSWERS: &str = "\
  y, yes, ok, sure, go ahead   run it
  n, no, stop                  do not run it; the turn ends
  a, always                    run it, and do not ask again; /approve ask takes that back
  e, edit                      change it in your editor (VISUAL, EDITOR), see the change, be asked again
  !CODE, /help, /approve       commands; this question comes back
  anything else                do not run it, and tell the model what you say
";

/// What came of a question.
pub(super) enum Decided {
    /// Send these.
    Commands(Vec<Command>),
    /// The person wants the chat to end: decline, and then end.
    Leave,
}

/// The code that waits for a decision.
pub(super) struct Question<'a> {
    /// Its cell.
    pub cell: &'a str,
    /// As the model wrote it; `None` if nobody knows.
    pub proposal: Option<(Proposal, usize, usize)>,
    /// What the person has made of cells that are not decided yet.
    pub edited: &'a mut HashMap<String, String>,
}

/// Asks what shall happen with proposed code.
///
/// # Errors
/// The signal that came instead of an answer.
pub(super) async fn decide(
    question: Question<'_>,
    person: &mut Person<'_>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Decided, Ask> {
    let Question {
        cell,
        proposal,
        edited,
    } = question;
    let (language, original, numbered) = match proposal {
        Some((proposal, number, of)) => {
            (proposal.language, proposal.source, (of > 1).then_some((number, of)))
        }
        None => (String::new(), String::new(), None),
    };
    let what = numbered.map_or_else(
        || "Run it?".to_owned(),
        |(number, of)| format!("Run {number} of {of}?"),
    );
    let prompt =
        format!("{what} [y]es, [n]o, [a]lways, [e]dit, [?], or say what to do instead:");
    let only = |decision| {
        let cell = cell.to_owned();
        Command::Decide { cell, decision }
    };
    loop {
        let Some(line) = person.typed.answer(&prompt, signals).await? else {
            return Ok(Decided::Commands(vec![Command::Interrupt]));
        };
        let run = |edited: &mut HashMap<String, String>| {
            let source = edited.remove(cell);
            only(source.map_or(Decision::Run, |source| Decision::Change { source }))
        };
        let commands = match meaning(&line) {
            Answer::Nothing => continue,
            Answer::Help => {
                eprint(ANSWERS);
                continue;
            }
            Answer::Run => vec![run(edited)],
            Answer::Always => {
                person.controls.approval = Approval::Never;
                let approval = Approval::Never;
                vec![Command::SetApproval { approval }, run(edited)]
            }
            Answer::Edit => {
                let now = edited.get(cell).unwrap_or(&original);
                let after = edit::edit(now, &language).await;
                // For the editor, whatever it made of it.
                while let Ok(ask) = signals.try_recv() {
                    if ask == Ask::End {
                        return Err(ask);
                    }
                }
                match after {
                    Ok(after) => {
                        eprint(&changes(now, &after));
                        edited.insert(cell.to_owned(), after);
                    }
                    Err(error) => eprint(&filter::plain(&format!("{error}\n"))),
                }
                continue;
            }
            Answer::Decline => vec![only(Decision::Decline { reason: None })],
            Answer::Words => match command(&line, person) {
                AtQuestion::Done => continue,
                AtQuestion::Send(command) => vec![command],
                AtQuestion::Leave => return Ok(Decided::Leave),
                AtQuestion::Reason(reason) => {
                    let reason = Some(reason);
                    vec![only(Decision::Decline { reason })]
                }
            },
        };
        return Ok(Decided::Commands(commands));
    }
}

/// What becomes of a line that is no answer.
enum AtQuestion {
    /// It was a command and is done.
    Done,
    /// It is one for the agent.
    Send(Command),
    /// It ends the chat.
    Leave,
    /// It is none.
    Reason(String),
}

fn command(line: &str, person: &mut Person<'_>) -> AtQuestion {
    let line = line.trim();
    let is_file = |path: &str| Path::new(path).exists();
    match said(Some(line), person.controls.own_kernel(), is_file) {
        Said::Command(Command::Submit { text }) => return AtQuestion::Reason(text),
        Said::Command(run @ Command::Run { .. }) => return AtQuestion::Send(run),
        Said::End => return AtQuestion::Leave,
        Said::Approve(wanted) => {
            if person.controls.approve(wanted) {
                let approval = person.controls.approval;
                return AtQuestion::Send(Command::SetApproval { approval });
            }
        }
        Said::Kernel(name) => person.controls.choose_kernel(name.as_deref()),
        Said::Help => eprint(&format!("{HELP}At this question:\n{ANSWERS}")),
        Said::Wrong(words) => eprint(&filter::plain(&format!("{words}\n"))),
        Said::Command(_) | Said::Model(_) | Said::Past(_) | Said::Nothing => {
            let name = line.split_whitespace().next().unwrap_or_default();
            eprint(&filter::plain(&format!(
                "`{name}` works between two turns: answer this question first\n"
            )));
        }
    }
    AtQuestion::Done
}

/// What the person changed. What a terminal would obey is written out.
fn changes(before: &str, after: &str) -> String {
    let colours = stderr_colours();
    let mut text = paint(DIM, "the change:\n", colours);
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(before, after);
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            text.push_str(&paint(DIM, "  …\n", colours));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', BAD),
                ChangeTag::Insert => ('+', GOOD),
                ChangeTag::Equal => (' ', DIM),
            };
            let line = filter::code(change.value().trim_end_matches('\n'));
            text.push_str(&paint(style, &format!("{sign} {line}"), colours));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni";
        let after = "a\nb\nc\nd\ne\nF\u{1b}[2K\ng\nh\ni";
        insta::assert_snapshot!(changes(before, after), @r"
        the change:
          c
          d
          e
        - f
        + F\u{1b}[2K
          g
          h
          i
        ");
    }
}
