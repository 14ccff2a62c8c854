//! A program's view of a variable: rows of a table, or the beginning of its value.

use super::ProgramSession;
use crate::agent::query::{FrameWindow, QueryError, QueryReason, Rows, VariableInfo};

/// A view of a variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Looked {
    /// Rows of a table.
    Rows(FrameWindow),
    /// The beginning of a variable that is no table.
    Beginning(VariableInfo),
}

impl ProgramSession {
    /// Inspects the variable `name`.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn look_at(&self, name: &str, rows: &Rows) -> Result<Looked, QueryError> {
        let asides = &self.live.asides;
        match asides.window(name, rows).await {
            Ok(window) => Ok(Looked::Rows(window)),
            // The variable has no rows.
            Err(error) if matches!(error.reason, QueryReason::NoFrame | QueryReason::NoKernel) => {
                let list = asides.variables(None).await?;
                let found = list.variables.into_iter().find(|it| it.name == name);
                found.map(Looked::Beginning).ok_or_else(|| {
                    let message = format!("there is no variable `{name}`");
                    QueryError::new(QueryReason::NoVariable, message)
                        .hint("`list_variables` says which there are")
                })
            }
            Err(error) => Err(error),
        }
    }
}
