//! Shared by all languages: two walks over the syntax tree, and the strings that names refer to.

use std::collections::BTreeMap;

use tree_sitter::{Language, Node};

use super::finding::FindingKind;
use super::sink::Sink;
use super::tree::{Next, parse, walk};

/// Maximum bytes of all strings of one piece of code. A few lines can make each string as long as allowed.
const MOST_TEXT: usize = 4 << 20;

/// Reads the syntax tree of a piece of code.
pub(super) trait Reads<'s> {
    /// Records what a node says about names. All nodes are visited before the first call of `look`.
    fn learn(&mut self, node: Node<'_>);
    /// Analyses the effect of a node with the ancestors `above`.
    fn look<'t>(&mut self, node: Node<'t>, above: &[Node<'t>]) -> Next;
    /// Collects the findings.
    fn sink(&mut self) -> &mut Sink<'s>;
}

/// Parses `code` as `language` and passes its tree to `reader`; `what` names the language in findings.
pub(super) fn read<'s>(code: &str, language: &Language, what: &str, reader: &mut impl Reads<'s>) {
    if !reader.sink().may_read(code.len()) {
        return;
    }
    let Some(tree) = parse(code, language) else {
        let reason = "the code takes too long to parse";
        return reader.sink().unanalysed(reason);
    };
    let root = tree.root_node();
    let mut is_broken = false;
    let mut is_whole = walk(root, |node, _| {
        reader.learn(node);
        Next::Inside
    });
    is_whole &= walk(root, |node, above| {
        if !node.is_error() && !node.is_missing() {
            return reader.look(node, above);
        }
        if !is_broken {
            is_broken = true;
            let (kind, reason) = (
                FindingKind::Unparseable,
                format!("cannot be parsed as {what}"),
            );
            reader.sink().find_because(kind, node, code, &reason);
        }
        Next::Inside
    });
    if !is_whole {
        reader.sink().is_too_much();
    }
}

/// Strings of names that have only one; `None` for names with several, or with too much text.
#[derive(Debug, Default)]
pub(super) struct Texts<'c> {
    texts: BTreeMap<&'c str, Option<String>>,
    bytes: usize,
}

impl<'c> Texts<'c> {
    /// Adds a value of `name`; `None` if it is not a string.
    pub(super) fn set(&mut self, name: &'c str, text: Option<String>) {
        if self.texts.get(name).is_some_and(|before| *before == text) {
            return;
        }
        let is_first = !self.texts.contains_key(name);
        let bytes = self.bytes + text.as_ref().map_or(0, String::len);
        let text = text.filter(|_| is_first && bytes <= MOST_TEXT);
        self.bytes += text.as_ref().map_or(0, String::len);
        self.texts.insert(name, text);
    }

    /// Marks the name's value as computed.
    pub(super) fn forget(&mut self, name: &'c str) {
        self.texts.insert(name, None);
    }

    /// The name's string, if known.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.texts.get(name)?.clone()
    }

    /// Whether the name has any value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.texts.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_several_texts_has_none_and_all_of_them_are_bounded() {
        let mut texts = Texts::default();
        texts.set("a", Some("x".to_owned()));
        texts.set("a", Some("x".to_owned()));
        texts.set("b", Some("x".to_owned()));
        texts.set("b", Some("y".to_owned()));
        texts.set("b", Some("y".to_owned()));
        texts.set("c", Some("x".repeat(MOST_TEXT)));
        texts.set("d", Some("x".to_owned()));
        texts.forget("d");
        let known = ["a", "b", "c", "d", "e"].map(|name| (texts.has(name), texts.get(name)));
        let text = Some("x".to_owned());
        assert_eq!(
            known,
            [
                (true, text),
                (true, None),
                (true, None),
                (true, None),
                (false, None)
            ]
        );
    }
}
