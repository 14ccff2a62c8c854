//! Real `zeromq` sockets on our side, and on the kernel's side where it behaves.

use bytes::Bytes;
use zeromq::{
    DealerSocket, RouterSocket, Socket, SocketRecv, SocketSend, SubSocket, XPubSocket, ZmqMessage,
};

use super::*;

/// A message of these frames.
fn message(frames: &[Bytes]) -> ZmqMessage {
    ZmqMessage::try_from(frames.to_vec()).unwrap()
}

fn large() -> Bytes {
    Bytes::from(
        (0..20_000_000_u32)
            .map(|n| n.to_le_bytes()[1])
            .collect::<Vec<u8>>(),
    )
}

#[tokio::test]
async fn zeromq_talks_through_it_to_a_router() {
    for tcp in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut kernel = RouterSocket::new();
        let address = if tcp {
            "tcp://127.0.0.1:0".to_owned()
        } else {
            format!("ipc://{}", dir.path().join("kernel").display())
        };
        let upstream = match kernel.bind(&address).await.unwrap() {
            zeromq::Endpoint::Tcp(_, port) => Endpoint::Tcp("127.0.0.1".to_owned(), port),
            zeromq::Endpoint::Ipc(path) => Endpoint::Ipc(path.unwrap()),
            other => panic!("{other}"),
        };
        let (lost, mut events) = mpsc::channel(1);
        let guard =
            Guard::start(upstream, dir.path(), "shell", GuardLimits::default(), lost).unwrap();
        let mut client = DealerSocket::new();
        client.connect(&guard.address()).await.unwrap();

        let large = large();
        client
            .send(message(&["execute".into(), large.clone()]))
            .await
            .unwrap();
        let request = timeout(PATIENCE, kernel.recv())
            .await
            .unwrap()
            .unwrap()
            .into_vec();
        assert!(request[1..] == [Bytes::from("execute"), large.clone()]);
        kernel
            .send(message(&[
                request[0].clone(),
                "reply".into(),
                large.clone(),
            ]))
            .await
            .unwrap();
        let reply = timeout(PATIENCE, client.recv())
            .await
            .unwrap()
            .unwrap()
            .into_vec();
        assert!(reply == ["reply".into(), large]);

        drop(kernel);
        assert_eq!(next(&mut events).await, closed(Closing::Kernel));
    }
}

#[tokio::test]
async fn zeromq_subscribes_through_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut kernel = XPubSocket::new();
    let address = format!("ipc://{}", dir.path().join("kernel").display());
    kernel.bind(&address).await.unwrap();
    let (lost, _events) = mpsc::channel(1);
    let upstream = Endpoint::Ipc(dir.path().join("kernel"));
    let guard = Guard::start(upstream, dir.path(), "iopub", GuardLimits::default(), lost).unwrap();
    let mut client = SubSocket::new();
    client.connect(&guard.address()).await.unwrap();
    client.subscribe("").await.unwrap();
    let subscription = timeout(PATIENCE, kernel.recv()).await.unwrap().unwrap();
    assert_eq!(subscription.into_vec(), [Bytes::from_static(b"\x01")]);

    let large = large();
    let publish = async {
        for n in 0..100_u8 {
            let text = message(&["stream".into(), Bytes::from(vec![n])]);
            kernel.send(text).await.unwrap();
        }
        let image = message(&["display_data".into(), large.clone()]);
        kernel.send(image).await.unwrap();
    };
    let receive = async {
        for n in 0..100_u8 {
            let text = client.recv().await.unwrap().into_vec();
            assert_eq!(text, ["stream".into(), Bytes::from(vec![n])]);
        }
        let image = client.recv().await.unwrap().into_vec();
        assert!(image == ["display_data".into(), large.clone()]);
    };
    timeout(PATIENCE, async { tokio::join!(publish, receive) })
        .await
        .unwrap();
}

/// Issue 2: nine bytes that a cell wrote to its kernel's sockets aborted the whole process.
#[tokio::test]
async fn a_forged_header_does_not_abort_zeromq() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("kernel")).unwrap();
    let (lost, mut events) = mpsc::channel(1);
    let upstream = Endpoint::Ipc(dir.path().join("kernel"));
    let guard = Guard::start(upstream, dir.path(), "shell", GuardLimits::default(), lost).unwrap();
    let mut client = DealerSocket::new();
    let kernel = async {
        let (mut kernel, _) = listener.accept().await.unwrap();
        kernel.write_all(&hello()).await.unwrap();
        kernel
    };
    let address = guard.address();
    let (connected, mut kernel) = tokio::join!(client.connect(&address), kernel);
    connected.unwrap();
    let sent = [frame(0, b"good"), header(2, 1 << 45), b"x".to_vec()].concat();
    kernel.write_all(&sent).await.unwrap();

    let good = timeout(PATIENCE, client.recv()).await.unwrap().unwrap();
    assert_eq!(good.into_vec(), [Bytes::from("good")]);
    let limit = GuardLimits::default().discard;
    assert_eq!(
        next(&mut events).await,
        hostile(Violation::Frame {
            length: 1 << 45,
            limit
        })
    );
}
