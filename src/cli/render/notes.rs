//! Events that are shown as a line of ours.

use std::path::Path;

use super::busy::Activity;
use super::{BAD, DIM, EventKind, GOOD, Renderer, Section, WARN, filter};
use crate::agent::Decision;
use crate::agent::approval::{Approval, Ruling};
use crate::cli::style::HINT;
use crate::session::changes::{FilesChanged, quoted};

impl Renderer {
    /// Another model answers, or was meant to.
    pub(super) fn model_event(&mut self, event: &EventKind) {
        match event {
            EventKind::ModelChanged { model, .. } => {
                self.note(DIM, &filter::plain(&format!("from now on: {model}")));
            }
            EventKind::ModelUnchanged { model, message } => {
                let text = format!("could not change to {model}: {message}");
                self.note(BAD, &filter::plain(&text));
            }
            _ => {}
        }
    }

    pub(super) fn began(&mut self, event: &EventKind) {
        if let EventKind::SessionStarted {
            model,
            kernel,
            kernels,
            instructions,
            ..
        } = event
        {
            self.cells.main_language = kernels
                .first()
                .map(|it| it.language.clone())
                .unwrap_or_default();
            let model = model.as_deref().unwrap_or("no model");
            let all = [
                vec![format!("sponde: {model} with kernel {kernel}")],
                instructions.clone(),
            ]
            .concat();
            self.note(DIM, &filter::plain(&all.join(", ")));
        }
    }

    pub(super) fn kernel_failed(&mut self, message: &str, log: Option<&str>) {
        self.note(BAD, &format!("kernel: {}", filter::plain(message)));
        if let Some(log) = log {
            self.note(DIM, &filter::plain(log));
        }
    }

    /// For a single turn, the program reports the error at its end.
    pub(super) fn turn_failed(&mut self, message: &str, hint: &str) {
        if self.chat {
            self.note(BAD, &format!("error: {}", filter::plain(message)));
            self.note(HINT, &format!("hint: {}", filter::plain(hint)));
        }
    }

    /// Reports code that a rule forbids.
    pub(super) fn forbidden(&mut self, ruling: &Ruling) {
        self.note(
            BAD,
            &filter::plain(&format!("forbidden by {}", ruling.reason)),
        );
        for finding in &ruling.findings {
            self.note(WARN, &filter::plain(&finding.words()));
        }
    }

    /// Effects of a cell besides its outputs.
    pub(super) fn cell_event(&mut self, event: &EventKind) {
        match event {
            EventKind::StillRunning { interrupts, .. } => {
                let words = format!("the cell's time is up; interrupted it ({interrupts})");
                self.note(WARN, &words);
            }
            EventKind::PicturesSaved { files, .. } => {
                for file in files {
                    let more = beside(Path::new(file));
                    let shown = filter::plain(&format!("{}{more}", saved(file)));
                    self.linked(GOOD, &shown, file);
                }
            }
            EventKind::FilesChanged { files, .. } => {
                self.note(DIM, &filter::plain(&files.line()));
                for line in runs_later(files) {
                    self.note(WARN, &filter::plain(&line));
                }
            }
            EventKind::OutputRead { arguments, .. } => {
                self.note(DIM, &filter::plain(&reading(arguments)));
            }
            _ => {}
        }
    }

    /// Shows suggested follow-up questions.
    pub(super) fn suggested(&mut self, questions: &[String]) {
        for (at, question) in questions.iter().enumerate() {
            let words = if self.chat {
                format!("/next {}  {question}", at + 1)
            } else {
                format!("next: {question}")
            };
            self.note(HINT, &filter::plain(&words));
        }
        self.follow_ups = questions.to_vec();
    }

    /// The suggested question with this number, shown as if it was typed; otherwise lists the suggestions.
    pub(in crate::cli) fn follow_up(&mut self, number: usize) -> Option<String> {
        let found = number.checked_sub(1).and_then(|at| self.follow_ups.get(at));
        let Some(question) = found.cloned() else {
            let words = match self.follow_ups.len() {
                0 => {
                    "nothing is suggested yet: /next asks the model for three questions".to_owned()
                }
                many => format!("there are suggestions 1 to {many}"),
            };
            self.note(WARN, &words);
            return None;
        };
        self.name(&question);
        self.note(HINT, &filter::plain(&format!("> {question}")));
        Some(question)
    }

