//! Output events -> the outputs of a cell, as a notebook stores them (messaging spec, "Messages on the IOPub channel").
//!
//! Consecutive text of one stream is merged; `\r` restarts the line and `\b` deletes a character, so that progress bars
//! leave their last state; `clear_output(wait=True)` clears when the next output arrives; displays with an id can be
//! updated later.
//!
//! Memory is bounded in two steps, so that a caller can write the whole output to files in between: [`Outputs::apply`]
//! takes an event whole, and [`Outputs::cut`] brings the outputs back under the limits. It keeps the beginning and the
//! end, and puts a line between them that says how much is missing and where it is. A large display keeps its short
//! representations.

mod cut;
mod restored;
mod stored;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::limits::{CellLimits, Whole};
use crate::jupyter::mime::{self, MimeBundle};
use crate::jupyter::nbformat::Output;
use crate::kernel::OutputEvent;
use text::stream_name;
pub(crate) use text::{Text, floor_boundary};

/// Total bytes of representations kept from a display that is too large.
const SHORT: usize = 8 << 10;
/// Memory cost of a JSON value, and the extra cost of an object entry.
const VALUE: usize = 32;
const ENTRY: usize = 96;
/// Extra cost of a line: a notebook file stores each line as its own string.
const LINE: usize = 12;

/// The outputs of one cell, while they come and afterwards.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "stored::Outputs")]
pub struct Outputs {
    items: Vec<Item>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    clear_on_next: bool,
    #[serde(skip)]
    kept: Kept,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
    #[serde(skip_serializing_if = "Whole::is_here")]
    whole: Whole,
}

/// The size of what is kept, as the limits measure it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    text: usize,
    rich: usize,
    images: usize,
}

