//! The queue of events between a session and its front end. The session never waits for the front end.
//!
//! Outputs are bounded in bytes ([`OPEN`], [`ALL`]). When too many wait they are dropped, and the cells that they belong
//! to are *behind*: the session sends the outputs of such a cell anew, from its transcript, as soon as the front end has
//! caught up and before the cell's end. So a front end that applies all events always arrives at what the notebook has.
//!
//! All other events are kept. Their number is bounded by what the front end and the model do, and fragments of one text
//! are joined once [`JOIN_FROM`] events wait.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Event, EventKind, OutputChange};
use crate::jupyter::nbformat::Output;

/// Bytes of outputs that wait since the last event that has a place among them. A single larger output passes alone.
const OPEN: usize = 16 << 20;
/// Bytes of all outputs that wait.
const ALL: usize = 64 << 20;
/// What an output costs besides its content.
const ENTRY: usize = 256;
/// So many events may wait before fragments of a text are joined.
const JOIN_FROM: usize = 64;

/// Where a session puts its events. Dropping it ends the queue.
#[derive(Debug)]
pub(in crate::agent) struct EventSender(Arc<Shared>);

/// Where a front end gets the events of a session. Dropping it ends the queue.
#[derive(Debug)]
pub struct EventReceiver(Arc<Shared>);

/// A queue of events.
pub(in crate::agent) fn queue() -> (EventSender, EventReceiver) {
    let shared = Arc::new(Shared::default());
    (EventSender(Arc::clone(&shared)), EventReceiver(shared))
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Entry>,
    /// Events at the front that keep their outputs: what follows them came after a cell's end.
    settled: usize,
    /// Bytes of the outputs among the settled events and of those behind them.
    settled_bytes: usize,
    open_bytes: usize,
    /// Cells whose outputs were dropped.
    behind: BTreeSet<String>,
    /// How many events the front end has taken.
    taken: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    kind: EventKind,
    /// Bytes of an output; other events cost nothing.
    bytes: usize,
    /// The cells that an output changes.
    cells: Vec<String>,
}

impl EventSender {
    /// Adds an event that is no output.
    pub(in crate::agent) fn tell(&self, kind: EventKind) {
        let mut waiting = self.0.lock();
        if let Some(kind) = waiting.join(kind) {
            waiting.push(kind, 0, Vec::new());
        }
        self.0.arrived.notify_one();
    }

    /// Adds an output of `cell`, which changes what `cells` show. It is dropped if they are all behind.
    pub(in crate::agent) fn output(&self, cell: String, cells: Vec<String>, change: OutputChange) {
        let mut waiting = self.0.lock();
        if cells.iter().all(|cell| waiting.behind.contains(cell)) {
            return;
        }
        let kind = EventKind::Output { cell, change };
        let bytes = kind.bytes() + ENTRY;
        let is_first = waiting.open_bytes == 0;
        if let Some(kind) = waiting.join(kind) {
            waiting.push(kind, bytes, cells);
        } else {
            waiting.open_bytes += bytes;
        }
        if waiting.open_bytes > OPEN && !is_first {
            let from = waiting.settled;
            waiting.drop_outputs(from);
        } else if waiting.open_bytes + waiting.settled_bytes > ALL && !is_first {
            waiting.drop_outputs(0);
        }
        self.0.arrived.notify_one();
    }

    /// Adds all that `cell` shows, which takes the place of what was dropped. It is not dropped again before what comes
    /// later is.
    pub(in crate::agent) fn resend(&self, cell: &str, changes: Vec<OutputChange>) {
        let mut waiting = self.0.lock();
        for change in changes {
            let cell = cell.to_owned();
            let kind = EventKind::Output {
                cell: cell.clone(),
                change,
            };
            let bytes = kind.bytes() + ENTRY;
            waiting.push(kind, bytes, vec![cell]);
        }
        waiting.settled = waiting.events.len();
        waiting.settled_bytes += std::mem::take(&mut waiting.open_bytes);
        self.0.arrived.notify_one();
    }

    /// Whether this cell is behind; it no longer is.
    pub(in crate::agent) fn take_behind(&self, cell: &str) -> bool {
        self.0.lock().behind.remove(cell)
    }

