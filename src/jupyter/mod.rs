//! Floor 0: the Jupyter messaging protocol and the notebook file format, as pure data.
//!
//! Bytes in, values out, and back. No I/O, no clock, no async runtime, no types of other modules: everything here can
//! be tested with tables. Sources: the Jupyter messaging spec 5.4 and the nbformat 4.5 schema.

pub mod connection;
pub mod content;
pub mod kernelspec;
pub mod message;
pub mod mime;
pub mod nbformat;
pub mod raw;
pub mod signature;
pub mod wire;
