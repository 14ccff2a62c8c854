//! Floor 5, the Model Context Protocol: sessions as tools and resources for programs that bring their own model
//! (`docs/mcp.md`).
//!
//! - [`errors`], [`caller`], [`call`]: what JSON-RPC (`rpc`) lacks; versions and clients; a request on its way.
//! - [`state`]: what a server holds. [`server`]: methods. [`tools`]: what can be called. [`resources`]: what can be read. [`subscriptions`].
//! - [`stdio`]: a client over two pipes. HTTP is `server::mcp`.
//! - [`clients`]: the lines that known clients have in their configuration.
//!
//! JSON-RPC by hand, rather than by the SDK (ADR 0029). What is run and read is `app::executor`'s: nothing here holds a kernel or a file.

mod app;
mod call;
mod caller;
mod change;
pub mod clients;
mod errors;
mod parked;
mod resources;
mod server;
mod state;
mod stdio;
mod subscriptions;
mod tools;

pub use call::Call;
pub use caller::{Caller, Era, LEGACY, MODERN, agreed, unintroduced};
pub use change::Followed;
pub use state::McpServer;
pub use stdio::serve;
