//! Limits how many records hostile code can cause.

use std::time::{Duration, Instant};

/// Most records in a minute.
const EACH_MINUTE: u32 = 1000;
const MINUTE: Duration = Duration::from_mins(1);

/// How many records were written in this minute, and how many were left out.
#[derive(Debug, Default)]
pub struct Pace {
    begun: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Pace {
    /// Whether the next record is to be left out, and how many were in the minute before.
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
