//! Colours for an error from a kernel that sends none: highlights the message, dims the call stack.

use super::{BAD, DIM, paint};

/// How lines with a location begin, in the languages of the kernels.
const PLACES: [&str; 5] = ["File \"", "at ", "Traceback ", "╵", "In "];

/// The text of the error `name`, coloured unless it has its own colours.
pub(super) fn coloured(text: &str, name: &str, colours: bool) -> String {
    if !colours || text.contains('\u{1b}') {
        return text.to_owned();
    }
    let style = |line: &str| {
        let begun = line.trim_start();
        if PLACES.iter().any(|place| begun.starts_with(place)) {
            return paint(DIM, line, true);
        }
        let says_what = !name.is_empty() && begun.starts_with(name) || begun.starts_with("Error");
        if says_what {
            return paint(BAD, line, true);
        }
        line.to_owned()
    };
    let lines: Vec<String> = text.split('\n').map(style).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::coloured;

    #[test]
    fn what_happened_stands_out() {
        let text = "Traceback (most recent call last):\n  File \"x.py\", line 1\n    1 / 0\nZeroDivisionError: division by zero";
        assert_eq!(
            coloured(text, "ZeroDivisionError", true),
            "\u{1b}[2mTraceback (most recent call last):\u{1b}[0m\n\u{1b}[2m  File \"x.py\", line 1\u{1b}[0m\n    1 / 0\n\
             \u{1b}[1m\u{1b}[31mZeroDivisionError: division by zero\u{1b}[0m"
        );
        let own = "\u{1b}[31mZeroDivisionError\u{1b}[0m: division by zero";
        assert_eq!(coloured(own, "ZeroDivisionError", true), own);
        assert_eq!(coloured(text, "ZeroDivisionError", false), text);
        assert_eq!(
            coloured("Error in f(): no", "", true),
            "\u{1b}[1m\u{1b}[31mError in f(): no\u{1b}[0m"
        );
    }
}
