//! A guard between hand-made peers; tests of the scanner alone and of real `zeromq` sockets are in the submodules.

mod scanner;
mod sockets;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn limits() -> GuardLimits {
    GuardLimits {
        frame: 100_000,
        message: 400_000,
        discard: 1_000_000,
        frames_per_message: 8,
        ..GuardLimits::default()
    }
}

fn greeting() -> Vec<u8> {
    let mut greeting = vec![0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[11] = 1;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

pub(super) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u64;
    let mut frame = match u8::try_from(length) {
        Ok(short) => vec![flags, short],
        Err(_) => header(flags | 2, length),
    };
    frame.extend_from_slice(body);
    frame
}

fn header(flags: u8, length: u64) -> Vec<u8> {
    let mut header = vec![flags];
    header.extend_from_slice(&length.to_be_bytes());
    header
}

fn command(name: &str, data: &[u8]) -> Vec<u8> {
    let mut body = vec![u8::try_from(name.len()).unwrap()];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    frame(4, &body)
}

fn ready(socket: &str) -> Vec<u8> {
    let mut data = vec![11];
    data.extend_from_slice(b"Socket-Type");
    data.extend_from_slice(&u32::try_from(socket.len()).unwrap().to_be_bytes());
    data.extend_from_slice(socket.as_bytes());
    command("READY", &data)
}

/// Greeting and READY of a kernel's socket.
pub(super) fn hello() -> Vec<u8> {
    [greeting(), ready("ROUTER")].concat()
}

/// Pseudo-random numbers, the same in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn messages(&mut self, count: usize) -> Vec<u8> {
        let mut stream = Vec::new();
        for _ in 0..count {
            for more in (0..=self.below(5)).rev() {
                let length = [0, 1, 255, 256, 65_535, 65_536, 65_537, 90_000][self.below(8)];
                let body: Vec<u8> = (0..length)
                    .map(|_| u8::try_from(self.below(256)).unwrap())
                    .collect();
                stream.extend(frame(u8::from(more > 0), &body));
            }
        }
        stream
    }

    /// Writes in pieces from one byte to twice a chunk.
    pub(super) async fn write(mut self, bytes: &[u8], to: &mut (impl AsyncWrite + Unpin)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let largest = [1, 9, 100, 5_000, 2 * CHUNK][self.below(5)];
            let (piece, next) = rest.split_at(rest.len().min(1 + self.below(largest)));
            to.write_all(piece).await.unwrap();
            rest = next;
        }
    }
}

/// A guard with both peers under the test's control.
struct Stand {
    client: UnixStream,
    kernel: UnixStream,
    events: mpsc::Receiver<GuardEvent>,
    held: (Guard, TempDir),
}

impl Stand {
    async fn new(limits: GuardLimits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("kernel")).unwrap();
        let upstream = Endpoint::Ipc(dir.path().join("kernel"));
        let (lost, events) = mpsc::channel(1);
        let guard = Guard::start(upstream, dir.path(), "shell", limits, lost).unwrap();
        let client = UnixStream::connect(dir.path().join("shell")).await.unwrap();
        let (kernel, _) = listener.accept().await.unwrap();
        Self {
            client,
            kernel,
            events,
            held: (guard, dir),
        }
    }

    /// What the client gets and which event comes, if the kernel sends `bytes` after its hello.
    async fn kernel_says(mut self, bytes: &[u8]) -> (Vec<u8>, GuardEvent) {
        self.kernel.write_all(&hello()).await.unwrap();
        self.kernel.write_all(bytes).await.unwrap();
        let mut got = Vec::new();
        // If unread bytes remain when the connection is cut, the read fails with a reset.
        let _ = timeout(PATIENCE, self.client.read_to_end(&mut got))
            .await
            .unwrap();
        assert_eq!(got[..hello().len()], hello());
        (got.split_off(hello().len()), next(&mut self.events).await)
    }
}

