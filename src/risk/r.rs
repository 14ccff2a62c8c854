//! Findings in R code.

use std::collections::BTreeMap;

use tree_sitter::{Language, Node};

use super::finding::FindingKind;
use super::reading::{Reads, Texts, read};
use super::shell;
use super::sink::{Sink, Writing};
use super::site::{MADE_UP, UNKNOWN, join};
use super::text::unescaped;
use super::tree::{Next, children, code_of};
use super::{Dialect, nested};

/// Maximum depth of an expression.
const DEEPEST: u32 = 40;

/// A cell of R.
pub(super) fn script(code: &str, sink: &mut Sink<'_>) {
    let language: Language = tree_sitter_r::LANGUAGE.into();
    let mut reader = Reader {
        code,
        sink,
        names: BTreeMap::new(),
        texts: Texts::default(),
        covered: 0,
        handled: None,
    };
    read(code, &language, "R", &mut reader);
}

struct Reader<'r, 's, 'c> {
    code: &'c str,
    sink: &'r mut Sink<'s>,
    /// What the code's own names refer to.
    names: BTreeMap<&'c str, String>,
    texts: Texts<'c>,
    covered: usize,
    /// The function of the call visited last.
    handled: Option<usize>,
}

/// The effect of a function.
enum Api {
    Delete,
    /// It writes to the path in this argument, by position or name.
    Write(usize, &'static str),
    /// An effect that does not depend on arguments.
    Plain(FindingKind),
    Command,
    Run,
    /// Its first argument is a function, given by name.
    Calls,
    Reads,
    Moves,
    Hides(&'static str),
}

fn function(name: &str) -> Option<Api> {
    use FindingKind::{Install, Network, ProcessControl, Shell};
    Some(match name {
        "unlink" | "file.remove" | "file_delete" | "dir_delete" | "link_delete" | "shell.rm" => {
            Api::Delete
        }
        "write.csv" | "write.csv2" | "write.table" | "writeLines" | "saveRDS" | "write_csv"
        | "write_tsv" | "write_delim" | "write_rds" | "fwrite" | "write_parquet"
        | "write_feather" | "dput" | "write.xlsx" | "write_xlsx" | "write_json" | "saveWidget"
        | "write" => Api::Write(1, "file"),
        "save" | "save.image" | "dump" | "sink" | "cat" => Api::Write(usize::MAX, "file"),
        "ggsave" | "png" | "jpeg" | "pdf" | "svg" | "tiff" | "bmp" => Api::Write(0, "filename"),
        "file.create" | "zip" => Api::Write(0, "file"),
        "file.copy" | "file_copy" => Api::Write(1, "to"),
        "file.rename" | "file_move" => Api::Moves,
        "download.file" | "download_file" | "url" | "curl" | "curl_download"
        | "curl_fetch_memory" | "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "getURL"
        | "postForm" | "request" | "req_perform" | "socketConnection" | "make.socket"
        | "socketSelect" | "serverSocket" | "nsl" | "browseURL" | "dbConnect" | "getSymbols"
        | "available.packages" => Api::Plain(Network),
        "read.csv" | "read.csv2" | "read.table" | "read.delim" | "readLines" | "read_csv"
        | "read_tsv" | "read_delim" | "fread" | "fromJSON" | "readRDS" | "read_json" | "scan"
        | "load" | "read_html" | "read_parquet" | "source" | "file" => Api::Reads,
        "system" | "shell" | "pipe" => Api::Command,
        "system2" | "shell.exec" | "execute" | "processx_run" | "Sys.chmod" => Api::Plain(Shell),
        "install.packages" | "install_github" | "install_cran" | "install_local"
        | "install_version" | "install_url" | "install_git" | "pkg_install" | "p_load"
        | "update.packages" | "remove.packages" | "install_bioc" | "py_install"
        | "conda_install" | "virtualenv_install" | "restore_packages" => Api::Plain(Install),
        "pskill" | "pskill_tree" | "ps_kill" => Api::Plain(ProcessControl),
        "eval" | "evalq" | "eval_tidy" | "py_run_string" | "eval_bare" => Api::Run,
        "do.call" | "match.fun" | "get" | "getFunction" | "getExportedValue"
        | "getFromNamespace" | "Reduce" | "exec" => Api::Calls,
        ".Internal" | ".Call" | ".External" | ".C" | ".Primitive" | "dyn.load" | "sourceCpp"
        | "cppFunction" => Api::Hides("calls machine code"),
        "unserialize" | "str2lang" | "str2expression" => Api::Hides("runs code that is computed"),
        _ => return None,
    })
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
        if node.kind() != "binary_operator" {
            return;
        }
        let (Some(left), Some(right), Some(operator)) = (
            node.child_by_field_name("lhs"),
            node.child_by_field_name("rhs"),
            node.child_by_field_name("operator"),
        ) else {
            return;
        };
        let (name, value) = match self.of(operator) {
            "<-" | "<<-" | "=" | ":=" => (left, right),
            "->" | "->>" => (right, left),
            _ => return,
        };
        if name.kind() != "identifier" {
            return;
        }
        let name = self.of(name);
        if let Some(full) = self.name(value)
            && function(&full).is_some()
        {
            self.names.insert(name, full);
        }
        let text = self.text(value, 0);
        self.texts.set(name, text);
    }

    /// A function's name, without its package.
    fn name(&self, node: Node<'_>) -> Option<String> {
        match node.kind() {
            "identifier" => {
                let name = self.of(node).trim_matches('`');
                Some(self.names.get(name).map_or(name, String::as_str).to_owned())
            }
            "namespace_operator" => {
                let name = self.of(node.child_by_field_name("rhs")?);
                let package = self.of(node.child_by_field_name("lhs")?);
                Some(if (package, name) == ("processx", "run") {
                    "processx_run".to_owned()
                } else if matches!(package, "renv" | "BiocManager")
                    && matches!(name, "restore" | "install")
                {
                    "restore_packages".to_owned()
                } else {
                    name.trim_matches('`').to_owned()
                })
            }
            // "unlink"("x") calls it as well.
            "string" => self.text(node, 0),
            "parenthesized_expression" => self.name(node.named_child(0)?),
            _ => None,
        }
    }

    fn text(&self, node: Node<'_>, depth: u32) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        match node.kind() {
            "string" => {
                let code = self.of(node);
                if let Some(raw) = code.strip_prefix(['r', 'R']) {
                    let raw = raw.trim_matches(['"', '\'', '-']);
                    return Some(raw.trim_matches(['(', ')', '[', ']', '{', '}']).to_owned());
                }
                let inner = code.get(1..code.len().saturating_sub(1))?;
                Some(unescaped(inner))
            }
            "parenthesized_expression" => self.text(node.named_child(0)?, depth + 1),
            "identifier" => self.texts.get(self.of(node)),
            "call" => {
                let name = self.name(node.child_by_field_name("function")?)?;
                let parts = || {
                    let values = self.arguments(node).into_iter();
                    let values = values.filter(|(name, _)| name.is_empty());
                    let texts = values.map(|(_, value)| {
                        self.text(value, depth + 1)
                            .unwrap_or_else(|| UNKNOWN.to_string())
                    });
                    texts.collect::<Vec<String>>()
                };
                match &*name {
                    "file.path" | "path" => {
                        Some(parts().iter().fold(String::new(), |a, b| join(&a, b)))
                    }
                    "paste0" => Some(parts().concat()),
                    "paste" => Some(parts().join(" ")),
                    "sprintf" => Some(UNKNOWN.to_string()),
                    "path.expand" | "normalizePath" | "as.character" => parts().into_iter().next(),
                    "tempfile" | "tempdir" => Some(format!("/tmp/{MADE_UP}")),
                    "getwd" => Some(".".to_owned()),
                    "Sys.getenv" if parts().first().is_some_and(|it| it == "HOME") => {
                        Some("~".to_owned())
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The arguments of a call, with their names.
    fn arguments(&self, call: Node<'t>) -> Vec<(&'c str, Node<'t>)> {
        let Some(list) = call.child_by_field_name("arguments") else {
            return Vec::new();
        };
        let arguments = children(list).into_iter();
        let arguments = arguments.filter(|it| it.kind() == "argument");
        arguments
            .filter_map(|argument| {
                let name = argument.child_by_field_name("name");
                let value = argument.child_by_field_name("value")?;
                Some((name.map_or("", |name| self.of(name)), value))
            })
            .collect()
    }

    fn visit(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        match node.kind() {
            "call" => self.call(node, above),
            "identifier" => self.reference(node, above),
            _ => {}
        }
        if node.start_byte() >= self.covered
            && matches!(node.kind(), "string" | "call")
            && let Some(text) = self.text(node, 0)
            && !text.is_empty()
        {
            self.sink.string(&text, node, self.code);
            self.covered = node.end_byte();
        }
    }

    fn call(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        let Some(callee) = node.child_by_field_name("function") else {
            return;
        };
        let Some(name) = self.name(callee) else {
            // get("unlink")("x"), (function() ..)()
            return;
        };
        let Some(api) = function(&name) else { return };
        self.handled = Some(callee.id());
        let mut arguments = self.arguments(node);
        // x |> f(y)
        if let Some(pipe) = above.last().filter(|it| it.kind() == "binary_operator")
            && pipe.child_by_field_name("rhs") == Some(node)
            && let Some(operator) = pipe.child_by_field_name("operator")
            && matches!(self.of(operator), "|>" | "%>%")
            && let Some(first) = pipe.child_by_field_name("lhs")
        {
            arguments.insert(0, ("", first));
        }
        let plain: Vec<Node<'t>> = arguments
            .iter()
            .filter(|(name, _)| name.is_empty())
            .map(|(_, value)| *value)
            .collect();
        let named = |wanted: &str| {
            let mut all = arguments.iter();
            all.find(|(name, _)| *name == wanted)
                .map(|(_, value)| *value)
        };
        let code = self.code;
        match api {
            Api::Delete => {
                let what = plain.first().copied().or_else(|| named("x"));
                let path = what.and_then(|it| self.text(it, 0));
                self.sink.delete(path.as_deref(), node, code);
            }
            Api::Write(place, by) => {
                let what = named(by)
                    .or_else(|| named("path"))
                    .or_else(|| named("con"))
                    .or_else(|| plain.get(place).copied());
                let appends = named("append").is_some_and(|it| matches!(self.of(it), "TRUE" | "T"));
                let how = if appends {
                    Writing::Append
                } else {
                    Writing::Replace
                };
                let path = what.and_then(|it| self.text(it, 0));
                self.sink.write(path.as_deref(), how, node, code);
            }
            Api::Moves => {
                let text = |at: usize| self.text(*plain.get(at)?, 0);
                let (from, to) = (text(0), text(1));
                self.sink.moved(from.as_deref(), to.as_deref(), node, code);
            }
            Api::Plain(kind) => self.sink.find(kind, node, code),
            Api::Command => {
                let what = plain.first().copied().or_else(|| named("command"));
                match what.and_then(|it| self.text(it, 0)) {
                    Some(text) => {
                        let command = text.split_whitespace().next().unwrap_or_default();
                        self.sink
                            .find_command(FindingKind::Shell, node, code, command);
                        self.sink
                            .within(node, code, |sink| shell::inner(&text, sink));
                    }
                    None => self.sink.find(FindingKind::Shell, node, code),
                }
            }
            Api::Run => self.runs(&name, &plain, node),
            Api::Calls => {
                let Some(what) = plain.first().copied().or_else(|| named("what")) else {
                    return;
                };
                // A string is looked up as a function's name; other expressions are functions themselves.
                if let Some(text) = self.text(what, 0).filter(|text| !text.contains(UNKNOWN)) {
                    self.called_by_name(&text, node);
                } else if what.kind() == "call" {
                    self.hides(node, "picks a function by a computed name");
                }
            }
            Api::Reads => {
                let path = plain.first().and_then(|it| self.text(*it, 0));
                let path = path.unwrap_or_default();
                if path.contains("://") && !path.starts_with("file://") {
                    self.sink.find(FindingKind::Network, node, code);
                }
                let opens = plain.get(1).and_then(|it| self.text(*it, 0));
                if name == "file" && opens.is_some_and(|mode| mode.contains('w')) {
                    self.sink.write(Some(&path), Writing::Replace, node, code);
                }
            }
            Api::Hides(reason) => self.hides(node, reason),
        }
    }

    /// `eval(parse(text = ".."))`.
    fn runs(&mut self, name: &str, plain: &[Node<'t>], node: Node<'t>) {
        let code = self.code;
        let Some(what) = plain.first() else { return };
        let reason = "runs code that is computed";
        if name == "py_run_string" {
            match self.text(*what, 0) {
                Some(text) => self
                    .sink
                    .within(node, code, |sink| nested(&text, Dialect::Python, sink)),
                None => self.hides(node, reason),
            }
            return;
        }
        if what.kind() != "call" {
            // A formula or quoted expression from the code itself.
            return;
        }
        let parser = what
            .child_by_field_name("function")
            .and_then(|it| self.name(it));
        if !matches!(parser.as_deref(), Some("parse" | "parse_expr" | "str2lang")) {
            return;
        }
        let arguments = self.arguments(*what);
        let text = arguments
            .iter()
            .find(|(name, _)| *name == "text")
            .or_else(|| arguments.first())
            .and_then(|(_, value)| self.text(*value, 0))
            .filter(|text| !text.contains(UNKNOWN));
        match text {
            Some(text) => self
                .sink
                .within(node, code, |sink| nested(&text, Dialect::R, sink)),
            None => self.hides(node, reason),
        }
    }

    fn hides(&mut self, node: Node<'t>, reason: &str) {
        self.sink
            .find_because(FindingKind::Obfuscation, node, self.code, reason);
    }

    /// A function given as a string.
    fn called_by_name(&mut self, name: &str, node: Node<'t>) {
        match function(name) {
            Some(Api::Delete) => self.sink.delete(None, node, self.code),
            Some(Api::Command) => self.sink.find(FindingKind::Shell, node, self.code),
            Some(Api::Plain(kind)) => self.sink.find(kind, node, self.code),
            Some(Api::Hides(reason)) => self.hides(node, reason),
            _ => {}
        }
    }

    /// `sapply(files, unlink)`.
    fn reference(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        if self.handled.take_if(|id| *id == node.id()).is_some() {
            return;
        }
        let Some(parent) = above.last() else { return };
        let is_value = parent.kind() == "argument"
            && parent.child_by_field_name("value") == Some(node)
            || parent.kind() == "binary_operator"
                && parent.child_by_field_name("rhs") == Some(node);
        if !is_value {
            return;
        }
        let name = self.of(node);
        // Words that are as often variables: `file`, `save`, `path`.
        if matches!(
            name,
            "unlink" | "file.remove" | "file_delete" | "system" | "system2" | "install.packages"
        ) {
            self.called_by_name(name, node);
        }
    }
}