/// What is missing, and in front of which item it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Cut {
    at: usize,
    bytes: usize,
    outputs: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Item {
    Text(Text),
    Rich(Box<Rich>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Rich {
    output: Output,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    display_id: Option<String>,
    #[serde(skip)]
    kept: Kept,
}

/// One output, borrowed, as far as it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// Text of a stream; `open` if it ends in a pending `\r`.
    Text {
        name: &'static str,
        text: &'a str,
        open: bool,
    },
    /// Any other output.
    Rich {
        output: &'a Output,
        display_id: Option<&'a str>,
    },
}

impl Outputs {
    /// Applies one event of this cell's own execution in full. Display updates go to all cells instead:
    /// [`Outputs::update`].
    pub fn apply(&mut self, event: &OutputEvent) {
        match event {
            OutputEvent::Clear { wait: true } => self.clear_on_next = true,
            OutputEvent::Clear { wait: false } => self.clear(),
            OutputEvent::Update {
                data,
                metadata,
                display_id,
            } => {
                self.update(display_id, data, metadata);
            }
            OutputEvent::Stream(stream) => self.push_text(&stream.name, &stream.text),
            OutputEvent::Lost(what) => self.push_text("stderr", &format!("[sponde: {what}]\n")),
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

    /// Replaces the data of every display named `display_id`. Returns whether there is one.
    pub fn update(
        &mut self,
        display_id: &str,
        new: &MimeBundle,
        new_metadata: &Map<String, Value>,
    ) -> bool {
        let mut found = false;
        for item in &mut self.items {
            let Item::Rich(rich) = item else {
                continue;
            };
            if rich.display_id.as_deref() != Some(display_id) {
                continue;
            }
            if let Output::DisplayData { data, metadata, .. }
            | Output::ExecuteResult { data, metadata, .. } = &mut rich.output
            {
                found = true;
                data.clone_from(new);
                metadata.clone_from(new_metadata);
                self.kept.take(rich.kept);
                rich.kept = Kept::of(&rich.output, rich.display_id.as_deref());
                self.kept.add(rich.kept);
            }
        }
        found
    }

    /// The outputs as the notebook stores them.
    pub fn to_notebook(&self) -> Vec<Output> {
        self.clone().into_notebook()
    }

    /// Like [`Outputs::to_notebook`], without a copy.
    pub fn into_notebook(self) -> Vec<Output> {
        let named = self.into_named();
        named.into_iter().map(|(output, _)| output).collect()
    }

    /// The outputs for a follower that continues from here: each with its display id, and whether the next output
    /// clears them.
    pub(crate) fn to_events(&self) -> (Vec<(Output, Option<String>)>, bool) {
        let mut outputs = self.clone().into_named();
        if let (Some(Item::Text(last)), Some((Output::Stream { text, .. }, _))) =
            (self.items.last(), outputs.last_mut())
            && last.carriage_return
        {
            text.push('\r');
        }
        (outputs, self.clear_on_next)
    }

    fn into_named(self) -> Vec<(Output, Option<String>)> {
        let note = self.note();
        let at = self.cut.map_or(usize::MAX, |cut| cut.at);
        let last = self.items.len();
        let mut outputs: Vec<(Output, Option<String>)> = Vec::with_capacity(last + 1);
        let mut noted = note.is_none();
        for (index, item) in self.items.into_iter().enumerate() {
            if index >= at && !noted {
                noted = true;
                // Text that was cut in the middle is still one output.
                if let (Some((Output::Stream { name, text, .. }, _)), Item::Text(tail)) =
                    (outputs.last_mut(), &item)
                    && name == tail.name
                {
                    let line = note.as_deref().unwrap_or_default();
                    text.extend(["\n", line, "\n", &tail.shown]);
                    continue;
                }
                push_note(&mut outputs, note.as_deref());
            }
            outputs.push(match item {
                Item::Text(text) => (Output::stream(text.name, text.shown), None),
                Item::Rich(rich) => (rich.output, rich.display_id),
            });
        }
        if !noted {
            push_note(&mut outputs, note.as_deref());
        }
        outputs
    }

    /// The output at this index of [`Outputs::to_notebook`].
    pub fn nth(&self, index: usize) -> Option<Output> {
        if self.cut.is_some() {
            return self.to_notebook().into_iter().nth(index);
        }
        Some(match self.items.get(index)? {
            Item::Text(text) => Output::stream(text.name, text.shown.clone()),
            Item::Rich(rich) => rich.output.clone(),
        })
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.cut.is_none()
    }

    /// Where all of the output is.
    pub fn whole(&self) -> &Whole {
        &self.whole
    }

    /// Whether something is missing.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Kept bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.text + self.kept.rich
    }

    /// Whether [`Outputs::cut`] would remove anything.
    pub(crate) fn is_over(&self, limits: &CellLimits) -> bool {
        let Kept { text, rich, images } = self.kept;
        text > limits.text
            || rich > limits.rich
            || text + rich > limits.both
            || images > limits.images
            || self.items.len() > limits.outputs
    }

    /// The ids of displays that can be updated.
    pub(crate) fn display_ids(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            Item::Rich(rich) => rich.display_id.as_deref(),
            Item::Text(_) => None,
        })
    }

    /// The outputs one by one, as far as they are kept.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.items.iter().map(|item| match item {
            Item::Text(text) => Piece::Text {
                name: text.name,
                text: &text.shown,
                open: text.carriage_return,
            },
            Item::Rich(rich) => Piece::Rich {
                output: &rich.output,
                display_id: rich.display_id.as_deref(),
            },
        })
    }

    /// The line that says what is missing.
    fn note(&self) -> Option<String> {
        let cut = self.cut?;
        let outputs = match cut.outputs {
            0 => String::new(),
            1 => " and 1 output".to_owned(),
            many => format!(" and {many} outputs"),
        };
        Some(format!(
            "[sponde: {} bytes{outputs} not kept here{}]",
            cut.bytes,
            self.whole.for_notebook()
        ))
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
        self.clear_if_due();
        let name = stream_name(name);
        // The kept beginning is not appended to.
        let free = self.cut.map_or(0, |cut| cut.at);
        let last = self.items.len().checked_sub(1).filter(|&last| last >= free);
        let merges = last.and_then(|last| self.items.get(last));
        if !matches!(merges, Some(Item::Text(last)) if last.name == name) {
            self.items.push(Item::Text(Text::new(name)));
        }
        if let Some(Item::Text(last)) = self.items.last_mut() {
            let before = last.shown.len();
            last.push(text);
            self.kept.text = self.kept.text.saturating_sub(before) + last.shown.len();
        }
    }

    fn push_rich(&mut self, output: Output, display_id: Option<String>) {
        self.clear_if_due();
        let kept = Kept::of(&output, display_id.as_deref());
        self.kept.add(kept);
        self.items.push(Item::Rich(Box::new(Rich {
            output,
            display_id,
            kept,
        })));
    }
}

