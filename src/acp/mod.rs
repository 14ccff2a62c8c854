//! Floor 5, the Agent Client Protocol: makes Sponde's agent available in editors and third-party notebooks
//! (`docs/acp.md`).
//!
//! - [`stdio`]: a client over two pipes. [`server`]: methods. [`peer`]: messages to the client.
//! - [`conversation`]: an open session: reports its events to the client, and passes the client's answers to it.
//! - [`updates`], [`tool_call`], [`replay`]: events, cells and whole sessions in the client's format.
//! - [`prompt`], [`commands`], [`choices`]: a person's questions, slash commands, model and approval policy.
//! - [`clients`]: the settings for known clients.
//!
//! The JSON-RPC is written by hand, instead of using the protocol's Rust crate (ADR 0032). Nothing here owns a kernel,
//! decides when code may run, or stores a transcript: a cell's outputs are read from the session when they are sent.

mod choices;
pub mod clients;
mod commands;
mod conversation;
mod peer;
mod prompt;
mod replay;
mod server;
mod stdio;
mod tool_call;
mod updates;
mod uri;

pub use stdio::serve;
