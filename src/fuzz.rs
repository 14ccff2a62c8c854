//! Fuzz targets for everything that parses hostile bytes. Each is a function of bytes that panics if a property does
//! not hold. `scripts/fuzz` runs one with libFuzzer, guided by coverage; the tests below run all of them over
//! `tests/fuzz/corpus`, and two of them over mutated copies of it.
//!
//! Deliberately not here: the properties themselves, which stand next to the code they are about.

use crate::{agent, cli, export, jupyter, kernel, llm, session};

/// A property that must hold for any bytes.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 7] = [
    ("wire", kernel::guard::fuzz::wire),
    ("websocket", kernel::gateway::fuzz::websocket),
    ("notebook", jupyter::nbformat::fuzz::notebook),
    ("provider", provider),
    ("fenced", llm::fenced::fuzz::fenced),
    ("ansi", ansi),
    ("journal", session::journal::fuzz::journal),
];

/// A provider's output: a streamed reply, or the arguments of a call in it.
fn provider(data: &[u8]) {
    match data.split_first() {
        Some((0, arguments)) => agent::fuzz::arguments(arguments),
        _ => llm::rig::fuzz::reply(data),
    }
}

/// Text for a terminal and for an exported page.
fn ansi(data: &[u8]) {
    cli::fuzz::terminal(data);
    export::fuzz::page(data);
}

/// Pseudo-random numbers, the same for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound
    }

    /// Splits `bytes` into pieces of any size.
    pub(crate) fn pieces<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let largest = [1, 3, 20, 200][self.below(4)];
            let (piece, next) = rest.split_at(rest.len().min(1 + self.below(largest)));
            pieces.push(piece);
            rest = next;
        }
        pieces
    }

    /// Splits `text` into pieces at character boundaries.
    pub(crate) fn words<'a>(&mut self, text: &'a str) -> Vec<&'a str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let largest = [1, 3, 20, 200][self.below(4)];
            let mut at = rest.len().min(1 + self.below(largest));
            while !rest.is_char_boundary(at) {
                at += 1;
            }
            let (piece, next) = rest.split_at(at);
            pieces.push(piece);
            rest = next;
        }
        pieces
    }
}

/// A seed from the first two bytes, and the rest.
pub(crate) fn seeded(data: &[u8]) -> (Dice, &[u8]) {
    let (seed, rest) = data.split_at(data.len().min(2));
    let seed = seed
        .iter()
        .fold(0, |seed, &byte| seed << 8 | u64::from(byte));
    (Dice::new(seed), rest)
}

#[cfg(test)]
mod tests;
