//! `/model`: another model from now on.

use tokio::sync::mpsc;

use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind};
use crate::cli::render::Renderer;
use crate::cli::stop::Ask;
use crate::cli::{eprint, filter};

/// What came of it.
pub(super) enum Changed {
    /// This one answers now.
    To(String),
    /// The old one goes on, and it was said why.
    Not,
    /// The session is gone.
    Gone,
    /// The person wants the program to end.
    End,
}

/// Lets the model called `name` answer from now on, or says who does. Ctrl-C gives up.
pub(super) async fn set(
    name: Option<String>,
    current: Option<&str>,
    agent: &mut View,
    renderer: &mut Renderer,
    signals: &mut mpsc::Receiver<Ask>,
) -> Changed {
    let Some(name) = name else {
        let model = current.unwrap_or("no model");
        eprint(&filter::plain(&format!(
            "{model} answers; /model provider/name changes that, `sponde models` lists what there is\n"
        )));
        return Changed::Not;
    };
    let wish = Command::SetModel { model: name };
    match agent.send(wish).await {
        Ok(()) => {}
        Err(Rejection::Ended) => return Changed::Gone,
        Err(why) => {
            eprint(&format!("{why}\n"));
            return Changed::Not;
        }
    }
    loop {
        tokio::select! {
            event = agent.recv() => {
                let Some(event) = event else { return Changed::Gone };
                renderer.show(&event.kind);
                match event.kind {
                    EventKind::ModelChanged { model, .. } => return Changed::To(model),
                    EventKind::ModelUnchanged { .. } => return Changed::Not,
                    _ => {}
                }
            }
            Some(ask) = signals.recv() => match ask {
                Ask::Interrupt => {
                    if agent.send(Command::Interrupt).await == Err(Rejection::Ended) {
                        return Changed::Gone;
                    }
                }
                Ask::End => return Changed::End,
            },
        }
    }
}
