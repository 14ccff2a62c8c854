//! The cost of a turn and of a session, as a line of text.

use std::fmt::Write as _;

use crate::agent::{Cost, Totals};

/// One line; includes the session only if it had more than this turn.
pub(super) fn line(turn: &Totals, session: &Totals) -> String {
    let mut line = format!("{}, {}", spent(turn), duration(turn.seconds));
    if session.requests > turn.requests {
        let _ = write!(line, "; session: {}", spent(session));
    }
    line
}

/// Tokens and money.
pub(super) fn spent(totals: &Totals) -> String {
    let mut text = format!("{} tokens in", count(totals.input_tokens));
    if totals.cached_tokens > 0 {
        let _ = write!(text, " ({} cached)", count(totals.cached_tokens));
    }
    let _ = write!(text, ", {} out", count(totals.output_tokens));
    // A model that runs locally costs nothing worth mentioning.
    if let Some(cost) = totals.cost_usd.filter(|&cost| cost > 0.0) {
        let _ = write!(text, ", {}", Cost::dollars(cost));
    }
    text
}

/// `950`, `12.3k`, `1.2M`.
pub(super) fn count(tokens: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", tokens / unit, tokens % unit * 10 / unit);
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = std::time::Duration::from_secs_f64(seconds).as_secs();
    format!("{} min {} s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_spent() {
        let turn = Totals {
            requests: 2,
            input_tokens: 12_345,
            cached_tokens: 8_000,
            output_tokens: 532,
            cost_usd: Some(0.01234),
            seconds: 14.24,
        };
        assert_eq!(
            line(&turn, &turn),
            "12.3k tokens in (8.0k cached), 532 out, $0.012, 14.2 s"
        );
        let session = Totals {
            requests: 5,
            input_tokens: 1_250_000,
            cost_usd: None,
            ..turn
        };
        let free = Totals {
            cached_tokens: 0,
            cost_usd: Some(0.0),
            seconds: 84.9,
            ..turn
        };
        assert_eq!(
            line(&free, &session),
            "12.3k tokens in, 532 out, 1 min 24 s; session: 1.2M tokens in (8.0k cached), 532 out"
        );
    }
}
