//! JSON-RPC 2.0 by hand (ADR 0029, 0032), for the protocols that stand on it: MCP and ACP.
//!
//! - [`message`]: messages and errors. [`pipes`]: a message a line, bounded.
//! - [`questions`]: requests of ours that wait for the other side.

mod message;
mod pipes;
mod questions;

pub use message::{Incoming, Request, RpcError, answer, notification, parse, request};
pub use pipes::{LONGEST, Line, next_line, write};
pub use questions::{Question, Questions, Unanswered};
