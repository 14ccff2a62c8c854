//! What SQL cells have in a Python kernel: the magic, and the way to the databases of the session.
//!
//! No secret is here: a kernel gets the path of a socket, behind which another process holds the connections
//! (`app::databases`).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::kernel::{ExecuteOptions, Kernel};
use crate::session::sql::MAGIC;

/// How long a kernel may take to learn it.
const WITHIN: Duration = Duration::from_secs(20);
/// Rows of a result that become a data frame.
const ROWS: u64 = 5_000_000;
/// How long a SQL cell may run over files and data frames, unless the configuration says otherwise.
pub const SQL_TIMEOUT: Duration = Duration::from_mins(5);

/// What SQL has in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOptions {
    /// Where databases are reached, if there are any.
    pub socket: Option<PathBuf>,
    /// Their names.
    pub databases: Vec<String>,
    /// Bytes of memory that DuckDB may take in the kernel before it writes to disk.
    pub memory: Option<u64>,
    /// How long a query over files and data frames may take.
    pub seconds: u64,
}

impl Default for SqlOptions {
    fn default() -> Self {
        Self {
            socket: None,
            databases: Vec::new(),
            memory: None,
            seconds: SQL_TIMEOUT.as_secs(),
        }
    }
}

impl SqlOptions {
    /// Makes `kernel`, which does nothing else, understand SQL cells. One that cannot tells so when such a cell runs.
    pub async fn teach(&self, kernel: &Kernel) {
        let options = ExecuteOptions::aside(self.code(), WITHIN);
        match kernel.execute(options).await {
            Ok(execution) => {
                execution.collect().await;
            }
            Err(error) => tracing::warn!(%error, "a kernel did not learn SQL"),
        }
    }

    fn code(&self) -> String {
        let mut settings =
            json!({ "databases": self.databases, "rows": ROWS, "seconds": self.seconds });
        if let Some(socket) = &self.socket {
            settings["socket"] = socket.display().to_string().into();
        }
        if let Some(memory) = self.memory {
            settings["memory"] = (memory >> 20).into();
        }
        // A string of JSON is one of Python.
        let settings = json!(settings.to_string());
        format!("{MAGIC}\n\n_define_sql(__import__('json').loads({settings}))\ndel _define_sql\n")
    }
}
