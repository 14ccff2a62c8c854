//! Interprets a person's answer to `Run it?`.
//!
//! Only an answer that consists entirely of the usual words of consent runs code: "yes, but use polars" is a refusal
//! with a reason.

/// What an answer means.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Answer {
    /// Run it.
    Run,
    /// Run it, and do not ask again.
    Always,
    /// Change the code first.
    Edit,
    /// Do not run it.
    Decline,
    /// Have it explained first.
    Explain,
    /// List the possible answers.
    Help,
    /// Something else: a reason not to run it, or a command.
    Words,
    /// Ask again.
    Nothing,
}

/// Words of consent. A phrase comes before any shorter one that it begins with.
const CONSENT: &[&str] = &[
    "y",
    "yes",
    "yeah",
    "yep",
    "yup",
    "ya",
    "aye",
    "ok",
    "okay",
    "k",
    "kk",
    "sure thing",
    "sure",
    "fine by me",
    "fine",
    "good",
    "great",
    "perfect",
    "lgtm",
    "looks good to me",
    "looks good",
    "sounds good",
    "all right",
    "alright",
    "right",
    "correct",
    "of course",
    "certainly",
    "absolutely",
    "definitely",
    "proceed",
    "continue",
    "approved",
    "approve",
    "accept",
    "agreed",
    "go for it",
    "go ahead",
    "go on",
    "go",
    "do it",
    "do that",
    "do so",
    "please do",
    "run it",
    "run this",
    "run that",
    "run the code",
    "run",
    "execute it",
    "execute",
];

/// Words of refusal.
const REFUSAL: &[&str] = &[
    "n",
    "no way",
    "no",
    "nope",
    "nah",
    "never",
    "not now",
    "don't run it",
    "dont run it",
    "do not run it",
    "don't do it",
    "dont do it",
    "do not do it",
    "don't",
    "dont",
    "do not",
    "stop it",
    "stop",
    "cancel it",
    "cancel",
    "abort",
    "decline",
    "reject",
    "refuse",
    "skip it",
    "skip",
];

/// Words that mean neither.
const POLITE: &[&str] = &["please", "thank you", "thanks", "then", "now"];

/// What `line` means.
pub(super) fn meaning(line: &str) -> Answer {
    let line = line.trim().to_lowercase().replace('’', "'");
    match line.as_str() {
        "" => return Answer::Nothing,
        "?" | "explain" | "explain it" => return Answer::Explain,
        "h" => return Answer::Help,
        "q" | "quit" => return Answer::Decline,
        "a" | "always" | "yes always" | "always yes" => return Answer::Always,
        "e" | "edit" | "edit it" => return Answer::Edit,
        _ => {}
    }
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '.' | '!' | ';'))
        .filter(|word| !word.is_empty())
        .collect();
    if is_made_of(&words, CONSENT) {
        Answer::Run
    } else if is_made_of(&words, REFUSAL) {
        Answer::Decline
    } else {
        Answer::Words
    }
}

/// Whether `words` consist only of `phrases`, at least one, and polite words.
fn is_made_of(words: &[&str], phrases: &[&str]) -> bool {
    let mut rest = words;
    let mut found = false;
    while !rest.is_empty() {
        let after = |all: &[&str]| {
            let lengths = all.iter().filter_map(|phrase| {
                let phrase: Vec<&str> = phrase.split(' ').collect();
                rest.starts_with(&phrase).then_some(phrase.len())
            });
            lengths.max()
        };
        let length = match (after(phrases), after(POLITE)) {
            (Some(length), _) => {
                found = true;
                length
            }
            (None, Some(length)) => length,
            (None, None) => return false,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_consent_and_nothing_else_runs_code() {
        for (lines, expected) in [
            (
                "y|Y|yes|ok|OK|Okay.|yeah|Yes please|yes, please!|run it|sure|go ahead|Sure, go ahead.|ok run it now|\
                 yes thanks|looks good to me, run it",
                Answer::Run,
            ),
            ("a|Always", Answer::Always),
            ("e|edit", Answer::Edit),
            (
                "n|q|No|no thanks|nope|don't|don’t run it|Stop!|cancel|no, stop",
                Answer::Decline,
            ),
            ("?|explain", Answer::Explain),
            ("h", Answer::Help),
            ("  ", Answer::Nothing),
            (
                "yes but use polars|ok, only the first ten rows|no, use polars|sure?|yes no|please|run it on the other file|\
                 go away|not ok|okey dokey in France|run the tests|do it differently|yesterday|ok computer",
                Answer::Words,
            ),
        ] {
            for line in lines.split('|') {
                assert_eq!(meaning(line), expected, "{line}");
            }
        }
    }
}
