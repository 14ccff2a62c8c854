//! Installing kernels: recipes as data, what the machine must have, and the steps.

pub mod kernel;
pub mod lock;
pub mod modules;
pub mod recipe;
pub mod system;
