//! `sponde config`: prints each setting with its value and source ([`crate::app::configured`]).

use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use serde_json::Value;

use super::args::{Cli, ConfigArgs};
use super::style::{DIM, NAME, paint, stdout_colours};
use super::{Context, filter, print, profiles};
use crate::app::configured::{self, Override, Setting, Source};
use crate::cli::exit::Exit;
use crate::error::Failure;

/// The session arguments that override a setting, and which setting.
const ARGUMENTS: [(&str, &str); 15] = [
    ("model", "model"),
    ("code_mode", "code-mode"),
    ("kernel", "kernel"),
    ("stdin", "stdin"),
    ("gateway", "gateway"),
    ("sandbox", "sandbox"),
    ("network", "network"),
    ("add_dirs", "add-dirs"),
    ("approval", "approval.policy"),
    ("install", "install"),
    ("max_steps", "max-steps"),
    ("follow_ups", "follow-ups"),
    ("max_cost", "budget.session.cost"),
    ("max_tokens", "budget.session.tokens"),
    ("cell_timeout", "cell-timeout"),
];

/// Runs it.
pub(super) fn config(args: &ConfigArgs, context: &Context) -> Result<Exit, Failure> {
    let all = configured::settings(&overrides(args), context)
        .map_err(|error| profiles::failure(&error))?;
    let is_wanted = |setting: &&Setting| {
        let mut words = args.words.iter();
        args.words.is_empty() || words.any(|word| setting.key.contains(word.as_str()))
    };
    let shown: Vec<&Setting> = all.iter().filter(is_wanted).collect();
    if args.json {
        let text = serde_json::to_string_pretty(&shown).unwrap_or_default();
        print(&format!("{text}\n"))?;
    } else {
        print(&lines(&shown, context))?;
    }
    if shown.is_empty() {
        return Err(Failure::usage("no setting is called so").hint("`sponde config` lists all"));
    }
    Ok(Exit::Done)
}

/// Overrides from this command line and the environment.
fn overrides(args: &ConfigArgs) -> Vec<Override> {
    let command = Cli::command();
    // Parsed again, because only clap's matches tell where a value came from.
    let matches = command.clone().try_get_matches().unwrap_or_default();
    let Some(own) = matches.subcommand_matches("config") else {
        return Vec::new();
    };
    let of_config = command.find_subcommand("config");
    let argument = |id: &str| {
        let mut all = of_config.into_iter().flat_map(clap::Command::get_arguments);
        all.find(|argument| argument.get_id() == id)
    };
    let source = |id: &str| {
        let argument = argument(id)?;
        match own.value_source(id)? {
            ValueSource::EnvVariable => Some(Source::Environment {
                variable: argument.get_env()?.to_string_lossy().into_owned(),
            }),
            ValueSource::CommandLine => Some(Source::Flag {
                flag: format!("--{}", argument.get_long()?),
            }),
            _ => None,
        }
    };
    let mut all: Vec<Override> = ARGUMENTS
        .iter()
        .filter_map(|(id, key)| {
            Some(Override {
                key: (*key).to_owned(),
                source: source(id)?,
                value: raw(own, id)?,
            })
        })
        .collect();
    if args.session.yes {
        all.push(Override {
            key: "approval.policy".to_owned(),
            value: "never".into(),
            source: Source::Flag {
                flag: "--yes".to_owned(),
            },
        });
    }
    let profile = match matches
        .value_source("profile")
        .or_else(|| own.value_source("profile"))
    {
        Some(ValueSource::EnvVariable) => Some(Source::Environment {
            variable: "SPONDE_PROFILE".to_owned(),
        }),
        Some(ValueSource::CommandLine) => Some(Source::Flag {
            flag: "--profile".to_owned(),
        }),
        _ => None,
    };
    if let (Some(source), Some(value)) = (
        profile,
        raw(own, "profile").or_else(|| raw(&matches, "profile")),
    ) {
        let key = "profile".to_owned();
        all.push(Override { key, value, source });
    }
    all
}

/// The text that was written for an argument.
fn raw(matches: &ArgMatches, id: &str) -> Option<Value> {
    let mut words = matches
        .get_raw(id)?
        .map(|word| Value::from(word.to_string_lossy().into_owned()));
    let first = words.next()?;
    let more: Vec<Value> = words.collect();
    if more.is_empty() {
        return Some(first);
    }
    Some(std::iter::once(first).chain(more).collect())
}

fn lines(shown: &[&Setting], context: &Context) -> String {
    let colours = stdout_colours();
    let keys = shown.iter().map(|it| it.key.chars().count());
    let wide = keys.max().unwrap_or(0);
    let mut text = String::new();
    for setting in shown {
        let value = match (&setting.value, setting.note) {
            (Value::Null, note) => paint(DIM, note.unwrap_or("not set"), colours),
            (Value::String(value), _) => value.clone(),
            (value, _) => value.to_string(),
        };
        let from = match &setting.source {
            Source::Default => "default".to_owned(),
            Source::Config { path } | Source::Profile { path } => path.display().to_string(),
            Source::Environment { variable } => variable.clone(),
            Source::Flag { flag } => flag.clone(),
        };
        let key = paint(NAME, &format!("{:wide$}", setting.key), colours);
        let value = filter::plain(&value).replace('\n', " ");
        let from = paint(DIM, &filter::plain(&format!("({from})")), colours);
        let _ = writeln!(text, "{key}  {value}  {from}");
    }
    let file = context.paths.config.join("config.toml");
    let is_there = if file.exists() {
        ""
    } else {
        ", which is not there"
    };
    text + &filter::plain(&format!("\nconfiguration: {}{is_there}\n", file.display()))
}
