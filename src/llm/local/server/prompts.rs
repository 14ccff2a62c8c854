//! Prompts that a server has read once, kept on disk for the next.
//!
//! Reading a prompt costs a small machine half a minute; loading what was read costs milliseconds. What is kept must be
//! free of the person's words: the caller asks for the fixed beginning alone before it has it kept.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::LocalServer;

/// How long reading or writing a file of some 50 MB may take.
const LIMIT: Duration = Duration::from_secs(10);

impl LocalServer {
    /// Keeps what the server has in its memory as `name` in [`super::LocalServerOptions::prompts`]. Whether it worked.
    pub async fn keep_prompt(&self, name: &str) -> bool {
        self.slot("save", name).await
    }

    /// Puts what was kept as `name` back. Whether it worked; a prompt that does not fit is read as if nothing was kept.
    pub async fn recall_prompt(&self, name: &str) -> bool {
        self.slot("restore", name).await
    }

    /// llama-server's `POST /slots/0?action=..`. Spoken by hand, as `/health` is.
    async fn slot(&self, action: &str, name: &str) -> bool {
        let asked = async {
            let mut stream = TcpStream::connect(self.address).await?;
            let body = json!({ "filename": name }).to_string();
            let request = format!(
                "POST /slots/0?action={action} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                self.address,
                self.api_key,
                body.len()
            );
            stream.write_all(request.as_bytes()).await?;
            let mut status = [0; 12];
            stream.read_exact(&mut status).await?;
            Ok::<_, io::Error>(status.ends_with(b" 200"))
        };
        matches!(timeout(LIMIT, asked).await, Ok(Ok(true)))
    }
}
