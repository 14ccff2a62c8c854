//! What can be said of a column: its type, its range, its values.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::names::shown;

/// Distinct texts of a column that are named.
const NAMED: usize = 12;
/// Distinct texts that are counted.
const COUNTED: usize = 1000;
/// Characters of a text that are kept.
const VALUE: usize = 200;
/// Digits beyond which a number is no number to anybody, and to pandas an object.
const DIGITS: usize = 18;

/// What pandas takes for a missing value (`read_csv`, `na_values`).
const MISSING: [&str; 18] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan",
];

/// Whether a value counts as missing.
pub(super) fn is_missing(value: &str) -> bool {
    MISSING.contains(&value) || value == "null"
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numerals {
    /// `1234.5`
    Point,
    /// `1,234.5`
    CommaThousands,
    /// `1234,5`
    Comma,
    /// `1.234,5`
    PointThousands,
}

impl Numerals {
    /// What `read_csv` must be told.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Point => &[],
            Self::CommaThousands => &["thousands=','"],
            Self::Comma => &["decimal=','"],
            Self::PointThousands => &["decimal=','", "thousands='.'"],
        }
    }

    fn decimal(self) -> char {
        match self {
            Self::Point | Self::CommaThousands => '.',
            Self::Comma | Self::PointThousands => ',',
        }
    }

    fn thousands(self) -> Option<char> {
        match self {
            Self::Point | Self::Comma => None,
            Self::CommaThousands => Some(','),
            Self::PointThousands => Some('.'),
        }
    }

    /// The number that `value` is.
    pub(super) fn number(self, value: &str) -> Option<f64> {
        let decimal = self.decimal();
        let (whole, _) = value.split_once(decimal).unwrap_or((value, ""));
        let groups = |mark| {
            let mut groups = whole.trim_start_matches(['-', '+']).split(mark);
            groups.next().is_some_and(|first| {
                (1..=3).contains(&first.len()) && (!first.starts_with('0') || whole.len() == 1)
            }) && groups.all(|group| group.len() == 3)
        };
        match self.thousands() {
            Some(mark) if value.contains(mark) => {
                groups(mark).then(|| self.lenient(value)).flatten()
            }
            _ => self.lenient(value),
        }
    }

    /// The number that pandas makes of `value`, which looks at no groups.
    fn lenient(self, value: &str) -> Option<f64> {
        let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
        let value = match self.thousands() {
            Some(mark) => value.replace(mark, ""),
            None => value.to_owned(),
        };
        let value = match self.decimal() {
            ',' if value.contains('.') => return None,
            ',' => value.replacen(',', ".", 1),
            _ => value,
        };
        let is_infinite = matches!(value.trim_start_matches(['-', '+']), "inf" | "Infinity");
        if is_infinite || value.chars().all(is_plain) {
            value.parse().ok()
        } else {
            None
        }
    }

    fn is_integer(self, value: &str) -> bool {
        self.number(value).is_some()
            && !value.contains([self.decimal(), 'e', 'E'])
            && value.contains(|c: char| c.is_ascii_digit())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Empty,
    Integer,
    Float,
    Date(DateForm),
    Text,
    /// What only some formats know, by its name: `bool`, `list`.
    Named(&'static str),
}

/// How a date is written; pandas parses a column in which all are written alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateForm {
    /// `2020-01-31`, with as much behind it as this has letters.
    Iso(usize),
    /// `31/1/2020` or `1/31/2020`
    Slashes,
    /// `31.1.2020`
    Points,
    /// `Jan 31, 2020` or `31 January 2020`: the month's letters beyond three, where the day is.
    Words { long: bool, day_first: bool },
}

/// Which of two numbers of a date is the day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DayPlace {
    first_beyond_12: bool,
    second_beyond_12: bool,
}

/// A value whose kind its format tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Missing,
    Integer(f64),
    Float(f64),
    Text(&'a str),
    /// The kind's name, and the value as text.
    Named(&'static str, &'a str),
}

/// What was seen of a column.
#[derive(Debug)]
pub(super) struct Column {
    numerals: Numerals,
    kind: ColumnKind,
    missing: usize,
    range: Option<(f64, f64)>,
    first: String,
    least: String,
    greatest: String,
    distinct: BTreeSet<String>,
    many: bool,
    days: DayPlace,
    /// Numbers that are names: with zeros before them, or longer than any number.
    codes: bool,
    /// Whether pandas would take all values for numbers.
    passes_for_numbers: bool,
}

