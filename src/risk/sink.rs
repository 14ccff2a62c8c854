//! Collects findings, with line numbers as people count them.

use std::cell::Cell;

use tree_sitter::Node;

use super::finding::{Analysis, Finding, FindingKind, Mention, Where};
use super::secrets::is_secret;
use super::site::{MADE_UP, Site, UNKNOWN};
use super::tree::code_of;

/// Maximum findings per cell.
const MOST: usize = 200;
/// Maximum mentions of each kind per cell.
const MOST_MENTIONS: usize = 20_000;
/// Maximum bytes of code read for one cell, including code in strings.
const MOST_CODE: usize = 4 * super::LONGEST;
/// Maximum characters of code that a finding shows.
const SHOWN: usize = 100;
const TOO_MUCH: &str = "the code exceeds the analysis limits";
/// Maximum characters of a path.
const LONGEST_PATH: usize = 1024;

/// The position of code inside other code.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Base {
    /// Its first line is this line of the cell, from 0.
    Line(usize),
    /// Inside a string: everything is reported at the string.
    At {
        line: u32,
        column: u32,
        text: String,
    },
}

/// The effect of writing on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// Its content is replaced.
    Replace,
    /// It is appended to, or created.
    Append,
}

/// Collects findings.
pub(super) struct Sink<'a> {
    pub(super) site: &'a Site<'a>,
    /// Nesting depth of the current code.
    pub(super) depth: u32,
    base: Base,
    found: Analysis,
    first_line: String,
    /// Bytes of code read so far.
    read: usize,
    /// Cache for columns: code, byte offset, and characters before it in its line.
    counted: Cell<(*const u8, usize, usize)>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(site: &'a Site<'a>, code: &str) -> Self {
        Self {
            site,
            depth: 0,
            base: Base::Line(0),
            found: Analysis::default(),
            first_line: code
                .trim_start()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
            read: 0,
            counted: Cell::new((std::ptr::null(), 0, 0)),
        }
    }

    /// Whether this many more bytes may be read: code can run itself again and again.
    pub(super) fn may_read(&mut self, bytes: usize) -> bool {
        self.read = self.read.saturating_add(bytes);
        let may_read = self.read <= MOST_CODE;
        if !may_read {
            self.is_too_much();
        }
        may_read
    }

    /// The result, sorted by line.
    pub(super) fn end(self) -> Analysis {
        let mut found = self.found;
        found
            .findings
            .sort_by_key(|finding| (finding.line, finding.column, finding.kind));
        found.findings.dedup();
        found
    }

    /// Continues with code that begins after `lines` lines of this one.
    pub(super) fn below(&mut self, lines: usize, go_on: impl FnOnce(&mut Self)) {
        let base = match &self.base {
            Base::Line(line) => Base::Line(line + lines),
            at @ Base::At { .. } => at.clone(),
        };
        let before = std::mem::replace(&mut self.base, base);
        go_on(self);
        self.base = before;
    }

    /// Continues with code within one line: its number, and the byte of `code` at which it begins.
    pub(super) fn on_line(
        &mut self,
        (line, begin): (usize, usize),
        code: &str,
        go_on: impl FnOnce(&mut Self),
    ) {
        let rest = code.get(begin..).unwrap_or_default();
        // One character more than the limit, so that the caller can tell that the line was cut.
        let text = rest.chars().take_while(|c| *c != '\n').take(SHOWN + 1);
        let before = std::mem::replace(&mut self.first_line, text.collect());
        self.below(line, go_on);
        self.first_line = before;
    }

    /// Continues with the code in the string `node`.
    pub(super) fn within(&mut self, node: Node<'_>, code: &str, go_on: impl FnOnce(&mut Self)) {
        let (line, column, text) = self.at(node, code);
        let before = std::mem::replace(&mut self.base, Base::At { line, column, text });
        go_on(self);
        self.base = before;
    }

    /// Line, column and code of `node`.
    fn at(&self, node: Node<'_>, code: &str) -> (u32, u32, String) {
        match &self.base {
            Base::At { line, column, text } => (*line, *column, text.clone()),
            Base::Line(base) => {
                let start = node.start_position();
                let column = self.characters_before(node, code) + 1;
                let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
                (
                    number(base + start.row + 1),
                    number(column),
                    shown(code_of(node, code)),
                )
            }
        }
    }

    /// Characters before `node` in its line. Counts on from the previous position if that is in the same line, because
    /// a line can be as long as the code.
    fn characters_before(&self, node: Node<'_>, code: &str) -> usize {
        let (begin, column) = (node.start_byte(), node.start_position().column);
        let line = begin.saturating_sub(column);
        let (of, from, before) = self.counted.get();
        let goes_on = of == code.as_ptr() && (line..=begin).contains(&from);
        let (from, before) = if goes_on { (from, before) } else { (line, 0) };
        let Some(between) = code.get(from..begin) else {
            return column;
        };
        let count = before + between.chars().count();
        self.counted.set((code.as_ptr(), begin, count));
        count
    }

    fn add(&mut self, finding: Finding) {
        if self.found.findings.len() < MOST {
            self.found.findings.push(finding);
        } else {
            self.is_flooded();
        }
    }

    /// Marks the result as incomplete after too many findings: a flood of small ones must not hide a large one.
    fn is_flooded(&mut self) {
        if self.found.findings.len() < MOST {
            self.is_too_much();
        } else if let Some(last) = self.found.findings.last_mut() {
            last.kind = FindingKind::Unanalysed;
            TOO_MUCH.clone_into(&mut last.reason);
        }
    }

    /// Reports an effect of `node`.
    pub(super) fn find(&mut self, kind: FindingKind, node: Node<'_>, code: &str) {
        self.find_because(kind, node, code, kind.words());
    }

    /// Reports it with a specific reason.
    pub(super) fn find_because(
        &mut self,
        kind: FindingKind,
        node: Node<'_>,
        code: &str,
        reason: &str,
    ) {
        let found = found(kind, self.at(node, code), reason);
        self.add(found);
    }

    /// Reports it for the program `command`.
    pub(super) fn find_command(
        &mut self,
        kind: FindingKind,
        node: Node<'_>,
        code: &str,
        command: &str,
    ) {
        let found = found(kind, self.at(node, code), kind.words());
        self.add(Finding {
            command: Some(command.to_owned()),
            ..found
        });
    }

    /// `node` deletes `path`; `None` if the path is computed.
    pub(super) fn delete(&mut self, path: Option<&str>, node: Node<'_>, code: &str) {
        let path = path.filter(|path| !path.is_empty());
        let place = path.map_or(Where::Unknown, |path| self.site.place(path));
        self.find_path(FindingKind::Delete, path, place, node, code);
    }

    /// `node` writes `path`. A computed path is not reported: the sandbox keeps it in the workspace.
    pub(super) fn write(&mut self, path: Option<&str>, how: Writing, node: Node<'_>, code: &str) {
        let Some(path) = path.filter(|path| !path.is_empty() && !Site::is_sink(path)) else {
            return;
        };
        let place = self.site.place(path);
        let kind = match place {
            Where::Outside => FindingKind::WriteOutside,
            Where::Workspace if how == Writing::Replace => {
                let file = self.site.absolute(path);
                if !file.is_some_and(|file| (self.site.is_old)(&file)) {
                    return;
                }
                FindingKind::Overwrite
            }
            Where::Workspace | Where::Temporary | Where::Unknown => return,
        };
        self.find_path(kind, Some(path), place, node, code);
    }

    /// `node` moves `from` to `to`: moving a file out of the workspace deletes it there.
    pub(super) fn moved(
        &mut self,
        from: Option<&str>,
        to: Option<&str>,
        node: Node<'_>,
        code: &str,
    ) {
        self.write(to, Writing::Replace, node, code);
        let leaves = to.is_some_and(|to| {
            Site::is_sink(to) || matches!(self.site.place(to), Where::Outside | Where::Temporary)
        });
        if leaves {
            self.delete(from, node, code);
        }
    }

    /// A magic writes `path`.
    pub(super) fn write_by_magic(&mut self, path: &str, how: Writing) {
        if path.is_empty() || Site::is_sink(path) {
            return;
        }
        let before = self.found.findings.len();
        self.whole(FindingKind::WriteOutside, FindingKind::WriteOutside.words());
        let place = self.site.place(path);
        let file = self.site.absolute(path);
        let is_old = file.is_some_and(|file| (self.site.is_old)(&file));
        let kind = match place {
            Where::Outside => Some(FindingKind::WriteOutside),
            Where::Workspace if how == Writing::Replace && is_old => Some(FindingKind::Overwrite),
            Where::Workspace | Where::Temporary | Where::Unknown => None,
        };
        match (kind, self.found.findings.get_mut(before)) {
            (Some(kind), Some(finding)) => {
                finding.kind = kind;
                kind.words().clone_into(&mut finding.reason);
                finding.path = Some(path.to_owned());
                finding.place = Some(place);
            }
            _ => self.found.findings.truncate(before),
        }
    }

    /// `node` uses the credentials in `path`, or a service that has them.
    pub(super) fn credentials(&mut self, path: &str, node: Node<'_>, code: &str) {
        let place = if path.is_empty() {
            Where::Outside
        } else {
            self.site.place(path)
        };
        let path = Some(path).filter(|path| !path.is_empty());
        self.find_path(FindingKind::Credentials, path, place, node, code);
    }

    /// A string that may be a path. A path that holds credentials is a finding.
    pub(super) fn string(&mut self, text: &str, node: Node<'_>, code: &str) {
        if text.is_empty() || text.len() > LONGEST_PATH || text.contains('\n') {
            return;
        }
        if is_secret(text) {
            let place = self.site.place(text);
            self.find_path(FindingKind::Credentials, Some(text), place, node, code);
        }
        if text.contains(UNKNOWN) {
            return;
        }
        let mention = self.mention(text, node, code);
        if self.found.paths.len() < MOST_MENTIONS {
            self.found.paths.push(mention);
        } else {
            self.is_flooded();
        }
    }

    /// The code starts this program.
    pub(super) fn command(&mut self, name: &str, node: Node<'_>, code: &str) {
        if name.contains(UNKNOWN) {
            return;
        }
        let mention = self.mention(name, node, code);
        if self.found.commands.len() < MOST_MENTIONS {
            self.found.commands.push(mention);
        } else {
            self.is_flooded();
        }
    }

    fn mention(&self, name: &str, node: Node<'_>, code: &str) -> Mention {
        let (line, column, text) = self.at(node, code);
        Mention {
            name: name.to_owned(),
            line,
            column,
            text,
        }
    }

    fn find_path(
        &mut self,
        kind: FindingKind,
        path: Option<&str>,
        place: Where,
        node: Node<'_>,
        code: &str,
    ) {
        let known = path.filter(|path| !path.contains([UNKNOWN, MADE_UP]));
        let found = found(kind, self.at(node, code), kind.words());
        self.add(Finding {
            path: known.map(str::to_owned),
            place: Some(place),
            ..found
        });
    }

    /// Some of the code, or all of it, is not analysed.
    pub(super) fn unanalysed(&mut self, reason: &str) {
        self.whole(FindingKind::Unanalysed, reason);
    }

    /// A limit was exceeded.
    pub(super) fn is_too_much(&mut self) {
        let last = self.found.findings.last();
        if last.is_none_or(|last| last.reason != TOO_MUCH) {
            self.unanalysed(TOO_MUCH);
        }
    }

    /// The code as a whole hides what it does.
    pub(super) fn obfuscated(&mut self, reason: &str) {
        self.whole(FindingKind::Obfuscation, reason);
    }

    /// The code as a whole runs the program `command`.
    pub(super) fn whole_command(&mut self, kind: FindingKind, command: &str, code: &str) {
        let before = self.found.findings.len();
        self.whole(kind, kind.words());
        let is_line = matches!(self.base, Base::Line(_));
        if let Some(finding) = self.found.findings.get_mut(before) {
            finding.command = Some(command.to_owned());
            if is_line {
                finding.text = shown(code);
            }
        }
    }

    /// An effect of the code as a whole.
    pub(super) fn whole(&mut self, kind: FindingKind, reason: &str) {
        let at = match &self.base {
            Base::At { line, column, text } => (*line, *column, text.clone()),
            Base::Line(line) => (
                u32::try_from(line + 1).unwrap_or(u32::MAX),
                1,
                shown(&self.first_line),
            ),
        };
        self.add(found(kind, at, reason));
    }
}

/// A finding without a path or program.
fn found(kind: FindingKind, at: (u32, u32, String), reason: &str) -> Finding {
    let (line, column, text) = at;
    Finding {
        kind,
        line,
        column,
        text,
        reason: reason.to_owned(),
        path: None,
        place: None,
        command: None,
    }
}

/// The first line of code, shortened if long.
fn shown(code: &str) -> String {
    let mut lines = code.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let mut text: String = first.chars().take(SHOWN).collect();
    if first.chars().count() > SHOWN || lines.next().is_some() {
        text.push('…');
    }
    text
}
