//! Possible arguments of a command: kernels, models, sessions, profiles, levels.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::agent::sessions;
use crate::app::{Context, model};
use crate::config::profile;

/// How long servers on this machine may take to list their models.
const MODELS_WITHIN: Duration = Duration::from_secs(2);
/// How many sessions are offered, latest first.
const SESSIONS: usize = 50;

/// What a person can choose from in a chat.
#[derive(Clone)]
pub(in crate::cli) struct Choices {
    kernels: Vec<String>,
    context: Context,
    runtime: Handle,
}

impl Choices {
    /// With these kernels. Call it inside the runtime.
    pub(in crate::cli) fn of(kernels: Vec<String>, context: &Context) -> Self {
        Self {
            kernels,
            context: context.clone(),
            runtime: Handle::current(),
        }
    }

    /// Where the argument of the command in `before` begins, and its possible values; `None` if the command takes no
    /// argument from a list.
    pub(super) fn of_argument(&self, before: &str) -> Option<(usize, Vec<String>)> {
        let (command, typed) = before.split_once(' ')?;
        let all = match command {
            "/kernel" | "/kernels" => self.kernels.clone(),
            "/model" => self.models(),
            "/resume" => self.sessions(),
            "/profile" => self.profiles(),
            "/approve" => words(&["always", "on-risk", "never"]),
            "/sandbox" => words(&["read-only", "workspace", "full", "off", "on"]),
            _ => return None,
        };
        let fitting = all.into_iter().filter(|it| it.starts_with(typed));
        Some((before.len() - typed.len(), fitting.collect()))
    }

    fn models(&self) -> Vec<String> {
        let listed =
            async { tokio::time::timeout(MODELS_WITHIN, model::listed(&self.context)).await };
        let listed = self.runtime.block_on(listed).unwrap_or_default();
        listed.into_iter().map(|model| model.name).collect()
    }

    fn sessions(&self) -> Vec<String> {
        let all = sessions::list(&self.context.paths.sessions());
        let free = all.iter().filter(|found| found.open.is_none());
        free.take(SESSIONS)
            .map(|found| sessions::short(&found.id, &all).to_owned())
            .collect()
    }

    fn profiles(&self) -> Vec<String> {
        let all = profile::list(&self.context.paths.config);
        all.into_iter().map(|found| found.name).collect()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
