//! What a person reads when the conversation was compacted for the model.

use std::fmt::Write as _;

use crate::agent::EventKind;

/// How much shorter the conversation is now, what the model no longer reads, and what it keeps.
pub(super) fn words(event: &EventKind) -> Option<String> {
    let EventKind::Compacted {
        tokens_before,
        tokens_after,
        window,
        summary_by,
        cells,
        pictures,
        words,
        shortened,
        files,
        variables,
    } = event
    else {
        return None;
    };
    let mut text = format!(
        "compacted: {} -> {} tokens",
        grouped(*tokens_before),
        grouped(*tokens_after)
    );
    if let Some(window) = window {
        let _ = write!(text, " of {}", grouped(*window));
    }
    text.push_str(". ");
    let pictures = match pictures {
        0 => String::new(),
        n => format!(" and {}", counted(*n, "picture")),
    };
    match summary_by.as_deref() {
        None => {
            let _ = write!(
                text,
                "The model no longer gets the outputs{pictures} of the first {}.",
                counted(*cells, "cell")
            );
        }
        Some(by) => {
            let by = if by == "model" { "the model" } else { "rules" };
            let _ = write!(
                text,
                "A summary by {by} stands for the first {}{pictures}; it has {} of yours word for word",
                counted(*cells, "cell"),
                counted(*words, "message"),
            );
            if *shortened > 0 {
                let _ = write!(text, ", {shortened} shortened");
            }
            if *files > 0 {
                let _ = write!(text, " and {} written", counted(*files, "file"));
            }
            text.push('.');
        }
    }
    if *variables > 0 {
        let _ = write!(
            text,
            " The model was told of {} in the kernel.",
            counted(*variables, "variable")
        );
    }
    text.push_str(" The notebook keeps everything.");
    Some(text)
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_what_was_kept() {
        let event = |summary_by: Option<&str>, pictures, variables| EventKind::Compacted {
            tokens_before: 13_210,
            tokens_after: 950,
            window: Some(16_384),
            summary_by: summary_by.map(str::to_owned),
            cells: 41,
            pictures,
            words: 1,
            shortened: usize::from(pictures == 0),
            files: 2,
            variables,
        };
        assert_eq!(
            words(&event(Some("model"), 3, 12)).as_deref(),
            Some(
                "compacted: 13,210 -> 950 tokens of 16,384. A summary by the model stands for the first 41 cells and \
                 3 pictures; it has 1 message of yours word for word and 2 files written. The model was told of 12 \
                 variables in the kernel. The notebook keeps everything."
            )
        );
        assert_eq!(
            words(&event(Some("rules"), 0, 0)).as_deref(),
            Some(
                "compacted: 13,210 -> 950 tokens of 16,384. A summary by rules stands for the first 41 cells; it has 1 \
                 message of yours word for word, 1 shortened and 2 files written. The notebook keeps everything."
            )
        );
        assert_eq!(
            words(&event(None, 0, 0)).as_deref(),
            Some(
                "compacted: 13,210 -> 950 tokens of 16,384. The model no longer gets the outputs of the first 41 \
                 cells. The notebook keeps everything."
            )
        );
        assert_eq!(words(&EventKind::StepStarted { step: 1 }), None);
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (7, "7"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
