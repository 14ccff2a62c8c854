//! Takes secrets out of text: values that are known, and what has the form of a token.
//!
//! Values come from the person's environment ([`super::secrets`]) and from keys that are read later; they are looked for
//! all at once, in one pass. Forms are those that issuers have published; they are for text that leaves the machine or
//! is kept for long, because a form can be wrong about a name.
//!
//! Deliberately not here: what is redacted where (`docs/sandbox.md`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

use super::secrets;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";
/// A shorter value is as likely a word.
const SHORTEST: usize = 8;
/// A longer one is no secret but a file.
const LONGEST: usize = 64 << 10;
/// How much of a secret at the end of a piece of text is waited for with the next piece.
const HELD: usize = 4;

/// Knows secrets. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Arc<Known>>>,
}

#[derive(Default)]
struct Known {
    values: BTreeSet<String>,
    /// `None` where there are no values.
    finder: Option<AhoCorasick>,
}

impl Redactor {
    /// One that knows the secrets among these variables.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let redactor = Self::default();
        let secrets = variables
            .into_iter()
            .flat_map(|(name, value)| secrets::values(name, value));
        redactor.learn(secrets.map(str::to_owned));
        redactor
    }

    /// Knows one more, such as a key that a program printed.
    pub fn add(&self, secret: &str) {
        self.learn(std::iter::once(secret.to_owned()));
    }

    /// Knows the secrets in a text, such as the password of a URL, as they are written there and without percent signs.
    pub fn add_from(&self, text: &str) {
        let found = secrets::values("", text);
        let plain: Vec<String> = found.iter().map(|it| unescaped(it)).collect();
        self.learn(found.into_iter().map(str::to_owned).chain(plain));
    }

    fn learn(&self, secrets: impl IntoIterator<Item = String>) {
        let mut shared = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut values = shared.values.clone();
        let fits = |secret: &String| (SHORTEST..=LONGEST).contains(&secret.len());
        values.extend(secrets.into_iter().filter(fits));
        if values.len() == shared.values.len() {
            return;
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&values);
        // Only far more text than an environment holds is too much.
        let finder = finder.ok();
        *shared = Arc::new(Known { values, finder });
    }

    fn known(&self) -> Arc<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&known)
    }

    /// `text` without the values that are known.
    pub fn values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.known();
        let Some(finder) = &known.finder else {
            return Cow::Borrowed(text);
        };
        without(text, finder.find_iter(text).map(|found| found.range()))
    }

    /// `text` without the values that are known and without what has the form of a secret.
    pub fn all<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.values(text) {
            Cow::Borrowed(text) => without(text, secrets::found(text)),
            Cow::Owned(text) => {
                let forms = without(&text, secrets::found(&text)).into_owned();
                Cow::Owned(forms)
            }
        }
    }

    /// The same for all strings in a JSON value.
    pub fn all_in(&self, value: &mut Value) {
        strings(value, &mut |text| changed(self.all(text)));
    }

    /// The same for the values that are known alone.
    pub fn values_in(&self, value: &mut Value) {
        if self.known().finder.is_some() {
            strings(value, &mut |text| changed(self.values(text)));
        }
    }

    /// Whether there is nothing that it knows by value.
    pub fn is_empty(&self) -> bool {
        self.known().finder.is_none()
    }

    /// Whether anything in `text` has the form of a secret, or is a value that is known.
    pub fn finds_any(&self, text: &str) -> bool {
        matches!(self.all(text), Cow::Owned(_))
    }

    /// The next piece of a stream of text.
    pub fn piece(&self, stream: &mut TextStream, text: &str) -> String {
        let known = self.known();
        let Some(finder) = &known.finder else {
            return text.to_owned();
        };
        let before = stream.before.len();
        let mut whole = std::mem::take(&mut stream.before);
        whole.push_str(&std::mem::take(&mut stream.held));
        whole.push_str(text);
        let mut shown = String::with_capacity(whole.len());
        // What was shown already, and where what may be the beginning of a secret can start.
        let (mut at, mut free) = (before, 0);
        for found in finder.find_iter(&whole) {
            // What was shown of it cannot be taken back.
            let Range { start, end } = found.range();
            shown.push_str(whole.get(at..start.max(at)).unwrap_or_default());
            if end > at {
                shown.push_str(REDACTED);
                at = end;
            }
            free = end;
        }
        let begun = begun(&known.values, whole.get(free..).unwrap_or_default());
        let held_from = whole.len() - begun;
        // A short beginning is shown, and remembered all the same.
        let end = if begun < HELD {
            whole.len()
        } else {
            held_from.max(at)
        };
        shown.push_str(whole.get(at..end).unwrap_or_default());
        let part = |range: Range<usize>| whole.get(range).unwrap_or_default().to_owned();
        stream.before = part(held_from..end);
        stream.held = part(end..whole.len());
        shown
    }
}

/// Where a stream of text is.
#[derive(Debug, Default)]
pub struct TextStream {
    /// The end of what was shown, where it may be the beginning of a secret.
    before: String,
    /// What was not shown yet.
    held: String,
}

impl TextStream {
    /// No more comes: what was held back is no secret.
    pub fn end(&mut self) -> String {
        self.before.clear();
        std::mem::take(&mut self.held)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.known().values.len())
    }
}

impl PartialEq for Redactor {
    fn eq(&self, other: &Self) -> bool {
        self.known().values == other.known().values
    }
}

/// Without the escapes of a URL (RFC 3986, section 2.1).
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let byte = after
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = byte.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Bytes at the end of `text` that may be the beginning of a value.
fn begun(values: &BTreeSet<String>, text: &str) -> usize {
    let longest = |value: &String| {
        let most = value.len().saturating_sub(1).min(text.len());
        (1..=most).rev().find(|length| {
            let begin = value.as_bytes().get(..*length);
            let end = text.as_bytes().get(text.len() - length..);
            begin == end && text.is_char_boundary(text.len() - length)
        })
    };
    values.iter().filter_map(longest).max().unwrap_or(0)
}

/// `text` with a mark in the place of each of these parts, which are in order.
fn without(text: &str, parts: impl Iterator<Item = Range<usize>>) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut at = 0;
    for part in parts {
        shown.push_str(text.get(at..part.start).unwrap_or_default());
        shown.push_str(REDACTED);
        at = part.end;
    }
    if at == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(shown)
}

fn changed(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

fn strings(value: &mut Value, change: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(other) = change(text) {
                *text = other;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| strings(value, change)),
        Value::Object(all) => all.values_mut().for_each(|value| strings(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
