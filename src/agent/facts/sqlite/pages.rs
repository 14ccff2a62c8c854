//! Pages of a database, the trees they make, and the records in these.
//!
//! Each number in a page is hostile: every read has its bound, pages are read from a budget, and a tree that leads back into
//! itself ends where that is used up.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::agent::facts::input::Broken;

/// Rows of the schema, and of a table's beginning.
pub(super) const SCHEMA: usize = 5_000;
pub(super) const FIRST: usize = 100;
/// Pages that are read in all.
const PAGES: usize = 100_000;
/// Pages of one level of a tree that are counted; of more, every so many.
const LEVEL: usize = 25_000;
/// Levels of a tree.
const LEVELS: usize = 12;
/// Bytes of a record that are read.
const RECORD: usize = 64 << 10;
/// Characters of a text that are kept.
const TEXT: usize = 16 << 10;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob,
}

/// A row of a table.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) items: Vec<Item>,
}

/// How many rows a table has.
pub(super) struct Count {
    pub(super) rows: u64,
    pub(super) is_exact: bool,
}

/// A database file.
pub(super) struct Database<'a> {
    file: &'a File,
    page: usize,
    /// Bytes of a page that are used.
    usable: usize,
    pages: u64,
    encoding: u32,
    left: usize,
}

/// A page of a tree.
struct Page {
    bytes: Vec<u8>,
    /// Where its header begins.
    start: usize,
    kind: u8,
    cells: usize,
}

const BAD: &str = "a page of it is damaged";

