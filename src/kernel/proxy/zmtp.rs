//! The listening side of ZMTP 3 (RFC 23), NULL mechanism, over any byte stream: handshake, then whole messages.
//!
//! Why not `zeromq`: its sockets allocate as much memory as a frame header announces, drop what a subscriber does not
//! take, and do not report who has subscribed. Here memory grows with the bytes received, and every write has a
//! timeout.
//!
//! We announce version 3.0, so that subscriptions come as messages, which every client can send.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::kernel::zmtp::{COMMAND, COMMAND_LIMIT, GREETING, Head, pong, push_head};

/// Most bytes of one message of a front end: as many as our guard accepts from a kernel.
const MESSAGE_BYTES: u64 = 80 << 20;
/// Most frames of one message.
const FRAMES: usize = 1024;
/// Bytes per write; the time limit applies to each.
const CHUNK: usize = 256 * 1024;
/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes of a header whose length is one byte, and of one whose length is eight.
const SHORTEST_HEAD: usize = 2;
const LONGEST_HEAD: usize = 9;

/// Why a connection was closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The peer has gone, or the system failed.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// Not ZMTP 3 with the NULL mechanism.
    #[error("the peer does not speak ZMTP 3 without encryption")]
    Protocol,
    /// It sent more than we accept.
    #[error("a message of more than {MESSAGE_BYTES} bytes or {FRAMES} frames")]
    TooLarge,
    /// It did not shake hands, or did not read what was sent to it.
    #[error("the peer did nothing for {0:?}")]
    Stalled(Duration),
}

/// What a peer sends after the handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The frames of a message.
    Message(Vec<Bytes>),
    /// A ping; holds the frame that answers it.
    Ping(Bytes),
}

/// Does the handshake for a socket of type `socket_type` and returns the peer's identity, which may be empty.
pub(super) async fn shake_hands(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    socket_type: &str,
) -> Result<Bytes, Broken> {
    let handshake = async {
        let mut greeting = [0; GREETING];
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        writer.write_all(&greeting).await?;
        writer.flush().await?;
        reader.read_exact(&mut greeting).await?;
        let mechanism = &greeting[12..32];
        let is_null = mechanism.starts_with(b"NULL") && mechanism[4..].iter().all(|&b| b == 0);
        if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 || !is_null {
            return Err(Broken::Protocol);
        }
        writer.write_all(&ready(socket_type)).await?;
        writer.flush().await?;
        let head = read_head(reader).await?;
        if !head.is_command() || head.length > COMMAND_LIMIT {
            return Err(Broken::Protocol);
        }
        identity(&body(reader, head.length).await?)
    };
    timeout(HANDSHAKE, handshake)
        .await
        .unwrap_or(Err(Broken::Stalled(HANDSHAKE)))
}

/// Reads the next message. Not cancel-safe.
pub(super) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> Result<Received, Broken> {
    let mut frames = Vec::new();
    let mut bytes = 0_u64;
    loop {
        let head = read_head(reader).await?;
        if head.is_command() {
            if head.length > COMMAND_LIMIT {
                return Err(Broken::TooLarge);
            }
            let command = body(reader, head.length).await?;
            // A ping between the frames of a message cannot be answered; the peer will ping again.
            if let Some(data) = command.strip_prefix(b"\x04PING")
                && frames.is_empty()
            {
                return Ok(Received::Ping(pong(data).into()));
            }
            continue;
        }
        bytes = bytes.saturating_add(head.length);
        if bytes > MESSAGE_BYTES || frames.len() >= FRAMES {
            return Err(Broken::TooLarge);
        }
        frames.push(body(reader, head.length).await?);
        if !head.has_more() {
            return Ok(Received::Message(frames));
        }
    }
}

/// Writes a message. Gives up on a peer that takes no bytes for `stall`.
pub(super) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    frames: &[Bytes],
    stall: Duration,
) -> Result<(), Broken> {
    let mut together = Vec::with_capacity(1024);
    for (n, frame) in frames.iter().enumerate() {
        push_head(&mut together, frame.len(), n + 1 == frames.len());
        // Large frames are written directly; small ones together.
        if frame.len() > CHUNK / 16 {
            write_bytes(writer, &together, stall).await?;
            together.clear();
            write_bytes(writer, frame, stall).await?;
        } else {
            together.extend_from_slice(frame);
        }
    }
    write_bytes(writer, &together, stall).await
}

/// Writes the bytes of a complete frame, the answer of [`Received::Ping`].
pub(super) async fn write_bytes(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    stall: Duration,
) -> Result<(), Broken> {
    for chunk in bytes.chunks(CHUNK) {
        timeout(stall, writer.write_all(chunk))
            .await
            .map_err(|_| Broken::Stalled(stall))??;
    }
    Ok(())
}

async fn read_head(reader: &mut (impl AsyncRead + Unpin)) -> Result<Head, Broken> {
    let mut bytes = [0; LONGEST_HEAD];
    let mut read = 0;
    // First the length of the shorter header, then that of the longer one.
    for size in [SHORTEST_HEAD, LONGEST_HEAD] {
        reader.read_exact(&mut bytes[read..size]).await?;
        read = size;
        let head = Head::read(&bytes[..read]).map_err(|_| Broken::Protocol)?;
        if let Some(head) = head {
            return Ok(head);
        }
    }
    Err(Broken::Protocol)
}

