//! Runs the person's own code.

use super::{Author, Edit, Input, RawMessage, Session, State, TurnEnd, random_cell_id};

impl Session {
    /// Runs `code` as a cell. `sent` is another front end's request for it.
    pub(super) async fn run_own(
        &mut self,
        code: String,
        language: Option<&str>,
        sent: Option<Box<RawMessage>>,
    ) {
        let offers = self.kernels.offers();
        let (code, language) = self.sql_of_person(code, language);
        let Some(offer) = self.kernels.find(language).and_then(|at| offers.get(at)) else {
            let known: Vec<&str> = offers.iter().map(|offer| &*offer.language).collect();
            let asked = language.unwrap_or_default();
            let known = known.join(", ");
            self.notice(&format!(
                "there is no kernel for `{asked}`, only for {known}"
            ));
            return self.own_did_not_run().await;
        };
        let cell = random_cell_id();
        self.cells.sent = sent.map(|sent| (cell.clone(), sent));
        if self.turn.state == State::Idle {
            self.turn_begins(&cell);
        }
        let language = (offer.language != self.language()).then(|| offer.language.clone());
        self.before_sql(&code, language.as_deref(), &Author::Person);
        self.edit_by(Edit::Propose {
            cell: cell.clone(),
            author: Author::Person,
            language,
            source: code,
        });
        if self.options.judges_clients
            && let Some(ruling) = self.forbidden(&cell).await
        {
            self.forbid(cell, ruling);
            return self.own_did_not_run().await;
        }
        self.drive(Input::RunOwn { cell }).await;
    }

    async fn own_did_not_run(&mut self) {
        match self.turn.state.waits_for() {
            // The interrupted question is asked again.
            Some(cell) => {
                let cell = cell.to_owned();
                self.ask_about(cell);
            }
            None => self.end_turn(TurnEnd::CellFailed).await,
        }
    }
}
