//! What passes and what is refused, however the stream is split.

use super::*;

/// The body of the largest frame.
fn largest() -> Vec<u8> {
    vec![7; 100_000]
}

/// What passes of a stream in pieces of `piece` bytes, which frames were emptied, and why it stopped.
async fn sift(stream: &[u8], piece: usize) -> (Vec<u8>, Vec<u64>, Option<Violation>) {
    let mut scanner = Scanner::new(limits(), None);
    let mut passed = Vec::new();
    let mut emptied = Vec::new();
    for chunk in stream.chunks(piece) {
        let note = |note| match note {
            Note::Emptied(bytes, _) => emptied.push(bytes),
            Note::Answer(_) => {}
        };
        match scanner.pass_on(chunk, &mut passed, note).await {
            Ok(()) => {}
            Err(Refusal::Broken(violation)) => return (passed, emptied, Some(violation)),
            Err(Refusal::Unwritable) => unreachable!("a Vec takes everything"),
        }
    }
    (passed, emptied, None)
}

const PIECES: [usize; 8] = [1, 2, 3, 7, 64, 65, 100, CHUNK];

/// `sent` becomes exactly `expected`, with these frames emptied.
async fn becomes(name: &str, sent: Vec<u8>, expected: Vec<u8>, frames: &[u64]) {
    for piece in PIECES {
        let (through, emptied, violation) = sift(&[hello(), sent.clone()].concat(), piece).await;
        assert_eq!(
            (emptied.as_slice(), violation),
            (frames, None),
            "{name} in pieces of {piece}"
        );
        let expected = [hello(), expected.clone()].concat();
        assert!(through == expected, "{name} in pieces of {piece}");
    }
}

#[tokio::test]
async fn passes_what_is_legal() {
    let most = [frame(1, b"a").repeat(7), frame(0, b"b")].concat();
    for (name, bytes) in [
        ("empty frames", [frame(1, b""), frame(0, b"")].concat()),
        (
            "a short frame with a long header",
            [header(2, 1), vec![7]].concat(),
        ),
        ("the largest frame", frame(0, &largest())),
        (
            "the largest message",
            [frame(1, &largest()).repeat(4), frame(0, b"")].concat(),
        ),
        ("the most frames", most.repeat(2)),
    ] {
        becomes(name, bytes.clone(), bytes, &[]).await;
    }
}

#[tokio::test]
async fn keeps_pings_to_itself() {
    let (ping, last) = (command("PING", b"\0\0hi"), frame(0, b"last"));
    let between = [frame(1, b"a"), ping.clone(), last.clone()].concat();
    let without = [frame(1, b"a"), last.clone()].concat();
    becomes("between frames", between, without, &[]).await;
    becomes(
        "before a message",
        [ping, last.clone()].concat(),
        last.clone(),
        &[],
    )
    .await;
    becomes(
        "a pong",
        [command("PONG", b""), last.clone()].concat(),
        last,
        &[],
    )
    .await;
}

#[tokio::test]
async fn empties_what_is_too_large() {
    let large = vec![7; 100_001];
    let message = |body: &[u8]| [frame(1, b"id"), frame(1, body), frame(0, b"end")].concat();
    let two = [message(&large), message(b"next")].concat();
    becomes(
        "a frame",
        two,
        [message(b""), message(b"next")].concat(),
        &[100_001],
    )
    .await;
    becomes(
        "the last frame",
        frame(0, &large),
        frame(0, b""),
        &[100_001],
    )
    .await;

    let full = frame(1, &largest()).repeat(4);
    let sent = [full.clone(), frame(1, b"xx"), frame(1, b""), frame(0, b"x")].concat();
    let expected = [full, frame(1, b""), frame(1, b""), frame(0, b"")].concat();
    becomes("what a message has too much", sent, expected, &[2, 1]).await;
}

fn with(mut bytes: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    bytes[at] = byte;
    bytes
}

