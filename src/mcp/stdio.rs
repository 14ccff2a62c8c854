//! A client over two pipes, with one message per line. Ends when the client closes its pipe.
//!
//! Requests run concurrently; `notifications/cancelled` drops one, which interrupts its code. A client may use both
//! kinds of versions at once: a request with a version is independent, others follow the handshake.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::caller::{Caller, unintroduced};
use super::change::Followed;
use super::state::McpServer;
use crate::rpc::{self, Incoming, LONGEST, Line, Questions, Request, RpcError, next_line};
use crate::task::{self, Task};

/// How many messages may wait for the client to read.
const OUTBOX: usize = 256;
/// Maximum simultaneous requests.
const AT_ONCE: usize = 64;
/// How long the client may take to read the last answers.
const FLUSH: Duration = Duration::from_secs(2);

/// Serves the client at the other end of `input` and `output` until it closes `input`.
///
/// # Errors
/// One of the pipes failed.
pub async fn serve(
    server: McpServer,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let writer = task::spawn("mcp answers", rpc::write(messages, output));
    let mut connection = Connection {
        server,
        outbox,
        questions: Arc::default(),
        introduced: None,
        running: Arc::default(),
        followed: Followed::default(),
        telling: None,
    };
    let mut line = Vec::new();
    let ended = loop {
        match next_line(&mut input, &mut line, LONGEST).await {
            Ok(Line::Whole) => connection.take(&line).await,
            Ok(Line::TooLong) => {
                let error = RpcError::invalid_request(format!(
                    "a message has at most {LONGEST} bytes: write large files with code"
                ));
                connection.send(error.answer(&Value::Null)).await;
            }
            Ok(Line::End) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    connection.end();
    // Completed answers are still delivered.
    let _ = tokio::time::timeout(FLUSH, writer.join()).await;
    ended
}

struct Connection {
    server: McpServer,
    outbox: mpsc::Sender<Value>,
    questions: Arc<Questions>,
    /// The client from the handshake.
    introduced: Option<Caller>,
    running: Arc<Mutex<HashMap<String, CancellationToken>>>,
    /// Resources that a client with a handshake follows.
    followed: Followed,
    telling: Option<Task>,
}

impl Connection {
    async fn take(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match rpc::parse(line) {
            Err(broken) => {
                let (id, error) = *broken;
                self.send(error.answer(&id)).await;
            }
            Ok(Incoming::Response { id, outcome }) => self.questions.answer(&id, outcome),
            Ok(Incoming::Notification { method, params }) => self.notified(&method, &params),
            Ok(Incoming::Request(request)) => self.requested(request).await,
        }
    }

    fn notified(&mut self, method: &str, params: &Map<String, Value>) {
        match method {
            "notifications/cancelled" => {
                let id = params.get("requestId").map(Value::to_string);
                let token = id.and_then(|id| lock(&self.running).remove(&id));
                if let Some(token) = token {
                    token.cancel();
                }
            }
            "notifications/initialized" if self.telling.is_none() => {
                let (server, outbox) = (self.server.clone(), self.outbox.clone());
                let followed = self.followed.clone();
                self.telling = Some(task::spawn("mcp changes", async move {
                    server.tell_changes(followed, outbox).await;
                }));
            }
            _ => {}
        }
    }

    async fn requested(&mut self, request: Request) {
        let caller = match Caller::of_request(&request.params) {
            Ok(Some(caller)) => caller,
            Ok(None) if request.method == "initialize" => {
                let (caller, result) = McpServer::introduced(&request.params);
                self.introduced = Some(caller);
                return self.send(rpc::answer(&request.id, Ok(result))).await;
            }
            Ok(None) => match &self.introduced {
                Some(caller) => caller.clone(),
                // The specification allows a ping before the handshake.
                None if request.method == "ping" => Caller::of_handshake(&Map::new()),
                None => return self.send(unintroduced().answer(&request.id)).await,
            },
            Err(error) => return self.send(error.answer(&request.id)).await,
        };
        if !caller.is_modern() && self.followed.take(&request) {
            return self
                .send(rpc::answer(&request.id, Ok(Value::Object(Map::new()))))
                .await;
        }
        let token = CancellationToken::new();
        let key = request.id.to_string();
        let refused = {
            let mut running = lock(&self.running);
            if running.contains_key(&key) {
                Some("a request of this id is being carried out")
            } else if running.len() >= AT_ONCE {
                Some("too many requests at a time: wait for an answer")
            } else {
                running.insert(key.clone(), token.clone());
                None
            }
        };
        if let Some(refused) = refused {
            let error = RpcError::invalid_request(refused);
            return self.send(error.answer(&request.id)).await;
        }
        let call = Call {
            caller,
            outlet: self.outbox.clone(),
            questions: Arc::clone(&self.questions),
        };
        let (server, running) = (self.server.clone(), Arc::clone(&self.running));
        task::spawn("mcp request", async move {
            tokio::select! {
                // Nobody waits for the answer: dropping the request interrupts its code.
                () = token.cancelled() => {}
                outcome = server.answer(&request, &call) => {
                    lock(&running).remove(&key);
                    // If the client is gone, it needs no answer.
                    let _ = call.outlet.send(rpc::answer(&request.id, outcome)).await;
                }
            }
        })
        .detach();
    }

    async fn send(&self, message: Value) {
        // If the client is gone, it needs no message.
        let _ = self.outbox.send(message).await;
    }

    /// Cancels everything that is still running.
    fn end(self) {
        let mut running = lock(&self.running);
        running.drain().for_each(|(_, token)| token.cancel());
    }
}

/// Consistent after every change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
