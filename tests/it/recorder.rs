//! An HTTP/1.1 proxy that writes down every request and passes it on to one server, no matter which it was meant for: what our
//! side sends, byte for byte, and to whom.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The proxy; ends with the runtime it was started on.
pub(crate) struct Recorder {
    /// Where it is.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// `POST http://host/path` of a client that takes us for a proxy, `POST /path` of one that takes us for the server.
    pub(crate) line: String,
    /// Lower-case, with their values.
    pub(crate) headers: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Recorder {
    /// One before `upstream`, `http://host:port`.
    pub(crate) async fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Recorded>>> = Arc::default();
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let written = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, written) = (upstream.clone(), Arc::clone(&written));
                tokio::spawn(pass(client, upstream, written));
            }
        });
        Self { url, requests }
    }

    /// What came so far, oldest first.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap().clone()
    }
}

impl Recorded {
    /// The body, parsed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Every PNG in the body, decoded: bare base64, or the end of a data URL.
    pub(crate) fn pictures(&self) -> Vec<Vec<u8>> {
        let mut pictures = Vec::new();
        collect(&self.json(), &mut pictures);
        pictures
    }
}

fn collect(value: &Value, pictures: &mut Vec<Vec<u8>>) {
    match value {
        Value::String(text) => {
            let encoded = text
                .rsplit_once("base64,")
                .map_or(text.as_str(), |(_, it)| it);
            if encoded.starts_with("iVBORw0KGgo") {
                pictures.push(BASE64_STANDARD.decode(encoded).unwrap());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, pictures)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, pictures)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// One request of one connection; the answer is passed back as it comes.
async fn pass(mut client: TcpStream, upstream: String, written: Arc<Mutex<Vec<Recorded>>>) {
    let Some(request) = read(&mut client).await else {
        return;
    };
    let (method, target) = request.line.split_once(' ').unwrap();
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {upstream}\r\nconnection: close\r\n");
    for header in request.headers.lines() {
        let name = header.split(':').next().unwrap_or_default();
        if !matches!(name, "host" | "connection" | "proxy-connection") {
            head.push_str(header);
            head.push_str("\r\n");
        }
    }
    head.push_str("\r\n");
    let body = request.body.clone();
    written.lock().unwrap().push(request);
    let Ok(mut server) = TcpStream::connect(&upstream).await else {
        return;
    };
    if server.write_all(head.as_bytes()).await.is_ok() && server.write_all(&body).await.is_ok() {
        let (mut from_client, mut to_client) = client.split();
        // Until either side has had enough.
        tokio::select! {
            _ = tokio::io::copy(&mut server, &mut to_client) => {}
            _ = from_client.read_u8() => {}
        }
    }
}

async fn read(client: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    loop {
        if client.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let (line, headers) = head.split_once("\r\n")?;
        let headers: Vec<String> = headers
            .lines()
            .filter_map(|header| {
                let (name, value) = header.split_once(':')?;
                Some(format!("{}: {}", name.to_ascii_lowercase(), value.trim()))
            })
            .collect();
        let length: usize = headers
            .iter()
            .find_map(|header| header.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            return Some(Recorded {
                line: line.trim_end_matches(" HTTP/1.1").to_owned(),
                headers: headers.join("\n"),
                body: body[..length].to_vec(),
            });
        }
    }
}
