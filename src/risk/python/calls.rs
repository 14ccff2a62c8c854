//! Calls in Python, and functions used as values without a call.

use tree_sitter::Node;

use super::api::{self, Api, Arg};
use super::{Names, Reader};
use crate::risk::finding::FindingKind;
use crate::risk::shell;
use crate::risk::sink::Writing;
use crate::risk::site::UNKNOWN;
use crate::risk::tree::{children, code_of};

/// Functions that may receive a module as an argument.
const HARMLESS: [&str; 10] = [
    "dir",
    "help",
    "type",
    "print",
    "hasattr",
    "getattr",
    "id",
    "vars",
    "isinstance",
    "importlib.reload",
];

impl<'t> Reader<'_, '_, '_> {
    fn find(&mut self, kind: FindingKind, node: Node<'t>, reason: &str) {
        self.sink.find_because(kind, node, self.code, reason);
    }

    /// `import x` is harmless; `values` tracks the names it binds. A renamed import is detected where it is used.
    pub(super) fn imported(&mut self, node: Node<'t>) {
        if code_of(node, self.code).is_ascii() {
            return;
        }
        for name in children(node) {
            if self.is_disguised(name) {
                return;
            }
        }
    }

    /// Handles a function call.
    pub(super) fn call(&mut self, node: Node<'t>) {
        let (Some(function), Some(arguments)) = (
            node.child_by_field_name("function"),
            node.child_by_field_name("arguments"),
        ) else {
            return;
        };
        let call = Call {
            node,
            function,
            arguments: children(arguments),
        };
        let name = self.values.name(function).unwrap_or_default();
        let first = name.split('.').next().unwrap_or_default();
        let is_own = self.values.is_own(first) && !api::SENSITIVE.contains(&first);
        let found = if is_own { None } else { api::function(&name) };
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_method = function.kind() == "attribute";
        let found = found.or_else(|| if is_method { api::method(last) } else { None });
        if let Some(api) = found {
            self.handled.push(function.id());
            self.does(api, &call);
            return;
        }
        match &*name {
            "getattr" | "vars().get" => self.looks_up(&call),
            "__import__" | "importlib.import_module" | "import_module" => {
                if call
                    .argument(0, &["name"], self.code)
                    .is_none_or(|it| self.values.text(it).is_none())
                {
                    self.find(
                        FindingKind::Obfuscation,
                        node,
                        "imports a module whose name is computed",
                    );
                }
            }
            _ => match last {
                "open" if is_method => self.opens(Arg::Receiver, &call),
                "rename" | "replace" if is_method => self.moves_receiver(&call),
                _ => {}
            },
        }
    }

    fn does(&mut self, api: Api, call: &Call<'t>) {
        let node = call.node;
        match api {
            Api::Delete(at) => {
                let path = self.path(at, call);
                self.sink.delete(path.as_deref(), node, self.code);
            }
            Api::Write(at, how) => {
                let path = self.path(at, call);
                self.sink.write(path.as_deref(), how, node, self.code);
            }
            Api::Open(at) => self.opens(at, call),
            Api::Move => {
                let from = self.path(Arg::At(0, &["src"]), call);
                let to = self.path(Arg::At(1, &["dst"]), call);
                self.sink
                    .moved(from.as_deref(), to.as_deref(), node, self.code);
            }
            Api::Command => self.command(call),
            Api::Run => self.runs(call),
            Api::Plain(kind) => self.sink.find(kind, node, self.code),
            Api::Secrets(file) => {
                let named = self.path(Arg::At(0, &["dotenv_path", "file"]), call);
                let named = named.filter(|_| !file.is_empty());
                let path = named.unwrap_or_else(|| file.to_owned());
                self.sink.credentials(&path, node, self.code);
            }
            Api::Reads => {
                let source = self.path(
                    Arg::At(0, &["filepath_or_buffer", "io", "source", "path"]),
                    call,
                );
                if source.is_some_and(|source| is_address(&source)) {
                    self.sink.find(FindingKind::Network, node, self.code);
                }
            }
            Api::Hides(reason) => self.find(FindingKind::Obfuscation, node, reason),
        }
    }

    fn path(&self, at: Arg, call: &Call<'t>) -> Option<String> {
        let node = match at {
            Arg::At(place, names) => call.argument(place, names, self.code),
            Arg::Receiver => call.function.child_by_field_name("object"),
        };
        self.values.text(node?)
    }

    /// `open` with a mode that writes.
    fn opens(&mut self, at: Arg, call: &Call<'t>) {
        let place = usize::from(at != Arg::Receiver);
        let mode = call.argument(place, &["mode"], self.code);
        let mode = mode
            .and_then(|mode| self.values.text(mode))
            .unwrap_or_default();
        let how = if mode.contains(['w', '+']) {
            Writing::Replace
        } else if mode.contains(['a', 'x']) {
            Writing::Append
        } else {
            return;
        };
        let path = self.path(at, call);
        self.sink.write(path.as_deref(), how, call.node, self.code);
    }

