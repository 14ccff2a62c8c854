//! Handles a cell that lacks a module: installs the package, if allowed, and runs the cell again.
//!
//! The cell does not end meanwhile. The person is asked like for an input request of code (`input_requested`), so
//! every front end can answer; but the line is not sent to any code.

use futures_util::future::BoxFuture;

use super::{EventKind, ExecuteOptions, OutputEvent, Running, Session, Verdict};
use crate::agent::cell_run::CellRun;
use crate::agent::install::{self, Offer};
use crate::agent::stdin::{AnsweredBy, StdinPolicy};
use crate::jupyter::content::InputRequest;
use crate::kernel::Outcome;

/// Maximum missing modules handled for one cell.
const MODULES: usize = 5;
/// Makes Python rescan directories that it has cached.
const LOOK_AGAIN: &str = "import importlib as _i; _i.invalidate_caches(); del _i";
const LOOK_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// The handling of a missing module.
pub(super) struct Installing {
    module: String,
    /// How the cell ends if the installation fails.
    outcome: Outcome,
    state: State,
}

enum State {
    Looking(BoxFuture<'static, Result<Offer, String>>),
    Asked(Offer),
    Working(Offer, BoxFuture<'static, Result<(), String>>),
}

/// The result of a step.
pub(super) enum Came {
    Looked(Result<Offer, String>),
    Worked(Offer, Result<(), String>),
}

/// Waits for the current step.
pub(super) async fn next_installed(installing: Option<&mut Installing>) -> Came {
    match installing.map(|it| &mut it.state) {
        Some(State::Looking(looking)) => Came::Looked(looking.await),
        Some(State::Working(offer, work)) => {
            let done = work.await;
            Came::Worked(offer.clone(), done)
        }
        Some(State::Asked(_)) | None => std::future::pending().await,
    }
}

impl Session {
    /// Whether the cell that ended this way waits for a package.
    pub(super) fn lacks_module(&mut self, outcome: &Outcome) -> bool {
        let Verdict::Error { ename, evalue } = &outcome.verdict else {
            return false;
        };
        let Some(module) = install::missing_module(ename, evalue).map(str::to_owned) else {
            return false;
        };
        let Some(slot) = self.kernels.get(self.cells.current) else {
            return false;
        };
        let kernel = slot.options.kernel.clone();
        if !kernel.spec.language.eq_ignore_ascii_case("python") {
            return false;
        }
        let again =
            self.cells.looked_for.contains(&module) || self.cells.looked_for.len() >= MODULES;
        let wanted = self.options.installs.as_ref().filter(|_| !again);
        let Some(installs) = wanted.filter(|it| it.policy != install::InstallPolicy::Never) else {
            self.hint(install::hint(&module));
            return false;
        };
        let looking = installs.installer.look(kernel, module.clone());
        self.cells.looked_for.push(module.clone());
        self.cells.installing = Some(Installing {
            module,
            outcome: outcome.clone(),
            state: State::Looking(looking),
        });
        if let Some(running) = &mut self.cells.running {
            running.execution = None;
        }
        true
    }

    /// Continues with the result of a step.
    pub(super) async fn installed(&mut self, came: Came) {
        match came {
            Came::Looked(Ok(offer)) => self.offered(offer).await,
            Came::Looked(Err(why)) => {
                self.publish(EventKind::Notice {
                    message: format!("nothing is installed. {why}"),
                });
                self.stays_missing(&why).await;
            }
            Came::Worked(offer, Ok(())) => self.runs_again(&offer).await,
            Came::Worked(offer, Err(why)) => {
                let message = format!("`{}` could not be installed: {why}", offer.package);
                self.publish(EventKind::Notice {
                    message: message.clone(),
                });
                self.stays_missing(&message).await;
            }
        }
    }

    async fn offered(&mut self, offer: Offer) {
        let Some(installs) = self.options.installs.clone() else {
            return;
        };
        if offer.is_coming {
            self.wait_for(offer);
            return;
        }
        let asks = installs.attended && self.options.stdin != StdinPolicy::Model;
        match installs.policy.judge(&offer, asks) {
            install::Verdict::Install => self.begin_install(offer),
            install::Verdict::Ask => {
                let prompt = install::question(&offer);
                let Some((running, installing)) = self
                    .cells
                    .running
                    .as_mut()
                    .zip(self.cells.installing.as_mut())
                else {
                    return;
                };
                installing.state = State::Asked(offer);
                let cell = running.cell.clone();
                running.input = Some(InputRequest {
                    prompt: prompt.clone(),
                    password: false,
                });
                self.asking.guard.waits();
                let kind = EventKind::InputRequested {
                    cell,
                    prompt,
                    password: false,
                };
                self.publish(kind);
            }
            install::Verdict::Leave => {
                let message = install::left(&offer);
                self.publish(EventKind::Notice { message });
                let why = install::hint(&offer.module);
                self.stays_missing(&why).await;
            }
        }
    }

    fn begin_install(&mut self, offer: Offer) {
        let Some(installs) = &self.options.installs else {
            return;
        };
        let work = installs.installer.install(offer.clone());
        let Offer {
            package,
            environment,
            ..
        } = &offer;
        let message = format!("installing `{package}` into {environment}");
        if let Some(installing) = &mut self.cells.installing {
            installing.state = State::Working(offer, work);
        }
        self.publish(EventKind::Notice { message });
    }

    /// Waits for a package that another Sponde process is installing.
    fn wait_for(&mut self, offer: Offer) {
        let Some(installs) = &self.options.installs else {
            return;
        };
        let work = installs.installer.wait(offer.clone());
        let message = format!(
            "`{}` is being installed into {}: the cell waits for it",
            offer.package, offer.environment
        );
        if let Some(installing) = &mut self.cells.installing {
            installing.state = State::Working(offer, work);
        }
        self.publish(EventKind::Notice { message });
    }

    /// Handles the person's line if it answers this question. Returns whether it did.
    pub(super) async fn answered_install(&mut self, cell: &str, line: &str) -> bool {
        let Some(Installing {
            state: State::Asked(offer),
            ..
        }) = &self.cells.installing
        else {
            return false;
        };
        let offer = offer.clone();
        let Some(running) = self.cells.running.as_mut().filter(|it| it.cell == cell) else {
            return false;
        };
        running.input = None;
        let client = Some(self.subscribers.resolved_by(cell));
        self.publish(EventKind::InputAnswered {
            cell: cell.to_owned(),
            value: Some(line.to_owned()),
            by: AnsweredBy::Person,
            client,
        });
        if install::is_yes(line) {
            self.begin_install(offer);
        } else {
            let why = format!(
                "The user does not want `{}` installed: do it with what is there.",
                offer.package
            );
            self.stays_missing(&why).await;
        }
        true
    }

    /// The package is installed: runs the cell again.
    async fn runs_again(&mut self, offer: &Offer) {
        let Some(Installing {
            outcome, module, ..
        }) = self.cells.installing.take()
        else {
            return;
        };
        let Some(cell) = self.cells.running.as_ref().map(|it| it.cell.clone()) else {
            return;
        };
        let source = self.transcript.cell(&cell).map(|it| it.source.clone());
        let (Some(kernel), Some(source)) =
            (self.kernels.ready(self.cells.current).cloned(), source)
        else {
            // The kernel is starting: the cell runs once it is ready.
            return;
        };
        let message = format!("installed `{}`: the cell runs again", offer.package);
        self.publish(EventKind::Notice { message });
        // The earlier error is obsolete.
        self.emit(cell.clone(), OutputEvent::Clear { wait: false })
            .await;
        if let Ok(aside) = kernel
            .execute(ExecuteOptions::aside(LOOK_AGAIN, LOOK_WITHIN))
            .await
        {
            aside.collect().await;
        }
        let options = ExecuteOptions {
            allow_stdin: self.options.stdin != StdinPolicy::Refuse,
            timeout: self.options.cell_timeout,
            ..ExecuteOptions::cell(source)
        };
        let permit = self.tool_permit(&cell);
        match CellRun::start(&kernel, options).await {
            Ok(execution) => {
                self.cells.running = Some(Running {
                    cell,
                    execution: Some(execution.with(permit)),
                    input: None,
                    answers: 0,
                });
            }
            Err(error) => {
                self.hint(format!(
                    "`{module}` was installed, but the cell could not run again: {error}"
                ));
                self.cell_over(cell, outcome).await;
            }
        }
    }

    /// The package was not installed: the cell ends with its original outcome.
    async fn stays_missing(&mut self, why: &str) {
        let Some(Installing { outcome, .. }) = self.cells.installing.take() else {
            return;
        };
        let Some(running) = self.cells.running.take() else {
            return;
        };
        self.asking.guard.goes_on();
        self.hint(why.to_owned());
        self.cell_over(running.cell, outcome).await;
    }
}
