//! Finds fenced blocks by the rules of CommonMark: any fence length, backticks or tildes, in lists and quotes,
//! indented, unclosed. `pulldown-cmark` implements the rules; a block's code is sliced from the original text.
//!
//! Two departures. A line that begins with `<` does not open an HTML block, because fences inside one would be ignored,
//! and models write tags (`<details>`, `<tool_call>`) right above a fence. And a fence inside a multi-line string does
//! not end the block ([`Strings`]), because models write code that writes Markdown. Whether a fence is inside a string
//! is only certain once the string is closed; until then the block is reported only up to the fence. If the reply ends
//! before that, the fence ended the block.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::info;
use super::strings::Strings;

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// From the start of the opening fence to the end of the closing one, or to the end of the text.
    pub(super) range: Range<usize>,
    /// The info string.
    pub(super) info: String,
    /// The code, without the indentation or markers of a surrounding list or quote.
    pub(super) code: String,
    /// Whether the block has a closing fence.
    pub(super) closed: bool,
    /// Whether it is outside lists and quotes.
    pub(super) top: bool,
    /// Whether a possible end fence in an open string follows: what comes after may not be code.
    pub(super) in_doubt: bool,
}

/// Whether more text may arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Going,
    Over,
}

/// The fenced blocks of `text`, in order.
pub(super) fn scan(text: &str, reply: Reply) -> Vec<Block> {
    let Masked {
        text: masked,
        in_doubt,
    } = masked(text, reply);
    let mut blocks: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    let mut open = false;
    // End of the last line of code.
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
                    in_doubt: false,
                });
            }
            Event::Text(line) if open => {
                if let Some(block) = blocks.last_mut() {
                    // The parser may have rewritten tabs and line endings; everything else is sliced from the text.
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
                        // In an empty block the closing fence follows the opening line.
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
    if let Some(last) = blocks.last_mut() {
        last.in_doubt = in_doubt;
    }
    blocks
}

/// Text for the parser, of the reply's length or cut where nothing is certain.
struct Masked {
    text: String,
    in_doubt: bool,
}

/// The block around the current line.
struct Fence {
    mark: char,
    length: usize,
    strings: Strings,
    lines: usize,
    doubt: Option<Doubt>,
}

/// A fence in a string that may turn out not to be one.
struct Doubt {
    /// The fence's line number and its offset.
    line: usize,
    start: usize,
    /// The fence of a block inside the string, and whether it lacks an info string.
    open: Option<bool>,
    /// A fence with an info string appeared while one without was open, so the first fence was the end.
    contradicted: bool,
}

/// Replaces lines that must not count with plain text: lines that begin with `<`, and fences in strings.
fn masked(text: &str, reply: Reply) -> Masked {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut masked = String::with_capacity(text.len());
    let mut fence: Option<Fence> = None;
    // A doubtful fence that ended its block after all.
    let mut ends_at = None;
    let mut at = 0;
    loop {
        let Some(line) = lines.get(at) else {
            let Some(doubt) = fence.as_ref().and_then(|fence| fence.doubt.as_ref()) else {
                break;
            };
            masked.truncate(doubt.start);
            if reply == Reply::Going {
                return Masked {
                    text: masked,
                    in_doubt: true,
                };
            }
            (at, ends_at) = (doubt.line, Some(doubt.line));
            continue;
        };
        let start = line.len() - line.trim_start_matches([' ', '\t', '>']).len();
        let words = line.get(start..).unwrap_or_default().trim_end();
        let Some(open) = &mut fence else {
            fence = opened(words);
            push(&mut masked, line, start, words.starts_with('<'));
            at += 1;
            continue;
        };
        let length = words.chars().take_while(|c| *c == open.mark).count();
        let closes = length >= open.length && length == words.chars().count();
        if closes && (ends_at == Some(at) || !open.strings.is_open()) {
            fence = None;
            masked.push_str(line);
            at += 1;
            continue;
        }
        if open.strings.is_open() && length >= 3 {
            open.note_fence(closes, at, masked.len());
        }
        let code = line.trim_end_matches(['\r', '\n']);
        open.strings.take(code, open.lines == 0);
        open.lines += 1;
        push(&mut masked, line, start, words.starts_with('<') || closes);
        at += 1;
        if !open.strings.is_open()
            && let Some(doubt) = open.doubt.take()
            && doubt.contradicted
        {
            masked.truncate(doubt.start);
            (at, ends_at) = (doubt.line, Some(doubt.line));
        }
    }
    Masked {
        text: masked,
        in_doubt: false,
    }
}

impl Fence {
    /// Records a fence-like line in a string; `bare` if it could end the block.
    fn note_fence(&mut self, bare: bool, line: usize, start: usize) {
        // In languages with blocks of their own, no fence is doubtful.
        if matches!(self.strings, Strings::Text { .. }) || self.doubt.is_none() && !bare {
            return;
        }
        let doubt = self.doubt.get_or_insert(Doubt {
            line,
            start,
            open: None,
            contradicted: false,
        });
        match (doubt.open, bare) {
            (None, bare) => doubt.open = Some(bare),
            (Some(_), true) => doubt.open = None,
            (Some(true), false) => doubt.contradicted = true,
            (Some(false), false) => {}
        }
    }
}

/// The block that a line opens.
fn opened(words: &str) -> Option<Fence> {
    // The text after a list marker.
    let number = words.trim_start_matches(|c: char| c.is_ascii_digit());
    let item = if number.len() < words.len() {
        number.strip_prefix(['.', ')'])
    } else {
        words.strip_prefix(['-', '*', '+'])
    };
    let item = item
        .filter(|item| item.starts_with(' '))
        .unwrap_or(words)
        .trim_start();
    let mark = item.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = item.trim_start_matches(mark);
    let length = item.len() - info.len();
    let is_fence = length >= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then(|| Fence {
        mark,
        length,
        strings: Strings::of(&info::word(info.trim())),
        lines: 0,
        doubt: None,
    })
}

/// Appends a line; if `hidden`, replaces everything after its first `start` bytes with plain text.
fn push(masked: &mut String, line: &str, start: usize, hidden: bool) {
    if !hidden {
        masked.push_str(line);
        return;
    }
    let (before, rest) = line.split_at(start);
    let words = rest.trim_end_matches(['\r', '\n']);
    masked.push_str(before);
    masked.extend(std::iter::repeat_n('x', words.len()));
    masked.push_str(&rest[words.len()..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Info string, code, whether it is closed.
    fn blocks(text: &str) -> Vec<(String, String, bool)> {
        scan(text, Reply::Over)
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
            // A string containing backticks, not at the start of a line.
            (
                "```python\ns = \"```\"\nprint(s)\n```\n",
                vec![block("python", "s = \"```\"\nprint(s)\n", true)],
            ),
            // A longer closing fence closes the block; one followed by text does not.
            (
                "```\nx\n``` y\n`````\n",
                vec![block("", "x\n``` y\n", true)],
            ),
            // Indented by up to three spaces, which are removed from the code.
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
            // Tags above a fence do not hide it; tags inside a block are code.
            (
                "<details>\n```python\n<b> = 'é'\n```\n",
                vec![block("python", "<b> = 'é'\n", true)],
            ),
            // Code spans are not fences.
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
    fn a_fence_in_a_string_ends_no_block() {
        let cases = [
            // Fences in multi-line strings, including those of R and bash.
            (
                "```python\ns = \"\"\"\n```\nx\n```\n\"\"\"\nprint(s)\n```\n",
                vec![block(
                    "python",
                    "s = \"\"\"\n```\nx\n```\n\"\"\"\nprint(s)\n",
                    true,
                )],
            ),
            (
                "```python\ns = '''\n```python\nx\n```\n'''\n```\nend\n```r\ny\n```\n",
                vec![
                    block("python", "s = '''\n```python\nx\n```\n'''\n", true),
                    block("r", "y\n", true),
                ],
            ),
            (
                "```bash\ncat > a.md <<'EOF'\n```\nit's\n```\nEOF\n```\n",
                vec![block(
                    "bash",
                    "cat > a.md <<'EOF'\n```\nit's\n```\nEOF\n",
                    true,
                )],
            ),
            (
                "```r\nx <- \"\n```\n\"\n```\n",
                vec![block("r", "x <- \"\n```\n\"\n", true)],
            ),
            (
                "```python\n%%writefile a.md\n```python\nx\n```\nend\n```\nwords\n",
                vec![block(
                    "python",
                    "%%writefile a.md\n```python\nx\n```\nend\n",
                    true,
                )],
            ),
            (
                "```markdown\n```python\nx\n```\n```\nwords\n",
                vec![block("markdown", "```python\nx\n```\n", true)],
            ),
            // A string that is never closed does not hide the end, even if a later block has such quotes.
            (
                "```python\ns = \"\"\"x\n```\nwords\n",
                vec![block("python", "s = \"\"\"x\n", true)],
            ),
            (
                "```python\ns = \"\"\"x\n```\nAgain:\n```python\ns = \"\"\"x\"\"\"\n```\n",
                vec![
                    block("python", "s = \"\"\"x\n", true),
                    block("python", "s = \"\"\"x\"\"\"\n", true),
                ],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(blocks(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_block_is_known_by_its_place() {
        let text = "a\n\n  ```r\nx\n  ```\nb";
        let all = scan(text, Reply::Over);
        assert_eq!(all.len(), 1);
        assert_eq!(text[all[0].range.clone()].trim_end(), "```r\nx\n  ```");
        assert!(all[0].top);
        assert!(!scan("- a\n\n  ```r\n  x\n  ```\n", Reply::Over)[0].top);
    }
}
