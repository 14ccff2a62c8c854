//! The newest items of a session, for any number of subscribers, each at its own pace.
//!
//! The session appends and never waits. An edit that continues the previous one (text of a reply, of an output stream)
//! is joined to it while no subscriber has seen that one: such output is *announced* at most every [`ANNOUNCE_EVERY`],
//! except the first after a pause, which is announced at once like every other item. The oldest items are dropped when
//! the log exceeds its bound; a subscriber that still needed them is [behind](Next::Behind).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Body, Item, ItemId};
use crate::session::{Edit, journal};

/// Minimum interval between announcements of text.
pub const ANNOUNCE_EVERY: Duration = Duration::from_millis(50);
/// Approximate bytes of items kept for subscribers. A single larger item stays until the next arrives.
const BYTES: usize = 16 << 20;
/// Maximum items kept.
const ITEMS: usize = 20_000;
/// Maximum items that a subscriber takes at once.
const TOGETHER: usize = 256;
/// Bytes of an item besides its text.
const ITEM_BYTES: usize = 256;

/// A session's log; clones share it.
#[derive(Debug, Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    epoch: u64,
    items: Mutex<Items>,
    /// The sequence of the newest item that subscribers may read; [`CLOSED`] only after the last item.
    announced: watch::Sender<Announced>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Announced {
    sequence: u64,
    closed: bool,
}

#[derive(Debug)]
struct Items {
    kept: VecDeque<(Arc<Item>, usize)>,
    bytes: usize,
    /// The sequence of the newest item.
    newest: u64,
    /// When output was last announced; `None` before the first.
    output_at: Option<Instant>,
    /// Whether the unannounced items include output.
    has_output: bool,
}

/// What a subscriber at a position gets next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The item after that position.
    Item(Arc<Item>),
    /// The items after that position are gone: take a new snapshot.
    Behind,
    /// The session has ended, and all items were read.
    Closed,
}

impl Log {
    /// An empty log.
    pub fn new(epoch: u64) -> Self {
        let items = Items {
            kept: VecDeque::new(),
            bytes: 0,
            newest: 0,
            output_at: None,
            has_output: false,
        };
        Self {
            shared: Arc::new(Shared {
                epoch,
                items: Mutex::new(items),
                announced: watch::Sender::new(Announced {
                    sequence: 0,
                    closed: false,
                }),
            }),
        }
    }

    /// Appends an item that stays invisible until the next one is [announced](Self::announce).
    pub fn append_quietly(&self, body: Body) {
        let mut items = self.items();
        let announced = self.shared.announced.borrow().sequence;
        items.has_output |= can_be_joined(&body);
        if let Some(body) = items.join(body, announced) {
            items.push(self.shared.epoch, body);
        }
    }

    /// Appends an item. Returns when it must be [announced](Self::announce); `None` if it already was.
    pub fn append(&self, body: Body) -> Option<Instant> {
        let mut items = self.items();
        let announced = self.shared.announced.borrow().sequence;
        let can_wait = can_be_joined(&body);
        items.has_output |= can_wait;
        if let Some(body) = items.join(body, announced) {
            items.push(self.shared.epoch, body);
        }
        let due = items.output_at.map(|at| at + ANNOUNCE_EVERY);
        match due {
            Some(due) if can_wait && Instant::now() < due => Some(due),
            _ => {
                self.announce_all(items);
                None
            }
        }
    }

    /// Makes all appended items visible to subscribers.
    pub fn announce(&self) {
        self.announce_all(self.items());
    }

    /// Marks the end of the stream.
    pub fn close(&self) {
        self.announce();
        self.shared.announced.send_modify(|it| it.closed = true);
    }

    /// The newest item visible to subscribers.
    pub fn newest(&self) -> ItemId {
        ItemId {
            epoch: self.shared.epoch,
            sequence: self.shared.announced.borrow().sequence,
        }
    }

    /// The newest item, visible to subscribers or not.
    pub fn appended(&self) -> ItemId {
        ItemId {
            epoch: self.shared.epoch,
            sequence: self.items().newest,
        }
    }

    /// Whether a subscriber with all items up to `after` can continue without a snapshot.
    pub fn reaches(&self, after: ItemId) -> bool {
        let items = self.items();
        after.epoch == self.shared.epoch
            && after.sequence <= items.newest
            && after.sequence + 1 >= items.oldest()
    }

    /// Waits for the item after `position`, a sequence of this epoch. Cancel-safe.
    pub async fn next(&self, position: u64) -> Next {
        let mut announced = self.shared.announced.subscribe();
        loop {
            let now = *announced.borrow_and_update();
            if now.sequence > position {
                let items = self.items();
                return match items.get(position + 1) {
                    Some(item) => Next::Item(item),
                    None => Next::Behind,
                };
            }
            if now.closed || announced.changed().await.is_err() {
                return Next::Closed;
            }
        }
    }

