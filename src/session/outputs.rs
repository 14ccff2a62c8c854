//! Output events -> the outputs of a cell, as a notebook stores them (messaging spec, "Messages on the IOPub channel").
//!
//! Consecutive text of one stream is merged; `\r` starts the line anew and `\b` takes a character back, so that
//! progress bars leave their last state; `clear_output(wait=True)` clears when the next output comes; displays with an
//! id can be updated later. Memory is bounded: of very long text the head and the tail are kept with a line that says
//! how much is missing, never silently.

use serde_json::{Map, Value};

use crate::jupyter::mime::MimeBundle;
use crate::jupyter::nbformat::Output;
use crate::kernel::OutputEvent;

/// Bytes of one cell's text that are kept at its beginning, and as many at its end.
const TEXT_KEPT: usize = 2 << 20;
/// Bytes of rich outputs that one cell may keep.
const RICH_KEPT: usize = 128 << 20;
/// Outputs that one cell may keep.
const COUNT_KEPT: usize = 10_000;

/// The outputs of one cell, while they come and afterwards.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outputs {
    items: Vec<Item>,
    clear_on_next: bool,
    rich_bytes: usize,
    text_bytes: usize,
    refused: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Item {
    Text(Text),
    Rich {
        output: Output,
        display_id: Option<String>,
    },
}

impl Outputs {
    /// Takes one event of this cell's own execution. An update of a display belongs to all cells:
    /// [`Outputs::update`].
    pub fn apply(&mut self, event: &OutputEvent) {
        match event {
            OutputEvent::Clear { wait: true } => self.clear_on_next = true,
            OutputEvent::Clear { wait: false } => self.clear(),
            OutputEvent::Update {
                data,
                metadata,
                display_id,
            } => self.update(display_id, data, metadata),
            OutputEvent::Stream(stream) => {
                self.clear_if_due();
                self.push_text(&stream.name, &stream.text);
            }
            OutputEvent::Lost(what) => {
                self.clear_if_due();
                self.push_text("stderr", &format!("[sponde: {what}]\n"));
            }
            OutputEvent::Display {
                data,
                metadata,
                display_id,
            } => {
                let output = Output::display(data.clone(), metadata.clone());
                self.push_rich(output, display_id.clone());
            }
            OutputEvent::Result {
                data,
                metadata,
                count,
                display_id,
            } => {
                let output = Output::result(*count, data.clone(), metadata.clone());
                self.push_rich(output, display_id.clone());
            }
            OutputEvent::Error(error) => {
                let output = Output::error(&*error.ename, &*error.evalue, error.traceback.clone());
                self.push_rich(output, None);
            }
        }
    }

    /// Gives every display named `display_id` new data.
    pub fn update(
        &mut self,
        display_id: &str,
        new: &MimeBundle,
        new_metadata: &Map<String, Value>,
    ) {
        for item in &mut self.items {
            let Item::Rich {
                output:
                    Output::DisplayData { data, metadata, .. }
                    | Output::ExecuteResult { data, metadata, .. },
                display_id: Some(id),
            } = item
            else {
                continue;
            };
            if id == display_id {
                self.rich_bytes = self.rich_bytes.saturating_sub(size(data)) + size(new);
                data.clone_from(new);
                metadata.clone_from(new_metadata);
            }
        }
    }

