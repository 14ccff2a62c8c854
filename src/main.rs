//! The `sponde` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sponde::cli::main().into()
}
