//! Models that run on this machine: the known ones, downloading their files, reading a file's metadata, and the
//! llama.cpp server that runs it.
//!
//! The order of use is [`LocalModel::find`], [`pull`] if the file is missing,
//! [`LocalServerOptions::for_model`], [`LocalServer::start`]; the server then speaks the OpenAI chat
//! wire at [`LocalServer::base_url`] like any other endpoint.
//!
//! Not here: where files live, which Python is used, what is printed. Directories, interpreter and search path are
//! arguments; progress is a callback.

pub mod gguf;
pub mod models;
pub mod pull;
pub mod server;

pub use models::{
    DEFAULT_MODEL, KNOWN_MODELS, KnownModel, LocalModel, TemplateFix, UnknownModel,
    installed_models,
};
pub use pull::{
    CONNECT_TIMEOUT, PullError, PullOptions, PullProgress, Source, SourceError, SourceFailure,
    SourceOrder, pull,
};
pub use server::{
    ALIAS, Engine, LocalServer, LocalServerError, LocalServerOptions, LocalServerProgress,
    ServerExit, usable_cores,
};