/// Exactly the first `passes` bytes of `sent` pass, however it is split.
async fn is_refused(sent: &[u8], passes: usize, reason: Violation) {
    for piece in PIECES {
        let (through, emptied, violation) = sift(sent, piece).await;
        let expected = (vec![], Some(&reason));
        assert_eq!(
            (emptied, violation.as_ref()),
            expected,
            "in pieces of {piece}"
        );
        assert!(
            through == sent[..passes],
            "{reason:?}: {} bytes passed",
            through.len()
        );
    }
}

#[tokio::test]
async fn refuses_forged_headers_and_endless_messages() {
    let forged = |length: u64| Violation::Frame {
        length,
        limit: 1_000_000,
    };
    let after_good = [frame(0, b"good"), header(2, 1 << 45), vec![b'x']].concat();
    for (sent, passes, reason) in [
        (header(2, 1 << 45), 0, forged(1 << 45)),
        (header(3, 1 << 63), 0, forged(1 << 63)),
        (header(2, u64::MAX), 0, forged(u64::MAX)),
        (header(2, 1_000_001), 0, forged(1_000_001)),
        (after_good, 6, forged(1 << 45)),
        (frame(1, b"").repeat(9), 16, Violation::Frames { limit: 8 }),
    ] {
        is_refused(&[hello(), sent].concat(), hello().len() + passes, reason).await;
    }
}

#[tokio::test]
async fn refuses_flags_and_commands_that_zeromq_does_not_know() {
    let unexpected = |name: &str| Violation::Command {
        name: name.to_owned(),
    };
    let (length, limit) = (1 << 45, 8192);
    for (sent, reason) in [
        (vec![0x08], Violation::Flags { flags: 0x08 }),
        (vec![0x80, 0], Violation::Flags { flags: 0x80 }),
        (vec![0x24, 0], Violation::Flags { flags: 0x24 }),
        (
            with(command("PING", b""), 0, 5),
            Violation::Flags { flags: 5 },
        ),
        (command("READY", b""), unexpected("READY")),
        (command("SUBSCRIBE", b"x"), unexpected("SUBSCRIBE")),
        (command("P\x1b[2J", b"x"), unexpected("P\\x1b[2J")),
        (vec![4, 3, 200, b'R', b'E'], unexpected("")),
        (vec![4, 0], unexpected("")),
        (header(6, length), Violation::LongCommand { length, limit }),
    ] {
        is_refused(&[hello(), sent].concat(), hello().len(), reason).await;
    }
}

#[tokio::test]
async fn refuses_a_handshake_that_zeromq_does_not_know() {
    let unexpected = |name: &str| Violation::Command {
        name: name.to_owned(),
    };
    let curve = Violation::Mechanism {
        found: "CULL".to_owned(),
    };
    for (sent, passes, reason) in [
        (
            b"SSH-2.0-OpenSSH".to_vec(),
            0,
            Violation::Greeting { at: 0, found: b'S' },
        ),
        (
            with(greeting(), 9, 0),
            0,
            Violation::Greeting { at: 9, found: 0 },
        ),
        (
            with(greeting(), 10, 2),
            0,
            Violation::Greeting { at: 10, found: 2 },
        ),
        (with(greeting(), 12, b'C'), 0, curve),
        (
            [greeting(), frame(0, b"early")].concat(),
            64,
            Violation::Early,
        ),
        (
            [greeting(), command("PING", b"\0\0")].concat(),
            64,
            unexpected("PING"),
        ),
        (
            [greeting(), command("ERROR", b"\x02no")].concat(),
            64,
            unexpected("ERROR"),
        ),
    ] {
        is_refused(&sent, passes, reason).await;
    }
}

#[tokio::test]
async fn survives_noise() {
    let mut dice = Dice(1);
    for _ in 0..2_000 {
        let length = dice.below(40);
        let noise: Vec<u8> = (0..length)
            .map(|_| u8::try_from(dice.below(8)).unwrap())
            .collect();
        let stream = [hello(), noise].concat();
        let whole = sift(&stream, CHUNK).await;
        assert_eq!(sift(&stream, 1 + dice.below(50)).await, whole);
    }
}