    /// The items after `position` that are there now: at most [`TOGETHER`], and about `bytes` of them.
    pub fn ready(&self, position: u64, bytes: usize) -> Vec<Arc<Item>> {
        let announced = self.shared.announced.borrow().sequence;
        let items = self.items();
        let Some(from) = (position + 1).checked_sub(items.oldest()) else {
            return Vec::new();
        };
        let Ok(from) = usize::try_from(from) else {
            return Vec::new();
        };
        let mut room = bytes;
        let fits = |(item, bytes): &&(Arc<Item>, usize)| {
            let fits = item.id.sequence <= announced && room >= *bytes;
            room = room.saturating_sub(*bytes);
            fits
        };
        let after = items.kept.range(from.min(items.kept.len())..);
        let ready = after.take(TOGETHER).take_while(fits);
        ready.map(|(item, _)| Arc::clone(item)).collect()
    }

    fn announce_all(&self, mut items: MutexGuard<'_, Items>) {
        if std::mem::take(&mut items.has_output) {
            items.output_at = Some(Instant::now());
        }
        let newest = items.newest;
        drop(items);
        self.shared.announced.send_if_modified(|it| {
            let is_new = it.sequence < newest;
            it.sequence = it.sequence.max(newest);
            is_new
        });
    }

    fn items(&self) -> MutexGuard<'_, Items> {
        // Consistent after every change, even after a panic.
        self.shared
            .items
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Items {
    /// Joins `body` to the newest item if that is not yet visible and both form one edit; otherwise returns it.
    fn join(&mut self, body: Body, announced: u64) -> Option<Body> {
        if self.newest <= announced {
            return Some(body);
        }
        let last = self.kept.back_mut();
        let Some((Some(item), bytes)) = last.map(|(item, bytes)| (Arc::get_mut(item), bytes))
        else {
            return Some(body);
        };
        let Body::Edit { revision, by, edit } = body else {
            return Some(body);
        };
        match &mut item.body {
            Body::Edit {
                revision: of_last,
                by: by_last,
                edit: last,
            } if *by_last == by && journal::joins(last, &edit) => {
                *of_last = revision;
                let more = weight(&edit);
                *bytes += more;
                self.bytes += more;
                // The two join, so nothing is returned.
                let _ = journal::join(last, edit);
                None
            }
            _ => Some(Body::Edit { revision, by, edit }),
        }
    }

    fn push(&mut self, epoch: u64, body: Body) {
        self.newest += 1;
        let bytes = ITEM_BYTES
            + match &body {
                Body::Edit { edit, .. } => weight(edit),
                Body::Event { event } => event.bytes(),
            };
        let id = ItemId {
            epoch,
            sequence: self.newest,
        };
        self.bytes += bytes;
        self.kept.push_back((Arc::new(Item { id, body }), bytes));
        while self.kept.len() > 1 && (self.bytes > BYTES || self.kept.len() > ITEMS) {
            if let Some((_, bytes)) = self.kept.pop_front() {
                self.bytes -= bytes;
            }
        }
    }

    /// The sequence of the oldest item that is kept.
    fn oldest(&self) -> u64 {
        self.newest + 1 - self.kept.len() as u64
    }

    fn get(&self, sequence: u64) -> Option<Arc<Item>> {
        let index = sequence.checked_sub(self.oldest())?;
        let index = usize::try_from(index).ok()?;
        self.kept.get(index).map(|(item, _)| Arc::clone(item))
    }
}

/// Output that may be followed by more immediately. A model's text arrives at reading pace.
fn can_be_joined(body: &Body) -> bool {
    use crate::kernel::OutputEvent;
    matches!(
        body,
        Body::Edit {
            edit: Edit::Emit {
                output: OutputEvent::Stream(_)
                    | OutputEvent::Update { .. }
                    | OutputEvent::Clear { .. },
                ..
            },
            ..
        }
    )
}

/// Approximate bytes of an edit in memory.
fn weight(edit: &Edit) -> usize {
    match edit {
        Edit::Say { text, .. }
        | Edit::Note { text, .. }
        | Edit::Hint { text, .. }
        | Edit::AppendText { text, .. }
        | Edit::Compact { text, .. } => text.len(),
        Edit::Propose { source, .. } | Edit::Change { source, .. } => source.len(),
        Edit::Emit { output, .. } => output_bytes(output),
        Edit::Read { reading, .. } => reading.answer.len(),
        Edit::Reload(notebook) => notebook
            .cells
            .iter()
            .map(|cell| 1024 + cell.source.len())
            .sum(),
        _ => 0,
    }
}

fn output_bytes(output: &crate::kernel::OutputEvent) -> usize {
    use crate::kernel::OutputEvent;
    let bundle = |data: &crate::jupyter::mime::MimeBundle| -> usize {
        data.iter()
            .map(|(_, value)| value.as_str().map_or(64 << 10, str::len))
            .sum()
    };
    match output {
        OutputEvent::Stream(stream) => stream.text.len(),
        OutputEvent::Display { data, .. }
        | OutputEvent::Result { data, .. }
        | OutputEvent::Update { data, .. } => bundle(data),
        OutputEvent::Error(error) => {
            error.evalue.len() + error.traceback.iter().map(String::len).sum::<usize>()
        }
        OutputEvent::Clear { .. } => 0,
        OutputEvent::Lost(what) => what.len(),
    }
}
