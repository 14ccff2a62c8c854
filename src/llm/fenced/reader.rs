//! Reads a reply while it streams and separates text, code to run, and code for display.
//!
//! Fragments of any size are processed line by line, so that fragmentation does not matter. Code is passed on line by
//! line while its block is open; what can only be judged whole (a block without a language, a call as JSON) is passed
//! on at its end. Text is passed on at once, except where it may turn out to be something else.

mod words;

use std::borrow::Cow;

use super::blocks::{self, Block, Reply};
use super::habits::{self, Written};
use super::info::{self, BlockUse};
use crate::llm::coded::{Accept, Piece, ReadReply};

/// Unsettled text longer than this many bytes is no longer searched for markers.
const LONG: usize = 256 << 10;

/// Text is rescanned only after it has grown by 1/n of its length, so that a reply of megabytes does not take quadratic
/// time.
const GROWN: usize = 256;

/// A reply so far.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about the reply that do not depend on each other"
)]
pub(crate) struct Reader {
    accept: Accept,
    /// Whole lines since the last point before which everything is settled.
    text: String,
    /// The incomplete last line.
    line: String,
    /// Whether the last character was a carriage return, which may be half of a line ending.
    returned: bool,
    /// Bytes of `line` passed on as text.
    partial: usize,
    /// Bytes of `text` passed on or dropped.
    done: usize,
    /// Length of `text` at the last scan.
    looked: usize,
    /// The block being passed on, by its start in `text`.
    open: Option<Open>,
    /// An indented opening fence, held until the next line arrives.
    opener: Option<String>,
    /// Whether that fence's indentation was removed, so that the closing one's must be too.
    moved: bool,
    /// Trailing white space of the text, held back.
    blank: String,
    /// Whether the next text is the first, or the first after code.
    fresh: bool,
    /// Whether any text was passed on.
    told: bool,
    /// Whether any code was passed on to run.
    ran: bool,
    stopped: bool,
}

#[derive(Debug)]
struct Open {
    start: usize,
    kind: BlockUse,
    /// Import lines that preceded the fence.
    imports: String,
    /// Bytes of the code passed on.
    sent: usize,
    begun: bool,
}

impl Reader {
    pub(crate) fn new(accept: Accept) -> Self {
        Self {
            accept,
            text: String::new(),
            line: String::new(),
            returned: false,
            partial: 0,
            done: 0,
            looked: 0,
            open: None,
            opener: None,
            moved: false,
            blank: String::new(),
            fresh: true,
            told: false,
            ran: false,
            stopped: false,
        }
    }
}

impl ReadReply for Reader {
    fn read(&mut self, fragment: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.accept == Accept::Words {
            self.say(fragment, &mut pieces);
            return pieces;
        }
        let mut lines = false;
        let fragment = self.with_line_feeds(fragment);
        for part in fragment.split_inclusive('\n') {
            if self.stopped {
                break;
            }
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take(line, &mut pieces);
                lines = true;
            }
        }
        if lines && self.has_grown() {
            self.tell(false, &mut pieces);
        }
        self.tell_partial(&mut pieces);
        pieces
    }

    fn finish(&mut self, cut: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.stopped || self.accept == Accept::Words {
            return pieces;
        }
        let mut line = std::mem::take(&mut self.line);
        if !line.is_empty() || self.returned {
            // CommonMark treats the end of the text as the end of a line.
            line.push('\n');
            self.take(line, &mut pieces);
        }
        if let Some(opener) = self.opener.take() {
            self.text.push_str(&opener);
        }
        self.cut_off(cut, &mut pieces);
        self.stopped = true;
        pieces
    }

    fn anew(&self) -> Box<dyn ReadReply> {
        Box::new(Self::new(self.accept))
    }
}

