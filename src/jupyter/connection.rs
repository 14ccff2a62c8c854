//! Connection files (messaging spec, "Connection files"): the addresses of a kernel's sockets, and the key.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The parsed file. Field order is the order jupyter_client writes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionInfo {
    /// Port of shell, or number in the ipc file name.
    pub shell_port: u16,
    /// The same for iopub.
    pub iopub_port: u16,
    /// The same for stdin.
    pub stdin_port: u16,
    /// The same for control.
    pub control_port: u16,
    /// The same for the heartbeat.
    pub hb_port: u16,
    /// Host for tcp; path prefix for ipc.
    pub ip: String,
    /// HMAC key; empty turns signing off.
    #[serde(default)]
    pub key: String,
    /// Whether the sockets are tcp or ipc.
    pub transport: Transport,
    /// Always `hmac-sha256` in practice.
    #[serde(default = "default_scheme")]
    pub signature_scheme: String,
    /// The kernelspec's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel_name: String,
    /// Present if the kernel requires CurveZMQ, which our transport does not support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve_publickey: Option<String>,
}

fn default_scheme() -> String {
    SCHEME.to_owned()
}

/// The only signature scheme in use.
const SCHEME: &str = "hmac-sha256";

/// The key must not reach a log.
impl std::fmt::Debug for ConnectionInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionInfo")
            .field("transport", &self.transport)
            .field("ip", &self.ip)
            .field("kernel_name", &self.kernel_name)
            .finish_non_exhaustive()
    }
}

/// `transport` of a connection file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Host and port.
    Tcp,
    /// Unix sockets named `<ip>-<port>`.
    Ipc,
}

/// The address of one socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Ipc(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

/// A socket of a kernel: the four channels and the heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    /// See [`super::message::Channel`].
    Channel(super::message::Channel),
    /// Echoes what it receives.
    Heartbeat,
}

/// Why a connection file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Not JSON, or fields are missing.
    #[error("not a connection file: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// An unsupported signature scheme.
    #[error("signature scheme `{0}` is not supported, only hmac-sha256")]
    Scheme(String),
    /// CurveZMQ.
    #[error("the kernel wants CurveZMQ encryption, which is not supported")]
    Curve,
}

impl ConnectionInfo {
    /// A new file's content for ipc sockets `<prefix>-1` to `<prefix>-5`.
    pub fn ipc(prefix: String, key: String, kernel_name: String) -> Self {
        Self {
            shell_port: 1,
            iopub_port: 2,
            stdin_port: 3,
            control_port: 4,
            hb_port: 5,
            ip: prefix,
            key,
            transport: Transport::Ipc,
            signature_scheme: SCHEME.to_owned(),
            kernel_name,
            curve_publickey: None,
        }
    }

    /// A new file's content for five tcp ports on loopback: shell, iopub, stdin, control, heartbeat.
    pub fn tcp(ports: [u16; 5], key: String, kernel_name: String) -> Self {
        let [shell_port, iopub_port, stdin_port, control_port, hb_port] = ports;
        Self {
            shell_port,
            iopub_port,
            stdin_port,
            control_port,
            hb_port,
            ip: "127.0.0.1".to_owned(),
            transport: Transport::Tcp,
            ..Self::ipc(String::new(), key, kernel_name)
        }
    }

    /// Parses and checks a file's content.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub fn parse(text: &[u8]) -> Result<Self, ConnectionError> {
        let info: Self = serde_json::from_slice(text)?;
        if info.curve_publickey.is_some() {
            return Err(ConnectionError::Curve);
        }
        if !info.key.is_empty() && info.signature_scheme != SCHEME {
            return Err(ConnectionError::Scheme(info.signature_scheme));
        }
        Ok(info)
    }

    /// The address of `socket`.
    pub fn endpoint(&self, socket: Socket) -> Endpoint {
        use super::message::Channel;
        let port = match socket {
            Socket::Channel(Channel::Shell) => self.shell_port,
            Socket::Channel(Channel::IoPub) => self.iopub_port,
            Socket::Channel(Channel::Stdin) => self.stdin_port,
            Socket::Channel(Channel::Control) => self.control_port,
            Socket::Heartbeat => self.hb_port,
        };
        match self.transport {
            Transport::Ipc => Endpoint::Ipc(PathBuf::from(format!("{}-{port}", self.ip))),
            Transport::Tcp => Endpoint::Tcp(self.ip.clone(), port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::message::Channel;

    #[test]
    fn reads_what_jupyter_client_writes() {
        let text = br#"{"shell_port": 51, "iopub_port": 52, "stdin_port": 53, "control_port": 54,
            "hb_port": 55, "ip": "127.0.0.1", "key": "k", "transport": "tcp",
            "signature_scheme": "hmac-sha256", "kernel_name": "python3", "jupyter_session": "x"}"#;
        let info = ConnectionInfo::parse(text).unwrap();
        assert_eq!(
            info,
            ConnectionInfo::tcp([51, 52, 53, 54, 55], "k".to_owned(), "python3".to_owned())
        );
        assert_eq!(
            info.endpoint(Socket::Channel(Channel::IoPub)),
            Endpoint::Tcp("127.0.0.1".to_owned(), 52)
        );
        let ipc = ConnectionInfo::ipc("/run/k".to_owned(), "k".to_owned(), String::new());
        assert_eq!(
            ipc.endpoint(Socket::Heartbeat),
            Endpoint::Ipc("/run/k-5".into())
        );
        assert!(!format!("{ipc:?}").contains("\"k\""));
    }

    #[test]
    fn refuses_what_it_cannot_speak() {
        let base = serde_json::json!({"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4,
            "hb_port": 5, "ip": "x", "key": "k", "transport": "tcp"});
        let with = |name: &str, value: &str| {
            let mut file = base.clone();
            file[name] = value.into();
            ConnectionInfo::parse(file.to_string().as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            with("signature_scheme", "hmac-md5"),
            "signature scheme `hmac-md5` is not supported, only hmac-sha256"
        );
        assert_eq!(
            with("curve_publickey", "z"),
            "the kernel wants CurveZMQ encryption, which is not supported"
        );
    }
}
