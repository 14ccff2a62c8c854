//! Answers `/vars` and `/table`: the kernel's variables, and a table page by page.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::agent::query::{
    ColumnProfile, FrameWindow, Query, QueryAnswer, QueryError, QueryReason, Rows, VariableInfo,
    VariableList,
};
use crate::agent::stream::Queries;
use crate::cli::human;
use crate::cli::look::{Instead, Look, TABLE, TableWish};
use crate::cli::render::grid::{GridColumn, grid};
use crate::cli::style::{columns, rows};

/// Shows variables and tables in a chat.
pub(in crate::cli) struct Looker {
    queries: Queries,
    /// The table that was shown last.
    last: Option<TableWish>,
}

impl Looker {
    /// For a session of this process or another.
    pub(in crate::cli) fn of(queries: Queries) -> Self {
        Self {
            queries,
            last: None,
        }
    }

    /// The text that answers `wish`; `Err` is what went wrong.
    pub(super) async fn look(&mut self, wish: Look) -> Result<String, String> {
        let told = match wish {
            Look::Variables => self.variables().await,
            Look::Table(wish) => {
                let last = self.last.take();
                let wish = wish.or_else(|| {
                    last.map(|last| TableWish {
                        page: last.page + 1,
                        ..last
                    })
                });
                let wish = wish.ok_or_else(|| format!("which table? {TABLE}"))?;
                let told = self.table(&wish).await;
                if told.is_ok() && !matches!(wish.instead, Some(Instead::Save(_))) {
                    self.last = Some(wish);
                }
                told
            }
        };
        told.map_err(|error| words_of(&error))
    }

    async fn variables(&self) -> Result<String, QueryError> {
        match self
            .queries
            .ask(Query::Variables { language: None })
            .await?
        {
            QueryAnswer::Variables(list) => Ok(variables(&list)),
            other => Err(unexpected(&other)),
        }
    }

    async fn table(&self, wish: &TableWish) -> Result<String, QueryError> {
        let name = wish.name.clone();
        if let Some(Instead::Profile(column)) = wish.instead.clone() {
            let shown = column.clone();
            let query = Query::Profile { name, column };
            return match self.queries.ask(query).await? {
                QueryAnswer::Profile(told) => Ok(profile(&shown, &told)),
                other => Err(unexpected(&other)),
            };
        }
        // Leaves room for the column names, the line below and the next prompt.
        let limit = u64::from(rows()).saturating_sub(6).clamp(5, 200);
        let rows = Rows {
            offset: (wish.page - 1).saturating_mul(limit),
            limit: Some(limit),
            sort: wish.sort.clone(),
            descending: wish.descending,
            filter: wish.filter.clone(),
        };
        if let Some(Instead::Save(file)) = &wish.instead {
            let bytes = self.queries.save(&name, &rows, Path::new(file)).await?;
            return Ok(format!("saved {file} ({})\n", human::bytes(bytes)));
        }
        match self.queries.ask(Query::Frame { name, rows }).await? {
            QueryAnswer::Frame(window) => Ok(page(&window, wish.page, limit)),
            other => Err(unexpected(&other)),
        }
    }
}

/// The session's process answered something other than the query.
fn unexpected(answer: &QueryAnswer) -> QueryError {
    tracing::debug!(?answer, "not what was asked");
    let message = "the session gave another answer than was asked for";
    QueryError::new(QueryReason::NoAnswer, message)
}

fn words_of(error: &QueryError) -> String {
    match &error.hint {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    }
}

fn width() -> usize {
    usize::try_from(columns()).unwrap_or(80)
}

fn variables(list: &VariableList) -> String {
    let all = &list.variables;
    if all.is_empty() {
        return "there are no variables yet\n".to_owned();
    }
    let column = |name: &str, is_number, cell: fn(&VariableInfo) -> String| GridColumn {
        name: name.to_owned(),
        cells: all.iter().map(cell).collect(),
        is_number,
    };
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    };
    let mut shown = vec![
        column("name", false, |it| it.name.clone()),
        column("type", false, |it| it.kind.clone()),
        column("shape", true, VariableInfo::extent),
        column("size", true, |it| {
            it.bytes.map(human::bytes).unwrap_or_default()
        }),
        column("value", false, |it| it.preview.clone()),
    ];
    for column in &mut shown {
        for cell in &mut column.cells {
            *cell = plain(cell);
        }
    }
    let mut text = grid(&shown, width());
    if list.more > 0 {
        let _ = writeln!(text, "and {} more", list.more);
    }
    text
}

