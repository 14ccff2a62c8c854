//! The one integration-test binary. `scripts/test` installs what it needs and runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod kernel;
mod support;
