//! The one integration-test binary. `scripts/test` installs what it needs and runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod agent;
mod agent_http;
mod aimock;
mod approval;
mod approvals;
mod audit;
mod browser;
mod change_model;
mod changed_files;
mod chat;
mod check;
mod checkpoint;
mod circles;
mod cli;
mod configured;
mod confined;
mod context;
mod conversation;
mod danger;
mod eval;
mod files;
mod first_start;
mod gateway;
mod gvisor;
mod hints;
mod hostile_outputs;
mod installs;
mod journal;
mod kernel;
mod kernel_life;
mod kernel_requests;
mod keypress;
mod languages;
mod limits;
mod line_editor;
mod llm_wire;
mod llmock;
mod local_model;
mod looking;
mod matrix;
mod misbehave;
mod model_server;
mod modes;
mod nbformat_corpora;
mod notebook_in;
mod notebook_out;
mod notebooks;
mod notes;
mod once;
mod only_ours;
mod page;
mod page_files;
mod parity;
mod profile;
mod programs;
mod proxy;
mod recorder;
mod registries;
mod rendered;
mod run;
mod rust_source;
mod sandbox;
mod sandbox_net;
mod schema;
mod secrets;
mod sees;
mod server;
mod sessions;
mod shown;
mod sql;
mod stdin;
mod subscribers;
mod support;
mod tables;
mod terminal;
mod tidy;
mod unattended;
mod undo;
mod widening;
mod wires;