impl<'a> Database<'a> {
    pub(super) fn open(file: &'a File, bytes: u64) -> Result<Self, Broken> {
        let mut head = [0; 100];
        file.read_exact_at(&mut head, 0)?;
        let page = match be(&head, 16, 2).unwrap_or(0) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => size,
            _ => return Err(BAD.into()),
        };
        let page = usize::try_from(page).unwrap_or(512);
        let reserved = usize::from(*head.get(20).unwrap_or(&0));
        Ok(Self {
            file,
            page,
            usable: page - reserved,
            pages: bytes / page as u64,
            encoding: u32::try_from(be(&head, 56, 4).unwrap_or(1)).unwrap_or(1),
            left: PAGES,
        })
    }

    fn spend(&mut self) -> Result<(), Broken> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or("it is too large to be looked through")?;
        Ok(())
    }

    fn offset(&self, number: u32) -> Result<u64, Broken> {
        let at = u64::from(number)
            .checked_sub(1)
            .filter(|at| *at < self.pages)
            .ok_or(BAD)?;
        Ok(at * self.page as u64)
    }

    fn page(&mut self, number: u32) -> Result<Page, Broken> {
        self.spend()?;
        let mut bytes = vec![0; self.page];
        self.file.read_exact_at(&mut bytes, self.offset(number)?)?;
        let start = if number == 1 { 100 } else { 0 };
        let kind = *bytes.get(start).ok_or(BAD)?;
        let cells = usize::try_from(be(&bytes, start + 3, 2).ok_or(BAD)?).unwrap_or(0);
        Ok(Page {
            bytes,
            start,
            kind,
            cells,
        })
    }

    /// Kind and cells of a page, without the rest of it.
    fn head(&mut self, number: u32) -> Result<(u8, u64), Broken> {
        self.spend()?;
        let start = if number == 1 { 100 } else { 0 };
        let mut head = [0; 8];
        self.file
            .read_exact_at(&mut head, self.offset(number)? + start)?;
        Ok((*head.first().unwrap_or(&0), be(&head, 3, 2).unwrap_or(0)))
    }

    /// The first rows of the table at `root`.
    pub(super) fn rows(&mut self, root: u32, most: usize) -> Result<Vec<Row>, Broken> {
        let mut rows = Vec::new();
        let mut open = vec![root];
        let mut seen = 0;
        while let Some(number) = open.pop() {
            seen += 1;
            if rows.len() >= most || seen > most {
                break;
            }
            let page = self.page(number)?;
            match page.kind {
                0x05 => {
                    let mut children = page.children()?;
                    children.reverse();
                    children.truncate(LEVEL);
                    open.extend(children);
                }
                0x0d => {
                    for at in 0..page.cells.min(most - rows.len()) {
                        rows.push(self.row(&page, at)?);
                    }
                }
                _ => return Err(BAD.into()),
            }
        }
        Ok(rows)
    }

    /// How many rows the tree at `root` has: counted, or by a part of its pages.
    pub(super) fn count(&mut self, root: u32) -> Result<Count, Broken> {
        let (mut level, mut scale, mut is_exact) = (vec![root], 1.0_f64, true);
        let mut inner = 0_u64;
        for _ in 0..LEVELS {
            if level.len() > LEVEL {
                let step = level.len().div_ceil(LEVEL / 10);
                let before = level.len();
                level = level.into_iter().step_by(step).collect();
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let by = before as f64 / level.len() as f64;
                (scale, is_exact) = (scale * by, false);
            }
            let first = *level.first().ok_or(BAD)?;
            let (kind, _) = self.head(first)?;
            if matches!(kind, 0x0d | 0x0a) {
                let mut cells = 0_u64;
                for number in level {
                    cells += self.head(number)?.1;
                }
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "an estimate"
                )]
                let rows = if is_exact {
                    cells
                } else {
                    (cells as f64 * scale) as u64
                };
                return Ok(Count {
                    rows: rows + inner,
                    is_exact,
                });
            }
            let mut below = Vec::new();
            for number in level {
                let page = self.page(number)?;
                // Trees of tables without row ids have rows in all pages.
                if page.kind == 0x02 {
                    inner += page.cells as u64;
                }
                if below.len() < LEVEL * 100 {
                    below.extend(page.children()?);
                }
            }
            level = below;
        }
        Err(BAD.into())
    }

    fn row(&mut self, page: &Page, at: usize) -> Result<Row, Broken> {
        let start = page.cell(at)?;
        let rest = page.bytes.get(start..).ok_or(BAD)?;
        let (length, used) = varint(rest).ok_or(BAD)?;
        let (id, more) = varint(rest.get(used..).unwrap_or_default()).ok_or(BAD)?;
        let body = rest.get(used + more..).unwrap_or_default();
        let length = usize::try_from(length).map_err(|_| BAD)?;
        let payload = self.payload(body, length)?;
        Ok(Row {
            id: id.cast_signed(),
            items: self.items(&payload).unwrap_or_default(),
        })
    }

    /// The beginning of a record, which may go on in pages of its own ("Cell Payload Overflow Pages").
    fn payload(&mut self, body: &[u8], length: usize) -> Result<Vec<u8>, Broken> {
        let most = self.usable.saturating_sub(35);
        if length <= most {
            return Ok(body.get(..length).ok_or(BAD)?.to_vec());
        }
        let least = (self.usable.saturating_sub(12) * 32 / 255).saturating_sub(23);
        let chunk = self.usable.saturating_sub(4).max(1);
        let here = least + (length - least) % chunk;
        let here = if here <= most { here } else { least };
        let mut payload = body.get(..here).ok_or(BAD)?.to_vec();
        let mut next = be(body, here, 4).unwrap_or(0);
        while next != 0 && payload.len() < length.min(RECORD) {
            self.spend()?;
            let offset = self.offset(u32::try_from(next).unwrap_or(0))?;
            let mut bytes = vec![0; self.page];
            self.file.read_exact_at(&mut bytes, offset)?;
            next = be(&bytes, 0, 4).unwrap_or(0);
            let wanted = (length - payload.len()).min(chunk);
            payload.extend_from_slice(bytes.get(4..4 + wanted).ok_or(BAD)?);
        }
        Ok(payload)
    }

    /// The values of a record ("Record Format"); those that were not read are missing.
    fn items(&self, payload: &[u8]) -> Option<Vec<Item>> {
        let (length, used) = varint(payload)?;
        let length = usize::try_from(length).ok()?;
        let mut kinds = payload.get(used..length)?;
        let mut body = payload.get(length..)?;
        let mut items = Vec::new();
        while !kinds.is_empty() {
            let (kind, used) = varint(kinds)?;
            kinds = kinds.get(used..)?;
            let size = match kind {
                0 | 8 | 9 | 10 | 11 => 0,
                1..=4 => usize::try_from(kind).ok()?,
                5 => 6,
                6 | 7 => 8,
                kind => usize::try_from((kind - 12) / 2).ok()?,
            };
            let bytes = body.get(..size.min(body.len()))?;
            let is_whole = bytes.len() == size;
            body = body.get(bytes.len()..)?;
            items.push(match kind {
                0 => Item::Null,
                8 => Item::Int(0),
                9 => Item::Int(1),
                1..=6 if is_whole => {
                    let value = bytes
                        .iter()
                        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
                    // Two's complement of so many bytes.
                    let shift = 64 - 8 * u32::try_from(size).ok()?;
                    Item::Int((value << shift).cast_signed() >> shift)
                }
                7 if is_whole => Item::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
                kind if kind >= 12 && kind % 2 == 1 => Item::Text(self.text(bytes)),
                kind if kind >= 12 => Item::Blob,
                _ => return Some(items),
            });
        }
        Some(items)
    }

    fn text(&self, bytes: &[u8]) -> String {
        let bytes = bytes.get(..bytes.len().min(TEXT)).unwrap_or_default();
        match self.encoding {
            2 => encoding_rs::UTF_16LE
                .decode_without_bom_handling(bytes)
                .0
                .into_owned(),
            3 => encoding_rs::UTF_16BE
                .decode_without_bom_handling(bytes)
                .0
                .into_owned(),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

impl Page {
    fn cell(&self, at: usize) -> Result<usize, Broken> {
        let width = if matches!(self.kind, 0x05 | 0x02) {
            12
        } else {
            8
        };
        let pointer = be(&self.bytes, self.start + width + 2 * at, 2).ok_or(BAD)?;
        usize::try_from(pointer).map_err(|_| BAD.into())
    }

    fn children(&self) -> Result<Vec<u32>, Broken> {
        if !matches!(self.kind, 0x05 | 0x02) {
            return Err(BAD.into());
        }
        let mut children = Vec::with_capacity(self.cells + 1);
        for at in 0..self.cells {
            let cell = self.cell(at)?;
            children.push(be(&self.bytes, cell, 4).ok_or(BAD)?);
        }
        children.push(be(&self.bytes, self.start + 8, 4).ok_or(BAD)?);
        Ok(children
            .into_iter()
            .map(|it| u32::try_from(it).unwrap_or(0))
            .collect())
    }
}

/// A big-endian number of so many bytes.
fn be(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(
        bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    )
}

/// A number of one to nine bytes, and how many those are.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for at in 0..9 {
        let byte = *bytes.get(at)?;
        if at == 8 {
            return Some((value << 8 | u64::from(byte), 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}
