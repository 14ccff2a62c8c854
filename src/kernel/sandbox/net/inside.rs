//! The inner end of a kernel's network: our first process in its namespace.
//!
//! It listens as an HTTP proxy, answers lookups, and accepts connections on ports 80 and 443 to addresses that it
//! handed out for names. Everything is forwarded to the socket of the [`super::gate`], which decides: nothing is
//! enforced here, and a program that uses the socket directly gets no further.
//!
//! Names get addresses in 127.0.0.0/8, which need no route. Ports below 1024 are bound before the process drops the
//! right to do so, the others when a name gets an address.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::dns::{self, Answer};
use super::rule::{self, Rule, WEB};
use super::serve::LOOKUP;

/// The proxy's port.
pub(super) const PROXY_PORT: u16 = 3128;
const NAME_PORT: u16 = 53;
/// Ports from here on need no privilege.
const UNPRIVILEGED: u16 = 1024;
/// Most names that can have an address.
const NAMES: u16 = 4096;
/// Most connections at a time; further ones wait.
const CONNECTIONS: usize = 256;
/// How long the other end may take to connect to a server, or to report a failure.
const OPEN_WITHIN: Duration = Duration::from_mins(1);
/// How long a lookup waits for the other end to record it.
const NOTED_WITHIN: Duration = Duration::from_secs(2);
/// How long a client may go on after the other end is done.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Delay after a failed accept.
const AGAIN: Duration = Duration::from_millis(200);
/// Most bytes of the head of our proxy's answer.
const HEAD: usize = 8 * 1024;

/// What to set up.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::kernel::sandbox) struct Order {
    /// The gate's socket.
    pub(super) socket: PathBuf,
    /// The allowed hosts, in the syntax of an allow-list.
    pub(super) rules: Vec<String>,
    /// User and group id that the process takes once it has bound the ports. Until then it is root there, because the
    /// network belongs to root of its first user namespace.
    pub(super) person: Option<(u32, u32)>,
}

/// The bound sockets. Made while the process still has the rights to.
pub(in crate::kernel::sandbox) struct Bound {
    socket: PathBuf,
    rules: Vec<Rule>,
    proxy: std::net::TcpListener,
    /// `None` if the system denies ports below 1024 even to root of a namespace, as AppArmor may: then only programs
    /// that use a proxy have network access.
    names: Option<std::net::UdpSocket>,
    captured: Vec<std::net::TcpListener>,
}

impl Order {
    /// Binds the ports.
    pub(in crate::kernel::sandbox) fn bind(self) -> io::Result<Bound> {
        let rules: Result<Vec<Rule>, String> = self.rules.iter().map(|rule| rule.parse()).collect();
        let rules = rules.map_err(io::Error::other)?;
        let own = rules.iter().filter_map(|rule| rule.port);
        let mut ports: Vec<u16> = own.filter(|&port| port < UNPRIVILEGED).chain(WEB).collect();
        ports.retain(|&port| port != NAME_PORT);
        ports.sort_unstable();
        ports.dedup();
        let listen = |address, port| {
            let listener = std::net::TcpListener::bind((address, port))?;
            listener.set_nonblocking(true)?;
            io::Result::Ok(listener)
        };
        let proxy = listen(Ipv4Addr::LOCALHOST, PROXY_PORT)?;
        let names = match std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, NAME_PORT)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            other => Some(other?),
        };
        let mut captured = Vec::new();
        if let Some(names) = &names {
            names.set_nonblocking(true)?;
            for port in ports {
                captured.push(listen(Ipv4Addr::UNSPECIFIED, port)?);
            }
        }
        if let Some((user, group)) = self.person {
            become_person(user, group)?;
        }
        Ok(Bound {
            socket: self.socket,
            proxy,
            names,
            captured,
            rules,
        })
    }
}

