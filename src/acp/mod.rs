//! Floor 5, the Agent Client Protocol: Sponde's agent in editors and notebooks of others (`docs/acp.md`).
//!
//! - [`stdio`]: a client over two pipes. [`server`]: methods. [`peer`]: what goes to the client.
//! - [`conversation`]: an open session: what happens in it goes to the client, and the client's answers go to it.
//! - [`updates`], [`tool_call`], [`replay`]: events, cells and whole sessions as the client sees them.
//! - [`prompt`], [`commands`], [`choices`]: what a person says, slash commands, model and approval policy.
//! - [`clients`]: the lines that known clients have in their configuration.
//!
//! JSON-RPC by hand, rather than by the Rust crate of the protocol (ADR 0032). Nothing here holds a kernel, decides when code may
//! run, or keeps a transcript: what a cell shows is read from the session when it is sent.

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
