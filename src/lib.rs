//! Sponde: a question goes in, a model writes code, a real Jupyter kernel runs it, the outputs go back to the
//! model and to the person, and the whole conversation is a notebook.
//!
//! The floors, from the ground up (`docs/architecture.md`; `tests/it/tidy.rs` holds them):

pub mod jupyter;

pub mod risk;

pub mod kernel;

pub mod llm;
pub mod mcp;

pub mod acp;

pub mod session;

pub mod export;

pub mod agent;

pub mod app;

pub mod server;

pub mod cli;

mod ansi;
mod child;
pub mod config;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod paths;
mod program;
pub mod rpc;
mod task;
