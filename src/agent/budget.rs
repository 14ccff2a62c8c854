//! Cost limits for turns and sessions, and estimates of the next request's cost.
//!
//! Checked before a request is sent, because afterwards the money is spent. The cost can only be estimated: prompts by
//! weight ([`tokens`]), corrected by the servers' counts, and replies by the length of earlier ones. Caps hold as far
//! as the estimate does, which the message includes.

use std::fmt;

use serde::Deserialize;

use crate::llm::tokens;
use crate::llm::types::{Cost, Price, Prompt, Usage};
use crate::session::transcript::Spent;

/// The caps of turn and session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budgets {
    /// For one question with everything that follows from it.
    pub turn: Cap,
    /// For the whole session.
    pub session: Cap,
}

/// A spending limit; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cap {
    /// US dollars.
    pub cost: Option<f64>,
    /// Tokens sent and received.
    pub tokens: Option<u64>,
}

/// What a cap applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// One question with everything that follows from it.
    Turn,
    /// The whole session.
    Session,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turn => "turn",
            Self::Session => "session",
        })
    }
}

/// The cap that would be exceeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Over {
    /// Dollars.
    Cost {
        /// Whose cap.
        of: Account,
        /// Spent so far.
        spent: Cost,
        /// Estimated cost of the next request.
        next: Cost,
        /// The cap.
        cap: Cost,
    },
    /// Tokens.
    Tokens {
        /// Whose cap.
        of: Account,
        /// Spent so far.
        spent: u64,
        /// Estimated tokens of the next request.
        next: u64,
        /// The cap.
        cap: u64,
    },
    /// There is a cap in dollars, but the model's price is unknown.
    NoPrice,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost {
                of,
                spent,
                next,
                cap,
            } => write!(
                f,
                "the {of} has cost {spent} of at most {cap}, and the next request would cost about {next}"
            ),
            Self::Tokens {
                of,
                spent,
                next,
                cap,
            } => write!(
                f,
                "the {of} has taken {spent} tokens of at most {cap}, and the next request would take about {next}"
            ),
            Self::NoPrice => {
                f.write_str("there is a limit in dollars, and the price of the model is not known")
            }
        }
    }
}

/// Estimates the next request's tokens from those of earlier requests.
#[derive(Debug, Clone, Default)]
pub struct Estimator {
    /// The estimate for the current request, and the usage of the latest one.
    guess: u64,
    latest: Usage,
    /// Counted tokens per estimated token, in thousandths.
    ratio: Option<u64>,
    replies: u64,
    written: u64,
}

/// Assumed tokens of the first reply.
const REPLY: u64 = 500;

impl Estimator {
    /// The estimated usage of `prompt`.
    pub fn next(&mut self, prompt: &Prompt) -> Usage {
        self.guess = tokens::weigh(prompt);
        let input = self.guess * self.ratio.unwrap_or(1000) / 1000;
        Usage {
            input,
            // What the cache had last time it will have again, and so will what was new then.
            cached: if self.latest.cached > 0 {
                self.latest.input.min(input)
            } else {
                0
            },
            output: self.written.checked_div(self.replies).unwrap_or(REPLY),
            ..Usage::default()
        }
    }

    /// Records the usage of the request that was estimated last.
    pub fn took(&mut self, usage: &Usage) {
        if self.guess > 0 && usage.input > 0 {
            self.ratio = Some((usage.input * 1000 / self.guess).clamp(100, 10_000));
        }
        self.latest = *usage;
        self.replies += 1;
        self.written += usage.output;
    }
}

impl Budgets {
    /// Whether there is a cap in dollars.
    pub fn caps_cost(&self) -> bool {
        self.turn.cost.is_some() || self.session.cost.is_some()
    }

