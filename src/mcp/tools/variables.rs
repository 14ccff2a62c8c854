//! `list_variables` and `read_variable`: the state of a kernel, without running a cell.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::state::McpServer;
use super::{Arguments, Failed, default_session, fields, said};
use crate::agent::query::{FrameWindow, QueryError, QueryReason, Rows, VariableInfo};
use crate::app::executor::Looked;

/// Rows of a window unless told otherwise.
const ROWS: u64 = 50;
/// Characters of a field in a table.
const FIELD: usize = 200;
/// Variables of a list.
const VARIABLES: usize = 300;

/// What `list_variables` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListVariables {
    /// The session.
    #[serde(default = "default_session")]
    session: String,
    /// Of the kernel for this language; default is the main one.
    language: Option<String>,
}

/// What `read_variable` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadVariable {
    /// The name of the variable.
    name: String,
    /// The session.
    #[serde(default = "default_session")]
    session: String,
    /// The first row, from 0.
    #[serde(default)]
    offset: u64,
    /// How many rows, at most 500; default is 50.
    limit: Option<u64>,
    /// The column to sort by.
    sort: Option<String>,
    /// Largest first.
    #[serde(default)]
    descending: bool,
    /// Only rows with this text in them.
    filter: Option<String>,
}

pub(super) async fn list(
    server: &McpServer,
    arguments: Arguments<ListVariables>,
) -> Result<Value, Failed> {
    let ListVariables { session, language } = arguments?;
    let session = server.executor().running(&session)?;
    let found = session.live.asides.variables(language.as_deref()).await;
    let list = found.map_err(Failed::from)?;
    let (variables, more) = list.first(VARIABLES);
    let mut text = String::new();
    for it in &variables {
        let (extent, head) = (extent(it), short(&it.preview));
        let _ = writeln!(text, "{}: {}{extent} = {head}", it.name, it.kind);
    }
    if more > 0 {
        let _ = writeln!(text, "[{more} more]");
    }
    if variables.is_empty() {
        text.push_str("there are no variables yet");
    }
    let variables = variables.iter().map(VariableInfo::brief).collect();
    Ok(said(text, &fields::Variables { variables, more }))
}

pub(super) async fn read(
    server: &McpServer,
    arguments: Arguments<ReadVariable>,
) -> Result<Value, Failed> {
    let wanted = arguments?;
    let session = server.executor().running(&wanted.session)?;
    let rows = Rows {
        offset: wanted.offset,
        limit: Some(wanted.limit.unwrap_or(ROWS)),
        sort: wanted.sort,
        descending: wanted.descending,
        filter: wanted.filter,
    };
    match session.look_at(&wanted.name, &rows).await {
        Ok(Looked::Rows(window)) => Ok(said(table(&window), &fields::ReadVariable::Rows(&window))),
        Ok(Looked::Beginning(it)) => Ok(said(
            format!(
                "{}{}: {}\n[run code to see more of it]",
                it.kind,
                extent(&it),
                it.preview
            ),
            &fields::ReadVariable::Beginning(it.brief()),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Its shape in brackets.
fn extent(it: &VariableInfo) -> String {
    match it.extent() {
        none if none.is_empty() => none,
        extent => format!(" ({extent})"),
    }
}

/// A window as tab-separated lines, which cost a model least.
fn table(window: &FrameWindow) -> String {
    let columns = window.columns.iter();
    let names: Vec<String> = columns
        .map(|column| format!("{} ({})", column.name, column.kind))
        .collect();
    let mut text = names.join("\t");
    for row in &window.rows {
        let fields = row.iter().map(|field| match field {
            Value::Null => String::new(),
            Value::String(text) => short(text),
            other => other.to_string(),
        });
        text.push('\n');
        text.push_str(&fields.collect::<Vec<_>>().join("\t"));
    }
    let (offset, total) = (window.offset, window.total);
    let end = offset.saturating_add(window.rows.len() as u64);
    let _ = if window.rows.is_empty() {
        write!(text, "\n[no rows of {total}]")
    } else {
        write!(text, "\n[rows {offset} to {} of {total}]", end - 1)
    };
    text
}

/// One line, not too long.
fn short(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(FIELD)
        .collect();
    if line.len() < text.len() {
        line + "…"
    } else {
        line
    }
}

impl From<QueryError> for Failed {
    fn from(error: QueryError) -> Self {
        let hint = match error.reason {
            QueryReason::NoKernel => Some("it starts with the first code that runs".to_owned()),
            _ => error.hint,
        };
        Self::new(error.message).or_hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_window_is_lines() {
        let window = |value| serde_json::from_value::<FrameWindow>(value).unwrap();
        let shown = window(json!({
            "columns": [{"name": "city", "type": "object"}, {"name": "rain", "type": "float64"}],
            "rows": [["A\tB", 1.5], ["C", null]],
            "total": 9,
            "offset": 3,
        }));
        assert_eq!(
            table(&shown),
            "city (object)\train (float64)\nA B\t1.5\nC\t\n[rows 3 to 4 of 9]"
        );
        assert_eq!(
            table(&window(
                json!({"columns": [], "rows": [], "total": 0, "offset": 0})
            )),
            "\n[no rows of 0]"
        );
    }
}
