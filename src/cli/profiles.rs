//! `sponde profiles`: lists the profiles, their files, which one is in use, and any errors in them.

use std::fmt::Write as _;

use super::style::{BAD, DIM, GOOD, NAME, paint, stdout_colours};
use super::{Context, filter, print};
use crate::cli::exit::Exit;
use crate::config::{Config, ConfigError, profile};
use crate::error::Failure;

/// Runs it.
pub(super) fn profiles(context: &Context) -> Result<Exit, Failure> {
    let folder = profile::folder(&context.paths.config);
    let active = context.config.profile.as_deref();
    let colours = stdout_colours();
    let mut text = String::new();
    let all = profile::list(&context.paths.config);
    for found in &all {
        let mark = if active == Some(found.name.as_str()) {
            paint(GOOD, "*", colours)
        } else {
            " ".to_owned()
        };
        let name = paint(NAME, &found.name, colours);
        let path = paint(DIM, &format!("({})", found.path.display()), colours);
        match &found.config {
            Ok(config) => {
                let says = filter::plain(&says(config));
                let _ = writeln!(text, "{mark} {name}  {says}  {path}");
            }
            Err(error) => {
                let error = filter::plain(&error.to_string()).replace('\n', "\n    ");
                let _ = writeln!(text, "{mark} {name}  {}", paint(BAD, &error, colours));
            }
        }
    }
    if all.is_empty() {
        let _ = writeln!(
            text,
            "no profiles: each is a file in {}, written as config.toml is",
            folder.display()
        );
    }
    print(&text)?;
    let broken = all.iter().any(|profile| profile.config.is_err());
    Ok(if broken { Exit::Usage } else { Exit::Done })
}

/// The profile's description, or the settings in it.
fn says(config: &Config) -> String {
    if let Some(description) = &config.description {
        return description.trim().to_owned();
    }
    let mut parts = Vec::new();
    for (name, value) in [("model", &config.model), ("kernel", &config.kernel)] {
        parts.extend(value.as_ref().map(|value| format!("{name} {value}")));
    }
    parts.extend(config.code_mode.map(|mode| format!("code mode {mode}")));
    if let Some(prompt) = &config.prompt {
        let first = prompt.trim().lines().next().unwrap_or_default();
        let short: String = first.chars().take(60).collect();
        let more = if short.len() < prompt.trim().len() {
            ".."
        } else {
            ""
        };
        parts.push(format!("\"{short}{more}\""));
    }
    parts.join(", ")
}

/// The failure shown when the configuration cannot be used.
pub(super) fn failure(error: &ConfigError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        ConfigError::NoProfile {
            name,
            folder,
            known,
        } if known.is_empty() => failure.hint(format!(
            "write one: {folder}/{name}.toml says what config.toml may say"
        )),
        ConfigError::NoProfile { known, .. } => {
            failure.hint(format!("there are: {}", known.join(", ")))
        }
        ConfigError::Unreadable { .. } | ConfigError::Invalid { .. } => failure,
    }
}
