//! Parameters from the command line and from files, and the list of those that a notebook declares.

use std::fmt::Write as _;
use std::path::Path;

use super::super::args::RunArgs;
use super::super::style::{self, WARN, paint};
use super::super::{eprint, filter};
use crate::error::Failure;
use crate::jupyter::nbformat::{Notebook, random_cell_id};
use crate::kernel::KernelSource;
use crate::session::parameters::{
    PARAMETERS, ParamValue, Parameters, assignments, declared, has_tag, inject, parse_yaml,
};

/// All parameters that were given: files first, then YAML, then single ones, then raw ones, as papermill has it.
pub(super) fn read(args: &RunArgs) -> Result<Parameters, Failure> {
    let mut all = Parameters::default();
    for path in &args.parameters_files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
        let value = parse(path, &text).map_err(|error| {
            Failure::usage(format!("could not read parameters from `{shown}`: {error}"))
        })?;
        add(&mut all, value, &format!("`{shown}`"))?;
    }
    for text in &args.parameters_yaml {
        let value = parse_yaml(text).map_err(|error| {
            Failure::usage(format!("the parameters in -y are no YAML: {error}"))
        })?;
        add(&mut all, value, "-y")?;
    }
    for text in &args.parameters {
        let (name, value) = split(text, "-p")?;
        all.set(name.to_owned(), ParamValue::typed(value));
    }
    for text in &args.raw {
        let (name, value) = split(text, "-r")?;
        all.set(name.to_owned(), ParamValue::Text(value.to_owned()));
    }
    Ok(all)
}

fn split<'a>(text: &'a str, flag: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=').ok_or_else(|| {
        Failure::usage(format!("`{flag} {text}` names no value")).hint(format!(
            "write `{flag} NAME=VALUE`, without spaces around `=`"
        ))
    })
}

fn parse(path: &Path, text: &str) -> Result<ParamValue, String> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("json") => serde_json::from_str(text)
            .map(ParamValue::from_json)
            .map_err(|error| error.to_string()),
        // Dates become text, as they do in YAML.
        Some("toml") => toml::from_str::<toml::Table>(text)
            .map(|table| from_toml(toml::Value::Table(table)))
            .map_err(|error| error.to_string()),
        _ => parse_yaml(text).map_err(|error| error.to_string()),
    }
}

fn from_toml(value: toml::Value) -> ParamValue {
    match value {
        toml::Value::String(text) => ParamValue::Text(text),
        toml::Value::Integer(value) => ParamValue::Int(value.to_string()),
        toml::Value::Float(value) => ParamValue::Float(value),
        toml::Value::Boolean(value) => ParamValue::Bool(value),
        toml::Value::Datetime(value) => ParamValue::Text(value.to_string()),
        toml::Value::Array(values) => ParamValue::List(values.into_iter().map(from_toml).collect()),
        toml::Value::Table(fields) => ParamValue::Map(
            fields
                .into_iter()
                .map(|(name, value)| (name, from_toml(value)))
                .collect(),
        ),
    }
}

fn add(all: &mut Parameters, value: ParamValue, whence: &str) -> Result<(), Failure> {
    match value {
        ParamValue::Null => {}
        ParamValue::Map(fields) => {
            for (name, value) in fields {
                all.set(name, value);
            }
        }
        ParamValue::Bool(_)
        | ParamValue::Int(_)
        | ParamValue::Float(_)
        | ParamValue::Text(_)
        | ParamValue::List(_) => {
            return Err(Failure::usage(format!(
                "{whence} does not give parameters by name"
            )));
        }
    }
    Ok(())
}

/// Puts the parameters into `notebook`, which `kernel` will run. What looks like a slip is warned about.
pub(super) fn apply(
    notebook: &mut Notebook,
    kernel: &KernelSource,
    parameters: &Parameters,
    shown: &str,
) -> Result<(), Failure> {
    if parameters.is_empty() {
        return Ok(());
    }
    let declared = declaring(notebook);
    let several = notebook.cells.len() > 1;
    let code = assignments(&kernel.name, &kernel.spec.language, parameters)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let tagged = inject(notebook, code, random_cell_id(), parameters);
    if !tagged && several {
        warn(&format!(
            "`{shown}` has no cell tagged `parameters`: they are set at its top"
        ));
    }
    for (name, _) in parameters.iter() {
        if declared.as_ref().is_some_and(|code| !has_word(code, name)) {
            warn(&format!("`{shown}` declares no parameter `{name}`"));
        }
    }
    Ok(())
}

/// The code that declares the parameters.
fn declaring(notebook: &Notebook) -> Option<String> {
    let mut cells = notebook.cells.iter();
    let cell = cells.find(|cell| has_tag(cell, PARAMETERS))?;
    Some(cell.source.clone())
}

/// Whether `name` stands in `code`, in whatever way it is declared there.
fn has_word(code: &str, name: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
        .any(|word| word == name)
}

pub(super) fn warn(text: &str) {
    let text = filter::plain(&format!("note: {text}\n"));
    eprint(&paint(WARN, &text, style::stderr_colours()));
}

/// The parameters of a notebook, for a person.
pub(super) fn list(notebook: &Notebook, shown: &str) -> Result<String, Failure> {
    let Some(all) = declared(notebook) else {
        return Err(
            Failure::usage(format!("`{shown}` has no cell tagged `parameters`")).hint(
                "tag the cell that assigns their defaults: in JupyterLab by the gears at the top right",
            ),
        );
    };
    let mut text = String::new();
    for parameter in all {
        let kind = parameter
            .annotation
            .map(|kind| format!(": {kind}"))
            .unwrap_or_default();
        let line = format!("{}{kind} = {}", parameter.name, parameter.default);
        let help = parameter.help;
        let _ = if help.is_empty() {
            writeln!(text, "{line}")
        } else {
            writeln!(text, "{line:<32}  {help}")
        };
    }
    Ok(filter::plain(&text))
}