/// Becomes the user and group as they are outside, in a user namespace of its own.
#[expect(
    deprecated,
    reason = "files are not unshared, which is what its successor is unsafe for"
)]
fn become_person(user: u32, group: u32) -> io::Result<()> {
    if rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER).is_err() {
        // It stays root without rights, which does no harm.
        return Ok(());
    }
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} 0 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} 0 1"))
}

impl Bound {
    /// Serves on a thread that ends with the process.
    pub(in crate::kernel::sandbox) fn serve(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || {
                let tasks = LocalSet::new();
                if let Err(error) = runtime.block_on(tasks.run_until(self.run())) {
                    // There is nobody to report to; programs see that nothing answers.
                    drop(error);
                }
            })?;
        Ok(())
    }

    async fn run(self) -> io::Result<()> {
        let inside = Rc::new(Inside {
            socket: self.socket,
            rules: self.rules,
            given: Mutex::default(),
            room: Arc::new(Semaphore::new(CONNECTIONS)),
        });
        let proxy = TcpListener::from_std(self.proxy)?;
        let for_proxy = Rc::clone(&inside);
        tokio::task::spawn_local(async move {
            for_proxy.accept(proxy, ListenerUse::Proxy).await;
        });
        for listener in self.captured {
            let listener = TcpListener::from_std(listener)?;
            let inside = Rc::clone(&inside);
            tokio::task::spawn_local(async move {
                inside.accept(listener, ListenerUse::Captured).await;
            });
        }
        let Some(names) = self.names else {
            return std::future::pending().await;
        };
        let names = UdpSocket::from_std(names)?;
        let mut question = vec![0; dns::LARGEST];
        let mut noted = String::new();
        loop {
            let Ok((length, from)) = names.recv_from(&mut question).await else {
                continue;
            };
            if let Some(question) = dns::read(question.get(..length).unwrap_or_default()) {
                let answer = inside.look_up(&question.name, &mut noted).await;
                // The client may have gone.
                let _ = names.send_to(&question.answered(answer), from).await;
            }
        }
    }
}

/// The purpose of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenerUse {
    Proxy,
    Captured,
}

struct Inside {
    socket: PathBuf,
    rules: Vec<Rule>,
    given: Mutex<Given>,
    room: Arc<Semaphore>,
}

/// Names and the addresses that were assigned to them.
#[derive(Default)]
struct Given {
    by_name: HashMap<String, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, String>,
}

