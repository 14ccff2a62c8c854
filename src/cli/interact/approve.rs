//! `Run it?`: asks about proposed code until the person has decided. Commands work at the question, which is then
//! asked again.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};
use tokio::sync::mpsc;

use super::words::{Answer, meaning};
use super::{Controls, Ended, Person, deliver, edit};
use crate::agent::approval::{Approval, Finding, FindingKind};
use crate::agent::stream::View;
use crate::agent::{Command, Decision, EventKind};
use crate::cli::line::{Control, HELP, LineMeaning, said};
use crate::cli::line_source::LineSource;
use crate::cli::render::{Proposal, Renderer};
use crate::cli::stop::Ask;
use crate::cli::style::{BAD, DIM, GOOD, WARN, columns, paint, stderr_colours};
use crate::cli::{eprint, filter};

/// Unchanged lines shown around a change.
const AROUND: usize = 3;
/// How many findings are shown above a question.
const SHOWN: usize = 8;
/// Time limit of a diff; after it the result is coarser.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// The possible answers.
const ANSWERS: &str = concat!(
    "  y, yes, ok, sure, go ahead   run it\n",
    "  n, no, stop                  do not run it, and say what to do instead, or nothing\n",
    "  q, quit                      do not run it; the turn ends\n",
    "  ?                            do not run it yet: the model explains it first\n",
    "  a, always                    run it, and do not ask again about code like it\n",
    "  e, edit                      change it in $EDITOR, then be asked again\n",
    "  !CODE, /help, /approve       commands; this question comes back\n",
    "  anything else                do not run it, and tell the model what you say\n",
);

/// What the model is told on `?`.
const EXPLAIN: &str = "Explain this code first: what it does step by step, what it reads, writes or deletes, and why it \
                       is needed. Then propose it again.";

/// Columns that a question leaves for its answer.
const ANSWER: usize = 4;

/// Minimum similarity to the previous code for showing new code as a diff.
const ALIKE: f32 = 0.5;

/// The result of a question.
enum Decided {
    /// Send these. An approval mode alone is no answer: the question is asked again.
    Commands(Vec<Command>),
    /// The person wants the chat to end: decline, then end.
    Leave,
}

/// Why a person is asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Question {
    /// The findings in the code.
    pub(super) findings: Vec<Finding>,
    /// The reason, as text.
    pub(super) reason: String,
}

