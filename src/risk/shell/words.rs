//! Expands shell words to the text that a program receives.

use tree_sitter::Node;

use crate::risk::reading::Texts;
use crate::risk::site::UNKNOWN;
use crate::risk::text::unescaped;
use crate::risk::tree::{children, code_of};

/// Maximum depth of a word.
const DEEPEST: u32 = 20;
/// Maximum bytes of a program's name; a longer one contains code.
const LONGEST_NAME: usize = 1024;

/// The words of one script.
pub(super) struct Words<'c> {
    code: &'c str,
    /// Values of variables that have only one.
    variables: Texts<'c>,
}

impl<'c> Words<'c> {
    pub(super) fn new(code: &'c str) -> Self {
        Self {
            code,
            variables: Texts::default(),
        }
    }

    /// Records what a statement says about variables.
    pub(super) fn learn(&mut self, node: Node<'_>) {
        let name = match node.kind() {
            "variable_assignment" => node.child_by_field_name("name"),
            "for_statement" => node.child_by_field_name("variable"),
            _ => return,
        };
        let Some(name) = name else { return };
        let name = code_of(name, self.code);
        let value = (node.kind() == "variable_assignment").then(|| {
            let value = node.child_by_field_name("value");
            value.map_or_else(String::new, |value| self.text(value))
        });
        self.variables.set(name, value);
    }

    /// The words that a command begins with: a variable can hold several.
    pub(super) fn name(&self, node: Node<'_>) -> Vec<String> {
        let code = code_of(node, self.code);
        if code.len() > LONGEST_NAME {
            return vec![UNKNOWN.to_string()];
        }
        let text = self.text(node);
        let is_odd =
            code.starts_with("$'") || code.contains(['*', '?', '[', '{']) && !code.contains("${");
        if is_odd && code != "[" && code != "[[" {
            return vec![UNKNOWN.to_string()];
        }
        if code.starts_with('$') {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            if !words.is_empty() {
                return words;
            }
        }
        vec![text]
    }

    /// The text of a word, with [`UNKNOWN`] for computed parts.
    pub(super) fn text(&self, node: Node<'_>) -> String {
        self.text_at(node, 0)
    }

    fn text_at(&self, node: Node<'_>, depth: u32) -> String {
        let code = code_of(node, self.code);
        let unknown = || UNKNOWN.to_string();
        if depth > DEEPEST {
            return unknown();
        }
        match node.kind() {
            "word"
            | "string_content"
            | "number"
            | "variable_name"
            | "special_variable_name"
            | "extglob_pattern"
            | "regex" => without_backslashes(code),
            "raw_string" => code.trim_matches('\'').to_owned(),
            "ansi_c_string" => {
                let inner = code.strip_prefix("$'").and_then(|it| it.strip_suffix('\''));
                unescaped(inner.unwrap_or_default())
            }
            "string" | "translated_string" => self.parts(node, depth),
            "concatenation" | "command_name" => {
                let parts = children(node).into_iter();
                parts.map(|part| self.text_at(part, depth + 1)).collect()
            }
            "simple_expansion" | "expansion" => {
                let parts = children(node);
                let [name] = parts.as_slice() else {
                    return unknown();
                };
                if node.kind() == "expansion"
                    && code != format!("${{{}}}", code_of(*name, self.code))
                {
                    return unknown();
                }
                self.variable(code_of(*name, self.code))
            }
            _ => unknown(),
        }
    }

    /// A string, including the text between its expansions.
    fn parts(&self, node: Node<'_>, depth: u32) -> String {
        let mut text = String::new();
        let mut at = node.start_byte();
        for part in children(node) {
            text.push_str(self.between(at, part.start_byte()));
            text.push_str(&self.text_at(part, depth + 1));
            at = part.end_byte();
        }
        text.push_str(self.between(at, node.end_byte()));
        text
    }

    fn between(&self, from: usize, to: usize) -> &str {
        let code = self.code.get(from..to).unwrap_or_default();
        code.trim_matches(['"', '$'])
    }

    fn variable(&self, name: &str) -> String {
        let is_known = self.variables.has(name);
        match name {
            "HOME" if !is_known => "~".to_owned(),
            "PWD" if !is_known => ".".to_owned(),
            _ => self
                .variables
                .get(name)
                .unwrap_or_else(|| UNKNOWN.to_string()),
        }
    }
}

fn without_backslashes(code: &str) -> String {
    let mut text = String::with_capacity(code.len());
    let mut rest = code.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some(c) => text.push(c),
            },
            c => text.push(c),
        }
    }
    text
}
