//! What passes and what is refused, in whatever pieces it comes.

use super::*;

/// The body of the largest frame.
fn largest() -> Vec<u8> {
    vec![7; 100_000]
}

/// What passes of a stream that comes in pieces of `piece` bytes, and why it stopped.
async fn sift(stream: &[u8], piece: usize) -> (Vec<u8>, Option<Violation>) {
    let mut scanner = Scanner::new(limits());
    let mut passed = Vec::new();
    for chunk in stream.chunks(piece) {
        match scanner.pass_on(chunk, &mut passed, None).await {
            Ok(()) => {}
            Err(Refusal::Broken(violation)) => return (passed, Some(violation)),
            Err(Refusal::Unwritable) => unreachable!("a Vec takes everything"),
        }
    }
    (passed, None)
}

#[tokio::test]
async fn passes_what_is_legal_in_any_pieces() {
    let (ping, last) = (command("PING", b"\0\0hi"), frame(0, b"last"));
    let most = [frame(1, b"a").repeat(7), last.clone()].concat().repeat(2);
    let long_header = [header(2, 1), vec![7]].concat();
    let between = [frame(1, b"a"), ping.clone(), last.clone()].concat();
    let cases = [
        (
            "empty frames",
            [frame(1, b""), frame(0, b"")].concat(),
            None,
        ),
        ("a short frame with a long header", long_header, None),
        ("the largest frame", frame(0, &largest()), None),
        ("the most frames", most, None),
        ("a ping", [ping, last.clone()].concat(), Some(last.clone())),
        (
            "a pong",
            [command("PONG", b""), last.clone()].concat(),
            Some(last.clone()),
        ),
        (
            "a ping between frames",
            between,
            Some([frame(1, b"a"), last].concat()),
        ),
    ];
    for (name, sent, expected) in cases {
        for piece in [1, 2, 3, 7, 64, 65, 100, CHUNK] {
            let (passed, violation) = sift(&[hello(), sent.clone()].concat(), piece).await;
            assert_eq!(violation, None, "{name} in pieces of {piece}");
            let expected = expected.as_ref().unwrap_or(&sent);
            assert!(
                passed == [hello().as_slice(), expected].concat(),
                "{name} in pieces of {piece}"
            );
        }
    }
}

fn with(mut bytes: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    bytes[at] = byte;
    bytes
}

/// Of `sent` the first `passes` bytes pass, in whatever pieces it comes.
async fn is_refused(sent: &[u8], passes: usize, reason: Violation) {
    for piece in [1, 2, 3, 7, 64, 65, 100, CHUNK] {
        let (through, violation) = sift(sent, piece).await;
        assert_eq!(violation.as_ref(), Some(&reason), "in pieces of {piece}");
        assert!(
            through == sent[..passes],
            "{reason:?}: {} bytes passed",
            through.len()
        );
    }
}

#[tokio::test]
async fn refuses_frames_and_messages_over_the_limits() {
    let forged = |length: u64| Violation::Frame {
        length,
        limit: 100_000,
    };
    let many = [
        frame(1, &largest()).repeat(4),
        frame(1, b""),
        frame(0, b"x"),
    ]
    .concat();
    let after_good = [frame(0, b"good"), header(2, 1 << 45), vec![b'x']].concat();
    let (bytes, limit) = (400_001, 400_000);
    for (sent, passes, reason) in [
        (header(2, 1 << 45), 8, forged(1 << 45)),
        (header(3, 1 << 63), 8, forged(1 << 63)),
        (header(2, u64::MAX), 8, forged(u64::MAX)),
        (header(2, 100_001), 8, forged(100_001)),
        (after_good, 14, forged(1 << 45)),
        (many, 4 * 100_009 + 3, Violation::Message { bytes, limit }),
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
