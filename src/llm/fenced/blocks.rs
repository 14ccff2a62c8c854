//! The fenced blocks of a text, by the rules of CommonMark: any length of fence, backticks or tildes, in lists and
//! quotes, indented, unclosed. The rules are `pulldown-cmark`'s; a block's code is sliced from the text itself.
//!
//! One departure: lines that begin with `<` open no HTML block, for within one no fence counts, and models write tags
//! (`<details>`, `<tool_call>`) right above a fence.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// From its opening fence to the end of the closing one, or to where its text ends.
    pub(super) range: Range<usize>,
    /// What stands behind the opening fence.
    pub(super) info: String,
    /// The lines within, without what belongs to the list or quote around them.
    pub(super) code: String,
    /// Whether its closing fence is there.
    pub(super) closed: bool,
    /// Whether it stands in no list and no quote.
    pub(super) top: bool,
}

/// The fenced blocks of `text`, in order.
pub(super) fn scan(text: &str) -> Vec<Block> {
    let masked = without_tags(text);
    let mut blocks: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    let mut open = false;
    // Where the last line of code ends.
    let mut code_end = None;
    for (event, range) in Parser::new(&masked).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = true;
                code_end = None;
                blocks.push(Block {
                    range,
                    info: info.trim().to_owned(),
                    code: String::new(),
                    closed: false,
                    top: depth == 0,
                });
            }
            Event::Text(line) if open => {
                if let Some(block) = blocks.last_mut() {
                    // Tabs and line ends may have been rewritten; all else is taken from the text itself.
                    let exact = text
                        .get(range.clone())
                        .filter(|exact| exact.len() == line.len());
                    block.code.push_str(exact.unwrap_or(&line));
                    code_end = Some(range.end);
                }
            }
            Event::End(TagEnd::CodeBlock) if open => {
                open = false;
                if let Some(block) = blocks.last_mut() {
                    let rest = match code_end {
                        Some(end) => text.get(end..block.range.end),
                        // Without code the closing fence follows the opening line.
                        None => text
                            .get(block.range.clone())
                            .and_then(|all| all.split_once('\n'))
                            .map(|(_, rest)| rest),
                    };
                    block.closed =
                        rest.is_some_and(|rest| rest.contains("```") || rest.contains("~~~"));
                }
            }
            Event::Start(Tag::List(_) | Tag::BlockQuote(_)) => depth += 1,
            Event::End(TagEnd::List(_) | TagEnd::BlockQuote(_)) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    blocks
}

/// `text` with each line that begins with `<` made a line of words, as long as it was.
fn without_tags(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = line.len() - line.trim_start_matches([' ', '\t', '>']).len();
        let (before, rest) = line.split_at(start);
        masked.push_str(before);
        if rest.starts_with('<') {
            let words = rest.trim_end_matches(['\r', '\n']);
            masked.extend(std::iter::repeat_n('x', words.len()));
            masked.push_str(&rest[words.len()..]);
        } else {
            masked.push_str(rest);
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Info string, code, whether it is closed.
    fn blocks(text: &str) -> Vec<(String, String, bool)> {
        scan(text)
            .into_iter()
            .map(|block| (block.info, block.code, block.closed))
            .collect()
    }

    fn block(info: &str, code: &str, closed: bool) -> (String, String, bool) {
        (info.to_owned(), code.to_owned(), closed)
    }

    #[test]
    fn blocks_are_found_by_the_rules() {
        let cases = [
            (
                "```python\nx = 1\n```",
                vec![block("python", "x = 1\n", true)],
            ),
            (
                "a\n```\nx\n```\nb\n~~~ r\ny\n~~~\n",
                vec![block("", "x\n", true), block("r", "y\n", true)],
            ),
            // A longer fence holds a shorter one; tildes hold backticks.
            (
                "````md\n```python\nx\n```\n````\n",
                vec![block("md", "```python\nx\n```\n", true)],
            ),
            (
                "~~~python\ns = '''```'''\n~~~\n",
                vec![block("python", "s = '''```'''\n", true)],
            ),
            // A string with backticks in it, not at the start of a line.
            (
                "```python\ns = \"```\"\nprint(s)\n```\n",
                vec![block("python", "s = \"```\"\nprint(s)\n", true)],
            ),
            // A longer closing fence counts, one with words behind it does not.
            (
                "```\nx\n``` y\n`````\n",
                vec![block("", "x\n``` y\n", true)],
            ),
            // Indented by up to three; the code loses that much.
            (
                "   ```python\n   if x:\n       y\n   ```\n",
                vec![block("python", "if x:\n    y\n", true)],
            ),
            ("    ```python\n    x\n    ```\n", vec![]),
            // In lists and quotes.
            (
                "1. Load:\n   ```python\n   x = 1\n\n   y\n   ```\n2. b\n",
                vec![block("python", "x = 1\n\ny\n", true)],
            ),
            (
                "- ```python\n  x\n  ```\n",
                vec![block("python", "x\n", true)],
            ),
            (
                "> ```python\n> x\n> ```\n",
                vec![block("python", "x\n", true)],
            ),
            // Unclosed.
            ("```python\nx\n", vec![block("python", "x\n", false)]),
            ("```python\n", vec![block("python", "", false)]),
            ("```python\n```\n", vec![block("python", "", true)]),
            ("- ```python\n  x\nb\n", vec![block("python", "x\n", false)]),
            // Tags above a fence do not swallow it, tags within are code.
            (
                "<details>\n```python\n<b> = 'é'\n```\n",
                vec![block("python", "<b> = 'é'\n", true)],
            ),
            // Spans are not fences.
            ("`x` and ``` y ```\n", vec![]),
            (
                "```python\r\nx\r\n```\r\n",
                vec![block("python", "x\n", true)],
            ),
            (
                "```python\n\tx\n```\n",
                vec![block("python", "\tx\n", true)],
            ),
            (
                "```{python, echo=FALSE}\nx\n```",
                vec![block("{python, echo=FALSE}", "x\n", true)],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(blocks(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_block_is_known_by_its_place() {
        let text = "a\n\n  ```r\nx\n  ```\nb";
        let all = scan(text);
        assert_eq!(all.len(), 1);
        assert_eq!(text[all[0].range.clone()].trim_end(), "```r\nx\n  ```");
        assert!(all[0].top);
        assert!(!scan("- a\n\n  ```r\n  x\n  ```\n")[0].top);
    }
}
