//! Findings in Python cells, including IPython syntax.

mod api;
mod calls;
mod magics;
mod names;
mod values;

use tree_sitter::{Language, Node};

use super::finding::FindingKind;
use super::reading::{Reads, read};
use super::sink::{Sink, Writing};
use super::tree::{Next, code_of};
use super::{Dialect, nested, text};
use magics::{Magic, MagicKind};
pub use names::Names;
use values::Values;

/// Reads a cell and adds its imports to `names`.
pub(super) fn cell(code: &str, names: &mut Names, sink: &mut Sink<'_>) {
    let (plain, magics) = magics::split(code);
    for magic in magics {
        do_magic(magic, names, sink);
    }
    plain_python(&plain, names, sink);
}

fn do_magic(magic: Magic, names: &mut Names, sink: &mut Sink<'_>) {
    sink.below(magic.line, |sink| match magic.kind {
        MagicKind::Command(command) => {
            super::shell::escape(&command, sink);
        }
        MagicKind::Cell(language, body) | MagicKind::Line(language, body) => {
            match Dialect::of(&language) {
                Some(Dialect::Python) => {
                    if sink.depth < super::DEEPEST {
                        sink.depth += 1;
                        cell(&body, names, sink);
                        sink.depth -= 1;
                    } else {
                        sink.obfuscated("nests code too deeply");
                    }
                }
                Some(Dialect::Shell) => super::shell::escape(&body, sink),
                Some(dialect) => nested(&body, dialect, sink),
                None if body.trim().is_empty() => {}
                None => sink.unanalysed(&format!("code in {language} is not analysed")),
            }
        }
        MagicKind::Write(path) => sink.write_by_magic(&path, Writing::Replace),
        MagicKind::Run => sink.whole(FindingKind::Shell, "runs another file"),
        MagicKind::Call => sink.obfuscated("calls a function without parentheses"),
    });
}

fn plain_python(code: &str, names: &mut Names, sink: &mut Sink<'_>) {
    let language: Language = tree_sitter_python::LANGUAGE.into();
    let mut reader = Reader {
        code,
        values: Values::new(code, names),
        sink,
        covered: 0,
        no_text: None,
        handled: Vec::new(),
    };
    read(code, &language, "Python", &mut reader);
    names.take(reader.values.into_names());
}

/// Visits each node of a tree once.
struct Reader<'r, 's, 'c> {
    code: &'c str,
    values: Values<'c>,
    sink: &'r mut Sink<'s>,
    /// Strings before this byte were already read as part of a longer one.
    covered: usize,
    /// The node that begins here is not a string.
    no_text: Option<usize>,
    /// Nodes that a call has already handled.
    handled: Vec<usize>,
}

impl<'s> Reads<'s> for Reader<'_, 's, '_> {
    fn learn(&mut self, node: Node<'_>) {
        self.values.learn(node);
    }

    fn look<'t>(&mut self, node: Node<'t>, above: &[Node<'t>]) -> Next {
        match node.kind() {
            "import_statement" | "import_from_statement" | "future_import_statement" => {
                self.imported(node);
                return Next::Behind;
            }
            "call" => self.call(node),
            "exec_statement" => {
                let kind = FindingKind::Obfuscation;
                self.sink.find(kind, node, self.code);
            }
            "identifier" => self.reference(node, above),
            "attribute" => {
                let name = node.child_by_field_name("attribute");
                let name = name.map_or("", |name| code_of(name, self.code));
                if api::is_inside(name) {
                    let reason = "accesses Python internals";
                    self.sink
                        .find_because(FindingKind::Obfuscation, node, self.code, reason);
                }
                self.reference(node, above);
            }
            "subscript" => self.subscript(node),
            _ => {}
        }
        self.text(node);
        Next::Inside
    }

    fn sink(&mut self) -> &mut Sink<'s> {
        self.sink
    }
}

impl<'t> Reader<'_, '_, '_> {
    /// A string, or an expression that concatenates several.
    fn text(&mut self, node: Node<'t>) {
        let (start, kind) = (node.start_byte(), node.kind());
        let is_text = matches!(kind, "string" | "concatenated_string");
        let makes_text = matches!(kind, "binary_operator" | "call");
        // Parts of a concatenation were read with the whole.
        if start < self.covered
            || !is_text && !makes_text
            || makes_text && self.no_text == Some(start)
        {
            return;
        }
        match self.values.text(node).filter(|text| text != ".") {
            Some(text) => {
                self.sink.string(&text, node, self.code);
                self.covered = node.end_byte();
            }
            None => self.no_text = Some(start),
        }
    }

    /// Reports names with look-alike characters.
    fn is_disguised(&mut self, node: Node<'t>) -> bool {
        let is_disguised = text::is_disguised(code_of(node, self.code));
        if is_disguised {
            let reason = "spells a name with look-alike letters";
            self.sink
                .find_because(FindingKind::Obfuscation, node, self.code, reason);
        }
        is_disguised
    }
}
