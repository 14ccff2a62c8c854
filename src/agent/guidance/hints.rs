//! What an error of the usual libraries mostly means, in a sentence for a small model.

/// Words of an error's message, and what to do about them. The first that fits is said.
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
        "This module is not installed: do it with those that are, such as pandas and matplotlib.",
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

/// What to say after a cell failed.
pub(super) fn after_error(ename: &str, evalue: &str, variables: Option<&str>) -> String {
    let known = MESSAGES
        .iter()
        .find(|(words, _)| words.iter().any(|word| evalue.contains(word)))
        .map(|(_, hint)| (*hint).to_owned());
    let hint = known.or_else(|| {
        Some(match ename {
            "KeyError" if !evalue.starts_with(['\'', '"']) => {
                format!("{evalue} is a row label, not a column: use df.loc[label, 'column'] or df.loc[label]['column'].")
            }
            "KeyError" => "This is not a column: use only the names there are.".to_owned(),
            "NameError" => "This name is not defined: write the complete cell with imports and loading.".to_owned(),
            "AttributeError" => "This attribute does not exist: do it another way.".to_owned(),
            "SyntaxError" => "Fix the syntax.".to_owned(),
            _ => return None,
        })
    });
    let mut words = hint.map(|hint| format!("{hint} ")).unwrap_or_default();
    if let Some(variables) = variables.filter(|variables| !variables.is_empty()) {
        words.push_str("Variables now:\n");
        words.push_str(variables);
        words.push('\n');
    }
    words.push_str("Write the corrected complete cell.");
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_more_than_the_name() {
        for (ename, evalue, expected) in [
            (
                "KeyError",
                "'Rain'",
                "This is not a column: use only the names there are. Write the corrected complete cell.",
            ),
            (
                "KeyError",
                "2020",
                "2020 is a row label, not a column: use df.loc[label, 'column'] or df.loc[label]['column']. Write the corrected complete cell.",
            ),
            (
                "AttributeError",
                "Can only use .dt accessor with datetimelike values",
                "Load that column as dates: pd.read_csv(..., parse_dates=['column']). Write the corrected complete cell.",
            ),
            ("ValueError", "odd", "Write the corrected complete cell."),
        ] {
            assert_eq!(after_error(ename, evalue, None), expected);
        }
    }
}
