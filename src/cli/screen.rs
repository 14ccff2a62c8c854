//! Sends code's output where it would go without us: stdout to stdout, stderr to stderr, results as text, plots as
//! files.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use super::filter::Filter;
use super::picture::{PictureFiles, PictureSpace, Protocol};
use super::style::{self, DIM, WARN, paint};
use super::{eprint, print};
use crate::agent::{EventKind, OutputChange};
use crate::error::Failure;
use crate::jupyter::mime::MimeBundle;
use crate::jupyter::nbformat::Output;
use crate::session::shown_text::shown_text;
use crate::session::visual::Visual;

/// Shows the output of code.
pub(super) struct Screen {
    /// Whether stdout is a terminal.
    terminal: bool,
    stdout: Filter,
    stderr: Filter,
    protocol: Protocol,
    pictures: PictureFiles,
    /// Whether the terminal's cursor is at the start of a line.
    at_line_start: bool,
}

impl Screen {
    pub(super) fn new(pictures: PathBuf) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            terminal: io::stdout().is_terminal(),
            stdout: Filter::new(style::stdout_colours()),
            stderr: Filter::new(style::stderr_colours()),
            protocol: Protocol::detect(terminal, &|name| std::env::var(name).ok()),
            pictures: PictureFiles::new(pictures),
            at_line_start: true,
        }
    }

    /// Whether other output can be shown on its own line.
    pub(super) fn at_line_start(&self) -> bool {
        self.at_line_start
    }

    /// Records that a person typed a line.
    pub(super) fn line_was_typed(&mut self) {
        self.at_line_start = true;
    }

    /// # Errors
    /// stdout accepts no more output.
    pub(super) fn show(&mut self, event: &EventKind) -> Result<(), Failure> {
        match event {
            EventKind::Output {
                change: OutputChange::Append { output, .. },
                ..
            } => self.output(output),
            EventKind::Output {
                change: OutputChange::Update { data, .. },
                ..
            } => self.display(data),
            // A sequence that one cell left open must not swallow the output of the next one.
            EventKind::CodeStarted { .. } => {
                self.stdout.begin_again();
                self.stderr.begin_again();
                Ok(())
            }
            EventKind::StillRunning { interrupts, .. } => {
                let text = format!("note: the cell's time is up; interrupted it ({interrupts})\n");
                let text = style::wrapped_for_stderr(&text);
                eprint(&paint(WARN, &text, style::stderr_colours()));
                Ok(())
            }
            EventKind::Notice { message } => {
                let text = super::filter::plain(&format!("note: {message}\n"));
                let text = style::wrapped_for_stderr(&text);
                eprint(&paint(WARN, &text, style::stderr_colours()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn output(&mut self, output: &Output) -> Result<(), Failure> {
        match output {
            Output::Stream { name, text, .. } if name == "stderr" => {
                let text = self.stderr.push(text);
                self.stands_after(&text);
                eprint(&text);
                Ok(())
            }
            Output::Stream { text, .. } => self.write(text),
            Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                self.display(data)
            }
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } => {
                let text = if traceback.is_empty() {
                    format!("{ename}: {evalue}")
                } else {
                    traceback.join("\n")
                };
                let text = self.stderr.push(&format!("{text}\n"));
                eprint(&text);
                Ok(())
            }
            Output::Other(_) => Ok(()),
        }
    }

    fn display(&mut self, data: &MimeBundle) -> Result<(), Failure> {
        let visual = Visual::of(data);
        let file = visual.and_then(|visual| visual.file(data));
        if let (Some(Visual::Raster(_)), Some((_, bytes))) = (visual, &file) {
            let shown = self.protocol.render(bytes, PictureSpace::of_terminal());
            eprint(&shown);
        } else {
            let text = shown_text(data);
            if !text.is_empty() {
                self.write(&format!("{text}\n"))?;
            }
        }
        if let Some((extension, bytes)) = file {
            let text = match self.pictures.write(extension, &bytes) {
                Ok(path) => format!("plot: {}\n", path.display()),
                Err(error) => format!("note: could not write the plot to a file: {error}\n"),
            };
            eprint(&paint(DIM, &text, style::stderr_colours()));
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        // A file or another program receives exactly what was printed.
        if !self.terminal {
            return print(text);
        }
        let text = self.stdout.push(text);
        self.stands_after(&text);
        print(&text)
    }

    fn stands_after(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            self.at_line_start = last == '\n';
        }
    }
}
