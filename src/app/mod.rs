//! Floor 4, what every front end shares: settings as plain values go in, a running session comes out.
//!
//! Nothing here prints, asks, parses a command line or ends the program. What a person should know is a [`Notice`]; what
//! a person must decide is a value that a front end shows and answers before it calls on. The environment and the
//! working directory of the process are read once, at the top, and handed down ([`Environment`](crate::paths::Environment)).

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

/// What every part of this floor gets.
#[derive(Debug, Clone)]
pub struct Context {
    /// Directories, and the environment they come from.
    pub paths: Paths,
    /// The configuration file.
    pub config: Config,
    /// Takes what a person should know.
    pub notify: Notify,
    /// Knows the secrets of this person that no model, log or notebook gets.
    pub redactor: Redactor,
    /// Whether a model may be asked at all.
    pub may_ask: bool,
}
