//! The websocket of a remote kernel as a [`Link`]: all four channels over one connection, re-established when it
//! breaks.
//!
//! A Jupyter server buffers what a kernel sends while no client is connected, and sends it to a client that returns
//! with the same session id. So a broken connection loses no message, unless the server did not notice the break: then
//! messages in flight are lost, and the actor finds that out with a fence ([`Incoming::Reconnected`]).
//!
//! Invariants:
//! - One task owns the connection. It reads only when its last item has been taken, within the link's budget.
//! - A request is neither lost half-way nor sent twice: it is kept until it is completely written.
//! - [`Incoming::Lost`] comes last, after the final attempt or when retrying cannot help.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message as WsMessage};

use super::dial::{Transport, dial};
use super::frame::{self, Decoded, Dialect, Frame};
use super::{Gateway, GatewayError, root_cause};
use crate::jupyter::content::{Content, ExecutionState};
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::wire;
use crate::kernel::link::{HEAVIEST, IN_FLIGHT_BYTES, Incoming, Link, LinkLoss, QUEUE};
use crate::task;

/// Most bytes of one message, the same as in a local kernel's guard. `tungstenite` allocates a frame's length before
/// the bytes come.
const MAX_MESSAGE: usize = 80 << 20;

/// Most outgoing bytes that wait for the network. A request is a cell.
const MAX_UNSENT: usize = 64 << 20;

/// How long the server may take to open the websocket. It waits for its kernel first.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(70);

/// How long writing a request may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// After this much silence we ping the server, and after twice as much we give up. Servers ping every 30 s.
const PING_AFTER: Duration = Duration::from_secs(20);

/// Delay before each attempt to reconnect. A restarting server or a waking laptop takes time.
const BACK_OFF: [Duration; 10] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
    Duration::from_secs(30),
];

/// What a server prints on stderr in place of outputs that came too fast (jupyter_server, `iopub_data_rate_limit`).
const RATE_LIMITS: [&str; 2] = ["IOPub data rate exceeded", "IOPub message rate exceeded"];

type Socket = WebSocketStream<Box<dyn Transport>>;

/// Connects to the kernel `id` of `gateway`. `session` must be unique: the server identifies us by it.
///
/// # Errors
/// [`GatewayError`]; later losses are reported over the link.
pub(super) async fn connect(
    gateway: &Gateway,
    id: &str,
    session: &str,
) -> Result<Link, GatewayError> {
    let at = ChannelsUrl::of(gateway, id, session)?;
    let (at, socket) = at.find(gateway).await?;
    let (incoming_tx, incoming) = mpsc::channel(QUEUE);
    let (outgoing, requests) = mpsc::channel(QUEUE);
    let pump = Pump {
        gateway: gateway.clone(),
        at,
        incoming: incoming_tx,
        requests,
        unsent: None,
        failures: 0,
        budget: Arc::new(Semaphore::new(IN_FLIGHT_BYTES)),
    };
    let task = task::spawn("gateway socket", pump.run(socket));
    Ok(Link::over(outgoing, incoming, task))
}

/// URL and wire protocol of a kernel's websocket.
struct ChannelsUrl {
    url: Url,
    dialect: Dialect,
}

const DOING: &str = "connect to the kernel";

impl ChannelsUrl {
    fn of(gateway: &Gateway, id: &str, session: &str) -> Result<Self, GatewayError> {
        let bad = |reason: &str| GatewayError::BadUrl {
            reason: reason.to_owned(),
        };
        let mut url = gateway
            .base()
            .join(&format!("api/kernels/{id}/channels"))
            .map_err(|error| bad(&error.to_string()))?;
        url.query_pairs_mut().append_pair("session_id", session);
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme)
            .map_err(|()| bad("it cannot be that of a websocket"))?;
        let dialect = Dialect::V1;
        Ok(Self { url, dialect })
    }

    /// Opens the websocket with the binary protocol, or without it on servers that do not know it.
    async fn find(self, gateway: &Gateway) -> Result<(Self, Socket), GatewayError> {
        match self.open_as(gateway).await {
            Ok(socket) => Ok((self, socket)),
            Err(Refused::Because(error)) => Err(error),
            Err(Refused::NoSubprotocol) => {
                // The server is still closing the first connection, so the second needs a session id of its own.
                let mut at = self;
                let session = at.url.query().unwrap_or_default().to_owned() + "-json";
                at.url.set_query(Some(&session));
                at.dialect = Dialect::Json;
                let socket = at.open(gateway).await?;
                Ok((at, socket))
            }
        }
    }

    /// Opens the websocket with the protocol that was found to work.
    async fn open(&self, gateway: &Gateway) -> Result<Socket, GatewayError> {
        self.open_as(gateway)
            .await
            .map_err(|refused| match refused {
                Refused::Because(error) => error,
                Refused::NoSubprotocol => {
                    gateway.not_jupyter(DOING, "it wants a websocket protocol that we do not know")
                }
            })
    }

    async fn open_as(&self, gateway: &Gateway) -> Result<Socket, Refused> {
        let after = HANDSHAKE_TIMEOUT;
        timeout(after, shake_hands(gateway, &self.url, self.dialect))
            .await
            .unwrap_or_else(|_| {
                Err(Refused::Because(GatewayError::TimedOut {
                    doing: DOING,
                    url: gateway.url().to_owned(),
                    after,
                }))
            })
    }
}

