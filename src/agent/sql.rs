//! SQL cells in a Python kernel: the magic, and access to the session's databases.
//!
//! No secret is here: a kernel gets the path of a socket, and another process holds the connections (`app::databases`).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::kernel::{ExecuteOptions, Kernel};
use crate::session::sql::MAGIC;

/// Time limit for defining the magic in a kernel.
const WITHIN: Duration = Duration::from_secs(20);
/// Maximum rows of a result that becomes a data frame.
const ROWS: u64 = 5_000_000;
/// How long a SQL cell may run over files and data frames, unless the configuration says otherwise.
pub const SQL_TIMEOUT: Duration = Duration::from_mins(5);

/// SQL settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOptions {
    /// The socket to the databases, if there are any.
    pub socket: Option<PathBuf>,
    /// Their names.
    pub databases: Vec<String>,
    /// Memory that DuckDB may use in the kernel, in bytes, before it spills to disk.
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
    /// Defines the SQL magic in the idle `kernel`. If that fails, SQL cells report it when they run.
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
        // A JSON string is also a valid Python string.
        let settings = json!(settings.to_string());
        format!("{MAGIC}\n\n_define_sql(__import__('json').loads({settings}))\ndel _define_sql\n")
    }
}
