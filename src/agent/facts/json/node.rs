//! What was seen at one place of a JSON text, over all records.

use std::collections::HashMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::short;
use crate::agent::facts::column::{Column, ColumnKind, Numerals, Value};

/// Places below the top that are looked into.
const DEPTH: usize = 4;
/// Places in all.
const PLACES: usize = 12_000;
/// Values that are looked at; those behind them are skipped, and only counted where they are records.
const VALUES: usize = 2_000_000;

/// One place.
#[derive(Debug)]
pub(super) struct Node {
    /// Values that were there.
    pub(super) seen: usize,
    /// Those that are no lists and no objects.
    pub(super) column: Column,
    /// Objects, and their keys.
    pub(super) objects: usize,
    pub(super) keys: Option<Keys>,
    /// Lists: what is in them, and how long they are.
    pub(super) list: Option<Box<Node>>,
    lists: usize,
    lengths: Option<(usize, usize)>,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            seen: 0,
            column: Column::new(Numerals::Point),
            objects: 0,
            keys: None,
            list: None,
            lists: 0,
            lengths: None,
        }
    }
}

/// Keys in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Keys {
    order: Vec<(String, Node)>,
    places: HashMap<String, usize>,
    /// Keys for which there was no room: each time one was met.
    pub(super) uncounted: usize,
}

impl Keys {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.order.iter().map(|(name, node)| (name.as_str(), node))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        let at = self.places.get(name)?;
        self.order.get(*at).map(|(_, node)| node)
    }
}

impl Node {
    /// Whether all that is under its keys are plain values.
    pub(super) fn is_flat(&self) -> bool {
        let mut all = self.keys.iter().flat_map(Keys::iter);
        all.all(|(_, node)| node.keys.is_none() && node.list.is_none())
    }

    pub(super) fn is_date(&self) -> bool {
        matches!(self.column.kind(), ColumnKind::Date(_))
            && self.keys.is_none()
            && self.list.is_none()
    }

    /// What is here, in words.
    pub(super) fn in_words(&self, among: &str, name: &str) -> String {
        let mut all = Vec::new();
        if self.column.kind() != ColumnKind::Empty || self.keys.is_none() && self.list.is_none() {
            all.push(self.column.describe(super::is_secret(name), among));
        }
        if let Some(keys) = &self.keys {
            let names: Vec<String> = keys.iter().take(8).map(|(name, _)| short(name)).collect();
            let more = match keys.order.len() + keys.uncounted {
                count if count > 8 => ", …",
                _ => "",
            };
            all.push(format!("objects with {}{more}", names.join(", ")));
        }
        if let (Some(items), Some((least, most))) = (&self.list, self.lengths) {
            let length = if least == most {
                most.to_string()
            } else {
                format!("{least} to {most}")
            };
            let of = if items.keys.is_some() {
                "objects"
            } else {
                "values"
            };
            let lists = if self.seen == 1 { "a list" } else { "lists" };
            all.push(format!("{lists} of {length} {of}"));
        }
        all.join(", or ")
    }
}

/// Reads texts into nodes, within bounds that hold for all of them.
pub(super) struct Reading {
    places: usize,
    values: usize,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self {
            places: PLACES,
            values: VALUES,
        }
    }

    /// Reads one value. What came before an error is kept.
    pub(super) fn read(&mut self, node: &mut Node, text: &str) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let seed = Seed {
            node,
            depth: 0,
            reading: self,
        };
        seed.deserialize(&mut deserializer)?;
        deserializer.end()
    }
}

struct Seed<'a> {
    node: &'a mut Node,
    depth: usize,
    reading: &'a mut Reading,
}

impl Seed<'_> {
    fn take(self, value: Value<'_>) {
        self.node.seen += 1;
        if self.reading.values > 0 {
            self.reading.values -= 1;
            self.node.column.take_typed(value);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.take(Value::Named("bool", if value { "true" } else { "false" }));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "told in six digits")]
    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.take(Value::Integer(value as f64));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "told in six digits")]
    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.take(Value::Integer(value as f64));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.take(Value::Float(value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.take(Value::Text(value));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.take(Value::Missing);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self {
            node,
            depth,
            reading,
        } = self;
        node.seen += 1;
        node.lists += 1;
        let inner = node.list.get_or_insert_default();
        let mut length = 0;
        loop {
            // Beyond a bound what comes is read over, and counted.
            let more = if depth < DEPTH && reading.values > 0 {
                let seed = Seed {
                    node: &mut *inner,
                    depth: depth + 1,
                    reading: &mut *reading,
                };
                items.next_element_seed(seed)
            } else {
                let next = items.next_element::<IgnoredAny>().map(|it| it.map(drop));
                if inner.keys.is_some() && matches!(next, Ok(Some(()))) {
                    inner.objects += 1;
                    inner.seen += 1;
                }
                next
            };
            match more {
                Ok(Some(())) => length += 1,
                Ok(None) => break,
                Err(error) => {
                    node.lengths = Some((length, length));
                    return Err(error);
                }
            }
        }
        let (least, most) = node.lengths.unwrap_or((length, length));
        node.lengths = Some((least.min(length), most.max(length)));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self {
            node,
            depth,
            reading,
        } = self;
        node.seen += 1;
        node.objects += 1;
        let keys = node.keys.get_or_insert_default();
        while let Some(name) = entries.next_key::<std::borrow::Cow<'_, str>>()? {
            let known = keys.places.get(name.as_ref()).copied();
            let at = match known {
                Some(at) => Some(at),
                None if reading.places > 0 && depth < DEPTH => {
                    reading.places -= 1;
                    let at = keys.order.len();
                    keys.places.insert(name.clone().into_owned(), at);
                    keys.order.push((name.into_owned(), Node::default()));
                    Some(at)
                }
                None => {
                    keys.uncounted += 1;
                    None
                }
            };
            match at.and_then(|at| keys.order.get_mut(at)) {
                Some((_, child)) => entries.next_value_seed(Seed {
                    node: child,
                    depth: depth + 1,
                    reading: &mut *reading,
                })?,
                None => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}
