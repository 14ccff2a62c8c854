//! A kernel's messages over a websocket, in JSON or the binary protocol, as the client offers.
//!
//! The connection ends with the client or the kernel. A client that accepts no byte for 30 s is cut, as everywhere
//! (`server::listen`). A client that sends nothing is not, because programs only listen while their code runs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::super::extract::{Path, Query};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::upgrade::{Socket, Upgrade};
use super::{Answer, kernels};
use crate::kernel::{Dialect, Frame, HubClient, HubSender};
use crate::task;

/// Keeps intermediaries from closing a quiet connection.
const PING: Duration = Duration::from_secs(30);
/// Maximum characters of a client's session.
const SESSION: usize = 256;

/// The query of a connecting client.
#[derive(Debug, Deserialize)]
pub(super) struct Connecting {
    /// A client that reconnects with the same name gets the messages that it missed.
    session_id: Option<String>,
}

/// Connects a client to a kernel.
pub(super) async fn channels(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(connecting): Query<Connecting>,
    request: Request,
) -> Answer {
    let kernel = kernels::find(&shared, &id).await?;
    let upgrade = Upgrade::of(request)?;
    let session = connecting.session_id.filter(|it| !it.is_empty());
    if session.as_ref().is_some_and(|it| it.len() > SESSION) {
        return Err(Problem::bad_request("the session's id is too long").into());
    }
    let slot = Arc::clone(&shared.jupyter.sockets).try_acquire_owned();
    let slot = slot.map_err(|_| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_connections",
            "too many clients are connected to kernels",
        )
    })?;
    let session = session.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let client = kernel.connect(&session).await;
    let client = client.ok_or_else(|| Problem::not_found("this kernel has ended"))?;
    let dialect = upgrade.dialect;
    let (response, socket) = upgrade.accept();
    task::spawn("kernel websocket", async move {
        if let Some(socket) = socket.await {
            serve(socket, dialect, client, slot).await;
        }
    })
    .detach();
    Ok(response)
}

async fn serve(socket: Socket, dialect: Dialect, client: HubClient, _slot: OwnedSemaphorePermit) {
    let sender = client.sender();
    let (sink, stream) = socket.split();
    let ended = tokio::select! {
        ended = outward(sink, dialect, client) => ended,
        ended = inward(stream, dialect, sender) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a kernel's websocket broke");
    }
}

async fn outward(
    mut sink: impl Sink<Message, Error = Error> + Unpin,
    dialect: Dialect,
    mut client: HubClient,
) -> Result<(), Error> {
    let mut ping = tokio::time::interval(PING);
    loop {
        tokio::select! {
            queued = client.next() => {
                let Some(queued) = queued else {
                    return sink.close().await;
                };
                // Our own connection has already parsed it as JSON.
                let Some(frame) = dialect.encode(queued.channel, &queued.message) else {
                    continue;
                };
                let frame = match frame {
                    Frame::Text(text) => Message::text(text),
                    Frame::Binary(bytes) => Message::binary(bytes),
                };
                sink.feed(frame).await?;
                if !client.has_more() {
                    sink.flush().await?;
                }
            }
            _ = ping.tick() => sink.send(Message::Ping(bytes::Bytes::new())).await?,
        }
    }
}

async fn inward(
    mut stream: impl Stream<Item = Result<Message, Error>> + Unpin,
    dialect: Dialect,
    sender: HubSender,
) -> Result<(), Error> {
    while let Some(message) = stream.next().await {
        let frame = match message? {
            Message::Text(text) => Frame::Text(text.to_string()),
            Message::Binary(bytes) => Frame::Binary(bytes),
            Message::Close(_) => return Ok(()),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        match dialect.decode(&frame) {
            Ok((channel, message)) => {
                if !sender.send(channel, message).await {
                    return Ok(());
                }
            }
            Err(error) => tracing::warn!(%error, "dropped a frame of a client"),
        }
    }
    Ok(())
}
