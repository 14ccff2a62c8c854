//! One of the targets of `sponde::fuzz` under libFuzzer: `scripts/fuzz TARGET [SECONDS]`.
#![no_main]
#![expect(clippy::panic, reason = "a fuzzer that cannot go on has failed")]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sponde::fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("SPONDE_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    let Some((_, target)) = found else {
        let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        panic!("SPONDE_FUZZ is `{wanted}`, which is none of {names:?}");
    };
    *target
});

fuzz_target!(|data: &[u8]| TARGET(data));
