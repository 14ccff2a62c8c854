//! Resolves expressions, as far as the code shows, to dotted function names and to strings, most of which are paths.
//!
//! Names apply to the whole cell, whatever the scope: treating every `r` as `shutil.rmtree` because `r = shutil.rmtree`
//! occurs somewhere is the safe choice.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::names::Names;
use crate::risk::reading::Texts;
use crate::risk::site::{MADE_UP, UNKNOWN, join};
use crate::risk::text::unescaped;
use crate::risk::tree::{children, code_of};

/// Maximum depth of an expression when looking for its string.
const DEEPEST: u32 = 40;
/// Maximum depth when looking for a name.
const DEEPEST_NAME: u32 = 12;
/// Maximum length of a string.
const LONGEST: usize = 64 << 10;

/// What a cell's names refer to.
pub(super) struct Values<'c> {
    code: &'c str,
    names: Names,
    /// Strings of names that have only one; `None` for names with several.
    texts: Texts<'c>,
    /// Names that the code defines itself.
    own: BTreeSet<&'c str>,
}

impl<'c> Values<'c> {
    pub(super) fn new(code: &'c str, before: &Names) -> Self {
        Self {
            code,
            names: before.clone(),
            texts: Texts::default(),
            own: BTreeSet::new(),
        }
    }

    pub(super) fn into_names(self) -> Names {
        self.names
    }