enum Refused {
    /// The server accepted the connection but does not speak the protocol we offered.
    NoSubprotocol,
    Because(GatewayError),
}

async fn shake_hands(gateway: &Gateway, url: &Url, dialect: Dialect) -> Result<Socket, Refused> {
    let unreachable = |error: &dyn std::error::Error| {
        Refused::Because(GatewayError::Unreachable {
            doing: DOING,
            url: gateway.url().to_owned(),
            reason: root_cause(error),
        })
    };
    let mut request = url
        .as_str()
        .into_client_request()
        .map_err(|error| unreachable(&error))?;
    let headers = request.headers_mut();
    headers.extend(gateway.auth_headers());
    if dialect == Dialect::V1 {
        let name = HeaderName::from_static("sec-websocket-protocol");
        headers.insert(name, HeaderValue::from_static(frame::V1));
    }
    let stream = dial(url, gateway.tls())
        .await
        .map_err(|error| unreachable(&error))?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .max_write_buffer_size(MAX_UNSENT);
    match tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err(Refused::Because(gateway.refusal(
                DOING,
                response.status(),
                body,
            )))
        }
        Err(tungstenite::Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(_))) => {
            Err(Refused::NoSubprotocol)
        }
        Err(error) => Err(unreachable(&error)),
    }
}

/// Moves messages between the websocket and the link's queues.
struct Pump {
    gateway: Gateway,
    at: ChannelsUrl,
    incoming: mpsc::Sender<Incoming>,
    requests: mpsc::Receiver<(Channel, Message)>,
    /// Taken from the queue but not completely written.
    unsent: Option<(Channel, Message)>,
    /// Attempts to connect since the last successful read.
    failures: usize,
    budget: Arc<Semaphore>,
}

/// Why a connection ended.
enum Over {
    /// The link was dropped.
    Unwanted,
    /// It broke, for this reason.
    Broken(String),
    /// It works but is of no more use.
    Finished(LinkLoss),
}

/// Something for the actor, and its share of the budget in bytes.
struct Item {
    incoming: Incoming,
    bytes: u32,
    /// Set if this is the last item.
    end: Option<LinkLoss>,
}

impl Pump {
    async fn run(mut self, mut socket: Socket) {
        let loss = loop {
            match self.serve(&mut socket).await {
                Over::Unwanted => {
                    // Tell the server, so that it does not wait for our pongs. It may be gone itself.
                    let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
                    return;
                }
                Over::Finished(loss) => break loss,
                Over::Broken(reason) => {
                    tracing::warn!(
                        url = self.gateway.url(),
                        reason,
                        "connection to the gateway broke"
                    );
                }
            }
            match self.reconnect().await {
                Ok(again) => socket = again,
                Err(loss) => break loss,
            }
            if self.incoming.send(Incoming::Reconnected).await.is_err() {
                return;
            }
        };
        // The actor may have gone.
        let _ = self.incoming.send(Incoming::Lost(loss)).await;
    }

