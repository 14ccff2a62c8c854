//! `/v1/responses`: the server's agent answers with the code interpreter of a container.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::extract::{Json as Body, Path, Query};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::building::{Building, End};
use super::conversation::{Asking, Step, ask};
use super::listing::{self, page};
use super::outgoing::{Framing, OUTBOX, stream};
use super::request::{Place, Wanted};
use super::state::Stored;
use super::{Answer, Refused, unsupported};
use crate::agent::TurnEnd;
use crate::app::containers::{ContainerError, MINUTES, Reach};
use crate::app::executor::TurnOutcome;
use crate::task;

/// Answers.
pub(super) async fn create(State(shared): State<Arc<Shared>>, Body(body): Body<Value>) -> Answer {
    let mut wanted = Wanted::of(&body)?;
    let (container, knows_history) = container_of(&shared, &mut wanted).await?;
    let said = wanted.input.question.clone();
    let input = std::mem::take(&mut wanted.input);
    let model = wanted.model.clone();
    let containers = &shared.openai.containers;
    let asking = ask(
        containers,
        &container,
        input,
        knows_history,
        model.as_deref(),
    )
    .await?;
    let streams = wanted.streams;
    let making = Making {
        shared: Arc::clone(&shared),
        building: Building::new(
            std::mem::take(&mut wanted.head),
            &container,
            wanted.shows_outputs,
        ),
        wanted,
        container,
        said,
        asking,
    };
    if !streams {
        let response = making.make(None).await;
        let response = response.ok_or_else(|| Problem::internal("the response was lost"))?;
        return Ok(Json(response).into_response());
    }
    let (outlet, messages) = mpsc::channel(OUTBOX);
    let task = task::spawn("openai response", async move {
        making.make(Some(outlet)).await;
    });
    Ok(stream(messages, task, Framing::Named))
}

/// The container, and whether the session in it knows the earlier messages.
async fn container_of(shared: &Shared, wanted: &mut Wanted) -> Result<(String, bool), Refused> {
    let openai = &shared.openai;
    let previous = match &wanted.previous {
        None => None,
        Some(id) => {
            let stored = openai.responses.get(id).ok_or_else(|| unknown(id))?;
            Some((id.clone(), stored))
        }
    };
    let before = previous
        .as_ref()
        .map(|(_, stored)| stored.container.clone());
    let said = wanted.input.container.take();
    let (id, is_named) = match (&wanted.place, before.clone().or(said)) {
        (Place::Container(id), _) => (Some(id.clone()), true),
        (Place::Auto(_), before) => (before, false),
    };
    let found = match &id {
        None => None,
        Some(id) => match openai.containers.get(id).await {
            Ok(container) => Some(container.id),
            // An automatic container that is gone is replaced.
            Err(ContainerError::Unknown(_)) if !is_named => None,
            Err(error) => return Err(error.into()),
        },
    };
    let Some(found) = found else {
        if let Some((response, _)) = &previous {
            let mut history = openai.responses.history(response);
            history.append(&mut wanted.input.history);
            wanted.input.history = history;
            wanted.input.instructions.push_str(
                "\n\nThe container of this conversation is gone: its variables and files too.",
            );
        }
        let reach = match wanted.place {
            Place::Auto(reach) => reach,
            Place::Container(_) => Reach::Permitted,
        };
        let made = openai.containers.create_with("auto", Some(MINUTES), reach);
        let made = made.await?;
        return Ok((made.id, false));
    };
    if let Some((response, stored)) = &previous {
        let goes_on = found == stored.container;
        if goes_on && !openai.responses.is_last(response, &stored.container) {
            let problem = Problem::new(
                StatusCode::CONFLICT,
                "not_the_last_response",
                format!(
                    "the conversation has continued after response `{response}`, and a session has one line"
                ),
            );
            return Err(problem
                .hint("give the last response as previous_response_id, or send all messages in `input`")
                .into());
        }
    }
    let knows = before.is_some_and(|before| before == found)
        || !is_named && !wanted.input.history.is_empty();
    Ok((found, knows))
}

