//! An SQLite database: its tables, their columns, about how many rows.
//!
//! Read by a reader of our own, of the file format as SQLite describes it ("Database File Format"): the library itself is C,
//! costs a minute to compile, and runs what a hostile database holds. Nothing is locked and nothing is written.

mod pages;
mod schema;

use std::fmt::Write as _;
use std::fs::File;

use super::column::{Column, Numerals, Value};
use super::input::Broken;
use super::names::{python_string, shown_name, shown_path};
use super::sketch::Part;
use super::target::{Found, Target};
use super::{COLUMNS, is_secret, size};
use pages::{Database, Item, Row};
use schema::Schema;

/// Tables that are described; the others are named.
const TABLES: usize = 12;
/// Tables that are named.
const NAMED: usize = 60;

/// Describes a database.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    let mut database = Database::open(file, bytes)?;
    let mut tables = Vec::new();
    let mut views = Vec::new();
    for row in database.rows(1, pages::SCHEMA)? {
        let text = |at: usize| match row.items.get(at) {
            Some(Item::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let (kind, name) = (text(0), text(1));
        // SQLite's own.
        if name.starts_with("sqlite_") {
            continue;
        }
        let root = match row.items.get(3) {
            Some(Item::Int(root)) => u32::try_from(*root).unwrap_or(0),
            _ => 0,
        };
        match kind.as_str() {
            "table" => tables.push((name, root, text(4))),
            "view" => views.push(name),
            _ => {}
        }
    }
    let counted =
        |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut head = format!(
        "File {}: {}, an SQLite database with {}",
        shown_path(target.inner),
        size(bytes),
        counted(tables.len(), "table")
    );
    if !views.is_empty() {
        let names: Vec<String> = views.iter().take(10).map(|it| shown_name(it)).collect();
        let _ = write!(
            head,
            " and {} ({})",
            counted(views.len(), "view"),
            names.join(", ")
        );
    }
    let log = {
        let mut name = target.path.as_os_str().to_owned();
        name.push("-wal");
        std::fs::metadata(name).is_ok_and(|it| it.len() > 0)
    };
    if log {
        head.push_str(". What is in its log (-wal) was not read");
    }
    let first = tables.first().map_or("sqlite_master", |(name, _, _)| name);
    let query = python_string(&format!("SELECT * FROM \"{}\"", first.replace('"', "\"\"")));
    let recipe = target.language.recipe(
        target.inner,
        |path| {
            format!("import sqlite3; con = sqlite3.connect({path}); df = pd.read_sql({query}, con)")
        },
        &format!(
            "con <- DBI::dbConnect(RSQLite::SQLite(), {{}}); df <- DBI::dbGetQuery(con, {query})"
        ),
    );
    let _ = write!(head, ". {recipe}");
    let mut parts = vec![Part::line(head)];
    for (name, root, sql) in tables.iter().take(TABLES) {
        parts.push(table(&mut database, name, *root, sql));
    }
    if tables.len() > TABLES {
        let names: Vec<String> = (tables.iter().skip(TABLES).take(NAMED))
            .map(|(name, _, _)| shown_name(name))
            .collect();
        let more = match tables.len().saturating_sub(TABLES + NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(Part::line(format!(
            "Other tables: {}{more}",
            names.join(", ")
        )));
    }
    Ok(parts)
}

fn table(database: &mut Database<'_>, name: &str, root: u32, sql: &str) -> Part {
    let schema = Schema::of(sql);
    let shown = shown_name(name);
    if root == 0 {
        return Part::line(format!("Table {shown}: virtual"));
    }
    let count = match database.count(root) {
        Ok(count) if count.is_exact => format!("{} rows", count.rows),
        Ok(count) => format!("about {} rows", count.rows),
        Err(Broken(why)) => format!("rows not counted ({why})"),
    };
    let rows = if schema.without_rowid {
        Vec::new()
    } else {
        database.rows(root, pages::FIRST).unwrap_or_default()
    };
    let mut part = Part {
        head: format!("Table {shown}: {count}"),
        total: schema.columns.len(),
        noun: "columns",
        ..Part::default()
    };
    for (at, column) in schema.columns.iter().take(COLUMNS).enumerate() {
        let mut seen = Column::new(Numerals::Point);
        for row in &rows {
            take(&mut seen, row, at, column.is_rowid);
        }
        let mut words = format!("- {}", shown_name(&column.name));
        if !column.kind.is_empty() {
            let _ = write!(words, " ({})", shown_name(&column.kind));
        }
        if !rows.is_empty() {
            let described = seen.describe(is_secret(&column.name), " (first rows)");
            let _ = write!(words, ": {described}");
        }
        part.lines.push(words);
    }
    part
}

#[expect(clippy::cast_precision_loss, reason = "told in six digits")]
fn take(column: &mut Column, row: &Row, at: usize, is_rowid: bool) {
    column.take_typed(match row.items.get(at) {
        _ if is_rowid => Value::Integer(row.id as f64),
        Some(Item::Int(value)) => Value::Integer(*value as f64),
        Some(Item::Real(value)) => Value::Float(*value),
        Some(Item::Text(value)) => Value::Text(value),
        Some(Item::Blob) => Value::Named("bytes", ""),
        Some(Item::Null) | None => Value::Missing,
    });
}
