//! Jupyter's REST and websocket below `/jupyter`: clients of others as they are, and what the protocol promises.

mod channels;
mod clients;
mod contents;
mod gateway;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use sponde::jupyter::message::Channel;
use sponde::jupyter::raw::RawMessage;
use sponde::kernel::{Dialect, Frame};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{LIMIT, Server};

/// A client on a kernel's websocket.
struct Socket {
    stream: WebSocketStream<TcpStream>,
    dialect: Dialect,
    session: String,
    asked: usize,
}

impl Server<'_> {
    /// Starts a kernel without a session. Returns its id.
    async fn kernel(&self) -> String {
        let (status, kernel) = self.post("/jupyter/api/kernels", &json!({})).await;
        assert_eq!(status, 201, "{kernel}");
        kernel["id"].as_str().unwrap().to_owned()
    }

    /// The kernel of the only session that runs.
    async fn kernel_of_session(&self) -> String {
        let (_, kernels) = self.get("/jupyter/api/kernels").await;
        let [kernel] = kernels.as_array().unwrap().as_slice() else {
            panic!("{kernels}");
        };
        kernel["id"].as_str().unwrap().to_owned()
    }

    async fn connect(&self, kernel: &str, session: &str, dialect: Dialect) -> Socket {
        self.connect_as(&self.token, kernel, session, dialect).await
    }

    /// The same for who has `token`.
    async fn connect_as(
        &self,
        token: &str,
        kernel: &str,
        session: &str,
        dialect: Dialect,
    ) -> Socket {
        let host = self.base.strip_prefix("http://").unwrap();
        let url = format!(
            "ws://{host}/jupyter/api/kernels/{kernel}/channels?session_id={session}&token={token}"
        );
        let mut request = url.into_client_request().unwrap();
        if dialect == Dialect::V1 {
            let name = Dialect::V1_NAME.parse().unwrap();
            request.headers_mut().insert("sec-websocket-protocol", name);
        }
        let tcp = TcpStream::connect(host).await.unwrap();
        let connected = tokio_tungstenite::client_async(request, tcp).await;
        let (stream, response) = connected.unwrap();
        let chosen = response.headers().get("sec-websocket-protocol");
        let chosen = chosen.map(|it| it.to_str().unwrap());
        let expected = (dialect == Dialect::V1).then_some(Dialect::V1_NAME);
        assert_eq!(chosen, expected);
        Socket {
            stream,
            dialect,
            session: session.to_owned(),
            asked: 0,
        }
    }
}

impl Server<'_> {
    /// All that a kernel says about code that the holder of `token` has it run.
    pub(super) async fn said_by_kernel(&self, token: &str, kernel: &str, code: &str) -> String {
        let mut socket = self.connect_as(token, kernel, "c", Dialect::Json).await;
        let id = socket.execute(code).await;
        let seen = socket.about(&id).await;
        seen.iter().map(|it| it.content.to_string()).collect()
    }
}

impl Socket {
    async fn text(&mut self, text: String) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// Sends a request. Returns its id.
    async fn send(&mut self, channel: Channel, kind: &str, content: Value) -> String {
        self.asked += 1;
        let id = format!("{}-{}", self.session, self.asked);
        let header = json!({
            "msg_id": id, "session": self.session, "username": "test", "date": "", "msg_type": kind, "version": "5.4",
        });
        let bytes = |value: &Value| value.to_string().into_bytes().into();
        let message = RawMessage {
            prefix: Vec::new(),
            header: bytes(&header),
            parent: bytes(&json!({})),
            metadata: bytes(&json!({"cellId": "c"})),
            content: bytes(&content),
            buffers: Vec::new(),
        };
        let frame = match self.dialect.encode(channel, &message).unwrap() {
            Frame::Text(text) => Message::text(text),
            Frame::Binary(bytes) => Message::binary(bytes),
        };
        self.stream.send(frame).await.unwrap();
        id
    }

    async fn execute(&mut self, code: &str) -> String {
        let content = json!({
            "code": code, "silent": false, "store_history": true, "user_expressions": {"two": "1+1"},
            "allow_stdin": true, "stop_on_error": true,
        });
        self.send(Channel::Shell, "execute_request", content).await
    }

    /// The next message; `None` when the connection has ended.
    async fn next(&mut self) -> Option<Seen> {
        loop {
            let next = tokio::time::timeout(LIMIT, self.stream.next());
            let frame = match next.await.expect("nothing more comes") {
                Some(Ok(Message::Text(text))) => Frame::Text(text.to_string()),
                Some(Ok(Message::Binary(bytes))) => Frame::Binary(bytes),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => continue,
            };
            let (channel, raw) = self.dialect.decode(&frame).unwrap();
            let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
            return Some(Seen {
                channel,
                kind: raw.header().unwrap().msg_type,
                parent: json(&raw.parent),
                content: json(&raw.content),
            });
        }
    }

    /// What is said about the request `id`, up to its `idle` and its reply.
    async fn about(&mut self, id: &str) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            let next = self.next().await;
            let next = next.unwrap_or_else(|| panic!("the connection ended after {seen:?}"));
            if next.parent["msg_id"] != id {
                continue;
            }
            seen.push(next);
            let is_idle = |it: &Seen| it.content["execution_state"] == "idle";
            let is_reply = |it: &Seen| it.kind.ends_with("_reply");
            if seen.iter().any(is_idle) && seen.iter().any(is_reply) {
                return seen;
            }
        }
    }

    /// Waits for a message of this kind.
    async fn until(&mut self, kind: &str) -> Seen {
        loop {
            let next = self.next().await.expect("the connection ended");
            if next.kind == kind {
                return next;
            }
        }
    }

    /// The same about the request `id`.
    async fn until_of(&mut self, id: &str, kind: &str) -> Seen {
        loop {
            let next = self.until(kind).await;
            if next.parent["msg_id"] == id {
                return next;
            }
        }
    }
}

/// A message, as far as tests look at it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    channel: Channel,
    kind: String,
    parent: Value,
    content: Value,
}

/// In short: channel, kind, and what matters of the content.
fn short(seen: &[Seen]) -> Vec<String> {
    let line = |it: &Seen| {
        let of = |key: &str| match &it.content[key] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let data = it.content["data"]["text/plain"].as_str().map(str::to_owned);
        let words = [
            of("execution_state"),
            of("status"),
            of("text"),
            of("ename"),
            of("prompt"),
            data,
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        format!("{} {} {}", it.channel.name(), it.kind, words.join(" "))
            .trim_end_matches(' ')
            .to_owned()
    };
    let mut lines: Vec<String> = seen.iter().map(line).collect();
    // Shell and iopub are not in step with each other.
    lines.sort_by_key(|line| line.starts_with("shell "));
    lines
}
