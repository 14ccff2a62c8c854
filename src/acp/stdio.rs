//! A client over two pipes, with one message per line. Ends when the client closes its pipe.
//!
//! Requests run concurrently. `$/cancel_request` cancels one; for a prompt it has the effect of `session/cancel`.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use super::server::{AcpServer, Answered};
use crate::app::SessionSettings;
use crate::app::registry::Registry;
use crate::rpc::{self, Incoming, LONGEST, Line, Request, RpcError, next_line};
use crate::task;

/// How many messages may wait for the client to read.
const OUTBOX: usize = 256;
/// Maximum simultaneous requests.
const AT_ONCE: usize = 64;
/// How long the client may take to read the last answers.
const FLUSH: Duration = Duration::from_secs(2);

/// Serves the client at the other end of `input` and `output` until it closes `input`, with sessions of `registry`
/// that use `settings`.
///
/// # Errors
/// One of the pipes failed.
pub async fn serve(
    registry: Registry,
    settings: SessionSettings,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (outlet, messages) = mpsc::channel(OUTBOX);
    let writer = task::spawn("acp answers", rpc::write(messages, output));
    let peer = Peer::new(outlet);
    let connection = Connection {
        server: AcpServer::new(registry, settings, peer.clone()),
        peer,
        running: Arc::default(),
    };
    let mut line = Vec::new();
    let ended = loop {
        match next_line(&mut input, &mut line, LONGEST).await {
            Ok(Line::Whole) => connection.take(&line).await,
            Ok(Line::TooLong) => {
                let words =
                    format!("a message has at most {LONGEST} bytes: link to large files instead");
                let error = RpcError::invalid_request(words);
                connection.peer.send(error.answer(&Value::Null)).await;
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
    server: AcpServer,
    peer: Peer,
    running: Arc<Mutex<HashMap<String, CancellationToken>>>,
}

impl Connection {
    async fn take(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match rpc::parse(line) {
            Err(broken) => {
                let (id, error) = *broken;
                self.peer.send(error.answer(&id)).await;
            }
            Ok(Incoming::Response { id, outcome }) => self.peer.questions.answer(&id, outcome),
            Ok(Incoming::Notification { method, params }) => self.notified(&method, &params).await,
            Ok(Incoming::Request(request)) => self.requested(request).await,
        }
    }

    async fn notified(&self, method: &str, params: &Map<String, Value>) {
        match method {
            "$/cancel_request" => {
                let id = params.get("requestId").map(Value::to_string);
                let token = id.and_then(|id| lock(&self.running).get(&id).cloned());
                if let Some(token) = token {
                    token.cancel();
                }
            }
            "session/cancel" => self.server.cancel(params).await,
            // Unknown extensions.
            _ => {}
        }
    }

    async fn requested(&self, request: Request) {
        let key = request.id.to_string();
        let token = CancellationToken::new();
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
            return self.peer.send(error.answer(&request.id)).await;
        }
        if request.method == "initialize" {
            // Later messages may depend on it.
            let outcome = self.server.initialize(&request.params);
            lock(&self.running).remove(&key);
            return self.peer.send(rpc::answer(&request.id, outcome)).await;
        }
        let (server, peer) = (self.server.clone(), self.peer.clone());
        let running = Arc::clone(&self.running);
        task::spawn("acp request", async move {
            let Answered { outcome, begins } = server.answer(&request, &token).await;
            lock(&running).remove(&key);
            peer.send(rpc::answer(&request.id, outcome)).await;
            if let Some(conversation) = begins {
                conversation.begin();
            }
        })
        .detach();
    }

    /// Cancels everything that is still running.
    fn end(self) {
        let mut running = lock(&self.running);
        running.drain().for_each(|(_, token)| token.cancel());
        self.server.end();
    }
}

/// Consistent after every change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
