//! How much is written down of what hostile code can do without end.

use std::time::{Duration, Instant};

/// Things that are written down in a minute.
const EACH_MINUTE: u32 = 1000;
const MINUTE: Duration = Duration::from_mins(1);

/// How many were written down in this minute, and how many were not.
#[derive(Debug, Default)]
pub struct Pace {
    begun: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Pace {
    /// Whether another one is too many, and how many were of the minute before.
    pub fn next(&mut self, now: Instant) -> (bool, u64) {
        let is_new = self
            .begun
            .is_none_or(|begun| now.duration_since(begun) >= MINUTE);
        let mut before = 0;
        if is_new {
            before = self.left_out;
            *self = Self {
                begun: Some(now),
                ..Self::default()
            };
        }
        let is_one_too_many = self.written >= EACH_MINUTE;
        if is_one_too_many {
            self.left_out += 1;
        } else {
            self.written += 1;
        }
        (is_one_too_many, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_are_counted_and_not_written_down() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let too_many = (0..EACH_MINUTE + 5).filter(|_| pace.next(now).0).count();
        assert_eq!(too_many, 5);
        assert_eq!(pace.next(now + MINUTE), (false, 5));
        assert_eq!(pace.next(now + MINUTE), (false, 0));
    }
}
