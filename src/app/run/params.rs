//! Parameters from the command line and from files, and the parameters that a notebook declares.

use std::path::{Path, PathBuf};

use super::{Context, Job};
use crate::error::Failure;
use crate::jupyter::nbformat::{Notebook, random_cell_id};
use crate::kernel::KernelSource;
use crate::session::parameters::{
    Declared, PARAMETERS, ParamValue, Parameters, assignments, declared, has_tag, inject,
    parse_yaml,
};

/// Parameters as a person provides them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParameterSettings {
    /// Files: JSON or TOML by their suffix, otherwise YAML.
    pub files: Vec<PathBuf>,
    /// YAML.
    pub yaml: Vec<String>,
    /// `NAME=VALUE`: True, False, None and numbers as in Python, otherwise text.
    pub typed: Vec<String>,
    /// `NAME=TEXT`.
    pub raw: Vec<String>,
}

/// All given parameters: files first, then YAML, then single ones, then raw ones, in papermill's order.
///
/// # Errors
/// A file that cannot be read, or text that contains no parameters.
pub fn parameters(given: &ParameterSettings) -> Result<Parameters, Failure> {
    let mut all = Parameters::default();
    for path in &given.files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
        let value = parse(path, &text).map_err(|error| {
            Failure::usage(format!("could not read parameters from `{shown}`: {error}"))
        })?;
        add(&mut all, value, &format!("`{shown}`"))?;
    }
    for text in &given.yaml {
        let value = parse_yaml(text).map_err(|error| {
            Failure::usage(format!("the parameters in -y are no YAML: {error}"))
        })?;
        add(&mut all, value, "-y")?;
    }
    for text in &given.typed {
        let (name, value) = split(text, "-p")?;
        all.set(name.to_owned(), ParamValue::typed(value));
    }
    for text in &given.raw {
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
        // Dates become text, as in YAML.
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

/// Inserts the parameters into `notebook`, which `kernel` will run. Warns about probable mistakes.
pub(super) fn apply(
    notebook: &mut Notebook,
    kernel: &KernelSource,
    parameters: &Parameters,
    shown: &str,
    context: &Context,
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
        context.notify.warning(format!(
            "`{shown}` has no cell tagged `parameters`: they are set at its top"
        ));
    }
    for (name, _) in parameters.iter() {
        if declared.as_ref().is_some_and(|code| !has_word(code, name)) {
            context
                .notify
                .warning(format!("`{shown}` declares no parameter `{name}`"));
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

/// Whether `code` contains the word `name`, however it declares it.
fn has_word(code: &str, name: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
        .any(|word| word == name)
}

/// The parameters that a notebook or script declares.
///
/// # Errors
/// It cannot be read, or declares none.
pub fn declared_in(job: &Job, cwd: &Path, context: &Context) -> Result<Vec<Declared>, Failure> {
    let source = super::source::read(job, cwd, None, context)?;
    declared(&source.notebook).ok_or_else(|| {
        Failure::usage(format!("`{}` has no cell tagged `parameters`", job.shown)).hint(
            "tag the cell that assigns their defaults: in JupyterLab by the gears at the top right",
        )
    })
}