    /// Reconnects to the same session until that works or cannot work any more.
    async fn reconnect(&mut self) -> Result<Socket, LinkLoss> {
        let mut last = format!(
            "the connection to gateway {} breaks again and again",
            self.gateway.url()
        );
        while let Some(pause) = BACK_OFF.get(self.failures) {
            self.failures += 1;
            sleep(*pause).await;
            match self.at.open(&self.gateway).await {
                Ok(socket) => return Ok(socket),
                Err(error) if error.may_pass() => {
                    tracing::debug!(%error, "could not connect again yet");
                    last = error.to_string();
                }
                Err(error) => return Err(LinkLoss::Gone(error.to_string())),
            }
        }
        Err(LinkLoss::Gone(last))
    }

    async fn serve(&mut self, socket: &mut Socket) -> Over {
        let dialect = self.at.dialect;
        let mut waiting: Option<Item> = None;
        let mut heard = Instant::now();
        let mut asked = false;
        loop {
            if let Some((channel, message)) = self.unsent.take() {
                let frame = match frame::encode(dialect, channel, &message) {
                    Frame::Binary(bytes) => WsMessage::Binary(bytes),
                    Frame::Text(text) => WsMessage::Text(text.into()),
                };
                match timeout(WRITE_TIMEOUT, socket.send(frame)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        self.unsent = Some((channel, message));
                        return Over::Broken(root_cause(&error));
                    }
                    Err(_) => {
                        self.unsent = Some((channel, message));
                        return Over::Broken("it took nothing more".to_owned());
                    }
                }
            }
            let patience = if asked { PING_AFTER * 2 } else { PING_AFTER };
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => self.unsent = Some(request),
                    None => return Over::Unwanted,
                },
                room = room(&self.budget, &self.incoming, waiting.as_ref()), if waiting.is_some() => {
                    let (Some((permit, slot)), Some(item)) = (room, waiting.take()) else {
                        return Over::Unwanted;
                    };
                    slot.send(match item.incoming {
                        Incoming::Message { channel, message, raw, .. } => {
                            Incoming::Message { channel, message, raw, permit }
                        }
                        other => other,
                    });
                    if let Some(loss) = item.end {
                        return Over::Finished(loss);
                    }
                    // We delayed the read, not the server.
                    heard = Instant::now();
                }
                read = socket.next(), if waiting.is_none() => {
                    heard = Instant::now();
                    asked = false;
                    match take(read, dialect) {
                        Taken::Item(item) => {
                            self.failures = 0;
                            waiting = Some(*item);
                        }
                        Taken::Nothing => {}
                        Taken::TooLarge(bytes) => {
                            // The rest of it cannot be skipped; the server keeps what comes after it.
                            if self.incoming.send(Incoming::Emptied { bytes, file: None }).await.is_err() {
                                return Over::Unwanted;
                            }
                            return Over::Broken(format!("a message of {bytes} bytes is too large"));
                        }
                        Taken::Broken(reason) => return Over::Broken(reason),
                    }
                }
                () = sleep_until(heard + patience), if waiting.is_none() => {
                    if asked {
                        return Over::Broken("the server is silent".to_owned());
                    }
                    asked = true;
                    let ping = socket.send(WsMessage::Ping(bytes::Bytes::new()));
                    if !matches!(timeout(WRITE_TIMEOUT, ping).await, Ok(Ok(()))) {
                        return Over::Broken("the server is gone".to_owned());
                    }
                }
            }
        }
    }
}

/// Reserves room for an item: its bytes of the budget, and a slot in the queue. `None` if the receiver has gone.
async fn room<'a>(
    budget: &Arc<Semaphore>,
    incoming: &'a mpsc::Sender<Incoming>,
    item: Option<&Item>,
) -> Option<(Option<OwnedSemaphorePermit>, mpsc::Permit<'a, Incoming>)> {
    let permit = match item {
        Some(item) if item.bytes > 0 => Some(
            Arc::clone(budget)
                .acquire_many_owned(item.bytes)
                .await
                .ok()?,
        ),
        Some(_) | None => None,
    };
    Some((permit, incoming.reserve().await.ok()?))
}

/// The result of a read.
enum Taken {
    Item(Box<Item>),
    /// A ping (answered by `tungstenite`) or a pong.
    Nothing,
    TooLarge(u64),
    Broken(String),
}