    fn of(&self, node: Node<'_>) -> &'c str {
        code_of(node, self.code)
    }

    /// Records what a statement says about names.
    pub(super) fn learn(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_statement" => {
                for name in children(node) {
                    self.import("", name);
                }
            }
            "import_from_statement" => {
                let Some(module) = node.child_by_field_name("module_name") else {
                    return;
                };
                let module_name = self.of(module).to_owned();
                for name in children(node) {
                    if name != module {
                        self.import(&module_name, name);
                    }
                }
            }
            "assignment" | "named_expression" => {
                let left = node
                    .child_by_field_name("left")
                    .or_else(|| node.child_by_field_name("name"));
                let right = node
                    .child_by_field_name("right")
                    .or_else(|| node.child_by_field_name("value"));
                if let (Some(left), Some(right)) = (left, right) {
                    self.assign(left, right);
                }
            }
            "as_pattern" => {
                let target = node.child_by_field_name("alias");
                let target = target.and_then(|it| it.named_child(0));
                if let (Some(value), Some(target)) = (node.named_child(0), target) {
                    self.assign(target, value);
                }
            }
            "augmented_assignment" | "for_statement" | "for_in_clause" => {
                if let Some(left) = node.child_by_field_name("left") {
                    for name in std::iter::once(left).chain(children(left)) {
                        self.texts.forget(self.of(name));
                    }
                }
            }
            _ => {}
        }
    }

    fn import(&mut self, module: &str, name: Node<'_>) {
        let full = |name: &str| {
            if module.is_empty() {
                name.to_owned()
            } else {
                format!("{module}.{name}")
            }
        };
        match name.kind() {
            "aliased_import" => {
                let real = name
                    .child_by_field_name("name")
                    .map_or("", |it| self.of(it));
                let alias = name.child_by_field_name("alias");
                let alias = alias.map_or("", |it| self.of(it));
                self.names.set(alias, full(real));
            }
            "dotted_name" => {
                let text = self.of(name);
                if module.is_empty() {
                    let first = text.split('.').next().unwrap_or(text);
                    self.names.set(first, first.to_owned());
                } else {
                    self.names.set(text, full(text));
                }
            }
            "wildcard_import" => {
                for it in STARS.iter().filter(|it| it.0 == module) {
                    for name in it.1 {
                        self.names.set(name, full(name));
                    }
                }
            }
            _ => {}
        }
    }

    fn assign(&mut self, left: Node<'_>, right: Node<'_>) {
        if matches!(
            left.kind(),
            "pattern_list" | "tuple_pattern" | "list_pattern"
        ) {
            let (lefts, rights) = (children(left), children(right));
            if lefts.len() == rights.len() && right.kind() != "string" {
                for (left, right) in lefts.into_iter().zip(rights) {
                    if left.kind() == "identifier" {
                        self.assign(left, right);
                    }
                }
            }
            return;
        }
        if left.kind() != "identifier" {
            return;
        }
        let name = self.of(left);
        if let Some(full) = self.name(right)
            && full != name
            && is_worth_following(&full)
        {
            self.names.set(name, full);
        } else if self.names.get(name).is_none() {
            self.own.insert(name);
        }
        let text = self.text(right);
        self.texts.set(name, text);
    }

    /// Whether the code defines `name` itself, so that it is not a module.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.contains(name) && self.names.get(name).is_none()
    }

    /// The dotted name that `node` refers to.
    pub(super) fn name(&self, node: Node<'_>) -> Option<String> {
        self.name_at(node, 0).map(|name| plain(&name))
    }

    fn name_at(&self, node: Node<'_>, depth: u32) -> Option<String> {
        if depth > DEEPEST_NAME {
            return None;
        }
        match node.kind() {
            "identifier" => {
                let name = self.of(node);
                Some(self.names.get(name).unwrap_or(name).to_owned())
            }
            "attribute" => {
                let object = node.child_by_field_name("object")?;
                let attribute = self.of(node.child_by_field_name("attribute")?);
                let base = self.name_at(object, depth + 1);
                Some(format!("{}.{attribute}", base.as_deref().unwrap_or("?")))
            }
            "parenthesized_expression" | "await" => self.name_at(node.named_child(0)?, depth + 1),
            "named_expression" => self.name_at(node.child_by_field_name("value")?, depth + 1),
            "call" => {
                let name = self.name_at(node.child_by_field_name("function")?, depth + 1)?;
                let arguments = children(node.child_by_field_name("arguments")?);
                let first = arguments.first().copied();
                Some(match &*plain(&name) {
                    "getattr" => {
                        let text = self.text(*arguments.get(1)?)?;
                        format!("{}.{text}", self.name_at(first?, depth + 1)?)
                    }
                    "__import__"
                    | "importlib.import_module"
                    | "import_module"
                    | "importlib.__import__" => self.text(first?)?,
                    "vars" => format!("{}.__dict__", self.name_at(first?, depth + 1)?),
                    _ => format!("{name}()"),
                })
            }
            "subscript" => {
                let base = self.name_at(node.child_by_field_name("value")?, depth + 1)?;
                let key = self.text(node.child_by_field_name("subscript")?)?;
                match base.strip_suffix(".__dict__").unwrap_or(&base) {
                    "globals()" | "locals()" | "sys.modules" => {
                        Some(self.names.get(&key).unwrap_or(&key).to_owned())
                    }
                    "__builtins__" | "builtins" => Some(key),
                    module if module != base => Some(format!("{module}.{key}")),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The string value of `node`, with [`UNKNOWN`] for computed parts.
    pub(super) fn text(&self, node: Node<'_>) -> Option<String> {
        let text = self.text_at(node, 0)?;
        (text.len() <= LONGEST).then_some(text)
    }

    fn text_at(&self, node: Node<'_>, depth: u32) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        match node.kind() {
            "string" => Some(self.string(node, depth)),
            "concatenated_string" => {
                let parts = children(node).into_iter();
                parts.map(|it| self.text_at(it, depth + 1)).collect()
            }
            "parenthesized_expression" => self.text_at(node.named_child(0)?, depth + 1),
            "identifier" => self.texts.get(self.of(node)),
            "binary_operator" => {
                let operator = self.of(node.child_by_field_name("operator")?);
                let part = |field| {
                    let part = node.child_by_field_name(field)?;
                    self.text_at(part, depth + 1)
                };
                let (left, right) = (part("left"), part("right"));
                let unknown = || UNKNOWN.to_string();
                match operator {
                    "+" if left.is_some() || right.is_some() => {
                        let (left, right) =
                            (left.unwrap_or_else(unknown), right.unwrap_or_else(unknown));
                        (left.len() + right.len() <= LONGEST).then(|| left + &right)
                    }
                    "/" if left.is_some() || right.is_some() => {
                        let (left, right) =
                            (left.unwrap_or_else(unknown), right.unwrap_or_else(unknown));
                        Some(join(&left, &right))
                    }
                    "%" => Some(with_gaps(&left?, '%')),
                    _ => None,
                }
            }
            "attribute" => {
                // The name of a temporary file.
                let object = self.text_at(node.child_by_field_name("object")?, depth + 1)?;
                object.contains(MADE_UP).then_some(object)
            }
            "subscript" => {
                let base = self.name(node.child_by_field_name("value")?)?;
                let key = self.text_at(node.child_by_field_name("subscript")?, depth + 1)?;
                (base == "os.environ").then(|| of_variable(&key)).flatten()
            }
            "call" => self.called(node, depth),
            _ => None,
        }
    }

    fn string(&self, node: Node<'_>, depth: u32) -> String {
        let mut text = String::new();
        let start = children(node);
        let prefix = start.first().map_or("", |it| self.of(*it)).to_lowercase();
        let is_raw = prefix.trim_end_matches(['"', '\'']).contains('r');
        for part in start {
            match part.kind() {
                "string_content" if is_raw => text.push_str(self.of(part)),
                "string_content" => text.push_str(&unescaped(self.of(part))),
                "interpolation" => {
                    let value = part.named_child(0);
                    let value = value.and_then(|value| self.text_at(value, depth + 1));
                    text.push_str(&value.unwrap_or_else(|| UNKNOWN.to_string()));
                }
                _ => {}
            }
        }
        text
    }

    fn called(&self, node: Node<'_>, depth: u32) -> Option<String> {
        let function = node.child_by_field_name("function")?;
        let arguments = children(node.child_by_field_name("arguments")?);
        let texts = || -> Option<String> {
            let mut path = String::new();
            for argument in &arguments {
                let part = self.text_at(*argument, depth + 1);
                path = join(&path, &part.unwrap_or_else(|| UNKNOWN.to_string()));
            }
            (path.len() <= LONGEST).then_some(path)
        };
        let name = self.name(function).unwrap_or_default();
        let method = name.rsplit('.').next().unwrap_or(&name);
        let receiver = || {
            let object = function.child_by_field_name("object")?;
            self.text_at(object, depth + 1)
        };
        match &*name {
            "pathlib.Path.home" | "Path.home" => Some("~".to_owned()),
            "pathlib.Path.cwd" | "Path.cwd" | "os.getcwd" => Some(".".to_owned()),
            "pathlib.Path" | "Path" | "pathlib.PosixPath" | "pathlib.PurePath" | "os.path.join"
            | "str" | "os.fspath" | "os.path.expanduser" | "os.path.abspath"
            | "os.path.realpath" | "os.path.normpath" | "os.path.expandvars" => texts(),
            "os.getenv" | "os.environ.get" => {
                of_variable(&self.text_at(*arguments.first()?, depth + 1)?)
            }
            _ if name.starts_with("tempfile.") => Some(format!("/tmp/{MADE_UP}")),
            _ => match method {
                "joinpath" => Some(join(&receiver()?, &texts()?)),
                "expanduser" | "resolve" | "absolute" | "as_posix" | "strip" => receiver(),
                "format" => Some(with_gaps(&receiver()?, '{')),
                "join" => {
                    let between = receiver()?;
                    let list = *arguments.first()?;
                    if !matches!(list.kind(), "list" | "tuple") {
                        return None;
                    }
                    let parts = children(list).into_iter();
                    let parts: Option<Vec<String>> =
                        parts.map(|it| self.text_at(it, depth + 1)).collect();
                    let text = parts?.join(&between);
                    (text.len() <= LONGEST).then_some(text)
                }
                _ => None,
            },
        }
    }
}

/// Modules, and the names that `from MODULE import *` binds.
const STARS: [(&str, &[&str]); 4] = [
    (
        "os",
        &[
            "system",
            "popen",
            "remove",
            "unlink",
            "rmdir",
            "removedirs",
            "kill",
            "rename",
            "execv",
            "abort",
        ],
    ),
    (
        "shutil",
        &["rmtree", "move", "copy", "copytree", "copyfile"],
    ),
    (
        "subprocess",
        &[
            "run",
            "call",
            "check_call",
            "check_output",
            "Popen",
            "getoutput",
        ],
    ),
    ("pathlib", &["Path"]),
];

/// Whether aliases of this name matter.
fn is_worth_following(full: &str) -> bool {
    super::api::function(full).is_some()
        || super::api::SENSITIVE.contains(&full)
        || matches!(
            full,
            "getattr" | "__import__" | "pathlib.Path" | "pathlib" | "requests" | "socket"
        )
        || full == "psutil.Process()"
        || full == "get_ipython()"
        || full.ends_with("().unlink")
}

/// A normalised name, without detours through other modules: `pathlib.os.remove` is `os.remove`.
fn plain(name: &str) -> String {
    let mut name = name;
    for prefix in ["builtins.", "__builtins__.", "__builtin__."] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    for module in ["os", "shutil", "subprocess", "builtins"] {
        let inside = format!(".{module}.");
        if let Some(at) = name.rfind(&inside) {
            name = name.get(at + 1..).unwrap_or(name);
        }
    }
    for (other, module) in [
        ("posix.", "os."),
        ("nt.", "os."),
        ("_posixsubprocess.", "subprocess."),
    ] {
        if let Some(rest) = name.strip_prefix(other) {
            return format!("{module}{rest}");
        }
    }
    name.strip_prefix("builtins.").unwrap_or(name).to_owned()
}

/// The value of an environment variable, if it is a known path.
fn of_variable(name: &str) -> Option<String> {
    match name {
        "HOME" | "USERPROFILE" => Some("~".to_owned()),
        "TMPDIR" | "TEMP" => Some(format!("/tmp/{MADE_UP}")),
        _ => None,
    }
}

/// A format string with gaps in place of values: `%s`, `{}`.
fn with_gaps(format: &str, mark: char) -> String {
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != mark || rest.next_if_eq(&mark).is_some() {
            out.push(c);
            continue;
        }
        out.push(UNKNOWN);
        for c in rest.by_ref() {
            if mark == '{' && c == '}' || mark == '%' && c.is_ascii_alphabetic() {
                break;
            }
        }
    }
    out
}
