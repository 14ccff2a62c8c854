//! `sponde doctor`: prints what works on this machine and what is missing ([`crate::app::doctor`]).

use std::fmt::Write as _;

use super::args::DoctorArgs;
use super::style::{BAD, GOOD, HINT, WARN, paint, stdout_colours};
use super::{Context, filter, print};
use crate::app::doctor::{self, Check, State, Subject};
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Runs it. Exit code 4 without a kernel, 5 without a model.
pub(super) async fn doctor(args: &DoctorArgs, context: &Context) -> Result<Exit, Failure> {
    let checks = doctor::checks(context).await;
    if args.json {
        let text = serde_json::to_string_pretty(&checks).unwrap_or_default();
        print(&format!("{text}\n"))?;
    } else {
        print(&lines(&checks))?;
    }
    let is_missing = |subject| {
        checks
            .iter()
            .any(|check| check.name == subject && check.state == State::Missing)
    };
    Ok(if is_missing(Subject::Kernel) {
        Exit::Kernel
    } else if is_missing(Subject::Models) {
        Exit::Provider
    } else {
        Exit::Done
    })
}

fn lines(checks: &[Check]) -> String {
    let colours = stdout_colours();
    let mut text = String::new();
    for check in checks {
        let mark = match check.state {
            State::Ok => paint(GOOD, "ok      ", colours),
            State::Note => paint(WARN, "note    ", colours),
            State::Missing => paint(BAD, "missing ", colours),
        };
        let _ = writeln!(text, "{mark} {}", filter::plain(&check.words));
        if let Some(hint) = &check.hint {
            let hint_mark = paint(HINT, "hint:", colours);
            let _ = writeln!(text, "         {hint_mark} {hint}");
        }
    }
    text
}