    /// The cells that are behind; they no longer are.
    pub(in crate::agent) fn take_all_behind(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.0.lock().behind)
    }

    /// Waits until the front end has taken everything while cells are behind. Cancel-safe.
    pub(in crate::agent) async fn caught_up(&self) {
        loop {
            let emptied = self.0.emptied.notified();
            {
                let waiting = self.0.lock();
                if waiting.events.is_empty() && !waiting.behind.is_empty() && !waiting.is_closed {
                    return;
                }
            }
            emptied.await;
        }
    }
}

impl EventReceiver {
    /// The next event; `None` when the session has ended. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            let arrived = self.0.arrived.notified();
            {
                let mut waiting = self.0.lock();
                if let Some(event) = waiting.pop() {
                    if waiting.events.is_empty() {
                        self.0.emptied.notify_one();
                    }
                    return Some(event);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

impl Waiting {
    fn push(&mut self, kind: EventKind, bytes: usize, cells: Vec<String>) {
        if self.is_closed {
            return;
        }
        self.open_bytes += bytes;
        self.events.push_back(Entry { kind, bytes, cells });
    }

    fn pop(&mut self) -> Option<Event> {
        let entry = self.events.pop_front()?;
        if self.settled > 0 {
            self.settled -= 1;
            self.settled_bytes -= entry.bytes;
        } else {
            self.open_bytes -= entry.bytes;
        }
        self.taken += 1;
        Some(Event {
            sequence: self.taken,
            kind: entry.kind,
        })
    }

    /// Appends the text of `new` to the last event if that is the same text's; else gives it back.
    fn join(&mut self, new: EventKind) -> Option<EventKind> {
        if self.events.len() < JOIN_FROM.max(self.settled + 1) {
            return Some(new);
        }
        let bytes = new.bytes() + ENTRY;
        let Some(last) = self.events.back_mut() else {
            return Some(new);
        };
        match (&mut last.kind, new) {
            (
                EventKind::Text { cell, text },
                EventKind::Text {
                    cell: of,
                    text: more,
                },
            )
            | (
                EventKind::CodeDelta { cell, text },
                EventKind::CodeDelta {
                    cell: of,
                    text: more,
                },
            ) if *cell == of => text.push_str(&more),
            (EventKind::Reasoning { text }, EventKind::Reasoning { text: more }) => {
                text.push_str(&more);
            }
            (
                EventKind::Output {
                    cell,
                    change:
                        OutputChange::Append {
                            output: Output::Stream { name, text, .. },
                            ..
                        },
                },
                EventKind::Output {
                    cell: of,
                    change:
                        OutputChange::Append {
                            output:
                                Output::Stream {
                                    name: new_name,
                                    text: more,
                                    ..
                                },
                            ..
                        },
                },
            ) if *cell == of && *name == new_name => {
                text.push_str(&more);
                last.bytes += bytes;
            }
            (_, new) => return Some(new),
        }
        None
    }

    /// Drops the outputs among the events from the one at `from` on.
    fn drop_outputs(&mut self, from: usize) {
        let mut kept = self.events.split_off(from);
        kept.retain(|entry| {
            let stays = entry.bytes == 0;
            if !stays {
                self.behind.extend(entry.cells.iter().cloned());
            }
            stays
        });
        self.open_bytes = 0;
        if from == 0 {
            self.settled = 0;
            self.settled_bytes = 0;
        }
        self.events.append(&mut kept);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) -> MutexGuard<'_, Waiting> {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        self.arrived.notify_one();
        waiting
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        drop(self.0.close());
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        self.0.close().events.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::nbformat::Output;

    fn text(text: &str) -> OutputChange {
        OutputChange::Append {
            output: Output::stream("stdout", text),
            display_id: None,
        }
    }

    fn put(sender: &EventSender, cell: &str, change: OutputChange) {
        sender.output(cell.to_owned(), vec![cell.to_owned()], change);
    }

    fn notice(message: &str) -> EventKind {
        EventKind::Notice {
            message: message.to_owned(),
        }
    }

    fn output(cell: &str, change: OutputChange) -> EventKind {
        let cell = cell.to_owned();
        EventKind::Output { cell, change }
    }

    async fn all(receiver: &mut EventReceiver, sender: EventSender) -> Vec<EventKind> {
        drop(sender);
        let taken = receiver.0.lock().taken;
        let mut kinds = Vec::new();
        while let Some(event) = receiver.recv().await {
            kinds.push(event.kind);
            let number = taken + kinds.len() as u64;
            assert_eq!(event.sequence, number, "no gap in the numbers");
        }
        kinds
    }

    #[tokio::test]
    async fn few_events_arrive_as_they_were_told() {
        let (sender, mut receiver) = queue();
        put(&sender, "a", text("1"));
        put(&sender, "a", text("2"));
        sender.tell(notice("n"));
        let expected = [output("a", text("1")), output("a", text("2")), notice("n")];
        assert_eq!(all(&mut receiver, sender).await, expected);
    }

    #[tokio::test]
    async fn nothing_is_lost_when_fragments_are_joined() {
        let (sender, mut receiver) = queue();
        let mut expected = String::new();
        for number in 0..10 * JOIN_FROM {
            let line = format!("{number} ");
            put(&sender, "a", text(&line));
            expected.push_str(&line);
        }
        put(&sender, "b", text("other"));
        let kinds = all(&mut receiver, sender).await;
        assert_eq!(kinds.len(), JOIN_FROM + 1);
        let joined: String = kinds
            .iter()
            .filter_map(|kind| match kind {
                EventKind::Output {
                    cell,
                    change:
                        OutputChange::Append {
                            output: Output::Stream { text, .. },
                            ..
                        },
                } if cell == "a" => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(joined, expected);
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_sent_anew() {
        let (sender, mut receiver) = queue();
        put(&sender, "a", text("seen"));
        assert!(receiver.recv().await.is_some());
        let block = "x".repeat(1 << 20);
        for _ in 0..100 {
            put(&sender, "a", text(&block));
            let waiting = sender.0.lock();
            assert!(waiting.open_bytes + waiting.settled_bytes <= OPEN);
        }
        sender.tell(notice("kept"));
        put(&sender, "b", text("of another cell"));
        assert_eq!(receiver.recv().await.unwrap().kind, notice("kept"));
        let mut caught_up = Box::pin(sender.caught_up());
        let early = futures_util::poll!(&mut caught_up);
        assert!(early.is_pending(), "one event still waits");
        assert!(receiver.recv().await.is_some());
        caught_up.await;
        assert_eq!(sender.take_all_behind(), BTreeSet::from(["a".to_owned()]));
        let clear = OutputChange::Clear { wait: false };
        sender.resend("a", vec![clear.clone(), text("all")]);
        put(&sender, "a", text("more"));
        let expected = [clear, text("all"), text("more")].map(|change| output("a", change));
        assert_eq!(all(&mut receiver, sender).await, expected);
    }

    #[tokio::test]
    async fn a_single_large_output_passes() {
        let (sender, mut receiver) = queue();
        let large = text(&"x".repeat(2 * OPEN));
        put(&sender, "a", large.clone());
        assert_eq!(all(&mut receiver, sender).await, [output("a", large)]);
    }

    #[tokio::test]
    async fn a_display_is_updated_as_long_as_one_of_its_cells_is_not_behind() {
        let (sender, mut receiver) = queue();
        let block = "x".repeat(OPEN / 2);
        for _ in 0..3 {
            put(&sender, "a", text(&block));
        }
        let update = OutputChange::Update {
            display_id: "d".to_owned(),
            data: crate::jupyter::mime::MimeBundle::default(),
            metadata: serde_json::Map::new(),
        };
        let cells = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
        sender.output("a".to_owned(), cells(&["a"]), update.clone());
        sender.output("a".to_owned(), cells(&["a", "b"]), update.clone());
        assert!(sender.take_behind("a"));
        assert!(!sender.take_behind("b"));
        assert_eq!(all(&mut receiver, sender).await, [output("a", update)]);
    }

    #[tokio::test]
    async fn a_front_end_that_went_away_keeps_nothing() {
        let (sender, receiver) = queue();
        put(&sender, "a", text("1"));
        drop(receiver);
        sender.tell(notice("n"));
        assert!(sender.0.lock().events.is_empty());
    }
}
