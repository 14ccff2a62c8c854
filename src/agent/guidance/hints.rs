//! Explains common library errors to a small model in one sentence, after the facts from the live kernel.

use super::Live;

/// Parts of an error's message, and what to do about them. The first match is used.
const MESSAGES: [(&[&str], &str); 8] = [
    (
        &[
            "DatetimeIndex",
            "no longer supported for offsets",
            "Invalid frequency",
        ],
        "Do not resample: group with df.groupby(df['date column'].dt.year).",
    ),
    (
        &[".dt accessor"],
        "Load that column as dates: pd.read_csv(..., parse_dates=['column']).",
    ),
    (
        &["must be a color", "not a valid value for c", "RGBA"],
        "A text column is no colour: loop over df.groupby(column) and plot each part with label=name.",
    ),
    (
        &["No module named"],
        "This module is not installed: do it with those that are.",
    ),
    (
        &["not a valid plot kind"],
        "Use a matplotlib function instead, for a matrix plt.imshow(matrix) with plt.colorbar() and plt.xticks.",
    ),
    (
        &["unterminated string", "incomplete input"],
        "Do not use a line break inside quotes.",
    ),
    (
        &["No such file"],
        "Load the file exactly as shown at the top.",
    ),
    (
        &[
            "convert string to float",
            "Cannot perform reduction",
            "agg function failed",
            "non-numeric",
            "unsupported operand",
        ],
        "Select the numeric columns first: text cannot be averaged or summed.",
    ),
];

/// The hint after a failed cell: the kernel's fact, what to do, and the existing variables.
pub(super) fn after_error(ename: &str, evalue: &str, live: &Live) -> String {
    let mut words = live
        .fact
        .as_ref()
        .map(|fact| format!("{fact} "))
        .unwrap_or_default();
    let known = MESSAGES
        .iter()
        .find(|(words, _)| words.iter().any(|word| evalue.contains(word)));
    if let Some((_, hint)) = known {
        words.push_str(hint);
        words.push(' ');
    } else if live.fact.is_none()
        && let Some(hint) = generic(ename, evalue)
    {
        words.push_str(&hint);
        words.push(' ');
    }
    if let Some(variables) = live.variables.as_ref().filter(|it| !it.is_empty()) {
        words.push_str("Variables now:\n");
        words.push_str(variables);
        words.push('\n');
    }
    words.push_str("Write the corrected complete cell.");
    words
}

/// A hint from the error's type, if nothing else is known.
fn generic(ename: &str, evalue: &str) -> Option<String> {
    Some(match ename {
        "KeyError" if !evalue.starts_with(['\'', '"']) => {
            format!(
                "{evalue} is a row label, not a column: use df.loc[label, 'column'] or df.loc[label]['column']."
            )
        }
        "KeyError" => "This is not a column: use only the names there are.".to_owned(),
        "NameError" => {
            "This name is not defined: write the complete cell with imports and loading.".to_owned()
        }
        "AttributeError" => "This attribute does not exist: do it another way.".to_owned(),
        "SyntaxError" => "Fix the syntax.".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_more_than_the_name() {
        let near = "From the kernel: `df` has no column 'Rain'; near: 'rain'.";
        for (ename, evalue, fact, expected) in [
            (
                "KeyError",
                "'Rain'",
                None,
                "This is not a column: use only the names there are. Write the corrected complete cell.",
            ),
            (
                "KeyError",
                "'Rain'",
                Some(near),
                "From the kernel: `df` has no column 'Rain'; near: 'rain'. Write the corrected complete cell.",
            ),
            (
                "KeyError",
                "2020",
                None,
                "2020 is a row label, not a column: use df.loc[label, 'column'] or df.loc[label]['column']. Write the corrected complete cell.",
            ),
            (
                "AttributeError",
                "Can only use .dt accessor with datetimelike values",
                Some("From the kernel: 'day' is str, not dates."),
                "From the kernel: 'day' is str, not dates. Load that column as dates: pd.read_csv(..., parse_dates=['column']). Write the corrected complete cell.",
            ),
            (
                "ValueError",
                "odd",
                None,
                "Write the corrected complete cell.",
            ),
        ] {
            let live = Live {
                fact: fact.map(str::to_owned),
                variables: None,
            };
            assert_eq!(after_error(ename, evalue, &live), expected);
        }
    }
}
