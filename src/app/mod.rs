//! Floor 4, shared by all front ends: takes settings as plain values, and returns a running session.
//!
//! Nothing here prints, asks, parses a command line or ends the program. Messages for a person are [`Notice`]s; a
//! decision for a person is a value that a front end shows and answers before it continues. The environment and
//! working directory of the process are read once, at the top, and passed down
//! ([`Environment`](crate::paths::Environment)).

pub mod answer;
pub mod attach;
pub mod attachments;
pub mod audit;
pub mod configured;
pub mod containers;
pub mod databases;
pub mod doctor;
pub mod executor;
pub mod existing;
pub mod exported;
pub mod files;
pub mod forks;
pub mod install;
pub mod kept;
pub mod kernels;
pub mod missing;
pub mod model;
pub mod nearby;
pub mod notebook;
pub mod notice;
pub mod origin;
pub mod piped;
pub mod place;
pub mod project;
mod prompt_cache;
pub mod python;
mod registries;
pub mod registry;
pub mod remote_kernels;
pub mod run;
pub mod sandbox;
pub mod sandboxes;
pub mod schema;
pub mod session;
pub mod settings;
mod step;
pub mod tenants;
pub mod tool_servers;
mod trust;
pub mod workspace;

use crate::config::Config;
use crate::kernel::Redactor;
use crate::paths::Paths;
pub use notice::{Notice, Notify};
pub use session::Session;
pub use settings::{Lifetime, ModelAt, SessionSettings};

/// The context that every part of this floor gets.
#[derive(Debug, Clone)]
pub struct Context {
    /// Directories, and the environment they come from.
    pub paths: Paths,
    /// The configuration file.
    pub config: Config,
    /// Receives messages for a person.
    pub notify: Notify,
    /// Knows this person's secrets, which no model, log or notebook gets.
    pub redactor: Redactor,
    /// Whether a model may be asked at all.
    pub may_ask: bool,
}
