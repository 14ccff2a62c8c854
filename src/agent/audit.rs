//! The audit log of a session: who decided what about which code, what ran, and the outcome (`docs/audit.md`).
//!
//! - [`record`]: the records.
//! - [`chain`]: chained lines, sealed with a key of this machine; detects changes.
//! - [`file`]: the log and its head on disk.
//! - [`watch`]: turns a session's stream into records.
//! - [`task`]: reads the stream and writes records at its own pace.
//!
//! Invariants: a line is never changed; a decision is on disk before its code runs, or a person is told that it is not;
//! the log never contains code, outputs or messages, only hashes and sizes.
//!
//! Not here: waiting until a decision is written (`run::auditing`), showing the log (`app::audit`).

pub mod chain;
mod digest;
pub mod file;
pub mod record;
mod task;
mod watch;

use std::path::PathBuf;

use crate::kernel::{Connections, Redactor};

pub use chain::{Fault, Key, Line, Verified, verify};
pub use digest::sha256;
pub use file::AuditFiles;
pub use record::{Header, Record};
pub(super) use task::{Audit, Written, start};

/// Where a session's audit log is, and its header.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Its files.
    pub files: AuditFiles,
    /// What is known of the session at its start.
    pub header: Header,
    /// Removes secrets from names and reasons.
    pub redactor: Redactor,
    /// The network connections of its kernels, where they are confined.
    pub connections: Option<Connections>,
}

/// The path of the log of session `id` in the directory `sessions`.
pub fn log_path(sessions: &std::path::Path, id: &str) -> PathBuf {
    sessions.join(format!("{id}.audit"))
}
