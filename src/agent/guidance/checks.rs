//! Checks whether an answer follows from the printed text: only numbers and directions.

/// Numbers of `answer` that do not occur in `sources`, allowing for rounding; a percentage of a printed fraction
/// counts as found.
pub(super) fn unfounded(answer: &str, sources: &str) -> Vec<String> {
    let known: Vec<f64> = numbers(sources)
        .into_iter()
        .map(|number| number.value.abs())
        .collect();
    numbers(answer)
        .into_iter()
        .filter(|number| {
            let tolerance = 0.51 * 10_f64.powi(-number.decimals);
            let value = number.value.abs();
            !known.iter().any(|known| {
                (value - known).abs() <= tolerance || (value - 100.0 * known).abs() <= tolerance
            })
        })
        .map(|number| number.text)
        .collect()
}

/// Numbers in an answer that no source contains: for models that need no coaching, so a doubt is worth reporting.
///
/// Small whole numbers and years are not checked. A figure may be rounded to its own digits, and be given in per cent,
/// thousands, millions or billions.
pub(super) fn doubtful(answer: &str, sources: &str) -> Vec<String> {
    const SCALES: [f64; 5] = [1.0, 100.0, 1e-3, 1e-6, 1e-9];
    let known: Vec<f64> = numbers(sources)
        .into_iter()
        .map(|number| number.value.abs())
        .collect();
    let mut doubtful: Vec<String> = Vec::new();
    for number in numbers(answer) {
        let value = number.value.abs();
        let is_whole = number.decimals == 0;
        let is_year = is_whole && (1900.0..=2100.0).contains(&value);
        if is_year || (is_whole && value < 100.0) || doubtful.contains(&number.text) {
            continue;
        }
        let tolerance = 0.51 * 10_f64.powi(number.zeros() - number.decimals);
        let is_known = |known: &f64| {
            let mut scaled = SCALES.iter().map(|scale| known * scale);
            scaled.any(|known| (value - known).abs() <= tolerance)
        };
        if !known.iter().any(is_known) {
            doubtful.push(number.text);
        }
    }
    doubtful
}

/// Quotes a contradictory sentence such as "fell from 3 to 5".
pub(super) fn contradiction(answer: &str) -> Option<String> {
    const DOWN: [&str; 6] = ["fell", "fallen", "dropped", "decreased", "declined", "down"];
    const UP: [&str; 7] = [
        "rose",
        "risen",
        "grew",
        "grown",
        "increased",
        "climbed",
        "up",
    ];
    for sentence in sentences(answer) {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let bare = word
                .trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase();
            let up = UP.contains(&bare.as_str());
            if !up && !DOWN.contains(&bare.as_str()) {
                continue;
            }
            let rest = words.get(at..).unwrap_or_default();
            let (Some(from), Some(to)) = (number_after(rest, "from"), number_after(rest, "to"))
            else {
                continue;
            };
            if (up && to.value < from.value) || (!up && to.value > from.value) {
                return Some(format!("{} to {} is not '{bare}'", from.text, to.text));
            }
        }
    }
    None
}

/// Sentences, without breaking at a decimal point.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split([';', '\n']).flat_map(|part| part.split(". "))
}

fn number_after(words: &[&str], preposition: &str) -> Option<Number> {
    let at = words
        .iter()
        .position(|word| word.eq_ignore_ascii_case(preposition))?;
    numbers(words.get(at + 1)?).into_iter().next()
}

struct Number {
    text: String,
    value: f64,
    decimals: i32,
}

impl Number {
    /// Trailing zeros of a whole number, to which it may be rounded.
    fn zeros(&self) -> i32 {
        if self.decimals > 0 {
            return 0;
        }
        let zeros = self.text.chars().rev().filter(|c| *c != ',');
        i32::try_from(zeros.take_while(|c| *c == '0').count()).unwrap_or(0)
    }
}

/// The numbers in a text; thousands separators are removed, and digits within a word do not count.
fn numbers(text: &str) -> Vec<Number> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let before = at
            .checked_sub(1)
            .and_then(|i| chars.get(i))
            .copied()
            .unwrap_or(' ');
        let within_word = before.is_alphanumeric() || before == '_' || before == '.';
        if !c.is_ascii_digit() || within_word {
            at += 1;
            continue;
        }
        let start = at;
        let mut digits = String::new();
        let mut decimals = None;
        while let Some(&c) = chars.get(at) {
            let next_is_digit = chars.get(at + 1).is_some_and(char::is_ascii_digit);
            match c {
                '0'..='9' => {
                    digits.push(c);
                    decimals = decimals.map(|n: i32| n + 1);
                }
                '.' if decimals.is_none() && next_is_digit => {
                    digits.push('.');
                    decimals = Some(0);
                }
                ',' if decimals.is_none() && next_is_digit => {}
                _ => break,
            }
            at += 1;
        }
        let sign = if matches!(before, '-' | '\u{2212}') {
            -1.0
        } else {
            1.0
        };
        if let Ok(value) = digits.parse::<f64>() {
            found.push(Number {
                text: chars.get(start..at).unwrap_or_default().iter().collect(),
                value: sign * value,
                decimals: decimals.unwrap_or(0),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_an_answer_stand_in_the_output() {
        let sources = "mean 26.1137\nrate 0.4567\nn 1,461 rows\nloss -3.2";
        for (answer, expected) in [
            ("It is 26.11, or about 26.", vec![]),
            ("45.7% of 1461 rows", vec![]),
            ("a loss of 3.2", vec![]),
            ("27 and 1,462", vec!["27", "1,462"]),
            ("in Q3 of v2x", vec![]),
        ] {
            assert_eq!(unfounded(answer, sources), expected, "{answer}");
        }
    }

    #[test]
    fn a_figure_without_a_source_is_doubtful() {
        let sources = "mean 26.1137\nshare 0.4567\nn 1461 rows\npeople 7345678901\nfares 26113";
        for (answer, expected) in [
            ("It is 26.11, of 1,461 rows, in 2023.", vec![]),
            (
                "45.7 % of the 12 months, about 26,000 or 26.1 thousand",
                vec![],
            ),
            ("7.35 billion people, 7346 million", vec![]),
            ("1. first 2. second, 27 of them", vec![]),
            (
                "It is 27.11, and 27.11 again, of 1,462 rows",
                vec!["27.11", "1,462"],
            ),
            ("about 40,000", vec!["40,000"]),
        ] {
            assert_eq!(doubtful(answer, sources), expected, "{answer}");
        }
    }

    #[test]
    fn directions_fit_their_numbers() {
        for (answer, expected) in [
            ("It fell from 10 to 5. It rose from 5 to 7.", None),
            (
                "Prices rose from 7.5 to 5.2 in 2020",
                Some("7.5 to 5.2 is not 'rose'"),
            ),
            (
                "It has dropped from 1,000 to 2,000",
                Some("1,000 to 2,000 is not 'dropped'"),
            ),
            ("It fell a lot; from 1 to 2 nothing", None),
        ] {
            assert_eq!(contradiction(answer).as_deref(), expected, "{answer}");
        }
    }
}
