//! Findings in JavaScript and TypeScript, as Node and Deno run them.

mod api;
mod values;

use std::collections::BTreeMap;

use tree_sitter::{Language, Node};

use super::finding::FindingKind;
use super::reading::{Reads, Texts, read};
use super::shell;
use super::sink::Sink;
use super::site::UNKNOWN;
use super::tree::{Next, children, code_of};
use super::{Dialect, nested};
use api::{Api, function, method};
use values::{module_name, plain};

/// A cell of JavaScript or TypeScript; the TypeScript grammar parses both.
pub(super) fn script(code: &str, sink: &mut Sink<'_>) {
    let language: Language = tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into();
    let mut reader = Reader {
        code,
        sink,
        names: BTreeMap::new(),
        texts: Texts::default(),
        covered: 0,
        handled: None,
    };
    read(code, &language, "JavaScript", &mut reader);
}

struct Reader<'r, 's, 'c> {
    code: &'c str,
    sink: &'r mut Sink<'s>,
    names: BTreeMap<&'c str, String>,
    texts: Texts<'c>,
    covered: usize,
    handled: Option<usize>,
}

impl<'s> Reads<'s> for Reader<'_, 's, '_> {
    fn learn(&mut self, node: Node<'_>) {
        self.take_in(node);
    }

    fn look<'t>(&mut self, node: Node<'t>, above: &[Node<'t>]) -> Next {
        self.visit(node, above);
        Next::Inside
    }

    fn sink(&mut self) -> &mut Sink<'s> {
        self.sink
    }
}