fn take(read: Option<Result<WsMessage, tungstenite::Error>>, dialect: Dialect) -> Taken {
    let (bytes, is_text) = match read {
        Some(Ok(WsMessage::Binary(bytes))) => (bytes, false),
        Some(Ok(WsMessage::Text(text))) => (text.into(), true),
        Some(Ok(WsMessage::Ping(_) | WsMessage::Pong(_) | WsMessage::Frame(_))) => {
            return Taken::Nothing;
        }
        Some(Ok(WsMessage::Close(why))) => {
            let why = why.map(|why| why.reason.to_string()).unwrap_or_default();
            return Taken::Broken(format!("the server closed it {why}"));
        }
        Some(Err(tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, .. }))) => {
            return Taken::TooLarge(size as u64);
        }
        Some(Err(error)) => return Taken::Broken(root_cause(&error)),
        None => return Taken::Broken("the server closed it".to_owned()),
    };
    // Weighed as if all of it were JSON: an estimate that is too high is safe.
    let weight = wire::weight(std::slice::from_ref(&bytes));
    if weight > HEAVIEST {
        let bytes = bytes.len() as u64;
        return Taken::Item(Box::new(Item {
            incoming: Incoming::TooLarge { bytes, file: None },
            bytes: 0,
            end: None,
        }));
    }
    let decoded = if is_text {
        frame::decode_text(&bytes)
    } else {
        frame::decode_binary(dialect, &bytes)
    };
    let Decoded {
        channel,
        message,
        raw,
    } = match decoded {
        Ok(decoded) => decoded,
        Err(unreadable) => {
            return Taken::Item(Box::new(Item {
                incoming: Incoming::Unreadable(unreadable.channel, unreadable.error),
                bytes: 0,
                end: None,
            }));
        }
    };
    let (words, end) = match (channel, &message.content) {
        (Channel::IoPub, Content::Stream(stream)) if stream.name == "stderr" => {
            (rate_limit(&stream.text), None)
        }
        // Only servers send this; a cell that forges it ends its own kernel's life.
        (Channel::IoPub, Content::Status(ExecutionState::Restarting)) => (
            None,
            Some("its process died and the gateway started it again"),
        ),
        (Channel::IoPub, Content::Status(ExecutionState::Dead)) => (
            None,
            Some("its process died and the gateway could not start it again"),
        ),
        _ => (None, None),
    };
    // Only iopub is counted, where a cell can send without end: a reply is small and must not wait for room.
    let bytes = match channel {
        Channel::IoPub => u32::try_from(weight.clamp(1, IN_FLIGHT_BYTES)).unwrap_or(u32::MAX),
        Channel::Shell | Channel::Control | Channel::Stdin => 0,
    };
    Taken::Item(Box::new(Item {
        incoming: match words {
            Some(words) => Incoming::Truncated(words),
            None => Incoming::Message {
                channel,
                message: Box::new(message),
                raw,
                permit: None,
            },
        },
        bytes,
        end: end.map(|words| LinkLoss::Gone(words.to_owned())),
    }))
}

/// Our notice for a server's message that it dropped output.
fn rate_limit(text: &str) -> Option<String> {
    let limit = RATE_LIMITS
        .into_iter()
        .find(|limit| text.trim_start().starts_with(limit))?;
    Some(format!(
        "the gateway dropped output that came too fast ({limit}); print less at a time, or raise its limit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_of_the_server_is_told_from_output() {
        let notice = "IOPub data rate exceeded.\nThe Jupyter server will temporarily stop sending output\nto the client";
        assert_eq!(
            rate_limit(notice).unwrap(),
            "the gateway dropped output that came too fast (IOPub data rate exceeded); print less at a time, or raise its limit"
        );
        assert!(rate_limit("\nIOPub message rate exceeded.\n").is_some());
        assert_eq!(rate_limit("warning: IOPub data rate exceeded"), None);
    }

    #[test]
    fn the_websocket_is_beside_the_requests() {
        let url = |base: &str| {
            let options = super::super::GatewayOptions::parse(base, None).unwrap();
            // https needs root certificates, which may be missing here.
            let url = options.url.clone();
            Gateway::new(options).map(|gateway| {
                assert_eq!(gateway.base(), &url);
                let place = ChannelsUrl::of(&gateway, "id-1", "s 1").unwrap();
                place.url.to_string()
            })
        };
        assert_eq!(
            url("http://127.0.0.1:8888/user/me").unwrap(),
            "ws://127.0.0.1:8888/user/me/api/kernels/id-1/channels?session_id=s+1"
        );
        if let Ok(url) = url("https://h") {
            assert_eq!(url, "wss://h/api/kernels/id-1/channels?session_id=s+1");
        }
    }
}
