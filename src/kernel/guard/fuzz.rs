//! Fuzzes the bytes of a kernel: chunk boundaries change nothing, what passes is bounded, messages are complete.
#![expect(
    clippy::unwrap_used,
    reason = "a property that does not hold is a panic"
)]

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use super::GuardLimits;
use super::collect::{Batch, Collector};
use super::scanner::{Note, Refusal, Scanner, Violation};
use crate::fuzz::seeded;
use crate::jupyter::raw::RawMessage;
use crate::jupyter::wire::{self, Signer};
use crate::kernel::zmtp::GREETING;

const LIMITS: GuardLimits = GuardLimits {
    frame: 512,
    message: 1024,
    discard: 4096,
    frames_per_message: 12,
    spool: 1 << 20,
    connect: std::time::Duration::ZERO,
    handshake: std::time::Duration::ZERO,
    stall: std::time::Duration::ZERO,
};

/// What the scanner made of the bytes of one connection.
#[derive(Debug, PartialEq)]
struct Passed {
    bytes: Vec<u8>,
    answers: Vec<Vec<u8>>,
    emptied: Vec<u64>,
    broken: Option<Violation>,
}

/// The first bytes decide how the rest is split. If the first byte is even, a handshake is prepended.
pub(crate) fn wire(data: &[u8]) {
    let (mut dice, rest) = seeded(data);
    let bytes = match data.first() {
        Some(first) if first % 2 == 0 => [&handshake(), rest].concat(),
        _ => rest.to_vec(),
    };
    let whole = scan(&[&bytes]);
    assert_eq!(whole, scan(&dice.pieces(&bytes)), "cut in pieces");
    assert!(whole.bytes.len() <= bytes.len() + GREETING);
    assert!(whole.answers.iter().all(|answer| answer.len() < 64));
    let messages = collect(&[&whole.bytes]);
    assert!(
        messages == collect(&dice.pieces(&whole.bytes)),
        "collected in pieces"
    );
    let signer = Signer::new("");
    for message in messages {
        let size: usize = message.iter().map(Bytes::len).sum();
        assert!(size as u64 <= LIMITS.message && message.len() <= LIMITS.frames_per_message);
        assert!(wire::weight(&message) >= size);
        if let Ok(raw) = RawMessage::open(&message, &signer) {
            assert_eq!(
                RawMessage::open(&raw.seal(&signer), &signer).as_ref(),
                Ok(&raw)
            );
            let mut sealed = raw.seal(&Signer::new("key"));
            let key = Signer::new("key");
            assert_eq!(RawMessage::open(&sealed, &key).as_ref(), Ok(&raw));
            assert_eq!(raw.decode().ok(), wire::decode(&sealed, &key).ok());
            let content = raw.prefix.len() + 5;
            if let Some(frame) = sealed.get_mut(content) {
                *frame = [frame, b" ".as_slice()].concat().into();
            }
            assert!(
                RawMessage::open(&sealed, &key).is_err(),
                "changed behind its signature"
            );
        }
    }
}

fn scan(pieces: &[&[u8]]) -> Passed {
    let mut scanner = Scanner::new(LIMITS, None);
    let mut passed = Passed {
        bytes: Vec::new(),
        answers: Vec::new(),
        emptied: Vec::new(),
        broken: None,
    };
    for piece in pieces {
        let (answers, emptied) = (&mut passed.answers, &mut passed.emptied);
        let note = |note| match note {
            Note::Answer(bytes) => answers.push(bytes),
            Note::Emptied(bytes, _) => emptied.push(bytes),
        };
        let pass = scanner.pass_on(piece, &mut passed.bytes, note);
        match pass.now_or_never().unwrap() {
            Ok(()) => {}
            Err(Refusal::Broken(violation)) => {
                passed.broken = Some(violation);
                break;
            }
            Err(Refusal::Unwritable) => unreachable!("memory can be written"),
        }
    }
    passed
}

/// The messages among bytes that a scanner let pass.
fn collect(pieces: &[&[u8]]) -> Batch {
    let all: usize = pieces.iter().map(|piece| piece.len()).sum();
    let (queue, mut batches) = mpsc::channel(all + 1);
    let mut collector = Collector::new(Vec::new(), queue);
    for piece in pieces {
        collector.write_all(piece).now_or_never().unwrap().unwrap();
    }
    std::iter::from_fn(|| batches.try_recv().ok())
        .flatten()
        .collect()
}

fn handshake() -> Vec<u8> {
    let mut greeting = vec![0; GREETING];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    let ready = b"\x05READY\x0bSocket-Type\0\0\0\x06ROUTER";
    greeting.extend([4, u8::try_from(ready.len()).unwrap()]);
    greeting.extend_from_slice(ready);
    greeting
}
