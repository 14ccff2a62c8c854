//! The server side: the process that runs the session.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::lines::{FROM_CLIENT, Lines};
use super::{FromClient, FromServer, socket_of, token_of};
use crate::agent::query::QueryError;
use crate::agent::stream::{Client, Received, SessionHandle, VERSION};
use crate::task::{self, Task};

/// A connection that accepts no line for this long is cut.
pub const STALLED: Duration = Duration::from_secs(30);
/// How long a client may take to introduce itself.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Maximum simultaneous connections.
const CONNECTIONS: usize = 64;
/// How many queries of one client may wait.
const QUERIES: usize = 8;
/// Maximum bytes of an answer.
const LARGEST_ANSWER: usize = 8 << 20;
/// Maximum bytes of a client's name.
const NAME: usize = 64;

/// Listens until it is dropped; then the socket is removed.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    token: PathBuf,
    _task: Task,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.token);
        // The last listener removes the directory.
        if let Some(dir) = self.path.parent() {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Serves the session to other processes of this person; `dir` is their directory for sockets.
///
/// # Errors
/// The directory or the socket cannot be created, or another user owns the directory.
pub fn listen(handle: SessionHandle, session: &str, dir: &Path) -> io::Result<Listener> {
    private_dir(dir)?;
    let path = socket_of(dir, session);
    // We hold the session's lock, so an existing socket was left by a run that was killed.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let token = token_of(dir, session);
    let secret = uuid::Uuid::new_v4().simple().to_string();
    let _ = std::fs::remove_file(&token);
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&token)?
        .write_all(secret.as_bytes())?;
    let served = Served {
        handle,
        session: session.to_owned(),
        secret,
    };
    let task = task::spawn("attach", accept(listener, served));
    Ok(Listener {
        path,
        token,
        _task: task,
    })
}

/// The session, for each connection.
#[derive(Clone)]
struct Served {
    handle: SessionHandle,
    session: String,
    secret: String,
}

/// The person's own directory in `sockets`, with mode 0700. Creates it if necessary.
///
/// # Errors
/// It cannot be created, or another user owns it.
pub fn private_dir(sockets: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let dir = super::sockets(sockets);
    match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = std::fs::symlink_metadata(&dir)?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_dir() && own && metadata.mode().trailing_zeros() >= 6 {
        return Ok(dir);
    }
    let message = format!("`{}` is not a private directory of ours", dir.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

async fn accept(listener: UnixListener, served: Served) {
    let mut connections: Vec<Task> = Vec::new();
    let mut number = 0_u64;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example, too many files are open; existing connections continue.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.retain(|task| !task.is_finished());
        let is_ours = stream
            .peer_cred()
            .is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
        if !is_ours || connections.len() >= CONNECTIONS {
            continue;
        }
        number += 1;
        let serving = serve(stream, served.clone(), number);
        connections.push(task::spawn("attached client", async {
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a client of the session is gone");
            }
        }));
    }
}

/// Serves one client until it or the session ends.
async fn serve(stream: UnixStream, served: Served, number: u64) -> io::Result<()> {
    let Served {
        handle,
        session,
        secret,
    } = served;
    let (read, write) = stream.into_split();
    let mut lines = Lines::new(read, FROM_CLIENT);
    let mut writer = Writer { write };
    let hello = tokio::time::timeout(HELLO_WITHIN, lines.next()).await;
    let Ok(Some(Ok(FromClient::Hello {
        version,
        name,
        token,
        after,
    }))) = hello.map_err(io::Error::other)?
    else {
        return Err(io::Error::other("the first line is no hello"));
    };
    if token != secret {
        return Err(io::Error::other("it does not know the token"));
    }
    let name: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME)
        .collect();
    // Other clients must not mistake this name for someone else's.
    let name = format!("{name} (attached {number})");
    let welcome = FromServer::Welcome {
        version: VERSION,
        session,
        name: name.clone(),
    };
    writer.write(&welcome).await?;
    if version != VERSION {
        return Err(io::Error::other("it speaks another version"));
    }
    let resumed = after.and_then(|after| handle.resume(&name, after));
    let client = if let Some(client) = resumed {
        client
    } else {
        let (snapshot, client) = handle.join(&name).await.map_err(io::Error::other)?;
        let snapshot = FromServer::Snapshot(Box::new(snapshot));
        writer.write(&snapshot).await?;
        client
    };
    relay(client, &handle, &name, lines, writer).await
}

async fn relay(
    mut client: Client,
    handle: &SessionHandle,
    name: &str,
    mut lines: Lines<OwnedReadHalf>,
    mut writer: Writer,
) -> io::Result<()> {
    let queries = client.queries();
    // They are answered in any order, and dropped with the connection.
    let mut asked = FuturesUnordered::new();
    loop {
        let line = tokio::select! {
            received = client.next() => match received {
                None => return Ok(()),
                Some(Received::Item(item)) => FromServer::Item(Box::new((*item).clone())),
                Some(Received::Snapshot(snapshot)) => FromServer::Snapshot(snapshot),
            },
            Some((id, answer)) = asked.next() => FromServer::answered(id, answer),
            line = lines.next() => match line? {
                None => return Ok(()),
                Some(Err(error)) => FromServer::Unreadable { message: error.to_string() },
                Some(Ok(FromClient::Hello { .. })) => continue,
                Some(Ok(FromClient::Command { id, command })) => {
                    FromServer::decided(id, handle.send(name, command).await)
                }
                Some(Ok(FromClient::Query { id, .. })) if asked.len() >= QUERIES => {
                    FromServer::answered(id, Err(QueryError::too_many()))
                }
                Some(Ok(FromClient::Query { id, query })) => {
                    let queries = queries.clone();
                    asked.push(async move { (id, queries.ask(query).await) });
                    continue;
                }
            },
        };
        writer.write(&line).await?;
    }
}

struct Writer {
    write: OwnedWriteHalf,
}

impl Writer {
    async fn write(&mut self, line: &FromServer) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        if let FromServer::Answer { id, .. } = line
            && text.len() > LARGEST_ANSWER
        {
            let error = QueryError::too_large(text.len());
            text = serde_json::to_vec(&FromServer::Refused { id: *id, error })?;
        }
        text.push(b'\n');
        tokio::time::timeout(STALLED, self.write.write_all(&text))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it takes nothing"))?
    }
}