impl Column {
    pub(super) fn new(numerals: Numerals) -> Self {
        Self {
            numerals,
            kind: ColumnKind::Empty,
            missing: 0,
            range: None,
            first: String::new(),
            least: String::new(),
            greatest: String::new(),
            distinct: BTreeSet::new(),
            many: false,
            days: DayPlace::default(),
            codes: false,
            passes_for_numbers: true,
        }
    }

    pub(super) fn take(&mut self, value: &str) {
        let value = value.trim();
        if is_missing(value) {
            self.missing += 1;
            return;
        }
        if self.kind != ColumnKind::Text {
            let kind = kind_of(value, self.numerals);
            self.see_kind(kind);
            if matches!(kind, ColumnKind::Date(_)) {
                self.days.take(value);
            }
        }
        self.passes_for_numbers = self.passes_for_numbers && self.numerals.lenient(value).is_some();
        let digits = value.trim_start_matches(['-', '+']);
        self.codes |= digits.len() > 1
            && digits.bytes().all(|b| b.is_ascii_digit())
            && (digits.starts_with('0') || digits.len() > DIGITS);
        if let Some(number) = self.numerals.number(value) {
            self.see_number(number);
        }
        self.see_value(value);
    }

    /// A value of a format that tells its kind: digits in quotes are text there.
    pub(super) fn take_typed(&mut self, value: Value<'_>) {
        match value {
            Value::Missing => self.missing += 1,
            Value::Integer(number) | Value::Float(number) => {
                self.see_kind(match value {
                    Value::Float(_) => ColumnKind::Float,
                    _ => ColumnKind::Integer,
                });
                self.see_number(number);
                self.see_value(&number.to_string());
            }
            Value::Text(text) => {
                let text: String = text.chars().take(VALUE).collect();
                let kind = match kind_of(&text, Numerals::Point) {
                    kind @ ColumnKind::Date(DateForm::Iso(_)) => kind,
                    _ => ColumnKind::Text,
                };
                self.passes_for_numbers =
                    self.passes_for_numbers && Numerals::Point.lenient(text.trim()).is_some();
                self.see_kind(kind);
                self.see_value(&text);
            }
            Value::Named(name, value) => {
                self.see_kind(ColumnKind::Named(name));
                self.see_value(value);
            }
        }
    }

    fn see_kind(&mut self, kind: ColumnKind) {
        self.kind = match (self.kind, kind) {
            (ColumnKind::Empty, kind) => kind,
            (ColumnKind::Integer, ColumnKind::Float) | (ColumnKind::Float, ColumnKind::Integer) => {
                ColumnKind::Float
            }
            (before, kind) if before == kind => kind,
            _ => ColumnKind::Text,
        };
    }

    fn see_number(&mut self, number: f64) {
        let (low, high) = self.range.unwrap_or((number, number));
        self.range = Some((low.min(number), high.max(number)));
    }

    fn see_value(&mut self, value: &str) {
        if self.first.is_empty() {
            value.clone_into(&mut self.first);
            value.clone_into(&mut self.least);
        }
        if value < self.least.as_str() {
            value.clone_into(&mut self.least);
        }
        if value > self.greatest.as_str() {
            value.clone_into(&mut self.greatest);
        }
        if self.distinct.contains(value) {
        } else if self.distinct.len() < COUNTED {
            self.distinct.insert(value.to_owned());
        } else {
            self.many = true;
        }
    }

    /// Its type.
    pub(super) fn kind(&self) -> ColumnKind {
        match self.kind {
            ColumnKind::Integer if self.codes => ColumnKind::Text,
            ColumnKind::Date(_) if self.days.contradicts() => ColumnKind::Text,
            ColumnKind::Text if self.is_truth() => ColumnKind::Named("bool"),
            kind => kind,
        }
    }

    /// Whether pandas takes all values for truth values.
    fn is_truth(&self) -> bool {
        let words = ["True", "TRUE", "true", "False", "FALSE", "false"];
        self.missing == 0
            && !self.distinct.is_empty()
            && self
                .distinct
                .iter()
                .all(|value| words.contains(&value.as_str()))
    }

