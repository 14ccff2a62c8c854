//! Language models: a [`Prompt`] goes in, a stream of [`Delta`]s comes out.
//!
//! This floor knows wires, vendors and keys, but not kernels, notebooks or front ends. Providers implement one trait,
//! [`Provider`]; wrappers add what a caller wants ([`retry`], [`native`], [`constrained`], [`fenced`]) and implement it
//! too.
//!
//! Invariants: no type of the provider library leaves [`rig`]; a key is a [`endpoint::Secret`] and never reaches a log
//! or an error; the environment is passed in, never read here; every wait is bounded.

pub mod catalog;
pub mod coded;
pub mod constrained;
pub mod detect;
pub mod endpoint;
pub mod fallback;
pub mod fenced;
mod forget;
pub mod http;
pub mod key_command;
pub mod listing;
pub mod local;
pub mod mode;
pub mod native;
pub mod pictures;
mod provider;
pub mod providers;
pub mod retry;
pub mod rig;
pub mod scripted;
mod setup;
pub mod tokens;
pub mod tuning;
pub mod types;
pub mod verify_name;
pub mod wording;

pub use types::{
    BoxStream, Cost, Delta, Message, ModelInfo, Native, Part, Price, Prompt, Provider,
    ProviderError, Retrying, StopReason, ToolCall, ToolChoice, ToolSpec, Usage,
};