impl Inside {
    async fn accept(self: Rc<Self>, listener: TcpListener, kind: ListenerUse) {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            // The semaphore is never closed.
            let Ok(room) = Arc::clone(&self.room).acquire_owned().await else {
                return;
            };
            let inside = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let _room = room;
                // A connection that breaks off has ended for both sides.
                let _ = match kind {
                    ListenerUse::Proxy => inside.carry(client).await,
                    ListenerUse::Captured => inside.capture(client).await,
                };
            });
        }
    }

    async fn carry(&self, mut client: TcpStream) -> io::Result<()> {
        let mut gate = UnixStream::connect(&self.socket).await?;
        both_ways(&mut client, &mut gate).await
    }

    /// A program connected to an address that stands for a name: handled as if it had asked the proxy for that name.
    async fn capture(&self, mut client: TcpStream) -> io::Result<()> {
        let SocketAddr::V4(to) = client.local_addr()? else {
            return Ok(());
        };
        let Some(name) = self.name_of(*to.ip()) else {
            return Ok(());
        };
        let mut gate = UnixStream::connect(&self.socket).await?;
        let place = format!("{name}:{}", to.port());
        let request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n");
        gate.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let head = timeout(OPEN_WITHIN, read_head(&mut gate, &mut answer)).await??;
        let is_open = answer.starts_with(b"HTTP/1.1 200 ");
        let rest = if is_open { head } else { 0 };
        // An HTTP client gets the refusal as its answer; a TLS client sees the connection end.
        if is_open || to.port() == 80 {
            client
                .write_all(answer.get(rest..).unwrap_or_default())
                .await?;
        }
        if is_open {
            both_ways(&mut client, &mut gate).await?;
        } else if to.port() == 80 {
            let mut more = Vec::new();
            let mut gate = gate.take(u64::try_from(HEAD).unwrap_or_default());
            let reading = gate.read_to_end(&mut more);
            let _ = timeout(NOTED_WITHIN, reading).await;
            client.write_all(&more).await?;
            client.shutdown().await?;
            // Read the rest of its request, or it would never see the answer.
            let mut client = client.take(u64::try_from(HEAD).unwrap_or_default());
            let _ = timeout(NOTED_WITHIN, client.read_to_end(&mut more)).await;
        }
        Ok(())
    }

    fn name_of(&self, address: Ipv4Addr) -> Option<String> {
        let given = self.given.lock().ok()?;
        given.by_address.get(&address).cloned()
    }

    /// The answer for a name. Asks the other end to record a name that is not allowed, unless it was the last one
    /// recorded.
    async fn look_up(self: &Rc<Self>, name: &str, noted: &mut String) -> Answer {
        let Ok(name) = rule::name(name) else {
            return Answer::NoSuchName;
        };
        if !self.rules.iter().any(|rule| rule.covers_host(&name)) {
            if *noted != name {
                let _ = timeout(NOTED_WITHIN, self.note(&name)).await;
                *noted = name;
            }
            return Answer::NoSuchName;
        }
        self.address_of(name)
            .map_or(Answer::Failed, Answer::Address)
    }

    async fn note(&self, name: &str) -> io::Result<()> {
        let mut gate = UnixStream::connect(&self.socket).await?;
        let request = format!("{LOOKUP} http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n");
        gate.write_all(request.as_bytes()).await?;
        read_head(&mut gate, &mut Vec::new()).await?;
        Ok(())
    }

    /// The address of a name, assigned and listened on at first use.
    fn address_of(self: &Rc<Self>, name: String) -> Option<Ipv4Addr> {
        let mut given = self.given.lock().ok()?;
        if let Some(address) = given.by_name.get(&name) {
            return Some(*address);
        }
        let number = u16::try_from(given.by_name.len())
            .ok()
            .filter(|&it| it < NAMES)?;
        // Not in 127.0.0.0/16, where programs have their own addresses.
        let [high, low] = (number + 1).to_be_bytes();
        let address = Ipv4Addr::new(127, 1, high, low);
        let rules = self.rules.iter().filter(|rule| rule.covers_host(&name));
        let ports = rules.filter_map(|rule| rule.port);
        for port in ports.filter(|&port| port >= UNPRIVILEGED) {
            let listener = std::net::TcpListener::bind((address, port)).ok()?;
            listener.set_nonblocking(true).ok()?;
            let listener = TcpListener::from_std(listener).ok()?;
            let inside = Rc::clone(self);
            tokio::task::spawn_local(async move {
                inside.accept(listener, ListenerUse::Captured).await;
            });
        }
        given.by_address.insert(address, name.clone());
        given.by_name.insert(name, address);
        Some(address)
    }
}

/// Copies both ways until the other end is done, and for a moment after that.
async fn both_ways(client: &mut TcpStream, gate: &mut UnixStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_gate, mut to_gate) = gate.split();
    let outward = async {
        let copied = tokio::io::copy(&mut from_client, &mut to_gate).await;
        to_gate.shutdown().await.and(copied)
    };
    let inward = async {
        let copied = tokio::io::copy(&mut from_gate, &mut to_client).await;
        to_client.shutdown().await.and(copied)
    };
    tokio::pin!(outward, inward);
    tokio::select! {
        _ = &mut outward => inward.await.map(drop),
        // A client that never ends must not occupy its slot.
        _ = &mut inward => timeout(LAST_WORDS, outward).await?.map(drop),
    }
}

/// Reads to the end of an HTTP head, and returns its length.
async fn read_head(gate: &mut UnixStream, answer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        if gate.read_buf(answer).await? == 0 || answer.len() > HEAD {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            return Ok(end + 4);
        }
    }
}
