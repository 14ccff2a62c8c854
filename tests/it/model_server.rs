//! A model behind OpenAI's chat completions, streamed, that says what a test tells it to and keeps every request's
//! bytes.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sponde::llm::endpoint::{Endpoint, ProviderKind};
use sponde::llm::http;
use sponde::llm::rig::{RigOptions, RigProvider};
use sponde::llm::types::ModelInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the model answers to a request.
pub(crate) enum Answer {
    /// Words.
    Text(String),
    /// A call of `run_code`.
    Call(String),
    /// A refusal: status and body.
    Refuse(u16, Value),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Requests = Arc<Mutex<Vec<Request>>>;
/// The answer to a request, and the tokens that it had.
type Model = Box<dyn FnMut(&Request) -> (Answer, u64) + Send>;

/// The server; it ends when dropped.
pub(crate) struct ModelServer {
    pub(crate) url: String,
    requests: Requests,
    task: JoinHandle<()>,
}

impl ModelServer {
    pub(crate) async fn start(
        model: impl FnMut(&Request) -> (Answer, u64) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Requests::default();
        let kept = Arc::clone(&requests);
        let mut model: Model = Box::new(model);
        let task = tokio::spawn(async move {
            let mut number = 0;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                number += 1;
                // A client that gave up is no failure of the model's.
                let _ = serve(stream, &mut model, &kept, number).await;
            }
        });
        Self {
            url,
            requests,
            task,
        }
    }

    /// Answers in order; then it refuses.
    pub(crate) async fn scripted(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: VecDeque<Answer> = answers.into_iter().collect();
        Self::start(move |_| {
            let over = || Answer::Refuse(404, json!({"error": {"message": "the script is over"}}));
            (answers.pop_front().unwrap_or_else(over), 100)
        })
        .await
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The provider of a model that is served here.
    pub(crate) fn provider(&self, context_window: Option<u64>) -> RigProvider {
        provider(ProviderKind::OpenAiCompatible, &self.url, context_window)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A provider of some kind at some address.
pub(crate) fn provider(
    kind: ProviderKind,
    base_url: &str,
    context_window: Option<u64>,
) -> RigProvider {
    let endpoint = Endpoint {
        info: ModelInfo {
            name: "test/test-model".to_owned(),
            context_window,
            vision: true,
            ..ModelInfo::default()
        },
        ..Endpoint::new(kind, base_url, "test-model")
    };
    let client = http::client(base_url).unwrap();
    RigProvider::new(&endpoint, client, RigOptions::default())
}

async fn serve(
    mut stream: TcpStream,
    model: &mut Model,
    kept: &Requests,
    number: usize,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .map_or(0, |length| length.trim().parse::<usize>().unwrap());
        break (end + 4, length);
    };
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    let request = Request {
        body: bytes[head..head + length].to_vec(),
    };
    let (answer, tokens) = model(&request);
    kept.lock().unwrap().push(request);
    let (status, kind, body) = match answer {
        Answer::Refuse(status, body) => (status, "application/json", body.to_string()),
        Answer::Text(text) => {
            let delta = json!({"role": "assistant", "content": text});
            (200, "text/event-stream", reply(&delta, "stop", tokens))
        }
        Answer::Call(code) => {
            let arguments = json!({ "code": code }).to_string();
            let call = json!({"index": 0, "id": format!("c{number}"), "type": "function",
                "function": {"name": "run_code", "arguments": arguments}});
            let delta = json!({"role": "assistant", "tool_calls": [call]});
            (
                200,
                "text/event-stream",
                reply(&delta, "tool_calls", tokens),
            )
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn reply(delta: &Value, reason: &str, tokens: u64) -> String {
    let usage =
        json!({"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20});
    let chunk = |choices: Value, usage: Option<&Value>| {
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "test-model",
            "choices": choices, "usage": usage})
    };
    let events = [
        chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            None,
        ),
        chunk(
            json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
            None,
        ),
        chunk(json!([]), Some(&usage)),
    ];
    let mut body = String::new();
    for event in events {
        let _ = write!(body, "data: {event}\n\n");
    }
    body.push_str("data: [DONE]\n\n");
    body
}
