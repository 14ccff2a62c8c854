//! The checks: each runs a few cells and describes the outcome.
//!
//! The description is the same in every run with the same kernel, so that tests can compare it; what varies is in the
//! detail.

use std::time::Duration;

use tokio::time::timeout;

use super::cell::{Answer, Ran, run, start};
use super::snippets::{Snippets, UNICODE};
use super::{Finding, Grade};
use crate::kernel::{Kernel, OutputEvent, Verdict};

/// Timeout of a cell that should take no time.
const SHORT: Duration = Duration::from_secs(30);
/// The same for 20,000 lines; bash_kernel sends each as a message.
const LONG: Duration = Duration::from_mins(2);
/// How long a cell may take to print its first line.
const FIRST_LINE: Duration = Duration::from_secs(5);
/// Time between its first line and its loop.
const INTO_THE_LOOP: Duration = Duration::from_millis(500);
/// How long a cell may take to end after an interrupt.
const STOP: Duration = Duration::from_secs(10);
/// How often a cell is interrupted.
const INTERRUPTS: u32 = 2;
/// How long a cell may wait for input that nobody gives before we call it a hang.
const NOBODY: Duration = Duration::from_secs(10);
/// How long a kernel may live after code that kills it.
const DEATH: Duration = Duration::from_secs(15);

/// How many lines are printed.
const LINES: usize = 20_000;

#[expect(clippy::unnecessary_wraps, reason = "what a check ends with")]
fn finding(grade: Grade, observed: impl Into<String>) -> Option<Finding> {
    Some(Finding {
        grade,
        observed: observed.into(),
        detail: None,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "what a check ends with")]
fn bad(ran: &Ran, what: &str) -> Option<Finding> {
    let text: String = format!("{}{}", ran.stderr, ran.text())
        .chars()
        .take(300)
        .collect();
    Some(Finding {
        grade: Grade::Bad,
        observed: format!("{what}: {}", ran.end()),
        detail: Some(text).filter(|text| !text.is_empty()),
    })
}

/// Variables persist between cells.
pub(super) async fn state(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let set = run(kernel, code.set.as_ref()?, Answer::Nobody, SHORT).await;
    if !set.is_ok() {
        return bad(&set, "could not be set");
    }
    let get = run(kernel, code.get.as_ref()?, Answer::Nobody, SHORT).await;
    if get.text().contains("42") {
        finding(Grade::Good, "kept")
    } else {
        bad(&get, "lost")
    }
}

/// Whether the variable that [`state`] set is still there.
async fn still_kept(kernel: &Kernel, code: &Snippets) -> Option<bool> {
    let get = run(kernel, code.get.as_ref()?, Answer::Nobody, SHORT).await;
    Some(get.text().contains("42"))
}

/// The value of an expression is shown.
pub(super) async fn result(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.result.as_ref()?, Answer::Nobody, SHORT).await;
    if !ran.is_ok() || !ran.text().contains("42") {
        return bad(&ran, "no result");
    }
    let shown = ran.outputs.iter().find_map(|output| {
        let (kind, data) = match output {
            OutputEvent::Result { data, .. } => ("execute_result", data),
            OutputEvent::Display { data, .. } => ("display_data", data),
            _ => return None,
        };
        let mimes: Vec<&str> = data.iter().map(|(mime, _)| mime).collect();
        let colours = data
            .text_of("text/plain")
            .is_some_and(|text| text.contains('\u{1b}'));
        let colours = if colours {
            ", with terminal colours"
        } else {
            ""
        };
        Some(format!("{kind}: {}{colours}", mimes.join(", ")))
    });
    match shown {
        Some(shown) => finding(Grade::Good, shown),
        None => finding(Grade::Limited, "printed: the kernel has no results"),
    }
}

/// A failure is an error with a name.
pub(super) async fn error(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.error.as_ref()?, Answer::Nobody, SHORT).await;
    match &ran.verdict {
        Some(Verdict::Error { ename, .. }) if ename.is_empty() => {
            finding(Grade::Limited, ran.end())
        }
        Some(Verdict::Error { .. }) => finding(Grade::Good, ran.end()),
        Some(Verdict::Ok) if !ran.stderr.is_empty() || !ran.text().is_empty() => finding(
            Grade::Limited,
            "reported as success; only the text shows the error",
        ),
        _ => bad(&ran, "no error"),
    }
}

