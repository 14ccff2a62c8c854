//! Keeps processed prompts on disk for the next server.
//!
//! Processing a prompt takes a small machine half a minute; loading the result takes milliseconds. The saved state must
//! not contain the person's words: the caller sends the fixed beginning alone before saving.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::LocalServer;

/// Limit for reading or writing a file of some 50 MB.
const LIMIT: Duration = Duration::from_secs(10);

impl LocalServer {
    /// Saves the server's prompt state as `name` in [`super::LocalServerOptions::prompts`]. Returns whether it worked.
    pub async fn keep_prompt(&self, name: &str) -> bool {
        self.slot("save", name).await
    }

    /// Restores the state saved as `name`. Returns whether it worked; a prompt that does not match is processed from
    /// scratch.
    pub async fn recall_prompt(&self, name: &str) -> bool {
        self.slot("restore", name).await
    }

    /// llama-server's `POST /slots/0?action=..`. Written by hand, as for `/health`.
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
