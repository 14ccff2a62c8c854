//! Requests of ours that wait for the answer of the other side.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::message;

/// Questions that wait at a time.
const MOST: usize = 64;
/// Ids of ours begin with this.
const PREFIX: &str = "sponde-";

/// The requests of a connection that wait.
#[derive(Debug, Default)]
pub struct Questions {
    next: AtomicU64,
    waiting: Mutex<Waiting>,
}

type Waiting = HashMap<u64, oneshot::Sender<Result<Value, Value>>>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unanswered {
    /// Too many requests wait already.
    #[error("too many questions wait already")]
    TooMany,
    /// The connection has ended.
    #[error("the client is gone")]
    Gone,
    /// The other side answered with an error, whose message this is.
    #[error("the client could not ask: {0}")]
    Refused(String),
    /// The time is up.
    #[error("nobody answered in time")]
    Late,
}

/// A request that was sent. It is forgotten when this is dropped.
#[derive(Debug)]
pub struct Question {
    number: u64,
    questions: Arc<Questions>,
    answered: oneshot::Receiver<Result<Value, Value>>,
}

impl Questions {
    /// Sends a request through `outlet`.
    ///
    /// # Errors
    /// It was not sent.
    pub async fn ask(
        self: &Arc<Self>,
        outlet: &mpsc::Sender<Value>,
        method: &str,
        params: &Value,
    ) -> Result<Question, Unanswered> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.len() >= MOST {
                return Err(Unanswered::TooMany);
            }
            waiting.insert(number, answer);
        }
        let question = Question {
            number,
            questions: Arc::clone(self),
            answered,
        };
        let request = message::request(&question.id(), method, params);
        let sent = outlet.send(request).await;
        sent.map_err(|_| Unanswered::Gone)?;
        Ok(question)
    }

    /// The answer to the request `id`. One that nobody waits for is nothing.
    pub fn answer(&self, id: &Value, outcome: Result<Value, Value>) {
        let id = id.as_str().and_then(|id| id.strip_prefix(PREFIX));
        let id = id.and_then(|id| id.parse().ok());
        if let Some(waiting) = id.and_then(|id: u64| self.waiting().remove(&id)) {
            // The asker may be gone.
            let _ = waiting.send(outcome);
        }
    }

    /// The connection has ended: nobody answers any more.
    pub fn close(&self) {
        self.waiting().clear();
    }

    /// Whole after every change.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// The request's id.
    pub fn id(&self) -> String {
        format!("{PREFIX}{}", self.number)
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn answered(&mut self, within: Duration) -> Result<Value, Unanswered> {
        match tokio::time::timeout(within, &mut self.answered).await {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => {
                let message = error.get("message").and_then(Value::as_str);
                let message = message.unwrap_or("it did not say why");
                Err(Unanswered::Refused(message.to_owned()))
            }
            Ok(Err(_)) => Err(Unanswered::Gone),
            Err(_) => Err(Unanswered::Late),
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.questions.waiting().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_answer_goes_to_its_question_once() {
        let questions = Arc::new(Questions::default());
        let (outlet, mut sent) = mpsc::channel(8);
        let within = Duration::from_mins(1);
        let mut first = questions.ask(&outlet, "ask", &json!({})).await.unwrap();
        let mut second = questions.ask(&outlet, "ask", &json!({})).await.unwrap();
        let ids = [
            sent.recv().await.unwrap()["id"].clone(),
            sent.recv().await.unwrap()["id"].clone(),
        ];
        assert_eq!(ids, [json!(first.id()), json!(second.id())]);
        questions.answer(&ids[1], Err(json!({"message": "no"})));
        questions.answer(&ids[0], Ok(json!(1)));
        // Nobody waits for these.
        questions.answer(&ids[0], Ok(json!(2)));
        questions.answer(&json!(7), Ok(json!(2)));
        assert_eq!(first.answered(within).await, Ok(json!(1)));
        let refused = Err(Unanswered::Refused("no".to_owned()));
        assert_eq!(second.answered(within).await, refused);
        let third = questions.ask(&outlet, "ask", &json!({})).await.unwrap();
        drop(third);
        assert!(questions.waiting().is_empty());
    }
}
