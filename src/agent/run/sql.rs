//! SQL cells of a session: sets the kernel up before the first one, and makes the notebook runnable elsewhere.

use super::{Author, Coaching, Edit, Session, Verdict, now, random_cell_id};
use crate::agent::tools::{self, SqlOffer};
use crate::kernel::Kernel;
use crate::session::{CellKind, CodeStatus, sql};

impl Session {
    /// Whether the model may write SQL. A small model gets no choice.
    pub(super) fn sql_offer(&self) -> SqlOffer {
        let has_python = tools::find_language("python", &self.offers()).is_some();
        if self.options.sql.is_some() && has_python && self.options.coaching == Coaching::Off {
            SqlOffer::Offered
        } else {
            SqlOffer::None
        }
    }

    /// The person's SQL as a cell of the Python kernel.
    pub(super) fn sql_of_person<'a>(
        &self,
        code: String,
        language: Option<&'a str>,
    ) -> (String, Option<&'a str>) {
        let is_sql = language.is_some_and(|it| it.eq_ignore_ascii_case(sql::LANGUAGE));
        if is_sql && self.kernels.find(language).is_none() {
            return (sql::typed(&code), Some("python"));
        }
        (code, language)
    }

    /// Inserts a cell before the first SQL cell that lets any notebook program run SQL. Our own kernel can do more
    /// than that, so the cell does not run here.
    pub(super) fn before_sql(&mut self, source: &str, language: Option<&str>, author: &Author) {
        let is_setup = |cell: &crate::session::Cell| {
            matches!(cell.kind, CellKind::Code(_)) && sql::is_setup(&cell.source)
        };
        if !sql::is_cell(source) || self.transcript.cells().iter().any(is_setup) {
            return;
        }
        let cell = random_cell_id();
        self.edit(Edit::Propose {
            cell: cell.clone(),
            author: match author {
                Author::Model { step, .. } => Author::Model {
                    step: *step,
                    call_id: String::new(),
                    broken: None,
                },
                Author::Person => Author::Person,
            },
            language: language.map(str::to_owned),
            source: sql::SETUP.to_owned(),
        });
        self.edit(Edit::Finish {
            cell,
            status: CodeStatus::Finished(Verdict::Ok),
            at: now(),
        });
    }

    /// Sets up SQL before such a cell runs.
    pub(super) async fn teach_sql(&mut self, kernel: &Kernel, code: &str) {
        if sql::is_cell(code) {
            self.options
                .sql
                .clone()
                .unwrap_or_default()
                .teach(kernel)
                .await;
        }
    }
}
