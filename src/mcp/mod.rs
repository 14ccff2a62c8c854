//! Floor 5, the Model Context Protocol: sessions as tools and resources for programs that bring their own model
//! (`docs/mcp.md`).
//!
//! - [`errors`], [`caller`], [`call`]: additions to JSON-RPC (`rpc`); versions and clients; a running request.
//! - [`state`]: a server's state. [`server`]: methods. [`tools`]: what can be called. [`resources`]: what can be read.
//!   [`subscriptions`].
//! - [`stdio`]: a client over two pipes. HTTP is in `server::mcp`.
//! - [`clients`]: the settings for known clients.
//!
//! The JSON-RPC is written by hand, instead of using the SDK (ADR 0029). `app::executor` runs code and reads data:
//! nothing here owns a kernel or a file.

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
