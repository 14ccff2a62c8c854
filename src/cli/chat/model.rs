//! `/model`: switches to another model.

use tokio::sync::mpsc;

use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind};
use crate::cli::render::Renderer;
use crate::cli::stop::Ask;
use crate::cli::{eprint, filter};

/// The result of a switch.
pub(super) enum Changed {
    /// This model answers now.
    To(String),
    /// The old model stays; the reason was printed.
    Not,
    /// The session is gone.
    Gone,
    /// The person wants the program to end.
    End,
}

/// Switches to the model called `name`, or prints which one answers. Ctrl-C cancels.
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
