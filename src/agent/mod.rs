//! Floor 3: the agent. The only floor that knows kernels and models.
//!
//! Decisions are pure ([`turn`]), effects are at the edge ([`run`]). Front ends send a [`Command`] and receive an
//! [`Event`]; all of them share these two types.

pub mod approval;
pub mod asides;
pub mod audit;
pub mod budget;
mod cell_run;
pub mod event;
pub mod facts;
pub mod frame_file;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub mod guidance;
pub mod install;
pub mod listing;
pub mod models;
pub mod output_folder;
pub mod pictures;
pub mod project;
pub mod prompt;
pub mod query;
pub mod reading;
mod redacted;
pub mod repetition;
pub mod replay;
mod restored;
pub mod run;
mod sampling;
mod save;
pub mod sessions;
pub mod sql;
pub mod stdin;
pub mod store;
pub mod stream;
pub mod tool_calls;
pub mod tools;
mod totals;
pub mod turn;
pub mod undo;

pub use approval::AtLimit;
pub use budget::{Budgets, Cap};
pub use event::{
    Command, CompactionReason, Decision, Event, EventKind, KernelOffer, OutputChange, TurnEnd,
};
pub use models::{ModelSetup, Models, Opening};
pub use output_folder::OutputFolder;
pub use restored::{KernelMemory, RestoredBy};
pub use run::{Agent, AgentOptions};
pub use save::{replace_atomically, write_atomically, write_atomically_with, write_beside_code};
pub use stdin::StdinPolicy;
pub use totals::Totals;

pub use crate::llm::types::Cost;
