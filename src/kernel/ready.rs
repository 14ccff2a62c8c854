//! When a kernel can be given code: a running process and open sockets are not enough.

use std::time::Duration;

use tokio::time::Instant;

use super::link::{Incoming, Link, LinkLoss};
use crate::jupyter::content::{Content, ExecuteRequest, ExecutionState, KernelInfo};
use crate::jupyter::message::{Channel, Message};

/// Time between two readiness probes of a starting kernel.
pub(super) const PROBE_EVERY: Duration = Duration::from_millis(100);

/// Readiness fence: waits until the kernel has answered on shell and a message about our request was seen on iopub, so
/// that no output of the first cell is lost to a missing subscription. Repeats the request after `every`.
pub(super) async fn wait_ready(
    link: &mut Link,
    session: &str,
    username: &str,
    every: Duration,
) -> Result<KernelInfo, String> {
    let mut ours = Vec::new();
    let mut info = None;
    let mut published = false;
    loop {
        let probe = Message::request(Content::KernelInfoRequest, session, username, now());
        ours.push(probe.header.msg_id.clone());
        let closed = || "the connection to the kernel was closed".to_owned();
        link.send(Channel::Shell, probe);
        let next_probe = Instant::now() + every;
        while let Ok(incoming) = tokio::time::timeout_at(next_probe, link.incoming.recv()).await {
            match incoming.ok_or_else(closed)? {
                Incoming::Message {
                    channel, message, ..
                } => {
                    let mine = message
                        .parent_id()
                        .is_some_and(|id| ours.iter().any(|o| o == id));
                    match (channel, message.content) {
                        (Channel::Shell, Content::KernelInfoReply(reply)) if mine => {
                            info = Some(*reply);
                        }
                        (Channel::IoPub, _) if mine => published = true,
                        _ => {}
                    }
                }
                Incoming::Emptied { .. }
                | Incoming::TooLarge { .. }
                | Incoming::Truncated(_)
                | Incoming::Reconnected => {}
                Incoming::Unreadable(channel, error) => {
                    tracing::warn!(channel = channel.name(), %error, "dropped an unreadable message");
                }
                Incoming::Lost(LinkLoss::Hostile(what)) => {
                    return Err(format!("its connection was cut because {what}"));
                }
                Incoming::Lost(LinkLoss::Gone(what)) => return Err(what),
                Incoming::Lost(LinkLoss::Closed) => return Err(closed()),
            }
            if published && let Some(info) = info.take_if(|_| published) {
                return Ok(info);
            }
        }
    }
}

/// A request that runs `code` without leaving a trace.
pub(super) fn set_up_request(code: &str) -> Content {
    Content::ExecuteRequest(ExecuteRequest {
        code: code.to_owned(),
        silent: true,
        store_history: false,
        user_expressions: serde_json::Map::new(),
        allow_stdin: false,
        stop_on_error: false,
    })
}

/// Runs `code` silently before anything else, and waits until it is done.
pub(super) async fn set_up(
    link: &mut Link,
    session: &str,
    username: &str,
    code: &str,
) -> Result<(), String> {
    let request = set_up_request(code);
    let request = Message::request(request, session, username, now());
    let id = request.header.msg_id.clone();
    let closed = || "the connection to the kernel was closed".to_owned();
    link.send(Channel::Shell, request);
    let (mut replied, mut idle) = (false, false);
    while !(replied && idle) {
        match link.incoming.recv().await.ok_or_else(closed)? {
            Incoming::Message {
                channel, message, ..
            } if message.parent_id() == Some(&id) => {
                replied |= channel == Channel::Shell;
                idle |= message.content == Content::Status(ExecutionState::Idle);
            }
            Incoming::Message { .. }
            | Incoming::Unreadable(..)
            | Incoming::Emptied { .. }
            | Incoming::TooLarge { .. }
            | Incoming::Truncated(_)
            | Incoming::Reconnected => {}
            Incoming::Lost(LinkLoss::Gone(what)) => return Err(what),
            Incoming::Lost(LinkLoss::Hostile(what)) => {
                return Err(format!("its connection was cut because {what}"));
            }
            Incoming::Lost(LinkLoss::Closed) => return Err(closed()),
        }
    }
    Ok(())
}

/// The current time in the format of message headers.
pub(super) fn now() -> String {
    jiff::Timestamp::now().to_string()
}