    /// The format of dates that begin with their day, which pandas would not guess.
    pub(super) fn day_first(&self) -> Option<&'static str> {
        match self.kind() {
            ColumnKind::Date(DateForm::Points) => Some("%d.%m.%Y"),
            ColumnKind::Date(DateForm::Slashes) if self.days.first_beyond_12 => Some("%d/%m/%Y"),
            _ => None,
        }
    }

    /// Whether it is text that pandas would take for numbers.
    pub(super) fn needs_text(&self) -> bool {
        self.kind() == ColumnKind::Text && self.passes_for_numbers
    }

    /// In words; without values if they are `secret`; `among` names the rows if these are not all.
    pub(super) fn describe(&self, secret: bool, among: &str) -> String {
        let kind = self.kind();
        if secret && kind != ColumnKind::Empty {
            let more = if self.many { "more than " } else { "" };
            return format!("{more}{} values, not shown{among}", self.distinct.len());
        }
        let mut words = match (kind, self.range) {
            (ColumnKind::Integer, Some((low, high))) => {
                format!("int, {} to {}", number(low), number(high))
            }
            (ColumnKind::Float, Some((low, high))) => {
                format!("float, {} to {}", number(low), number(high))
            }
            (ColumnKind::Date(DateForm::Iso(_)), _) => {
                format!("date, {} to {}", self.least, self.greatest)
            }
            (ColumnKind::Date(_), _) => format!("date, e.g. {}", self.first),
            (ColumnKind::Empty, _) => "empty".to_owned(),
            (ColumnKind::Named(name), _) => name.to_owned(),
            (ColumnKind::Text | ColumnKind::Integer | ColumnKind::Float, _) => self.describe_text(),
        };
        if self.missing > 0 && kind != ColumnKind::Empty {
            let _ = write!(words, "; {} missing", self.missing);
        }
        words + among
    }

    fn describe_text(&self) -> String {
        let short = self.distinct.iter().map(String::len).sum::<usize>() < 160;
        if self.distinct.len() <= NAMED && short {
            let values: Vec<String> = self.distinct.iter().map(|value| shown(value)).collect();
            return format!("text, {} values: {}", values.len(), values.join(", "));
        }
        let first: String = self.first.chars().take(40).collect();
        let more = if self.many { "more than " } else { "" };
        let first = shown(&first);
        let quote = if first.starts_with('"') { "" } else { "\"" };
        format!(
            "text, {more}{} values, e.g. {quote}{first}{quote}",
            self.distinct.len()
        )
    }
}

impl DayPlace {
    fn take(&mut self, date: &str) {
        let mut numbers = date
            .split(['/', '.'])
            .filter_map(|part| part.parse::<u16>().ok());
        self.first_beyond_12 |= numbers.next().is_some_and(|n| (13..=31).contains(&n));
        self.second_beyond_12 |= numbers.next().is_some_and(|n| (13..=31).contains(&n));
    }

    fn contradicts(self) -> bool {
        self.first_beyond_12 && self.second_beyond_12
    }
}

/// In six significant digits, whole numbers below a thousand millions in all of theirs.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value.fract() == 0.0 && value.abs() < 1e9 {
        return format!("{value:.0}");
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-5..9).contains(&exponent) {
        let places = usize::try_from(5 - exponent).unwrap_or_default();
        return trimmed(&format!("{value:.places$}"));
    }
    format!("{}e{exponent}", trimmed(digits))
}

/// What a value is.
pub(super) fn kind_of(value: &str, numerals: Numerals) -> ColumnKind {
    let value = value.trim();
    if value.is_empty() {
        ColumnKind::Empty
    } else if numerals.is_integer(value) {
        ColumnKind::Integer
    } else if numerals.number(value).is_some() {
        ColumnKind::Float
    } else {
        date_form(value).map_or(ColumnKind::Text, ColumnKind::Date)
    }
}

fn date_form(value: &str) -> Option<DateForm> {
    iso(value).or_else(|| {
        let parts: Vec<&str> = value
            .split(['/', ' ', '.'])
            .filter(|part| !part.is_empty())
            .collect();
        let &[a, b, c] = parts.as_slice() else {
            return None;
        };
        let marks: Vec<char> = value.chars().filter(|c| matches!(c, '/' | '.')).collect();
        let two = |mark| marks == [mark; 2] && !value.contains(' ');
        if !is_year(c) {
            None
        } else if two('/') && is_day(a) && is_day(b) {
            Some(DateForm::Slashes)
        } else if two('.') && is_day(a) && is_day(b) && b.parse::<u8>().is_ok_and(|n| n <= 12) {
            Some(DateForm::Points)
        } else if !marks.is_empty() {
            None
        } else if is_day(b.trim_end_matches(',')) {
            month(a).map(|long| DateForm::Words {
                long,
                day_first: false,
            })
        } else if is_day(a) {
            month(b).map(|long| DateForm::Words {
                long,
                day_first: true,
            })
        } else {
            None
        }
    })
}

