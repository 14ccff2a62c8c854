//! Findings in shell code: bash cells, `!commands`, and shell commands in other languages.

mod commands;
mod words;

use tree_sitter::{Language, Node};

use super::finding::FindingKind;
use super::reading::{Reads, read};
use super::sink::{Sink, Writing};
use super::tree::{Next, children, code_of};
use super::{Dialect, nested};
pub(super) use commands::words;
use words::Words;

/// A script, or a cell of bash.
pub(super) fn script(code: &str, sink: &mut Sink<'_>) {
    let language: Language = tree_sitter_bash::LANGUAGE.into();
    let mut reader = Reader {
        code,
        words: Words::new(code),
        sink,
    };
    read(code, &language, "a shell's code", &mut reader);
}

/// Shell code inside another language: a finding by itself, besides what it does.
pub(super) fn escape(code: &str, sink: &mut Sink<'_>) {
    if code.trim().is_empty() {
        return;
    }
    let name = code.split_whitespace().next().unwrap_or_default();
    sink.whole_command(FindingKind::Shell, name, code);
    inner(code, sink);
}

/// Shell code passed from another language.
pub(super) fn inner(code: &str, sink: &mut Sink<'_>) {
    // A computed part becomes a variable.
    let code = code.replace(super::site::UNKNOWN, "$__computed");
    nested(&code, Dialect::Shell, sink);
}

struct Reader<'r, 's, 'c> {
    code: &'c str,
    words: Words<'c>,
    sink: &'r mut Sink<'s>,
}

impl<'s> Reads<'s> for Reader<'_, 's, '_> {
    fn learn(&mut self, node: Node<'_>) {
        self.words.learn(node);
    }

    fn look<'t>(&mut self, node: Node<'t>, above: &[Node<'t>]) -> Next {
        match node.kind() {
            "command" => self.command(node, above),
            "file_redirect" => self.redirect(node),
            "pipeline" => self.pipeline(node),
            "word" | "string" | "raw_string" | "concatenation" | "ansi_c_string"
            | "simple_expansion" => {
                let is_part = above.last().is_some_and(|it| {
                    matches!(it.kind(), "concatenation" | "command_name" | "string")
                });
                if !is_part {
                    let text = self.words.text(node);
                    self.sink.string(&text, node, self.code);
                }
            }
            _ => {}
        }
        Next::Inside
    }

    fn sink(&mut self) -> &mut Sink<'s> {
        self.sink
    }
}

impl<'t> Reader<'_, '_, '_> {
    fn command(&mut self, node: Node<'t>, above: &[Node<'t>]) {
        let mut words = Vec::new();
        let mut heredoc = None;
        for part in children(node) {
            match part.kind() {
                "variable_assignment" | "file_redirect" => {}
                "herestring_redirect" | "heredoc_redirect" => heredoc = Some(part),
                "command_name" => words.extend(self.words.name(part)),
                _ => words.push(self.words.text(part)),
            }
        }
        if let Some(above) = above
            .last()
            .filter(|it| it.kind() == "redirected_statement")
        {
            let parts = children(*above).into_iter();
            let mut parts = parts;
            heredoc = heredoc.or_else(|| parts.rfind(|it| it.kind() == "heredoc_redirect"));
        }
        commands::words(&words, node, self.code, self.sink);
        if let Some(redirect) = heredoc {
            self.fed(&words, redirect);
        }
    }

    /// A program reads its code from `<<` or `<<<`.
    fn fed(&mut self, words: &[String], redirect: Node<'t>) {
        let Some(dialect) = commands::reads_code(words) else {
            return;
        };
        let parts = children(redirect);
        let body = parts.iter().find(|it| it.kind() == "heredoc_body");
        let (text, row) = if let Some(body) = body {
            (
                code_of(*body, self.code).to_owned(),
                body.start_position().row,
            )
        } else {
            let text = parts.last().map(|it| self.words.text(*it));
            (text.unwrap_or_default(), redirect.start_position().row)
        };
        self.sink.below(row, |sink| match dialect {
            Some(dialect) => nested(&text, dialect, sink),
            None => sink.unanalysed("code in another language is not analysed"),
        });
    }

    /// `> file`, `> /dev/tcp/host/80`.
    fn redirect(&mut self, node: Node<'t>) {
        let Some(target) = node.child_by_field_name("destination") else {
            return;
        };
        let path = self.words.text(target);
        if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
            self.sink.find(FindingKind::Network, node, self.code);
            return;
        }
        let operator = code_of(node, self.code).trim_start_matches(|c: char| c.is_ascii_digit());
        let how = if operator.starts_with(">>") || operator.starts_with("&>>") {
            Writing::Append
        } else if operator.starts_with('>') && !operator.starts_with(">&")
            || operator.starts_with("&>")
        {
            Writing::Replace
        } else {
            return;
        };
        self.sink.write(Some(&path), how, node, self.code);
    }

    /// `curl .. | sh`: the executed code is not visible.
    fn pipeline(&mut self, node: Node<'t>) {
        for part in children(node).into_iter().skip(1) {
            let mut part = part;
            while part.kind() == "redirected_statement" {
                let Some(body) = part.child_by_field_name("body") else {
                    break;
                };
                part = body;
            }
            if part.kind() != "command" {
                continue;
            }
            let mut words = Vec::new();
            for word in children(part) {
                match word.kind() {
                    "variable_assignment" => {}
                    "command_name" => words.extend(self.words.name(word)),
                    _ => words.push(self.words.text(word)),
                }
            }
            if commands::reads_code(&words).is_some() {
                let reason = "runs what another program writes";
                self.sink
                    .find_because(FindingKind::Obfuscation, node, self.code, reason);
            }
        }
    }
}
