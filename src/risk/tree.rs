//! Bounded parsing, and walking a tree without recursion.

use std::ops::ControlFlow;

use tree_sitter::{Language, Node, ParseOptions, Parser, Tree};

/// Maximum progress reports by the parser, one every 100 steps: bounds the time for hostile code without a clock.
const MOST_REPORTS: u32 = 6_000;
/// Maximum after a syntax error: each further step of error recovery takes longer.
const MOST_REPORTS_BROKEN: u32 = 300;
/// Maximum nodes visited per tree.
const MOST_NODES: usize = 250_000;

/// Parses `code`; `None` if it takes too much work.
pub(super) fn parse(code: &str, language: &Language) -> Option<Tree> {
    if code.len() > super::LONGEST {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let (mut reports, mut broken) = (0, 0);
    let mut progress = |state: &tree_sitter::ParseState| {
        reports += 1;
        broken += u32::from(state.has_error());
        if reports > MOST_REPORTS || broken > MOST_REPORTS_BROKEN {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = code.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut read, None, Some(options))
}

/// Where to continue after a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// With its children.
    Inside,
    /// With its next sibling.
    Behind,
}

/// Visits each node with its ancestors, outer nodes first. Returns whether it reached the end.
pub(super) fn walk<'t>(
    root: Node<'t>,
    mut visit: impl FnMut(Node<'t>, &[Node<'t>]) -> Next,
) -> bool {
    let mut cursor = root.walk();
    let mut above: Vec<Node<'t>> = Vec::new();
    for _ in 0..MOST_NODES {
        let node = cursor.node();
        let goes_in = visit(node, &above) == Next::Inside;
        if goes_in && cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return true;
            }
            above.pop();
        }
    }
    false
}

/// The named children of `node`, without comments.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    let named = node.named_children(&mut cursor);
    named.filter(|child| child.kind() != "comment").collect()
}

/// The source code of a node.
pub(super) fn code_of<'c>(node: Node<'_>, code: &'c str) -> &'c str {
    code.get(node.byte_range()).unwrap_or_default()
}