impl Reader {
    /// Normalises line endings to `
    /// `. CommonMark knows three, and a fence may follow each.
    fn with_line_feeds<'a>(&mut self, fragment: &'a str) -> Cow<'a, str> {
        if !self.returned && !fragment.contains('\r') {
            return Cow::Borrowed(fragment);
        }
        let mut text = String::with_capacity(fragment.len() + 1);
        for c in fragment.chars() {
            if std::mem::take(&mut self.returned) && c != '\n' {
                text.push('\n');
            }
            match c {
                '\r' => self.returned = true,
                c => text.push(c),
            }
        }
        Cow::Owned(text)
    }

    fn has_grown(&self) -> bool {
        (self.text.len() - self.looked.min(self.text.len())) * GROWN >= self.looked
    }

    /// A whole line.
    fn take(&mut self, line: String, pieces: &mut Vec<Piece>) {
        if let Some(opener) = self.opener.take() {
            // By the rules, code indented less than its fence ends the list that contains the fence, and the closing
            // fence would open another block. The intended meaning is clear.
            self.moved = !line.trim().is_empty()
                && habits::indentation(&line) < habits::indentation(&opener);
            self.text.push_str(if self.moved {
                opener.trim_start()
            } else {
                &opener
            });
        }
        let text = line.trim_start();
        if self.moved && text.len() > 3 && text.trim_end().chars().all(|c| matches!(c, '`' | '~')) {
            self.moved = false;
            self.text.push_str(text);
            return;
        }
        if text.len() < line.len()
            && (text.starts_with("```") || text.starts_with("~~~"))
            && !self.within()
        {
            self.opener = Some(line);
            return;
        }
        if habits::may_be_mark(&line)
            && self.partial == 0
            && !self.within()
            && let Some(mended) = habits::mend(&line)
        {
            self.text.push_str(&mended);
            return;
        }
        if self.partial == 0 && habits::makes_up_output(&line) && !self.within() {
            self.tell(false, pieces);
            if self.stopped {
                return;
            }
            if self
                .text
                .get(self.done..)
                .is_some_and(|rest| rest.trim().is_empty())
                && self.ran
                && self.fresh
            {
                self.stopped = true;
                pieces.push(Piece::Stop);
                return;
            }
        }
        if let Some(end) = habits::end(&line)
            && self.within_mended()
        {
            self.text.push_str(&end);
            return;
        }
        let all_told = self.done == self.text.len();
        self.text.push_str(&line);
        if all_told {
            self.done += self.partial;
        }
        self.partial = 0;
    }

    /// The block that the next line would belong to.
    fn last_open(&self) -> Option<Block> {
        blocks::scan(&self.text, Reply::Going)
            .pop()
            .filter(|block| !self.has_ended(block))
    }

    fn within(&self) -> bool {
        self.text.len() > LONG || self.last_open().is_some()
    }

    fn within_mended(&self) -> bool {
        self.text.len() <= LONG
            && self.last_open().is_some_and(|block| {
                let text = self.text.get(block.range.start..);
                text.is_some_and(habits::is_mended)
            })
    }

    /// Ended by its fence, or because the surrounding list or quote has ended.
    fn has_ended(&self, block: &Block) -> bool {
        let rest = self.text.get(block.range.end..).unwrap_or_default();
        !block.in_doubt && (block.closed || !rest.trim().is_empty())
    }

    /// Passes on what has become certain; everything if `last`.
    fn tell(&mut self, last: bool, pieces: &mut Vec<Piece>) {
        if self.stopped {
            return;
        }
        self.looked = self.text.len();
        let (mut settled, mut previous) = (0, 0);
        let reply = if last { Reply::Over } else { Reply::Going };
        let blocks = blocks::scan(&self.text, reply);
        let in_doubt = blocks.last().is_some_and(|block| block.in_doubt);
        for block in blocks {
            let is_open = self
                .open
                .as_ref()
                .is_some_and(|open| open.start == block.range.start);
            let before = previous..block.range.start;
            previous = block.range.end;
            if !is_open && block.range.end <= self.done {
                continue;
            }
            let ended = self.has_ended(&block) || last;
            if !is_open {
                let announced = self.announces_output(before);
                if self.is_made_up(&block, announced) {
                    let words = self.text.get(self.done..block.range.start);
                    let words = words.unwrap_or_default().to_owned();
                    self.say(&words, pieces);
                    self.stopped = true;
                    pieces.push(Piece::Stop);
                    return;
                }
                self.begin(&block, announced, pieces);
            }
            if !self.show(&block, ended, pieces) {
                return;
            }
            self.open = None;
            self.done = block.range.end.max(self.done);
            if block.top {
                settled = self.done;
            }
        }
        if in_doubt {
            // A fence in the text after the block may still open another one.
            return;
        }
        self.tell_words(last, pieces);
        if settled > 0 {
            // A top-level block separates the text before it from the text after it.
            self.text.drain(..settled);
            self.done -= settled;
            self.looked = self.text.len();
        }
    }

    /// Ends the reply; an open block gets no end if the reply was cut off.
    fn cut_off(&mut self, cut: bool, pieces: &mut Vec<Piece>) {
        let unfinished = cut && self.within();
        self.tell(true, pieces);
        if unfinished && pieces.last() == Some(&Piece::End) {
            pieces.pop();
        }
    }

    /// Whether the text before a block announces an output.
    fn announces_output(&self, before: std::ops::Range<usize>) -> bool {
        let before = self.text.get(before).unwrap_or_default();
        before
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .is_some_and(habits::announces_output)
    }

    /// Whether the block is an output that the model invented after its code.
    fn is_made_up(&self, block: &Block, announced: bool) -> bool {
        let before = self.text.get(self.done..block.range.start);
        let next = self.fresh && before.is_none_or(|before| before.trim().is_empty());
        let output = match info::kind(&block.info) {
            BlockUse::Output => true,
            BlockUse::Perhaps(None) | BlockUse::Show => announced || next,
            BlockUse::Code(_)
            | BlockUse::Perhaps(Some(_))
            | BlockUse::Call
            | BlockUse::MarkedCall => announced,
        };
        self.ran && output
    }

    /// Starts a new block: the text before it is now certain.
    fn begin(&mut self, block: &Block, announced: bool, pieces: &mut Vec<Piece>) {
        let start = block.range.start;
        let before = self
            .text
            .get(self.done..start)
            .unwrap_or_default()
            .to_owned();
        let mut kind = match (self.accept, info::kind(&block.info)) {
            (Accept::Blocks, kind) | (_, kind @ (BlockUse::Call | BlockUse::MarkedCall)) => kind,
            (_, _) => BlockUse::Show,
        };
        if announced && matches!(kind, BlockUse::Perhaps(None)) {
            kind = BlockUse::Show;
        }
        let python = match &kind {
            BlockUse::Code(language) | BlockUse::Perhaps(language) => language
                .as_deref()
                .is_none_or(|language| language == "python"),
            _ => false,
        };
        let imports = if python {
            let line = self.next_line(&before);
            line + habits::imports_at_end(before.get(line..).unwrap_or_default())
        } else {
            before.len()
        };
        let (words, imports) = before.split_at(imports);
        // A list marker is not text.
        let words = if imports.is_empty() {
            words.trim_end_matches([' ', '\t'])
        } else {
            words
        };
        self.say(words, pieces);
        let imports: String = imports
            .lines()
            .filter(|line| !line.trim().is_empty())
            .fold(String::new(), |all, line| all + line + "\n");
        self.done = start;
        self.open = Some(Open {
            start,
            kind,
            imports,
            sent: 0,
            begun: false,
        });
    }

    /// Passes on what is available of a block. Returns whether it is complete.
    fn show(&mut self, block: &Block, ended: bool, pieces: &mut Vec<Piece>) -> bool {
        let Some(open) = &mut self.open else {
            return true;
        };
        let run = match &open.kind {
            BlockUse::Code(language) => Some(language.clone()),
            BlockUse::Perhaps(_) | BlockUse::Call | BlockUse::MarkedCall if !ended => return false,
            BlockUse::Perhaps(language) => {
                let is_code = match language {
                    None => habits::looks_like_code(&block.code),
                    Some(_) => habits::is_script(&block.code),
                };
                is_code.then(|| language.clone())
            }
            BlockUse::Call | BlockUse::MarkedCall => {
                let calls = habits::calls(&block.code);
                let marked = open.kind == BlockUse::MarkedCall;
                let calls = calls.or_else(|| {
                    // Passed on so that the model learns that it is broken.
                    let arguments = block.code.trim().to_owned();
                    marked.then_some(vec![Written {
                        name: None,
                        arguments,
                    }])
                });
                if let Some(calls) = calls {
                    self.ran_something();
                    pieces.extend(
                        calls
                            .into_iter()
                            .map(|call| Piece::Call(call.name, call.arguments)),
                    );
                    return true;
                }
                None
            }
            BlockUse::Output | BlockUse::Show => None,
        };
        if let Some(language) = run {
            self.run(language, &block.code, ended, pieces);
        } else {
            // Text after a doubtful fence may belong to no block, and would be passed on twice.
            let end = if ended || block.in_doubt {
                block.range.end
            } else {
                self.text.len()
            };
            let raw = self.text.get(self.done..end).unwrap_or_default().to_owned();
            self.say(&raw, pieces);
            self.done = end.max(self.done);
        }
        ended
    }

    /// Passes on the available code; the last line break belongs to the fence.
    fn run(&mut self, language: Option<String>, code: &str, ended: bool, pieces: &mut Vec<Piece>) {
        let Some(open) = &mut self.open else { return };
        let code = format!("{}{code}", open.imports);
        let code = code.strip_suffix('\n').unwrap_or(&code);
        // The block may contain only blank lines.
        if code.trim().is_empty() && !open.begun {
            return;
        }
        let new = code.get(open.sent..).unwrap_or_default();
        if !open.begun && (ended || !new.is_empty()) {
            open.begun = true;
            pieces.push(Piece::Begin(language));
        }
        if !new.is_empty() {
            open.sent = code.len();
            pieces.push(Piece::Code(new.to_owned()));
        }
        if ended {
            pieces.push(Piece::End);
        }
        // An empty block did not run.
        if open.begun {
            self.ran_something();
        }
    }

    fn ran_something(&mut self) {
        self.ran = true;
        self.fresh = true;
        self.blank.clear();
    }
}

#[cfg(test)]
mod tests;
