//! The audit log of a session: who decided what on which code, what ran, and what came of it (`docs/audit.md`).
//!
//! - [`record`]: what is written.
//! - [`chain`]: lines that name the one before, sealed with a key of this machine; finds what was changed.
//! - [`file`]: the log and its head on disk.
//! - [`watch`]: makes records of a session's stream.
//! - [`task`]: reads the stream and writes, at its own pace.
//!
//! Invariants: a line is never changed; a decision is on the disk before its code runs, or a person is told that it is
//! not; code, outputs and what was said are never in it, only hashes and sizes.
//!
//! Deliberately not here: waiting for a decision to be written (`run::auditing`), showing the log (`app::audit`).

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

/// Where a session's audit log is, and what it begins with.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Its files.
    pub files: AuditFiles,
    /// What is known of the session before anything happens.
    pub header: Header,
    /// Takes secrets out of names and reasons.
    pub redactor: Redactor,
    /// The connections of its kernels, where they are confined.
    pub connections: Option<Connections>,
}

/// The log of session `id`, where the sessions are in `sessions`.
pub fn log_path(sessions: &std::path::Path, id: &str) -> PathBuf {
    sessions.join(format!("{id}.audit"))
}
