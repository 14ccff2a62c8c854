//! Every setting with its value and source: a flag, the environment, a profile, config.toml, or the default.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::Context;
use super::session::{CELL_TIMEOUT, MAX_STEPS};
use crate::agent::sql::SQL_TIMEOUT;
use crate::agent::undo::{CHECKPOINTS, FileLimits};
use crate::config::{ConfigError, profile};
use crate::kernel::sandbox::limits::Limits;
use crate::session::OutputLimits;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
    /// The setting is not set anywhere.
    Default,
    /// The file `config.toml`.
    Config {
        /// Its path.
        path: PathBuf,
    },
    /// The profile, which overrides the file.
    Profile {
        /// Its path.
        path: PathBuf,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// The command line.
    Flag {
        /// As written on the command line.
        flag: String,
    },
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The dotted key in config.toml.
    pub key: String,
    /// The effective value; `null` if there is none.
    pub value: Value,
    /// Its source.
    #[serde(flatten)]
    pub source: Source,
    /// Explains an unset value that does not explain itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// A value that overrides the files.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Same as [`Setting::key`].
    pub key: String,
    /// The value.
    pub value: Value,
    /// A flag or a variable.
    pub source: Source,
}

/// All known settings and any others that are set, in the order of the documentation. Secrets in values are redacted.
///
/// # Errors
/// A file that can no longer be read.
pub fn settings(overrides: &[Override], context: &Context) -> Result<Vec<Setting>, ConfigError> {
    let profile = context.config.profile.as_deref();
    let said = profile::said(&context.paths.config, profile)?;
    let base = context.paths.config.join("config.toml");
    let mut all = defaults();
    let mut set = |key: &str, value: Value, source: Source| {
        let value = redacted(value, context);
        match all.iter_mut().find(|setting| setting.key == key) {
            Some(setting) => {
                setting.value = value;
                setting.source = source;
                setting.note = None;
            }
            None => all.push(Setting {
                key: key.to_owned(),
                value,
                source,
                note: None,
            }),
        }
    };
    for said in said {
        // `approval = "always"` is short for its policy.
        let key = match said.key.as_str() {
            "approval" => "approval.policy",
            key => key,
        };
        let value = serde_json::to_value(&said.value).unwrap_or_default();
        let source = if said.path == base {
            Source::Config { path: said.path }
        } else {
            Source::Profile { path: said.path }
        };
        set(key, value, source);
    }
    for over in overrides {
        set(&over.key, over.value.clone(), over.source.clone());
    }
    Ok(all)
}

/// Redacts this person's secrets.
fn redacted(value: Value, context: &Context) -> Value {
    match value {
        Value::String(text) => Value::String(context.redactor.all(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(|it| redacted(it, context)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(key, it)| (key, redacted(it, context)))
                .collect()
        }
        other => other,
    }
}

/// The defaults.
fn defaults() -> Vec<Setting> {
    let setting = |key: &str, value: Value, note: Option<&'static str>| Setting {
        key: key.to_owned(),
        value,
        source: Source::Default,
        note,
    };
    let known = |key: &str, value: u64| setting(key, value.into(), None);
    let unset = |key: &str, note: &'static str| setting(key, Value::Null, Some(note));
    let mebibytes = |bytes: usize| u64::try_from(bytes >> 20).unwrap_or(u64::MAX);
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let outputs = OutputLimits::default();
    let kernel = Limits::default();
    vec![
        unset("profile", "none"),
        unset("description", "none"),
        unset("prompt", "nothing is added to the system prompt"),
        unset("model", "the first that can be asked, see `sponde models`"),
        unset("code-mode", "what suits the model"),
        unset("temperature", "the provider's; 0 for small models"),
        unset("seed", "none"),
        unset("stdin", "you, or nobody where nobody is at the terminal"),
        unset("install", "you are asked"),
        unset("kernel", "python3, or the first that is found"),
        unset("gateway", "kernels run on this machine"),
        unset(
            "approval.policy",
            "on-risk for code in a sandbox, else always",
        ),
        unset("approval.rules", "none"),
        setting("sandbox", "workspace".into(), None),
        setting("network", "off".into(), None),
        unset("add-dirs", "none"),
        known("max-steps", MAX_STEPS.into()),
        setting("follow-ups", false.into(), None),
        unset("budget.session.cost", "no limit"),
        unset("budget.session.tokens", "no limit"),
        unset("budget.turn.cost", "no limit"),
        unset("budget.turn.tokens", "no limit"),
        known("cell-timeout", CELL_TIMEOUT.as_secs()),
        known("sql-timeout", SQL_TIMEOUT.as_secs()),
        known("limits.cell-text", mebibytes(outputs.cell_text)),
        known("limits.cell-rich", mebibytes(outputs.cell_rich)),
        known("limits.cell-outputs", count(outputs.cell_outputs)),
        known("limits.cell-images", count(outputs.cell_images)),
        known("limits.session", mebibytes(outputs.session)),
        known("limits.files", outputs.files >> 20),
        known("kernel-limits.memory", kernel.memory >> 20),
        known("kernel-limits.processes", kernel.processes),
        unset("kernel-limits.cpu-seconds", "no limit"),
        known("kernel-limits.file", kernel.file >> 20),
        known("kernel-limits.open-files", kernel.open_files),
        unset("kernel-limits.disk", "what is free"),
        known("kernel-limits.temporary", kernel.temporary >> 20),
        unset("kernel-limits.idle", "no limit"),
        known("undo.checkpoints", count(CHECKPOINTS)),
        unset("undo.memory", "a part of what is free"),
        known("undo.files", FileLimits::default().bytes >> 20),
        setting("terminal.title", true.into(), None),
        known("terminal.notify-after", NOTIFY_AFTER.into()),
        setting("terminal.links", true.into(), None),
        unset("providers", "those that are known"),
        unset("databases", "none"),
        unset("mcp", "none"),
    ]
}

/// After this many seconds of work, a terminal calls the person, who may have gone.
pub const NOTIFY_AFTER: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    /// The known keys of a table in config.toml, from its parser's error about an unknown key.
    fn known_keys(text: &str) -> Vec<String> {
        let error = toml::from_str::<crate::config::Config>(text).unwrap_err();
        let error = error.to_string();
        let (_, expected) = error.split_once("expected one of ").unwrap();
        let keys = expected.lines().next().unwrap().split(", ");
        keys.map(|key| key.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn every_key_of_the_configuration_is_listed() {
        let listed = defaults();
        let is_listed = |key: &str| {
            let below = format!("{key}.");
            let fits = |it: &Setting| it.key == key || it.key.starts_with(&below);
            listed.iter().any(fits)
        };
        for key in known_keys("nosuch = 1") {
            assert!(is_listed(&key), "{key}");
        }
        for table in ["limits", "kernel-limits", "undo", "terminal"] {
            for key in known_keys(&format!("[{table}]\nnosuch = 1")) {
                assert!(is_listed(&format!("{table}.{key}")), "{table}.{key}");
            }
        }
    }
}
