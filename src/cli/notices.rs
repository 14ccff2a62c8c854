//! Shows the app's notices as lines on stderr; a step of another program gets a spinner with its latest line.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::style::{DIM, WARN, paint, stderr_colours, wrapped_for_stderr};
use super::{eprint, filter};
use crate::app::{Notice, Notify};

/// Shows each notice on stderr.
pub(super) fn to_terminal() -> Notify {
    // Steps follow one another.
    let spinner = Mutex::new(None);
    Notify::new(move |notice| {
        let mut spinner = spinner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        show(notice, &mut spinner);
    })
}

fn show(notice: Notice, spinner: &mut Option<ProgressBar>) {
    let colours = stderr_colours();
    match notice {
        Notice::Info(text) => {
            let text = filter::plain(&text);
            eprint(&format!(
                "{}\n",
                paint(DIM, &wrapped_for_stderr(&text), colours)
            ));
        }
        Notice::Warning(text) => {
            let text = format!("note: {}", filter::plain(&text));
            eprint(&format!(
                "{}\n",
                paint(WARN, &wrapped_for_stderr(&text), colours)
            ));
        }
        Notice::StepBegan { what } => *spinner = Some(spinning(&what)),
        Notice::StepOutput { line, .. } => {
            if let Some(spinner) = spinner {
                spinner.set_message(filter::plain(&line));
            }
        }
        Notice::StepEnded { what, done } => {
            if let Some(spinner) = spinner.take() {
                spinner.finish_and_clear();
            }
            if done {
                eprint(&format!("{what}: done\n"));
            }
        }
    }
}

fn spinning(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {wide_msg:.dim}") {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    if bar.is_hidden() {
        eprint(&format!("{what} ...\n"));
    }
    bar
}
