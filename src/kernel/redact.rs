//! Removes secrets from text: known values, and anything with the form of a token.
//!
//! Values come from the user's environment ([`super::secrets`]) and from keys that are read later; all are found in one
//! pass. Forms are those that issuers have published. They are for text that leaves the machine or is stored for long,
//! because a form can match a harmless name.
//!
//! Deliberately not here: which text is redacted (`docs/sandbox.md`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

use super::secrets;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";
/// Shorter values are as likely ordinary words.
const SHORTEST: usize = 8;
/// Longer values are not secrets but files.
const LONGEST: usize = 64 << 10;
/// A possible secret's beginning of at least this length is held back until the next piece.
const HELD: usize = 4;

/// A set of known secrets. Clones share it.
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
    /// Knows the secrets among these variables.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let redactor = Self::default();
        let secrets = variables
            .into_iter()
            .flat_map(|(name, value)| secrets::values(name, value));
        redactor.learn(secrets.map(str::to_owned));
        redactor
    }

    /// Adds a secret, such as a key that a program printed.
    pub fn add(&self, secret: &str) {
        self.learn(std::iter::once(secret.to_owned()));
    }

    /// Adds the secrets in a text, such as the password of a URL, both as written and percent-decoded.
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
        // It fails only for far more text than an environment holds.
        let finder = finder.ok();
        *shared = Arc::new(Known { values, finder });
    }

    fn known(&self) -> Arc<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&known)
    }

    /// `text` without known values.
    pub fn values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.known();
        let Some(finder) = &known.finder else {
            return Cow::Borrowed(text);
        };
        without(text, finder.find_iter(text).map(|found| found.range()))
    }

    /// `text` without known values and without anything that has the form of a secret.
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

    /// The same for known values only.
    pub fn values_in(&self, value: &mut Value) {
        if self.known().finder.is_some() {
            strings(value, &mut |text| changed(self.values(text)));
        }
    }

    /// Whether no values are known.
    pub fn is_empty(&self) -> bool {
        self.known().finder.is_none()
    }

    /// Whether `text` contains a known value or anything with the form of a secret.
    pub fn finds_any(&self, text: &str) -> bool {
        matches!(self.all(text), Cow::Owned(_))
    }

    /// Redacts the next piece of a text stream.
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
        // End of what was already shown, and the earliest start of a possible partial secret.
        let (mut at, mut free) = (before, 0);
        for found in finder.find_iter(&whole) {
            // The part that was already shown cannot be taken back.
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
        // A short beginning is shown, but still remembered.
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

/// The state of a text stream.
#[derive(Debug, Default)]
pub struct TextStream {
    /// The end of the shown text, if it may be the beginning of a secret.
    before: String,
    /// Text that is held back.
    held: String,
}

impl TextStream {
    /// Ends the stream: the text held back is not a secret.
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

/// Percent-decodes a text (RFC 3986, section 2.1).
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

/// Number of bytes at the end of `text` that may be the beginning of a value.
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

/// `text` with each of these parts redacted; the parts are in order.
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
