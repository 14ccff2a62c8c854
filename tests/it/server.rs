//! `sponde serve` as programs use it: the real program, a real HTTP client, real kernels; the model is scripted.

mod access;
mod files;
mod forks;
mod jupyter;
mod openapi;
mod outputs;
mod queries;
mod registry;
mod stream;
mod tables;

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::model_server::{Answer, ModelServer};
use crate::support::{Ended, Sponde, Started};

/// How long anything may take: the machine may be busy.
const LIMIT: Duration = Duration::from_mins(2);

/// The program while it serves.
struct Server<'a> {
    program: Started<'a>,
    /// `http://ADDRESS:PORT`.
    base: String,
    token: String,
    client: Client,
}

impl<'a> Server<'a> {
    /// Starts it in the directory of `sponde`.
    fn start(sponde: &'a Sponde, arguments: &[&str]) -> Self {
        let mut all = vec!["--sandbox", "full"];
        all.extend(arguments);
        Self::start_with(sponde, &all)
    }

    /// The same with nothing said of the sandbox.
    fn start_with(sponde: &'a Sponde, arguments: &[&str]) -> Self {
        let mut all = vec!["--model", "gpt-4o"];
        all.extend(arguments);
        Self::start_without_model(sponde, &all)
    }

    /// The same with nothing said of the model.
    fn start_without_model(sponde: &'a Sponde, arguments: &[&str]) -> Self {
        let mut all = vec!["serve"];
        all.extend(arguments);
        Self::of(sponde.start(&all))
    }

    /// The program, once it says where it serves.
    fn of(mut program: Started<'a>) -> Self {
        let url = tokio::task::block_in_place(|| program.line());
        let (base, token) = url.trim().split_once("/#token=").expect("a URL");
        Self {
            base: base.to_owned(),
            token: token.to_owned(),
            program,
            client: client(),
        }
    }

    /// A request as any client could send it.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// A request with the token.
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(&self.token)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// Creates a session and waits until its kernel answers. Returns its path.
    async fn session(&self, body: Value) -> String {
        let (status, created) = self.post("/api/sessions", &body).await;
        assert_eq!(status, 201, "{created}");
        format!("/api/sessions/{}", created["id"].as_str().unwrap())
    }

    async fn command(&self, session: &str, command: &Value) -> (u16, Value) {
        self.post(&format!("{session}/commands"), command).await
    }

    /// Runs code of the person's and waits for its end. Returns the cell.
    async fn run(&self, session: &str, code: &str) -> String {
        let mut events = self.events(session, "").await;
        let (status, answer) = self
            .command(session, &json!({ "command": "run", "code": code }))
            .await;
        assert_eq!(status, 202, "{answer}");
        let seen = events.until(|item| item["event"] == "turn_finished").await;
        let proposed = seen
            .iter()
            .find_map(|item| item["edit"]["propose"]["cell"].as_str());
        proposed.expect("the cell").to_owned()
    }

    /// The session's stream; `query` is what stands behind the question mark.
    async fn events(&self, session: &str, query: &str) -> Events {
        let request = self.request(Method::GET, &format!("{session}/events?{query}"));
        Events::of(request).await
    }

    /// Asks it to end, and waits until it has.
    fn end(self) -> Ended {
        self.program.signal(rustix::process::Signal::TERM);
        tokio::task::block_in_place(|| self.program.end())
    }

    /// Kills it.
    fn kill(self) {
        self.program.signal(rustix::process::Signal::KILL);
        tokio::task::block_in_place(|| self.program.end_killed());
    }
}

fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

/// Status and JSON of an answer; text that is no JSON is a string.
async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.timeout(LIMIT).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::from(text)),
    )
}

/// A stream of events.
struct Events {
    response: Response,
    buffer: Vec<u8>,
    /// The id of the last item.
    last: String,
}

impl Events {
    async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            response,
            buffer: Vec::new(),
            last: String::new(),
        }
    }

    /// The next item; `None` at the end of the session.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let message: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let message = String::from_utf8(message).unwrap();
                let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
                let Some(data) = field("data: ") else {
                    continue;
                };
                field("id: ").expect("an id").clone_into(&mut self.last);
                return Some(serde_json::from_str(data).unwrap());
            }
            let more = tokio::time::timeout(LIMIT, self.response.chunk());
            match more.await.expect("nothing more comes") {
                Ok(Some(more)) => self.buffer.extend_from_slice(&more),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Items up to and with the first for which `last` holds.
    async fn until(&mut self, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let item = self.next().await;
            let item = item.unwrap_or_else(|| panic!("the stream ended after {seen:?}"));
            let is_last = last(&item);
            seen.push(item);
            if is_last {
                return seen;
            }
        }
    }
}

/// A model with these answers, and a home for the program that asks it.
async fn with_model(answers: impl IntoIterator<Item = Answer>) -> (ModelServer, Sponde) {
    let model = ModelServer::scripted(answers).await;
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", &model.url)
        .with("OPENAI_API_KEY", "sk-hunter2");
    (model, sponde)
}
