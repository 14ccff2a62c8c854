//! The newest items of a session, for any number of subscribers at their own pace.
//!
//! The session appends and never waits. Edits that continue the one before (text of a reply, of an output stream) are
//! joined while nobody has seen that one: such output is *announced* at most every [`ANNOUNCE_EVERY`], the first after a pause at
//! once, and every other item at once. Old items go when the log is over its bound; a subscriber that still wanted them is
//! [behind](Next::Behind).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Body, Item, ItemId};
use crate::session::{Edit, journal};

/// Text is announced at most this often.
pub const ANNOUNCE_EVERY: Duration = Duration::from_millis(50);
/// Bytes of the items that are kept for subscribers, roughly. One larger item stays until the next comes.
const BYTES: usize = 16 << 20;
/// How many items are kept.
const ITEMS: usize = 20_000;
/// Bytes that an item takes besides its text.
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
    /// The sequence of the newest item that subscribers may read; [`CLOSED`] is never sent before the last item.
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
    /// When output was announced last; `None` before the first.
    output_at: Option<Instant>,
    /// Whether output is among what nobody has seen.
    has_output: bool,
}

/// What a subscriber at some position gets next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The item behind that position.
    Item(Arc<Item>),
    /// Items behind that position are gone: take a new snapshot.
    Behind,
    /// The session has ended, and every item was read.
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

    /// Appends an item that nobody sees before the next one is [announced](Self::announce).
    pub fn append_quietly(&self, body: Body) {
        let mut items = self.items();
        let announced = self.shared.announced.borrow().sequence;
        items.has_output |= can_be_joined(&body);
        if let Some(body) = items.join(body, announced) {
            items.push(self.shared.epoch, body);
        }
    }

    /// Appends an item. Returns when it must be [announced](Self::announce), `None` if it was.
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

    /// Lets subscribers read all that was appended.
    pub fn announce(&self) {
        self.announce_all(self.items());
    }

    /// No more items will come.
    pub fn close(&self) {
        self.announce();
        self.shared.announced.send_modify(|it| it.closed = true);
    }

    /// The newest item that subscribers may read.
    pub fn newest(&self) -> ItemId {
        ItemId {
            epoch: self.shared.epoch,
            sequence: self.shared.announced.borrow().sequence,
        }
    }

    /// The newest item, whether subscribers may read it or not yet.
    pub fn appended(&self) -> ItemId {
        ItemId {
            epoch: self.shared.epoch,
            sequence: self.items().newest,
        }
    }

    /// Whether somebody who has all items up to `after` can go on without a snapshot.
    pub fn reaches(&self, after: ItemId) -> bool {
        let items = self.items();
        after.epoch == self.shared.epoch
            && after.sequence <= items.newest
            && after.sequence + 1 >= items.oldest()
    }

    /// Waits for the item behind `position`, a sequence of this epoch. Can be cancelled.
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
        // Whole after every change, also after a panic.
        self.shared
            .items
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Items {
    /// Adds `body` to the newest item if nobody has seen that one and both are one edit; gives it back if not.
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
                // It joins, so nothing comes back.
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

/// Output that more may follow at once. The words of a model come at the pace of reading.
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

/// Bytes of an edit in memory, roughly.
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
