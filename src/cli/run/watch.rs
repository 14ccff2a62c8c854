//! Watches the run of one notebook: output to the screen, questions to the person, Ctrl-C to the run.

use std::path::Path;

use tokio::sync::mpsc;

use super::super::line_source::LineSource;
use super::super::screen::Screen;
use super::super::stop::Ask;
use super::super::{Context, eprint, print};
use super::progress::{Progress, TICK};
use crate::agent::{Command, Event, EventKind, OutputChange};
use crate::app::place;
use crate::error::Failure;
use crate::jupyter::nbformat::Output;

/// How a run ended for its watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watched {
    /// It ran to its end.
    Whole,
    /// Ctrl-C or a request to end stopped it.
    Stopped,
    /// stdout accepted no more output, for this reason.
    Unread(Failure),
}

/// Which outputs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All, as if an interpreter ran the code.
    All,
    /// All, as JSON events.
    Json,
    /// Only the stderr part: stdout carries the notebook.
    Stderr,
    /// Only notices for a person.
    Notices,
}

/// Shows events until they end.
pub(super) async fn watch(
    mut events: mpsc::Receiver<EventKind>,
    control: mpsc::Sender<Command>,
    signals: &mut mpsc::Receiver<Ask>,
    mut progress: Progress,
    shown: Shown,
    output: Option<&Path>,
    context: &Context,
) -> Watched {
    let pictures = output.map_or_else(|| context.paths.cache.join("plots"), place::pictures_dir);
    let mut screen = Screen::new(pictures);
    let mut typed = LineSource::of_a_person(None, None);
    let mut watched = Watched::Whole;
    let mut stops = Stops::default();
    let mut sequence = 0;
    let mut clock = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return watched };
                if matches!(watched, Watched::Unread(_)) {
                    continue;
                }
                sequence += 1;
                progress.event(&event);
                stops.event(&event);
                let read = if shown.wants(&event) {
                    progress.hide();
                    if shown == Shown::Json {
                        json_line(&Event { sequence, kind: event.clone() })
                    } else {
                        screen.show(&event)
                    }
                } else {
                    Ok(())
                };
                if let Err(failure) = read {
                    watched = Watched::Unread(failure);
                    let _ = control.send(Command::Shutdown).await;
                } else if let EventKind::InputRequested { cell, prompt, password } = event {
                    progress.hide();
                    if typed.draws_lines() && !screen.at_line_start() {
                        eprint("\n");
                    }
                    let command = match typed.input(&prompt, password, signals).await {
                        Ok(Some(value)) => Command::Reply { cell, value },
                        Ok(None) => stops.command(Ask::Interrupt),
                        Err(ask) => stops.command(ask),
                    };
                    screen.line_was_typed();
                    let _ = control.send(command).await;
                }
                progress.show(screen.at_line_start());
            }
            _ = clock.tick(), if progress.ticks() => progress.show(screen.at_line_start()),
            Some(ask) = signals.recv() => {
                watched = Watched::Stopped;
                let _ = control.send(stops.command(ask)).await;
            }
        }
    }
}

impl Shown {
    fn wants(self, event: &EventKind) -> bool {
        let to_stderr = match event {
            EventKind::Output {
                change: OutputChange::Append { output, .. },
                ..
            } => match output {
                Output::Stream { name, .. } => name == "stderr",
                Output::Error { .. } => true,
                Output::DisplayData { .. } | Output::ExecuteResult { .. } | Output::Other(_) => {
                    false
                }
            },
            EventKind::Output { .. } => false,
            _ => true,
        };
        match self {
            Self::All | Self::Json => true,
            Self::Stderr => to_stderr,
            Self::Notices => !matches!(event, EventKind::Output { .. }),
        }
    }
}

/// What signals mean for a run: the first Ctrl-C in a cell interrupts it, the next one restarts the kernel.
#[derive(Debug, Default)]
pub(super) struct Stops {
    interrupts: u32,
}

impl Stops {
    /// Follows the run's events.
    pub(super) fn event(&mut self, event: &EventKind) {
        if matches!(event, EventKind::CodeStarted { .. }) {
            self.interrupts = 0;
        }
    }

    /// The command for a signal.
    pub(super) fn command(&mut self, ask: Ask) -> Command {
        match ask {
            Ask::End => Command::Shutdown,
            Ask::Interrupt => {
                self.interrupts += 1;
                if self.interrupts > 1 {
                    Command::RestartKernel
                } else {
                    Command::Interrupt
                }
            }
        }
    }
}

/// Prints an event.
fn json_line(event: &Event) -> Result<(), Failure> {
    match serde_json::to_string(event) {
        Ok(mut line) => {
            line.push('\n');
            print(&line)
        }
        Err(_) => Ok(()),
    }
}
