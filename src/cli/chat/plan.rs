//! `/plan`: the model writes a plan, the person approves it once or says what is to be different ([`crate::app::plan`]).

use super::Front;
use crate::agent::stream::Rejection;
use crate::agent::{Command, TurnEnd};
use crate::app::plan::{Opinion, Plan};
use crate::cli::eprint;
use crate::cli::exit::Exit;
use crate::cli::interact::Ended;
use crate::cli::stop::Ask;
use crate::cli::style::WARN;

const QUESTION: &str = "Carry it out? [y]es, [n]o, or say what to change:";

impl Front {
    /// Makes a plan for `question`, and carries it out if the person wants it. `Some` if the chat ends with it.
    pub(super) async fn plan(
        &mut self,
        question: &str,
        after_turn: &mut impl FnMut(Ended) -> Option<Exit>,
    ) -> Option<Exit> {
        if !self.interactive {
            eprint("a plan needs a person at a terminal who approves it\n");
            return None;
        }
        let (plan, first) = Plan::begin(question, self.controls.approval);
        self.renderer.name(question);
        let mut commands = vec![first];
        loop {
            let ended = match self.turns(commands).await {
                Ok(Some(ended)) => ended,
                Ok(None) => return None,
                Err(exit) => return Some(exit),
            };
            let is_planned = is_done(&ended);
            if let Some(exit) = after_turn(ended) {
                return Some(exit);
            }
            if !is_planned {
                return None;
            }
            eprint("\n");
            let opinion = match self.typed.answer(QUESTION, &mut self.signals).await {
                Ok(Some(line)) => opinion(&line),
                Ok(None) | Err(Ask::Interrupt) => None,
                Err(Ask::End) => return Some(Exit::Interrupted),
            };
            let Some(opinion) = opinion else {
                eprint("the plan is not carried out\n");
                return None;
            };
            commands = plan.decided(&opinion);
            if opinion != Opinion::Approved {
                continue;
            }
            let ended = match self.turns(commands).await {
                Ok(Some(ended)) => ended,
                Ok(None) => return None,
                Err(exit) => return Some(exit),
            };
            let exit = after_turn(ended);
            if exit.is_none()
                && let Err(exit) = self.turns(plan.ended()).await
            {
                return Some(exit);
            }
            return exit;
        }
    }

    /// Sends `commands`; how the turn ended that one of them began.
    ///
    /// # Errors
    /// The session is gone.
    async fn turns(&mut self, commands: Vec<Command>) -> Result<Option<Ended>, Exit> {
        let mut ended = None;
        for command in commands {
            if let Command::SetApproval { approval } = command {
                self.controls.approval = approval;
            }
            let is_turn = matches!(command, Command::Submit { .. });
            match self.view.send(command).await {
                Ok(()) => {}
                Err(Rejection::Ended) => return Err(Exit::Failed),
                Err(why) => {
                    self.renderer.note(WARN, &why.to_string());
                    return Ok(None);
                }
            }
            if is_turn {
                ended = Some(self.turn().await);
            }
        }
        Ok(ended)
    }
}

fn is_done(ended: &Ended) -> bool {
    let Ended::Turn { end, .. } = ended else {
        return false;
    };
    *end == TurnEnd::Done
}

/// What a line says of a plan; `None` if it is given up.
fn opinion(line: &str) -> Option<Opinion> {
    match line.trim() {
        "" | "n" | "N" | "no" | "q" => None,
        "y" | "Y" | "yes" | "ok" => Some(Opinion::Approved),
        words => Some(Opinion::Changed(words.to_owned())),
    }
}
