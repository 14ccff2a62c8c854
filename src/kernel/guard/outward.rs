//! What we send to a kernel: the handshake of our `zeromq` socket, then queued messages and answers to `PING`s.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::scanner::{Refusal, Scanner};
use super::{Buffer, Closing, GuardLimits};
use crate::kernel::zmtp::push_head;

/// Client to kernel: our bytes are trusted, and scanned only to know where the guard may insert its own.
pub(super) async fn outward(
    mut client: impl AsyncRead + Unpin,
    mut messages: Option<mpsc::Receiver<Bytes>>,
    mut kernel: impl AsyncWrite + Unpin,
    mut answers: mpsc::Receiver<Vec<u8>>,
) -> Closing {
    let mut scanner = Scanner::new(
        GuardLimits {
            frame: u64::MAX,
            message: u64::MAX,
            discard: u64::MAX,
            frames_per_message: usize::MAX,
            ..GuardLimits::default()
        },
        None,
    );
    let mut buffer = Buffer::new();
    loop {
        let message = async {
            match &mut messages {
                Some(messages) => messages.recv().await,
                None => None,
            }
        };
        let written = tokio::select! {
            read = client.read(&mut buffer.0) => {
                let Ok(count @ 1..) = read else {
                    return Closing::Client;
                };
                match scanner.pass_on(&buffer.0[..count], &mut kernel, drop).await {
                    Ok(()) => {
                        buffer.fit(count);
                        Ok(())
                    }
                    Err(Refusal::Broken(_)) => return Closing::Client,
                    Err(Refusal::Unwritable) => return Closing::Kernel,
                }
            }
            Some(answer) = answers.recv(), if scanner.is_between_messages() => {
                kernel.write_all(&answer).await
            }
            Some(message) = message, if scanner.is_between_messages() => {
                kernel.write_all(&message).await
            }
        };
        if written.is_err() {
            return Closing::Kernel;
        }
    }
}

/// Encodes the frames of one message as ZMTP.
pub fn encode(frames: &[Bytes]) -> Bytes {
    const HEADS: usize = 9;
    let length = frames.iter().map(|frame| frame.len() + HEADS).sum();
    let mut message = Vec::with_capacity(length);
    for (at, frame) in frames.iter().enumerate() {
        push_head(&mut message, frame.len(), at + 1 == frames.len());
        message.extend_from_slice(frame);
    }
    message.into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Dice, frame, hello};
    use super::*;

    #[tokio::test]
    async fn messages_of_the_queue_stand_between_what_our_socket_says() {
        let (ours, client) = tokio::io::duplex(64);
        let (kernel, mut theirs) = tokio::io::duplex(64);
        let (queue, messages) = mpsc::channel(1);
        let (asked, answers) = mpsc::channel(1);
        let long = Bytes::from(vec![7; 300]);
        let message = [Bytes::from_static(b"first"), Bytes::new(), long.clone()];
        let expected = [frame(1, b"first"), frame(1, b""), frame(0, &long)].concat();
        assert_eq!(encode(&message), expected);
        // The message is queued before our socket has begun its handshake.
        queue.send(encode(&message)).await.unwrap();
        asked.send(frame(4, b"\x04PONG")).await.unwrap();
        let sent = [hello(), frame(0, b"\x01")].concat();
        let say = async {
            let mut ours = ours;
            Dice(1).write(&sent, &mut ours).await;
            for _ in 0..50 {
                queue.send(encode(&message)).await.unwrap();
            }
            // Reserving a slot waits until the queued messages were taken, before the end is seen.
            queue.reserve().await.unwrap();
            ours
        };
        let hear = async {
            let mut got = vec![0; sent.len() + 7 + 51 * expected.len()];
            theirs.read_exact(&mut got).await.unwrap();
            got
        };
        let both = async { tokio::join!(say, hear) };
        let (client_end, got) = tokio::select! {
            both = both => both,
            closing = outward(client, Some(messages), kernel, answers) => panic!("{closing}"),
        };
        drop(client_end);
        let (hand, rest) = got.split_at(hello().len());
        assert!(hand == hello(), "nothing stands inside the handshake");
        // Each part is complete: removing them all leaves nothing.
        let mut rest = rest;
        let mut counts = [0; 3];
        let parts = [expected, frame(0, b"\x01"), frame(4, b"\x04PONG")];
        while !rest.is_empty() {
            let at = parts.iter().position(|part| rest.starts_with(part));
            let at = at.expect("a part that is whole");
            counts[at] += 1;
            rest = &rest[parts[at].len()..];
        }
        assert_eq!(counts, [51, 1, 1]);
    }
}
