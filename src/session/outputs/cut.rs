//! Brings outputs under their limits: the beginning is kept, then the oldest outputs are removed first.

use super::{Cut, Item, Kept, Outputs, SHORT, Text, floor_boundary};
use crate::session::limits::{CellLimits, Whole};

impl Outputs {
    /// Brings the outputs under the limits, and records where the complete output is.
    pub(crate) fn cut(&mut self, limits: &CellLimits, whole: Whole) {
        if self.is_over(limits) {
            if self.cut.is_none() {
                self.end_head(limits);
            }
            self.cut_rich(limits);
            self.cut_images(limits);
            self.cut_text(limits);
            self.cut_count(limits);
        }
        if self.cut.is_some() {
            self.whole = whole;
        }
    }

    /// Fixes the beginning that is kept: half of each limit.
    fn end_head(&mut self, limits: &CellLimits) {
        let mut sum = Kept::default();
        let mut at = 0;
        while let Some(item) = self.items.get(at) {
            let kept = item.kept();
            if at >= limits.outputs / 2
                || sum.rich + kept.rich > limits.rich / 2
                || sum.images + kept.images > limits.images.div_ceil(2)
            {
                break;
            }
            if sum.text + kept.text > limits.text / 2 {
                if let Some(Item::Text(text)) = self.items.get_mut(at) {
                    let split = floor_boundary(&text.shown, limits.text / 2 - sum.text);
                    let rest = text.shown.split_off(split);
                    text.shown.shrink_to_fit();
                    let rest = Text {
                        name: text.name,
                        shown: rest,
                        carriage_return: std::mem::take(&mut text.carriage_return),
                    };
                    at += 1;
                    self.items.insert(at, Item::Text(rest));
                }
                break;
            }
            sum.add(kept);
            at += 1;
        }
        self.cut = Some(Cut {
            at,
            ..Cut::default()
        });
    }

    /// Reduces the oldest large outputs after the beginning to their short representations.
    fn cut_rich(&mut self, limits: &CellLimits) {
        let Some(cut) = &mut self.cut else { return };
        let rich = limits.rich.min(limits.both.saturating_sub(limits.text / 2));
        // Outputs before the cut can grow through updates, so they are shortened last.
        let at = cut.at.min(self.items.len());
        let (head, tail) = self.items.split_at_mut(at);
        for item in tail.iter_mut().chain(head) {
            if self.kept.rich <= rich {
                break;
            }
            if let Item::Rich(output) = item
                && output.kept.rich > SHORT
            {
                self.kept.take(output.kept);
                cut.bytes += output.shorten(|_, weight| weight <= SHORT / 4);
                self.kept.add(output.kept);
            }
        }
        if self.kept.rich > rich {
            // Too many short representations.
            let spare = self.kept.rich - rich + rich / 4;
            self.remove(|kept, gone| gone.rich < spare && kept.rich > 0);
        }
    }

    fn cut_images(&mut self, limits: &CellLimits) {
        let Some(cut) = &mut self.cut else { return };
        let at = cut.at.min(self.items.len());
        let (head, tail) = self.items.split_at_mut(at);
        for item in tail.iter_mut().chain(head) {
            if self.kept.images <= limits.images {
                break;
            }
            if let Item::Rich(output) = item
                && output.kept.images > 0
            {
                self.kept.take(output.kept);
                cut.bytes += output
                    .shorten(|mime, weight| !mime.starts_with("image/") && weight <= SHORT / 4);
                self.kept.add(output.kept);
            }
        }
    }

    /// Cuts in large steps, so that the total cost stays linear.
    fn cut_text(&mut self, limits: &CellLimits) {
        let limit = limits.text.min(limits.both.saturating_sub(self.kept.rich));
        let limit = limit.max(limits.text / 4);
        let Some(cut) = &mut self.cut else { return };
        if self.kept.text <= limit {
            return;
        }
        let spare = self.kept.text - limit + limit / 4;
        let mut gone = 0;
        let mut empty = 0;
        for item in self.items.iter_mut().skip(cut.at) {
            let left = spare.saturating_sub(gone);
            match item {
                Item::Text(text) if left < text.shown.len() => {
                    let split = floor_boundary(&text.shown, left);
                    text.shown.drain(..split);
                    text.shown.shrink_to_fit();
                    gone += split;
                    break;
                }
                Item::Text(text) => {
                    gone += text.shown.len();
                    text.shown = String::new();
                    empty += 1;
                }
                Item::Rich(rich) if rich.kept.text > SHORT => {
                    let before = rich.kept.text;
                    rich.shorten(|_, _| true);
                    gone += before - rich.kept.text.min(before);
                }
                Item::Rich(_) => {}
            }
            if gone >= spare {
                break;
            }
        }
        self.kept.text = self.kept.text.saturating_sub(gone);
        cut.bytes += gone;
        if empty > 0 {
            let at = cut.at;
            let mut index = 0;
            self.items.retain(|item| {
                index += 1;
                index <= at || !matches!(item, Item::Text(text) if text.shown.is_empty())
            });
        }
        if self.kept.text > limit {
            // Many tracebacks in a row.
            let spare = self.kept.text - limit + limit / 4;
            self.remove(|kept, gone| gone.text < spare && kept.text > 0);
        }
    }

    fn cut_count(&mut self, limits: &CellLimits) {
        if self.items.len() > limits.outputs {
            let spare = self.items.len() - limits.outputs + limits.outputs / 4;
            let mut left = spare;
            self.remove(|_, _| {
                let more = left > 0;
                left = left.saturating_sub(1);
                more
            });
        }
    }

    /// Removes the items after the beginning for which `which` returns true, oldest first. `which` gets the size of the
    /// item and the total removed so far.
    fn remove(&mut self, mut which: impl FnMut(Kept, Kept) -> bool) {
        let Some(cut) = &mut self.cut else { return };
        let mut index = 0;
        let mut gone = Kept::default();
        let before = self.items.len();
        self.items.retain(|item| {
            index += 1;
            let kept = item.kept();
            let stays = index <= cut.at || !which(kept, gone);
            if !stays {
                gone.add(kept);
            }
            stays
        });
        self.kept.take(gone);
        cut.outputs += before - self.items.len();
        cut.bytes += gone.text + gone.rich;
    }
}
