//! Compares texts whose numbers may differ slightly.

use std::sync::LazyLock;

use regex::Regex;

static NUMBER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?").ok());

/// Whether the texts have the same words, and numbers that differ by at most `tolerance * max(1, |a|, |b|)`. A longer
/// number shifts what follows it, so any white space equals any other, and rules of `-`, `=`, `─` match at any length.
pub(super) fn same_numbers(a: &str, b: &str, tolerance: f64) -> bool {
    let Some(number) = NUMBER.as_ref() else {
        return false;
    };
    let (mut left, mut right) = (number.find_iter(a), number.find_iter(b));
    let (mut after_left, mut after_right) = (0, 0);
    loop {
        match (left.next(), right.next()) {
            (Some(one), Some(other)) => {
                if !same_words(
                    a.get(after_left..one.start()).unwrap_or_default(),
                    b.get(after_right..other.start()).unwrap_or_default(),
                ) || !same_number(one.as_str(), other.as_str(), tolerance)
                {
                    return false;
                }
                (after_left, after_right) = (one.end(), other.end());
            }
            (None, None) => {
                return same_words(
                    a.get(after_left..).unwrap_or_default(),
                    b.get(after_right..).unwrap_or_default(),
                );
            }
            _ => return false,
        }
    }
}

fn same_number(a: &str, b: &str, tolerance: f64) -> bool {
    if a == b {
        return true;
    }
    let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) else {
        return false;
    };
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
}

fn same_words(a: &str, b: &str) -> bool {
    a == b || squeezed(a).eq(squeezed(b))
}

/// The characters, with runs of white space as one space and rules as one line.
fn squeezed(text: &str) -> impl Iterator<Item = char> {
    let mut last = None;
    text.chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(move |&c| {
            let again = last == Some(c) && matches!(c, ' ' | '-' | '=' | '─');
            last = Some(c);
            !again
        })
}

#[cfg(test)]
mod tests {
    use super::same_numbers;

    #[test]
    fn within_a_tolerance() {
        for (a, b, tolerance, same) in [
            ("total 4426.0", "total 4426.0000001", 1e-6, true),
            ("total 4426.0", "total 4427.0", 1e-6, false),
            ("a 1.10\nb 2", "a  1.1\nb  2", 1e-6, true),
            ("0.0", "1e-17", 1e-6, true),
            ("-0.0", "0", 1e-6, true),
            ("1 2 3", "1 2", 1.0, false),
            ("mean 5", "max 5", 1.0, false),
            ("------\n10.5", "-----\n9.99", 0.1, true),
            ("nan", "nan", 0.0, true),
            ("nan", "1", 1.0, false),
            ("x", "x\n", 0.0, false),
            ("1e5 m", "100000 m", 0.0, true),
        ] {
            assert_eq!(same_numbers(a, b, tolerance), same, "{a:?} {b:?}");
        }
    }
}
