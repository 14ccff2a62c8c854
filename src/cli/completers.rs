//! Shell completions for our arguments: sessions, kernels, models, levels.

use std::ffi::OsStr;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::{Context, human};
use crate::agent::sessions::{self, Found};
use crate::app::{Notify, model};
use crate::kernel::Registry;
use crate::paths::{Environment, Paths};

/// How long servers on this machine may take to list their models.
const MODELS_WITHIN: Duration = Duration::from_secs(1);
/// How many characters of a question are shown beside its session.
const SHOWN: usize = 50;

/// The shells that have completions.
pub(super) fn shells() -> PossibleValuesParser {
    PossibleValuesParser::new(["bash", "zsh", "fish", "elvish", "powershell", "man"])
}

/// Completes a session.
pub(super) fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let Ok(paths) = Paths::of(Environment::of_process()) else {
            return Vec::new();
        };
        let all = sessions::list(&paths.sessions());
        let fits = |found: &&Found| {
            let short = sessions::short(&found.id, &all);
            short.starts_with(&*typed) || found.id.starts_with(&*typed)
        };
        all.iter()
            .filter(fits)
            .map(|found| {
                let short = sessions::short(&found.id, &all);
                let is_short = short.starts_with(&*typed);
                let name = if is_short { short } else { found.id.as_str() };
                let help = human::shortened(found.summary.name().unwrap_or_default(), SHOWN);
                CompletionCandidate::new(name).help(Some(help.into()))
            })
            .collect()
    })
}

/// Completes a kernel by its name.
pub(super) fn kernels() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, &|_| {
            let context = quiet_context();
            let found = context.map(|it| it.paths.kernels().list());
            found.into_iter().flatten().map(|it| it.name).collect()
        })
    })
}

/// Completes a model: configured, installed, or on a server on this machine.
pub(super) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, &|_| listed_models().unwrap_or_default())
    })
}

fn listed_models() -> Option<Vec<String>> {
    let context = quiet_context()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let listed = async { tokio::time::timeout(MODELS_WITHIN, model::listed(&context)).await };
    let listed = runtime.block_on(listed).ok()?;
    Some(listed.into_iter().map(|model| model.name).collect())
}

/// The program's context, without messages to the person who is typing.
fn quiet_context() -> Option<Context> {
    let environment = Environment::of_process();
    let redactor = environment.redactor();
    super::context(None, Paths::of(environment), redactor, Notify::new(|_| {})).ok()
}

/// Completes a sandbox level.
pub(super) fn levels() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, &|_| words(&LEVELS)))
}

/// Completes a network; hosts are for the person to know.
pub(super) fn networks() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| candidates(typed, &network))
}

const LEVELS: [&str; 5] = [
    "read-only",
    "workspace",
    "full",
    "gvisor",
    "gvisor-read-only",
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Whole values that `typed` may become, including the next entry of a list.
fn network(typed: &str) -> Vec<String> {
    if !typed.starts_with("allow:") {
        return words(&["off", "allow:", "on"]);
    }
    let before = typed.rfind([',', ':']).map_or(0, |at| at + 1);
    let before = typed.get(..before).unwrap_or_default();
    let registries = Registry::ALL.iter().map(|registry| registry.name());
    registries
        .filter(|name| !before.split([',', ':']).any(|entry| entry == *name))
        .map(|name| format!("{before}{name}"))
        .collect()
}

fn candidates(typed: &OsStr, all: &dyn Fn(&str) -> Vec<String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    all(&typed)
        .into_iter()
        .filter(|value| value.starts_with(&*typed))
        .map(CompletionCandidate::new)
        .collect()
}

/// Completes nothing: cell numbers depend on the argument before.
pub(super) fn cells() -> ArgValueCompleter {
    ArgValueCompleter::new(|_: &OsStr| Vec::new())
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn a_network_is_completed_entry_by_entry() {
        assert_eq!(network("o"), ["off", "allow:", "on"]);
        let all = ["allow:pypi", "allow:cran", "allow:npm", "allow:conda"];
        assert_eq!(network("allow:"), all);
        let more = [
            "allow:pypi,a.org,cran",
            "allow:pypi,a.org,npm",
            "allow:pypi,a.org,conda",
        ];
        assert_eq!(network("allow:pypi,a.org,n"), more);
    }
}
