//! Parsing within bounds, and walking a tree without recursion.

use std::ops::ControlFlow;

use tree_sitter::{Language, Node, ParseOptions, Parser, Tree};

/// How often the parser may report progress, which it does every 100 steps: hostile code keeps it busy, and no clock is
/// needed to say when it is enough.
const MOST_REPORTS: u32 = 6_000;
/// The same once it has met an error: looking for a way on takes it longer with each step.
const MOST_REPORTS_BROKEN: u32 = 300;
/// Nodes of one tree that are looked at.
const MOST_NODES: usize = 250_000;

/// The tree of `code`; `None` if that takes too much.
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

/// What comes after a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// What is in it.
    Inside,
    /// What is behind it.
    Behind,
}

/// Visits each node with those that it is in, outer ones first. Returns whether it came to the end.
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

/// The named nodes in `node`, without comments.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    let named = node.named_children(&mut cursor);
    named.filter(|child| child.kind() != "comment").collect()
}

/// Its code.
pub(super) fn code_of<'c>(node: Node<'_>, code: &'c str) -> &'c str {
    code.get(node.byte_range()).unwrap_or_default()
}