async fn next(events: &mut mpsc::Receiver<GuardEvent>) -> GuardEvent {
    timeout(PATIENCE, events.recv()).await.unwrap().unwrap()
}

fn hostile(reason: Violation) -> GuardEvent {
    GuardEvent::Hostile {
        name: "shell".to_owned(),
        reason,
    }
}

fn closed(cause: Closing) -> GuardEvent {
    GuardEvent::Closed {
        name: "shell".to_owned(),
        cause,
    }
}

#[tokio::test]
async fn copies_both_ways_byte_by_byte() {
    for seed in 0..4 {
        let Stand {
            client,
            kernel,
            mut events,
            held: _held,
        } = Stand::new(limits()).await;
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_kernel, mut to_kernel) = kernel.into_split();
        let down = [hello(), Dice(seed).messages(12)].concat();
        let up = [greeting(), ready("DEALER"), Dice(seed + 100).messages(12)].concat();
        let mut got_down = vec![0; down.len()];
        let mut got_up = vec![0; up.len()];
        let all = async {
            tokio::join!(
                Dice(seed + 200).write(&down, &mut to_kernel),
                Dice(seed + 300).write(&up, &mut to_client),
                async { from_client.read_exact(&mut got_down).await.unwrap() },
                async { from_kernel.read_exact(&mut got_up).await.unwrap() },
            )
        };
        timeout(PATIENCE, all).await.unwrap();
        assert!(got_down == down && got_up == up, "seed {seed}");
        drop(to_kernel);
        assert_eq!(next(&mut events).await, closed(Closing::Kernel));
    }
}

#[tokio::test]
async fn a_forged_header_cuts_the_connection_after_the_good_messages() {
    let good = frame(0, b"last words");
    let sent = [good.clone(), header(2, 1 << 45), b"x".to_vec()].concat();
    let got = Stand::new(limits()).await.kernel_says(&sent).await;
    let (length, limit) = (1 << 45, 1_000_000);
    assert_eq!(got, (good, hostile(Violation::Frame { length, limit })));
}

#[tokio::test]
async fn a_forged_header_of_a_likely_length_is_not_waited_for() {
    let stall = Duration::from_millis(50);
    let sent = [header(2, 1_000), b"x".to_vec()].concat();
    let stand = Stand::new(GuardLimits { stall, ..limits() }).await;
    let got = stand.kernel_says(&sent).await;
    assert_eq!(got, (sent, hostile(Violation::Stalled(stall))));
}