impl Question {
    /// The findings, one per line; empty if there are none.
    fn words(&self) -> String {
        let colours = stderr_colours();
        let mut text = String::new();
        let mut lines: Vec<String> = Vec::new();
        for finding in &self.findings {
            let line = filter::plain(&finding.words());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let more = lines.len().saturating_sub(SHOWN);
        for line in lines.iter().take(SHOWN) {
            text.push_str(&paint(WARN, line, colours));
            text.push('\n');
        }
        if more > 0 {
            text.push_str(&paint(WARN, &format!("and {more} more"), colours));
            text.push('\n');
        }
        // The rule is the person's own, but they may have forgotten it.
        if self.reason.starts_with("rule ") {
            let reason = filter::plain(&self.reason);
            text.push_str(&paint(DIM, &reason, colours));
            text.push('\n');
        }
        text
    }
}

/// What `always` means for this question.
fn from_now_on(controls: &mut Controls, question: &Question) -> String {
    if question.reason.starts_with("rule ") {
        return "the rule asks each time; change it in config.toml\n".to_owned();
    }
    if controls.approval == Approval::Always {
        controls.approval = Approval::OnRisk;
    }
    let mut kinds: Vec<FindingKind> = question.findings.iter().map(|it| it.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let words: Vec<&str> = kinds.into_iter().map(FindingKind::words).collect();
    match words.as_slice() {
        [] => "from now on you are asked about risky code only; /approve always changes that\n"
            .to_owned(),
        words => format!(
            "from now on code of this language that {} runs without a question in this session\n",
            words.join(" or ")
        ),
    }
}

/// The person's edits of cells that are not decided yet.
pub(super) type Edited = HashMap<String, String>;

/// Whether another client answered the question about this cell, or it was settled otherwise.
fn is_resolved(cell: &str, event: &EventKind) -> bool {
    match event {
        EventKind::ApprovalResolved { cell: of, .. } | EventKind::CodeFinished { cell: of, .. } => {
            of == cell
        }
        EventKind::TurnFinished { .. } => true,
        _ => false,
    }
}

/// Asks what to do with a proposed cell, and tells the agent; without a `person` it is declined. Returns whether they
/// want the chat to end.
///
/// # Errors
/// How the session ended instead.
pub(super) async fn approve(
    cell: &str,
    question: &Question,
    edited: &mut Edited,
    agent: &mut View,
    renderer: &mut Renderer,
    mut person: Option<&mut Person<'_>>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<bool, Ended> {
    if person.is_some() {
        if let Some((before, after)) = renderer.revision(cell) {
            eprint(&revised(&before, &after));
        }
        eprint(&question.words());
    }
    loop {
        let proposal = renderer.proposal(cell);
        let decided = match &mut person {
            Some(person) => tokio::select! {
                decided = decide(cell, question, proposal, edited, person, signals) => decided,
                () = agent.until(|event| is_resolved(cell, event)) => {
                    person.typed.cover();
                    return Ok(false);
                }
            },
            None => Ok(Decided::Leave),
        };
        let (commands, leaves) = match decided {
            Ok(Decided::Commands(commands)) => (commands, false),
            Ok(Decided::Leave) => {
                let decision = Decision::Decline { reason: None };
                let cell = cell.to_owned();
                (vec![Command::Decide { cell, decision }], person.is_some())
            }
            Err(Ask::Interrupt) => (vec![Command::Interrupt], false),
            Err(Ask::End) => return Err(Ended::End),
        };
        let mut is_answered = false;
        for command in commands {
            if let Command::Decide {
                decision: Decision::Change { source },
                ..
            } = &command
            {
                renderer.changed(cell, source);
            }
            is_answered |= !matches!(command, Command::SetApproval { .. });
            if !deliver(command, agent, renderer).await {
                return Err(Ended::Gone);
            }
        }
        if is_answered {
            return Ok(leaves);
        }
    }
}

/// Asks until there is something to do.
async fn decide(
    cell: &str,
    question: &Question,
    proposal: Option<(Proposal, usize, usize)>,
    edited: &mut Edited,
    person: &mut Person<'_>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Decided, Ask> {
    let (language, original, numbered) = match proposal {
        Some((proposal, number, of)) => (
            proposal.language,
            proposal.source,
            (of > 1).then_some((number, of)),
        ),
        None => (String::new(), String::new(), None),
    };
    let what = numbered.map_or_else(
        || "Run it?".to_owned(),
        |(number, of)| format!("Run {number} of {of}?"),
    );
    let has_keys = person.typed.has_keys();
    let prompt = if has_keys {
        let long = "[y]es [a]lways [e]dit [n]o [?]explain [q]uit or say what to do instead:";
        let prompt = format!("{what} {long}");
        // Leaves room for the answer after the question.
        let room = usize::try_from(columns()).unwrap_or(80);
        if prompt.chars().count() + ANSWER > room {
            prompt.replace("[?]explain", "[?]")
        } else {
            prompt
        }
    } else {
        format!("{what} [y]es, [n]o, [a]lways, [e]dit, [?], or say what to do instead:")
    };
    let only = |decision| {
        let cell = cell.to_owned();
        Command::Decide { cell, decision }
    };
    loop {
        let answered = if has_keys {
            pressed(person.typed, &prompt, signals).await?
        } else {
            person.typed.answer(&prompt, signals).await?
        };
        let Some(line) = answered else {
            return Ok(Decided::Commands(vec![Command::Interrupt]));
        };
        let run = |edited: &mut Edited| {
            let source = edited.remove(cell);
            only(source.map_or(Decision::Run, |source| Decision::Change { source }))
        };
        let commands = match meaning(&line) {
            Answer::Nothing => continue,
            Answer::Help => {
                eprint(ANSWERS);
                continue;
            }
            Answer::Explain => {
                let reason = Some(EXPLAIN.to_owned());
                vec![only(Decision::Decline { reason })]
            }
            Answer::Run => vec![run(edited)],
            // An edited cell is shown again first.
            Answer::Always if edited.contains_key(cell) => vec![run(edited)],
            Answer::Always => {
                eprint(&from_now_on(person.controls, question));
                vec![only(Decision::Always)]
            }
            Answer::Edit => {
                let now = edited.get(cell).unwrap_or(&original);
                match edit::edit(now, &language).await {
                    Ok(after) => {
                        eprint(&changes(now, &after));
                        edited.insert(cell.to_owned(), after);
                    }
                    Err(error) => eprint(&filter::plain(&format!("{error}\n"))),
                }
                continue;
            }
            Answer::Decline => {
                eprint(&paint(DIM, "you declined\n", stderr_colours()));
                vec![only(Decision::Decline { reason: None })]
            }
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

/// Reads a key, or a line that begins with another key. Words can follow a no.
async fn pressed(
    typed: &mut LineSource,
    prompt: &str,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Option<String>, Ask> {
    let Some(key) = typed.key(prompt, signals).await? else {
        return Ok(None);
    };
    if let Some(line) = key.strip_suffix('\n') {
        eprint(&format!("{}\n", filter::plain(line)));
        return Ok(Some(line.to_owned()));
    }
    let word = match key.as_str() {
        "y" | "Y" => "yes",
        "a" | "A" => "always",
        "e" | "E" => "edit",
        "?" => "explain it first",
        "q" | "Q" => "quit",
        "h" => "help",
        "n" | "N" => {
            eprint("no\n");
            let instead = "What instead? (Enter: nothing)";
            let Some(line) = typed.go_on(instead, "", signals).await? else {
                return Ok(None);
            };
            // Whatever is typed now, it is not a yes.
            let is_reason = matches!(meaning(&line), Answer::Words);
            return Ok(Some(if is_reason { line } else { "no".to_owned() }));
        }
        begun => {
            eprint("\n");
            return typed.go_on("instead:", begun, signals).await;
        }
    };
    eprint(&format!("{word}\n"));
    Ok(Some(key))
}

/// The result of a line that is no answer.
enum AtQuestion {
    /// A command that has been carried out.
    Done,
    /// A command for the agent.
    Send(Command),
    /// It ends the chat.
    Leave,
    /// Words for the model.
    Reason(String),
}

fn command(line: &str, person: &mut Person<'_>) -> AtQuestion {
    let line = line.trim();
    let is_file = |path: &str| Path::new(path).exists();
    match said(Some(line), person.controls.own_kernel(), is_file) {
        LineMeaning::Command(Command::Submit { text }) => return AtQuestion::Reason(text),
        LineMeaning::Command(run @ Command::Run { .. }) => return AtQuestion::Send(run),
        LineMeaning::Control(Control::Help) => {
            eprint(HELP);
            eprint(&format!("At this question:\n{ANSWERS}"));
        }
        LineMeaning::Control(control) => {
            if let Some(command) = person.controls.handle(control) {
                return AtQuestion::Send(command);
            }
        }
        LineMeaning::End => return AtQuestion::Leave,
        LineMeaning::Command(_)
        | LineMeaning::Session(_)
        | LineMeaning::Model(_)
        | LineMeaning::Past(_)
        | LineMeaning::Look(_)
        | LineMeaning::FollowUp(_)
        | LineMeaning::Sandbox
        | LineMeaning::Status
        | LineMeaning::Next(_) => {
            let name = line.split_whitespace().next().unwrap_or_default();
            eprint(&filter::plain(&format!(
                "`{name}` works between two turns: answer this question first\n"
            )));
        }
    }
    AtQuestion::Done
}

/// The diff from code that did not run or failed, if the new code is similar enough.
fn revised(before: &str, after: &str) -> String {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(before, after);
    if before == after || diff.ratio() < ALIKE {
        return String::new();
    }
    difference("different from before:\n", before, after)
}

/// The diff of the person's edit.
fn changes(before: &str, after: &str) -> String {
    difference("the change:\n", before, after)
}

/// A line diff of two versions of code. Control characters are written out.
fn difference(title: &str, before: &str, after: &str) -> String {
    let colours = stderr_colours();
    let mut text = paint(DIM, title, colours);
    // A missing newline at the end is not part of the change.
    let whole = |code: &str| format!("{}\n", code.trim_end_matches('\n'));
    let (before, after) = (whole(before), whole(after));
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(&*before, &*after);
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
    fn a_revision_is_shown_where_little_is_different() {
        assert_eq!(revised("a\nb\n", "a\nb\n"), "");
        assert_eq!(revised("a\nb\nc\n", "x\ny\nz\n"), "");
        let shown = "different from before:\n  a\n- b\n+ B\n  c\n";
        assert_eq!(revised("a\nb\nc", "a\nB\nc"), shown);
    }

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
