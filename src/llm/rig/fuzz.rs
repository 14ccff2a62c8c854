//! Fuzzes server replies: fragmentation does not matter, each reply ends once, calls begin before their arguments, and
//! nothing is invented.
#![expect(
    clippy::unwrap_used,
    reason = "a property that does not hold is a panic"
)]

use std::future::{Future, ready};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use rig_core::http_client::{
    Error, HttpClientExt, LazyBody, MultipartForm, Request, Response, Result as Sent,
    StreamingResponse,
};

use super::errors::Origin;
use super::wires::{self, Wire};
use super::{RigOptions, RigProvider};
use crate::fuzz::seeded;
use crate::llm::endpoint::{Endpoint, ProviderKind};
use crate::llm::types::{Delta, Message, Part, Prompt, Provider as _, ProviderError, ToolChoice};

const WIRES: [ProviderKind; 5] = [
    ProviderKind::OpenAiCompatible,
    ProviderKind::OpenAi,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// The first bytes choose the wire and the fragmentation of the rest, which is the response body.
pub(crate) fn reply(data: &[u8]) {
    let (mut dice, body) = seeded(data);
    let kind = WIRES[usize::from(data.first().copied().unwrap_or_default()) % WIRES.len()];
    let whole = read(kind, &[body]);
    check(&whole, body.len());
    let pieces = read(kind, &dice.pieces(body));
    assert_eq!(words(&pieces), words(&whole), "cut in pieces");
    assert_eq!(
        pieces.last().is_some_and(Result::is_ok),
        whole.last().is_some_and(Result::is_ok)
    );
}

type Told = Vec<Result<Delta, ProviderError>>;

fn read(kind: ProviderKind, pieces: &[&[u8]]) -> Told {
    let endpoint = Endpoint::new(kind, "http://127.0.0.1:9/v1", "m");
    let wire = Wire::of(&endpoint);
    let body = Body(
        pieces
            .iter()
            .map(|piece| Bytes::copy_from_slice(piece))
            .collect(),
    );
    let client = crate::llm::http::client(&endpoint.base_url).unwrap();
    let provider = RigProvider {
        info: endpoint.info.clone(),
        model: wires::model(&endpoint, wire, body),
        wire,
        origin: Arc::new(Origin::of(&endpoint, client)),
        options: RigOptions::default(),
    };
    let prompt = Prompt {
        system: String::new(),
        messages: vec![Message::User(vec![Part::Text("q".to_owned())])],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
    };
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(provider.stream(prompt).collect()))
}

fn check(told: &Told, size: usize) {
    let mut calls = 0;
    let mut said = 0;
    for (at, item) in told.iter().enumerate() {
        match item {
            Ok(Delta::Text(text) | Delta::Reasoning(text)) => said += text.len(),
            Ok(Delta::CallStart { index, name, .. }) => {
                assert_eq!(*index, calls, "calls are counted");
                calls += 1;
                said += name.len();
            }
            Ok(Delta::CallArguments { index, fragment }) => {
                assert!(*index < calls, "arguments of no call");
                said += fragment.len();
            }
            Ok(Delta::Native(_)) => {}
            Ok(Delta::Retrying(_)) => unreachable!("nobody asks again here"),
            Ok(Delta::Finished { .. }) | Err(_) => assert_eq!(at + 1, told.len(), "behind the end"),
        }
    }
    assert!(
        matches!(told.last(), Some(Ok(Delta::Finished { .. }) | Err(_))),
        "a reply without an end"
    );
    // An invalid UTF-8 byte becomes three bytes; arguments that came as JSON are serialised again.
    assert!(said <= 8 * size + 64, "{said} bytes of {size}");
}

/// Everything yielded, fragments joined; without the ids that we generate.
fn words(told: &Told) -> (String, String, Vec<(String, String)>) {
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for item in told {
        match item {
            Ok(Delta::Text(more)) => text.push_str(more),
            Ok(Delta::Reasoning(more)) => reasoning.push_str(more),
            Ok(Delta::CallStart { name, .. }) => calls.push((name.clone(), String::new())),
            Ok(Delta::CallArguments { index, fragment }) => calls[*index].1.push_str(fragment),
            Ok(Delta::Native(_) | Delta::Retrying(_) | Delta::Finished { .. }) | Err(_) => {}
        }
    }
    (text, reasoning, calls)
}

/// Answers every request with these bytes.
#[derive(Debug, Clone)]
struct Body(Vec<Bytes>);

impl HttpClientExt for Body {
    fn send<T, U>(
        &self,
        _request: Request<T>,
    ) -> impl Future<Output = Sent<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        let body = Bytes::from(self.0.concat());
        let body: LazyBody<U> = ready(Ok(U::from(body))).boxed();
        ready(Ok(Response::new(body)))
    }

    fn send_multipart<U>(
        &self,
        _request: Request<MultipartForm>,
    ) -> impl Future<Output = Sent<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        ready(Err(Error::instance(std::io::Error::from(
            std::io::ErrorKind::Unsupported,
        ))))
    }

    fn send_streaming<T>(
        &self,
        _request: Request<T>,
    ) -> impl Future<Output = Sent<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        let pieces = stream::iter(self.0.clone().into_iter().map(Ok));
        let mut response = Response::new(Box::pin(pieces) as _);
        let kind = rig_core::http_client::HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert("content-type", kind);
        ready(Ok(response))
    }
}
