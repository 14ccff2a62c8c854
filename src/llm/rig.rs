//! The provider library `rig-core`, behind our own trait.
//!
//! Invariant: no type of the library leaves this module. Its pitfalls are handled only here: tool arguments go out as
//! the raw text the model wrote (never the library's repaired object), call ids are ours, a stalled stream is
//! abandoned, errors become [`ProviderError`]. Not here: retries, prompts, the agent loop.

mod decode;
mod encode;
mod errors;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(super) mod models;
mod native;
#[cfg(test)]
mod tests;
mod transport;
mod wires;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use rig_core::DynModel;
use rig_core::operation::Completion;
use rig_core::streaming::{CompletionStream, Item};
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::types::{BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError};
use decode::Decoder;
use errors::Origin;
use transport::Transport;
use wires::Wire;

/// A remote model, over whichever wire its server speaks.
pub struct RigProvider {
    info: ModelInfo,
    model: DynModel<Completion>,
    wire: Wire,
    origin: Arc<Origin>,
    options: RigOptions,
}

/// Options for requests.
#[derive(Debug, Clone, PartialEq)]
pub struct RigOptions {
    /// How long a server may send nothing before we give up. It must cover the time a slow machine needs to process the
    /// prompt.
    pub idle_timeout: Duration,
    /// Fields added to the body of requests over OpenAI's chat wire, such as `seed`. Other wires
    /// ignore them.
    pub extra: Map<String, Value>,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_mins(5),
            extra: Map::new(),
        }
    }
}

impl RigProvider {
    /// A provider for the model at `endpoint` that uses `client` (see [`super::http::client`]). Sends nothing yet.
    pub fn new(endpoint: &Endpoint, client: reqwest::Client, options: RigOptions) -> Self {
        let wire = Wire::of(endpoint);
        let origin = Origin::of(endpoint, client.clone());
        let options = RigOptions {
            idle_timeout: endpoint.idle_timeout.unwrap_or(options.idle_timeout),
            ..options
        };
        Self {
            info: ModelInfo {
                host: host_of(&endpoint.base_url),
                ..endpoint.info.clone()
            },
            model: wires::model(endpoint, wire, Transport::new(client, endpoint)),
            wire,
            origin: Arc::new(origin),
            options,
        }
    }
}

/// The host of a URL, with the port if one is named.
fn host_of(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

impl Provider for RigProvider {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        let request = encode::request(&prompt, self.wire, &self.info, &self.options.extra);
        let opened = request
            .map_err(|message| self.origin.unsendable(&message))
            .and_then(|request| {
                let reply = self.model.stream(request);
                reply.map_err(|error| self.origin.error(&error))
            });
        match opened {
            Ok(reply) => {
                let reading = Reading {
                    reply: Some(reply),
                    decoder: Decoder::default(),
                    ready: VecDeque::new(),
                    origin: Arc::clone(&self.origin),
                    idle_timeout: self.options.idle_timeout,
                };
                Box::pin(stream::unfold(reading, |mut reading| async move {
                    let item = reading.next().await?;
                    Some((item, reading))
                }))
            }
            // Nothing was sent: the library rejects what the wire cannot express.
            Err(error) => Box::pin(stream::iter([Err(error)])),
        }
    }
}

/// A reply being read. Ends after the first error, or after [`Delta::Finished`].
struct Reading {
    /// `None` once the reply ended.
    reply: Option<CompletionStream>,
    decoder: Decoder,
    /// Decoded deltas not yet yielded: a handful, because one event makes at most two.
    ready: VecDeque<Delta>,
    origin: Arc<Origin>,
    idle_timeout: Duration,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Delta, ProviderError>> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Some(Ok(delta));
            }
            let mut reply = self.reply.take()?;
            let Ok(item) = tokio::time::timeout(self.idle_timeout, reply.next()).await else {
                return Some(Err(self.origin.stalled(self.idle_timeout)));
            };
            match item {
                Some(Ok(Item::Event(event))) => {
                    self.decoder.event(event, &mut self.ready);
                    self.reply = Some(reply);
                }
                // An item unknown to this version of the library: a vendor's extra, without content.
                Some(Ok(Item::Unknown(_))) => self.reply = Some(reply),
                Some(Err(error)) => {
                    // Drop the stream first: it may hold the connection.
                    drop(reply);
                    return Some(Err(self.origin.explained(&error).await));
                }
                None => {
                    if let Err(error) = self.finish(reply).await {
                        return Some(Err(error));
                    }
                    // The stream has ended, so only the queued deltas remain.
                    return self.ready.pop_front().map(Ok);
                }
            }
        }
    }

    async fn finish(&mut self, reply: CompletionStream) -> Result<(), ProviderError> {
        let response = reply
            .finish()
            .await
            .map_err(|error| self.origin.error(&error))?;
        self.decoder
            .finish(&response, &mut self.ready)
            .map_err(|message| self.origin.malformed(message))
    }
}