    /// The cap that the request `next` would exceed. `times` multiplies the caps of turn and session: continuing at a
    /// limit grants the same amount again.
    pub fn check(
        &self,
        turn: &Spent,
        session: &Spent,
        next: &Usage,
        price: Option<&Price>,
        times: (u32, u32),
    ) -> Option<Over> {
        if self.caps_cost() && price.is_none() {
            return Some(Over::NoPrice);
        }
        [
            (Account::Turn, &self.turn, turn, times.0),
            (Account::Session, &self.session, session, times.1),
        ]
        .into_iter()
        .find_map(|(of, cap, spent, times)| {
            let next_tokens = next.input + next.output;
            let tokens = spent.usage.input + spent.usage.output;
            let most = cap.tokens.map(|most| most.saturating_mul(times.into()));
            if let Some(cap) = most.filter(|&most| tokens + next_tokens > most) {
                return Some(Over::Tokens {
                    of,
                    spent: tokens,
                    next: next_tokens,
                    cap,
                });
            }
            let cap = Cost::dollars(cap.cost? * f64::from(times));
            let next = Cost::dollars(price?.cost(next));
            let spent = spent.usage.cost.unwrap_or_default();
            // A free request exceeds no cap.
            (next > Cost::default() && spent + next > cap).then_some(Over::Cost {
                of,
                spent,
                next,
                cap,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::types::ToolChoice;

    const PRICE: Price = Price {
        input: 10.0,
        cached: 1.0,
        written: 10.0,
        output: 100.0,
    };

    fn prompt(bytes: usize) -> Prompt {
        Prompt {
            system: "x".repeat(bytes),
            messages: vec![],
            tools: vec![],
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
        }
    }

    fn usage(input: u64, cached: u64, output: u64) -> Usage {
        Usage {
            input,
            cached,
            output,
            ..Usage::default()
        }
    }

    fn spent(tokens: u64, dollars: f64) -> Spent {
        Spent {
            usage: Usage {
                input: tokens,
                cost: Some(Cost::dollars(dollars)),
                ..Usage::default()
            },
            ..Spent::default()
        }
    }

    #[test]
    fn estimates_learn_from_what_requests_took() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.next(&prompt(4000)), usage(671, 0, 500));
        estimator.took(&usage(2000, 0, 100));
        assert_eq!(estimator.next(&prompt(6000)), usage(2991, 0, 100));
        estimator.took(&usage(3000, 1900, 300));
        assert_eq!(estimator.next(&prompt(8000)), usage(3997, 3000, 200));
    }

    #[test]
    fn what_would_pass_a_cap_is_named() {
        let cap = |cost, tokens| Cap { cost, tokens };
        let budgets = |turn, session| Budgets { turn, session };
        let none = Cap::default();
        let next = usage(10_000, 0, 1000);
        for (budgets, price, times, expected) in [
            (budgets(none, none), None, 1, None),
            (budgets(cap(None, Some(31_000)), none), None, 1, None),
            (
                budgets(cap(None, Some(30_000)), none),
                None,
                1,
                Some(
                    "the turn has taken 20000 tokens of at most 30000, and the next request would take about 11000",
                ),
            ),
            (budgets(cap(None, Some(30_000)), none), None, 2, None),
            (
                budgets(none, cap(Some(1.0), None)),
                Some(PRICE),
                1,
                Some(
                    "the session has cost $0.90 of at most $1.00, and the next request would cost about $0.20",
                ),
            ),
            (budgets(none, cap(Some(1.2), None)), Some(PRICE), 1, None),
            (
                budgets(none, cap(Some(1.2), None)),
                None,
                1,
                Some("there is a limit in dollars, and the price of the model is not known"),
            ),
            (
                budgets(none, cap(Some(1.0), None)),
                Some(Price::FREE),
                1,
                None,
            ),
        ] {
            let over = budgets.check(
                &spent(20_000, 0.2),
                &spent(90_000, 0.9),
                &next,
                price.as_ref(),
                (times, times),
            );
            assert_eq!(over.map(|over| over.to_string()).as_deref(), expected);
        }
    }
}