    pub(super) fn asked_again(&mut self, message: &str, wait_ms: u64, attempt: u32, of: u32) {
        // The unfinished reply will be sent again from its beginning.
        self.cells.reply.clear();
        let seconds = wait_ms.div_ceil(1000);
        let again = format!("{message}; trying again in {seconds} s, {attempt} of {of}");
        self.note(WARN, &filter::plain(&again));
        self.section = Section::Output(String::new());
        self.status(Activity::WaitingToAskAgain);
    }
}

/// Names the file that a cell's output was saved to.
fn saved(file: &str) -> String {
    let is_page = std::path::Path::new(file)
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let what = if is_page { "page" } else { "plot" };
    format!("{what}: {file}")
}

/// Describes what the model reads with these arguments of `read_output`.
pub(super) fn reading(arguments: &str) -> String {
    let asked: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let number = |name: &str| asked.get(name).and_then(serde_json::Value::as_i64);
    let search = asked.get("search").and_then(serde_json::Value::as_str);
    match (search.filter(|it| !it.is_empty()), number("start")) {
        (Some(search), _) => format!("(the model searches an output for {search:?})"),
        (None, Some(start)) => format!("(the model reads an output from line {start})"),
        (None, None) => "(the model reads more of an output)".to_owned(),
    }
}

/// What another client of the session sent or decided.
pub(super) fn of_others(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::UserMessage { text, .. } => format!("> {text}"),
        EventKind::ApprovalResolved { decision, by, .. } => {
            let what = match decision {
                Decision::Run => "run it",
                Decision::Always => "run it, and what is like it",
                Decision::Change { .. } => "run it with changes",
                Decision::Never => "declined, and what is like it",
                Decision::Decline { .. } => "declined",
            };
            format!("({by}: {what})")
        }
        EventKind::ApprovalChanged { approval, by } => {
            let what = match approval {
                Approval::Always => "code of the model is asked about",
                Approval::OnRisk => "risky code of the model is asked about",
                Approval::Never => "code of the model runs without a question",
            };
            format!("({by}: from now on {what})")
        }
        EventKind::ContinueResolved { go_on, by } => {
            let what = if *go_on { "continues" } else { "stops" };
            format!("({by}: it {what})")
        }
        _ => return None,
    })
}

/// The files next to a picture: a vector graphic of it, and its data.
pub(super) fn beside(picture: &Path) -> String {
    let there = ["svg", "csv"].into_iter().filter(|ending| {
        let file = picture.with_extension(ending);
        file != picture && file.exists()
    });
    let there: Vec<String> = there.map(|it| format!(".{it}")).collect();
    if there.is_empty() {
        return String::new();
    }
    format!(" (and {})", there.join(", "))
}

/// Notes about files that a cell created or changed.
pub(super) fn runs_later(files: &FilesChanged) -> Vec<String> {
    let words = files.running_later().filter_map(|file| {
        let (path, runs) = (quoted(&file.path), file.runs.as_ref()?);
        Some(format!("note: {path} {runs}: look at it first"))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::{reading, saved};

    #[test]
    fn a_page_is_no_plot() {
        assert_eq!(saved("a/plot-1.png"), "plot: a/plot-1.png");
        assert_eq!(saved("plot-2.html"), "page: plot-2.html");
    }

    #[test]
    fn a_person_is_told_what_the_model_reads() {
        for (arguments, words) in [
            (r#"{"cell": "ab12"}"#, "(the model reads more of an output)"),
            (
                r#"{"cell": "ab12", "start": 100, "lines": 50}"#,
                "(the model reads an output from line 100)",
            ),
            (
                r#"{"cell": "ab12", "search": "loss"}"#,
                "(the model searches an output for \"loss\")",
            ),
            ("{", "(the model reads more of an output)"),
        ] {
            assert_eq!(reading(arguments), words);
        }
    }
}
