//! XML of workbooks, as a stream. Entities that a document declares are never expanded.

use std::io::{BufReader, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::agent::facts::input::Broken;

/// Something in the text.
pub(super) enum Node {
    /// An element begins; `is_empty` if it ends at once.
    Open(Element),
    Close(String),
    Text(String),
}

/// The beginning of an element.
pub(super) struct Element {
    /// Without its prefix.
    pub(super) name: String,
    pub(super) is_empty: bool,
    start: BytesStart<'static>,
}

impl Element {
    /// An attribute, by its name without a prefix.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        // The check for double ones takes a time that grows with the square of their number.
        let mut all = self.start.attributes();
        let found = all
            .with_checks(false)
            .flatten()
            .find(|it| it.key.local_name().as_ref() == name)?;
        quick_xml::escape::unescape(&found.value)
            .ok()
            .map(std::borrow::Cow::into_owned)
    }
}

/// Reads a part of a workbook.
pub(super) struct Xml<R: Read> {
    reader: Reader<BufReader<R>>,
    buffer: Vec<u8>,
}

impl<R: Read> Xml<R> {
    pub(super) fn new(part: R) -> Self {
        let mut reader = Reader::from_reader(BufReader::new(part));
        reader.config_mut().check_end_names = false;
        Self {
            reader,
            buffer: Vec::new(),
        }
    }

    /// What comes next; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<Node>, Broken> {
        loop {
            self.buffer.clear();
            let event = self.reader.read_event_into(&mut self.buffer);
            let node = match event.map_err(|_| Broken::from("a part of it is damaged"))? {
                Event::Start(start) => open(&start, false),
                Event::Empty(start) => open(&start, true),
                Event::End(end) => Node::Close(end.local_name().as_ref().to_owned()),
                Event::Text(text) => Node::Text(text.to_string()),
                Event::CData(text) => Node::Text(text.to_string()),
                Event::GeneralRef(name) => {
                    let character = name.resolve_char_ref().ok().flatten().map(String::from);
                    let known = quick_xml::escape::resolve_xml_entity(&name).map(str::to_owned);
                    Node::Text(character.or(known).unwrap_or_default())
                }
                Event::Eof => return Ok(None),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
            };
            return Ok(Some(node));
        }
    }
}

fn open(start: &BytesStart<'_>, is_empty: bool) -> Node {
    Node::Open(Element {
        name: start.local_name().as_ref().to_owned(),
        is_empty,
        start: start.to_owned(),
    })
}