impl<'t, 'c> Reader<'_, '_, 'c> {
    fn of(&self, node: Node<'_>) -> &'c str {
        code_of(node, self.code)
    }

    fn take_in(&mut self, node: Node<'t>) {
        match node.kind() {
            "variable_declarator" => {
                if let (Some(name), Some(value)) = (
                    node.child_by_field_name("name"),
                    node.child_by_field_name("value"),
                ) {
                    self.bind(name, value);
                }
            }
            "assignment_expression" => {
                if let (Some(name), Some(value)) = (
                    node.child_by_field_name("left"),
                    node.child_by_field_name("right"),
                ) {
                    self.bind(name, value);
                }
            }
            "import_statement" => self.import(node),
            _ => {}
        }
    }

    fn bind(&mut self, name: Node<'t>, value: Node<'t>) {
        if name.kind() == "object_pattern" {
            let Some(module) = self.name(value, 0) else {
                return;
            };
            for part in children(name) {
                let (key, local) = match part.kind() {
                    "pair_pattern" => (
                        part.child_by_field_name("key"),
                        part.child_by_field_name("value"),
                    ),
                    _ => (Some(part), Some(part)),
                };
                if let (Some(key), Some(local)) = (key, local) {
                    let full = format!("{module}.{}", self.of(key));
                    self.names.insert(self.of(local), plain(&full));
                }
            }
            return;
        }
        if name.kind() != "identifier" {
            return;
        }
        let name = self.of(name);
        if let Some(full) = self.name(value, 0)
            && full != name
            && !full.ends_with("()")
        {
            self.names.insert(name, full);
        }
        let text = self.text(value, 0);
        self.texts.set(name, text);
    }

    /// `import fs, { rm as r } from "node:fs"`, `import * as cp from "child_process"`.
    fn import(&mut self, node: Node<'t>) {
        let source = node.child_by_field_name("source");
        let Some(module) = source.and_then(|it| self.text(it, 0)) else {
            return;
        };
        let module = module_name(&module).to_owned();
        let clause = children(node)
            .into_iter()
            .find(|it| it.kind() == "import_clause");
        for part in clause.map(children).unwrap_or_default() {
            match part.kind() {
                "identifier" => {
                    self.names.insert(self.of(part), module.clone());
                }
                "namespace_import" => {
                    if let Some(name) = part.named_child(0) {
                        self.names.insert(self.of(name), module.clone());
                    }
                }
                "named_imports" => {
                    for one in children(part) {
                        let Some(name) = one.child_by_field_name("name") else {
                            continue;
                        };
                        let local = one.child_by_field_name("alias").unwrap_or(name);
                        let full = format!("{module}.{}", self.of(name));
                        self.names.insert(self.of(local), plain(&full));
                    }
                }
                _ => {}
            }
        }
    }

    fn visit(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        match node.kind() {
            "import_statement" | "export_statement" => {
                self.fetched(node.child_by_field_name("source"), node);
            }
            "call_expression" | "new_expression" => self.call(node),
            "subscript_expression" => self.subscript(node),
            "identifier" | "member_expression" => self.reference(node, above),
            _ => {}
        }
        if node.start_byte() >= self.covered
            && matches!(
                node.kind(),
                "string" | "template_string" | "binary_expression" | "call_expression"
            )
            && let Some(text) = self.text(node, 0)
            && text != "."
        {
            self.sink.string(&text, node, self.code);
            self.covered = node.end_byte();
        }
    }

    /// A module from the network, or one that importing installs.
    fn fetched(&mut self, source: Option<Node<'t>>, node: Node<'t>) {
        let Some(module) = source.and_then(|it| self.text(it, 0)) else {
            return;
        };
        if module.starts_with("http://") || module.starts_with("https://") {
            self.sink.find(FindingKind::Network, node, self.code);
        } else if module.starts_with("npm:") || module.starts_with("jsr:") {
            self.sink.find(FindingKind::Install, node, self.code);
        }
    }

    fn call(&mut self, node: Node<'t>) {
        let function_node = node
            .child_by_field_name("function")
            .or_else(|| node.child_by_field_name("constructor"));
        let Some(callee) = function_node else { return };
        let Some(name) = self.name(callee, 0) else {
            return;
        };
        let list = node.child_by_field_name("arguments");
        let is_template = list.is_some_and(|it| it.kind() == "template_string");
        let arguments = match list {
            Some(template) if is_template => vec![template],
            Some(list) => children(list),
            None => Vec::new(),
        };
        if matches!(&*name, "require" | "import") {
            return self.requires(&arguments, node);
        }
        let own_name = name.rsplit('.').next().unwrap_or_default();
        let is_new = node.kind() == "new_expression";
        let found = function(&name, is_new, is_template).or_else(|| {
            if callee.kind() == "member_expression" {
                method(own_name)
            } else {
                None
            }
        });
        let Some(api) = found else { return };
        self.handled = Some(callee.id());
        self.does(api, &arguments, node);
    }

    fn does(&mut self, api: Api, arguments: &[Node<'t>], node: Node<'t>) {
        let code = self.code;
        let text = |at: usize| self.text(*arguments.get(at)?, 0);
        match api {
            Api::Delete => {
                let path = text(0);
                self.sink.delete(path.as_deref(), node, code);
            }
            Api::Write(at, how) => {
                let path = text(at);
                self.sink.write(path.as_deref(), how, node, code);
            }
            Api::Move => {
                let (from, to) = (text(0), text(1));
                self.sink.moved(from.as_deref(), to.as_deref(), node, code);
            }
            Api::Command => self.command(arguments, node),
            Api::Run => {
                // The function's body is the last argument.
                let what = arguments.last().map(|it| self.text(*it, 0));
                match what {
                    Some(Some(text)) if !text.contains(UNKNOWN) => {
                        self.sink
                            .within(node, code, |sink| nested(&text, Dialect::JavaScript, sink));
                    }
                    Some(_) => self.hides(node, "runs code that is computed"),
                    None => {}
                }
            }
            Api::Later => {
                // setTimeout("code")
                if let Some(text) = text(0) {
                    self.sink
                        .within(node, code, |sink| nested(&text, Dialect::JavaScript, sink));
                }
            }
            Api::Plain(kind) => self.sink.find(kind, node, code),
            Api::Hides(reason) => self.hides(node, reason),
        }
    }

    fn hides(&mut self, node: Node<'t>, reason: &str) {
        self.sink
            .find_because(FindingKind::Obfuscation, node, self.code, reason);
    }

    fn requires(&mut self, arguments: &[Node<'t>], node: Node<'t>) {
        let Some(first) = arguments.first() else {
            return;
        };
        match self.text(*first, 0).filter(|text| !text.contains(UNKNOWN)) {
            Some(_) => self.fetched(Some(*first), node),
            None => self.hides(node, "imports a module whose name is computed"),
        }
    }

    /// `execSync("rm -rf x")`, `spawn("rm", ["-rf", "x"])`, `new Deno.Command("rm", { args: [..] })`.
    fn command(&mut self, arguments: &[Node<'t>], node: Node<'t>) {
        let code = self.code;
        let Some(first) = arguments.first() else {
            return self.sink.find(FindingKind::Shell, node, code);
        };
        if first.kind() == "array" || first.kind() == "object" {
            let words = self.words(*first);
            self.sink.find_command(
                FindingKind::Shell,
                node,
                code,
                words.first().map_or("", |it| it),
            );
            return self
                .sink
                .within(node, code, |sink| shell::words(&words, node, code, sink));
        }
        let Some(program) = self.text(*first, 0) else {
            return self.sink.find(FindingKind::Shell, node, code);
        };
        let name = program.split_whitespace().next().unwrap_or_default();
        self.sink.find_command(FindingKind::Shell, node, code, name);
        let more = arguments
            .get(1)
            .map(|it| self.words(*it))
            .unwrap_or_default();
        if more.is_empty() {
            return self
                .sink
                .within(node, code, |sink| shell::inner(&program, sink));
        }
        let mut words = vec![program];
        words.extend(more);
        self.sink
            .within(node, code, |sink| shell::words(&words, node, code, sink));
    }

    /// The strings in a list, or in the `args` of an object.
    fn words(&self, node: Node<'t>) -> Vec<String> {
        match node.kind() {
            "array" => children(node)
                .into_iter()
                .map(|it| self.text(it, 0).unwrap_or_else(|| UNKNOWN.to_string()))
                .collect(),
            "object" => {
                let mut pairs = children(node).into_iter();
                let pair = pairs.find(|pair| {
                    let key = pair.child_by_field_name("key");
                    key.is_some_and(|key| matches!(self.of(key), "args" | "cmd"))
                });
                let value = pair.and_then(|pair| pair.child_by_field_name("value"));
                value
                    .filter(|value| value.kind() == "array")
                    .map(|value| self.words(value))
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// `globalThis[name]`, `fs[name](..)`.
    fn subscript(&mut self, node: Node<'t>) {
        let object = node
            .child_by_field_name("object")
            .and_then(|it| self.name(it, 0));
        let index = node.child_by_field_name("index");
        if self.handled.take_if(|id| *id == node.id()).is_some() {
            return;
        }
        let Some(object) = object else { return };
        if !api::SENSITIVE.contains(&&*object) {
            return;
        }
        let key = index.and_then(|it| self.text(it, 0));
        match key.filter(|key| !key.contains(UNKNOWN)) {
            None => self.hides(node, "picks a function by a computed name"),
            Some(_) => self.named(node),
        }
    }

    /// A function used as a value: `files.forEach(fs.unlinkSync)`.
    fn reference(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        if self.handled.take_if(|id| *id == node.id()).is_some() {
            return;
        }
        let parent = above.last().map_or("", |it| it.kind());
        let is_value = matches!(
            parent,
            "arguments"
                | "array"
                | "pair"
                | "assignment_expression"
                | "variable_declarator"
                | "return_statement"
                | "spread_element"
        );
        let is_name = above
            .last()
            .and_then(|it| it.child_by_field_name("name"))
            .is_some_and(|name| name == node);
        if is_value && !is_name {
            self.named(node);
        }
    }

    fn named(&mut self, node: Node<'t>) {
        let Some(name) = self.name(node, 0) else {
            return;
        };
        match function(&name, false, false) {
            Some(Api::Delete) => self.sink.delete(None, node, self.code),
            Some(Api::Command) => self.sink.find(FindingKind::Shell, node, self.code),
            Some(Api::Run) => self.hides(node, "runs code that is computed"),
            Some(Api::Hides(reason)) => self.hides(node, reason),
            _ => {}
        }
    }
}