/// A response that is being made.
struct Making {
    shared: Arc<Shared>,
    wanted: Wanted,
    container: String,
    said: String,
    asking: Asking,
    building: Building,
}

impl Making {
    /// Makes the response, and sends its events. `None` if nobody listens any more: then it is interrupted.
    async fn make(mut self, outlet: Option<mpsc::Sender<Value>>) -> Option<Value> {
        self.building.answers(&self.asking.model());
        self.building.begin();
        tell(&mut self.building, outlet.as_ref()).await?;
        while let Some(step) = self.asking.next().await {
            let building = &mut self.building;
            match step {
                Step::Text(text) => building.words(&text),
                Step::CodeDelta { cell, text } => building.code_delta(&cell, &text),
                Step::Code { cell, source } => building.code(&cell, &source),
                Step::Started { cell } => building.code_runs(&cell),
                Step::Finished {
                    cell,
                    status,
                    outputs,
                } => building.code_ended(&cell, status, &outputs),
                Step::Again => building.again(),
            }
            tell(building, outlet.as_ref()).await?;
        }
        let made = self.asking.made().await;
        let end = end_of(self.asking.outcome());
        self.building.answers(&self.asking.model());
        let response = self.building.finish(&end, &made, self.asking.spent());
        let is_whole = !matches!(end, End::Failed(_));
        let id = self.wanted.id.clone();
        if self.wanted.stores {
            let stored = Stored {
                response: response.clone(),
                input: std::mem::take(&mut self.wanted.input_items),
                container: self.container.clone(),
                said: (std::mem::take(&mut self.said), self.building.text()),
                previous: self.wanted.previous.take(),
            };
            self.shared.openai.responses.keep(&id, stored, is_whole);
        }
        tell(&mut self.building, outlet.as_ref()).await?;
        Some(response)
    }
}

/// Sends the new events; `None` if nobody receives them.
async fn tell(building: &mut Building, outlet: Option<&mpsc::Sender<Value>>) -> Option<()> {
    let events = building.take_events();
    if let Some(outlet) = outlet {
        for event in events {
            outlet.send(event).await.ok()?;
        }
    }
    Some(())
}

/// The reported end of a turn.
pub(super) fn end_of(outcome: &TurnOutcome) -> End {
    match (&outcome.end, outcome.problem()) {
        (Some(TurnEnd::StepLimit { .. } | TurnEnd::Budget { .. }), _) => End::Incomplete,
        (_, None) => End::Completed,
        (_, Some(problem)) => {
            let lines = std::iter::once(problem.as_str());
            let lines = lines.chain(outcome.notices.iter().map(String::as_str));
            End::Failed(lines.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// A stored response.
pub(super) async fn retrieve(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let stored = shared
        .openai
        .responses
        .get(&id)
        .ok_or_else(|| unknown(&id))?;
    Ok(Json(stored.response).into_response())
}

/// Deletes a response.
pub(super) async fn delete(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    if !shared.openai.responses.forget(&id) {
        return Err(unknown(&id));
    }
    let deleted = json!({ "id": id, "object": "response", "deleted": true });
    Ok(Json(deleted).into_response())
}

/// The input items of a response.
pub(super) async fn input_items(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(wanted): Query<listing::Wanted>,
) -> Answer {
    let stored = shared
        .openai
        .responses
        .get(&id)
        .ok_or_else(|| unknown(&id))?;
    let mut items = stored.input;
    items.reverse();
    Ok(Json(page(items, &wanted)?).into_response())
}

/// Only background responses can be cancelled.
pub(super) async fn cancel(Path(_id): Path<String>) -> Refused {
    unsupported(
        "cancelling by id: close the connection of the request, and its code is interrupted; this",
    )
}

fn unknown(id: &str) -> Refused {
    let id: String = id.chars().take(80).collect();
    let problem = Problem::not_found(format!("there is no response `{id}`"));
    Refused(problem.hint(
        "responses are kept while the server runs, the last thousand, and none of `store: false`",
    ))
}
