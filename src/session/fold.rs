//! Text to the model, folded in a notebook: collapsed for readers and recoverable byte for byte.

const START: &str = "<details><summary>";
const TITLE_END: &str = "</summary>\n\n";
const END: &str = "\n\n</details>";

/// The text as a Markdown cell, collapsed under a title.
pub(super) fn fold(title: &str, words: &str) -> String {
    // The fence must be longer than any in the text.
    let mut longest = 2;
    let mut run = 0;
    for c in words.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{START}{title}{TITLE_END}{fence}text\n{words}\n{fence}{END}")
}

/// Recovers the text that [`fold`] wrote.
pub(super) fn unfold(source: &str) -> Option<String> {
    let (_, body) = source.strip_prefix(START)?.split_once(TITLE_END)?;
    let (fence, body) = body.strip_suffix(END)?.split_once("text\n")?;
    let words = body.strip_suffix(fence)?.strip_suffix('\n')?;
    let is_fence = fence.len() >= 3 && fence.chars().all(|c| c == '`');
    is_fence.then(|| words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_folded_comes_back() {
        for words in ["", "one\ntwo", "a fence:\n```text\nx\n```\n", "`````"] {
            let folded = fold("Note", words);
            assert_eq!(unfold(&folded).as_deref(), Some(words), "{folded}");
        }
        assert_eq!(unfold("text"), None);
        assert_eq!(
            fold("Note to the model", "x"),
            "<details><summary>Note to the model</summary>\n\n```text\nx\n```\n\n</details>"
        );
    }
}