fn is_day(part: &str) -> bool {
    part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| (1..=31).contains(&n))
}

fn is_year(part: &str) -> bool {
    part.len() == 4 && part.bytes().all(|b| b.is_ascii_digit())
}

/// `YYYY-MM-DD`, with a time or without: what sorts as text and parses without a format.
fn iso(value: &str) -> Option<DateForm> {
    let digits = |range: std::ops::Range<usize>, most: u8| {
        let part = value.get(range)?;
        let number = part.parse::<u8>().ok()?;
        (part.bytes().all(|b| b.is_ascii_digit()) && (1..=most).contains(&number)).then_some(())
    };
    let separators = [4, 7].map(|at| value.as_bytes().get(at).copied());
    digits(5..7, 12)?;
    digits(8..10, 31)?;
    let is_date = is_year(value.get(..4)?)
        && (separators == [Some(b'-'); 2] || separators == [Some(b'/'); 2])
        && value
            .as_bytes()
            .get(10)
            .is_none_or(|b| matches!(b, b'T' | b' '));
    is_date.then_some(DateForm::Iso(value.len()))
}

/// Whether an English month is written out.
fn month(part: &str) -> Option<bool> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let part = part.to_lowercase();
    MONTHS.iter().find_map(|name| {
        (*name == part || part.len() == 3 && name.starts_with(&part)).then_some(part.len() > 3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_known_by_their_form() {
        let iso = |length| ColumnKind::Date(DateForm::Iso(length));
        for (value, kind) in [
            ("2020-01-02", iso(10)),
            ("2020-01-02T03:04:05Z", iso(20)),
            ("2020-13-02", ColumnKind::Text),
            ("1/31/2020", ColumnKind::Date(DateForm::Slashes)),
            ("31.1.2020", ColumnKind::Date(DateForm::Points)),
            ("192.168.1.1", ColumnKind::Text),
            (
                "Jan 5, 2020",
                ColumnKind::Date(DateForm::Words {
                    long: false,
                    day_first: false,
                }),
            ),
            (
                "5 March 2020",
                ColumnKind::Date(DateForm::Words {
                    long: true,
                    day_first: true,
                }),
            ),
            ("2020", ColumnKind::Integer),
            ("1.5e3", ColumnKind::Float),
            ("infinity stones", ColumnKind::Text),
            ("May be", ColumnKind::Text),
            ("1/2", ColumnKind::Text),
        ] {
            assert_eq!(kind_of(value, Numerals::Point), kind, "{value}");
        }
    }

    #[test]
    fn numbers_are_written_in_several_ways() {
        for (numerals, value, expected) in [
            (Numerals::Point, "1.5", Some(1.5)),
            (Numerals::Point, "1,5", None),
            (Numerals::Comma, "1,5", Some(1.5)),
            (Numerals::Comma, "1.5", None),
            (Numerals::PointThousands, "1.234.567,5", Some(1_234_567.5)),
            (Numerals::PointThousands, "12.34,5", None),
            (Numerals::PointThousands, "0.234", None),
            (Numerals::CommaThousands, "-1,234.5", Some(-1234.5)),
            (Numerals::CommaThousands, "1,2", None),
            (Numerals::CommaThousands, "7", Some(7.0)),
        ] {
            assert_eq!(numerals.number(value), expected, "{numerals:?} {value}");
        }
    }

    #[test]
    fn numbers_have_six_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (1_629_014.0, "1629014"),
            (0.123_456_789_012_345_6, "0.123457"),
            (-1_234.567_891, "-1234.57"),
            (9_007_199_254_740_993.0, "9.0072e15"),
            (1e-9, "1e-9"),
            (123_456_789.5, "123456790"),
            (0.5, "0.5"),
            (999_999.96, "1000000"),
        ] {
            assert_eq!(number(value), expected);
        }
    }
}