    /// The outputs as the notebook stores them.
    pub fn to_notebook(&self) -> Vec<Output> {
        let mut outputs: Vec<Output> = self
            .items
            .iter()
            .map(|item| match item {
                Item::Text(text) => Output::stream(text.name, text.shown()),
                Item::Rich { output, .. } => output.clone(),
            })
            .collect();
        if self.refused > 0 {
            let text = format!(
                "[sponde: {} more outputs were not kept: a cell keeps {COUNT_KEPT} outputs and {} MiB]\n",
                self.refused,
                RICH_KEPT >> 20
            );
            outputs.push(Output::stream("stderr", text));
        }
        outputs
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn clear_if_due(&mut self) {
        if self.clear_on_next {
            self.clear();
        }
    }

    fn push_text(&mut self, name: &str, text: &str) {
        // The notebook format knows two streams; what a kernel calls otherwise is shown with the output.
        let name = if name == "stderr" { "stderr" } else { "stdout" };
        if !matches!(self.items.last(), Some(Item::Text(last)) if last.name == name) {
            if self.items.len() >= COUNT_KEPT {
                self.refused += 1;
                return;
            }
            // Alternating streams share one allowance, or each piece would get its own.
            let room = TEXT_KEPT.saturating_sub(self.text_bytes / 2).max(4096);
            self.items.push(Item::Text(Text::new(name, room)));
        }
        if let Some(Item::Text(last)) = self.items.last_mut() {
            let before = last.kept();
            last.push(text);
            self.text_bytes = self.text_bytes.saturating_sub(before) + last.kept();
        }
    }

    fn push_rich(&mut self, output: Output, display_id: Option<String>) {
        self.clear_if_due();
        let bytes = output.data().map_or(0, size);
        if self.items.len() >= COUNT_KEPT || self.rich_bytes + bytes > RICH_KEPT {
            self.refused += 1;
            return;
        }
        self.rich_bytes += bytes;
        self.items.push(Item::Rich { output, display_id });
    }
}

/// Bytes of the text in a bundle, which is nearly all of it.
fn size(data: &MimeBundle) -> usize {
    data.iter()
        .map(|(mime, value)| mime.len() + value.as_str().map_or(64, str::len))
        .sum()
}

/// Text of one stream: head, what is missing, tail.
#[derive(Debug, Clone, PartialEq)]
struct Text {
    name: &'static str,
    room: usize,
    head: String,
    hidden: usize,
    tail: String,
    /// A `\r` came last: the next character starts the line anew, unless it is `\n`.
    carriage_return: bool,
}

impl Text {
    fn new(name: &'static str, room: usize) -> Self {
        Self {
            name,
            room,
            head: String::new(),
            hidden: 0,
            tail: String::new(),
            carriage_return: false,
        }
    }

    fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    fn push(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.carriage_return && !rest.starts_with(['\r', '\n']) {
                self.erase_line();
            }
            self.carriage_return = false;
            let plain = rest.find(['\r', '\u{8}']).unwrap_or(rest.len());
            let (before, after) = rest.split_at(plain);
            self.append(before);
            rest = match after.chars().next() {
                Some('\r') => {
                    self.carriage_return = true;
                    after.get(1..).unwrap_or_default()
                }
                Some(_) => {
                    self.erase_char();
                    after.get(1..).unwrap_or_default()
                }
                None => "",
            };
        }
    }

    /// The piece that is still being written.
    fn last(&mut self) -> &mut String {
        if self.tail.is_empty() && self.hidden == 0 {
            &mut self.head
        } else {
            &mut self.tail
        }
    }

    fn append(&mut self, text: &str) {
        let room = self.room.saturating_sub(self.head.len());
        let split = if self.tail.is_empty() && self.hidden == 0 {
            floor_boundary(text, room)
        } else {
            0
        };
        let (head, tail) = text.split_at(split);
        self.head.push_str(head);
        self.tail.push_str(tail);
        // Cut in large steps, so that the cost stays linear.
        if self.tail.len() > 2 * self.room {
            let cut = floor_boundary(&self.tail, self.tail.len() - self.room);
            self.hidden += cut;
            self.tail.drain(..cut);
        }
    }

    fn erase_line(&mut self) {
        let last = self.last();
        let start = last.rfind('\n').map_or(0, |at| at + 1);
        last.truncate(start);
    }

    fn erase_char(&mut self) {
        let last = self.last();
        if !last.is_empty() && !last.ends_with('\n') {
            last.pop();
        }
    }

    fn shown(&self) -> String {
        let over = self.tail.len().saturating_sub(self.room);
        let cut = if self.hidden > 0 {
            floor_boundary(&self.tail, over)
        } else {
            0
        };
        let hidden = self.hidden + cut;
        if hidden == 0 {
            return format!("{}{}", self.head, self.tail);
        }
        format!(
            "{}\n[sponde: {hidden} bytes not kept here]\n{}",
            self.head,
            self.tail.get(cut..).unwrap_or_default()
        )
    }
}