/// A picture arrives.
pub(super) async fn png(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.png.as_ref()?, Answer::Nobody, SHORT).await;
    let shown = ran.outputs.iter().find_map(|output| {
        let (kind, data) = match output {
            OutputEvent::Result { data, .. } => ("execute_result", data),
            OutputEvent::Display { data, .. } => ("display_data", data),
            _ => return None,
        };
        let bytes = data.png_bytes()?.ok()?;
        bytes.starts_with(b"\x89PNG\r\n\x1a\n").then_some(kind)
    });
    match shown {
        Some(kind) => finding(Grade::Good, kind),
        None => bad(&ran, "no picture"),
    }
}

/// 20,000 lines arrive, or a loss is reported.
pub(super) async fn lines(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.lines.as_ref()?, Answer::Nobody, LONG).await;
    let text = ran.text();
    let mut printed = text.lines().map(str::trim);
    let complete = (0..LINES).all(|n| printed.next() == Some(n.to_string().as_str()));
    let count = text.lines().count();
    let (grade, observed) = match (complete, ran.lost, ran.is_ok()) {
        (true, false, true) => (Grade::Good, "complete"),
        (true, true, true) => (Grade::Limited, "complete, but marked as incomplete"),
        (false, true, _) => (Grade::Limited, "some are missing, and reported"),
        (_, _, false) if ran.verdict == Some(Verdict::TimedOut) => {
            (Grade::Limited, "too slow: stopped when its time was up")
        }
        (_, _, false) => return bad(&ran, "did not end"),
        (false, false, true) => (Grade::Bad, "some are missing, not reported"),
    };
    Some(Finding {
        grade,
        observed: observed.to_owned(),
        detail: (!complete).then(|| format!("{count} lines")),
    })
}

/// An infinite loop is stopped.
pub(super) async fn interrupt(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let endless = code.endless.as_ref()?;
    run(kernel, code.set.as_ref()?, Answer::Nobody, SHORT).await;
    let mut ran = Ran::default();
    let mut execution = match start(kernel, endless, Answer::Nobody, None).await {
        Ok(execution) => execution,
        Err(error) => return finding(Grade::Bad, error.to_string()),
    };
    // Some kernels show printed text only at the end; then the loop runs by now.
    if let Ok(false) = timeout(FIRST_LINE, ran.until_printed(&mut execution, "go")).await {
        return bad(&ran, "the loop ended");
    }
    // The line that prints `go` precedes the loop.
    tokio::time::sleep(INTO_THE_LOOP).await;
    let mut stopped = false;
    for _ in 0..INTERRUPTS {
        if let Err(error) = kernel.interrupt().await {
            return finding(Grade::Bad, error.to_string());
        }
        let follow = ran.follow(kernel, &mut execution, Answer::Nobody);
        stopped = timeout(STOP, follow).await.is_ok();
        if stopped {
            break;
        }
    }
    if !stopped {
        return finding(Grade::Limited, "does not stop; only a restart does it");
    }
    let Some(verdict) = &ran.verdict else {
        return bad(&ran, "no end");
    };
    match verdict {
        Verdict::Interrupted => {
            if still_kept(kernel, code).await? {
                finding(Grade::Good, "interrupted, variables kept")
            } else {
                lost(&ran, "interrupted")
            }
        }
        Verdict::KernelDied(_) => {
            let again = restarts(kernel, code).await;
            finding(Grade::Limited, format!("{}; {again}", ran.end()))
        }
        Verdict::Ok => finding(Grade::Limited, "stopped, but told as success"),
        Verdict::Error { .. } | Verdict::TimedOut | Verdict::Aborted => {
            bad(&ran, "not reported as an interrupt")
        }
    }
}

/// A killed kernel is noticed and restarts.
pub(super) async fn kill(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.kill.as_ref()?, Answer::Nobody, DEATH).await;
    match &ran.verdict {
        Some(Verdict::KernelDied(_)) => {
            let again = restarts(kernel, code).await;
            let grade = if again == RESTARTS {
                Grade::Good
            } else {
                Grade::Bad
            };
            finding(grade, format!("noticed; {again}"))
        }
        _ => bad(&ran, "not noticed"),
    }
}