    /// `path.rename(to)`: strings and data frames have methods of the same name.
    fn moves_receiver(&mut self, call: &Call<'t>) {
        if call.arguments.len() != 1 || !self.is_path(call.function.child_by_field_name("object")) {
            return;
        }
        let from = self.path(Arg::Receiver, call);
        let to = self.path(Arg::At(0, &["target"]), call);
        self.sink
            .moved(from.as_deref(), to.as_deref(), call.node, self.code);
    }

    fn is_path(&self, node: Option<Node<'t>>) -> bool {
        node.is_some_and(|node| {
            let name = self.values.name(node).unwrap_or_default();
            name.starts_with("pathlib.")
                || name.starts_with("Path(")
                || node.kind() == "binary_operator"
        })
    }

    /// A shell command, or a program with its arguments.
    fn command(&mut self, call: &Call<'t>) {
        let Some(what) = call.argument(0, &["args", "command", "cmd"], self.code) else {
            return self.sink.find(FindingKind::Shell, call.node, self.code);
        };
        if matches!(what.kind(), "list" | "tuple") {
            let words: Vec<String> = children(what)
                .into_iter()
                .map(|word| self.word(word))
                .collect();
            let name = words.first().cloned().unwrap_or_default();
            self.sink
                .find_command(FindingKind::Shell, call.node, self.code, &name);
            let code = self.code;
            self.sink.within(call.node, code, |sink| {
                shell::words(&words, call.node, code, sink);
            });
            return;
        }
        match self.values.text(what) {
            Some(text) => {
                let name = text
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                self.sink
                    .find_command(FindingKind::Shell, call.node, self.code, &name);
                self.sink
                    .within(call.node, self.code, |sink| shell::inner(&text, sink));
            }
            None => self.sink.find(FindingKind::Shell, call.node, self.code),
        }
    }

    fn word(&self, node: Node<'t>) -> String {
        if self.values.name(node).as_deref() == Some("sys.executable") {
            return "python".to_owned();
        }
        self.values
            .text(node)
            .unwrap_or_else(|| UNKNOWN.to_string())
    }

    /// `exec`, `eval` and similar.
    fn runs(&mut self, call: &Call<'t>) {
        let name = self.values.name(call.function).unwrap_or_default();
        if let Some(rest) = name.strip_prefix("get_ipython().run_") {
            return self.magic(rest, call);
        }
        let Some(what) = call.argument(0, &["source", "stmt"], self.code) else {
            return;
        };
        match self
            .values
            .text(what)
            .filter(|text| !text.contains(UNKNOWN))
        {
            Some(text) => self.sink.within(call.node, self.code, |sink| {
                crate::risk::nested(&text, crate::risk::Dialect::Python, sink);
            }),
            None => self.find(
                FindingKind::Obfuscation,
                call.node,
                "runs code that is computed",
            ),
        }
    }

    /// `get_ipython().run_line_magic("pip", "install x")`.
    fn magic(&mut self, kind: &str, call: &Call<'t>) {
        let texts: Option<Vec<String>> = call
            .arguments
            .iter()
            .map(|it| self.values.text(*it).filter(|text| !text.contains(UNKNOWN)))
            .collect();
        let Some(texts) = texts else {
            return self.find(
                FindingKind::Obfuscation,
                call.node,
                "runs code that is computed",
            );
        };
        let code = match kind {
            "line_magic" => format!("%{}", texts.join(" ")),
            "cell_magic" => {
                let (head, body) = texts.split_at(texts.len().min(2));
                format!("%%{}\n{}", head.join(" "), body.join("\n"))
            }
            _ => texts.join("\n"),
        };
        self.sink.within(call.node, self.code, |sink| {
            if sink.depth < crate::risk::DEEPEST {
                sink.depth += 1;
                super::cell(&code, &mut Names::default(), sink);
                sink.depth -= 1;
            }
        });
    }

    /// `getattr(module, name)` with a computed name, on a module with harmful functions.
    fn looks_up(&mut self, call: &Call<'t>) {
        let (Some(object), Some(name)) = (call.arguments.first(), call.arguments.get(1)) else {
            return;
        };
        let Some(module) = self.values.name(*object) else {
            return;
        };
        match self
            .values
            .text(*name)
            .filter(|name| !name.contains(UNKNOWN))
        {
            None if is_sensitive(&module) => {
                self.find(
                    FindingKind::Obfuscation,
                    call.node,
                    "picks a function by a computed name",
                );
            }
            Some(_) | None => self.reference(call.node, &[]),
        }
    }

