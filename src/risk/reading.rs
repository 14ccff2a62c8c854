//! What reading code has in common, whatever the language: two walks of its tree, and texts that names stand for.

use std::collections::BTreeMap;

use tree_sitter::{Language, Node};

use super::finding::FindingKind;
use super::sink::Sink;
use super::tree::{Next, parse, walk};

/// Bytes of all texts that the names of one piece of code stand for. A few lines can make each as long as it gets.
const MOST_TEXT: usize = 4 << 20;

/// Reads the tree of a piece of code.
pub(super) trait Reads<'s> {
    /// Takes in what a node says about names. All nodes come here before the first one is looked at.
    fn learn(&mut self, node: Node<'_>);
    /// Looks at what a node does, which is in those `above`.
    fn look<'t>(&mut self, node: Node<'t>, above: &[Node<'t>]) -> Next;
    /// Where findings go.
    fn sink(&mut self) -> &mut Sink<'s>;
}

/// Has `reader` read `code` as `what`.
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

/// Texts of names that have only one; `None` of those that have several, or more than fits.
#[derive(Debug, Default)]
pub(super) struct Texts<'c> {
    texts: BTreeMap<&'c str, Option<String>>,
    bytes: usize,
}

impl<'c> Texts<'c> {
    /// One more thing that `name` stands for; `None` if that is no text.
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

    /// It stands for something that is computed.
    pub(super) fn forget(&mut self, name: &'c str) {
        self.texts.insert(name, None);
    }

    /// Its text, if that is known.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.texts.get(name)?.clone()
    }

    /// Whether it stands for anything at all.
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