#[tokio::test]
async fn a_frame_that_is_too_large_is_told_and_costs_nothing_else() {
    let Stand {
        mut client,
        mut kernel,
        mut events,
        held: _held,
    } = Stand::new(limits()).await;
    let large = [frame(1, b"stream"), frame(0, &vec![7; 200_000])].concat();
    let sent = [hello(), large, frame(0, b"next")].concat();
    let expected = [
        hello(),
        frame(1, b"stream"),
        frame(0, b""),
        frame(0, b"next"),
    ]
    .concat();
    kernel.write_all(&sent).await.unwrap();
    let mut got = vec![0; expected.len()];
    timeout(PATIENCE, client.read_exact(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, expected);
    let (name, bytes) = ("shell".to_owned(), 200_000);
    assert_eq!(
        next(&mut events).await,
        GuardEvent::Emptied {
            name,
            bytes,
            file: None
        }
    );
}

#[tokio::test]
async fn the_end_of_a_kernel_is_told_after_its_last_message() {
    let Stand {
        mut client,
        mut kernel,
        mut events,
        held: _held,
    } = Stand::new(limits()).await;
    kernel
        .write_all(&[hello(), frame(0, b"bye")].concat())
        .await
        .unwrap();
    drop(kernel);
    let mut got = Vec::new();
    timeout(PATIENCE, client.read_to_end(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, [hello(), frame(0, b"bye")].concat());
    assert_eq!(next(&mut events).await, closed(Closing::Kernel));
}

#[tokio::test]
async fn a_message_to_a_dead_kernel_does_not_lose_its_last_one() {
    let Stand {
        mut client,
        mut kernel,
        mut events,
        held: _held,
    } = Stand::new(limits()).await;
    // Both happen before the guard runs again, so it may see either end first.
    client.write_all(&greeting()).await.unwrap();
    kernel
        .write_all(&[hello(), frame(0, b"bye")].concat())
        .await
        .unwrap();
    drop(kernel);
    let mut got = Vec::new();
    // If the greeting was unread by then, a reset follows the message instead of an end of file.
    let _ = timeout(PATIENCE, client.read_to_end(&mut got))
        .await
        .unwrap();
    assert_eq!(got, [hello(), frame(0, b"bye")].concat());
    assert_eq!(next(&mut events).await, closed(Closing::Kernel));
}

#[tokio::test]
async fn our_own_end_reaches_the_kernel_after_our_last_message() {
    let Stand {
        mut client,
        mut kernel,
        mut events,
        held: _held,
    } = Stand::new(limits()).await;
    let sent = [greeting(), ready("DEALER"), frame(0, b"shutdown")].concat();
    client.write_all(&sent).await.unwrap();
    drop(client);
    let mut got = Vec::new();
    timeout(PATIENCE, kernel.read_to_end(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, sent);
    assert_eq!(next(&mut events).await, closed(Closing::Client));
}

#[tokio::test]
async fn dropping_the_guard_closes_both_ends_and_tells_nobody() {
    let Stand {
        mut client,
        mut kernel,
        mut events,
        held: (guard, _dir),
    } = Stand::new(limits()).await;
    drop(guard);
    assert_eq!(
        timeout(PATIENCE, client.read(&mut [0]))
            .await
            .unwrap()
            .unwrap(),
        0
    );
    assert_eq!(
        timeout(PATIENCE, kernel.read(&mut [0]))
            .await
            .unwrap()
            .unwrap(),
        0
    );
    assert_eq!(timeout(PATIENCE, events.recv()).await.unwrap(), None);
}

#[tokio::test]
async fn a_greeting_that_drips_in_is_not_waited_for() {
    let handshake = Duration::from_millis(150);
    let Stand {
        client: _client,
        mut kernel,
        mut events,
        held: _held,
    } = Stand::new(GuardLimits {
        handshake,
        ..limits()
    })
    .await;
    let drip = async {
        for byte in hello() {
            if kernel.write_all(&[byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        std::future::pending::<()>().await;
    };
    let event = tokio::select! { event = next(&mut events) => event, () = drip => unreachable!() };
    assert_eq!(event, hostile(Violation::Handshake(handshake)));
}

#[tokio::test]
async fn answers_a_ping_between_our_messages() {
    let Stand {
        mut client,
        mut kernel,
        events: _events,
        held: _held,
    } = Stand::new(limits()).await;
    let hi = [greeting(), ready("DEALER")].concat();
    let (begun, ended) = (frame(1, b"half a"), frame(0, b"message"));
    client
        .write_all(&[hi.clone(), begun.clone()].concat())
        .await
        .unwrap();
    let mut got = vec![0; hi.len() + begun.len()];
    timeout(PATIENCE, kernel.read_exact(&mut got))
        .await
        .unwrap()
        .unwrap();

    let ping = command("PING", b"\x01\x02context");
    kernel
        .write_all(&[hello(), ping, frame(0, b"after")].concat())
        .await
        .unwrap();
    let mut got = vec![0; hello().len() + frame(0, b"after").len()];
    timeout(PATIENCE, client.read_exact(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, [hello(), frame(0, b"after")].concat());

    client.write_all(&ended).await.unwrap();
    let answer = [ended, command("PONG", b"context")].concat();
    let mut got = vec![0; answer.len()];
    timeout(PATIENCE, kernel.read_exact(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, answer);
}

#[tokio::test]
async fn holds_no_more_than_its_spool_of_what_is_not_read() {
    let Stand {
        client: _client,
        mut kernel,
        events: _events,
        held: _held,
    } = Stand::new(GuardLimits::default()).await;
    kernel.write_all(&hello()).await.unwrap();
    // Far more than the buffers of the two sockets hold.
    let flood = frame(0, &vec![0; 32 << 20]);
    let written = timeout(Duration::from_millis(300), kernel.write_all(&flood)).await;
    assert!(written.is_err(), "the flood must wait for its reader");
}

#[tokio::test]
async fn lets_nobody_else_in() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("kernel")).unwrap();
    let (lost, _events) = mpsc::channel(1);
    let upstream = Endpoint::Ipc(dir.path().join("kernel"));
    let _guard = Guard::start(upstream, dir.path(), "shell", limits(), lost).unwrap();

    let script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.exit(len(s.recv(1)))";
    let stranger = tokio::process::Command::new("python3")
        .args(["-c", script])
        .arg(dir.path().join("shell"))
        .status();
    assert!(
        timeout(PATIENCE, stranger)
            .await
            .unwrap()
            .unwrap()
            .success()
    );

    let _client = UnixStream::connect(dir.path().join("shell")).await.unwrap();
    timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let second = UnixStream::connect(dir.path().join("shell")).await;
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_kernel_that_never_listens_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let limits = GuardLimits {
        connect: Duration::from_millis(50),
        ..limits()
    };
    let (lost, mut events) = mpsc::channel(1);
    let upstream = Endpoint::Ipc(dir.path().join("kernel"));
    let _guard = Guard::start(upstream, dir.path(), "shell", limits, lost.clone()).unwrap();
    let _client = UnixStream::connect(dir.path().join("shell")).await.unwrap();
    let event = next(&mut events).await;
    let GuardEvent::Closed {
        cause: Closing::Unreachable { waited, .. },
        ..
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(
        event,
        closed(Closing::Unreachable {
            waited,
            kind: io::ErrorKind::NotFound
        })
    );

    let upstream = Endpoint::Ipc(dir.path().join("kernel"));
    let _guard = Guard::start(upstream, dir.path(), "shell", limits, lost).unwrap();
    assert_eq!(next(&mut events).await, closed(Closing::Unused));
    assert!(!dir.path().join("shell").exists());
}

#[tokio::test]
async fn a_path_that_is_too_long_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (lost, _events) = mpsc::channel(1);
    let upstream = Endpoint::Ipc(dir.path().join("kernel"));
    let error = Guard::start(upstream, dir.path(), &"x".repeat(107), limits(), lost).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn waits_until_somebody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernel");
    let endpoint = Endpoint::Ipc(path.clone());
    let error = wait_until_listening(&endpoint, Instant::now() + Duration::from_millis(20))
        .await
        .unwrap_err();
    assert_eq!(
        (error.endpoint, error.last.kind()),
        (endpoint.clone(), io::ErrorKind::NotFound)
    );

    let bind = async {
        // At least one attempt must fail first.
        sleep(reach::POLL).await;
        UnixListener::bind(&path).unwrap()
    };
    let wait = wait_until_listening(&endpoint, Instant::now() + PATIENCE);
    let (waited, _listener) = tokio::join!(wait, bind);
    waited.unwrap();

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::Tcp(
        "127.0.0.1".to_owned(),
        listener.local_addr().unwrap().port(),
    );
    wait_until_listening(&endpoint, Instant::now() + PATIENCE)
        .await
        .unwrap();
    drop(listener);
    let error = wait_until_listening(&endpoint, Instant::now() + Duration::from_millis(20)).await;
    assert_eq!(
        error.unwrap_err().last.kind(),
        io::ErrorKind::ConnectionRefused
    );
}