    /// `globals()[name]`, `os.__dict__[name]`.
    pub(super) fn subscript(&mut self, node: Node<'t>) {
        let (Some(value), Some(key)) = (
            node.child_by_field_name("value"),
            node.child_by_field_name("subscript"),
        ) else {
            return;
        };
        let Some(base) = self.values.name(value) else {
            return;
        };
        let module = base.strip_suffix(".__dict__");
        let is_table =
            matches!(&*base, "__builtins__" | "sys.modules") || module.is_some_and(is_sensitive);
        match self.values.text(key).filter(|key| !key.contains(UNKNOWN)) {
            None if is_table => {
                self.find(
                    FindingKind::Obfuscation,
                    node,
                    "picks a function by a computed name",
                );
            }
            Some(_) if is_table || base == "globals()" => self.reference(node, &[]),
            _ => {}
        }
    }

    /// A name used without a call: `map(os.remove, files)`.
    pub(super) fn reference(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        if node.kind() == "identifier" && self.is_disguised(node) {
            return;
        }
        if let Some(at) = self.handled.iter().position(|id| *id == node.id()) {
            self.handled.swap_remove(at);
            return;
        }
        let parent = above.last().map_or("", |above| above.kind());
        let is_field = |field| {
            let above = above.last();
            above.and_then(|above| above.child_by_field_name(field)) == Some(node)
        };
        let is_named = match parent {
            // The whole attribute is handled instead.
            "attribute" => true,
            "keyword_argument" => is_field("name"),
            "assignment" => is_field("left"),
            "function_definition"
            | "class_definition"
            | "parameters"
            | "default_parameter"
            | "typed_parameter"
            | "lambda_parameters"
            | "global_statement"
            | "type" => true,
            _ => false,
        };
        if is_named && !(parent == "default_parameter" && is_field("value")) {
            return;
        }
        let Some(name) = self.values.name(node) else {
            return;
        };
        let first = name.split('.').next().unwrap_or_default();
        if self.values.is_own(first) {
            return;
        }
        if is_sensitive(&name) {
            let is_alias = parent == "assignment" || parent == "named_expression";
            if !is_alias && self.is_handed_over(above) {
                self.find(FindingKind::Obfuscation, node, "hands a module around");
            }
            return;
        }
        // Classes and types are often named without being called.
        match api::function(&name) {
            Some(Api::Delete(_)) => self.sink.delete(None, node, self.code),
            Some(Api::Command) => self.sink.find(FindingKind::Shell, node, self.code),
            Some(Api::Run) if matches!(&*name, "exec" | "eval") => {
                self.find(FindingKind::Obfuscation, node, "runs code that is computed");
            }
            Some(Api::Plain(kind)) if kind != FindingKind::Network => {
                self.sink.find(kind, node, self.code);
            }
            Some(Api::Hides(reason)) => self.find(FindingKind::Obfuscation, node, reason),
            _ => {}
        }
    }

    /// Whether a module in there is passed to code that could call any of its functions.
    fn is_handed_over(&self, above: &[Node<'t>]) -> bool {
        let mut outwards = above.iter().rev();
        let Some(above) = outwards.next() else {
            return false;
        };
        match above.kind() {
            "argument_list"
            | "list"
            | "tuple"
            | "set"
            | "pair"
            | "return_statement"
            | "yield"
            | "conditional_expression"
            | "boolean_operator"
            | "expression_list" => {
                let call = outwards.next().filter(|it| it.kind() == "call");
                let function = call.and_then(|it| it.child_by_field_name("function"));
                let name = function
                    .and_then(|it| self.values.name(it))
                    .unwrap_or_default();
                above.kind() != "argument_list" || !HARMLESS.contains(&&*name)
            }
            _ => false,
        }
    }
}

fn is_sensitive(module: &str) -> bool {
    api::SENSITIVE.contains(&module)
}

/// Whether a path is a URL.
fn is_address(path: &str) -> bool {
    let schemes = [
        "http://", "https://", "ftp://", "s3://", "gs://", "gcs://", "az://", "abfs://",
    ];
    let path = path.trim_start().to_lowercase();
    schemes.iter().any(|scheme| path.contains(scheme))
}

/// The parts of a call.
struct Call<'t> {
    node: Node<'t>,
    function: Node<'t>,
    arguments: Vec<Node<'t>>,
}

impl<'t> Call<'t> {
    /// The argument at this position, or with one of these keywords.
    fn argument(&self, place: usize, names: &[&str], code: &str) -> Option<Node<'t>> {
        let by_place = self.arguments.get(place).filter(|it| {
            let before = self.arguments.iter().take(place + 1);
            let mut before = before.map(tree_sitter::Node::kind);
            before.all(|kind| kind != "keyword_argument" && kind != "dictionary_splat")
                && it.kind() != "list_splat"
        });
        let by_name = || {
            self.arguments.iter().find_map(|argument| {
                let name = argument.child_by_field_name("name")?;
                let value = argument.child_by_field_name("value")?;
                (argument.kind() == "keyword_argument" && names.contains(&code_of(name, code)))
                    .then_some(value)
            })
        };
        by_place.copied().or_else(by_name)
    }
}