/// Code that ends its own process, in the language's own way.
pub(super) async fn exit(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    run(kernel, code.set.as_ref()?, Answer::Nobody, SHORT).await;
    let ran = run(kernel, code.exit.as_ref()?, Answer::Nobody, DEATH).await;
    if let Some(Verdict::KernelDied(_)) = &ran.verdict {
        let again = restarts(kernel, code).await;
        let grade = if again == RESTARTS {
            Grade::Good
        } else {
            Grade::Bad
        };
        return finding(grade, format!("{}; {again}", ran.end()));
    }
    let kept = still_kept(kernel, code).await?;
    let next = run(kernel, code.result.as_ref()?, Answer::Nobody, SHORT).await;
    if !next.text().contains("42") {
        return bad(&next, &format!("{}; the next cell", ran.end()));
    }
    if kept {
        finding(
            Grade::Limited,
            format!("{}; nothing ends, variables kept", ran.end()),
        )
    } else {
        lost(&ran, &ran.end())
    }
}

/// Variables are lost although the kernel is alive.
fn lost(ran: &Ran, end: &str) -> Option<Finding> {
    if ran.lost {
        finding(
            Grade::Limited,
            format!("{end}; variables lost, and reported"),
        )
    } else {
        finding(Grade::Bad, format!("{end}; variables lost, not reported"))
    }
}

const RESTARTS: &str = "starts again";

async fn restarts(kernel: &Kernel, code: &Snippets) -> String {
    if let Err(error) = kernel.restart().await {
        return format!("does not start again: {error}");
    }
    let Some(result) = &code.result else {
        return RESTARTS.to_owned();
    };
    let ran = run(kernel, result, Answer::Nobody, SHORT).await;
    if ran.text().contains("42") {
        RESTARTS.to_owned()
    } else {
        format!("starts again, but then: {}", ran.end())
    }
}

/// A restart without any code.
pub(super) async fn restart(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let again = restarts(kernel, code).await;
    let grade = if again == RESTARTS {
        Grade::Good
    } else {
        Grade::Bad
    };
    finding(grade, again)
}

/// An input request is made, and the answer arrives.
pub(super) async fn input(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.input.as_ref()?, Answer::With("Ada"), SHORT).await;
    let answered = ran.text().contains("hello Ada");
    match (ran.asked.first(), answered) {
        (Some(_), true) => {}
        (None, _) if !ran.is_ok() || !answered => {
            return not_asked(&ran);
        }
        _ => return bad(&ran, "the answer got lost"),
    }
    let Some(password) = &code.password else {
        return finding(Grade::Good, "asked and answered");
    };
    let ran = run(kernel, password, Answer::With("Ada"), SHORT).await;
    if ran.asked.iter().any(|(_, hidden)| *hidden) {
        finding(Grade::Good, "asked and answered; passwords are hidden")
    } else {
        bad(&ran, "asked and answered, but not for a password")
    }
}

fn not_asked(ran: &Ran) -> Option<Finding> {
    match &ran.verdict {
        Some(Verdict::TimedOut) => {
            finding(Grade::Limited, "cannot ask: waits until its time is up")
        }
        Some(Verdict::Ok) => finding(Grade::Limited, "cannot ask: continues without an answer"),
        Some(Verdict::Error { .. }) => finding(
            Grade::Limited,
            format!("cannot ask: fails with {}", ran.end()),
        ),
        _ => bad(ran, "cannot ask"),
    }
}

/// An input request that nobody can answer fails at once.
pub(super) async fn nobody(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.input.as_ref()?, Answer::Nobody, NOBODY).await;
    match &ran.verdict {
        Some(Verdict::Error { .. }) => {
            finding(Grade::Good, format!("fails at once with {}", ran.end()))
        }
        Some(Verdict::Ok) => finding(Grade::Limited, "continues without an answer"),
        Some(Verdict::TimedOut) => finding(Grade::Limited, "waits until its time is up"),
        _ => bad(&ran, "did not end"),
    }
}

/// Text from all Unicode planes arrives unchanged.
pub(super) async fn unicode(kernel: &Kernel, code: &Snippets) -> Option<Finding> {
    let ran = run(kernel, code.unicode.as_ref()?, Answer::Nobody, SHORT).await;
    if ran.text().contains(UNICODE) {
        finding(Grade::Good, "intact")
    } else {
        bad(&ran, "broken")
    }
}

/// An empty cell does nothing.
pub(super) async fn empty(kernel: &Kernel, _: &Snippets) -> Option<Finding> {
    let ran = run(kernel, "", Answer::Nobody, SHORT).await;
    if ran.is_ok() && ran.text().is_empty() && ran.outputs.is_empty() {
        finding(Grade::Good, "nothing happens")
    } else {
        bad(&ran, "an empty cell")
    }
}