/// Reads exactly `length` bytes; memory grows as they come.
async fn body(reader: &mut (impl AsyncRead + Unpin), length: u64) -> Result<Bytes, Broken> {
    let mut body = Vec::new();
    let read = reader.take(length).read_to_end(&mut body).await?;
    if read as u64 == length {
        Ok(body.into())
    } else {
        Err(Broken::Io(io::ErrorKind::UnexpectedEof.into()))
    }
}

/// The READY command of a listening socket.
fn ready(socket_type: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    // Names of socket types are short.
    body.extend([0, 0, 0, u8::try_from(socket_type.len()).unwrap_or_default()]);
    body.extend_from_slice(socket_type.as_bytes());
    let length = u8::try_from(body.len()).unwrap_or_default();
    [&[COMMAND, length], body.as_slice()].concat()
}

/// The `Identity` property of a READY command.
fn identity(command: &Bytes) -> Result<Bytes, Broken> {
    let mut rest = command.strip_prefix(b"\x05READY").ok_or(Broken::Protocol)?;
    let mut identity = Bytes::new();
    while let Some((&length, tail)) = rest.split_first() {
        let (name, tail) = tail
            .split_at_checked(length.into())
            .ok_or(Broken::Protocol)?;
        let (&size, tail) = tail.split_first_chunk::<4>().ok_or(Broken::Protocol)?;
        let (value, tail) = usize::try_from(u32::from_be_bytes(size))
            .ok()
            .and_then(|size| tail.split_at_checked(size))
            .ok_or(Broken::Protocol)?;
        if name.eq_ignore_ascii_case(b"Identity") {
            identity = command.slice_ref(value);
        }
        rest = tail;
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENT: Duration = Duration::from_secs(30);

    fn frames(frames: &[&'static [u8]]) -> Vec<Bytes> {
        frames
            .iter()
            .map(|frame| Bytes::from_static(frame))
            .collect()
    }

    #[tokio::test]
    async fn what_is_written_is_read() {
        let large = Bytes::from(vec![7; 3 * CHUNK + 1]);
        let mut message = frames(&[b"", b"a", &[1; 255], &[2; 256]]);
        message.push(large);
        message.push(Bytes::new());
        let (mut one, mut other) = tokio::io::duplex(1000);
        let (written, read) = tokio::join!(write(&mut one, &message, PATIENT), read(&mut other));
        written.unwrap();
        assert_eq!(read.unwrap(), Received::Message(message));
    }

    /// What `libzmq` 4.3 sends as a DEALER: it announces 3.1 and sends its greeting in two parts.
    #[tokio::test]
    async fn a_libzmq_client_is_greeted_and_named() {
        let (client, server) = tokio::io::duplex(1000);
        let (mut reader, mut writer) = tokio::io::split(server);
        let client = async move {
            let (mut reader, mut writer) = tokio::io::split(client);
            writer
                .write_all(b"\xff\0\0\0\0\0\0\0\x01\x7f")
                .await
                .unwrap();
            let mut greeting = [0; GREETING];
            reader.read_exact(&mut greeting).await.unwrap();
            assert_eq!(&greeting[9..16], b"\x7f\x03\x00NULL");
            let mut rest = [0; GREETING - 10];
            rest[..6].copy_from_slice(b"\x03\x01NULL");
            writer.write_all(&rest).await.unwrap();
            let mut ready = [0; 30];
            reader.read_exact(&mut ready).await.unwrap();
            assert_eq!(
                &ready,
                b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"
            );
            writer
                .write_all(b"\x04\x2c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x03abc")
                .await
                .unwrap();
            // A ping between messages, and one inside a message.
            writer
                .write_all(
                    b"\x04\x0a\x04PING\x00\x0aabc\x01\x01x\x04\x08\x04PING\x00\x0ab\x00\x01y",
                )
                .await
                .unwrap();
            (reader, writer)
        };
        let server = async {
            let identity = shake_hands(&mut reader, &mut writer, "ROUTER").await?;
            Ok::<_, Broken>((identity, read(&mut reader).await?, read(&mut reader).await?))
        };
        let (_held, got) = tokio::join!(client, server);
        assert_eq!(
            got.unwrap(),
            (
                Bytes::from_static(b"abc"),
                Received::Ping(Bytes::from_static(b"\x04\x08\x04PONGabc")),
                Received::Message(frames(&[b"x", b"y"]))
            )
        );
    }

    #[tokio::test]
    async fn hostile_peers_are_refused() {
        async fn refused(bytes: &[u8]) -> String {
            read(&mut &bytes[..]).await.unwrap_err().to_string()
        }
        // A frame of 2^45 bytes.
        let huge = [b"\x02".as_slice(), &(1_u64 << 45).to_be_bytes(), b"x"].concat();
        assert_eq!(
            refused(&huge).await,
            "a message of more than 83886080 bytes or 1024 frames"
        );
        assert_eq!(
            refused(&b"\x01\x00".repeat(1025)).await,
            "a message of more than 83886080 bytes or 1024 frames"
        );
        assert_eq!(
            refused(b"\x80\x01x").await,
            "the peer does not speak ZMTP 3 without encryption"
        );
        assert_eq!(
            refused(b"\x00\x05ab").await,
            "connection lost: unexpected end of file"
        );
        let mut sink = tokio::io::sink();
        let http = b"GET / HTTP/1.1\r\n".repeat(5);
        let refused = shake_hands(&mut &http[..], &mut sink, "ROUTER").await;
        assert!(matches!(refused, Err(Broken::Protocol)));
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut one, _other) = tokio::io::duplex(10);
        let stall = Duration::from_millis(10);
        let written = write(&mut one, &frames(&[&[0; 100]]), stall).await;
        assert!(matches!(written, Err(Broken::Stalled(_))));
    }
}
