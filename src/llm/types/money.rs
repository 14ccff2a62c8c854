//! Tokens, and what they cost.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model's price in US dollars per million tokens. List prices: no discounts, no surcharge for long prompts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Tokens sent that were not in the provider's cache.
    pub input: f64,
    /// Tokens sent that were read from its cache.
    pub cached: f64,
    /// Tokens sent that were written to its cache.
    pub written: f64,
    /// Tokens received, reasoning included.
    pub output: f64,
}

impl Price {
    /// A model that runs on this machine.
    pub const FREE: Self = Self {
        input: 0.0,
        cached: 0.0,
        written: 0.0,
        output: 0.0,
    };

    /// The cost of `usage`, in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        // Far below 2^53 tokens, so the conversion is exact.
        #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^53 tokens")]
        let at = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let plain = usage
            .input
            .saturating_sub(usage.cached)
            .saturating_sub(usage.written);
        at(plain, self.input)
            + at(usage.cached, self.cached)
            + at(usage.written, self.written)
            + at(usage.output, self.output)
    }
}

/// Tokens of one or more requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Tokens sent, cached ones included.
    pub input: u64,
    /// Of `input`, those read from the provider's cache.
    pub cached: u64,
    /// Of `input`, those written to the provider's cache, where it charges for that.
    pub written: u64,
    /// Tokens received, reasoning included.
    pub output: u64,
    /// What it cost, if the provider says so or its prices are known to its library.
    pub cost: Option<Cost>,
}

/// Money, in US dollars. A whole number of billionths, so that sums are exact.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Cost(u64);

impl Cost {
    /// An amount in dollars; zero for an invalid number.
    pub fn dollars(dollars: f64) -> Self {
        let billionths = dollars * 1e9;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounded on both sides, and `as` takes what is no number for 0"
        )]
        Self(billionths.round().clamp(0.0, 1e18) as u64)
    }

    /// The amount in dollars.
    pub fn in_dollars(self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "nobody counts billionths of more than nine million dollars"
        )]
        let billionths = self.0 as f64;
        billionths / 1e9
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Cost {
    /// `$1.23`; small amounts with enough digits to show two significant ones: `$0.0042`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.in_dollars();
        let digits = match self.0 {
            1..100_000 => 6,
            100_000..1_000_000 => 5,
            1_000_000..10_000_000 => 4,
            10_000_000..100_000_000 => 3,
            _ => 2,
        };
        write!(f, "${dollars:.digits$}")
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.written = self.written.saturating_add(other.written);
        self.output = self.output.saturating_add(other.output);
        // If part of the sum is unknown, keep the known part.
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_counts_each_token_once() {
        let price = Price {
            input: 3.0,
            cached: 0.3,
            written: 3.75,
            output: 15.0,
        };
        let usage = Usage {
            input: 1_000_000,
            cached: 600_000,
            written: 100_000,
            output: 10_000,
            cost: None,
        };
        let cost = price.cost(&usage);
        assert!((cost - (0.9 + 0.18 + 0.375 + 0.15)).abs() < 1e-9, "{cost}");
        assert!(Price::FREE.cost(&usage).abs() < f64::EPSILON);
    }
}