fn push_note(outputs: &mut Vec<(Output, Option<String>)>, note: Option<&str>) {
    outputs.extend(note.map(|note| (Output::stream("stderr", format!("{note}\n")), None)));
}

impl Item {
    fn kept(&self) -> Kept {
        match self {
            Self::Text(text) => Kept {
                text: text.shown.len(),
                ..Kept::default()
            },
            Self::Rich(rich) => rich.kept,
        }
    }
}

impl Rich {
    /// Drops the representations for which `stays` returns false, given MIME type and weight; an error keeps its
    /// message and the end of its traceback. Returns the bytes removed.
    fn shorten(&mut self, stays: impl Fn(&str, usize) -> bool) -> usize {
        let mut gone = 0;
        match &mut self.output {
            Output::DisplayData { data, metadata, .. }
            | Output::ExecuteResult { data, metadata, .. } => {
                let all = std::mem::take(data);
                *data = all
                    .into_iter()
                    .filter(|(mime, value)| {
                        let stays = stays(mime, weight(value));
                        if !stays {
                            gone += length(value);
                        }
                        stays
                    })
                    .collect();
                gone += metadata.values().map(length).sum::<usize>();
                *metadata = Map::new();
            }
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } => {
                let mut room = SHORT / 2;
                let lines = traceback.iter().rev();
                let kept = lines.take_while(|line| {
                    let fits = line.len() + VALUE <= room;
                    room = room.saturating_sub(line.len() + VALUE);
                    fits
                });
                let start = traceback.len() - kept.count();
                gone += traceback
                    .drain(..start)
                    .map(|line| line.len())
                    .sum::<usize>();
                for text in [ename, evalue] {
                    let end = floor_boundary(text, SHORT / 8);
                    gone += text.len() - end;
                    text.truncate(end);
                    text.shrink_to_fit();
                }
            }
            Output::Stream { .. } | Output::Other(_) => {}
        }
        self.display_id = self.display_id.take().filter(|id| id.len() <= SHORT / 4);
        self.kept = Kept::of(&self.output, self.display_id.as_deref());
        gone
    }
}

impl Kept {
    fn of(output: &Output, display_id: Option<&str>) -> Self {
        let id = display_id.map_or(0, str::len);
        match output {
            Output::DisplayData { data, metadata, .. }
            | Output::ExecuteResult { data, metadata, .. } => Self {
                text: 0,
                rich: id + object_weight(data.as_map()) + object_weight(metadata),
                images: usize::from(data.iter().any(|(mime, _)| mime::is_base64_image(mime))),
            },
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } => Self {
                text: ename.len()
                    + evalue.len()
                    + traceback
                        .iter()
                        .map(|line| line.len() + VALUE)
                        .sum::<usize>(),
                ..Self::default()
            },
            Output::Stream { text, .. } => Self {
                text: text.len(),
                ..Self::default()
            },
            Output::Other(value) => Self {
                rich: weight(value),
                ..Self::default()
            },
        }
    }

    fn add(&mut self, other: Self) {
        self.text += other.text;
        self.rich += other.rich;
        self.images += other.images;
    }

    fn take(&mut self, other: Self) {
        self.text = self.text.saturating_sub(other.text);
        self.rich = self.rich.saturating_sub(other.rich);
        self.images = self.images.saturating_sub(other.images);
    }
}

/// The cost of a value, in memory or in the notebook file.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE,
        Value::String(text) => {
            VALUE + text.len() + LINE * text.bytes().filter(|&byte| byte == b'\n').count()
        }
        Value::Array(values) => VALUE + values.iter().map(weight).sum::<usize>(),
        Value::Object(object) => VALUE + object_weight(object),
    }
}

fn object_weight(object: &Map<String, Value>) -> usize {
    object
        .iter()
        .map(|(name, value)| ENTRY + name.len() + weight(value))
        .sum()
}

/// Bytes of the text in a value, which is most of its size.
fn length(value: &Value) -> usize {
    value.as_str().map_or_else(|| weight(value), str::len)
}

#[cfg(test)]
mod tests;
