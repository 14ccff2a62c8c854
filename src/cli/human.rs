//! Sizes and times in the form that people use.

use std::time::Duration;

use jiff::{Timestamp, ToSpan as _, Zoned};

/// `1.2 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$} {}", UNITS.get(unit).unwrap_or(&"TB"))
}

/// `3 s`, `2 min 5 s`.
pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// `1 cell`, `2 cells`.
pub(super) fn count(n: usize, what: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{n} {what}{ending}")
}

/// How long ago a time was: `5 min ago`, `yesterday 14:02`, `12 Nov`, `12 Nov 2025`.
pub(super) fn ago(then: Timestamp, now: &Zoned) -> String {
    let then = then.to_zoned(now.time_zone().clone());
    let seconds = now.timestamp().as_second() - then.timestamp().as_second();
    let yesterday = now.date().checked_sub(1.day());
    match seconds {
        ..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        _ if then.date() == now.date() => then.strftime("today %H:%M").to_string(),
        _ if yesterday.is_ok_and(|date| date == then.date()) => {
            then.strftime("yesterday %H:%M").to_string()
        }
        _ if then.year() == now.year() => then.strftime("%-d %b %H:%M").to_string(),
        _ => then.strftime("%-d %b %Y").to_string(),
    }
}

/// `text` in at most `columns` characters, with an ellipsis if it is longer.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_960, "10 kB"),
            (999_499, "999 kB"),
            (999_600, "1.0 MB"),
            (1_234_567, "1.2 MB"),
            (5_000_000_000, "5.0 GB"),
        ];
        for (size, expected) in cases {
            assert_eq!(bytes(size), expected);
        }
    }

    #[test]
    fn times_are_as_near_as_they_are() {
        let now: Zoned = "2026-11-22T12:00:00+01:00[+01:00]".parse().unwrap();
        let cases = [
            ("2026-11-22T11:59:30+01:00", "just now"),
            ("2026-11-22T12:00:30+01:00", "just now"),
            ("2026-11-22T11:15:00+01:00", "45 min ago"),
            ("2026-11-22T02:15:00+01:00", "today 02:15"),
            ("2026-11-21T23:59:00+01:00", "yesterday 23:59"),
            ("2026-11-12T08:00:00+01:00", "12 Nov 08:00"),
            ("2025-11-12T08:00:00+01:00", "12 Nov 2025"),
        ];
        for (then, expected) in cases {
            assert_eq!(ago(then.parse().unwrap(), &now), expected, "{then}");
        }
    }
}
