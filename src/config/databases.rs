//! `[databases.NAME]`: where a database is and what may be done there (docs/sql.md). A password is never in this file: the
//! URL comes from a variable or from a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::llm::providers::KeyCommand;

/// Databases by the names that SQL uses for them.
pub type Databases = BTreeMap<DatabaseName, Database>;

/// A name that SQL takes without quotes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseName(String);

impl DatabaseName {
    /// As SQL has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for DatabaseName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let is_word = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if name.len() > 40 || !is_word || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(D::Error::custom(format!(
                "a database cannot be called `{name}`: a name has small letters, digits and `_`, and begins with a letter"
            )));
        }
        Ok(Self(name))
    }
}

/// One database.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Database {
    /// Where it is, as SQLAlchemy has it, without a password: `sqlite:///shop.db`.
    pub url: Option<String>,
    /// The variable that has the URL.
    pub url_env: Option<String>,
    /// A program that prints it.
    pub url_command: Option<KeyCommand>,
    /// Whether code may change it.
    pub write: bool,
    /// Whether every session has it; else those that are started with `--database NAME`.
    pub always: bool,
    /// How long a statement may take.
    pub seconds: Option<f64>,
    /// How many rows a statement may give.
    pub rows: Option<u64>,
    /// PostgreSQL: the cost, as its planner says, beyond which a query is not run.
    pub max_cost: Option<f64>,
}
