//! Resolves JavaScript expressions to dotted function names and to strings.

use tree_sitter::Node;

use super::Reader;
use crate::risk::site::{UNKNOWN, join};
use crate::risk::text::unescaped;
use crate::risk::tree::children;

/// Maximum depth of an expression.
const DEEPEST: u32 = 40;

impl Reader<'_, '_, '_> {
    /// The dotted name that `node` refers to.
    pub(super) fn name(&self, node: Node<'_>, depth: u32) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        let name = match node.kind() {
            "identifier" => {
                let name = self.of(node);
                self.names.get(name).map_or(name, String::as_str).to_owned()
            }
            "member_expression" => {
                let object = self.name(node.child_by_field_name("object")?, depth + 1);
                let property = self.of(node.child_by_field_name("property")?);
                format!("{}.{property}", object.as_deref().unwrap_or("?"))
            }
            "subscript_expression" => {
                let object = self.name(node.child_by_field_name("object")?, depth + 1)?;
                let key = self.text(node.child_by_field_name("index")?, depth + 1)?;
                format!("{object}.{key}")
            }
            "parenthesized_expression"
            | "await_expression"
            | "non_null_expression"
            | "as_expression"
            | "satisfies_expression" => self.name(node.named_child(0)?, depth + 1)?,
            "sequence_expression" => self.name(children(node).last().copied()?, depth + 1)?,
            "import" => "import".to_owned(),
            "call_expression" => {
                let name = self.name(node.child_by_field_name("function")?, depth + 1)?;
                let arguments = node.child_by_field_name("arguments").map(children);
                let first = arguments.and_then(|it| it.first().copied());
                match &*name {
                    "require" | "import" | "process.getBuiltinModule" => {
                        let module = self.text(first?, depth + 1)?;
                        module_name(&module).to_owned()
                    }
                    _ => format!("{name}()"),
                }
            }
            _ => return None,
        };
        Some(plain(&name))
    }

    /// The string value of `node`, with [`UNKNOWN`] for computed parts.
    pub(super) fn text(&self, node: Node<'_>, depth: u32) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        match node.kind() {
            "string" => {
                let code = self.of(node);
                Some(unescaped(code.get(1..code.len().saturating_sub(1))?))
            }
            "template_string" => {
                let mut text = String::new();
                for part in children(node) {
                    match part.kind() {
                        "string_fragment" => text.push_str(self.of(part)),
                        "escape_sequence" => text.push_str(&unescaped(self.of(part))),
                        _ => {
                            let value = part.named_child(0);
                            let value = value.and_then(|it| self.text(it, depth + 1));
                            text.push_str(&value.unwrap_or_else(|| UNKNOWN.to_string()));
                        }
                    }
                }
                Some(text)
            }
            "parenthesized_expression" | "as_expression" => {
                self.text(node.named_child(0)?, depth + 1)
            }
            "identifier" => self.texts.get(self.of(node)),
            "binary_expression" if self.of(node.child_by_field_name("operator")?) == "+" => {
                let left = self.text(node.child_by_field_name("left")?, depth + 1);
                let right = self.text(node.child_by_field_name("right")?, depth + 1);
                if left.is_none() && right.is_none() {
                    return None;
                }
                let gap = || UNKNOWN.to_string();
                Some(left.unwrap_or_else(gap) + &right.unwrap_or_else(gap))
            }
            "member_expression" if self.of(node) == "process.env.HOME" => Some("~".to_owned()),
            "call_expression" => {
                let name = self.name(node.child_by_field_name("function")?, depth + 1)?;
                let arguments = children(node.child_by_field_name("arguments")?);
                match &*name {
                    "path.join" | "path.resolve" => {
                        let mut path = String::new();
                        for argument in arguments {
                            let part = self.text(argument, depth + 1);
                            path = join(&path, &part.unwrap_or_else(|| UNKNOWN.to_string()));
                        }
                        Some(path)
                    }
                    "os.homedir" => Some("~".to_owned()),
                    "os.tmpdir" => Some("/tmp".to_owned()),
                    "process.cwd" | "Deno.cwd" => Some(".".to_owned()),
                    "Deno.env.get" if self.text(*arguments.first()?, depth + 1)? == "HOME" => {
                        Some("~".to_owned())
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// A module's name without its scheme, such as `node:`.
pub(super) fn module_name(module: &str) -> &str {
    let name = module.strip_prefix("node:").unwrap_or(module);
    match name {
        "fs/promises" | "fs-extra" | "graceful-fs" => "fs",
        name => name,
    }
}

/// A normalised name: `globalThis.fs.promises.rm` is `fs.rm`.
pub(super) fn plain(name: &str) -> String {
    let mut name = name;
    for global in ["globalThis.", "global.", "window.", "self."] {
        name = name.strip_prefix(global).unwrap_or(name);
    }
    name.replace(".promises.", ".").replace(".default.", ".")
}