/// The largest character boundary of `text` not above `at`.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at)
        .rev()
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::content::{ErrorContent, Stream};

    fn text(name: &str, text: &str) -> OutputEvent {
        OutputEvent::Stream(Stream {
            name: name.to_owned(),
            text: text.to_owned(),
        })
    }

    fn display(value: &str, id: Option<&str>) -> OutputEvent {
        OutputEvent::Display {
            data: MimeBundle::text(value),
            metadata: Map::new(),
            display_id: id.map(str::to_owned),
        }
    }

    fn shown(value: &str) -> Output {
        Output::display(MimeBundle::text(value), Map::new())
    }

    fn fold(events: impl IntoIterator<Item = OutputEvent>) -> Vec<Output> {
        let mut outputs = Outputs::default();
        for event in events {
            outputs.apply(&event);
        }
        outputs.to_notebook()
    }

    #[test]
    fn streams_merge_in_order() {
        assert_eq!(
            fold([
                text("stdout", "a"),
                text("stdout", "b\n"),
                text("stderr", "e"),
                text("stdout", "c")
            ]),
            [
                Output::stream("stdout", "ab\n"),
                Output::stream("stderr", "e"),
                Output::stream("stdout", "c")
            ]
        );
    }

    #[test]
    fn carriage_returns_and_backspaces_are_folded() {
        let cases: [(&[&str], &str); 7] = [
            (&["10%\r20%\r30%"], "30%"),
            (&["10%\r", "20%", "\r30%\n"], "30%\n"),
            (&["dos\r", "\nline\r\n"], "dos\nline\n"),
            (&["kept\nbar 1\rbar 2"], "kept\nbar 2"),
            (&["abc\u{8}\u{8}d"], "ad"),
            (&["\u{8}\u{8}x\n\u{8}y"], "x\ny"),
            (&["ends\r"], "ends"),
        ];
        for (chunks, expected) in cases {
            let events = chunks.iter().map(|chunk| text("stdout", chunk));
            assert_eq!(
                fold(events),
                [Output::stream("stdout", expected)],
                "{chunks:?}"
            );
        }
    }

    #[test]
    fn clearing_waits_when_asked() {
        let clear = |wait| OutputEvent::Clear { wait };
        assert_eq!(fold([text("stdout", "a"), clear(false)]), []);
        assert_eq!(
            fold([text("stdout", "a"), clear(true)]),
            [Output::stream("stdout", "a")]
        );
        assert_eq!(
            fold([
                text("stdout", "a"),
                clear(true),
                display("b", None),
                display("c", None)
            ]),
            [shown("b"), shown("c")]
        );
    }

    #[test]
    fn displays_are_updated_by_id() {
        let update = OutputEvent::Update {
            data: MimeBundle::text("new"),
            metadata: Map::new(),
            display_id: "d".to_owned(),
        };
        assert_eq!(
            fold([
                display("a", Some("d")),
                display("b", None),
                display("c", Some("d")),
                update
            ]),
            [shown("new"), shown("b"), shown("new")]
        );
    }

    #[test]
    fn errors_and_losses_are_outputs() {
        let error = OutputEvent::Error(ErrorContent {
            ename: "E".to_owned(),
            evalue: "v".to_owned(),
            traceback: vec!["t".to_owned()],
        });
        assert_eq!(
            fold([error, OutputEvent::Lost("gone".to_owned())]),
            [
                Output::error("E", "v", vec!["t".to_owned()]),
                Output::stream("stderr", "[sponde: gone]\n")
            ]
        );
    }

    #[test]
    fn a_flood_keeps_its_head_and_its_tail() {
        let mut outputs = Outputs::default();
        outputs.apply(&text("stdout", "first\n"));
        let chunk = "é".repeat(50_000);
        for _ in 0..200 {
            outputs.apply(&text("stdout", &chunk));
        }
        outputs.apply(&text("stdout", "\nlast\n"));
        let shown = outputs.to_notebook();
        let [Output::Stream { text, .. }] = &shown[..] else {
            panic!("{} outputs", shown.len());
        };
        assert!(text.starts_with("first\né"));
        assert!(text.ends_with("é\nlast\n"));
        assert!(text.len() < 3 * TEXT_KEPT, "{}", text.len());
        let hidden: usize = text
            .split_once("[sponde: ")
            .and_then(|(_, rest)| rest.split_once(" bytes not kept here]"))
            .and_then(|(number, _)| number.parse().ok())
            .unwrap();
        let note = format!("\n[sponde: {hidden} bytes not kept here]\n");
        assert_eq!(
            text.len() - note.len() + hidden,
            200 * chunk.len() + "first\n\nlast\n".len()
        );
    }

    #[test]
    fn outputs_without_number_are_bounded() {
        let shown = fold((0..COUNT_KEPT + 5).map(|n| display(&n.to_string(), None)));
        assert_eq!(shown.len(), COUNT_KEPT + 1);
        assert!(
            matches!(shown.last(), Some(Output::Stream { text, .. }) if text.contains("5 more outputs"))
        );
    }
}
