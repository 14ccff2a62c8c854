//! What a turn and a session may cost, and what the next request would cost on top.
//!
//! Checked before a request is sent, because afterwards it is spent. What it will cost can only be estimated: by
//! weight ([`tokens`]), which servers correct with what they count, and a reply is as long as those before it. Caps are kept
//! as far as the estimate holds, which the message names.

use std::fmt;

use serde::Deserialize;

use crate::llm::tokens;
use crate::llm::types::{Cost, Price, Prompt, Usage};
use crate::session::transcript::Spent;

/// Caps of turn and session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budgets {
    /// Of one question with all that it leads to.
    pub turn: Cap,
    /// Of all.
    pub session: Cap,
}

/// How much may be spent; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cap {
    /// US dollars.
    pub cost: Option<f64>,
    /// Tokens sent and received.
    pub tokens: Option<u64>,
}

/// Who has a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// One question with all that it leads to.
    Turn,
    /// All.
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

/// What would pass a cap.
#[derive(Debug, Clone, PartialEq)]
pub enum Over {
    /// Dollars.
    Cost {
        /// Whose.
        of: Account,
        /// Spent so far.
        spent: Cost,
        /// What the next request would cost, about.
        next: Cost,
        /// The cap.
        cap: Cost,
    },
    /// Tokens.
    Tokens {
        /// Whose.
        of: Account,
        /// Spent so far.
        spent: u64,
        /// What the next request would take, about.
        next: u64,
        /// The cap.
        cap: u64,
    },
    /// There is a cap in dollars, and nobody knows what the model costs.
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

/// Learns from what requests took what the next one will take.
#[derive(Debug, Clone, Default)]
pub struct Estimator {
    /// What was guessed of the request that is under way, and what the latest one took.
    guess: u64,
    latest: Usage,
    /// Tokens counted for tokens guessed, in thousandths.
    ratio: Option<u64>,
    replies: u64,
    written: u64,
}

/// Tokens of a reply before there was one.
const REPLY: u64 = 500;

impl Estimator {
    /// What `prompt` will take.
    pub fn next(&mut self, prompt: &Prompt) -> Usage {
        self.guess = tokens::weigh(prompt);
        let input = self.guess * self.ratio.unwrap_or(1000) / 1000;
        Usage {
            input,
            // What was read from the cache last time will be again, and what was new then, too.
            cached: if self.latest.cached > 0 {
                self.latest.input.min(input)
            } else {
                0
            },
            output: self.written.checked_div(self.replies).unwrap_or(REPLY),
            ..Usage::default()
        }
    }

    /// What the request took that was estimated last.
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

    /// What the request `next` would pass. The caps of turn and session hold `times` times: anyone who goes on gets the same
    /// again.
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
            // What costs nothing passes no cap.
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