/// Renders a window of a table.
fn page(window: &FrameWindow, page: u64, limit: u64) -> String {
    let columns = window.columns.iter().enumerate();
    let columns: Vec<GridColumn> = columns
        .map(|(at, column)| {
            let rows = window.rows.iter();
            let values: Vec<&Value> = rows
                .map(|row| row.get(at).unwrap_or(&Value::Null))
                .collect();
            let mut shown = GridColumn::of(&column.name, &values);
            shown.is_number |= is_number(&column.kind);
            shown
        })
        .collect();
    let (total, offset, rows) = (window.total, window.offset, &window.rows);
    let mut text = grid(&columns, width());
    let end = offset.saturating_add(rows.len() as u64);
    let pages = total.div_ceil(limit).max(1);
    let first = if rows.is_empty() { offset } else { offset + 1 };
    let _ = write!(
        text,
        "rows {first} to {end} of {total}, {} columns, page {page} of {pages}",
        columns.len()
    );
    text.push_str(if end < total {
        "; /table for the next one\n"
    } else {
        "\n"
    });
    text
}

/// Whether pandas or polars use this name for a numeric type.
fn is_number(kind: &str) -> bool {
    const NAMES: [&str; 4] = ["int", "uint", "float", "decimal"];
    let kind = kind.to_lowercase();
    NAMES.iter().any(|name| kind.starts_with(name))
}

fn profile(column: &str, told: &ColumnProfile) -> String {
    let mut text = format!("{}\n", column.replace(char::is_control, " "));
    let shown = |value: &Value| match value {
        Value::String(text) => text.replace(char::is_control, " "),
        other => other.to_string(),
    };
    let facts: Vec<String> = [
        ("count", Some(told.count.to_string())),
        ("missing", Some(told.missing.to_string())),
        ("distinct", told.distinct.map(|it| it.to_string())),
        ("min", told.min.as_ref().map(shown)),
        ("max", told.max.as_ref().map(shown)),
        ("mean", told.mean.map(|it| Value::from(it).to_string())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(format!("{key} {}", value?)))
    .collect();
    let _ = writeln!(text, "{}", facts.join(", "));
    let bars: Vec<(String, u64)> = match &told.histogram {
        Some(bins) => bins
            .iter()
            .map(|it| (format!("{:.4} to {:.4}", it.from, it.to), it.count))
            .collect(),
        None => told
            .top
            .iter()
            .map(|it| (human::shortened(&shown(&it.value), 30), it.count))
            .collect(),
    };
    let most = bars
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0)
        .max(1);
    let names = GridColumn {
        name: "value".to_owned(),
        cells: bars.iter().map(|(name, _)| name.clone()).collect(),
        is_number: told.histogram.is_some(),
    };
    let counts = GridColumn {
        name: "count".to_owned(),
        cells: bars.iter().map(|(_, count)| count.to_string()).collect(),
        is_number: true,
    };
    let drawn = GridColumn {
        name: String::new(),
        cells: bars
            .iter()
            .map(|(_, count)| "█".repeat(usize::try_from(count * 30 / most).unwrap_or(0)))
            .collect(),
        is_number: false,
    };
    text + &grid(&[names, counts, drawn], width())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_says_where_it_is() {
        let window = json!({"columns": [{"name": "n", "type": "int64"}], "rows": [[1], [2]], "total": 5, "offset": 2});
        let window: FrameWindow = serde_json::from_value(window).unwrap();
        assert_eq!(
            page(&window, 2, 2),
            "n\n1\n2\nrows 3 to 4 of 5, 1 columns, page 2 of 3; /table for the next one\n"
        );
    }
}
